//! Why a directory or a drive cannot be a place of work.

use std::path::PathBuf;

use crate::storage::clusters::Claimed;
use crate::storage::error::Cause;
use crate::sys::SysError;
use crate::sys::error::shown;
use crate::sys::kernel::Fault;

/// Why a directory or a drive cannot be a place of work.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// It cannot be looked at.
    #[error("could not access directory \"{}\": {}", shown(.directory), .source)]
    Missing {
        /// As given.
        directory: PathBuf,
        /// Why.
        source: Cause,
    },
    /// A block device is never written.
    #[error("\"{}\" is a block device", shown(.device))]
    BlockDevice {
        /// As given.
        device: PathBuf,
    },
    /// A file, or something else that holds no names.
    #[error("\"{}\" is not a directory", shown(.path))]
    NoDirectory {
        /// As given.
        path: PathBuf,
    },
    /// It belongs to a cluster, running or not.
    #[error("{0}")]
    Claimed(Claimed),
    /// A running cluster would be left too little space.
    #[error(
        "{needed_bytes} bytes are needed in \"{}\" and {available_bytes} are free; {kept_bytes} are left to the running \
         cluster in \"{}\"",
        shown(.directory), shown(.cluster)
    )]
    TooFull {
        /// The place.
        directory: PathBuf,
        /// The cluster's data directory.
        cluster: PathBuf,
        /// What the run would take.
        needed_bytes: u64,
        /// What there is.
        available_bytes: u64,
        /// What must be left.
        kept_bytes: u64,
    },
    /// What lies under it cannot be told.
    #[error(transparent)]
    Storage(#[from] crate::storage::Error),
    /// A simulated drive could not be made or taken apart.
    #[error(transparent)]
    Drive(#[from] crate::simdrive::Error),
    /// A call failed.
    #[error(transparent)]
    Sys(#[from] SysError),
}

impl From<Fault> for PlaceError {
    fn from(fault: Fault) -> Self {
        Self::Sys(fault.into())
    }
}

impl PlaceError {
    /// What the reader can do about it; `command` is what a directory is given to: `fsynclab copy --into`.
    pub fn hint(&self, command: &str) -> Option<String> {
        match self {
            Self::BlockDevice { .. } => Some("name a directory on a file system on it".to_owned()),
            Self::Claimed(claimed) => Some(match claimed.beside() {
                Some(beside) => format!("same file system, outside it: {command} {}", shown(&beside)),
                None => "make a directory outside of it, on the same disk".to_owned(),
            }),
            Self::Drive(error) => error.hint(),
            Self::Sys(error) => error.hint().map(str::to_owned),
            _ => None,
        }
    }

    /// Whether it was refused for safety or for want of anything to measure, and did not fail.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::BlockDevice { .. } | Self::Claimed(_) | Self::TooFull { .. } => true,
            Self::Drive(error) => error.is_unavailable(),
            _ => false,
        }
    }
}
