//! The conductor: rounds in which every arm runs once, the document rewritten after each. It knows no kind of run.

use std::time::Duration;

use super::arm::{Arm, Halt, Trial};
use super::compare;
use super::operations;
use super::plan::Plan;
use crate::results::{self, Document, Failed, Labels, Note, NoteCode, Planned, Sample, labels};
use crate::stats;
use crate::sys::watch::{Event, Watch};

/// What a run needs beside its arms.
pub struct Run<'a> {
    /// How often, in what order, how long.
    pub plan: &'a Plan,
    /// Hears of rounds and trials, and says when to stop.
    pub watch: &'a dyn Watch,
    /// Nanoseconds of a clock that never steps; read between trials only.
    pub now_ns: &'a dyn Fn() -> u64,
    /// The option that gives more time.
    pub longer: &'static str,
}

/// Runs the arms and fills the document's arms, comparisons and notes.
///
/// `keep` gets the document before the first trial, after every round and at the end; where it fails the run ends. An
/// arm that fails ends its own rounds. A stop or the time limit ends the run between trials, or voids the trial it
/// interrupts; the document then stays `complete: false`. Notes that `head` brings along come first.
pub fn conduct<E>(
    run: &Run<'_>,
    head: Document,
    arms: &mut [Box<dyn Arm + '_>],
    keep: &mut dyn FnMut(&Document) -> Result<(), E>,
) -> Result<Document, E> {
    let mut score = Score::new(run, head, arms);
    keep(&score.document)?;
    for round in 1..=run.plan.all_rounds() {
        run.watch.event(Event::Round { round, rounds: run.plan.all_rounds() });
        let whole = score.round(run, round, arms);
        let last = round == run.plan.all_rounds() || score.nothing_left();
        score.document.complete = whole && last;
        score.refresh(run, arms);
        keep(&score.document)?;
        if !whole || last {
            break;
        }
    }
    Ok(score.document)
}

/// The document as it grows, and what it cannot hold.
struct Score {
    document: Document,
    /// What the run began with, before any note of an arm.
    head_notes: Vec<Note>,
    began_ns: u64,
    discarded: u32,
    out_of_time: bool,
}

impl Score {
    fn new(run: &Run<'_>, mut document: Document, arms: &[Box<dyn Arm + '_>]) -> Self {
        let labels: Vec<Labels> = arms.iter().map(|arm| arm.labels()).collect();
        let names = labels::names(&labels.iter().collect::<Vec<_>>());
        document.seed = run.plan.seed;
        document.complete = false;
        document.plan = Some(planned(run.plan));
        document.arms = names
            .into_iter()
            .zip(labels)
            .zip(arms)
            .map(|((name, labels), arm)| results::Arm {
                name,
                labels,
                title: arm.title(),
                promise: arm.promise(),
                refused: arm.refused(),
                ..results::Arm::default()
            })
            .collect();
        let head_notes = document.notes.clone();
        Self { document, head_notes, began_ns: (run.now_ns)(), discarded: 0, out_of_time: false }
    }

    /// Every arm once; false where the run was told to end before that.
    fn round(&mut self, run: &Run<'_>, round: u32, arms: &mut [Box<dyn Arm + '_>]) -> bool {
        let order = run.plan.positions(round, arms.len());
        let players: Vec<usize> = order.into_iter().filter(|&index| self.plays(index)).collect();
        let positions = count(players.len());
        for (position, index) in (1..).zip(players) {
            if run.watch.stop().is_some() {
                return false;
            }
            if self.is_out_of_time(run) {
                self.out_of_time = true;
                return false;
            }
            let ignored = run.plan.is_warmup(round);
            let trial = Trial { round, position, ignored, seed: run.plan.trial_seed(round) };
            let name = self.document.arms[index].name.clone();
            run.watch.event(Event::Trial { arm: &name, position, positions });
            let played = play(arms[index].as_mut(), &trial);
            let elapsed_ns = played.as_ref().ok().map(|sample| sample.elapsed_ns);
            run.watch.event(Event::TrialDone { arm: &name, elapsed_ns });
            match played {
                Ok(sample) if sample.operation_ns() == 0 => self.discarded += 1,
                Ok(sample) => self.document.arms[index].samples.push(sample),
                Err(Halt::Failed(failed)) => self.fail(run, index, failed),
                Err(Halt::Stopped) => return false,
            }
        }
        true
    }

    fn plays(&self, index: usize) -> bool {
        let arm = &self.document.arms[index];
        arm.refused.is_none() && arm.failed.is_none()
    }

    fn nothing_left(&self) -> bool {
        (0..self.document.arms.len()).all(|index| !self.plays(index))
    }

    fn fail(&mut self, run: &Run<'_>, index: usize, failed: Failed) {
        let arm = &mut self.document.arms[index];
        run.watch.event(Event::Note(&format!("{}: {}", arm.name, failed.text)));
        arm.failed = Some(failed);
    }

    fn is_out_of_time(&self, run: &Run<'_>) -> bool {
        let spent = Duration::from_nanos((run.now_ns)().saturating_sub(self.began_ns));
        run.plan.time_limit.is_some_and(|limit| spent >= limit)
    }

    /// What follows from the samples so far.
    fn refresh(&mut self, run: &Run<'_>, arms: &[Box<dyn Arm + '_>]) {
        let mut notes = self.head_notes.clone();
        for (shown, arm) in self.document.arms.iter_mut().zip(arms) {
            shown.promise = arm.promise();
            shown.not_comparable = !arm.comparable();
            shown.summary = stats::summary(&compare::counted_ns(shown));
            operations::fill_in(shown);
            shown.latency = arm.latency();
            shown.bystander = arm.bystander();
            notes.extend(arm.notes());
        }
        self.document.comparisons = compare::comparisons(&self.document.arms);
        notes.extend(compare::notes(&self.document.arms));
        notes.extend(self.notes_on_time(run));
        self.document.notes = without_repeats(notes);
    }

    fn notes_on_time(&self, run: &Run<'_>) -> Vec<Note> {
        let mut notes = Vec::new();
        if self.discarded > 0 {
            let plural = if self.discarded == 1 { "" } else { "s" };
            let text =
                format!("{} sample{plural} with an interval of zero or less: discarded", self.discarded);
            notes.push(Note::warning(NoteCode::DiscardedSample, text));
        }
        if let Some(limit) = run.plan.time_limit.filter(|_| self.out_of_time) {
            let whole =
                self.document.arms.iter().map(|arm| compare::counted_ns(arm).len()).max().unwrap_or(0);
            let (limit, longer) = (limit.as_secs_f64(), run.longer);
            let text = match whole {
                0 => format!("nothing could be measured within {limit} s; {longer} gives more"),
                _ => format!(
                    "the time limit of {limit} s was reached in round {} of {}; {longer} gives more",
                    whole + 1,
                    run.plan.rounds
                ),
            };
            notes.push(Note::warning(NoteCode::TimeLimit, text));
        }
        notes
    }
}

