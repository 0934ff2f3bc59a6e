//! The write log: every request that reached a drive and every completion, in order, with marks between them.
//!
//! Bytes in, bytes out: no file, no clock. The format is described in docs/WRITELOG.md; [`Encoder`] and the reader's
//! half in `format` are its only two implementations.

mod format;
mod reader;
mod writer;

#[cfg(test)]
mod tests;

pub use format::{Encoder, MOST_DATA_BYTES};
pub use reader::{Ending, Reader};
pub use writer::Writer;

use super::model::Request;

/// What a log says about the drive it was recorded on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Size of the drive.
    pub size_bytes: u64,
    /// Logical block.
    pub block_bytes: u32,
    /// The unit that a power cut does not tear.
    pub atomic_unit_bytes: u32,
    /// Did the drive tell the kernel `write back`? If not, no flushes were sent, and the log cannot tell what they would
    /// have cost.
    pub write_back: bool,
    /// The drive it was recorded on, as its spec.
    pub drive: String,
}

/// One line of the log. Times are nanoseconds since the drive was made, and do not go backwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A request arrived.
    Issued {
        /// When.
        at_ns: u64,
        /// What.
        request: Request,
        /// What a write writes, if it was kept.
        data: Option<&'a [u8]>,
    },
    /// A request completed.
    Completed {
        /// When.
        at_ns: u64,
        /// Which.
        id: u64,
    },
    /// Somebody left a mark: the start of a copy, an acknowledgement.
    Mark {
        /// When.
        at_ns: u64,
        /// Anything.
        text: &'a str,
    },
}

impl Entry<'_> {
    /// When it happened.
    #[must_use]
    pub fn at_ns(&self) -> u64 {
        match self {
            Entry::Issued { at_ns, .. } | Entry::Completed { at_ns, .. } | Entry::Mark { at_ns, .. } => {
                *at_ns
            }
        }
    }
}
