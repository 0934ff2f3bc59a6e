//! A probe for the terminal: what lies under the place, the table, the verdict in words, what to do next.

use super::WIDTH;
use super::layout::{hanging, paragraph, together, warning, width};
use super::notes;
use super::stack_words::{cache_line, storage_line};
use super::states::{none_ran, state_of, states};
use super::{rates, units};
use crate::results::{Arm, CacheVerdict, Document, Host, NoteCode, Place, Severity, SyncVerdict};
use crate::stats;

/// The label that groups comparable lines, and what its group is called, in the order of the table.
const BLOCKS: [(&str, &str); 12] = [
    ("one8", "one 8 kB write, then"),
    ("two8", "two 8 kB writes, then"),
    ("sizes", "16 kB, in writes of"),
    ("fd", "by another descriptor"),
    ("nosync", "no sync"),
    ("server", "as a server opens WAL"),
    ("wal", "8 kB, then fdatasync"),
    ("same-place", "fdatasync at one place"),
    ("moving", "fdatasync, moving on"),
    ("names", "names"),
    ("others", "other calls"),
    ("writers", "8 kB + fdatasync each"),
];

/// Columns of the line's words.
const TITLE: usize = 27;

/// What of a probe is known before it runs.
pub fn header(document: &Document) -> String {
    let simulated = if document.simulated { "SIMULATED: " } else { "" };
    document.places.iter().fold(String::new(), |text, place| {
        let storage = format!("{simulated}{}", storage_line(&place.stack));
        text + &paragraph(&storage, 2) + &paragraph(&cache_line(&place.stack), 2)
    })
}

/// The table, the verdict, notes, what to do next, what is needed to repeat it.
pub fn results(document: &Document) -> String {
    let mut text = format!("{}\n", tables(document));
    for CacheVerdict { write_cache, verdict } in &document.verdicts {
        text += &said(verdict, &format!(" with the write cache {write_cache}"));
    }
    if let Some(verdict) = document.verdict.as_ref().filter(|_| document.verdicts.is_empty()) {
        text += &verdict_words(verdict);
    }
    text += &others_line(document).map_or_else(String::new, |line| paragraph(&line, 2));
    text += &remarks(document);
    if let Some(next) = document.verdict.as_ref().and_then(|verdict| next(verdict, document)) {
        text += &paragraph(&format!("next: {next}"), 6);
    }
    text + &closing(document)
}

/// The verdict, its reasons, the method.
pub(super) fn verdict_words(verdict: &SyncVerdict) -> String {
    said(verdict, "")
}

fn said(verdict: &SyncVerdict, when: &str) -> String {
    let words = verdict.code.replace('-', " ").to_uppercase();
    let said = format!("{words}{when}: {}.", verdict.reasons.join("; "));
    let told = match verdict.code.as_str() {
        "not-asked" | "answered-from-memory" => warning(&said),
        _ => paragraph(&said, 0),
    };
    told + &paragraph(&format!("wal_sync_method here: {}.", verdict.advice), 0)
}

fn others_line(document: &Document) -> Option<String> {
    let baseline = document.baseline.as_ref()?;
    let quiet = baseline.busy_ns == 0 && baseline.device.flushes == 0;
    let busy = baseline.busy_percent();
    Some(if quiet {
        "Nobody else wrote there before the first slice.".to_owned()
    } else {
        format!("Others kept the disk {busy:.0} % busy before the first slice.")
    })
}

/// One table, or one a state of the write cache.
fn tables(document: &Document) -> String {
    let states = states(document);
    if states.is_empty() {
        return table(&document.arms.iter().collect::<Vec<_>>());
    }
    let tables = states.into_iter().map(|state| {
        let arms: Vec<&Arm> = document.arms.iter().filter(|arm| state_of(arm) == Some(state)).collect();
        let head = format!("write cache {}", state.to_uppercase());
        match none_ran(&arms) {
            Some(why) => hanging(&format!("{head}: "), &why),
            None => format!("{head}\n{}", table(&arms)),
        }
    });
    tables.collect::<Vec<_>>().join("\n")
}

fn table(arms: &[&Arm]) -> String {
    let mut text = String::new();
    let known = BLOCKS.iter().map(|(block, heading)| ((*block).to_owned(), (*heading).to_owned()));
    let block_of = |arm: &Arm| arm.labels.get("block").unwrap_or_default().to_owned();
    let others = arms.iter().map(|arm| (block_of(arm), block_of(arm)));
    let mut shown: Vec<String> = Vec::new();
    for (block, heading) in known.chain(others) {
        let lines: Vec<&Arm> = arms.iter().copied().filter(|arm| block_of(arm) == block).collect();
        if lines.is_empty() || shown.contains(&block) {
            continue;
        }
        text += &if shown.is_empty() { columns(&heading) } else { heading + "\n" };
        text += &lines.into_iter().map(line).collect::<String>();
        shown.push(block);
    }
    text
}

