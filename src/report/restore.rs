//! A run of restores for the terminal: what was restored where, the table of real, user and sys, the parts, the rows.

use super::arms::median_of;
use super::layout::{Table, paragraph};
use super::servers::{self, closing, findings, label_columns, places};
use super::{notes, units};
use crate::results::{Arm, Document, Restored, Sample};

/// The parts of a restore in the order in which they happen, and what they are called.
const PARTS: [(&str, &str); 7] = [
    ("create_database_ns", "CREATE DATABASE"),
    ("schema_ns", "schema"),
    ("tables_ns", "tables"),
    ("indexes_ns", "indexes"),
    ("constraints_ns", "constraints"),
    ("analyze_ns", "ANALYZE"),
    ("checkpoint_ns", "last CHECKPOINT"),
];

/// The servers and the dump: known once the servers are ready.
pub(super) fn header(document: &Document) -> String {
    let mut text = paragraph(&servers::servers(&document.servers), 0);
    if let Some(input) = &document.input {
        text += &paragraph(&format!("Restored: {}, {}.", input.template, units::size(input.bytes)), 0);
    }
    text + &places(document)
}

/// The table, what it shows, the parts, the rows, notes.
pub(super) fn results(document: &Document) -> String {
    let arms: Vec<&Arm> = document.arms.iter().collect();
    let mut text = table(&arms).render() + "\n";
    let told = [parts(&arms), bounds(&arms), device(&arms), segments(&arms), rows(&arms)];
    for sentence in findings(document).into_iter().chain(told.into_iter().flatten()) {
        text += &paragraph(&sentence, 0);
    }
    let slowest = arms.iter().filter_map(|arm| arm.summary.as_ref()).max_by_key(|summary| summary.max_ns);
    if let Some(summary) = slowest {
        let real = long(summary.max_ns);
        text +=
            &paragraph(&format!("{real} was the slowest of {}: an observation, not a bound.", summary.n), 0);
    }
    for note in &document.notes {
        text += &notes::line(note);
    }
    text + &closing(document)
}

fn table(arms: &[&Arm]) -> Table {
    let labels = label_columns(arms);
    let numbers = ["n", "real median", "min", "max", "user", "sys", "WAL", "checkpoints"];
    servers::table(arms.iter().copied(), &labels, &numbers, row)
}

fn row(arm: &Arm) -> Option<Vec<String>> {
    let summary = arm.summary.as_ref()?;
    let median = |value: fn(&Restored) -> u64| of_restored(arm, value);
    Some(vec![
        summary.n.to_string(),
        long(summary.median_ns),
        long(summary.min_ns),
        long(summary.max_ns),
        median(|made| made.user_ns).map_or_else(dash, long),
        median(|made| made.sys_ns).map_or_else(dash, long),
        median(|made| made.wal_bytes).map_or_else(dash, units::size),
        median(|made| made.checkpoints).map_or_else(dash, |count| count.to_string()),
    ])
}

fn dash() -> String {
    "-".to_owned()
}

/// As time(1) prints what takes minutes: `21m38.4s`.
fn long(ns: u64) -> String {
    if ns < 60_000_000_000 {
        return units::duration(ns);
    }
    // In tenths, so that no second is rounded up to sixty.
    let tenths = (ns + 50_000_000) / 100_000_000;
    format!("{}m{:02}.{}s", tenths / 600, tenths % 600 / 10, tenths % 10)
}

fn of_restored(arm: &Arm, value: fn(&Restored) -> u64) -> Option<u64> {
    median_of(arm, |sample: &Sample| sample.restored.as_ref().map(value))
}

/// Where the first arm's time went, by the median of each part.
fn parts(arms: &[&Arm]) -> Option<String> {
    let arm = arms.iter().find(|arm| arm.summary.is_some())?;
    let told: Vec<String> = PARTS
        .iter()
        .filter_map(|(name, words)| {
            let ns = median_of(arm, |sample| sample.phases.get(*name).copied())?;
            let slowest = if *name == "indexes_ns" { slowest_index(arm) } else { String::new() };
            Some(format!("{words} {}{slowest}", long(ns)))
        })
        .collect();
    Some(format!("Parts ({}): {}.", arm.name, told.join(", ")))
}

/// What holds a part up, and what it is called.
const HELD_UP_BY: [(&str, &str); 7] = [
    ("device", "the device"),
    ("checkpoint", "checkpoints at the same time"),
    ("one-cpu", "one CPU"),
    ("cpu", "the CPUs"),
    ("client", "the client that sends"),
    ("lock", "locks"),
    ("other", "other waits"),
];

