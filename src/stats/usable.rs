//! Which intervals are measurements at all.

/// Intervals that can be used, and how many could not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usable {
    /// Positive intervals in nanoseconds, in the order they came.
    pub kept: Vec<u64>,
    /// Zero or negative intervals: the clock was too coarse or wrong, so nothing was measured.
    pub discarded: usize,
}

/// Parts intervals in nanoseconds into those above zero and a count of the others.
pub fn usable(intervals_ns: &[i64]) -> Usable {
    let kept: Vec<u64> =
        intervals_ns.iter().filter_map(|&ns| u64::try_from(ns).ok()).filter(|&ns| ns > 0).collect();
    let discarded = intervals_ns.len() - kept.len();
    Usable { kept, discarded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_negative_intervals_are_discarded_and_counted() {
        let of = usable(&[5, 0, -1, 7, i64::MIN, 1, i64::MAX]);
        assert_eq!(of, Usable { kept: vec![5, 7, 1, i64::MAX.unsigned_abs()], discarded: 3 });
        assert_eq!(usable(&[]), Usable { kept: vec![], discarded: 0 });
    }
}
