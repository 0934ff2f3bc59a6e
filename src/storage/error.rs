//! What can go wrong below a path.

use std::fmt;
use std::io;
use std::path::PathBuf;

use nix::errno::Errno;

use crate::sys::error::shown;

/// The cause of an I/O error as the reader should see it: the kernel's words, without `(os error 2)`.
#[derive(Debug)]
pub struct Cause(io::Error);

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        Self(error)
    }
}

impl Cause {
    /// Whether a privilege is missing.
    pub fn is_privilege(&self) -> bool {
        self.0.kind() == io::ErrorKind::PermissionDenied
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.raw_os_error() {
            Some(number) => f.write_str(Errno::from_raw(number).desc()),
            None => self.0.fmt(f),
        }
    }
}

impl std::error::Error for Cause {}

/// A path whose storage cannot be described.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The path itself cannot be resolved.
    #[error("could not resolve \"{}\": {source}", shown(.path))]
    Path {
        /// What was asked about.
        path: PathBuf,
        /// The kernel's answer.
        source: Cause,
    },
    /// A file of the kernel that must be there cannot be read.
    #[error("could not read file \"{}\": {source}", shown(.path))]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: Cause,
    },
    /// A file of the kernel does not read as expected.
    #[error("could not understand line {line} of \"{}\"", shown(.path))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// No mount covers the path: a chroot or a mount namespace hides it.
    #[error("no mount of /proc/self/mountinfo covers \"{}\"", shown(.path))]
    NoMount {
        /// The resolved path.
        path: PathBuf,
    },
    /// Devices or mounts that lead back to themselves.
    #[error("the storage under \"{}\" leads back to itself", shown(.path))]
    Circular {
        /// Where it was noticed.
        path: PathBuf,
    },
}
