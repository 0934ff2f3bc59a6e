//! What the samples of a run say of each other: for every label with several values, each further value against the
//! first, all other labels equal, paired by round.

use std::collections::BTreeMap;

use super::arm::CONTROL;
use crate::results::{Arm, Comparison, Labels, Note, NoteCode, Sample};
use crate::stats::{self, Better, Paired, Verdict};

/// Every comparison of a run, in the order of labels, then of arms. A second copy of a baseline is compared with it
/// first and decides whether the others get a verdict.
pub fn comparisons(arms: &[Arm]) -> Vec<Comparison> {
    let drift = drifts(arms);
    let turned: Vec<(&Arm, Labels)> =
        arms.iter().filter(|arm| !is_control(arm)).map(|arm| (arm, turned(&arm.labels))).collect();
    let here = || turned.iter().filter(|(arm, _)| is_compared(arm));
    let mut found = Vec::new();
    for (label, first) in labels_with_several_values(&turned) {
        for (arm, labels) in here().filter(|(_, labels)| labels.get(label) != Some(first)) {
            let counterpart = labels.clone().with(label, first);
            let Some((baseline, _)) = here().find(|(_, other)| *other == counterpart) else { continue };
            found.push(compare(baseline, arm, drift.get(&baseline.name)));
        }
    }
    controls(arms).map(|(baseline, control)| compare(baseline, control, None)).chain(found).collect()
}

