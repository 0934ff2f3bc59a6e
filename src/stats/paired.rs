//! The ratio of two arms, paired by round.

use serde::{Deserialize, Serialize};

use super::order;
use super::signed_rank::walsh_rank;

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Durations.
    Lower,
    /// Rates.
    Higher,
}

/// How many times as good the arm is as its baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Paired {
    /// Above 1 the arm is better, whichever way is better: the Hodges-Lehmann estimate.
    pub ratio: f64,
    /// Low and high end of the exact 95 % interval of the ratio; absent below six rounds.
    pub ratio_ci95: Option<[f64; 2]>,
    /// Rounds compared.
    pub rounds: usize,
    /// Rounds in which the arm was strictly better.
    pub wins: usize,
}

/// Compares `baseline[i]` with `arm[i]`, the two measurements of round i.
///
/// `None` without rounds, with unequal lengths, or where a value is not a positive finite number: such a
/// ratio does not exist, and leaving its round out silently would hide it. Rounds in which either arm failed
/// or was discarded are the caller's to leave out of both.
///
/// The ratio is the median of all Walsh averages of the logarithms of the rounds' ratios (Hodges and Lehmann
/// 1963), the interval the one of Wilcoxon's signed-rank test. Rounds without a difference stay in as
/// differences of zero, and ties stay as they are; the interval is closed. With these it holds the truth at
/// least as often as it says (Noether 1967), whereas dropping them would narrow it.
///
/// Time and memory grow with the square of the number of rounds: 4 MB for 1000.
pub fn paired(baseline: &[f64], arm: &[f64], better: Better) -> Option<Paired> {
    let positive = |values: &[f64]| values.iter().all(|&value| value.is_finite() && value > 0.0);
    if baseline.len() != arm.len() || !positive(baseline) || !positive(arm) {
        return None;
    }
    // Differences of logarithms, not logarithms of quotients: exchanging the arms then changes the sign alone.
    let gains: Vec<f64> = baseline
        .iter()
        .zip(arm)
        .map(|(baseline, arm)| match better {
            Better::Lower => baseline.ln() - arm.ln(),
            Better::Higher => arm.ln() - baseline.ln(),
        })
        .collect();
    let averages = walsh_averages(&gains);
    let interval =
        walsh_rank(gains.len()).map(|rank| [averages[rank - 1].exp(), averages[averages.len() - rank].exp()]);
    Some(Paired {
        ratio: order::middle(&averages)?.exp(),
        ratio_ci95: interval,
        rounds: gains.len(),
        wins: gains.iter().filter(|&&gain| gain > 0.0).count(),
    })
}

