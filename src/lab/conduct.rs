//! The conductor: rounds in which every arm runs once, the document rewritten after each. It knows no kind of run.

use std::time::Duration;

use super::arm::{Arm, Halt, Trial};
use super::compare;
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
        run.watch.event(&Event::Round { round, of: run.plan.all_rounds(), warmup: run.plan.is_warmup(round) });
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
        let mut position = 0;
        for index in run.plan.positions(round, arms.len()) {
            if !self.plays(index) {
                continue;
            }
            if run.watch.stop().is_some() {
                return false;
            }
            if self.is_out_of_time(run) {
                self.out_of_time = true;
                return false;
            }
            position += 1;
            let ignored = run.plan.is_warmup(round);
            let trial = Trial { round, position, ignored, seed: run.plan.trial_seed(round) };
            run.watch.event(&Event::Trial { arm: &self.document.arms[index].name, round, position });
            match play(arms[index].as_mut(), &trial) {
                Ok(sample) if sample.elapsed_ns == 0 => self.discarded += 1,
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
        run.watch.event(&Event::Warning { text: &format!("{}: {}", arm.name, failed.text) });
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
            shown.summary = stats::summary(&compare::counted_ns(shown));
            shown.latency = arm.latency();
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
            let text = format!("{} samples had an interval of zero or less and were discarded", self.discarded);
            notes.push(Note::warning(NoteCode::DiscardedSample, text));
        }
        if let Some(limit) = run.plan.time_limit.filter(|_| self.out_of_time) {
            let whole = self.document.arms.iter().map(|arm| compare::counted_ns(arm).len()).max().unwrap_or(0);
            let text = format!(
                "the time limit of {} s was reached in round {} of {}; --time-limit gives more",
                limit.as_secs_f64(),
                whole + 1,
                run.plan.rounds
            );
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
