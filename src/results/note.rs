//! Notes: what a reader must know beside the numbers. Each is an enum with a code, never free text alone.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How much a note matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// The numbers may mean something else than they seem to.
    Warning,
    /// The numbers do not mean what they seem to.
    Error,
}

/// What a note is about; kebab-case in the results file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoteCode {
    /// A disk made by a hypervisor or by software: no argument from rotation holds.
    VirtualDisk,
    /// The file system lives in memory: nothing is durable.
    MemoryFileSystem,
    /// The file system, or a device below it, was told not to flush.
    BarriersOff,
    /// Nobody could say whether the drive caches writes.
    WriteCacheUnknown,
    /// Kernel and drive disagree about the write cache.
    ViewsDisagree,
    /// A preloaded library may swallow syncs.
    PreloadShim,
    /// An overlay mounted `volatile`: all syncs are omitted.
    OverlayVolatile,
    /// ext4 without a journal: syncfs promises nothing.
    SyncfsUnflushed,
    /// The file system is nearly full.
    NearlyFull,
    /// Others wrote to the same disk during a trial.
    OtherWriters,
    /// The server runs with fsync=off.
    FsyncOff,
    /// The first round was slower than all others.
    FirstRoundSlow,
    /// The samples spread too much to be trusted.
    Unstable,
    /// Two copies of the baseline differ.
    AaDrift,
    /// The device did not become idle in time.
    NotIdle,
    /// The time limit was reached.
    TimeLimit,
    /// The source changed while it was copied.
    ChangedDuringCopy,
    /// Something that is no regular file or directory was skipped.
    SkippedEntry,
    /// The template has directories: each is one copydir in the policies that replay a server.
    ManyDirectories,
    /// A hint is not supported here.
    HintNotSupported,
    /// A directory sync was refused: entries are not durable.
    DirectoryNotDurable,
    /// Another call was used because the asked-for one cannot be here.
    FellBack,
    /// The source has holes; says whether they were kept.
    SparseSource,
    /// The backing device is unknown: nothing was counted there.
    DeviceUnknown,
    /// A running cluster shares the file system or the disk: the run was gentle.
    BesideServer,
    /// A sample had an interval of zero or less and was discarded.
    DiscardedSample,
    /// Samples far from the median, kept and flagged.
    Outliers,
    /// A line of a published output could not be read.
    UnreadLine,
    /// A neighbour's unsynced data lay on the same file system when each trial began.
    DirtyNeighbour,
    /// The place cannot keep the bystander's rate, even without a copy.
    Overloaded,
    /// What was measured happened on a simulated drive.
    Simulated,
    /// A write log breaks off.
    LogTorn,
    /// A write log was recorded where no flushes are sent.
    FlushesMissing,
    /// What a killed run left behind was found.
    LeftBehind,
    /// Two servers differ in more than what is compared.
    ServersDiffer,
    /// A setting that changes nothing for an arm.
    NoEffect,
    /// Two strategies did not copy the same files.
    CopiedDiffers,
    /// Something could not be measured here.
    NotMeasured,
    /// Clients wait for each other more than for the disk.
    Contended,
    /// How far down a cut of the power, or of less, reaches.
    CutReach,
    /// pg_restore or pgbench met errors and went on: what was done is not all that was asked for.
    ErrorsIgnored,
}

impl fmt::Display for NoteCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_value(self).map_err(|_| fmt::Error)?;
        f.pad(text.as_str().unwrap_or_default())
    }
}

/// One note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// What it is about.
    pub code: NoteCode,
    /// How much it matters.
    pub severity: Severity,
    /// The sentence for the reader, with its figures.
    pub text: String,
}

impl Note {
    /// A note of severity `info`.
    pub fn info(code: NoteCode, text: impl Into<String>) -> Self {
        Self { code, severity: Severity::Info, text: text.into() }
    }

    /// A note of severity `warning`.
    pub fn warning(code: NoteCode, text: impl Into<String>) -> Self {
        Self { code, severity: Severity::Warning, text: text.into() }
    }
}
