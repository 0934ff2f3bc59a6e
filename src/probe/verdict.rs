//! What the figures of a sync prove: six verdicts, each with its reasons in words.
//!
//! The argument of the lab: one block of a rotating disk cannot be made durable more often than the platter
//! turns; so a disk that answers faster answers from memory. Everything else is graded by what was asked of
//! the drive (counted flushes) and by who could have kept the data. No verdict says "safe": that a drive
//! keeps what it acknowledged is seen at a power cut only.

mod method;
mod reason;
mod recommend;
#[cfg(test)]
mod tests;

use std::fmt;

pub use method::SyncMethod;
pub(in crate::probe) use reason::figure;
pub use reason::{Asked, Reason, Table, Turns};
pub use recommend::{ALIKE, Instability, NOT_HALF, Rate, Rates, Recommendation, instabilities, recommend};

/// The fastest platter sold turns 15,000 times a minute.
pub const FASTEST_RPM: f64 = 15_000.0;
/// Turns a second of the fastest platter: no more overwrites of one place become durable.
pub const FASTEST_TURNS_PER_SEC: f64 = FASTEST_RPM / 60.0;
/// Spindles keep their speed within a few per mille; 5 % covers the timing too.
pub const TIMING_TOLERANCE: f64 = 1.05;
/// A claimed rotation rate may be low: the WD140EDFZ claims 5400 rpm and turns 7200 times, 1.33 times as fast.
pub const CLAIM_TOLERANCE: f64 = 1.5;
/// A rate measured with the cache off repeats within a few per cent; a flush after several writes may
/// be a little cheaper than waiting for each.
pub const PLATEAU_TOLERANCE: f64 = 1.25;
/// Nothing that a power cut leaves alone answers in under 5 µs: the fastest published sync, a drive with
/// protected memory, takes 12 µs.
pub const FASTEST_DEVICE_OPS_PER_SEC: f64 = 200_000.0;
/// From half a flush an operation on the sync counts as asked for; without it only strays are counted.
pub const ASKED_FLUSHES_PER_OP: f64 = 0.5;

/// A verdict about the syncs of one place or one published set.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The verdict.
    pub code: Code,
    /// What it rests on, the decisive reason first.
    pub reasons: Vec<Reason>,
    /// The `wal_sync_method` for a server here.
    pub wal_sync_method: Recommendation,
}

/// The six verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// No flush reached the device although something volatile may be there.
    NotAsked,
    /// The drive reports no volatile cache.
    NotNeeded,
    /// A rotating drive, at the pace of its platter.
    Honoured,
    /// A rotating drive that answers faster than any platter turns.
    AnsweredFromMemory,
    /// Flash, controller, virtual or network: only a power cut can tell.
    Plausible,
    /// Something that is needed is not known.
    CannotTell,
}

impl Code {
    /// The name in results and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotAsked => "not-asked",
            Self::NotNeeded => "not-needed",
            Self::Honoured => "honoured",
            Self::AnsweredFromMemory => "answered-from-memory",
            Self::Plausible => "plausible",
            Self::CannotTell => "cannot-tell",
        }
    }

    /// The exit status of a command whose answer this is: 4 when the answer is no, else 0.
    pub fn exit_status(self) -> u8 {
        match self {
            Self::NotAsked | Self::AnsweredFromMemory => 4,
            Self::NotNeeded | Self::Honoured | Self::Plausible | Self::CannotTell => 0,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What `queue/write_cache` says: the kernel's view, which decides whether flushes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelView {
    /// Flushes are sent.
    WriteBack,
    /// No flushes are sent, because the drive reported no volatile cache.
    WriteThrough,
    /// No flushes are sent, because somebody wrote `write through` into it.
    WriteThroughForced,
}

/// The drive's own word on its write cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveView {
    /// It has a volatile cache, switched on.
    On,
    /// It has one, switched off.
    Off,
    /// It has none.
    Absent,
}

