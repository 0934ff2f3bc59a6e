//! The finding in words: who won by how much, what the disk did, where the time went.

use super::arms::{POLICY, compared_in_table, gain, is_floor, median_of, row_name};
use super::bystander;
use super::layout::together;
use super::units::{self, Scale};
use crate::results::{Arm, Comparison, Document, Sample};
use crate::stats::Verdict;

/// The calls that make something durable.
const SYNCS: [&str; 3] = ["fsync", "fdatasync", "syncfs"];

/// What the arms of one place show; nothing where no arm finished a round.
pub(super) fn at_place(document: &Document, arms: &[&Arm]) -> Option<String> {
    let baseline = *arms.first()?;
    baseline.summary.as_ref()?;
    if baseline.not_comparable {
        return Some("Not comparable: the source changed while it was copied.".to_owned());
    }
    let best = fastest_honest(arms, baseline);
    let told = best.unwrap_or(baseline);
    let mut sentences = Vec::new();
    if let Some(best) = best {
        sentences.extend(contest(document, arms, baseline, best));
    }
    sentences.extend(bystander::sentences(document, arms, best));
    sentences.extend(where_the_time_goes(document, told));
    let both = [baseline, told];
    sentences.extend(throughput(document, if best.is_some() { &both } else { &both[..1] }));
    sentences.extend(control(document, arms));
    sentences.extend(servers_do_this(arms, told));
    Some(sentences.join(" "))
}

/// More sentences that say no difference was shown than this are one.
const FEW: usize = 4;

/// The same policy at other places than the first.
pub(super) fn between_places(document: &Document) -> Vec<String> {
    let place =
        |arm: &str| document.arms.iter().find(|a| a.name == arm).and_then(|arm| arm.labels.get("place"));
    let between = document.comparisons.iter().filter(|found| place(&found.arm) != place(&found.baseline));
    let (alike, others): (Vec<_>, Vec<_>) =
        between.partition(|found| found.verdict == Verdict::NoDifferenceShown);
    let sentence = |found: &&Comparison| format!("{}.", verdict_in_words(found, &found.arm, &found.baseline));
    let mut sentences: Vec<String> = others.iter().map(sentence).collect();
    if alike.len() <= FEW {
        sentences.extend(alike.iter().map(sentence));
    } else {
        let names: Vec<&str> = alike.iter().map(|found| found.arm.as_str()).collect();
        sentences.push(format!("no difference to the first place shown: {}.", names.join(", ")));
    }
    sentences
}

/// The fastest arm that promises at least what the baseline does; the baseline itself is not one.
fn fastest_honest<'a>(arms: &[&'a Arm], baseline: &Arm) -> Option<&'a Arm> {
    arms.iter()
        .copied()
        .filter(|arm| arm.name != baseline.name && arm.failed.is_none() && !arm.not_comparable)
        .filter(|arm| {
            arm.labels.get("control").is_none() && arm.promise >= baseline.promise && !is_floor(arm)
        })
        .filter_map(|arm| Some((arm.summary.as_ref()?.median_ns, arm)))
        .min_by_key(|(median_ns, _)| *median_ns)
        .map(|(_, arm)| arm)
}

fn contest(document: &Document, arms: &[&Arm], baseline: &Arm, best: &Arm) -> Option<String> {
    let comparison = compared_in_table(document, arms, best)?;
    let words = verdict_in_words(comparison, &row_name(best, document), &row_name(baseline, document));
    let flushes = |arm: &Arm| median_of(arm, |sample| sample.device.map(|device| device.flushes));
    let fewer = match (flushes(best), flushes(baseline)) {
        (Some(fewer), Some(more)) if fewer < more => {
            format!(
                ", with {fewer} device flushes in place of {more}{}",
                explained(best, fewer, baseline, more)
            )
        }
        _ => String::new(),
    };
    Some(format!("{words}{fewer}."))
}

/// One flush a sync against two: on a journaling file system the second is that of the journal commit.
fn explained(best: &Arm, fewer: u64, baseline: &Arm, more: u64) -> String {
    let syncs = |arm: &Arm| {
        median_of(arm, |sample| Some(SYNCS.iter().filter_map(|call| sample.calls.get(*call)).sum()))
    };
    let each = |arm, flushes: u64| {
        syncs(arm).filter(|&syncs: &u64| syncs > 0).map(|syncs| flushes as f64 / syncs as f64)
    };
    match (each(best, fewer), each(baseline, more)) {
        (Some(one), Some(two)) if (0.9..1.1).contains(&one) && (1.8..2.2).contains(&two) => {
            ": one for each sync, not two, since one journal commit carries all the new files".to_owned()
        }
        _ => String::new(),
    }
}

