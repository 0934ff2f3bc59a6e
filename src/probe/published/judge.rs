//! What a published set proves, from its figures alone, by the rules that hold for a measured place.

use super::{Block, DirectIo, Method, Platform, Set};
use crate::probe::verdict::{
    Asked, Code, FASTEST_DEVICE_OPS_PER_SEC, FASTEST_TURNS_PER_SEC, NOT_HALF, Rate, Rates, Reason,
    Recommendation, SyncMethod, TIMING_TOLERANCE, Table, Turns, Verdict, platter_limit, platter_pace,
    recommend,
};

/// On macOS a flush takes milliseconds and a hand-over does not: the smallest ratio published is 12.0.
const HAND_OVER: f64 = 12.0;
/// On Windows, servers up to 11 opened without write-through: "insanely high numbers" for `open_datasync`.
const DATASYNC_TOO_FAST: f64 = 20.0;
/// A sync that costs less than a quarter of a write costs nothing.
const NO_COST: f64 = 1.25;
/// `fsync` that takes twice as long as `fdatasync` does more than `fdatasync`.
const COMMITS: f64 = 2.0;
/// Speeds at which platters are sold, per minute.
const USUAL_RPM: [u32; 4] = [5400, 7200, 10_000, 15_000];
/// A platter's share of its turns: a commit that comes too late waits for the next one.
const SHARE_OF_TURNS: std::ops::RangeInclusive<f64> = 0.80..=1.02;
/// Two writes that wait for a turn each.
const HALF: std::ops::RangeInclusive<f64> = 0.42..=0.60;

/// What is known of the storage beside the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Nothing.
    Unknown,
    /// A platter, directly attached.
    Rotating {
        /// The rate its maker claims.
        claimed_rpm: Option<u32>,
    },
    /// No platter.
    Flash,
}

/// Judges a published set.
pub fn judge(set: &Set, medium: Medium) -> Verdict {
    let (code, mut reasons) = code_of(set, medium);
    reasons.extend(remarks(set));
    let rates = rates(set);
    let durable = durable(set);
    let wal_sync_method = match (code, set.origin.platform) {
        (Code::NotAsked | Code::AnsweredFromMemory, Platform::Unix | Platform::Unknown) => {
            Recommendation::NoneIsSafe
        }
        _ => recommend(&rates, durable),
    };
    let direct = set.origin.direct_io == Some(DirectIo::Requested);
    if direct && wal_sync_method.method().is_some_and(SyncMethod::is_open) {
        reasons.push(Reason::Table(Table::OpenLinesUsedDirectIo));
    }
    Verdict { code, reasons, wal_sync_method }
}

/// The methods whose sync reaches the drive on this platform.
fn durable(set: &Set) -> &'static [SyncMethod] {
    match set.origin.platform {
        Platform::MacOs => &[SyncMethod::FsyncWritethrough],
        // fsync and fsync_writethrough are one call there, and only fsync is a name in every version.
        Platform::Windows if datasync_too_fast(set).is_some() => &[SyncMethod::Fsync],
        Platform::Windows => &[SyncMethod::OpenDatasync, SyncMethod::Fdatasync, SyncMethod::Fsync],
        Platform::Unix | Platform::Unknown => {
            &[SyncMethod::OpenDatasync, SyncMethod::Fdatasync, SyncMethod::Fsync, SyncMethod::OpenSync]
        }
    }
}

fn rates(set: &Set) -> Rates {
    let of = |block| {
        let rate = |method| {
            let ops_per_sec = set.rate(block, Method::Sync(method))?;
            Some(Rate { method, ops_per_sec, spread: None })
        };
        SyncMethod::ALL.into_iter().filter_map(rate).collect()
    };
    let sizes = [1, 2, 4, 8, 16].into_iter();
    Rates {
        one: of(Block::One8),
        two: of(Block::Two8),
        sizes: sizes.filter_map(|n| set.rate(Block::Sizes, Method::Writes(n)).map(|ops| (n, ops))).collect(),
        default: match set.origin.platform {
            Platform::MacOs | Platform::Windows => Some(SyncMethod::OpenDatasync),
            Platform::Unix | Platform::Unknown => Some(SyncMethod::Fdatasync),
        },
    }
}

fn code_of(set: &Set, medium: Medium) -> (Code, Vec<Reason>) {
    if let Some(reason) = handed_over(set) {
        return reason;
    }
    if let Some(reason) = datasync_too_fast(set) {
        return (Code::NotAsked, vec![reason]);
    }
    let synced = durable(set).iter().filter_map(|method| set.one(*method));
    let Some(fastest) = synced.reduce(f64::max) else {
        return (Code::CannotTell, vec![Reason::Turns(Turns::NotMeasured)]);
    };
    if fastest >= FASTEST_DEVICE_OPS_PER_SEC {
        return (Code::NotAsked, vec![Reason::Turns(Turns::FasterThanAnyDevice { ops_per_sec: fastest })]);
    }
    match costs_nothing(set) {
        Some(reason @ Reason::Table(Table::SyncCostsNothing { .. })) => {
            return (Code::NotAsked, vec![reason]);
        }
        Some(reason) => return (Code::CannotTell, vec![reason]),
        None => {}
    }
    by_platter(set, medium, fastest)
}

