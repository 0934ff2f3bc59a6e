//! What a trial of a restore adds to a sample.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A database restored; all fields of its sample.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// Of pg_dump, psql or pg_restore together, in nanoseconds.
    pub user_ns: u64,
    /// The same in the kernel, in nanoseconds.
    pub sys_ns: u64,
    /// WAL written, by position.
    pub wal_bytes: u64,
    /// Text of the dump.
    pub bytes: u64,
    /// WAL segments made anew or recycled from old ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_segments: Option<u64>,
    /// Those of them that were recycled; known of scratch clusters, from their log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_segments_recycled: Option<u64>,
    /// By part of the load (`tables`, `indexes`, …): how long its sessions were seen waiting for what (`device`,
    /// `checkpoint`, `client`, `lock`, `other`) or computing (`cpu`), in nanoseconds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waits_ns: BTreeMap<String, BTreeMap<String, u64>>,
    /// Checkpoints begun, the last one of the trial included.
    pub checkpoints: u64,
    /// Transactions committed in the database by the load.
    pub commits: u64,
    /// Tables with data, each verified to hold as many rows as the dump.
    pub tables: u64,
    /// Their rows.
    pub rows: u64,
    /// Errors that pg_restore met and went on.
    pub errors_ignored: u64,
    /// The index that took longest to build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest_index: Option<String>,
    /// How long, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest_index_ns: Option<u64>,
}
