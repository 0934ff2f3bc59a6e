//! What a server can, from its version and its catalogs, never from a guess.

use std::collections::BTreeSet;

use super::connect::Session;
use super::error::ServerError;

/// What a server can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// `server_version_num`: 150018.
    pub version_num: u32,
    /// `server_version`.
    pub version: String,
    /// The names of its settings.
    settings: BTreeSet<String>,
    /// We are a superuser.
    pub superuser: bool,
    /// We may run CHECKPOINT: as superuser, from 15 on also as a member of `pg_checkpoint`.
    pub may_checkpoint: bool,
    /// In recovery: nothing can be created.
    pub standby: bool,
}

impl Features {
    /// Asks the server.
    pub fn read(session: &mut Session) -> Result<Self, ServerError> {
        let version_num = session.value("SHOW server_version_num")?.parse().unwrap_or(0);
        let settings =
            session.rows("SELECT name FROM pg_catalog.pg_settings")?.into_iter().flatten().collect();
        let superuser = session.value("SHOW is_superuser")? == "on";
        let member = version_num >= 150_000
            && session.value("SELECT pg_catalog.pg_has_role('pg_checkpoint', 'usage')")? == "t";
        Ok(Self {
            version_num,
            version: session.value("SHOW server_version")?,
            settings,
            superuser,
            may_checkpoint: superuser || member,
            standby: session.value("SELECT pg_catalog.pg_is_in_recovery()")? == "t",
        })
    }

    /// Whether it knows a setting.
    pub fn has_setting(&self, name: &str) -> bool {
        self.settings.contains(name)
    }

    /// CREATE DATABASE takes STRATEGY (15).
    pub fn has_strategy(&self) -> bool {
        self.version_num >= 150_000
    }

    /// FILE_COPY can share blocks (18).
    pub fn has_clone(&self) -> bool {
        self.has_setting("file_copy_method")
    }

    /// The function that tells how far the WAL has come; it was renamed in 10.
    pub fn wal_position(&self) -> &'static str {
        if self.version_num >= 100_000 {
            "pg_current_wal_insert_lsn()"
        } else {
            "pg_current_xlog_insert_location()"
        }
    }

    /// The function that tells the distance between two positions.
    pub fn wal_distance(&self) -> &'static str {
        if self.version_num >= 100_000 { "pg_wal_lsn_diff" } else { "pg_xlog_location_diff" }
    }

    /// How many checkpoints were done: the view was split in 17.
    pub fn checkpoints_done(&self) -> &'static str {
        if self.version_num >= 170_000 {
            "SELECT num_timed + num_requested FROM pg_catalog.pg_stat_checkpointer"
        } else {
            "SELECT checkpoints_timed + checkpoints_req FROM pg_catalog.pg_stat_bgwriter"
        }
    }
}