/// The means of all pairs, each value with itself included, sorted.
fn walsh_averages(values: &[f64]) -> Vec<f64> {
    let mut averages: Vec<f64> = values
        .iter()
        .enumerate()
        .flat_map(|(first, &a)| values[first..].iter().map(move |&b| f64::midpoint(a, b)))
        .collect();
    averages.sort_unstable_by(f64::total_cmp);
    averages
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
    }

    #[test]
    fn three_rounds_by_hand() {
        // Ratios 2, 4, 16: in powers of two 1, 2, 4. Walsh averages 1, 2, 4, (1+2)/2 = 1.5, (1+4)/2 = 2.5,
        // (2+4)/2 = 3; sorted 1, 1.5, 2, 2.5, 3, 4; their median 2.25; 2^2.25 = 4.756828.
        let of = paired(&[2.0, 4.0, 16.0], &[1.0, 1.0, 1.0], Better::Lower).expect("three rounds");
        assert!(close(of.ratio, 2.0_f64.powf(2.25)), "{}", of.ratio);
        assert_eq!((of.ratio_ci95, of.rounds, of.wins), (None, 3, 3));
    }

    #[test]
    fn seven_rounds_by_hand() {
        // In powers of two: 1, 2, 3, 4, 5, 6, 7. The critical value of 7 rounds is 2, so the interval runs
        // from the third smallest of the 28 Walsh averages (1, 1.5, 2, 2, …) to the third largest: 2^2 to 2^6. By
        // symmetry their median is 4: a ratio of 2^4.
        let baseline: Vec<f64> = (1..=7).map(|power| 2.0_f64.powi(power)).collect();
        let of = paired(&baseline, &[1.0; 7], Better::Lower).expect("seven rounds");
        let [low, high] = of.ratio_ci95.expect("seven rounds have an interval");
        assert!(close(of.ratio, 16.0) && close(low, 4.0) && close(high, 64.0), "{of:?}");
    }

    #[test]
    fn above_one_is_better_for_times_and_for_rates() {
        let (slow, fast) = ([10.0; 6], [5.0; 6]);
        let of_times = paired(&slow, &fast, Better::Lower).expect("six rounds");
        let of_rates = paired(&fast, &slow, Better::Higher).expect("six rounds");
        assert!(close(of_times.ratio, 2.0) && close(of_rates.ratio, 2.0));
        assert_eq!((of_times.wins, of_rates.wins), (6, 6));
    }

    #[test]
    fn equal_rounds_are_kept_and_win_nothing() {
        // Differences 0 four times and ln 2 three times: of 28 Walsh averages 4 * 5 / 2 = 10 are 0, so the
        // third smallest is 0, and the interval begins at 1. Without the zeros three rounds would be left, all won.
        let of =
            paired(&[1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0], &[1.0; 7], Better::Lower).expect("seven rounds");
        assert_eq!((of.rounds, of.wins), (7, 3));
        assert_eq!(of.ratio_ci95.map(|[low, _]| low), Some(1.0));
    }

    #[test]
    fn one_wild_round_in_seven_moves_the_ratio_little() {
        let baseline = [2.00, 2.02, 2.04, 2.06, 2.08, 2.10, 200.0];
        let of = paired(&baseline, &[1.0; 7], Better::Lower).expect("seven rounds");
        assert!((2.04..=2.10).contains(&of.ratio), "{}", of.ratio);
    }

    #[test]
    fn what_has_no_ratio_is_refused() {
        assert_eq!(paired(&[], &[], Better::Lower), None);
        assert_eq!(paired(&[1.0, 2.0], &[1.0], Better::Lower), None);
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(paired(&[1.0, bad], &[1.0, 1.0], Better::Higher), None, "{bad}");
            assert_eq!(paired(&[1.0, 1.0], &[bad, 1.0], Better::Higher), None, "{bad}");
        }
    }

    prop_compose! {
        fn rounds()(pairs in prop::collection::vec((1e-3..1e6_f64, 1e-3..1e6_f64), 1..70)) -> (Vec<f64>, Vec<f64>) {
            pairs.into_iter().unzip()
        }
    }

    proptest! {
        #[test]
        fn the_unit_of_measurement_changes_nothing((baseline, arm) in rounds(), unit in 1e-6..1e6_f64) {
            let scaled = |values: &[f64]| values.iter().map(|value| value * unit).collect::<Vec<f64>>();
            let of = paired(&baseline, &arm, Better::Lower).expect("positive");
            let of_scaled = paired(&scaled(&baseline), &scaled(&arm), Better::Lower).expect("positive");
            prop_assert!(close(of.ratio, of_scaled.ratio));
            let ends = of.ratio_ci95.into_iter().flatten().zip(of_scaled.ratio_ci95.into_iter().flatten());
            for (end, scaled_end) in ends {
                prop_assert!(close(end, scaled_end));
            }
        }

        #[test]
        fn exchanging_the_arms_inverts_ratio_and_interval((baseline, arm) in rounds()) {
            let there = paired(&baseline, &arm, Better::Lower).expect("positive");
            let back = paired(&arm, &baseline, Better::Lower).expect("positive");
            prop_assert!(close(there.ratio * back.ratio, 1.0));
            if let (Some([low, high]), Some([back_low, back_high])) = (there.ratio_ci95, back.ratio_ci95) {
                prop_assert!(close(low * back_high, 1.0) && close(high * back_low, 1.0));
            }
            prop_assert!(there.wins + back.wins <= there.rounds);
        }

        #[test]
        fn the_interval_holds_the_ratio((baseline, arm) in rounds()) {
            let of = paired(&baseline, &arm, Better::Higher).expect("positive");
            prop_assert_eq!(of.ratio_ci95.is_some(), of.rounds >= crate::stats::FEWEST_ROUNDS);
            if let Some([low, high]) = of.ratio_ci95 {
                prop_assert!(low <= of.ratio && of.ratio <= high);
            }
        }
    }
}
