//! The clock of one copy. Time belongs to exactly one phase, so the phases add up to the whole.

use crate::results::Phases;
use crate::sys::clock::now_ns;

/// What the time went into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Reading directories, creating files, moving bytes.
    Copy,
    /// Inside hints, or the pass that gives them.
    Hint,
    /// Waiting for started writeback.
    Settle,
    /// Syncing files: reopening and closing them in a second pass included.
    SyncFiles,
    /// Syncing directories.
    SyncDirectories,
}

impl Part {
    /// Every part, in the order in which they are usually entered.
    pub const ALL: [Self; 5] = [Self::Copy, Self::Hint, Self::Settle, Self::SyncFiles, Self::SyncDirectories];

    /// As the results file names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy_ns",
            Self::Hint => "hint_ns",
            Self::Settle => "settle_ns",
            Self::SyncFiles => "sync_files_ns",
            Self::SyncDirectories => "sync_directories_ns",
        }
    }
}

#[derive(Debug)]
pub(super) struct Stopwatch {
    part: Part,
    since_ns: u64,
    start_ns: u64,
    spent_ns: [u64; Part::ALL.len()],
}

impl Stopwatch {
    pub(super) fn start() -> Self {
        let start_ns = now_ns();
        Self { part: Part::Copy, since_ns: start_ns, start_ns, spent_ns: [0; Part::ALL.len()] }
    }

    /// From now on time belongs to `part`; returns the part that it belonged to.
    pub(super) fn enter(&mut self, part: Part) -> Part {
        let now = now_ns();
        self.spent_ns[self.part as usize] += now.saturating_sub(self.since_ns);
        self.since_ns = now;
        std::mem::replace(&mut self.part, part)
    }

    /// When it was started, nanoseconds from there to the last change of part, and what they went into. A clock that ran
    /// backwards makes these zero, and such a sample is discarded.
    pub(super) fn stop(mut self) -> (u64, u64, Phases) {
        self.enter(Part::Copy);
        let named = Part::ALL.iter().map(|part| (part.name().to_owned(), self.spent_ns[*part as usize]));
        (self.start_ns, self.since_ns.saturating_sub(self.start_ns), named.collect())
    }
}