/// What stands between the kernel and the medium. A simulated drive counts as what its model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// A drive on SATA, SAS or `NVMe`.
    Direct,
    /// A USB bridge, which may keep the cache's state to itself.
    UsbBridge,
    /// A RAID controller, which may have memory and a battery.
    Controller,
    /// Several disks under md or dm.
    Raid,
    /// NFS, iSCSI and the like.
    Network,
    /// A disk of a virtual machine.
    Virtual,
    /// A loop device over a file.
    Loop,
    /// Not known.
    Unknown,
}

impl Attachment {
    /// What it is called in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "a directly attached drive",
            Self::UsbBridge => "a drive behind a USB bridge",
            Self::Controller => "a disk behind a controller",
            Self::Raid => "a set of several disks",
            Self::Network => "storage on a network",
            Self::Virtual => "a virtual disk",
            Self::Loop => "a loop device",
            Self::Unknown => "storage that is not known",
        }
    }
}

/// Something above the device that leaves syncs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOutBy {
    /// tmpfs, ramfs: there is no device.
    MemoryFileSystem,
    /// An overlay mounted `volatile`.
    VolatileOverlay,
    /// A mount with `nobarrier` or its like.
    BarriersOff,
    /// A library (libeatmydata) loaded before ours.
    PreloadShim,
}

/// What is known about a place and was measured there. `None` is "not known".
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// What above the device is known to leave syncs out.
    pub left_out_by: Vec<LeftOutBy>,
    /// The kernel's view of the write cache.
    pub kernel_view: Option<KernelView>,
    /// The drive's own view of it.
    pub drive_view: Option<DriveView>,
    /// `queue/rotational`; proves nothing unless the drive is directly attached.
    pub rotational: Option<bool>,
    /// What lies between.
    pub attachment: Attachment,
    /// The rotation rate that the drive claims, per minute.
    pub claimed_rpm: Option<u32>,
    /// Device flushes for each overwrite + fdatasync.
    pub flushes_per_op: Option<f64>,
    /// The device takes FUA writes, which are no flushes and are not counted.
    pub fua: bool,
    /// Overwrites of one place with fdatasync, per second.
    pub overwrite_ops_per_sec: Option<f64>,
    /// The same with the drive's cache off, if it was measured.
    pub plateau_ops_per_sec: Option<f64>,
    /// Rates per method, for the recommendation.
    pub rates: Rates,
}

/// Judges what was measured at a place.
pub fn judge(facts: &Facts) -> Verdict {
    let (code, reasons) = code_of(facts);
    let wal_sync_method = match code {
        Code::NotAsked | Code::AnsweredFromMemory => Recommendation::NoneIsSafe,
        _ => recommend(&facts.rates, &DURABLE_ON_LINUX),
    };
    Verdict { code, reasons, wal_sync_method }
}

/// On Linux all methods that exist ask for the same promise.
pub(super) const DURABLE_ON_LINUX: [SyncMethod; 4] =
    [SyncMethod::OpenDatasync, SyncMethod::Fdatasync, SyncMethod::Fsync, SyncMethod::OpenSync];

fn code_of(facts: &Facts) -> (Code, Vec<Reason>) {
    let rate = facts.overwrite_ops_per_sec;
    if facts.left_out_by.contains(&LeftOutBy::MemoryFileSystem) {
        return (Code::NotAsked, vec![Reason::Asked(Asked::MemoryFileSystem { ops_per_sec: rate })]);
    }
    if facts.left_out_by.contains(&LeftOutBy::VolatileOverlay) {
        return (Code::NotAsked, vec![Reason::Asked(Asked::VolatileOverlay)]);
    }
    let Some(flushes) = facts.flushes_per_op else { return uncounted(facts) };
    if flushes < ASKED_FLUSHES_PER_OP {
        without_flushes(facts, flushes)
    } else {
        with_flushes(facts, flushes)
    }
}

