//! A run of restores for the terminal: what was restored where, the table of real, user and sys, the parts, the rows.

use super::arms::median_of;
use super::createdb::{closing, findings, servers};
use super::layout::{Align, Row, Table, paragraph};
use super::stack_words::{cache_line, storage_line};
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
    let mut text = paragraph(&servers(&document.servers), 0);
    if let Some(input) = &document.input {
        text += &paragraph(&format!("Restored: {}, {}.", input.template, units::size(input.bytes)), 0);
    }
    for place in &document.places {
        let simulated = if place.simulated { "SIMULATED: " } else { "" };
        text += &paragraph(&format!("Data: {simulated}{} ({}).", place.path, storage_line(&place.stack)), 0);
        text += &paragraph(&cache_line(&place.stack), 0);
    }
    text
}

/// The table, what it shows, the parts, the rows, notes.
pub(super) fn results(document: &Document) -> String {
    let arms: Vec<&Arm> = document.arms.iter().collect();
    let mut text = table(&arms).render() + "\n";
    for sentence in findings(document).into_iter().chain(parts(&arms)).chain(device(&arms)).chain(rows(&arms))
    {
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

/// Columns that are labels: those that differ, the server's where none does.
fn label_columns(arms: &[&Arm]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, value) in arms.iter().flat_map(|arm| arm.labels.iter()) {
        let differs = arms.iter().any(|arm| arm.labels.get(name) != Some(value));
        if differs && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    if names.is_empty() {
        names.push("server".to_owned());
    }
    names
}

fn table(arms: &[&Arm]) -> Table {
    let labels = label_columns(arms);
    let numbers = ["n", "real median", "min", "max", "user", "sys", "WAL", "checkpoints"];
    let columns = labels
        .iter()
        .map(|name| (name.clone(), Align::Left))
        .chain(numbers.iter().map(|name| ((*name).to_owned(), Align::Right)))
        .collect();
    Table { columns, rows: arms.iter().map(|arm| row(arm, &labels)).collect() }
}

fn row(arm: &Arm, labels: &[String]) -> Row {
    let start: Vec<String> =
        labels.iter().map(|name| arm.labels.get(name).unwrap_or_default().to_owned()).collect();
    if let Some(failed) = &arm.failed {
        return Row::Sentence(start, format!("FAILED: {}", failed.text));
    }
    let Some(summary) = &arm.summary else { return Row::Sentence(start, "no round finished".to_owned()) };
    let median = |value: fn(&Restored) -> u64| of_restored(arm, value);
    let numbers = [
        summary.n.to_string(),
        long(summary.median_ns),
        long(summary.min_ns),
        long(summary.max_ns),
        median(|made| made.user_ns).map_or_else(dash, long),
        median(|made| made.sys_ns).map_or_else(dash, long),
        median(|made| made.wal_bytes).map_or_else(dash, units::size),
        median(|made| made.checkpoints).map_or_else(dash, |count| count.to_string()),
    ];
    Row::Cells(start.into_iter().chain(numbers).collect())
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
