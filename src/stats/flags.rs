//! Marks on an arm's samples. A flag is said beside the numbers; it never changes or drops one.

use super::{Better, order};

/// A sample further than this many robust standard deviations from the median is an outlier: the modified
/// z-score of Iglewicz and Hoaglin 1993, as in the NIST/SEMATECH e-Handbook, section 1.3.5.17.
const OUTLIER_SCORE: f64 = 3.5;

/// The standard deviation of a normal distribution in units of its median absolute deviation.
const DEVIATION_OF_MAD: f64 = 1.482_602_218_505_602;

/// The same in units of its mean absolute deviation: sqrt(pi / 2).
const DEVIATION_OF_MEAN: f64 = 1.253_314_137_315_500_3;

/// From this relative spread on a result is unstable: with such noise seven rounds find a difference of 10 %
/// in three of ten simulated runs only. pyperf warns at the same tenth, of the standard deviation.
const UNSTABLE_SPREAD: f64 = 0.1;

/// Up to this many rounds all orders are counted; 20! still fits a u64.
const LARGEST_COUNTED: usize = 20;

/// The 99.5 % point of the standard normal distribution.
const NORMAL_995: f64 = 2.575_829_303_548_901;

/// Positions (from 0) of the outliers among `samples`, in ascending order.
///
/// Where more than half of the samples are equal, their MAD is 0 and would flag every other one; the mean
/// absolute deviation from the median takes its place, as Iglewicz and Hoaglin advise.
pub fn outliers(samples: &[f64]) -> Vec<usize> {
    let Some(center) = order::median(samples) else { return Vec::new() };
    let reach = OUTLIER_SCORE * deviation(samples, center);
    (0..samples.len()).filter(|&position| (samples[position] - center).abs() > reach).collect()
}

/// Robust standard deviation (1.4826 MAD) as a part of the median: 0.05 is 5 % noise. One outlier does not
/// move it. `None` without samples or where the median is not above zero.
pub fn relative_spread(samples: &[f64]) -> Option<f64> {
    let center = order::median(samples).filter(|&center| center > 0.0)?;
    Some(DEVIATION_OF_MAD * order::mad(samples, center)? / center)
}

/// Whether the samples scatter so much (a relative spread of 10 % or more) that their median says little.
pub fn unstable(samples: &[f64]) -> bool {
    relative_spread(samples).is_some_and(|spread| spread >= UNSTABLE_SPREAD)
}

/// How much samples in the order of their rounds moved from the first to the last, as a part of the median
/// (0.2: a fifth upwards); `None` where chance in the order explains it.
///
/// The test is that of Mann and Kendall at the 1 % level, exact up to 20 rounds, beyond with the normal
/// approximation and continuity correction; it needs six rounds. 1 %, since every arm of a run is tested.
/// Ties count for neither side and are not corrected for, which can only hide a trend. The size is Theil and
/// Sen's: the median slope of all pairs.
pub fn trend(samples: &[f64]) -> Option<f64> {
    let center = order::median(samples).filter(|&center| center > 0.0)?;
    let mut slopes = Vec::new();
    let mut excess = 0_i64;
    for (later, &b) in samples.iter().enumerate() {
        for (earlier, &a) in samples[..later].iter().enumerate() {
            excess += i64::from(b > a) - i64::from(b < a);
            slopes.push((b - a) / (later - earlier) as f64);
        }
    }
    let shown = trend_threshold(samples.len()).is_some_and(|least| excess.unsigned_abs() >= least);
    let change = order::median(&slopes)? * (samples.len() - 1) as f64;
    shown.then_some(change / center)
}

/// Whether the first round is slow beyond the scatter of the others: the slowest of all, by more than 3.5
/// robust standard deviations of the others, so that it does not widen its own yardstick. Needs six rounds.
/// It means that the warm-up was too short; both arms of a pair suffer alike, so ratios are hurt less.
pub fn first_round_slow(samples: &[f64], better: Better) -> bool {
    let Some((&first, others)) = samples.split_first() else { return false };
    let Some(center) = order::median(others) else { return false };
    let lag = |sample: f64| match better {
        Better::Lower => sample - center,
        Better::Higher => center - sample,
    };
    samples.len() >= super::FEWEST_ROUNDS
        && lag(first) > OUTLIER_SCORE * deviation(others, center)
        && others.iter().all(|&other| lag(first) > lag(other))
}

