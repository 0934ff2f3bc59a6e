//! Real power cuts: the writer that waits for one, and the verifier that makes a document of what it left.

mod verify;
mod write;

use std::path::{Path, PathBuf};

pub use verify::VerifyRequest;
pub use write::{Begun, CutPlan, WriteRequest};

use crate::place::PlaceError;
use crate::powercut::WitnessError;
use crate::results::Stack;
use crate::sys::SysError;
use crate::sys::error::shown;
use crate::sys::kernel::Fault;

/// Why there is no cut, or no document of one.
#[derive(Debug, thiserror::Error)]
pub enum PulledError {
    /// The writer, the witness or the line between them.
    #[error(transparent)]
    Witness(#[from] WitnessError),
    /// The place takes no run.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Our own files.
    #[error(transparent)]
    Sys(#[from] SysError),
    /// The cut command has ended, and nothing came of it.
    #[error("the cut command has ended and the power is still on after {seconds} s")]
    StillOn {
        /// How long it was waited for.
        seconds: u64,
    },
    /// What is read may come from memory.
    #[error(
        "this machine was not started again since cut {cut}: what would be read may come from its memory"
    )]
    SameBoot {
        /// The cut.
        cut: u32,
    },
    /// Another file system lies there now.
    #[error("\"{}\" lay on {then}, and lies on {now} now", shown(.into))]
    Elsewhere {
        /// The place.
        into: PathBuf,
        /// Before the cut.
        then: String,
        /// Now.
        now: String,
    },
    /// What this cut left was whole and is removed.
    #[error("cut {cut} was verified already: kept; what it left was removed then")]
    Verified {
        /// The cut.
        cut: u32,
    },
    /// The writer of this cut ended by itself.
    #[error("cut {cut} was none: its writer ended by itself")]
    NoCut {
        /// The cut.
        cut: u32,
    },
}

impl From<Fault> for PulledError {
    fn from(fault: Fault) -> Self {
        Self::Sys(fault.into())
    }
}

impl PulledError {
    /// Is it refused for safety, rather than failed?
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::SameBoot { .. } | Self::Elsewhere { .. } | Self::NoCut { .. } | Self::Verified { .. } => {
                true
            }
            Self::Place(error) => error.is_refusal(),
            Self::Witness(error) => matches!(
                error,
                WitnessError::NoToken { .. }
                    | WitnessError::ShortToken { .. }
                    | WitnessError::NoSession { .. }
            ),
            _ => false,
        }
    }

    /// What to do about it.
    pub fn hint(&self, command: &str) -> Option<String> {
        match self {
            Self::Witness(error) => error.hint().map(str::to_owned),
            Self::Place(error) => error.hint(command),
            Self::Sys(error) => error.hint().map(str::to_owned),
            Self::StillOn { .. } => Some("run it by hand to see what it does".to_owned()),
            Self::SameBoot { .. } => Some(
                "where the storage alone lost its power and was mounted again: --storage-only".to_owned(),
            ),
            Self::Elsewhere { .. } => Some("mount there what was mounted before the cut".to_owned()),
            Self::NoCut { .. } | Self::Verified { .. } => None,
        }
    }
}

/// The kernel's id of this boot.
fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// A path seen from the mount point of its file system.
fn below_mount(path: &Path, stack: &Stack) -> String {
    shown(path.strip_prefix(&stack.mount_point).unwrap_or(path))
}
