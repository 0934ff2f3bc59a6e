//! What real power cuts add to a document.

use serde::{Deserialize, Serialize};

use super::plug::Verdicts;

/// The cuts of a run, as its witness knows them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pulled {
    /// The run.
    pub run: String,
    /// The cut that was verified now.
    pub cut: u32,
    /// All cuts, writers that ended by themselves left out.
    pub cuts: Vec<PulledCut>,
    /// Synced overwrites a second, as a short probe found before the cut that was verified now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overwrites_per_sec: Option<f64>,
    /// Device flushes for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushes_per_op: Option<f64>,
}

/// One real power cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PulledCut {
    /// Its number in the run.
    pub cut: u32,
    /// When its writer began, UTC, RFC 3339.
    pub begun_at: String,
    /// When it was verified; absent where it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_at: Option<String>,
    /// The worst that was found of what was acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// Files and names that were acknowledged and looked for.
    pub acknowledged: u64,
    /// What of them was found wrong.
    pub broken: Verdicts,
    /// Things that were not promised and are not as they were last written.
    pub unpromised: u64,
    /// Sectors that were written and never synced.
    pub unsynced: u64,
    /// Of these, those that are there all the same.
    pub unsynced_found: u64,
}
