//! What can go wrong between a writer and its witness.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::sys::SysError;
use crate::sys::error::{reason, shown};
use crate::sys::kernel::Fault;
use crate::sys::watch::Stop;

/// An error of a writer, a witness or a verifier.
#[derive(Debug, thiserror::Error)]
pub enum WitnessError {
    /// A call on a file failed. On the storage under test a failed sync is final.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// Our own files, or the cut command.
    #[error(transparent)]
    Sys(#[from] SysError),
    /// A call on something else failed.
    #[error("could not {operation} \"{}\": {}", shown(.path), reason(*.errno))]
    Call {
        /// What was to be done.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it was not.
        errno: Errno,
    },
    /// The name leads to no address.
    #[error("could not find witness \"{host}\": {source}")]
    NoSuchHost {
        /// As given.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// Nobody could be reached, or was for too long.
    #[error("could not reach the witness at {address}: {}", io_reason(.source))]
    Unreachable {
        /// Where.
        address: String,
        /// The last attempt.
        source: io::Error,
    },
    /// Nobody can listen there.
    #[error("could not listen on {address}: {}", io_reason(.source))]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The other end does not know the token.
    #[error("the witness at {address} has another token")]
    Token {
        /// Where.
        address: String,
    },
    /// Frames that this version does not understand.
    #[error("what answers at {address} is no witness of this version")]
    Protocol {
        /// Where.
        address: String,
    },
    /// The witness keeps nothing any more.
    #[error("the witness refused: {why}")]
    Refused {
        /// In its words.
        why: String,
    },
    /// A file that should hold a token does not.
    #[error("\"{}\" holds no token: {why}", shown(.path))]
    NoToken {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The environment's token is too short.
    #[error("the token in {variable} is shorter than 16 bytes")]
    ShortToken {
        /// The variable.
        variable: &'static str,
    },
    /// Another witness keeps its ledgers there.
    #[error("another witness keeps its ledgers in \"{}\"", shown(.directory))]
    Locked {
        /// The directory.
        directory: PathBuf,
    },
    /// A ledger that was changed after it was written.
    #[error("ledger \"{ledger}\" is damaged at line {line}")]
    Damaged {
        /// The file or the run.
        ledger: String,
        /// Counts from 1.
        line: usize,
    },
    /// The witness knows nothing that would fit.
    #[error("the witness knows no writer that worked in \"{}\"{}", shown(.into), .run.as_ref().map_or_else(String::new, |run| format!(" in run {run}")))]
    NoSession {
        /// The directory.
        into: PathBuf,
        /// The run that was asked for.
        run: Option<String>,
    },
    /// Told to stop.
    #[error("stopped: {0}")]
    Stopped(Stop),
}

impl WitnessError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unreachable { .. } => Some("on the witness: fsynclab plug listen --listen ADDRESS:PORT"),
            Self::Token { .. } => Some("copy the file \"token\" from the directory of the witness"),
            Self::NoToken { .. } | Self::ShortToken { .. } => {
                Some("head -c 24 /dev/urandom | base64 makes one; a file of one has mode 600")
            }
            Self::Refused { .. } => Some("what it has kept so far is whole; make room there and begin again"),
            Self::NoSession { .. } => Some("DIR is what was given to plug write --into"),
            Self::Sys(error) => error.hint(),
            _ => None,
        }
    }
}

/// What an I/O error says, without its number.
pub(super) fn io_reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => reason(Errno::from_raw(number)),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "it hung up".to_owned(),
        None => error.to_string(),
    }
}

/// Says what was attempted on which path.
pub(crate) trait Attempt<T> {
    /// Names it.
    fn attempt(self, operation: &'static str, path: impl AsRef<Path>) -> Result<T, WitnessError>;
}

impl<T> Attempt<T> for io::Result<T> {
    fn attempt(self, operation: &'static str, path: impl AsRef<Path>) -> Result<T, WitnessError> {
        self.map_err(|error| WitnessError::Call {
            operation,
            path: path.as_ref().to_owned(),
            errno: error.raw_os_error().map_or(Errno::EIO, Errno::from_raw),
        })
    }
}
