//! A run of pgbench for the terminal: what ran where, the table of commits a second and their latency, whether the disk can
//! do that.

use super::layout::{Table, paragraph, together};
use super::rates::rate;
use super::servers::{self, closing, findings, label_columns, places};
use super::{notes, units};
use crate::results::{Arm, Document, Sample};

/// The name of a commit's latency.
const TRANSACTION: &str = "transaction";

/// The servers, the workload, how fast the place of the WAL syncs: known once the servers are ready.
pub(super) fn header(document: &Document) -> String {
    let mut text = paragraph(&servers::servers(&document.servers), 0);
    if let Some(input) = &document.input {
        text += &paragraph(&format!("Runs: {}, about {}.", input.template, units::size(input.bytes)), 0);
    }
    text += &places(document);
    for place in &document.wal_places {
        let rates: Vec<String> = place
            .syncs_per_sec
            .iter()
            .map(|(method, per_sec)| together(&format!("{method} {}", rate(*per_sec))))
            .collect();
        let turns = place.turns_per_sec.map(|turns| format!("; a platter of {} turns a second", rate(turns)));
        let (server, rates) = (&place.server, rates.join(", "));
        let line =
            format!("Syncs a second where the WAL of {server} lies: {rates}{}.", turns.unwrap_or_default());
        text += &paragraph(&line, 0);
    }
    text
}

/// The table, what it shows, whether that can be, notes.
pub(super) fn results(document: &Document) -> String {
    let arms: Vec<&Arm> = document.arms.iter().collect();
    let mut text = table(&arms).render() + "\n";
    for finding in findings(document) {
        text += &paragraph(&finding, 0);
    }
    for arm in arms {
        if let Some(found) = &arm.plausibility {
            text += &paragraph(&format!("{} ({}): {}.", arm.name, found.code, found.text), 2);
        }
    }
    for note in &document.notes {
        text += &notes::line(note);
    }
    text + &closing(document)
}

fn table(arms: &[&Arm]) -> Table {
    let labels = label_columns(arms);
    let numbers = ["n", "tps", "min", "max", "p50", "p99", "longest", "c/sync", "flush/c"];
    servers::table(arms.iter().copied(), &labels, &numbers, row)
}

fn row(arm: &Arm) -> Option<Vec<String>> {
    let counted: Vec<&Sample> = arm.samples.iter().filter(|sample| !sample.ignored).collect();
    let tps: Vec<f64> = counted.iter().filter_map(|sample| Some(sample.benched.as_ref()?.tps)).collect();
    let median = arm.summary.as_ref().and_then(|summary| summary.median_tps)?;
    let latency = arm.latency.get(TRANSACTION);
    let shown = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), units::duration);
    Some(vec![
        counted.len().to_string(),
        rate(median),
        rate(tps.iter().copied().fold(f64::INFINITY, f64::min)),
        rate(tps.iter().copied().fold(0.0, f64::max)),
        shown(latency.and_then(|latency| latency.p50_ns)),
        shown(latency.and_then(|latency| latency.p99_ns)),
        shown(latency.map(|latency| latency.max_ns)),
        commits_per_sync(&counted).map_or_else(|| "-".to_owned(), |each| format!("{each:.2}")),
        flushes_per_commit(&counted).map_or_else(|| "-".to_owned(), |each| format!("{each:.2}")),
    ])
}

fn commits_per_sync(counted: &[&Sample]) -> Option<f64> {
    per(counted, |sample| sample.operations, |sample| sample.benched.as_ref()?.wal_syncs)
}

/// Of the disk of the WAL.
fn flushes_per_commit(counted: &[&Sample]) -> Option<f64> {
    let flushes = |sample: &Sample| Some(sample.wal_device.or(sample.device)?.flushes);
    per(counted, flushes, |sample| sample.operations)
}

fn per(
    counted: &[&Sample],
    of: impl Fn(&Sample) -> Option<u64>,
    each: impl Fn(&Sample) -> Option<u64>,
) -> Option<f64> {
    let (mut sum, mut number) = (0, 0);
    for sample in counted {
        sum += of(sample)?;
        number += each(sample)?;
    }
    (number > 0).then(|| sum as f64 / number as f64)
}
