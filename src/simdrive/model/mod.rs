//! The arithmetic of a drive: requests and times in, completions and what is still volatile out.
//!
//! Pure: no clock, no file, no thread. The caller gives every time, in nanoseconds since an arbitrary start of its
//! own, so the same drive runs in real time under a mount and in invented time over a write log. A request may
//! arrive at a time before that of the last look at the drive, if nothing happened in between; an arrival before the
//! last event is taken to have come with that.
//!
//! Driving it: [`Drive::submit`] on arrival of a request, [`Drive::advance`] at or after [`Drive::next_due_ns`],
//! and again after every `submit` (it may have completed at once, or have made something due earlier).
//!
//! What a flush means here, as on SATA: it starts when everything submitted before it has completed, and what is
//! submitted after it waits until it has completed.

use serde::{Deserialize, Serialize};

mod cache;
mod drive;
mod flash;
mod mechanism;
mod network;
mod numbers;
mod rotating;

#[cfg(test)]
mod tests;

pub use drive::Drive;
pub use numbers::{Flash, Mechanism, Model, Network, Rotating, WriteCache};

/// What a request asks of the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Bytes from the drive.
    Read,
    /// Bytes to the drive.
    Write,
    /// Everything completed before is to survive a power cut.
    Flush,
    /// The contents of a range are no longer needed (or are to be read as zero).
    Discard,
}

/// One request, as the drive sees it. A flush has offset and length 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Request {
    /// Chosen by the caller, unique among the requests that are under way.
    pub id: u64,
    /// What is asked.
    pub operation: Operation,
    /// First byte.
    pub offset_bytes: u64,
    /// Number of bytes.
    pub length_bytes: u64,
}

/// A request that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Completion {
    /// The request's id.
    pub id: u64,
    /// When it completed: at or before the time given to [`Drive::advance`], never before its submission.
    pub at_ns: u64,
}

/// What the drive does with a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flush {
    /// Completes when everything before it is on the medium.
    Honest,
    /// Completes at once, as if it had not been sent; the cache stays as it is.
    Ignored,
}

/// How one drive of a model is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Options {
    /// Is the write cache on? Without effect on a model that has none. [`Model::options`] has what the model ships with.
    pub write_cache: bool,
    /// What a flush does. [`Model::options`] has what the model ships with.
    pub flush: Flush,
    /// Size of the simulated drive, however much its model has.
    pub size_bytes: u64,
    /// Decides the angle at which a rotating drive starts. The same seed gives the same run.
    pub seed: u64,
}

/// Bytes that a power cut may take, and the newest completed request that put them there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Extent {
    /// First byte.
    pub offset_bytes: u64,
    /// Number of bytes.
    pub length_bytes: u64,
    /// Id of the write or discard.
    pub id: u64,
}
