//! Arms that ran with the write cache in several states: which, and why one could not be.

use crate::results::{Arm, Document};

/// The label whose values are states of the write cache.
const WRITE_CACHE: &str = "write_cache";

/// Whether the write cache, and beside it nothing but what is a row, was varied at one place.
pub(super) fn in_columns(document: &Document) -> bool {
    let others = |arm: &Arm| arm.labels.iter().any(|(name, _)| name == "source_cache");
    document.places.len() == 1
        && states(document).len() == 2
        && !document.arms.iter().any(|arm| others(arm) || arm.bystander.is_some())
}

/// The states compared, in the order given; none where the cache was left alone.
pub(super) fn states(document: &Document) -> Vec<&str> {
    let mut states: Vec<&str> = Vec::new();
    for state in document.arms.iter().filter_map(state_of) {
        if !states.contains(&state) {
            states.push(state);
        }
    }
    states
}

/// The state of the write cache in which an arm ran.
pub(super) fn state_of(arm: &Arm) -> Option<&str> {
    arm.labels.get(WRITE_CACHE)
}

/// Why an arm has no figures, or none that count.
pub(super) fn why_not(arm: &Arm) -> Option<String> {
    let refused = arm.refused.as_ref().map(|refused| format!("refused: {}", refused.text));
    let failed = arm.failed.as_ref().map(|failed| format!("FAILED: {}", failed.text));
    let changed = || arm.not_comparable.then(|| "not comparable: its source changed".to_owned());
    refused.or(failed).or_else(changed)
}

/// Why none of these arms was measured, where that is the same for all.
pub(super) fn none_ran(arms: &[&Arm]) -> Option<String> {
    let first = why_not(arms.first()?)?;
    let all = arms.iter().all(|arm| arm.summary.is_none() && why_not(arm).as_ref() == Some(&first));
    all.then_some(first)
}
