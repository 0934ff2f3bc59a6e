//! Published sets side by side: like with like only, and said in words where a row is not alike.

use std::fmt;

use super::{Block, Method, Platform, Row, Set, Version};
use crate::probe::verdict::{SyncMethod, figure};

/// One finding about two sets, by their places in the slice that was compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The first set.
    pub a: usize,
    /// The set beside it.
    pub b: usize,
    /// What to call them.
    pub names: (String, String),
    /// What was found.
    pub finding: Finding,
}

/// What can be said about a line of two sets. Rates are operations a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Finding {
    /// The syncs that reach the drive: what the two machines promise for one 8 kB write.
    Flushing {
        /// The method in the first set and its rate.
        a: (SyncMethod, f64),
        /// The method in the second set and its rate.
        b: (SyncMethod, f64),
    },
    /// A line that means the same in both.
    Alike {
        /// Block and method of the first set.
        line: (Block, Method),
        /// Rate in the first set.
        a: f64,
        /// Rate in the second set.
        b: f64,
    },
    /// One side's `fsync` does not flush; beside the other's it would look fast.
    HandsOver {
        /// Whether the set that does not flush is the second.
        second: bool,
        /// Its `fsync`.
        handed_over: f64,
        /// What flushes there: `fsync_writethrough`, if it was measured.
        flushing: Option<f64>,
        /// The other side's `fsync`, which flushes.
        flushed: f64,
    },
    /// 13 opened and closed the file for every write without sync, 14 does not.
    LastLineChanged,
    /// The text does not show on which side of 13 / 14 the versions are.
    LastLineUnsure,
    /// The writes of the two servers differ in size, kB.
    WriteSizes(u32, u32),
    /// The `open_*` lines of one used direct I/O, those of the other did not.
    DirectIoDiffers,
}

/// Compares every two sets, in order. Lines that are missing or `n/a` in one are left out.
pub fn compare(sets: &[Set]) -> Vec<Difference> {
    let mut differences = Vec::new();
    for (a, first) in sets.iter().enumerate() {
        for (b, second) in sets.iter().enumerate().skip(a + 1) {
            let names = (name(first, a), name(second, b));
            let found = findings(first, second);
            differences.extend(found.into_iter().map(|finding| Difference {
                a,
                b,
                names: names.clone(),
                finding,
            }));
        }
    }
    differences
}

fn name(set: &Set, place: usize) -> String {
    if set.source.is_empty() { format!("set {}", place + 1) } else { set.source.clone() }
}

fn findings(a: &Set, b: &Set) -> Vec<Finding> {
    let sizes = (a.origin.write_kb.unwrap_or(8), b.origin.write_kb.unwrap_or(8));
    let mut found = Vec::new();
    if sizes.0 == sizes.1 {
        let (of_a, of_b) = (a.flushing_sync(), b.flushing_sync());
        if let (Some(rate_a), Some(rate_b)) = (a.one(of_a), b.one(of_b)) {
            found.push(Finding::Flushing { a: (of_a, rate_a), b: (of_b, rate_b) });
        }
        found.extend(hands_over(a, b, false));
        found.extend(hands_over(b, a, true));
    } else {
        found.push(Finding::WriteSizes(sizes.0, sizes.1));
    }
    let direct_io_differs = open_lines_differ(a, b);
    if direct_io_differs {
        found.push(Finding::DirectIoDiffers);
    }
    found.extend(a.rows.iter().filter_map(|row| alike(row, a, b, sizes.0 == sizes.1, direct_io_differs)));
    found.extend(last_line(a, b));
    found
}

/// The trap: `fsync` of macOS beside an `fsync` that flushes.
fn hands_over(mac: &Set, other: &Set, second: bool) -> Option<Finding> {
    if mac.origin.platform != Platform::MacOs || other.origin.platform == Platform::MacOs {
        return None;
    }
    let (handed_over, flushed) = (mac.one(SyncMethod::Fsync)?, other.one(SyncMethod::Fsync)?);
    Some(Finding::HandsOver {
        second,
        handed_over,
        flushing: mac.one(SyncMethod::FsyncWritethrough),
        flushed,
    })
}

fn open_lines_differ(a: &Set, b: &Set) -> bool {
    let differ = matches!((a.origin.direct_io, b.origin.direct_io), (Some(a), Some(b)) if a != b);
    differ && same_calls(a, b)
}

