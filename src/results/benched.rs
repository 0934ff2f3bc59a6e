//! What a trial of pgbench adds to a sample, and a document to know whether a disk can be so fast.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Labels;

/// A run of pgbench; all fields of its sample. The sample's `operations` are its transactions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Benched {
    /// Transactions a second, as pgbench prints it: without the time to connect.
    pub tps: f64,
    /// Transactions that failed, from 15 on.
    pub failed_transactions: u64,
    /// Of pgbench, in nanoseconds.
    pub client_user_ns: u64,
    /// The same in the kernel, in nanoseconds.
    pub client_sys_ns: u64,
    /// WAL written, by position.
    pub wal_written_bytes: u64,
    /// Syncs of the WAL, or synchronous writes with the `open_*` methods, as servers from 14 on count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_syncs: Option<u64>,
    /// Settings in force on which it depends whether a commit waits for the disk.
    pub in_force: Labels,
}

/// The place of a server's WAL, and how fast it syncs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WalPlace {
    /// The value of the label `server`.
    pub server: String,
    /// The directory in which it was probed, escaped where it is not text.
    pub path: String,
    /// Synced 8 kB overwrites a second by `wal_sync_method`, as `probe` measures them.
    pub syncs_per_sec: BTreeMap<String, f64>,
    /// Turns a second of a platter, by the drive's claim; absent where nothing is known to turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns_per_sec: Option<f64>,
    /// Why no sync here reaches the medium, in words; absent where nothing says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volatile: Option<String>,
    /// The cache that may answer in place of the medium, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
}

/// Whether commits can be as fast as an arm's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plausibility {
    /// `plausible`, `not-waited-for`, `answered-from-memory`, `cannot-tell`.
    pub code: String,
    /// What explains a commit that is faster than the disk: a setting with its value, or the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained_by: Option<String>,
    /// The sentence, with its figures.
    pub text: String,
}
