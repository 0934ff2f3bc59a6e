//! What the power cuts under a server add to an arm.

use serde::{Deserialize, Serialize};

/// What had been acknowledged by the end of the workload, and how the servers recovered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recoveries {
    /// Commits with `synchronous_commit=on`.
    pub commits_synchronous: u64,
    /// Commits with `synchronous_commit=off`.
    pub commits_asynchronous: u64,
    /// Databases.
    pub databases: u64,
    /// Restores.
    pub restores: u64,
    /// Images on which the server started.
    pub started: u64,
    /// The median time until it took connections, in nanoseconds; the image lies in memory.
    pub recovery_median_ns: Option<u64>,
    /// The longest.
    pub recovery_max_ns: Option<u64>,
    /// Images without some of the acknowledged commits with `synchronous_commit=off`: permitted.
    pub asynchronous_lost_cuts: u64,
    /// The most such commits missing on one image.
    pub asynchronous_lost_most: u64,
}