/// macOS: one method flushes, the others hand over.
fn handed_over(set: &Set) -> Option<(Code, Vec<Reason>)> {
    if set.origin.platform != Platform::MacOs {
        return None;
    }
    let writethrough = set.one(SyncMethod::FsyncWritethrough);
    Some(match (set.one(SyncMethod::Fsync), writethrough) {
        (Some(fsync), Some(writethrough)) if fsync / writethrough >= HAND_OVER => {
            let reasons =
                [Some(Reason::Table(Table::HandsOverOnly { fsync, writethrough })), costs_nothing(set)];
            (Code::NotAsked, reasons.into_iter().flatten().collect())
        }
        (_, Some(writethrough)) => {
            (Code::Plausible, vec![Reason::Table(Table::OnlyWritethroughFlushes { writethrough })])
        }
        (_, None) => (Code::CannotTell, vec![Reason::Turns(Turns::NotMeasured)]),
    })
}

fn datasync_too_fast(set: &Set) -> Option<Reason> {
    let open_datasync = set.one(SyncMethod::OpenDatasync)?;
    let fsync = set.one(SyncMethod::Fsync).or_else(|| set.one(SyncMethod::FsyncWritethrough))?;
    let found = set.origin.platform == Platform::Windows && open_datasync >= fsync * DATASYNC_TOO_FAST;
    found.then_some(Reason::Table(Table::DatasyncFarAboveFsync { open_datasync, fsync }))
}

fn costs_nothing(set: &Set) -> Option<Reason> {
    let fsync = set.one(SyncMethod::Fsync)?;
    let write = set.rate(Block::Nosync, Method::Write)?;
    if write > fsync * NO_COST {
        None
    } else if fsync > FASTEST_TURNS_PER_SEC * TIMING_TOLERANCE {
        Some(Reason::Table(Table::SyncCostsNothing { write, fsync }))
    } else {
        Some(Reason::Table(Table::EveryWriteMayBeSynced { write, fsync }))
    }
}

/// The argument of rotation, as far as the text or the reader says what the storage is.
fn by_platter(set: &Set, medium: Medium, ops_per_sec: f64) -> (Code, Vec<Reason>) {
    let over = ops_per_sec > FASTEST_TURNS_PER_SEC * TIMING_TOLERANCE;
    match medium {
        Medium::Rotating { claimed_rpm } => match platter_limit(ops_per_sec, claimed_rpm, None) {
            Some(limit) => (Code::AnsweredFromMemory, vec![limit, Reason::Asked(Asked::FlushesNotCounted)]),
            None => (Code::Honoured, vec![platter_pace(ops_per_sec, claimed_rpm, None)]),
        },
        Medium::Unknown => match looks_like_a_platter(set, ops_per_sec) {
            Some(reason) => (Code::Honoured, vec![reason]),
            None if over => (Code::Plausible, vec![Reason::Table(Table::TooFastForAPlatter { ops_per_sec })]),
            None => (Code::Plausible, vec![Reason::Table(Table::NoFasterThanAPlatter { ops_per_sec })]),
        },
        Medium::Flash => {
            (Code::Plausible, vec![Reason::Table(Table::FlashOnlyAPowerCutCanTell { ops_per_sec })])
        }
    }
}

/// A rate just below a usual speed, and two synchronous writes that take two turns.
fn looks_like_a_platter(set: &Set, ops_per_sec: f64) -> Option<Reason> {
    let two_writes_ops_per_sec =
        [SyncMethod::OpenSync, SyncMethod::OpenDatasync].into_iter().find_map(|method| {
            let two = set.rate(Block::Two8, Method::Sync(method))?;
            HALF.contains(&(two / set.one(method)?)).then_some(two)
        })?;
    let rpm =
        USUAL_RPM.into_iter().find(|rpm| SHARE_OF_TURNS.contains(&(ops_per_sec * 60.0 / f64::from(*rpm))))?;
    Some(Reason::Table(Table::LooksLikeAPlatter { ops_per_sec, rpm, two_writes_ops_per_sec }))
}

