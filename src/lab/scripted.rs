//! An arm that follows a script, so that the conductor is tested with exact numbers.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::arm::{Arm, Halt, Trial};
use super::conduct::{Run, conduct};
use super::plan::{Order, Plan};
use crate::results::{Document, Failed, Kind, Labels, Note, Promise, Refused, Sample};
use crate::stats::Percentiles;
use crate::sys::watch::{Event, Stop, Watch};

/// What all arms of a test did, in order: `immediate run 3`.
pub(super) type Diary = Arc<Mutex<Vec<String>>>;

pub(super) struct Scripted {
    pub(super) labels: Labels,
    /// Of round 1, 2, …; the last one repeats.
    pub(super) elapsed_ns: Vec<u64>,
    /// The step and the round that fail.
    pub(super) fails: Option<(&'static str, u32)>,
    pub(super) refused: Option<Refused>,
    pub(super) diary: Diary,
    /// Advanced by each trial's time.
    pub(super) clock_ns: Arc<AtomicU64>,
}

impl Scripted {
    pub(super) fn new(policy: &str, elapsed_ns: &[u64]) -> Self {
        Self {
            labels: Labels::new().with("policy", policy),
            elapsed_ns: elapsed_ns.to_vec(),
            fails: None,
            refused: None,
            diary: Diary::default(),
            clock_ns: Arc::default(),
        }
    }

    fn step(&self, step: &'static str, trial: &Trial) -> Result<(), Halt> {
        let policy = self.labels.get("policy").unwrap_or_default();
        self.diary.lock().expect("one thread").push(format!("{policy} {step} {}", trial.round));
        match self.fails {
            Some(fails) if fails == (step, trial.round) => Err(Halt::Failed(Failed {
                text: format!("could not {step}"),
                errno: None,
                call: None,
                path: None,
            })),
            _ => Ok(()),
        }
    }
}

impl Arm for Scripted {
    fn labels(&self) -> Labels {
        self.labels.clone()
    }

    fn promise(&self) -> Option<Promise> {
        Some(Promise::Tree)
    }

    fn refused(&self) -> Option<Refused> {
        self.refused.clone()
    }

    fn prepare(&mut self, trial: &Trial) -> Result<(), Halt> {
        self.step("prepare", trial)
    }

    fn run(&mut self, trial: &Trial) -> Result<Sample, Halt> {
        self.step("run", trial)?;
        let script = usize::try_from(trial.round - 1).expect("few rounds");
        let elapsed_ns = self.elapsed_ns[script.min(self.elapsed_ns.len() - 1)];
        self.clock_ns.fetch_add(elapsed_ns, Ordering::Relaxed);
        Ok(Sample { elapsed_ns, ..trial.sample() })
    }

    fn check(&mut self, trial: &Trial) -> Result<(), Halt> {
        self.step("check", trial)
    }

    fn clear(&mut self, trial: &Trial) -> Result<(), Halt> {
        self.step("clear", trial)
    }

    fn latency(&self) -> BTreeMap<String, Percentiles> {
        BTreeMap::new()
    }

    fn notes(&self) -> Vec<Note> {
        Vec::new()
    }
}

pub(super) fn plan(rounds: u32, warmup: u32) -> Plan {
    Plan { rounds, warmup, order: Order::InTurn, seed: 42, time_limit: None }
}

pub(super) fn head() -> Document {
    Document { complete: true, ..Document::new(Kind::Copy) }
}

/// Says stop once the diary holds a line.
struct StopsAt {
    line: Option<&'static str>,
    diary: Diary,
}

impl Watch for StopsAt {
    fn event(&self, _event: Event<'_>) {}

    fn stop(&self) -> Option<Stop> {
        let diary = self.diary.lock().expect("one thread");
        self.line.filter(|line| diary.iter().any(|done| done == line)).map(|_| Stop::Signal(2))
    }
}

/// A run of scripted arms, and all that came of it.
pub(super) struct Played {
    pub(super) document: Document,
    /// Every document that was kept, in order.
    pub(super) kept: Vec<Document>,
    pub(super) diary: Vec<String>,
}

/// Runs the arms on a clock that only their own times advance; `stops_at` is the line of the diary after which the run
/// is told to stop.
pub(super) fn play(plan: &Plan, arms: Vec<Scripted>, stops_at: Option<&'static str>) -> Played {
    let diary = Diary::default();
    let clock_ns = Arc::new(AtomicU64::new(1_000_000));
    let mut arms: Vec<Box<dyn Arm>> = arms
        .into_iter()
        .map(|arm| {
            Box::new(Scripted { diary: diary.clone(), clock_ns: clock_ns.clone(), ..arm }) as Box<dyn Arm>
        })
        .collect();
    let watch = StopsAt { line: stops_at, diary: diary.clone() };
    let now_ns = || clock_ns.load(Ordering::Relaxed);
    let run = Run { plan, watch: &watch, now_ns: &now_ns, longer: "--time-limit" };
    let mut kept = Vec::new();
    let document = conduct(&run, head(), &mut arms, &mut |document| {
        kept.push(document.clone());
        Ok::<(), Infallible>(())
    });
    let Ok(document) = document;
    let diary = diary.lock().expect("one thread").clone();
    Played { document, kept, diary }
}
