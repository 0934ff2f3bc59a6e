//! What the arms of a probe prove about the syncs of their place.

use super::cached::WRITE_CACHE;
use super::probe_facts;
use crate::probe::verdict::{self, Code, Facts, Rate, Rates, SyncMethod, Verdict};
use crate::results::{Arm, CacheVerdict, Document, NoteCode, Sample, Stack, SyncVerdict};
use crate::stats;
use crate::storage::{Cache, Root};

/// Fields of `/sys/block/DISK/stat` that hold flushes, from Linux 5.5 on; before, their count would read as none.
const FIELDS_WITH_FLUSHES: usize = 17;

/// A probe with the verdict on its only place, once something was measured there. `stacks` is what lay under it in each
/// state of the write cache that was compared: each is judged by itself, and what the disk does without its cache is
/// what no honest one exceeds with it.
pub(super) fn judged(document: &Document, stacks: &[(Cache, Stack)]) -> Document {
    let preloaded = document.notes.iter().any(|note| note.code == NoteCode::PreloadShim);
    let all: Vec<&Arm> = document.arms.iter().collect();
    if !all.iter().any(|arm| arm.labels.get(WRITE_CACHE).is_some()) {
        let place = document.places.first();
        let verdict = place.and_then(|place| of_arms(&all, &place.stack, preloaded, None));
        return Document { verdict, ..document.clone() };
    }
    let arms_in = |state: Cache| -> Vec<&Arm> {
        all.iter().copied().filter(|arm| arm.labels.get(WRITE_CACHE) == Some(state.name())).collect()
    };
    let uncached = arms_in(Cache::Off);
    let plateau_ops_per_sec = overwrite(&uncached).and_then(ops_per_sec);
    let verdicts = stacks.iter().filter_map(|(state, stack)| {
        let plateau_ops_per_sec = plateau_ops_per_sec.filter(|_| *state == Cache::On);
        let verdict = of_arms(&arms_in(*state), stack, preloaded, plateau_ops_per_sec)?;
        Some(CacheVerdict { write_cache: state.name().to_owned(), verdict })
    });
    let verdicts: Vec<CacheVerdict> = verdicts.collect();
    let answers_no = |found: &&CacheVerdict| {
        [Code::NotAsked, Code::AnsweredFromMemory].iter().any(|code| code.name() == found.verdict.code)
    };
    let decisive = verdicts.iter().find(answers_no).or(verdicts.first());
    Document { verdict: decisive.map(|found| found.verdict.clone()), verdicts, ..document.clone() }
}

/// The arms of one state; nothing where none was measured.
fn of_arms(
    arms: &[&Arm],
    stack: &Stack,
    preloaded: bool,
    plateau_ops_per_sec: Option<f64>,
) -> Option<SyncVerdict> {
    arms.iter().find(|arm| arm.summary.is_some())?;
    let overwrite = overwrite(arms);
    let judged = verdict::judge(&Facts {
        rates: rates(arms),
        flushes_per_op: overwrite.and_then(|arm| Some(arm.device?.flushes_per_op)),
        overwrite_ops_per_sec: overwrite.and_then(ops_per_sec),
        plateau_ops_per_sec,
        ..probe_facts::of_stack(stack, preloaded)
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
fn rates(arms: &[&Arm]) -> Rates {
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

fn rate(arms: &[&Arm], block: &str, method: SyncMethod) -> Option<Rate> {
    let arm = find(arms, block, method.name())?;
    let counted = arm.samples.iter().filter(|sample| !sample.ignored);
    let each_ns: Vec<f64> = counted.map(Sample::operation_ns).map(|ns| ns as f64).collect();
    Some(Rate { method, ops_per_sec: ops_per_sec(arm)?, spread: stats::relative_spread(&each_ns) })
}

/// The line that decides: one place overwritten and synced, again and again.
fn overwrite<'a>(arms: &[&'a Arm]) -> Option<&'a Arm> {
    find(arms, "one8", SyncMethod::Fdatasync.name())
}

fn find<'a>(arms: &[&'a Arm], block: &str, method: &str) -> Option<&'a Arm> {
    let of = |arm: &&Arm| arm.labels.get("block") == Some(block) && arm.labels.get("method") == Some(method);
    arms.iter().copied().find(of)
}

