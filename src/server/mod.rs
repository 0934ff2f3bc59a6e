//! Floor 3: connections as psql makes them, scratch clusters, CREATE DATABASE, restores, pgbench. `conninfo` says where
//! a server is, `connect` goes there, `cluster` makes one of our own, `features` and `settings` tell what it can and how
//! it is set, `createdb`, `restore` and `pgbench` measure there, with the programs that `clients` finds.

pub mod clients;
pub mod cluster;
pub mod connect;
pub mod conninfo;
pub mod createdb;
pub mod dump;
pub mod error;
pub mod features;
pub mod pgbench;
pub mod restore;
pub mod segments;
pub mod settings;
pub mod sql;

pub use connect::{Session, connect};
pub use error::ServerError;

use crate::sys::undo::{UndoKind, UndoTable};

/// What this wing knows to undo.
pub const UNDO: &UndoTable = &[
    UndoKind::of::<cluster::ClusterProcesses>(),
    UndoKind::of::<createdb::database::ScratchDatabase>(),
    UndoKind::of::<settings::change::ChangedSetting>(),
];