/// What a reader must know of the samples: an unsteady arm, a slow first round, far-off samples, a drifting control.
pub fn notes(arms: &[Arm]) -> Vec<Note> {
    let told = [
        told_of(
            arms,
            NoteCode::FirstRoundSlow,
            "the first round that counts was the slowest by far",
            slow_first,
        ),
        told_of(arms, NoteCode::Unstable, "rounds scatter so much that their median says little", spread),
        told_of(arms, NoteCode::Outliers, "rounds that lie far off are kept", far_off),
    ];
    let mut notes: Vec<Note> = told.into_iter().flatten().collect();
    for (baseline, control) in controls(arms) {
        let comparison = compare(baseline, control, None);
        if let (Verdict::Faster | Verdict::Slower, Some([low, high])) =
            (comparison.verdict, comparison.ratio_ci95)
        {
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

/// What one operation took in each trial that counts, in nanoseconds, in the order of rounds.
pub fn counted_ns(arm: &Arm) -> Vec<u64> {
    arm.samples.iter().filter(|sample| !sample.ignored).map(Sample::operation_ns).collect()
}

/// Neither refused nor with a source of its own.
fn is_compared(arm: &Arm) -> bool {
    arm.refused.is_none() && !arm.not_comparable
}

fn is_control(arm: &Arm) -> bool {
    arm.labels.get(CONTROL).is_some()
}

/// The labels as they are turned. Whatever the first one is called, it is the same thing that is varied by it: a policy,
/// or a command in its place.
fn turned(labels: &Labels) -> Labels {
    let named = labels.iter().enumerate();
    named.fold(Labels::new(), |turned, (position, (name, value))| {
        turned.with(if position == 0 { "" } else { name }, value)
    })
}

/// Labels for which the arms have more than one value, and the first of them, in the order of first appearance.
fn labels_with_several_values<'a>(arms: &'a [(&Arm, Labels)]) -> Vec<(&'a str, &'a str)> {
    let mut firsts: Vec<(&str, &str)> = Vec::new();
    let all = || arms.iter().flat_map(|(_, labels)| labels.iter());
    for (name, value) in all() {
        if !firsts.iter().any(|(known, _)| *known == name) {
            firsts.push((name, value));
        }
    }
    firsts.retain(|(name, first)| all().any(|(other, value)| other == *name && value != *first));
    firsts
}

/// Each second copy of a baseline, with the baseline.
fn controls(arms: &[Arm]) -> impl Iterator<Item = (&Arm, &Arm)> {
    arms.iter().filter(|arm| is_control(arm) && is_compared(arm)).filter_map(|control| {
        let labels = without_control(&control.labels);
        let baseline = arms.iter().find(|arm| arm.labels == labels && is_compared(arm));
        baseline.map(|baseline| (baseline, control))
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
            before.push(sample.operation_ns() as f64);
            after.push(partner.operation_ns() as f64);
        }
    }
    let ratios = || before.iter().zip(&after).map(|(before, after)| before / after);
    let seen = [ratios().fold(f64::INFINITY, f64::min), ratios().fold(0.0, f64::max)];
    let paired = stats::paired(&before, &after, Better::Lower)?;
    Some((seen, paired))
}

/// One note for all arms it is true of, each with its figure.
fn told_of(arms: &[Arm], code: NoteCode, what: &str, figure: fn(&[f64]) -> Option<String>) -> Option<Note> {
    let of_arm = |arm: &Arm| {
        let samples: Vec<f64> = counted_ns(arm).into_iter().map(|ns| ns as f64).collect();
        figure(&samples).map(|figure| format!("{}{figure}", arm.name))
    };
    let named: Vec<String> = arms.iter().filter_map(of_arm).collect();
    let text = format!("{what}: {}", named.join(", "));
    match code {
        _ if named.is_empty() => None,
        NoteCode::Unstable => Some(Note::warning(code, text)),
        _ => Some(Note::info(code, text)),
    }
}

fn slow_first(samples: &[f64]) -> Option<String> {
    stats::first_round_slow(samples, Better::Lower).then(String::new)
}

fn spread(samples: &[f64]) -> Option<String> {
    let spread = stats::relative_spread(samples).filter(|_| stats::unstable(samples))?;
    Some(format!(" by {:.0} %", spread * 100.0))
}

fn far_off(samples: &[f64]) -> Option<String> {
    let far = stats::outliers(samples).len();
    (far > 0 && samples.len() >= stats::FEWEST_ROUNDS).then(|| format!(" {far} of {}", samples.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Refused;

    fn arm(labels: &[(&str, &str)], elapsed_ns: &[u64]) -> Arm {
        let labels = labels.iter().fold(Labels::new(), |labels, (name, value)| labels.with(name, *value));
        let name = labels.iter().map(|(_, value)| value).collect::<Vec<_>>().join(" / ");
        let samples = (1..)
            .zip(elapsed_ns)
            .map(|(round, &elapsed_ns)| Sample { round, elapsed_ns, ..Sample::default() })
            .collect();
        Arm { name, labels, samples, ..Arm::default() }
    }

    fn pairs(arms: &[Arm]) -> Vec<(String, String)> {
        comparisons(arms).into_iter().map(|comparison| (comparison.baseline, comparison.arm)).collect()
    }

    #[test]
    fn each_label_is_turned_alone() {
        let mut arms = Vec::new();
        for place in ["p1", "p2"] {
            for policy in ["immediate", "deferred", "never"] {
                arms.push(arm(&[("policy", policy), ("place", place)], &[10; 6]));
            }
        }
        let found = pairs(&arms);
        let shown: Vec<String> = found.iter().map(|(baseline, arm)| format!("{baseline} > {arm}")).collect();
        assert_eq!(
            shown,
            [
                "immediate / p1 > deferred / p1",
                "immediate / p1 > never / p1",
                "immediate / p2 > deferred / p2",
                "immediate / p2 > never / p2",
                "immediate / p1 > immediate / p2",
                "deferred / p1 > deferred / p2",
                "never / p1 > never / p2",
            ]
        );
    }

    #[test]
    fn a_command_is_compared_as_a_policy_is_and_a_control_without_a_copy_is_not() {
        let arms = [
            arm(&[("policy", "immediate"), ("place", "p1")], &[10; 6]),
            arm(&[("command", "cp"), ("place", "p1")], &[10; 6]),
            arm(&[(CONTROL, "no-copy"), ("place", "p1")], &[10; 6]),
        ];
        assert_eq!(pairs(&arms), [("immediate / p1".to_owned(), "cp / p1".to_owned())]);
    }

    #[test]
    fn a_refused_arm_is_compared_with_nothing() {
        let refused = Some(Refused { code: "x".to_owned(), text: "x".to_owned() });
        let arms = [arm(&[("policy", "a")], &[10; 6]), Arm { refused, ..arm(&[("policy", "b")], &[]) }];
        assert_eq!(pairs(&arms), []);
    }

    #[test]
    fn an_arm_whose_source_changed_is_compared_with_nothing() {
        let mut arms = [
            arm(&[("policy", "a")], &[10; 6]),
            arm(&[("policy", "a"), (CONTROL, "A/A")], &[10; 6]),
            arm(&[("policy", "b")], &[10; 6]),
            arm(&[("policy", "c")], &[10; 6]),
        ];
        arms[3].not_comparable = true;
        assert_eq!(pairs(&arms).len(), 2);
        arms[0].not_comparable = true;
        assert_eq!(pairs(&arms), []);
    }

    #[test]
    fn rounds_that_only_one_arm_has_are_left_out_of_both() {
        let mut late = arm(&[("policy", "b")], &[5; 8]);
        late.samples.remove(0);
        let found = comparisons(&[arm(&[("policy", "a")], &[99, 10, 10, 10, 10, 10, 10]), late]);
        assert_eq!((found[0].rounds, found[0].wins), (6, 6));
        assert!((found[0].ratio.expect("six rounds") - 2.0).abs() < 1e-9);
        assert!(found[0].ratio_seen.is_some_and(|[low, high]| (high - low).abs() < 1e-9));
    }

    #[test]
    fn an_arm_without_a_sample_has_no_ratio() {
        let found = comparisons(&[arm(&[("policy", "a")], &[10; 6]), arm(&[("policy", "b")], &[])]);
        assert_eq!((found[0].ratio, found[0].verdict), (None, Verdict::TooFewRounds));
    }

    #[test]
    fn a_spread_of_forty_percent_is_told() {
        let noted = notes(&[arm(&[("policy", "a")], &[80, 84, 89, 93, 98, 102, 107, 111, 116, 120])]);
        let text = "rounds scatter so much that their median says little: a by 16 %";
        assert_eq!(noted, [Note::warning(NoteCode::Unstable, text)]);
    }
}
