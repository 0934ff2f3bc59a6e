//! Floor 1: Samples, quantiles, the paired interval: numbers in, numbers out. It imports nothing that acts: no file, clock, thread or random choice.

use serde::{Deserialize, Serialize};

/// Over the samples of an arm, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Samples.
    pub n: usize,
    /// Median.
    pub median_ns: u64,
}

/// Percentiles of a latency, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Values.
    pub n: u64,
}

/// What a comparison shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Under six rounds.
    TooFewRounds,
}
