//! What a run of power cuts adds to an arm, and what a document says of the checker.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Images by verdict (`kept`, `lost`, `torn`, `stale`, `misplaced`, `name-lost`, `resurrected`, `does-not-mount`,
/// `needs-fsck`).
pub type Verdicts = BTreeMap<String, u64>;

/// What came of the cuts of one arm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PowerCuts {
    /// Images at random cuts: half during the copy, half after its end.
    pub cuts: u64,
    /// Images at aimed cuts: at flushes and acknowledgements.
    pub aimed: u64,
    /// All images, by what became of that which had been promised.
    pub verdicts: Verdicts,
    /// Nothing that was promised is missing on any of them.
    pub promise_kept: bool,
    /// How likely a broken promise at a random cut may still be, at 95 % confidence; only where none was seen at any.
    pub bound_95: Option<f64>,
    /// What was in fact there after the end of the copy, whatever was promised.
    pub in_fact: InFact,
    /// The smallest example of each verdict that is not `kept`.
    pub examples: Vec<CutExample>,
}

/// Random cuts after the copy had been acknowledged as finished.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFact {
    /// The file system.
    pub file_system: String,
    /// Such cuts.
    pub cuts: u64,
    /// Cuts after which all data that were found were right.
    pub data_kept: u64,
    /// Cuts after which every name was found.
    pub names_kept: u64,
    /// By the worst that was found; `kept` is the whole copy.
    pub verdicts: Verdicts,
}

/// The smallest image found that shows something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutExample {
    /// What it shows.
    pub verdict: String,
    /// Had it been promised otherwise?
    pub promised: bool,
    /// The file or directory, below the drive's root.
    pub path: String,
    /// What is wrong with it.
    pub detail: String,
    /// The image: the cut, requests that are missing, the request that is torn.
    pub image: String,
    /// How many requests had to be missing, or torn.
    pub missing: u64,
    /// Shows it again from the write log of this run.
    pub command: String,
}

/// A planted fault and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlantedFault {
    /// What was planted.
    pub name: String,
    /// `caught`, `passes` or `either`.
    pub wanted: String,
    /// Images judged; those of a fault that must be caught end with the first that shows it.
    pub images: u64,
    /// Images that show it.
    pub caught: u64,
    /// All images.
    pub verdicts: Verdicts,
}