/// Whether a method's name stands for the same promise on both sides.
fn same_calls(a: &Set, b: &Set) -> bool {
    let kind = |set: &Set| match set.origin.platform {
        Platform::Unknown => Platform::Unix,
        known => known,
    };
    kind(a) == kind(b)
}

/// The rates of a line that means the same in both sets.
fn alike(row: &Row, a: &Set, b: &Set, same_size: bool, direct_io_differs: bool) -> Option<Finding> {
    let (block, method) = (row.block, row.method);
    if (block, method) == (Block::One8, Method::Sync(a.flushing_sync())) {
        return None; // said as `Flushing`
    }
    let same_platform = same_calls(a, b);
    let comparable = match block {
        // Whatever the line is called, it flushes on the one and not on the other.
        Block::One8 | Block::Two8 | Block::Fd => same_size && same_platform,
        Block::Sizes => same_platform,
        Block::Nosync => same_size && last_line(a, b).is_none(),
    };
    let by_open = block == Block::Sizes || matches!(method, Method::Sync(method) if method.is_open());
    if !comparable || (by_open && direct_io_differs) {
        return None;
    }
    Some(Finding::Alike { line: (block, method), a: a.rate(block, method)?, b: b.rate(block, method)? })
}

/// Why the last line of two sets cannot be compared, if both have it.
fn last_line(a: &Set, b: &Set) -> Option<Finding> {
    a.rate(Block::Nosync, Method::Write)?;
    b.rate(Block::Nosync, Method::Write)?;
    let (opens, does_not) = (Version::major(13), Version::major(14));
    let (a, b) = (a.origin.versions, b.origin.versions);
    if (a.newest <= opens && b.newest <= opens) || (a.oldest >= does_not && b.oldest >= does_not) {
        None
    } else if (a.newest <= opens && b.oldest >= does_not) || (b.newest <= opens && a.oldest >= does_not) {
        Some(Finding::LastLineChanged)
    } else {
        Some(Finding::LastLineUnsure)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name_a, name_b) = (&self.names.0, &self.names.1);
        match self.finding {
            Finding::Flushing { a: (of_a, a), b: (of_b, b) } => {
                write!(
                    f,
                    "one 8 kB write made durable: {name_a} {}/s ({of_a}), {name_b} {}/s ({of_b}): ",
                    figure(a),
                    figure(b)
                )?;
                faster(f, (name_a, a), (name_b, b))
            }
            Finding::Alike { line: (block, method), a, b } => {
                write!(f, "{block} {method}: {name_a} {}/s, {name_b} {}/s: ", figure(a), figure(b))?;
                faster(f, (name_a, a), (name_b, b))
            }
            Finding::HandsOver { second, handed_over, flushing, flushed } => {
                let (mac, other) = if second { (name_b, name_a) } else { (name_a, name_b) };
                hands_over_in_words(f, (mac, handed_over, flushing), (other, flushed))
            }
            Finding::LastLineChanged => write!(
                f,
                "{name_a} and {name_b}: the line without sync is not compared: up to 13 it opened and closed the file for each write, from 14 on it does not"
            ),
            Finding::LastLineUnsure => write!(
                f,
                "{name_a} and {name_b}: the line without sync is not compared: it changed between 13 and 14, and the text does not show which versions these are"
            ),
            Finding::WriteSizes(a, b) => {
                write!(
                    f,
                    "{name_a} writes {a} kB at a time and {name_b} {b} kB: their syncs are not compared"
                )
            }
            Finding::DirectIoDiffers => write!(
                f,
                "{name_a} and {name_b}: the open_* lines are not compared: only one of them used direct I/O"
            ),
        }
    }
}

fn hands_over_in_words(
    f: &mut fmt::Formatter<'_>,
    (mac, handed_over, flushing): (&str, f64, Option<f64>),
    (other, flushed): (&str, f64),
) -> fmt::Result {
    let (fast, slow) = (figure(handed_over), figure(flushed));
    write!(
        f,
        "{mac}'s fsync ({fast}/s) is not {other}'s fsync ({slow}/s): on macOS fsync hands the data to the drive and does not flush it, so the two are not compared; "
    )?;
    match flushing {
        Some(flushing) => {
            write!(
                f,
                "what flushes there is fsync_writethrough, {}/s, and beside {slow}/s ",
                figure(flushing)
            )?;
            faster(f, (mac, flushing), (other, flushed))
        }
        None => write!(f, "fsync_writethrough, which flushes, was not measured"),
    }
}

