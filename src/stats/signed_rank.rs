//! Wilcoxon's signed-rank statistic, as ranks into the sorted Walsh averages.

/// Up to this many rounds the null distribution is counted; 2^60 sign patterns still fit a u64.
const LARGEST_COUNTED: usize = 60;

/// The 97.5 % point of the standard normal distribution.
const NORMAL_975: f64 = 1.959_963_984_540_054;

/// The rank k such that the k-th smallest and k-th largest of the n (n + 1) / 2 Walsh averages of n paired
/// differences enclose their center with probability 95 % or more; `None` below six differences.
///
/// This is the signed-rank test turned round (Hollander, Wolfe and Chicken, Nonparametric Statistical
/// Methods, section 3.3): k - 1 is its two-sided 5 % critical value.
pub(super) fn walsh_rank(n: usize) -> Option<usize> {
    if n <= LARGEST_COUNTED { counted_rank(n) } else { Some(approximate_rank(n)) }
}

/// Exact: under the null hypothesis each of the 2^n sign patterns is equally likely, so the number of
/// patterns whose positive ranks sum to w is the number of subsets of {1, …, n} with that sum.
fn counted_rank(n: usize) -> Option<usize> {
    let mut subsets_of_sum = vec![0_u64; n * (n + 1) / 2 + 1];
    subsets_of_sum[0] = 1;
    for rank in 1..=n {
        for sum in (rank..subsets_of_sum.len()).rev() {
            subsets_of_sum[sum] += subsets_of_sum[sum - rank];
        }
    }
    // A tail of 2.5 %, in whole sign patterns.
    let tail = (1_u64 << n) / 40;
    let mut patterns = 0;
    let rank = subsets_of_sum
        .iter()
        .take_while(|&&subsets| {
            patterns += subsets;
            patterns <= tail
        })
        .count();
    (rank > 0).then_some(rank)
}

/// The normal approximation with continuity correction, off by one rank at most where it takes over.
fn approximate_rank(n: usize) -> usize {
    let n = n as f64;
    let mean = n * (n + 1.0) / 4.0;
    let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, far below 2^53")]
    let critical = (mean - NORMAL_975 * deviation - 0.5).floor() as usize;
    critical + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn critical_values_are_the_published_ones() {
        // Two-sided, P = 0.05, n = 6 to 25: University of York, Department of Mathematics, statistical tables,
        // "Critical values for T in the Wilcoxon matched-pairs signed-rank test".
        let published = [0, 2, 3, 5, 8, 10, 13, 17, 21, 25, 29, 34, 40, 46, 52, 58, 65, 73, 81, 89];
        for (n, critical) in (6..).zip(published) {
            assert_eq!(walsh_rank(n), Some(critical + 1), "n = {n}");
        }
    }

    #[test]
    fn seven_rounds_by_hand() {
        // Sums 0, 1, 2 can each be reached by one subset of {1..7} ({}, {1}, {2}), sum 3 by two ({3}, {1,2}).
        // Two-sided: 2 * 3/128 = 4.7 %, but 2 * 5/128 = 7.8 %: the critical value is 2, the rank 3.
        assert_eq!(walsh_rank(7), Some(3));
    }

    #[test]
    fn below_six_rounds_there_is_no_interval() {
        // n = 5: 2 * 1/32 = 6.25 %.
        assert!((0..6).all(|n| walsh_rank(n).is_none()));
        assert_eq!(walsh_rank(6), Some(1));
    }

    #[test]
    fn the_approximation_takes_over_smoothly() {
        for n in 40..=LARGEST_COUNTED {
            let exact = counted_rank(n).expect("enough rounds");
            assert!(approximate_rank(n).abs_diff(exact) <= 1, "n = {n}: {exact}");
        }
        assert!(walsh_rank(61) > walsh_rank(60));
    }
}
