//! What a published table says by itself.

use std::fmt;

use super::{figure, turns};
use crate::probe::verdict::{FASTEST_TURNS_PER_SEC, SyncMethod};

/// What the figures of a published table say. Rates are operations a second.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    missing_docs,
    reason = "each variant is documented; its fields are rates in ops/s and what they are of"
)]
pub enum Table {
    /// Figures that show the platter: near a usual speed, and two writes take two turns.
    LooksLikeAPlatter { ops_per_sec: f64, rpm: u32, two_writes_ops_per_sec: f64 },
    /// Too slow to be a lie, but nothing shows what it is.
    NoFasterThanAPlatter { ops_per_sec: f64 },
    /// Too fast for a platter, and the text does not say what it is.
    TooFastForAPlatter { ops_per_sec: f64 },
    /// Flash, by the reader's word.
    FlashOnlyAPowerCutCanTell { ops_per_sec: f64 },
    /// macOS: `fsync` hands over, `fsync_writethrough` flushes.
    HandsOverOnly { fsync: f64, writethrough: f64 },
    /// macOS: only `fsync_writethrough` flushes, whatever the ratio.
    OnlyWritethroughFlushes { writethrough: f64 },
    /// Windows: `open_datasync` is not what it says.
    DatasyncFarAboveFsync { open_datasync: f64, fsync: f64 },
    /// A write without sync is as slow as one with it.
    SyncCostsNothing { write: f64, fsync: f64 },
    /// The same, but so slowly that every write may be synced by the mount.
    EveryWriteMayBeSynced { write: f64, fsync: f64 },
    /// Two synchronous writes cost hardly more than one.
    TwoWritesAreNotHalf { method: SyncMethod, one: f64, two: f64 },
    /// `fsync` commits a journal that `fdatasync` leaves alone.
    FsyncCommits { fdatasync: f64, fsync: f64 },
    /// The `open_*` lines used `O_DIRECT`, servers from 16 on do not.
    OpenLinesUsedDirectIo,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LooksLikeAPlatter { ops_per_sec, rpm, two_writes_ops_per_sec } => write!(
                f,
                "{} syncs/s, and two synchronous writes {} ops/s: each write waits for a turn of a {rpm} rpm platter ({} a second)",
                figure(*ops_per_sec),
                figure(*two_writes_ops_per_sec),
                figure(turns(*rpm))
            ),
            Self::NoFasterThanAPlatter { ops_per_sec } => write!(
                f,
                "{} syncs/s: no faster than a platter turns (up to {FASTEST_TURNS_PER_SEC} a second), so nothing speaks against them; the text does not say what the storage is",
                figure(*ops_per_sec)
            ),
            Self::TooFastForAPlatter { ops_per_sec } => write!(
                f,
                "{} syncs/s: no platter turns more than {FASTEST_TURNS_PER_SEC} times a second, so this is flash, a controller's memory, several disks, or one that answers from its cache; the text does not say which, and only a power cut can tell",
                figure(*ops_per_sec)
            ),
            Self::FlashOnlyAPowerCutCanTell { ops_per_sec } => write!(
                f,
                "{} syncs/s are possible for flash; only a power cut can tell whether they are kept",
                figure(*ops_per_sec)
            ),
            Self::HandsOverOnly { fsync, writethrough } => write!(
                f,
                "fsync {}/s is {} times fsync_writethrough {}/s: on macOS fsync only hands the data to the drive, and only fsync_writethrough flushes it",
                figure(*fsync),
                figure(fsync / writethrough),
                figure(*writethrough)
            ),
            Self::OnlyWritethroughFlushes { writethrough } => {
                write!(f, "on macOS only fsync_writethrough ({}/s) flushes the drive", figure(*writethrough))
            }
            Self::DatasyncFarAboveFsync { open_datasync, fsync } => write!(
                f,
                "open_datasync {}/s is {} times fsync {}/s: on Windows (servers up to 11, SATA drives since) it does not flush the drive",
                figure(*open_datasync),
                figure(open_datasync / fsync),
                figure(*fsync)
            ),
            Self::SyncCostsNothing { write, fsync } => costs_nothing(f, *write, *fsync),
            Self::EveryWriteMayBeSynced { write, fsync } => {
                costs_nothing(f, *write, *fsync)?;
                f.write_str(", or the mount syncs every write")
            }
            Self::TwoWritesAreNotHalf { method, one, two } => write!(
                f,
                "two writes with {method} ({}/s) cost hardly more than one ({}/s), though each should be synced",
                figure(*two),
                figure(*one)
            ),
            Self::FsyncCommits { fdatasync, fsync } => write!(
                f,
                "fsync ({}/s) takes {} times as long as fdatasync ({}/s): it also commits the file's times",
                figure(*fsync),
                figure(fdatasync / fsync),
                figure(*fdatasync)
            ),
            Self::OpenLinesUsedDirectIo => {
                write!(
                    f,
                    "the open_* lines were measured with O_DIRECT, which servers from 16 on do not use for WAL"
                )
            }
        }
    }
}

fn costs_nothing(f: &mut fmt::Formatter<'_>, write: f64, fsync: f64) -> fmt::Result {
    let (write, fsync) = (figure(write), figure(fsync));
    write!(
        f,
        "a write without any sync ({write}/s) is as slow as one with fsync ({fsync}/s): the sync does nothing"
    )
}
