//! What one arm's samples say: median, range, spread, and how well the median is known.

use serde::{Deserialize, Serialize};

use super::order::{self, Number};

/// Durations of one arm, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Samples summarised.
    pub n: usize,
    /// The median; of an even number of samples the midpoint of the middle two, rounded down.
    pub median_ns: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Median absolute deviation from the median, unscaled.
    pub mad_ns: u64,
    /// Two samples that enclose the true median in at least 95 of 100 runs; absent below six samples.
    pub median_ci95_ns: Option<[u64; 2]>,
    /// Operations over time, of all samples together; absent where a sample is one operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ops_per_sec: Option<f64>,
    /// Of pgbench: the median of the samples' transactions a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_tps: Option<f64>,
    /// Two samples that enclose the true median of those in at least 95 of 100 runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_tps_ci95: Option<[f64; 2]>,
}

/// The same of anything measured in floating point: operations or transactions a second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RateSummary {
    /// Samples summarised.
    pub n: usize,
    /// The median; of an even number of samples the midpoint of the middle two.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Median absolute deviation from the median, unscaled.
    pub mad: f64,
    /// Two samples that enclose the true median in at least 95 of 100 runs; absent below six samples.
    pub median_ci95: Option<[f64; 2]>,
}

/// Summarises durations in nanoseconds; `None` where there are none.
pub fn summary(elapsed_ns: &[u64]) -> Option<Summary> {
    let Described { n, median, min, max, mad, median_ci95 } = describe(elapsed_ns)?;
    Some(Summary {
        n,
        median_ns: median,
        min_ns: min,
        max_ns: max,
        mad_ns: mad,
        median_ci95_ns: median_ci95,
        ops_per_sec: None,
        median_tps: None,
        median_tps_ci95: None,
    })
}

/// Summarises rates; `None` where there are none, or one is not a finite number.
pub fn rate_summary(rates: &[f64]) -> Option<RateSummary> {
    if rates.iter().any(|rate| !rate.is_finite()) {
        return None;
    }
    let Described { n, median, min, max, mad, median_ci95 } = describe(rates)?;
    Some(RateSummary { n, median, min, max, mad, median_ci95 })
}

struct Described<T> {
    n: usize,
    median: T,
    min: T,
    max: T,
    mad: T,
    median_ci95: Option<[T; 2]>,
}

fn describe<T: Number>(values: &[T]) -> Option<Described<T>> {
    let sorted = order::sorted(values);
    let n = sorted.len();
    let median = order::middle(&sorted)?;
    Some(Described {
        n,
        median,
        min: sorted[0],
        max: sorted[n - 1],
        mad: order::mad(&sorted, median)?,
        median_ci95: median_rank(n).map(|rank| [sorted[rank - 1], sorted[n - rank]]),
    })
}

/// The largest rank k such that the k-th smallest and the k-th largest of n samples enclose the median of
/// what they are drawn from with probability 95 % or more, whatever its distribution: each sample is below
/// that median with probability 1/2, so they fail with probability 2 P(Binomial(n, 1/2) < k).
///
/// Summed as logarithms, since 2^-n leaves the range of f64 at n = 1075.
fn median_rank(n: usize) -> Option<usize> {
    let mut ln_probability = -(n as f64) * std::f64::consts::LN_2;
    let mut tail = 0.0;
    let rank = (0..n)
        .take_while(|&k| {
            tail += ln_probability.exp();
            ln_probability += ((n - k) as f64 / (k + 1) as f64).ln();
            tail <= 0.025
        })
        .count();
    (rank > 0).then_some(rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn seven_samples_by_hand() {
        // Sorted: 10 20 30 40 50 60 100. Median 40. Deviations 30 20 10 0 10 20 60, sorted
        // 0 10 10 20 20 30 60, so MAD 20. 2 P(B(7) < 1) = 2/128 = 1.6 %, 2 P(B(7) < 2) = 16/128 = 12.5 %:
        // the interval is the first to the last sample.
        let of_seven = summary(&[100, 20, 60, 10, 40, 50, 30]);
        let by_hand = Summary {
            n: 7,
            median_ns: 40,
            min_ns: 10,
            max_ns: 100,
            mad_ns: 20,
            median_ci95_ns: Some([10, 100]),
            ops_per_sec: None,
            median_tps: None,
            median_tps_ci95: None,
        };
        assert_eq!(of_seven, Some(by_hand));
    }

    #[test]
    fn an_even_number_has_its_median_between_the_middle_two() {
        // Median (2 + 5) / 2 = 3.5; deviations 2.5 1.5 1.5 5.5, sorted 1.5 1.5 2.5 5.5: MAD (1.5 + 2.5) / 2 = 2.
        let of_four = rate_summary(&[9.0, 1.0, 5.0, 2.0]).expect("four finite rates");
        assert_eq!((of_four.median, of_four.mad, of_four.median_ci95), (3.5, 2.0, None));
        assert_eq!(summary(&[9, 1, 5, 2]).map(|s| s.median_ns), Some(3), "integers round down");
    }

    #[test]
    fn ranks_of_the_median_interval_are_the_published_ones() {
        // Order-statistic ranks for a median at 95 %, as in Conover, Practical Nonparametric Statistics, table A3.
        // n = 6: 2/64 = 3.1 %; n = 9: 2 (1 + 9)/512 = 3.9 %; n = 15: 2 (1 + 15 + 105 + 455)/32768 = 3.5 %.
        let published = [
            (5, None),
            (6, Some(1)),
            (8, Some(1)),
            (9, Some(2)),
            (11, Some(2)),
            (12, Some(3)),
            (15, Some(4)),
            (20, Some(6)),
            (100, Some(40)),
        ];
        for (n, rank) in published {
            assert_eq!(median_rank(n), rank, "n = {n}");
        }
    }

    #[test]
    fn many_samples_do_not_underflow() {
        // n/2 - 1.96 sqrt(n)/2 = 5000 - 98.
        let rank = median_rank(10_000).expect("plenty of samples");
        assert!((4900..=4904).contains(&rank), "{rank}");
    }

    #[test]
    fn nothing_and_not_a_number_have_no_summary() {
        assert_eq!(summary(&[]), None);
        assert_eq!(rate_summary(&[]), None);
        assert_eq!(rate_summary(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn the_largest_durations_do_not_overflow() {
        let largest = summary(&[u64::MAX; 6]).expect("six samples");
        assert_eq!((largest.median_ns, largest.mad_ns), (u64::MAX, 0));
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_median_and_lies_in_the_range(elapsed_ns in prop::collection::vec(any::<u64>(), 1..80)) {
            let of = summary(&elapsed_ns).expect("not empty");
            prop_assert!(of.min_ns <= of.median_ns && of.median_ns <= of.max_ns);
            prop_assert_eq!(of.median_ci95_ns.is_some(), of.n >= crate::stats::FEWEST_ROUNDS);
            if let Some([low, high]) = of.median_ci95_ns {
                prop_assert!(of.min_ns <= low && low <= of.median_ns && of.median_ns <= high && high <= of.max_ns);
            }
        }
    }
}