/// Nothing of an arm that failed: its sync may have been the one that lost data.
fn ops_per_sec(arm: &Arm) -> Option<f64> {
    arm.summary.as_ref().filter(|_| arm.failed.is_none())?.ops_per_sec
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{CacheView, DeviceCounters, Disk, Kind, Labels, PerOperation, Place};
    use crate::stats;

    fn sata(drive: Cache) -> Stack {
        let kernel = if drive == Cache::On { "write back" } else { "write through" };
        let write_cache =
            CacheView { kernel: Some(kernel.to_owned()), drive: Some(drive.name().to_owned()), remark: None };
        let disk = Disk {
            name: "sda".to_owned(),
            kind: "sata".to_owned(),
            rotational: true,
            write_cache,
            ..Disk::default()
        };
        Stack { file_system: "ext4".to_owned(), disks: vec![disk], ..Stack::default() }
    }

    fn overwrites(state: Option<Cache>, ops_per_sec: u32, flushes_per_op: f64) -> Arm {
        let labels = Labels::new().with("block", "one8").with("method", "fdatasync");
        let elapsed_ns = 1_000_000_000 / u64::from(ops_per_sec);
        let device = DeviceCounters::default();
        let sample = Sample { elapsed_ns, operations: Some(1), device: Some(device), ..Sample::default() };
        let mut summary = stats::summary(&[elapsed_ns]).expect("a sample");
        summary.ops_per_sec = Some(f64::from(ops_per_sec));
        Arm {
            labels: state.iter().fold(labels, |labels, state| labels.with(WRITE_CACHE, state.name())),
            samples: vec![sample],
            summary: Some(summary),
            device: Some(PerOperation { flushes_per_op, ..PerOperation::default() }),
            ..Arm::default()
        }
    }

    fn probed(arms: Vec<Arm>) -> Document {
        let place = Place {
            id: "p1".into(),
            path: "/mnt".into(),
            simulated: false,
            model: None,
            stack: sata(Cache::On),
        };
        Document { places: vec![place], arms, ..Document::new(Kind::Probe) }
    }

    fn codes(document: &Document) -> Vec<(&str, &str)> {
        let found = document.verdicts.iter();
        found.map(|found| (found.write_cache.as_str(), found.verdict.code.as_str())).collect()
    }

    #[test]
    fn the_rate_with_the_cache_off_is_the_measure_of_that_with_it_on() {
        let both = [(Cache::On, sata(Cache::On)), (Cache::Off, sata(Cache::Off))];
        // No platter is too slow for 200 a second; this one turns 90 times.
        let arms = vec![overwrites(Some(Cache::On), 200, 1.0), overwrites(Some(Cache::Off), 90, 0.0)];
        let lies = judged(&probed(arms), &both);
        assert_eq!(codes(&lies), [("on", "answered-from-memory"), ("off", "not-needed")]);
        let reason = &lies.verdicts[0].verdict.reasons[0];
        assert!(reason.contains("where the same drive does 90 with its cache off"), "{reason}");
        assert_eq!(lies.verdict.as_ref().map(|found| found.code.as_str()), Some("answered-from-memory"));

        let arms = vec![overwrites(Some(Cache::On), 90, 1.0), overwrites(Some(Cache::Off), 90, 0.0)];
        let honest = judged(&probed(arms), &both);
        assert_eq!(codes(&honest), [("on", "honoured"), ("off", "not-needed")]);
        assert!(honest.verdicts[0].verdict.reasons[0].contains("no more than with the cache off (90"));
    }

    #[test]
    fn the_state_that_answers_no_decides_wherever_it_stands() {
        let arms = vec![overwrites(Some(Cache::Off), 90, 0.0), overwrites(Some(Cache::On), 6000, 1.0)];
        let both = [(Cache::Off, sata(Cache::Off)), (Cache::On, sata(Cache::On))];
        let found = judged(&probed(arms), &both);
        assert_eq!(codes(&found), [("off", "not-needed"), ("on", "answered-from-memory")]);
        assert_eq!(found.verdict.map(|found| found.code), Some("answered-from-memory".to_owned()));
    }

    #[test]
    fn a_state_that_was_never_reached_has_no_verdict_and_a_plain_probe_has_one() {
        let arms = vec![overwrites(Some(Cache::On), 200, 1.0)];
        let found = judged(&probed(arms), &[(Cache::On, sata(Cache::On))]);
        assert_eq!(codes(&found), [("on", "honoured")]);
        let plain = judged(&probed(vec![overwrites(None, 200, 1.0)]), &[]);
        assert_eq!((plain.verdicts.len(), plain.verdict.is_some()), (0, true));
    }
}
