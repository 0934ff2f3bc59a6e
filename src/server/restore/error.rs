//! Why a restore was refused or failed.

use std::io;
use std::path::{Path, PathBuf};

use crate::server::dump::Danger;
use crate::server::error::ServerError;
use crate::sys::error::{SysError, shown};

/// Why a dump was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A connection, a statement, a cluster.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A program that failed.
    #[error(transparent)]
    Sys(#[from] SysError),
    /// The dump reaches further than it may.
    #[error("{}: {danger}", .dump)]
    Danger {
        /// What is loaded, as it is called in reports.
        dump: String,
        /// Where and what.
        danger: Danger,
    },
    /// A file of the dump.
    #[error("could not {deed} \"{}\": {source}", shown(.path))]
    File {
        /// What was to be done: `read file`.
        deed: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Our end of a pipe.
    #[error("could not pass on the dump: {source}")]
    Pipe {
        /// Why.
        source: io::Error,
    },
    /// A table does not hold what was dumped.
    #[error("table {table} holds {found} rows, the dump {dumped}")]
    RowsDiffer {
        /// Its name in SQL.
        table: String,
        /// Rows found.
        found: u64,
        /// Rows of the dump.
        dumped: u64,
    },
    /// A text dump is one stream.
    #[error("a plain dump is loaded by one session")]
    NotParallel,
    /// A plain dump gives things to roles that are not there.
    #[error("roles of the dump are missing: {}", .roles.join(", "))]
    NoRoles {
        /// Their names in SQL.
        roles: Vec<String>,
    },
    /// Less room than the restore will take.
    #[error(
        "\"{}\" has {} MB free, and the restore takes about {} MB at its peak", shown(.path), .free_bytes >> 20, .needed_bytes >> 20
    )]
    NoRoom {
        /// The place.
        path: PathBuf,
        /// Free.
        free_bytes: u64,
        /// Data, indexes and WAL.
        needed_bytes: u64,
    },
}

impl RestoreError {
    pub(super) fn file(deed: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::File { deed, path: path.clone(), source }
    }

    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Server(error) => error.hint().map(std::borrow::Cow::into_owned),
            Self::Sys(error) => error.hint().map(str::to_owned),
            Self::Danger { .. } => Some("dump the database again without -C and -c, or with -Fc".to_owned()),
            Self::NoRoles { .. } => {
                Some("create them, or dump again with --no-owner --no-privileges".to_owned())
            }
            Self::NotParallel => {
                Some("-j needs a dump of pg_dump -Fc or -Fd, or --from with --dump-once".to_owned())
            }
            _ => None,
        }
    }
}
