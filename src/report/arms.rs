//! What tables and findings both read off an arm: its row, the comparison it stands in, its counts.

use super::states::{in_columns, state_of};
use crate::results::{Arm, Comparison, Document, Place, Promise, Sample};
use crate::stats::Verdict;

/// The label whose values are the rows.
pub(super) const POLICY: &str = "policy";
const PLACE: &str = "place";

/// The arms at one place, in the order given.
pub(super) fn arms_at<'a>(document: &'a Document, place: &Place) -> Vec<&'a Arm> {
    let is_here = |arm: &&Arm| arm.labels.get(PLACE).is_none_or(|id| id == place.id);
    document.arms.iter().filter(is_here).collect()
}

/// An arm's name without its place, and without the state of the write cache: the table stands under that, or has a
/// column for it.
pub(super) fn row_name(arm: &Arm, document: &Document) -> String {
    let place = arm.labels.get(PLACE).filter(|_| document.places.len() > 1);
    let state = state_of(arm).filter(|_| in_columns(document));
    let is_told = |part: &&str| Some(*part) == place || Some(*part) == state;
    let parts: Vec<&str> = arm.name.split(" / ").filter(|part| !is_told(part)).collect();
    parts.join(" / ")
}

/// The comparison of an arm with the first arm of its table that differs from it in one label.
pub(super) fn compared_in_table<'a>(
    document: &'a Document,
    arms: &[&Arm],
    arm: &Arm,
) -> Option<&'a Comparison> {
    let here = |comparison: &&Comparison| arms.iter().any(|other| other.name == comparison.baseline);
    document.comparisons.iter().filter(here).find(|comparison| comparison.arm == arm.name)
}

/// The control in which a bystander was alone: no copy was made, so its time is not one's.
pub(super) fn is_alone(arm: &Arm) -> bool {
    arm.labels.get("control") == Some("no-copy")
}

/// An arm that synced nothing and promises nothing: what the copy costs without any durability. What a command does is
/// not known.
pub(super) fn is_floor(arm: &Arm) -> bool {
    const SYNCS: [&str; 3] = ["fsync", "fdatasync", "syncfs"];
    let syncs =
        |sample: &Sample| SYNCS.iter().any(|call| sample.calls.get(*call).is_some_and(|&count| count > 0));
    arm.promise == Some(Promise::Nothing)
        && arm.labels.get("command").is_none()
        && !arm.samples.iter().any(syncs)
}

/// The factor of a comparison and its interval, turned so that the factor is above 1 for `slower` too.
pub(super) fn gain(comparison: &Comparison) -> [f64; 3] {
    let factor = comparison.ratio.unwrap_or(1.0);
    let [low, high] = comparison.ratio_ci95.or(comparison.ratio_seen).unwrap_or([factor, factor]);
    match comparison.verdict {
        Verdict::Slower => [1.0 / factor, 1.0 / high, 1.0 / low],
        _ => [factor, low, high],
    }
}

/// The median of flushes over the rounds that count; `-` where no disk is known.
pub(super) fn flushes(arm: &Arm) -> String {
    median_of(arm, |sample| sample.device.map(|device| device.flushes))
        .map_or_else(|| "-".to_owned(), |flushes| flushes.to_string())
}

/// The median of something over the rounds that count; the upper one of two in the middle.
pub(super) fn median_of(arm: &Arm, value: impl Fn(&Sample) -> Option<u64>) -> Option<u64> {
    let mut values: Vec<u64> =
        arm.samples.iter().filter(|sample| !sample.ignored).filter_map(value).collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}
