//! Percentiles of a latency histogram, as far as the number of samples carries them.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Percentiles of call latencies, in nanoseconds, as precise as the histogram (three digits: 0.1 %).
///
/// The q-quantile needs 10 / (1 - q) samples, or fewer than ten lie beyond it and it is mostly chance:
/// 20 for p50, 100 for p90, 1000 for p99. Below that it is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Calls counted.
    pub n: u64,
    /// The median, of 20 calls or more.
    pub p50_ns: Option<u64>,
    /// Nine of ten calls took at most this, of 100 calls or more.
    pub p90_ns: Option<u64>,
    /// All but one of a hundred took at most this, of 1000 calls or more.
    pub p99_ns: Option<u64>,
    /// The slowest call; an observation, not a bound.
    pub max_ns: u64,
}

/// Reads the percentiles of a histogram of nanoseconds; `None` where nothing was recorded.
///
/// Percentiles of parts cannot be merged; histograms can: `Histogram::add` them first.
pub fn percentiles(latency_ns: &Histogram<u64>) -> Option<Percentiles> {
    (!latency_ns.is_empty()).then(|| Percentiles {
        n: latency_ns.len(),
        p50_ns: percentile(latency_ns, 50),
        p90_ns: percentile(latency_ns, 90),
        p99_ns: percentile(latency_ns, 99),
        max_ns: latency_ns.max(),
    })
}

/// In whole percent, so that 10 / (1 - q) is an integer: in f64, 10 / (1 - 0.9) is a little above 100.
fn percentile(latency_ns: &Histogram<u64>, percent: u32) -> Option<u64> {
    let fewest = u64::from(1000 / (100 - percent));
    (latency_ns.len() >= fewest).then(|| latency_ns.value_at_quantile(f64::from(percent) / 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Outcome = Result<(), Box<dyn std::error::Error>>;

    /// One call each of 1, 2, … `n` ns: small enough that the histogram is exact.
    fn one_to(n: u64) -> Result<Histogram<u64>, Box<dyn std::error::Error>> {
        let mut latency_ns = Histogram::new(3)?;
        for ns in 1..=n {
            latency_ns.record(ns)?;
        }
        Ok(latency_ns)
    }

    #[test]
    fn a_thousand_calls_by_hand() -> Outcome {
        // 500 of 1..=1000 are at most 500, 900 at most 900, 990 at most 990.
        let by_hand =
            Percentiles { n: 1000, p50_ns: Some(500), p90_ns: Some(900), p99_ns: Some(990), max_ns: 1000 };
        assert_eq!(percentiles(&one_to(1000)?), Some(by_hand));
        Ok(())
    }

    #[test]
    fn a_percentile_is_absent_below_its_number_of_samples() -> Outcome {
        let present = |n| -> Result<_, Box<dyn std::error::Error>> {
            let of = percentiles(&one_to(n)?).ok_or("recorded")?;
            Ok([of.p50_ns.is_some(), of.p90_ns.is_some(), of.p99_ns.is_some()])
        };
        assert_eq!(present(19)?, [false, false, false]);
        assert_eq!(present(20)?, [true, false, false]);
        assert_eq!(present(99)?, [true, false, false]);
        assert_eq!(present(100)?, [true, true, false]);
        assert_eq!(present(999)?, [true, true, false]);
        assert_eq!(present(1000)?, [true, true, true]);
        Ok(())
    }

    #[test]
    fn merged_histograms_say_what_one_would_have_said() -> Outcome {
        let mut merged = one_to(300)?;
        let mut second = Histogram::new(3)?;
        for ns in 301..=1000 {
            second.record(ns)?;
        }
        merged.add(&second)?;
        assert_eq!(percentiles(&merged), percentiles(&one_to(1000)?));
        Ok(())
    }

    #[test]
    fn an_empty_histogram_has_no_percentiles() -> Outcome {
        assert_eq!(percentiles(&Histogram::new(3)?), None);
        Ok(())
    }

    #[test]
    fn a_minute_is_kept_to_a_tenth_of_a_percent() -> Outcome {
        let mut latency_ns = Histogram::new(3)?;
        latency_ns.record_n(60_000_000_000, 20)?;
        let of = percentiles(&latency_ns).ok_or("recorded")?;
        let p50_ns = of.p50_ns.ok_or("twenty calls")?;
        assert!(p50_ns.abs_diff(60_000_000_000) <= 60_000_000, "{p50_ns}");
        assert!(p50_ns <= of.max_ns);
        Ok(())
    }
}
