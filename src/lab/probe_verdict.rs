//! What the arms of a probe prove about the syncs of their place.

use super::probe_facts;
use crate::probe::verdict::{self, Facts, Rate, Rates, SyncMethod, Verdict};
use crate::results::{Arm, Document, NoteCode, Sample, Stack, SyncVerdict};
use crate::stats;
use crate::storage::Root;

/// Fields of `/sys/block/DISK/stat` that hold flushes, from Linux 5.5 on; before, their count would read as none.
const FIELDS_WITH_FLUSHES: usize = 17;

/// The verdict on a probe's only place, once something was measured there.
pub(super) fn of_document(document: &Document) -> Option<SyncVerdict> {
    let place = document.places.first()?;
    document.arms.iter().find(|arm| arm.summary.is_some())?;
    let preloaded = document.notes.iter().any(|note| note.code == NoteCode::PreloadShim);
    let facts = Facts { rates: rates(&document.arms), ..probe_facts::of_stack(&place.stack, preloaded) };
    let overwrite = find(&document.arms, "one8", SyncMethod::Fdatasync.name());
    let judged = verdict::judge(&Facts {
        flushes_per_op: overwrite.and_then(|arm| Some(arm.device?.flushes_per_op)),
        overwrite_ops_per_sec: overwrite.and_then(ops_per_sec),
        ..facts
    });
    let mut verdict = record(&judged);
    if judged.wal_sync_method.method().is_some_and(SyncMethod::is_open) {
        verdict.advice += " (as a server does it, without O_DIRECT)";
    }
    Some(verdict)
}

/// Whether the kernel counts the flushes of every device that counts for this place.
pub(super) fn flushes_counted(stack: &Stack, root: &Root) -> bool {
    let counts = |device: &String| {
        let stat = root.text(format!("sys/class/block/{device}/stat")).unwrap_or_default();
        stat.split_whitespace().count() >= FIELDS_WITH_FLUSHES
    };
    !stack.counted.is_empty() && stack.counted.iter().all(counts)
}

/// A verdict as documents hold it.
pub fn record(verdict: &Verdict) -> SyncVerdict {
    SyncVerdict {
        code: verdict.code.name().to_owned(),
        reasons: verdict.reasons.iter().map(ToString::to_string).collect(),
        wal_sync_method: verdict.wal_sync_method.name().to_owned(),
        advice: verdict.wal_sync_method.to_string(),
    }
}

/// What a server here would see: its `open_*` methods write without O_DIRECT, always from 16 on, and before that unless
/// `wal_level` is minimal. Two writes with them are two syncs.
fn rates(arms: &[Arm]) -> Rates {
    let one = |method: SyncMethod| {
        let block = if method.is_open() { "server" } else { "one8" };
        rate(arms, block, method)
    };
    let two = |method: SyncMethod| if method.is_open() { None } else { rate(arms, "two8", method) };
    let sizes = [(1, "1x16kB"), (2, "2x8kB"), (4, "4x4kB"), (8, "8x2kB"), (16, "16x1kB")];
    Rates {
        one: SyncMethod::ALL.into_iter().filter_map(one).collect(),
        two: SyncMethod::ALL.into_iter().filter_map(two).collect(),
        sizes: sizes
            .into_iter()
            .filter_map(|(writes, method)| Some((writes, ops_per_sec(find(arms, "sizes", method)?)?)))
            .collect(),
        // What initdb chooses on Linux.
        default: Some(SyncMethod::Fdatasync),
    }
}

fn rate(arms: &[Arm], block: &str, method: SyncMethod) -> Option<Rate> {
    let arm = find(arms, block, method.name())?;
    let counted = arm.samples.iter().filter(|sample| !sample.ignored);
    let each_ns: Vec<f64> = counted.map(Sample::operation_ns).map(|ns| ns as f64).collect();
    Some(Rate { method, ops_per_sec: ops_per_sec(arm)?, spread: stats::relative_spread(&each_ns) })
}

fn find<'a>(arms: &'a [Arm], block: &str, method: &str) -> Option<&'a Arm> {
    let of = |arm: &&Arm| arm.labels.get("block") == Some(block) && arm.labels.get("method") == Some(method);
    arms.iter().find(of)
}

/// Nothing of an arm that failed: its sync may have been the one that lost data.
fn ops_per_sec(arm: &Arm) -> Option<f64> {
    arm.summary.as_ref().filter(|_| arm.failed.is_none())?.ops_per_sec
}