fn verdict_in_words(comparison: &Comparison, arm: &str, baseline: &str) -> String {
    let [factor, low, high] = units::ratios(gain(comparison));
    let rounds = comparison.rounds;
    match comparison.verdict {
        Verdict::Faster => {
            format!(
                "{arm} is {factor} times as fast as {baseline} ({low} to {high}; {} of {rounds} rounds)",
                comparison.wins
            )
        }
        Verdict::Slower => format!(
            "{arm} takes {factor} times as long as {baseline} ({low} to {high}; {} of {rounds} rounds)",
            rounds - comparison.wins
        ),
        Verdict::NoDifferenceShown => {
            format!("no difference shown between {arm} and {baseline} ({low} to {high}; {rounds} rounds)")
        }
        Verdict::TooFewRounds if comparison.ratio_seen.is_none() => {
            format!("no round has both {arm} and {baseline}")
        }
        Verdict::TooFewRounds => format!(
            "too few rounds for a verdict on {arm} ({rounds}; {} are needed): {} times as fast as {baseline} seen",
            crate::stats::FEWEST_ROUNDS,
            if low == high { low } else { format!("{low} to {high}") }
        ),
        Verdict::Drifting => {
            format!(
                "no verdict on {arm} (drifting): two copies of {baseline} differ more than it differs from them"
            )
        }
    }
}

fn where_the_time_goes(document: &Document, arm: &Arm) -> Option<String> {
    let summary = arm.summary.as_ref()?;
    let phase = |name: &str| typical(arm, |sample| sample.phases.get(name).copied()).unwrap_or(0);
    let phases = [
        ("copy", phase("copy_ns")),
        ("hints", phase("hint_ns")),
        ("waiting for writeback", phase("settle_ns")),
        ("files", phase("sync_files_ns")),
        ("directories", phase("sync_directories_ns")),
    ];
    let total: u64 = phases.iter().map(|(_, ns)| ns).sum();
    if total == 0 {
        return None;
    }
    let waiting: u64 = phases[2..].iter().map(|(_, ns)| ns).sum();
    let scale = Scale::for_largest(summary.median_ns);
    let mut parts: Vec<String> = Vec::new();
    let is_seen = |ns: u64| scale.bare(ns).contains(|digit| matches!(digit, '1'..='9'));
    for (name, ns) in phases.into_iter().filter(|(_, ns)| is_seen(*ns)) {
        let shown = if parts.is_empty() { together(&scale.with_unit(ns)) } else { scale.bare(ns) };
        let each = if name == "files" { first_and_later(arm, ns) } else { String::new() };
        parts.push(format!("{shown} {name}{each}"));
    }
    let percent = (100.0 * waiting as f64 / total as f64).round();
    if percent == 0.0 {
        return None;
    }
    let percent = together(&format!("{percent:.0} %"));
    Some(format!("{percent} of {} is waiting for syncs: {}.", row_name(arm, document), parts.join(", ")))
}

/// The trials that make the median: the one in the middle, or the two. So parts add up to it.
fn typical(arm: &Arm, value: impl Fn(&Sample) -> Option<u64>) -> Option<u64> {
    let mut counted: Vec<&Sample> = arm.samples.iter().filter(|sample| !sample.ignored).collect();
    counted.sort_by_key(|sample| sample.operation_ns());
    let middle = &counted[counted.len().saturating_sub(1) / 2..counted.len().min(counted.len() / 2 + 1)];
    let values: Vec<u64> = middle.iter().filter_map(|sample| value(sample)).collect();
    values.iter().sum::<u64>().checked_div(values.len() as u64)
}

/// The first sync pays for what the copies left undone: said where it is known and not like the others.
fn first_and_later(arm: &Arm, files_ns: u64) -> String {
    let Some(first_ns) = typical(arm, |sample| sample.first_sync_ns) else { return String::new() };
    let syncs = |sample: &Sample| {
        Some(sample.calls.get("fsync").unwrap_or(&0) + sample.calls.get("fdatasync").unwrap_or(&0))
    };
    let later = typical(arm, syncs).unwrap_or(0).saturating_sub(1);
    let later_ns = files_ns.saturating_sub(first_ns).checked_div(later).unwrap_or(0);
    if first_ns < 2 * later_ns || later_ns == 0 {
        return String::new();
    }
    let [first, later] = [first_ns, later_ns].map(|ns| together(&units::duration(ns)));
    format!(" (first {first}, then {later} each)")
}

/// Bytes over the time until the last sync returned, of the arms the finding speaks of.
fn throughput(document: &Document, arms: &[&Arm]) -> Option<String> {
    let input = document.input.as_ref()?;
    let rates = |bytes: u64| -> Vec<String> {
        let rate = |arm: &Arm| {
            let median_ns = arm.summary.as_ref()?.median_ns;
            Some(format!("{} {}", row_name(arm, document), together(&units::throughput(bytes, median_ns))))
        };
        arms.iter().filter_map(|arm| rate(arm)).collect()
    };
    let allocated = match input.allocated_bytes {
        Some(allocated) if allocated < input.bytes => {
            format!(
                "; of the {} allocated: {}",
                together(&units::size(allocated)),
                rates(allocated).join(", ")
            )
        }
        _ => String::new(),
    };
    Some(format!("Throughput to the last sync: {}{allocated}.", rates(input.bytes).join(", ")))
}

