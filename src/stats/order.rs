//! Order statistics of integers and of floating-point numbers alike.

use std::cmp::Ordering;

/// What an order statistic needs of a number.
pub(super) trait Number: Copy {
    fn order(&self, other: &Self) -> Ordering;
    fn midpoint(self, other: Self) -> Self;
    fn distance(self, other: Self) -> Self;
}

impl Number for u64 {
    fn order(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
    fn midpoint(self, other: Self) -> Self {
        u64::midpoint(self, other)
    }
    fn distance(self, other: Self) -> Self {
        self.abs_diff(other)
    }
}

impl Number for f64 {
    fn order(&self, other: &Self) -> Ordering {
        self.total_cmp(other)
    }
    fn midpoint(self, other: Self) -> Self {
        f64::midpoint(self, other)
    }
    fn distance(self, other: Self) -> Self {
        (self - other).abs()
    }
}

pub(super) fn sorted<T: Number>(values: &[T]) -> Vec<T> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(T::order);
    sorted
}

/// The median of sorted values; of an even number, the midpoint of the two in the middle
/// (integers: rounded down).
pub(super) fn middle<T: Number>(sorted: &[T]) -> Option<T> {
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some(lower.midpoint(upper))
}

pub(super) fn median<T: Number>(values: &[T]) -> Option<T> {
    middle(&sorted(values))
}

/// The median absolute deviation from `center`, unscaled.
pub(super) fn mad<T: Number>(values: &[T], center: T) -> Option<T> {
    let deviations: Vec<T> = values.iter().map(|&value| value.distance(center)).collect();
    median(&deviations)
}
