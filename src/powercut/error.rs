//! What can go wrong while power is cut.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::replay::engine::EngineError;
use crate::server::ServerError;
use crate::server::restore::RestoreError;
use crate::simdrive;
use crate::sys::SysError;
use crate::sys::error::{reason, shown};

/// An error of this wing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call failed.
    #[error("could not {operation} \"{}\": {}", shown(.path), reason(*.errno))]
    Call {
        /// What was to be done.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it was not.
        errno: Errno,
    },
    /// A simulated drive or its write log.
    #[error(transparent)]
    Drive(#[from] simdrive::Error),
    /// A copy.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A server under test.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The client that feeds it a dump.
    #[error(transparent)]
    Client(#[from] RestoreError),
    /// A tool that repairs.
    #[error(transparent)]
    Sys(#[from] SysError),
    /// The template does not fit.
    #[error("the template has {bytes} bytes, and power cuts are tried on at most {most}")]
    TooLarge {
        /// Of the template.
        bytes: u64,
        /// Limit.
        most: u64,
    },
    /// The log has no section of that name.
    #[error("the write log has no section \"{name}\"")]
    NoSection {
        /// The section.
        name: String,
    },
    /// The checker did not find what was planted, or found what was not: its other answers mean nothing.
    #[error("injector invalid: {fault}")]
    InjectorInvalid {
        /// What was planted.
        fault: String,
    },
}

impl Error {
    /// Could it never have been here?
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Error::Drive(error) if error.is_unavailable())
            || matches!(self, Error::Server(error) if is_missing(error))
            || matches!(self, Error::TooLarge { .. })
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::Drive(error) => error.hint(),
            Error::Server(error) => error.hint().map(Cow::into_owned),
            Error::TooLarge { .. } => {
                Some("pg15 has 298 files and 7 MB; many-small:N makes N files".to_owned())
            }
            _ => None,
        }
    }
}

/// A server that cannot be here, or not so.
fn is_missing(error: &ServerError) -> bool {
    use ServerError::{Impassable, NoBinaries, NoProgram, UnknownVersion, Unusable};
    match error {
        ServerError::Cluster { source, .. } => is_missing(source),
        error => matches!(
            error,
            NoBinaries { .. }
                | NoProgram { .. }
                | Unusable { .. }
                | UnknownVersion { .. }
                | Impassable { .. }
        ),
    }
}

/// Says what was attempted on which path.
pub(super) trait Attempt<T> {
    fn attempt(self, operation: &'static str, path: impl AsRef<Path>) -> Result<T, Error>;
}

impl<T> Attempt<T> for io::Result<T> {
    fn attempt(self, operation: &'static str, path: impl AsRef<Path>) -> Result<T, Error> {
        self.map_err(|error| Error::Call {
            operation,
            path: path.as_ref().to_owned(),
            errno: error.raw_os_error().map_or(Errno::EIO, Errno::from_raw),
        })
    }
}