fn control(document: &Document, arms: &[&Arm]) -> Option<String> {
    let control = arms.iter().find(|arm| arm.labels.get("control") == Some("A/A"))?;
    let comparison = document.comparisons.iter().find(|comparison| comparison.arm == control.name)?;
    let [low, high] = comparison.ratio_ci95.or(comparison.ratio_seen)?;
    Some(together("A/A control: ") + &format!("{low:.2} to {high:.2}."))
}

/// What a reader of PostgreSQL wants to know of the policy the built-in run ends with.
fn servers_do_this(arms: &[&Arm], told: &Arm) -> Option<String> {
    let policy = |arm: &Arm| arm.labels.get(POLICY).unwrap_or_default().to_owned();
    let asked_for_servers = arms.iter().any(|arm| policy(arm).starts_with("pg-"));
    (policy(told) == "deferred" && !asked_for_servers)
        .then(|| "PostgreSQL 9.6 to 18 do this without the parent directory (--policy pg-15).".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Input, Kind, Labels, Promise};
    use crate::stats;

    /// Copies of 1 MB; each trial is its time to copy and to sync, in milliseconds.
    fn arm(policy: &str, promise: Promise, trials: &[[u64; 2]]) -> Arm {
        let samples: Vec<Sample> = (1..)
            .zip(trials)
            .map(|(round, [copy, sync])| Sample {
                round,
                elapsed_ns: (copy + sync) * 1_000_000,
                phases: [("copy_ns", copy), ("sync_files_ns", sync)]
                    .map(|(name, ms)| (name.to_owned(), ms * 1_000_000))
                    .into(),
                calls: [("fsync".to_owned(), u64::from(*sync > 0))].into(),
                ..Sample::default()
            })
            .collect();
        let each_ns: Vec<u64> = samples.iter().map(|sample| sample.elapsed_ns).collect();
        Arm {
            name: policy.to_owned(),
            labels: Labels::new().with(POLICY, policy),
            promise: Some(promise),
            summary: stats::summary(&each_ns),
            samples,
            ..Arm::default()
        }
    }

    fn found(arms: Vec<Arm>) -> String {
        let input = Input {
            template: "t".to_owned(),
            files: 1,
            directories: 1,
            bytes: 1 << 20,
            allocated_bytes: None,
        };
        let document = Document { arms, input: Some(input), ..Document::new(Kind::Copy) };
        at_place(&document, &document.arms.iter().collect::<Vec<_>>())
            .expect("a finding")
            .replace('\u{a0}', " ")
    }

    #[test]
    fn the_parts_add_up_to_the_median_of_an_even_number_of_rounds_too() {
        for trials in [&[[10, 90], [20, 20]][..], &[[9, 1], [10, 90], [20, 20], [500, 1]]] {
            let said = found(vec![arm("immediate", Promise::Tree, trials)]);
            assert!(
                said.contains("79 % of immediate is waiting for syncs: 15.0 ms copy, 55.0 files"),
                "{said}"
            );
        }
    }

    #[test]
    fn where_nothing_waits_for_a_sync_nothing_is_said_of_it() {
        let said = found(vec![arm("never", Promise::Nothing, &[[10, 0]])]);
        assert_eq!(said, "Throughput to the last sync: never 100 MB/s.");
    }

    #[test]
    fn of_a_copy_whose_source_changed_no_figure_is_said() {
        let changed = |arm: Arm| Arm { not_comparable: true, ..arm };
        let both = || [arm("immediate", Promise::Tree, &[[9, 1]]), arm("deferred", Promise::Tree, &[[4, 1]])];
        let [immediate, deferred] = both();
        let said = found(vec![changed(immediate), changed(deferred)]);
        assert_eq!(said, "Not comparable: the source changed while it was copied.");
        let [immediate, deferred] = both();
        let said = found(vec![immediate, changed(deferred)]);
        assert!(said.contains("immediate 100 MB/s") && !said.contains("deferred"), "{said}");
    }

    #[test]
    fn a_range_of_one_round_is_one_figure() {
        let comparison = |high| Comparison {
            baseline: "a".to_owned(),
            arm: "b".to_owned(),
            ratio: Some(1.36),
            ratio_ci95: None,
            ratio_seen: Some([1.36, high]),
            rounds: 1,
            wins: 1,
            verdict: Verdict::TooFewRounds,
        };
        let one = verdict_in_words(&comparison(1.36), "b", "a");
        assert!(one.ends_with(": 1.36 times as fast as a seen"), "{one}");
        let two = verdict_in_words(&comparison(1.40), "b", "a");
        assert!(two.ends_with(": 1.36 to 1.40 times as fast as a seen"), "{two}");
    }
}
