//! Floor 1: Samples, quantiles, the paired interval: numbers in, numbers out. It imports nothing that acts:
//! no file, clock, thread or random choice.
//!
//! Everything here is decided by counting, so the same numbers give the same answer on every machine.
//! What is computed and why stands in `docs/STATISTICS.md`. The wing neither picks samples (warm-ups and
//! voided trials are left out by the caller) nor words a report.

mod bound;
mod flags;
mod order;
mod paired;
mod percentiles;
mod signed_rank;
mod summary;
mod usable;
mod verdict;

pub use bound::bound_95;
pub use flags::{first_round_slow, outliers, relative_spread, trend, unstable};
pub use paired::{Better, Paired, paired};
pub use percentiles::{Percentiles, percentiles};
pub use summary::{RateSummary, Summary, rate_summary, summary};
pub use usable::{Usable, usable};
pub use verdict::{Verdict, judge};

/// Rounds below which no 95 % interval exists: five rounds all pointing one way are chance in 2 / 2^5 = 6 %.
pub const FEWEST_ROUNDS: usize = 6;

#[cfg(test)]
mod simulated_runs;