/// By what each part of the load is bound that takes a twentieth of the time, of the first arm.
fn bounds(arms: &[&Arm]) -> Option<String> {
    let arm = arms.iter().find(|arm| arm.summary.is_some())?;
    let whole_ns = arm.summary.as_ref()?.median_ns;
    let part_ns = |name: &str| median_of(arm, |sample| sample.phases.get(name).copied()).unwrap_or(0);
    let mut told: Vec<String> = Vec::new();
    for (name, words) in PARTS {
        if part_ns(name) < whole_ns / 20 {
            continue;
        }
        let waits = waits_of(arm, name.trim_end_matches("_ns"));
        let all: u64 = waits.iter().map(|(_, ns)| ns).sum();
        match waits.iter().max_by_key(|(_, ns)| *ns) {
            Some((by, ns)) => {
                let single =
                    if name == "indexes_ns" { single_index(arm, part_ns(name)) } else { String::new() };
                told.push(format!(
                    "{words} by {by} ({:.0} % of what was seen){single}",
                    100.0 * *ns as f64 / all as f64
                ));
            }
            // It writes what the load has left in memory, and syncs it.
            None if name == "checkpoint_ns" => told.push(format!("{words} by the device")),
            None => {}
        }
    }
    (!told.is_empty()).then(|| format!("Bound ({}): {}.", arm.name, told.join(", ")))
}

fn waits_of(arm: &Arm, part: &str) -> Vec<(&'static str, u64)> {
    let counted = arm.samples.iter().filter(|sample| !sample.ignored);
    let seen: Vec<_> = counted.filter_map(|sample| sample.restored.as_ref()?.waits_ns.get(part)).collect();
    let sum = |wait: &str| seen.iter().filter_map(|waits| waits.get(wait)).sum::<u64>();
    HELD_UP_BY.iter().map(|(wait, words)| (*words, sum(wait))).filter(|(_, ns)| *ns > 0).collect()
}

/// An index that takes more than half of the time of all.
fn single_index(arm: &Arm, indexes_ns: u64) -> String {
    let slowest = median_of(arm, |sample| sample.restored.as_ref()?.slowest_index_ns).unwrap_or(0);
    if slowest > indexes_ns / 2 { ", most of it a single index".to_owned() } else { String::new() }
}

/// The WAL segments of each arm.
fn segments(arms: &[&Arm]) -> Option<String> {
    let told: Vec<String> = arms
        .iter()
        .filter_map(|arm| {
            let all = median_of(arm, |sample| sample.restored.as_ref()?.wal_segments)?;
            let recycled = median_of(arm, |sample| sample.restored.as_ref()?.wal_segments_recycled);
            let recycled = recycled.map(|recycled| format!(" ({recycled} recycled)")).unwrap_or_default();
            Some(format!("{} {all}{recycled}", arm.name))
        })
        .collect();
    (!told.is_empty()).then(|| format!("WAL segments made or recycled: {}.", told.join("; ")))
}

fn slowest_index(arm: &Arm) -> String {
    let of = |sample: &Sample| {
        let restored = sample.restored.as_ref()?;
        Some((restored.slowest_index.clone()?, restored.slowest_index_ns?))
    };
    match arm.samples.iter().filter_map(of).max_by_key(|(_, ns)| *ns) {
        Some((name, ns)) => format!(" ({name} alone {})", long(ns)),
        None => String::new(),
    }
}

/// What the disk was asked for, by arm.
fn device(arms: &[&Arm]) -> Option<String> {
    let told: Vec<String> = arms
        .iter()
        .filter_map(|arm| {
            let written = median_of(arm, |sample| sample.device.map(|device| device.bytes_written))?;
            let flushes = median_of(arm, |sample| sample.device.map(|device| device.flushes))?;
            let commits = of_restored(arm, |made| made.commits)?;
            Some(format!("{} {} and {flushes} flushes for {commits} commits", arm.name, units::size(written)))
        })
        .collect();
    (!told.is_empty()).then(|| format!("Written by the disk: {}.", told.join("; ")))
}

fn rows(arms: &[&Arm]) -> Option<String> {
    let samples = arms.iter().flat_map(|arm| &arm.samples);
    let restored: Vec<&Restored> = samples.filter_map(|sample| sample.restored.as_ref()).collect();
    let last = restored.last()?;
    if restored.iter().any(|made| made.errors_ignored > 0) {
        return Some("Rows were not verified: pg_restore went on after errors.".to_owned());
    }
    let (tables, rows) = (units::count(last.tables, "table"), units::count(last.rows, "row"));
    Some(format!("Rows: as dumped in all of {tables} ({rows})."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_written_as_time_writes_them() {
        assert_eq!(long(9_940_000_000), "9.94 s");
        assert_eq!(long(1_298_400_000_000), "21m38.4s");
        assert_eq!(long(119_990_000_000), "2m00.0s");
    }
}
