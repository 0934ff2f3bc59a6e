//! How files are written and synced: one row a method, with what it promises. Names are made durable by a sync of their
//! directory, which `syncfs` alone does not need.

use nix::fcntl::OFlag;

/// What follows a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Nothing: the write itself was synchronous, or nothing is promised.
    Nothing,
    /// fsync of the file.
    Fsync,
    /// fdatasync of the file.
    Fdatasync,
    /// syncfs of the file system; names too are durable after it.
    Syncfs,
}

/// A way to write.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// Its name in ledgers, tables and messages.
    pub name: &'static str,
    /// How its files are opened, beside for writing.
    pub open: OFlag,
    /// sync_file_range(WRITE) first, as the second pass of PostgreSQL has it.
    pub hint: bool,
    /// What follows.
    pub after: After,
    /// Is what was written durable then?
    pub data: bool,
}

const fn row(name: &'static str, open: OFlag, after: After) -> Method {
    Method { name, open, hint: false, after, data: true }
}

/// Every method. `no-sync` promises nothing but a file's first contents: of what follows something must be lost, or nothing
/// was cut.
pub const METHODS: &[Method] = &[
    row("fsync", OFlag::empty(), After::Fsync),
    row("fdatasync", OFlag::empty(), After::Fdatasync),
    row("open_datasync", OFlag::O_DSYNC, After::Nothing),
    row("open_sync", OFlag::O_SYNC, After::Nothing),
    row("syncfs", OFlag::empty(), After::Syncfs),
    Method { hint: true, ..row("sync_file_range+fsync", OFlag::empty(), After::Fsync) },
    Method { data: false, ..row("no-sync", OFlag::empty(), After::Nothing) },
];
