//! What a trial of CREATE DATABASE adds to a sample, and what a document says of a server.

use serde::{Deserialize, Serialize};

use super::Labels;

/// Databases created in a row, dropped in a row, and one created with the checkpoint that pays for it. The sample's
/// `elapsed_ns` is the time of the creates divided by their number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Databases {
    /// Each CREATE DATABASE, in nanoseconds.
    pub create_ns: Vec<u64>,
    /// Each DROP DATABASE, in nanoseconds.
    pub drop_ns: Vec<u64>,
    /// From the first DROP to the end of the last, divided by their number, in nanoseconds.
    pub drop_elapsed_ns: u64,
    /// CREATE DATABASE and CHECKPOINT together, in nanoseconds; null without the right to CHECKPOINT.
    pub create_and_checkpoint_ns: Option<u64>,
    /// WAL written by one CREATE, by position.
    pub wal_bytes: u64,
    /// Replay of one CREATE by a standby that had already received it, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_ns: Option<u64>,
}

/// A server that a run measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// The value of the label `server`.
    pub name: String,
    /// `server_version`.
    pub version: String,
    /// Made for the run, or somebody's.
    pub scratch: bool,
    /// The place of a scratch cluster.
    pub place: Option<String>,
    /// That of its WAL, where it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_place: Option<String>,
    /// How it was built and made: `assertions off, 8 kB blocks, checksums on`.
    pub built: String,
    /// Settings for all arms, as asked for.
    pub settings: Labels,
}
