//! A probe in the very layout of pg_test_fsync, as PostgreSQL 15 prints it on Linux: for programs that read that.

use super::units;
use crate::results::{Arm, Document};

/// What stands above a block's lines.
struct Heading {
    block: &'static str,
    text: &'static str,
    /// Methods in order, with their labels.
    lines: &'static [(&'static str, &'static str)],
}

const METHODS: &[(&str, &str)] = &[
    ("open_datasync", "open_datasync"),
    ("fdatasync", "fdatasync"),
    ("fsync", "fsync"),
    ("fsync_writethrough", "fsync_writethrough"),
    ("open_sync", "open_sync"),
];

const HEADINGS: [Heading; 5] = [
    Heading {
        block: "one8",
        text: "Compare file sync methods using one 8kB write:\n\
               (in wal_sync_method preference order, except fdatasync is Linux's default)\n",
        lines: METHODS,
    },
    Heading {
        block: "two8",
        text: "Compare file sync methods using two 8kB writes:\n\
               (in wal_sync_method preference order, except fdatasync is Linux's default)\n",
        lines: METHODS,
    },
    Heading {
        block: "sizes",
        text: "Compare open_sync with different write sizes:\n\
               (This is designed to compare the cost of writing 16kB in different write\n\
               open_sync sizes.)\n",
        lines: &[
            ("1x16kB", " 1 * 16kB open_sync write"),
            ("2x8kB", " 2 *  8kB open_sync writes"),
            ("4x4kB", " 4 *  4kB open_sync writes"),
            ("8x2kB", " 8 *  2kB open_sync writes"),
            ("16x1kB", "16 *  1kB open_sync writes"),
        ],
    },
    Heading {
        block: "fd",
        text: "Test if fsync on non-write file descriptor is honored:\n\
               (If the times are similar, fsync() can sync data written on a different\n\
               descriptor.)\n",
        lines: &[("write_fsync_close", "write, fsync, close"), ("write_close_fsync", "write, close, fsync")],
    },
    Heading { block: "nosync", text: "Non-sync'ed 8kB writes:\n", lines: &[("write", "write")] },
];

const FOOTNOTE: &str =
    "* This file system and its mount options do not support direct\n  I/O, e.g. ext4 in journaled mode.\n";

/// The whole output of `pg_test_fsync -s N`.
pub fn pg_test_fsync(document: &Document, secs_per_test: u32) -> String {
    let seconds = units::count(u64::from(secs_per_test), "second");
    let mut text =
        format!("{seconds} per test\nO_DIRECT supported on this platform for open_datasync and open_sync.\n");
    for heading in &HEADINGS {
        text.push('\n');
        text += heading.text;
        let lines: Vec<(&str, Option<&Arm>)> = heading
            .lines
            .iter()
            .map(|(method, label)| (*label, find(document, heading.block, method)))
            .collect();
        for (label, arm) in &lines {
            text += &line(label, *arm);
        }
        // As there, the block of sizes prints `n/a*` and never its footnote.
        let starred = lines.iter().any(|(_, arm)| arm.is_some_and(|arm| cell(arm) == "n/a*"));
        if starred && heading.block != "sizes" {
            text += FOOTNOTE;
        }
    }
    text
}

fn find<'a>(document: &'a Document, block: &str, method: &str) -> Option<&'a Arm> {
    let is = |arm: &&Arm| arm.labels.get("block") == Some(block) && arm.labels.get("method") == Some(method);
    document.arms.iter().find(is)
}

fn line(label: &str, arm: Option<&Arm>) -> String {
    let rate = arm.and_then(|arm| arm.summary.as_ref()).and_then(|summary| summary.ops_per_sec);
    match rate {
        Some(rate) => format!("        {label:<30}{rate:>13.3} ops/sec  {:>6.0} usecs/op\n", 1e6 / rate),
        None => format!("        {label:<30}{:>21}\n", arm.map_or("n/a", cell)),
    }
}

/// pg_test_fsync gives up where a write fails; a line that could not be here is `n/a*`, as if the open had failed.
fn cell(arm: &Arm) -> &'static str {
    if arm.refused.is_some() { "n/a*" } else { "n/a" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Kind, Labels, Refused};
    use crate::stats::Summary;

    fn arm(block: &str, method: &str, ops_per_sec: f64) -> Arm {
        let summary = Summary {
            n: 7,
            median_ns: 1,
            min_ns: 1,
            max_ns: 1,
            mad_ns: 0,
            median_ci95_ns: None,
            ops_per_sec: Some(ops_per_sec),
            median_tps: None,
            median_tps_ci95: None,
        };
        Arm {
            labels: Labels::new().with("block", block).with("method", method),
            summary: Some(summary),
            ..Arm::default()
        }
    }

    /// The figures of a real run, as they were read from it.
    fn document() -> Document {
        let table = include_str!("../../fixtures/pg_test_fsync/virtio-pg15-one-second.tsv");
        let arms = table.lines().skip(1).filter_map(|line| {
            let cells: Vec<&str> = line.split('\t').collect();
            Some(arm(cells[0], cells[1], cells[2].parse().ok()?))
        });
        Document { arms: arms.collect(), ..Document::new(Kind::Probe) }
    }

    #[test]
    fn the_layout_is_that_of_15_byte_for_byte() {
        let theirs = include_str!("../../fixtures/pg_test_fsync/virtio-pg15-one-second.txt");
        assert_eq!(pg_test_fsync(&document(), 1), theirs);
    }

    #[test]
    fn what_cannot_be_here_is_starred_with_the_footnote_except_among_the_sizes() {
        let mut document = document();
        for arm in &mut document.arms {
            let key = (arm.labels.get("block"), arm.labels.get("method"));
            if matches!(key, (Some("one8"), Some("open_sync")) | (Some("sizes"), Some("8x2kB"))) {
                arm.summary = None;
                arm.refused = Some(Refused { code: "invalid-argument".into(), text: String::new() });
            }
        }
        let text = pg_test_fsync(&document, 5);
        assert!(text.starts_with("5 seconds per test\n"), "{text}");
        assert!(
            text.contains("        open_sync                                      n/a*\n* This file"),
            "{text}"
        );
        assert!(
            text.contains("         8 *  2kB open_sync writes                     n/a*\n        16"),
            "{text}"
        );
        assert_eq!(text.matches(FOOTNOTE).count(), 1);
    }
}
