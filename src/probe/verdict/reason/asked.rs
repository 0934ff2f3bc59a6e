//! What was asked of the device, and what says that it need not be.

use std::fmt;

use super::figure;
use crate::probe::verdict::{Attachment, DriveView};

/// What speaks for or against a sync having reached the device. Rates are operations a second.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    missing_docs,
    reason = "each variant is documented; its fields are rates in ops/s and what they are of"
)]
pub enum Asked {
    /// A file system in memory.
    MemoryFileSystem { ops_per_sec: Option<f64> },
    /// An overlay mounted `volatile`.
    VolatileOverlay,
    /// A library that swallows syncs.
    PreloadShim,
    /// Mounted without barriers.
    BarriersOff,
    /// The kernel's view was set to `write through` by hand.
    WriteThroughForced,
    /// The kernel believes in `write through` where that is no proof.
    WriteThroughDoubted { attachment: Attachment },
    /// No flush was counted.
    NoFlush { flushes_per_op: f64 },
    /// Flushes were counted.
    FlushesSent { flushes_per_op: f64 },
    /// Flushes were counted although ours are left out.
    FlushesOfOthers { flushes_per_op: f64 },
    /// The flush counter cannot be read.
    FlushesNotCounted,
    /// FUA writes may have done it, uncounted.
    FuaIsNotCounted,
    /// The drive itself says that nothing volatile is there.
    NoVolatileCache { view: DriveView },
    /// The kernel was told that nothing volatile is there.
    KernelSeesNoCache { attachment: Attachment },
    /// The drive's cache is on, by its own word or the kernel's.
    CacheOn { by_drive: bool },
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MemoryFileSystem { ops_per_sec: Some(ops) } => {
                write!(
                    f,
                    "the file system is in memory: its {} syncs/s ask no device and keep nothing",
                    figure(*ops)
                )
            }
            Self::MemoryFileSystem { ops_per_sec: None } => {
                write!(f, "the file system is in memory: a sync asks no device and keeps nothing")
            }
            Self::VolatileOverlay => {
                write!(f, "the overlay is mounted \"volatile\": it leaves out every sync")
            }
            Self::PreloadShim => write!(f, "a preloaded library swallows syncs"),
            Self::BarriersOff => {
                write!(f, "the file system is mounted without barriers: it sends no flushes")
            }
            Self::WriteThroughForced => write!(
                f,
                "the kernel's view of the write cache was set to \"write through\": it sends no flushes, whatever the drive has"
            ),
            Self::WriteThroughDoubted { attachment } => write!(
                f,
                "the kernel believes in \"write through\" and sends no flushes, but {} is no proof of that",
                attachment.name()
            ),
            Self::NoFlush { flushes_per_op } => {
                write!(f, "{flushes_per_op:.2} device flushes per sync: no flush reached the device")
            }
            Self::FlushesSent { flushes_per_op } => {
                write!(f, "the flushes were sent: {flushes_per_op:.2} per sync")
            }
            Self::FlushesOfOthers { flushes_per_op } => {
                write!(
                    f,
                    "{flushes_per_op:.2} device flushes per sync were counted all the same; they may be others'"
                )
            }
            Self::FlushesNotCounted => write!(f, "no flush counter of the device can be read"),
            Self::FuaIsNotCounted => {
                write!(f, "no flush was counted, but the device takes FUA writes, which are not counted")
            }
            Self::NoVolatileCache { view: DriveView::Off } => {
                write!(f, "the drive says that its write cache is off")
            }
            Self::NoVolatileCache { .. } => write!(f, "the drive says that it has no volatile write cache"),
            Self::KernelSeesNoCache { attachment: Attachment::Virtual } => {
                write!(
                    f,
                    "the host says that its disk has no volatile cache; the flushes are the host's affair"
                )
            }
            Self::KernelSeesNoCache { .. } => {
                write!(f, "the drive reported no volatile write cache to the kernel (\"write through\")")
            }
            Self::CacheOn { by_drive: true } => {
                write!(f, "the drive says its own cache is on and nothing with a battery is seen in between")
            }
            Self::CacheOn { by_drive: false } => {
                write!(
                    f,
                    "the kernel sees a write cache that is on (\"write back\"); the drive was not asked"
                )
            }
        }
    }
}