/// Within 5 % nothing is faster.
fn faster(f: &mut fmt::Formatter<'_>, (name_a, a): (&str, f64), (name_b, b): (&str, f64)) -> fmt::Result {
    let (name, factor) = if a >= b { (name_a, a / b) } else { (name_b, b / a) };
    if factor <= crate::probe::verdict::ALIKE {
        write!(f, "alike within 5 %")
    } else {
        write!(f, "{name} is {} times as fast", figure(factor))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::set;
    use super::*;

    fn said(names: &[&str]) -> Vec<String> {
        let sets: Vec<Set> = names.iter().map(|name| set(name)).collect();
        compare(&sets).iter().map(Difference::to_string).collect()
    }

    #[test]
    fn why_macos_seemed_to_beat_linux_is_answered_from_the_figures() {
        let sets = [
            set("macos-10.9-intel520-hfs-pg9.3-2014").named("the Mac"),
            set("ssd-owc-ext4-pg9.3-2014").named("the server"),
        ];
        let said: Vec<String> = compare(&sets).iter().map(Difference::to_string).collect();
        assert_eq!(
            said[0],
            "one 8 kB write made durable: the Mac 735/s (fsync_writethrough), the server 1950/s (fsync): \
             the server is 2.65 times as fast"
        );
        assert_eq!(
            said[1],
            "the Mac's fsync (8831/s) is not the server's fsync (1950/s): on macOS fsync hands the data to the \
             drive and does not flush it, so the two are not compared; what flushes there is \
             fsync_writethrough, 735/s, and beside 1950/s the server is 2.65 times as fast"
        );
        assert!(said[2].starts_with("nosync write: the Mac 271112/s, the server 481297/s"), "{said:?}");
        assert_eq!(said.len(), 3, "{said:?}");
    }

    #[test]
    fn the_order_of_the_sets_changes_nothing() {
        let forth = said(&["macos-m1-pg13-decimal-comma", "virtio-pg15-one-second"]);
        let back = said(&["virtio-pg15-one-second", "macos-m1-pg13-decimal-comma"]);
        assert_eq!(forth[1], back[1]);
    }

    #[test]
    fn the_last_line_is_compared_on_one_side_of_14_only() {
        let find = |a: &str, b: &str| {
            let sets = [set(a), set(b)];
            compare(&sets).into_iter().map(|d| d.finding).find(|finding| {
                let nosync = (Block::Nosync, Method::Write);
                matches!(finding, Finding::LastLineChanged | Finding::LastLineUnsure)
                    || matches!(finding, Finding::Alike { line, .. } if *line == nosync)
            })
        };
        let changed = find("zfs-linux-12disks-pg9.3", "layout-17-no-direct-io");
        assert_eq!(changed, Some(Finding::LastLineChanged));
        let unsure = find("zfs-linux-12disks-pg9.3", "virtio-pg15-one-second");
        assert_eq!(unsure, Some(Finding::LastLineUnsure));
        let alike = find("zfs-linux-12disks-pg9.3", "unknown-virtual-pg10");
        assert!(matches!(alike, Some(Finding::Alike { .. })), "{alike:?}");
    }

    #[test]
    fn sizes_are_compared_where_their_counts_agree() {
        let sets = [set("sas10k-raid1-ext3-pg9.1"), set("layout-9.2")];
        let lines: Vec<Method> = compare(&sets)
            .into_iter()
            .filter_map(|difference| match difference.finding {
                Finding::Alike { line: (Block::Sizes, method), .. } => Some(method),
                _ => None,
            })
            .collect();
        assert_eq!(lines, [Method::Writes(1), Method::Writes(2)]);
    }

    #[test]
    fn writes_of_other_sizes_are_not_compared() {
        let mut other = set("layout-9.2");
        other.origin.write_kb = Some(16);
        let found = findings(&set("layout-9.2"), &other);
        assert_eq!(found[0], Finding::WriteSizes(8, 16));
        assert!(!found.iter().any(|f| matches!(f, Finding::Alike { line: (Block::One8, _), .. })));
    }
}