/// One trial, and nothing left of it whatever came of it.
fn play(arm: &mut dyn Arm, trial: &Trial) -> Result<Sample, Halt> {
    let played = perform(arm, trial);
    let cleared = arm.clear(trial);
    let sample = played?;
    cleared?;
    Ok(sample)
}

fn perform(arm: &mut dyn Arm, trial: &Trial) -> Result<Sample, Halt> {
    arm.prepare(trial)?;
    let sample = arm.run(trial)?;
    arm.check(trial)?;
    Ok(sample)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn planned(plan: &Plan) -> Planned {
    Planned {
        rounds: plan.rounds,
        warmup: plan.warmup,
        order: plan.order.to_string(),
        time_limit_ns: plan.time_limit.map(|limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)),
    }
}

fn without_repeats(notes: Vec<Note>) -> Vec<Note> {
    let mut kept: Vec<Note> = Vec::new();
    for note in notes {
        if !kept.contains(&note) {
            kept.push(note);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::super::scripted::{Scripted, plan, play};
    use super::*;
    use crate::results::Refused;
    use crate::stats::Verdict;

    const MS: u64 = 1_000_000;

    fn rounds(document: &Document, arm: usize) -> Vec<(u32, u32, bool)> {
        let samples = document.arms[arm].samples.iter();
        samples.map(|sample| (sample.round, sample.position, sample.ignored)).collect()
    }

    #[test]
    fn ratio_interval_and_verdict_are_those_of_the_paired_rounds() {
        let arms = vec![
            Scripted::new("immediate", &[900 * MS, 60 * MS]),
            Scripted::new("deferred", &[900 * MS, 20 * MS]),
        ];
        let document = play(&plan(7, 1), arms, None).document;
        assert!(document.complete);
        let summary = document.arms[1].summary.as_ref().expect("seven rounds");
        assert_eq!(
            (summary.n, summary.median_ns, summary.max_ns),
            (7, 20 * MS, 20 * MS),
            "the warm-up does not count"
        );
        let [comparison] = document.comparisons.as_slice() else { panic!("{:?}", document.comparisons) };
        assert_eq!((comparison.baseline.as_str(), comparison.arm.as_str()), ("immediate", "deferred"));
        assert!((comparison.ratio.expect("rounds") - 3.0).abs() < 1e-9);
        assert_eq!((comparison.verdict, comparison.rounds, comparison.wins), (Verdict::Faster, 7, 7));
    }

    #[test]
    fn every_arm_runs_once_a_round_and_is_cleared_each_time() {
        let arms = vec![Scripted::new("a", &[MS]), Scripted::new("b", &[MS])];
        let played = play(&plan(1, 0), arms, None);
        let steps = [
            "a prepare 1",
            "a run 1",
            "a check 1",
            "a clear 1",
            "b prepare 1",
            "b run 1",
            "b check 1",
            "b clear 1",
        ];
        assert_eq!(played.diary, steps);
    }

    #[test]
    fn the_order_of_each_round_is_in_the_samples() {
        let arms = || vec![Scripted::new("a", &[MS]), Scripted::new("b", &[MS])];
        let abba = Plan { order: super::super::plan::Order::Abba, ..plan(2, 1) };
        let document = play(&abba, arms(), None).document;
        assert_eq!(rounds(&document, 0), [(1, 1, true), (2, 2, false), (3, 1, false)]);
        assert_eq!(rounds(&document, 1), [(1, 2, true), (2, 1, false), (3, 2, false)]);
    }

    #[test]
    fn results_are_kept_before_the_first_trial_and_after_every_round() {
        let played = play(&plan(2, 1), vec![Scripted::new("a", &[MS])], None);
        let kept: Vec<(usize, bool)> =
            played.kept.iter().map(|document| (document.arms[0].samples.len(), document.complete)).collect();
        assert_eq!(kept, [(0, false), (1, false), (2, false), (3, true)]);
    }

    #[test]
    fn a_failed_arm_ends_its_rounds_and_the_others_go_on() {
        for step in ["prepare", "run", "check", "clear"] {
            let failing = Scripted { fails: Some((step, 3)), ..Scripted::new("b", &[MS]) };
            let played = play(&plan(4, 0), vec![Scripted::new("a", &[MS]), failing], None);
            assert_eq!(rounds(&played.document, 0).len(), 4, "{step}");
            assert_eq!(
                rounds(&played.document, 1),
                [(1, 2, false), (2, 2, false)],
                "{step}: round 3 is void"
            );
            let failed = played.document.arms[1].failed.as_ref().expect("it failed");
            assert_eq!(failed.text, format!("could not {step}"));
            assert!(played.diary.contains(&"b clear 3".to_owned()), "{step}: nothing of the trial is left");
            assert!(!played.diary.iter().any(|line| line.starts_with("b ") && line.ends_with('4')), "{step}");
            assert!(played.document.complete, "{step}: the run went to its end");
        }
    }

    #[test]
    fn a_run_whose_arms_have_all_failed_ends_at_once() {
        let failing = Scripted { fails: Some(("run", 1)), ..Scripted::new("a", &[MS]) };
        let played = play(&plan(7, 1), vec![failing], None);
        assert_eq!(played.kept.len(), 2);
        assert!(played.document.arms[0].summary.is_none());
    }

    #[test]
    fn a_refused_arm_is_shown_and_never_run() {
        let refused = Refused { code: "no-reflink".to_owned(), text: "cannot share blocks".to_owned() };
        let arms = vec![
            Scripted::new("a", &[MS]),
            Scripted { refused: Some(refused.clone()), ..Scripted::new("reflink", &[MS]) },
        ];
        let played = play(&plan(6, 0), arms, None);
        assert_eq!(played.document.arms[1].refused, Some(refused));
        assert!(!played.diary.iter().any(|line| line.starts_with("reflink")));
        assert!(played.document.comparisons.is_empty());
    }

    #[test]
    fn a_stop_between_trials_leaves_what_was_measured_and_says_incomplete() {
        let arms = vec![Scripted::new("a", &[MS]), Scripted::new("b", &[MS])];
        let document = play(&plan(7, 0), arms, Some("b clear 2")).document;
        assert!(!document.complete);
        assert_eq!((rounds(&document, 0).len(), rounds(&document, 1).len()), (2, 2));
    }

    #[test]
    fn the_time_limit_ends_the_run_with_a_note() {
        let limited = Plan { time_limit: Some(Duration::from_millis(250)), ..plan(7, 0) };
        let arms = vec![Scripted::new("a", &[60 * MS]), Scripted::new("b", &[40 * MS])];
        let document = play(&limited, arms, None).document;
        assert!(!document.complete);
        assert_eq!(
            (rounds(&document, 0).len(), rounds(&document, 1).len()),
            (3, 2),
            "260 ms are spent by then"
        );
        assert_eq!(document.notes[0].code, NoteCode::TimeLimit);
        assert!(document.notes[0].text.contains("0.25 s"), "{:?}", document.notes);
    }

    #[test]
    fn a_limit_that_is_over_before_anything_counts_says_so() {
        for spent_ms in [0, 50] {
            let limited = Plan { time_limit: Some(Duration::from_millis(spent_ms)), ..plan(7, 1) };
            let document = play(&limited, vec![Scripted::new("a", &[60 * MS])], None).document;
            let said = &document.notes[0].text;
            assert!(said.starts_with("nothing could be measured within "), "{said}");
            assert!(said.ends_with("; --time-limit gives more"), "{said}");
        }
    }

    #[test]
    fn a_sample_without_an_interval_is_discarded_and_counted() {
        let document = play(&plan(3, 0), vec![Scripted::new("a", &[MS, 0, MS])], None).document;
        assert_eq!(rounds(&document, 0), [(1, 1, false), (3, 1, false)]);
        assert_eq!(document.notes[0].code, NoteCode::DiscardedSample);
        assert!(document.notes[0].text.starts_with("1 sample "), "{:?}", document.notes);
    }

    #[test]
    fn where_the_control_drifts_no_smaller_effect_gets_a_verdict() {
        let control = Scripted::new("immediate", &[80 * MS]);
        let arms = vec![
            Scripted::new("immediate", &[100 * MS]),
            Scripted { labels: control.labels.clone().with(super::super::arm::CONTROL, "A/A"), ..control },
            Scripted::new("deferred", &[90 * MS]),
            Scripted::new("never", &[20 * MS]),
        ];
        let document = play(&plan(7, 0), arms, None).document;
        let verdicts: Vec<(&str, Verdict)> =
            document.comparisons.iter().map(|found| (found.arm.as_str(), found.verdict)).collect();
        assert_eq!(
            verdicts,
            [
                ("immediate / A/A", Verdict::Faster),
                ("deferred", Verdict::Drifting),
                ("never", Verdict::Faster)
            ]
        );
        assert!(document.notes.iter().any(|note| note.code == NoteCode::AaDrift));
    }

    #[test]
    fn a_document_that_cannot_be_kept_ends_the_run() {
        let mut arms: Vec<Box<dyn Arm>> = vec![Box::new(Scripted::new("a", &[MS]))];
        let plan = plan(7, 0);
        let run =
            Run { plan: &plan, watch: &crate::sys::watch::Quiet, now_ns: &|| 0, longer: "--time-limit" };
        let ended = conduct(&run, super::super::scripted::head(), &mut arms, &mut |document| {
            if document.arms[0].samples.len() == 2 { Err("disk full") } else { Ok(()) }
        });
        assert_eq!(ended, Err("disk full"));
    }
}