fn columns(heading: &str) -> String {
    let columns = ["mean", "p50", "p99", "max"].map(|column| format!("{column:>7}")).concat();
    format!("{heading:<TITLE$}{:>8}{:>7}{columns}{:>9}\n", "ops/s", "n", "flush/op")
}

fn line(arm: &Arm) -> String {
    // pg_test_fsync pads the sizes of its labels.
    let title = format!("  {}", arm.title.as_deref().unwrap_or(&arm.name).replace("*  ", "* "));
    let title = format!("{title:<TITLE$} ");
    if let Some(refused) = &arm.refused {
        return hanging(&title, &format!("n/a: {}", refused.text));
    }
    if let Some(failed) = &arm.failed {
        return hanging(&title, &format!("FAILED: {}", failed.text));
    }
    let Some(rate) = arm.summary.as_ref().and_then(|summary| summary.ops_per_sec) else {
        return hanging(&title, "not measured");
    };
    let latency = arm.latency.get("operation");
    let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), units::duration);
    let times = [
        mean_ns(arm),
        latency.and_then(|latency| latency.p50_ns),
        latency.and_then(|latency| latency.p99_ns),
        latency.map(|latency| latency.max_ns),
    ];
    let times = times.map(|ns| format!("{:>7}", time(ns))).concat();
    let flushes = arm.device.map_or_else(|| "-".to_owned(), |device| flushes(device.flushes_per_op));
    let operations = latency.map_or(0, |latency| latency.n);
    let rate = rates::rate(rate);
    let figures = format!("{rate:>7}{operations:>7}{times}{flushes:>9}");
    let mut text = format!("{title}{figures}\n");
    if width(&text) > WIDTH + 1 {
        text = format!("{}\n{figures:>WIDTH$}\n", title.trim_end());
    }
    text
}

fn mean_ns(arm: &Arm) -> Option<u64> {
    let counted = arm.samples.iter().filter(|sample| !sample.ignored);
    let (operations, elapsed_ns) = counted.fold((0_u64, 0_u64), |(operations, elapsed_ns), sample| {
        (operations + sample.operations.unwrap_or(0), elapsed_ns + sample.elapsed_ns)
    });
    elapsed_ns.checked_div(operations)
}

/// None is told apart from few.
fn flushes(per_op: f64) -> String {
    if per_op == 0.0 { "0".to_owned() } else { format!("{per_op:.2}") }
}

/// Notes that neither the head nor the verdict has said; those about single lines counted only.
fn remarks(document: &Document) -> String {
    const SAID: [NoteCode; 7] = [
        NoteCode::MemoryFileSystem,
        NoteCode::BarriersOff,
        NoteCode::OverlayVolatile,
        NoteCode::PreloadShim,
        NoteCode::WriteCacheUnknown,
        NoteCode::VirtualDisk,
        NoteCode::OtherWriters,
    ];
    const OF_LINES: [NoteCode; 3] = [NoteCode::Unstable, NoteCode::FirstRoundSlow, NoteCode::Outliers];
    let unstable = document.arms.iter().filter(|arm| is_unstable(arm)).count();
    let scattered = (unstable > 0).then(|| {
        let lines = document.arms.iter().filter(|arm| arm.summary.is_some()).count();
        let text = format!(
            "{unstable} of {lines} lines scatter by 10 % or more from slice to slice; a longer --time steadies them"
        );
        paragraph(&format!("note: {text}"), 2)
    });
    let rest = document
        .notes
        .iter()
        .filter(|note| !SAID.contains(&note.code) && !OF_LINES.contains(&note.code))
        .filter(|note| note.severity >= Severity::Warning);
    scattered.into_iter().chain(rest.map(notes::line)).collect()
}

fn is_unstable(arm: &Arm) -> bool {
    let counted = arm.samples.iter().filter(|sample| !sample.ignored);
    let each_ns: Vec<f64> = counted.map(|sample| sample.operation_ns() as f64).collect();
    stats::unstable(&each_ns)
}

fn next(verdict: &SyncVerdict, document: &Document) -> Option<String> {
    let path = &document.places.first()?.path;
    let command = |text: &str, why: &str| format!("{}   ({why})", together(text));
    Some(match verdict.code.as_str() {
        "answered-from-memory" | "plausible" | "cannot-tell" if can_be_compared(document) => command(
            &format!("fsynclab probe --write-cache on,off {path}"),
            "switches the drive's cache, and back",
        ),
        "not-asked" => {
            command(&format!("fsynclab drive {path}"), "what lies under it, and who drops the flushes")
        }
        "answered-from-memory" => command(
            &format!("fsynclab drive --write-cache off {path}"),
            "switches the drive's cache; asks first",
        ),
        "honoured" | "not-needed" => {
            command(&format!("fsynclab copy --into {path}"), "what that costs a CREATE DATABASE")
        }
        _ => command("fsynclab plug --help", "cut the power: the only proof"),
    })
}

