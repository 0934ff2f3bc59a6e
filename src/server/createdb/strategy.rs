//! The ways in which a server can copy a template.

use std::fmt;

use crate::server::features::Features;
use crate::server::sql::identifier;

/// One way. Facts: PostgreSQL's documentation of CREATE DATABASE (STRATEGY, from 15) and of `file_copy_method` (from 18).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strategy {
    /// Files copied between two checkpoints, each fsynced.
    FileCopy,
    /// The same, blocks shared where the file system can.
    FileCopyClone,
    /// Every block through shared buffers and the WAL; its fsyncs are left to the next checkpoint.
    WalLog,
}

impl Strategy {
    /// All, the baseline first: the one that every version has.
    pub const ALL: [Self; 3] = [Self::FileCopy, Self::FileCopyClone, Self::WalLog];

    /// As a label and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FileCopy => "file_copy",
            Self::FileCopyClone => "file_copy+clone",
            Self::WalLog => "wal_log",
        }
    }

    /// The strategy of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == name)
    }

    /// Why a server cannot do it; nothing if it can.
    pub fn missing(self, features: &Features) -> Option<&'static str> {
        match self {
            Self::FileCopy => None,
            Self::WalLog => (!features.has_strategy())
                .then_some("servers below 15 have no STRATEGY: they always copy files"),
            Self::FileCopyClone => {
                (!features.has_clone()).then_some("servers below 18 have no file_copy_method")
            }
        }
    }

    /// What the session must be told before.
    pub fn session_setting(self, features: &Features) -> Option<&'static str> {
        match self {
            Self::FileCopyClone => Some("SET file_copy_method = clone"),
            Self::FileCopy if features.has_clone() => Some("SET file_copy_method = copy"),
            _ => None,
        }
    }

    /// The statement.
    pub fn create(self, features: &Features, database: &str, template: &str) -> String {
        let (database, template) = (identifier(database), identifier(template));
        let strategy = match self {
            _ if !features.has_strategy() => "",
            Self::WalLog => " STRATEGY wal_log",
            Self::FileCopy | Self::FileCopyClone => " STRATEGY file_copy",
        };
        format!("CREATE DATABASE {database} TEMPLATE {template}{strategy}")
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