/// The device's flush counter could not be read.
fn uncounted(facts: &Facts) -> (Code, Vec<Reason>) {
    let mut reasons = swallowed(facts);
    if !reasons.is_empty() {
        return (Code::NotAsked, reasons);
    }
    if let Some(limit) = faster_than_its_platter(facts) {
        return (Code::AnsweredFromMemory, vec![limit, Reason::Asked(Asked::FlushesNotCounted)]);
    }
    match facts.overwrite_ops_per_sec {
        Some(ops_per_sec) if turns(facts) => {
            (Code::Honoured, vec![pace(facts, ops_per_sec), Reason::Asked(Asked::FlushesNotCounted)])
        }
        Some(ops_per_sec) if ops_per_sec >= FASTEST_DEVICE_OPS_PER_SEC => {
            (Code::NotAsked, vec![Reason::Turns(Turns::FasterThanAnyDevice { ops_per_sec })])
        }
        Some(ops_per_sec) if facts.attachment == Attachment::Network => {
            let attachment = facts.attachment;
            (Code::Plausible, vec![Reason::Turns(Turns::OnlyAPowerCutCanTell { attachment, ops_per_sec })])
        }
        None => (Code::CannotTell, vec![Reason::Turns(Turns::NotMeasured)]),
        _ => {
            reasons.push(Reason::Asked(Asked::FlushesNotCounted));
            (Code::CannotTell, reasons)
        }
    }
}

/// Things above the device that leave syncs out.
fn swallowed(facts: &Facts) -> Vec<Reason> {
    let shim =
        facts.left_out_by.contains(&LeftOutBy::PreloadShim).then_some(Reason::Asked(Asked::PreloadShim));
    let barriers =
        facts.left_out_by.contains(&LeftOutBy::BarriersOff).then_some(Reason::Asked(Asked::BarriersOff));
    let forced = (facts.kernel_view == Some(KernelView::WriteThroughForced))
        .then_some(Reason::Asked(Asked::WriteThroughForced));
    [shim, barriers, forced].into_iter().flatten().collect()
}

/// The counter was read and no flush belongs to the syncs.
fn without_flushes(facts: &Facts, flushes_per_op: f64) -> (Code, Vec<Reason>) {
    if let Some(view @ (DriveView::Off | DriveView::Absent)) = facts.drive_view {
        if let Some(limit) = faster_than_its_platter(facts) {
            return (Code::AnsweredFromMemory, vec![limit, Reason::Turns(Turns::LiesOrKeeps)]);
        }
        let pace = facts.overwrite_ops_per_sec.filter(|_| turns(facts)).map(|ops| pace(facts, ops));
        let reasons = std::iter::once(Reason::Asked(Asked::NoVolatileCache { view })).chain(pace);
        return (Code::NotNeeded, reasons.collect());
    }
    let mut reasons = swallowed(facts);
    reasons.push(Reason::Asked(Asked::NoFlush { flushes_per_op }));
    if reasons.len() > 1 || facts.drive_view == Some(DriveView::On) {
        return (Code::NotAsked, reasons);
    }
    match (facts.kernel_view, facts.attachment) {
        // The loop driver always starts with write back, and a bridge may hide the cache.
        (Some(KernelView::WriteThrough), Attachment::Loop | Attachment::UsbBridge) => {
            reasons.insert(0, Reason::Asked(Asked::WriteThroughDoubted { attachment: facts.attachment }));
            (Code::NotAsked, reasons)
        }
        (Some(KernelView::WriteThrough), attachment) => {
            (Code::NotNeeded, vec![Reason::Asked(Asked::KernelSeesNoCache { attachment })])
        }
        _ if facts.fua => (Code::CannotTell, vec![Reason::Asked(Asked::FuaIsNotCounted)]),
        _ => (Code::NotAsked, reasons),
    }
}