/// A standard deviation that outliers do not inflate; 0 only where all samples are equal.
fn deviation(samples: &[f64], center: f64) -> f64 {
    match order::mad(samples, center) {
        Some(mad) if mad > 0.0 => DEVIATION_OF_MAD * mad,
        _ => {
            let total: f64 = samples.iter().map(|sample| (sample - center).abs()).sum();
            DEVIATION_OF_MEAN * total / samples.len().max(1) as f64
        }
    }
}

/// The smallest excess of rising over falling pairs that is beyond chance at the two-sided 1 % level.
fn trend_threshold(n: usize) -> Option<u64> {
    let pairs = (n * n.saturating_sub(1) / 2) as u64;
    if n > LARGEST_COUNTED {
        let rounds = n as f64;
        let deviation = (rounds * (rounds - 1.0) * (2.0 * rounds + 5.0) / 18.0).sqrt();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, far below 2^53"
        )]
        return Some((NORMAL_995 * deviation + 1.0).ceil() as u64);
    }
    // Each order of the rounds is equally likely. Orders by their falling pairs: the m-th round added comes
    // before 0 to m - 1 of those already there, and makes as many falling pairs.
    let mut orders_of_falls = vec![1_u64];
    for round in 2..=n {
        let mut longer = vec![0; orders_of_falls.len() + round - 1];
        for (falls, orders) in orders_of_falls.iter().enumerate() {
            longer[falls..falls + round].iter_mut().for_each(|sum| *sum += orders);
        }
        orders_of_falls = longer;
    }
    // A tail of 0.5 %, in whole orders.
    let tail = orders_of_falls.iter().sum::<u64>() / 200;
    let mut orders = 0;
    let beyond_chance = orders_of_falls
        .iter()
        .take_while(|&&of_falls| {
            orders += of_falls;
            orders <= tail
        })
        .count() as u64;
    (beyond_chance > 0).then(|| pairs - 2 * (beyond_chance - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_outlier_is_flagged_by_hand() {
        // Median of 10 11 12 13 30 is 12; deviations 2 1 0 1 18, MAD 1; 3.5 * 1.4826 = 5.19: only 30 is
        // further.
        assert_eq!(outliers(&[12.0, 30.0, 11.0, 10.0, 13.0]), [1]);
        assert_eq!(outliers(&[12.0, 17.1, 11.0, 10.0, 13.0]), [0_usize; 0], "5.1 is within 5.19");
    }

    #[test]
    fn equal_samples_flag_only_what_is_far_from_them() {
        // MAD 0. Mean deviation 9/10 * 1.2533 * 3.5 = 3.95 for one 9 off; 5/10 of 1 off: 2.19.
        let mut samples = [10.0; 10];
        assert_eq!(outliers(&samples), [0_usize; 0]);
        samples[4] = 19.0;
        assert_eq!(outliers(&samples), [4]);
        samples = [10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 11.0, 11.0, 11.0, 11.0];
        assert_eq!(outliers(&samples), [0_usize; 0], "four of ten are no outliers");
        assert_eq!(outliers(&[]), [0_usize; 0]);
    }

    #[test]
    fn forty_percent_spread_is_unstable_and_five_is_not() {
        // 80 to 120 in ten even steps: median 100, MAD (8.89 + 13.33) / 2 = 11.11, spread 16.5 %.
        let wide: Vec<f64> = (0..10).map(|step| 80.0 + 40.0 * f64::from(step) / 9.0).collect();
        assert!(unstable(&wide));
        assert!((relative_spread(&wide).expect("samples") - 0.1647).abs() < 1e-4);
        let narrow: Vec<f64> = wide.iter().map(|sample| 100.0 + (sample - 100.0) / 8.0).collect();
        assert!(!unstable(&narrow));
        assert!(!unstable(&[10.0, 10.1, 9.9, 10.0, 90.0]), "one outlier is an outlier, not instability");
        assert!(!unstable(&[]) && !unstable(&[0.0]));
    }

    #[test]
    fn trend_thresholds_are_the_published_ones() {
        // Two-sided 1 %: smallest S with P <= 0.005 one-sided in Kendall's tables: n = 6: 15 (1/720),
        // n = 7: 19 (7/5040; S = 17 has 27/5040 = 0.54 %), n = 8: 22, n = 9: 26, n = 10: 29.
        assert_eq!(trend_threshold(0), None);
        assert_eq!(trend_threshold(1), None);
        assert_eq!(trend_threshold(5), None, "2/120 = 1.7 %");
        let published = [(6, 15), (7, 19), (8, 22), (9, 26), (10, 29)];
        for (n, least) in published {
            assert_eq!(trend_threshold(n), Some(least), "n = {n}");
        }
        let (counted, approximated) = (trend_threshold(20), trend_threshold(21));
        assert!(
            counted < approximated && approximated <= counted.map(|least| least + 8),
            "{counted:?} {approximated:?}"
        );
    }

    #[test]
    fn a_steady_rise_is_a_trend_and_its_size_is_right() {
        // 100 to 112 in seven rounds, two a round: slope 2, change 12 of a median of 106.
        let rising: Vec<f64> = (0..7).map(|round| 100.0 + 2.0 * f64::from(round)).collect();
        assert!((trend(&rising).expect("monotone") - 12.0 / 106.0).abs() < 1e-12);
        let falling: Vec<f64> = rising.iter().rev().copied().collect();
        assert!((trend(&falling).expect("monotone") + 12.0 / 106.0).abs() < 1e-12);
        assert_eq!(trend(&[100.0, 104.0, 101.0, 103.0, 102.0, 105.0, 100.0]), None);
        assert_eq!(trend(&[5.0; 12]), None, "equal rounds do not move");
        assert_eq!(trend(&rising[..5]), None, "five rounds are too few");
    }

    #[test]
    fn a_slow_first_round_is_noticed_for_times_and_rates() {
        let times = [15.0, 10.0, 10.2, 9.9, 10.1, 10.0, 9.8];
        assert!(first_round_slow(&times, Better::Lower));
        assert!(!first_round_slow(&times, Better::Higher), "a first round with a higher rate is fast");
        let rates = times.map(|time| 1.0 / time);
        assert!(first_round_slow(&rates, Better::Higher));
        assert!(!first_round_slow(&times[1..], Better::Lower));
        assert!(
            !first_round_slow(&[15.0, 10.0, 10.2, 99.0, 10.1, 10.0, 9.8], Better::Lower),
            "another was slower"
        );
        assert!(!first_round_slow(&times[..5], Better::Lower), "five rounds are too few");
        assert!(!first_round_slow(&[10.0; 7], Better::Lower));
        assert!(!first_round_slow(&[], Better::Lower) && !first_round_slow(&[1.0], Better::Lower));
    }

    proptest! {
        #[test]
        fn the_unit_changes_no_flag(samples in prop::collection::vec(1_u32..1000, 1..30), power in -8_i32..8) {
            // Powers of two, so that scaling is exact and no comparison sits on rounding.
            let samples: Vec<f64> = samples.into_iter().map(f64::from).collect();
            let scaled: Vec<f64> = samples.iter().map(|sample| sample * 2.0_f64.powi(power)).collect();
            prop_assert_eq!(outliers(&samples), outliers(&scaled));
            prop_assert_eq!(unstable(&samples), unstable(&scaled));
            prop_assert_eq!(trend(&samples), trend(&scaled));
            prop_assert_eq!(first_round_slow(&samples, Better::Lower), first_round_slow(&scaled, Better::Lower));
        }

        #[test]
        fn fewer_than_half_are_outliers(samples in prop::collection::vec(0.0..1e9_f64, 1..60)) {
            prop_assert!(outliers(&samples).len() * 2 < samples.len() + 1);
        }
    }
}