/// Whether every disk below says that its cache is on, so that it may have a switch; and nobody has compared yet.
fn can_be_compared(document: &Document) -> bool {
    let disks_caching = |place: &Place| {
        let stack = &place.stack;
        !place.simulated
            && !stack.disks.is_empty()
            && stack.layers.iter().all(|layer| layer.kind != "loop")
            && stack.disks.iter().all(|disk| disk.write_cache.drive.as_deref() == Some("on"))
    };
    states(document).is_empty() && document.places.iter().all(disks_caching)
}

fn closing(document: &Document) -> String {
    let Host { kernel, cpus, .. } = &document.host;
    let rounds = document.plan.as_ref().map_or(0, |plan| plan.rounds);
    let slices = document.arms.iter().flat_map(|arm| &arm.samples).filter(|sample| !sample.ignored);
    let (n, sum_ns) = slices.fold((0_u64, 0), |(n, sum), slice| (n + 1, sum + slice.elapsed_ns));
    let slice = units::duration(sum_ns / n.max(1));
    let incomplete = if document.complete { "" } else { "INCOMPLETE: " };
    let seed = document.seed;
    let rounds = units::count(u64::from(rounds), "round");
    paragraph(
        &format!("{incomplete}slices of {slice} in {rounds}, seed {seed}, kernel {kernel}, {cpus} CPUs."),
        0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{CacheView, Disk, Failed, Kind, Labels, PerOperation, Refused, Sample, Stack};
    use crate::stats::{Percentiles, Summary};

    fn arm(block: &str, method: &str, operation_ns: u64, flushes_per_op: f64) -> Arm {
        let sample =
            Sample { round: 1, elapsed_ns: 1000 * operation_ns, operations: Some(1000), ..Sample::default() };
        let summary = Summary {
            n: 1,
            median_ns: operation_ns,
            min_ns: operation_ns,
            max_ns: operation_ns,
            mad_ns: 0,
            median_ci95_ns: None,
            ops_per_sec: Some(1e9 / operation_ns as f64),
            median_tps: None,
            median_tps_ci95: None,
        };
        let latency = Percentiles {
            n: 1000,
            p50_ns: Some(operation_ns),
            p90_ns: Some(operation_ns),
            p99_ns: Some(2 * operation_ns),
            max_ns: 20 * operation_ns,
        };
        Arm {
            title: Some(method.to_owned()),
            labels: Labels::new().with("block", block).with("method", method),
            samples: vec![sample],
            summary: Some(summary),
            latency: std::iter::once(("operation".to_owned(), latency)).collect(),
            device: Some(PerOperation { flushes_per_op, ..PerOperation::default() }),
            ..Arm::default()
        }
    }

    fn disk() -> Disk {
        Disk {
            name: "sda".into(),
            model: Some("ST31000528AS".into()),
            kind: "sata".into(),
            claimed_rpm: Some(7200),
            rotational: true,
            write_cache: CacheView {
                kernel: Some("write back".into()),
                drive: Some("on".into()),
                remark: None,
            },
            ..Disk::default()
        }
    }

    fn document() -> Document {
        let stack = Stack { file_system: "ext4".into(), disks: vec![disk()], ..Stack::default() };
        let place = Place { id: "p1".into(), path: "/mnt".into(), simulated: false, model: None, stack };
        let failed = Failed {
            text: "could not fsync file \"/mnt/x\": Input/output error".into(),
            errno: None,
            call: None,
            path: None,
        };
        let refused =
            Refused { code: "invalid-argument".into(), text: "pwrite64: Invalid argument (EINVAL)".into() };
        let verdict = SyncVerdict {
            code: "answered-from-memory".into(),
            reasons: vec!["6318 synced overwrites of one block a second".into(), "flushes were sent".into()],
            wal_sync_method: "none makes this safe".into(),
            advice: "none makes this safe".into(),
        };
        Document {
            complete: true,
            seed: 42,
            places: vec![place],
            arms: vec![
                arm("one8", "fdatasync", 158_000, 1.0),
                Arm { failed: Some(failed), ..arm("one8", "fsync", 1, 0.0) },
                Arm {
                    summary: None,
                    refused: Some(refused),
                    ..arm("sizes", "8 *  2kB open_sync writes", 1, 0.0)
                },
                arm("nosync", "write", 810, 0.0),
                arm("brand-new", "call", 8_330_000, 0.004),
            ],
            verdict: Some(verdict),
            ..Document::new(Kind::Probe)
        }
    }

    #[test]
    fn the_whole_report() {
        let document = document();
        let text = format!("{}{}", header(&document), results(&document));
        let expected = "\
ext4 on /dev/sda: ST31000528AS, sata, claims 7200 rpm (8.33 ms a turn)
write cache: drive ON, kernel \"write back\" (agree).
one 8 kB write, then          ops/s      n   mean    p50    p99    max flush/op
  fdatasync                    6329   1000 158 us 158 us 316 us 3.2 ms     1.00
  fsync                     FAILED: could not fsync file \"/mnt/x\": Input/output
                            error
16 kB, in writes of
  8 * 2kB open_sync writes  n/a: pwrite64: Invalid argument (EINVAL)
no sync
  write                     1234568   1000 810 ns 810 ns 1.6 us  16 us        0
brand-new
  call                          120   1000 8.3 ms 8.3 ms  17 ms 167 ms     0.00

ANSWERED FROM MEMORY: 6318 synced overwrites of one block a second; flushes
were sent.
wal_sync_method here: none makes this safe.
next: fsynclab probe --write-cache on,off /mnt (switches the drive's cache, and
      back)
slices of 1.70 s in 0 rounds, seed 42, kernel , 0 CPUs.
";
        assert_eq!(anstream::adapter::strip_str(&text).to_string(), expected);
    }

    /// Compared: with the cache on it lies; the switch off is as given.
    fn compared(off: impl Fn(Arm) -> Arm) -> Document {
        let document = document();
        let in_state =
            |arm: Arm, state: &str| Arm { labels: arm.labels.clone().with("write_cache", state), ..arm };
        let found = |state: &str, code: &str, reason: &str| CacheVerdict {
            write_cache: state.into(),
            verdict: SyncVerdict {
                code: code.into(),
                reasons: vec![reason.into()],
                wal_sync_method: "fdatasync".into(),
                advice: "fdatasync".into(),
            },
        };
        Document {
            arms: vec![
                in_state(arm("one8", "fdatasync", 158_000, 1.0), "on"),
                in_state(arm("nosync", "write", 810, 0.0), "on"),
                off(in_state(arm("one8", "fdatasync", 8_330_000, 0.0), "off")),
                off(in_state(arm("nosync", "write", 810, 0.0), "off")),
            ],
            verdicts: vec![
                found(
                    "on",
                    "answered-from-memory",
                    "6329 a second, where the same drive does 120 with its cache off",
                ),
                found("off", "not-needed", "the drive says that its cache is off"),
            ],
            ..document
        }
    }

    #[test]
    fn each_state_of_the_cache_has_its_table_and_its_verdict() {
        let text = results(&compared(|arm| arm));
        let expected = "\
write cache ON
one 8 kB write, then          ops/s      n   mean    p50    p99    max flush/op
  fdatasync                    6329   1000 158 us 158 us 316 us 3.2 ms     1.00
no sync
  write                     1234568   1000 810 ns 810 ns 1.6 us  16 us        0

write cache OFF
one 8 kB write, then          ops/s      n   mean    p50    p99    max flush/op
  fdatasync                     120   1000 8.3 ms 8.3 ms  17 ms 167 ms        0
no sync
  write                     1234568   1000 810 ns 810 ns 1.6 us  16 us        0

ANSWERED FROM MEMORY with the write cache on: 6329 a second, where the same
drive does 120 with its cache off.
wal_sync_method here: fdatasync.
NOT NEEDED with the write cache off: the drive says that its cache is off.
wal_sync_method here: fdatasync.
next: fsynclab drive --write-cache off /mnt (switches the drive's cache; asks
      first)
slices of 2.12 s in 0 rounds, seed 42, kernel , 0 CPUs.
";
        assert_eq!(anstream::adapter::strip_str(&text).to_string(), expected);
    }

    #[test]
    fn a_state_that_could_not_be_is_one_line() {
        let refused =
            || Some(Refused { code: "write-cache".into(), text: "sda carries the root file system".into() });
        let mut document =
            compared(|arm| Arm { summary: None, samples: Vec::new(), refused: refused(), ..arm });
        document.verdicts.truncate(1);
        let text = results(&document);
        assert!(
            text.contains("\n\nwrite cache OFF: refused: sda carries the root file system\n\n"),
            "{text}"
        );
        assert!(!text.contains("n/a"), "{text}");
    }

    #[test]
    fn an_honest_disk_is_led_on() {
        let mut document = document();
        if let Some(verdict) = &mut document.verdict {
            verdict.code = "honoured".into();
        }
        assert!(results(&document).contains("next: fsynclab copy --into /mnt"));
    }
}