/// Flushes were sent: what do the rates say of the answer?
fn with_flushes(facts: &Facts, flushes_per_op: f64) -> (Code, Vec<Reason>) {
    let Some(ops_per_sec) = facts.overwrite_ops_per_sec else {
        return (Code::CannotTell, vec![Reason::Turns(Turns::NotMeasured)]);
    };
    let mut left_out = swallowed(facts);
    if !left_out.is_empty() {
        left_out.push(Reason::Asked(Asked::FlushesOfOthers { flushes_per_op }));
        return (Code::CannotTell, left_out);
    }
    let sent = Reason::Asked(Asked::FlushesSent { flushes_per_op });
    let quiet = matches!(facts.drive_view, Some(DriveView::Off | DriveView::Absent));
    if turns(facts) {
        if let Some(limit) = faster_than_its_platter(facts) {
            let kept = if quiet {
                Reason::Turns(Turns::LiesOrKeeps)
            } else {
                Reason::Asked(Asked::CacheOn { by_drive: facts.drive_view.is_some() })
            };
            return (Code::AnsweredFromMemory, vec![limit, sent, kept]);
        }
        return (Code::Honoured, vec![pace(facts, ops_per_sec), sent]);
    }
    if let (Some(view), true) = (facts.drive_view, quiet) {
        return (Code::NotNeeded, vec![Reason::Asked(Asked::NoVolatileCache { view })]);
    }
    let attachment = facts.attachment;
    let mut reasons = vec![Reason::Turns(Turns::OnlyAPowerCutCanTell { attachment, ops_per_sec }), sent];
    match (attachment, facts.rotational) {
        (Attachment::Direct, None) | (Attachment::Unknown, _) => {
            return (Code::CannotTell, vec![Reason::Turns(Turns::MediumNotKnown { ops_per_sec })]);
        }
        (Attachment::Direct, Some(_)) => {}
        (_, Some(true)) => reasons.push(Reason::Turns(Turns::RotationalProvesNothing { attachment })),
        _ => {}
    }
    (Code::Plausible, reasons)
}

/// Whether the flag for rotation can be believed.
fn turns(facts: &Facts) -> bool {
    facts.rotational == Some(true) && facts.attachment == Attachment::Direct
}

fn faster_than_its_platter(facts: &Facts) -> Option<Reason> {
    let ops_per_sec = facts.overwrite_ops_per_sec.filter(|_| turns(facts))?;
    platter_limit(ops_per_sec, facts.claimed_rpm, facts.plateau_ops_per_sec)
}

fn pace(facts: &Facts, ops_per_sec: f64) -> Reason {
    platter_pace(ops_per_sec, facts.claimed_rpm, facts.plateau_ops_per_sec)
}

/// The argument of rotation: measured plateau, fastest platter, claimed rate; whichever forbids the rate.
pub(in crate::probe) fn platter_limit(
    ops_per_sec: f64,
    claimed_rpm: Option<u32>,
    plateau_ops_per_sec: Option<f64>,
) -> Option<Reason> {
    if let Some(plateau_ops_per_sec) = plateau_ops_per_sec
        && ops_per_sec > plateau_ops_per_sec * PLATEAU_TOLERANCE
    {
        return Some(Reason::Turns(Turns::FasterThanItsPlateau { ops_per_sec, plateau_ops_per_sec }));
    }
    if ops_per_sec > FASTEST_TURNS_PER_SEC * TIMING_TOLERANCE {
        return Some(Reason::Turns(Turns::FasterThanAnyPlatter { ops_per_sec, claimed_rpm }));
    }
    // A plateau that was measured outranks a claim.
    let rpm = claimed_rpm.filter(|_| plateau_ops_per_sec.is_none())?;
    let over = ops_per_sec > f64::from(rpm) / 60.0 * CLAIM_TOLERANCE;
    over.then_some(Reason::Turns(Turns::FasterThanItsClaim { ops_per_sec, rpm }))
}

/// What a rate that no platter forbids is measured by.
pub(in crate::probe) fn platter_pace(
    ops_per_sec: f64,
    claimed_rpm: Option<u32>,
    plateau_ops_per_sec: Option<f64>,
) -> Reason {
    match (plateau_ops_per_sec, claimed_rpm) {
        (Some(plateau_ops_per_sec), _) => {
            Reason::Turns(Turns::AtItsPlateau { ops_per_sec, plateau_ops_per_sec })
        }
        (None, Some(rpm)) if ops_per_sec > f64::from(rpm) / 60.0 * TIMING_TOLERANCE => {
            Reason::Turns(Turns::ClaimTooLow { ops_per_sec, rpm })
        }
        (None, Some(rpm)) => Reason::Turns(Turns::WithinItsTurns { ops_per_sec, rpm }),
        (None, None) => Reason::Turns(Turns::WithinAnyTurns { ops_per_sec }),
    }
}
