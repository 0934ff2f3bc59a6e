//! The five values of `wal_sync_method`.

use std::fmt;

/// A value of the server's `wal_sync_method`, in the order in which `pg_test_fsync` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SyncMethod {
    /// Write with `O_DSYNC`.
    OpenDatasync,
    /// `fdatasync` after the write.
    Fdatasync,
    /// `fsync` after the write.
    Fsync,
    /// `F_FULLFSYNC` on macOS, `_commit` on Windows up to 16; nowhere else.
    FsyncWritethrough,
    /// Write with `O_SYNC`.
    OpenSync,
}

impl SyncMethod {
    /// All of them, in the order of `pg_test_fsync`.
    pub const ALL: [SyncMethod; 5] =
        [Self::OpenDatasync, Self::Fdatasync, Self::Fsync, Self::FsyncWritethrough, Self::OpenSync];

    /// The name that `postgresql.conf` takes.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenDatasync => "open_datasync",
            Self::Fdatasync => "fdatasync",
            Self::Fsync => "fsync",
            Self::FsyncWritethrough => "fsync_writethrough",
            Self::OpenSync => "open_sync",
        }
    }

    /// The method of this exact name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }

    /// Whether each write is a sync of its own, so that two writes pay twice.
    pub fn is_open(self) -> bool {
        matches!(self, Self::OpenDatasync | Self::OpenSync)
    }
}

impl fmt::Display for SyncMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