/// What else the table shows.
fn remarks(set: &Set) -> Vec<Reason> {
    let not_half = [SyncMethod::OpenDatasync, SyncMethod::OpenSync].into_iter().filter_map(|method| {
        let (one, two) = (set.one(method)?, set.rate(Block::Two8, Method::Sync(method))?);
        (two > one * NOT_HALF).then_some(Reason::Table(Table::TwoWritesAreNotHalf { method, one, two }))
    });
    let commits = match (set.one(SyncMethod::Fdatasync), set.one(SyncMethod::Fsync)) {
        (Some(fdatasync), Some(fsync)) if fdatasync >= fsync * COMMITS => {
            Some(Reason::Table(Table::FsyncCommits { fdatasync, fsync }))
        }
        _ => None,
    };
    not_half.chain(commits).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{set, set_of};
    use super::*;

    #[test]
    fn every_published_set_gets_the_verdict_argued_for_it() {
        let cases = [
            ("macos-10.9-intel520-hfs-pg9.3-2014", Code::NotAsked, "fsync_writethrough"),
            ("imac-sata-ssd-macos-pg11", Code::NotAsked, "fsync_writethrough"),
            ("macos-m1-pg13-decimal-comma", Code::NotAsked, "fsync_writethrough"),
            ("tmpfs-pg16-cut-short", Code::NotAsked, "none makes this safe"),
            ("hdd-7200-sata-ext4-pg9.3-2014", Code::Honoured, "keep the default"),
            ("sas10k-raid1-ext3-pg9.1", Code::Honoured, "keep the default"),
            ("ssd-owc-ext4-pg9.3-2014", Code::Plausible, "keep the default"),
            ("virtio-pg15-one-second", Code::Plausible, "keep the default"),
            ("unknown-virtual-pg10", Code::Plausible, "keep the default"),
            ("docker-on-macos-m1-pg13", Code::Plausible, "keep the default"),
            ("greenplum-host-pg10", Code::Plausible, "keep the default"),
            ("nvme-990pro-xfs-pg16", Code::Plausible, "keep the default"),
            ("mdadm-raid1-sata-pg9.1", Code::Plausible, "unstable"),
            ("single-sata-pg9.1", Code::Plausible, "keep the default"),
            ("zfs-linux-12disks-pg9.3", Code::Plausible, "keep the default"),
            ("zfs-freebsd-12disks-pg9.3", Code::Plausible, "fsync"),
            ("shared-container-pg16", Code::Plausible, "unstable"),
        ];
        for (name, code, method) in cases {
            let verdict = judge(&set(name), Medium::Unknown);
            let reasons: Vec<String> = verdict.reasons.iter().map(Reason::to_string).collect();
            assert_eq!((verdict.code, verdict.wal_sync_method.name()), (code, method), "{name}: {reasons:?}");
            assert!(reasons.iter().all(|reason| !reason.is_empty()), "{name}: {reasons:?}");
        }
    }

    #[test]
    fn a_named_medium_brings_the_argument_of_rotation() {
        let turning = |rpm| Medium::Rotating { claimed_rpm: Some(rpm) };
        let cases = [
            ("hdd-7200-sata-ext4-pg9.3-2014", turning(7200), Code::Honoured),
            ("sas10k-raid1-ext3-pg9.1", turning(10_000), Code::Honoured),
            ("ssd-owc-ext4-pg9.3-2014", turning(7200), Code::AnsweredFromMemory),
            ("ssd-owc-ext4-pg9.3-2014", Medium::Flash, Code::Plausible),
        ];
        for (name, medium, code) in cases {
            assert_eq!(judge(&set(name), medium).code, code, "{name} {medium:?}");
        }
    }

    #[test]
    fn windows_is_judged_by_its_datasync() {
        let windows = "open_datasync 36000.000 ops/sec 28 usecs/op\nfdatasync            n/a\n\
                       fsync 105.000 ops/sec 9524 usecs/op\nfsync_writethrough 104.000 ops/sec 9615 usecs/op\n\
                       open_sync            n/a\n";
        let set = set_of(windows);
        assert_eq!(set.origin.platform, Platform::Windows);
        let verdict = judge(&set, Medium::Unknown);
        assert_eq!((verdict.code, verdict.wal_sync_method.name()), (Code::NotAsked, "fsync"));
    }

    #[test]
    fn a_sync_that_costs_nothing_is_told() {
        let text = |fsync: &str, write: &str| {
            format!(
                "fsync {fsync} usecs/op\nopen_sync {fsync} usecs/op\nNon-sync'ed 8kB writes:\nwrite {write} usecs/op\n"
            )
        };
        let fast = judge(&set_of(&text("14000.000 ops/sec 71", "14077.617 ops/sec 71")), Medium::Unknown);
        assert!(matches!(fast.reasons[0], Reason::Table(Table::SyncCostsNothing { .. })), "{fast:?}");
        assert_eq!(fast.code, Code::NotAsked);
        let slow = judge(&set_of(&text("100.000 ops/sec 10000", "101.000 ops/sec 9901")), Medium::Unknown);
        assert!(matches!(slow.reasons[0], Reason::Table(Table::EveryWriteMayBeSynced { .. })), "{slow:?}");
        assert_eq!(slow.code, Code::CannotTell);
    }

    #[test]
    fn two_synchronous_writes_that_are_not_half_are_told() {
        let verdict = judge(&set("macos-m1-pg13-decimal-comma"), Medium::Unknown);
        let told = |reason: &Reason| {
            matches!(
                reason,
                Reason::Table(Table::TwoWritesAreNotHalf { method: SyncMethod::OpenDatasync, .. })
            )
        };
        assert!(verdict.reasons.iter().any(told), "{verdict:?}");
    }
}
