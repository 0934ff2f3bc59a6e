//! Other people's `pg_test_fsync` output, 9.1 to 19: read, judged and compared, from the text alone.
//!
//! [`read`] takes bytes and gives sets, one a run, and the lines that could not be read; [`judge`](judge()) says
//! what a set proves about the syncs; [`compare`](compare()) sets like beside like. Nothing here opens a file.

mod compare;
mod figures;
mod judge;
mod keys;
mod layout;
mod lines;
mod number;
mod origin;
mod reader;
#[cfg(test)]
mod tests;

use std::fmt;

pub use compare::{Difference, Finding, compare};
pub use judge::{Medium, judge};
pub use layout::{Block, Method};
pub use origin::{DirectIo, Origin, Platform, Version, Versions};
pub use reader::read;

use crate::probe::verdict::SyncMethod;

/// What a text holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The runs of `pg_test_fsync`, in the order of the text.
    pub sets: Vec<Set>,
    /// The lines that look like a part of it and cannot be read, in the order of the text.
    pub unread: Vec<Unread>,
    /// How many more such lines there are than `unread` keeps.
    pub unread_more: usize,
    /// The line at which reading stopped because the text has more runs than anybody made.
    pub stopped_at_line: Option<usize>,
}

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    /// What to call it: empty until [`Set::named`].
    pub source: String,
    /// Its first and last line in the text, from 1.
    pub lines: (usize, usize),
    /// What the text gives away about version and platform.
    pub origin: Origin,
    /// The lines that were read, in their order; a line that is missing in the text is missing here.
    pub rows: Vec<Row>,
    /// Whether all 18 lines are there and none was cut off.
    pub complete: bool,
}

/// One line of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The block it stands in.
    pub block: Block,
    /// What it times.
    pub method: Method,
    /// Operations a second; `None` for `n/a`.
    pub ops_per_sec: Option<f64>,
    /// Microseconds an operation, as printed (whole); `None` for `n/a` and before 9.3.
    pub usecs_per_op: Option<u64>,
    /// `n/a*`: the file could not be opened with `O_DIRECT`.
    pub direct_io_refused: bool,
}

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Its number, from 1.
    pub line: usize,
    /// Its beginning, freed of quote marks.
    pub text: String,
    /// Why.
    pub reason: UnreadReason,
}

/// Why a line cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadReason {
    /// It ends before its figures or their unit.
    CutOff,
    /// No number is written like this.
    Malformed,
    /// The number can mean a rate or a thousand times as much.
    Ambiguous,
    /// Rate and time are not each other's inverse.
    ColumnsDisagree,
    /// The block has this line already.
    Repeated,
    /// It has the units but no label that is known.
    UnknownLabel,
    /// Several lines stand in it.
    RunTogether,
    /// It is longer than any line of any version.
    TooLong,
    /// `pg_test_fsync` says that it gave up.
    GaveUp,
}

impl fmt::Display for UnreadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CutOff => "cut off: figures or unit are missing",
            Self::Malformed => "no number is written like this",
            Self::Ambiguous => {
                "ambiguous: a decimal comma or a thousands separator, and no usecs/op to decide"
            }
            Self::ColumnsDisagree => "ops/sec and usecs/op do not belong together",
            Self::Repeated => "this line was there already",
            Self::UnknownLabel => "figures without a label that is known",
            Self::RunTogether => "several lines run together",
            Self::TooLong => "too long for a line of pg_test_fsync",
            Self::GaveUp => "pg_test_fsync gave up here",
        })
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: \"{}\"", self.line, self.reason, self.text.trim())
    }
}

impl Set {
    /// The set under a name: the file it came from, or what the reader calls the machine.
    #[must_use]
    pub fn named(mut self, source: &str) -> Self {
        source.clone_into(&mut self.source);
        self
    }

    /// The row of this block and method, if the text has it.
    pub fn row(&self, block: Block, method: Method) -> Option<&Row> {
        self.rows.iter().find(|row| row.block == block && row.method == method)
    }

    /// Operations a second of this line; `None` when it is missing or `n/a`.
    pub fn rate(&self, block: Block, method: Method) -> Option<f64> {
        self.row(block, method).and_then(Row::rate).filter(|rate| *rate > 0.0)
    }

    /// Operations a second of one 8 kB write with this method.
    pub fn one(&self, method: SyncMethod) -> Option<f64> {
        self.rate(Block::One8, Method::Sync(method))
    }

    /// The method whose sync reaches the drive on this platform and stands beside Linux's `fsync`.
    pub fn flushing_sync(&self) -> SyncMethod {
        match self.origin.platform {
            Platform::MacOs => SyncMethod::FsyncWritethrough,
            Platform::Windows | Platform::Unix | Platform::Unknown => SyncMethod::Fsync,
        }
    }
}

impl Row {
    /// Operations a second from whichever column is the more precise; `None` for `n/a`.
    ///
    /// The rate has three decimals and the time none: `0.350 ops/sec 2860294 usecs/op` is 0.34961,
    /// `1309761.044 ops/sec 1 usecs/op` is what it says.
    pub fn rate(&self) -> Option<f64> {
        let ops = self.ops_per_sec?;
        let by_time = self.usecs_per_op.map(|usecs| usecs as f64).filter(|usecs| *usecs > ops * 1000.0);
        Some(by_time.map_or(ops, |usecs| 1e6 / usecs))
    }
}
