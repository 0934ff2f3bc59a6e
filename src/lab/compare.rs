//! What the samples of a run say of each other: for every label with several values, each further value against the
//! first, all other labels equal, paired by round.

use std::collections::BTreeMap;

use super::arm::CONTROL;
use crate::results::{Arm, Comparison, Labels, Note, NoteCode};
use crate::stats::{self, Better, Paired, Verdict};

/// Every comparison of a run, in the order of labels, then of arms. A second copy of a baseline is compared with it
/// first and decides whether the others get a verdict.
pub fn comparisons(arms: &[Arm]) -> Vec<Comparison> {
    let drift = drifts(arms);
    let mut found = Vec::new();
    for label in labels_with_several_values(arms) {
        let first = arms.iter().find_map(|arm| arm.labels.get(&label)).unwrap_or_default();
        for arm in arms.iter().filter(|arm| is_plain(arm) && arm.labels.get(&label) != Some(first)) {
            let counterpart = arm.labels.clone().with(&label, first);
            let Some(baseline) = arms.iter().find(|other| is_plain(other) && other.labels == counterpart) else {
                continue;
            };
            found.push(compare(baseline, arm, drift.get(&baseline.name)));
        }
    }
    controls(arms).map(|(baseline, control)| compare(baseline, control, None)).chain(found).collect()
}

/// What a reader must know of the samples: an unsteady arm, a slow first round, far-off samples, a drifting control.
pub fn notes(arms: &[Arm]) -> Vec<Note> {
    let mut notes: Vec<Note> = arms.iter().flat_map(notes_of_arm).collect();
    for (baseline, control) in controls(arms) {
        let comparison = compare(baseline, control, None);
        if let (Verdict::Faster | Verdict::Slower, Some([low, high])) = (comparison.verdict, comparison.ratio_ci95) {
            notes.push(Note::warning(
                NoteCode::AaDrift,
                format!(
                    "two copies of {} differ ({low:.2} to {high:.2}): effects as small as that are not believed here",
                    baseline.name
                ),
            ));
        }
    }
    notes
}

/// The durations of the trials that count, in nanoseconds, in the order of rounds.
pub fn counted_ns(arm: &Arm) -> Vec<u64> {
    arm.samples.iter().filter(|sample| !sample.ignored).map(|sample| sample.elapsed_ns).collect()
}

fn is_plain(arm: &Arm) -> bool {
    arm.labels.get(CONTROL).is_none() && arm.refused.is_none()
}

/// Labels for which the arms have more than one value, in the order of first appearance; the control is none of them.
fn labels_with_several_values(arms: &[Arm]) -> Vec<String> {
    let mut values: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, value) in arms.iter().flat_map(|arm| arm.labels.iter()).filter(|(name, _)| *name != CONTROL) {
        match values.iter_mut().find(|(known, _)| known == name) {
            Some((_, seen)) if seen.contains(&value) => {}
            Some((_, seen)) => seen.push(value),
            None => values.push((name.to_owned(), vec![value])),
        }
    }
    values.into_iter().filter(|(_, seen)| seen.len() > 1).map(|(name, _)| name).collect()
}

/// Each second copy of a baseline, with the baseline.
fn controls(arms: &[Arm]) -> impl Iterator<Item = (&Arm, &Arm)> {
    arms.iter().filter(|arm| arm.labels.get(CONTROL).is_some()).filter_map(|control| {
        let labels = without_control(&control.labels);
        arms.iter().find(|arm| is_plain(arm) && arm.labels == labels).map(|baseline| (baseline, control))
    })
}

fn without_control(labels: &Labels) -> Labels {
    labels
        .iter()
        .filter(|(name, _)| *name != CONTROL)
        .fold(Labels::new(), |labels, (name, value)| labels.with(name, value))
}

/// How far two copies of the same arm lie apart, by the baseline's name.
fn drifts(arms: &[Arm]) -> BTreeMap<String, Paired> {
    controls(arms)
        .filter_map(|(baseline, control)| Some((baseline.name.clone(), pair(baseline, control)?.1)))
        .collect()
}

fn compare(baseline: &Arm, arm: &Arm, drift: Option<&Paired>) -> Comparison {
    let (seen, paired) = match pair(baseline, arm) {
        Some((seen, paired)) => (Some(seen), Some(paired)),
        None => (None, None),
    };
    Comparison {
        baseline: baseline.name.clone(),
        arm: arm.name.clone(),
        ratio: paired.as_ref().map(|paired| paired.ratio),
        ratio_ci95: paired.as_ref().and_then(|paired| paired.ratio_ci95),
        ratio_seen: seen,
        rounds: paired.as_ref().map_or(0, |paired| paired.rounds),
        wins: paired.as_ref().map_or(0, |paired| paired.wins),
        verdict: paired.as_ref().map_or(Verdict::TooFewRounds, |paired| stats::judge(paired, drift)),
    }
}

/// Both arms over the rounds that have both, with the smallest and the largest ratio of a round.
fn pair(baseline: &Arm, arm: &Arm) -> Option<([f64; 2], Paired)> {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for sample in baseline.samples.iter().filter(|sample| !sample.ignored) {
        if let Some(partner) = arm.samples.iter().find(|partner| partner.round == sample.round) {
            before.push(sample.elapsed_ns as f64);
            after.push(partner.elapsed_ns as f64);
        }
    }
    let ratios = || before.iter().zip(&after).map(|(before, after)| before / after);
    let seen = [ratios().fold(f64::INFINITY, f64::min), ratios().fold(0.0, f64::max)];
    let paired = stats::paired(&before, &after, Better::Lower)?;
    Some((seen, paired))
}

fn notes_of_arm(arm: &Arm) -> Vec<Note> {
    let samples: Vec<f64> = counted_ns(arm).into_iter().map(|ns| ns as f64).collect();
    let mut notes = Vec::new();
    if stats::first_round_slow(&samples, Better::Lower) {
        notes.push(Note::info(
            NoteCode::FirstRoundSlow,
            format!("{}: the first round that counts was the slowest by far; more --warmup would help", arm.name),
        ));
    }
    if let Some(spread) = stats::relative_spread(&samples).filter(|_| stats::unstable(&samples)) {
        notes.push(Note::warning(
            NoteCode::Unstable,
            format!("{}: rounds scatter by {:.0} %; its median says little", arm.name, spread * 100.0),
        ));
    }
    let outliers = stats::outliers(&samples);
    if !outliers.is_empty() && samples.len() >= stats::FEWEST_ROUNDS {
        notes.push(Note::info(
            NoteCode::Outliers,
            format!("{}: {} of {} rounds lie far off; kept", arm.name, outliers.len(), samples.len()),
        ));
    }
    notes
}
