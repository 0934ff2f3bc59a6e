//! Power cuts under a copy, as a document: the conductor has no rounds here, for a cut is no trial with a time.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::head::begun;
use crate::powercut::judge::Verdict;
use crate::powercut::planted::Wanted;
use crate::powercut::stage::Judged;
use crate::powercut::trial::{Example, Tally};
use crate::powercut::{Campaign, Error, Plan, Proof, Recorded, cuts::Image};
use crate::replay::policy::Policy;
use crate::replay::template::Template;
use crate::results::plug::Verdicts;
use crate::results::{
    Arm, CutExample, Document, InFact, Input, Kind, Labels, Note, NoteCode, Place, PlantedFault, PowerCuts,
    Refused, Stack,
};
use crate::simdrive::spec::Spec;
use crate::stats::bound_95;
use crate::sys::SysError;
use crate::sys::clock::now_ns;
use crate::sys::error::shown;
use crate::sys::journal::Journal;
use crate::sys::kernel::{Call, Fault};
use crate::sys::run_directory::RunDirectory;
use crate::sys::watch::{Deadline, Event, Stop, Watch};

/// What is copied, on which drive, and how it is cut.
pub struct PlugRequest {
    /// The drive.
    pub spec: Spec,
    /// Its names and sizes are copied; contents are our own.
    pub template: Template,
    /// How.
    pub policies: Vec<Policy>,
    /// The cuts.
    pub plan: Plan,
    /// No image is judged after this.
    pub time_limit: Option<Duration>,
    /// Where the drive's contents lie while it lives.
    pub scratch: PathBuf,
    /// Keep the write log here.
    pub write_log: Option<PathBuf>,
    /// Judge this write log in place of a new one.
    pub from_log: Option<PathBuf>,
    /// The command line.
    pub argv: Vec<String>,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum PlugError {
    /// While power was cut.
    #[error(transparent)]
    Cut(#[from] Error),
    /// Our own files.
    #[error(transparent)]
    Sys(#[from] SysError),
}

impl From<Fault> for PlugError {
    fn from(fault: Fault) -> Self {
        Self::Sys(fault.into())
    }
}

impl PlugRequest {
    /// What is known before the run.
    pub fn head(&self) -> Document {
        let shape = &self.template.shape;
        let stack = Stack { file_system: self.spec.file_system.name().to_owned(), ..Stack::default() };
        let place = Place {
            id: "p1".to_owned(),
            path: format!("sim:{}", self.spec),
            simulated: true,
            model: Some(self.spec.model.clone()),
            stack,
        };
        Document {
            seed: self.plan.seed,
            simulated: true,
            places: vec![place],
            input: Some(Input {
                template: self.template.name.clone(),
                files: shape.files.len() as u64,
                directories: shape.directories.len() as u64 + 1,
                bytes: shape.bytes(),
                allocated_bytes: None,
            }),
            ..begun(Kind::Plug, &self.argv)
        }
    }

    /// Records, proves the checker, judges; the document is kept after every policy. An invalid injector is a document
    /// that says so.
    pub fn run(
        &self,
        journal: &Journal,
        watch: &dyn Watch,
        keep: &mut dyn FnMut(&Document) -> Result<(), SysError>,
    ) -> Result<Document, PlugError> {
        let (directory, entry) = self.enter(journal)?;
        let watch = Limited::new(watch, self.time_limit, "policy");
        let campaign = self.campaign(directory.path());
        let done = self.judged(&campaign, journal, &watch, keep);
        // What cannot be removed stays in the journal, which is undone and told of at the end.
        journal.undo(entry, &directory).ok();
        done
    }

    /// Judges one image of the log that is given.
    pub fn show(&self, image: &Image, journal: &Journal) -> Result<Judged, PlugError> {
        let (directory, entry) = self.enter(journal)?;
        let log = self.from_log.clone().unwrap_or_default();
        let judged = self.campaign(directory.path()).judge_one(&log, &self.policies[0], image);
        // What cannot be removed stays in the journal, which is undone and told of at the end.
        journal.undo(entry, &directory).ok();
        Ok(judged?)
    }

    fn enter(&self, journal: &Journal) -> Result<(RunDirectory, u64), SysError> {
        RunDirectory::make(&self.scratch, &["sim", "images", "source", "write", "drive"], journal)
    }

    fn campaign<'a>(&'a self, directory: &'a Path) -> Campaign<'a> {
        Campaign {
            spec: &self.spec,
            shape: &self.template.shape,
            policies: &self.policies,
            plan: self.plan,
            directory,
        }
    }

    fn judged(
        &self,
        campaign: &Campaign<'_>,
        journal: &Journal,
        watch: &Limited<'_>,
        keep: &mut dyn FnMut(&Document) -> Result<(), SysError>,
    ) -> Result<Document, PlugError> {
        let mut document = self.head();
        let none = || self.policies.iter().map(|_| None).collect();
        let recorded = match &self.from_log {
            Some(log) => Recorded { log: log.clone(), refused: none() },
            None => campaign.record(journal, watch)?,
        };
        if let Some(path) = &self.write_log {
            std::fs::copy(&recorded.log, path).map_err(Fault::of_io(Call::Write, path))?;
        }
        let arms = self.policies.iter().zip(&recorded.refused).map(|(policy, why)| {
            let refused =
                why.as_ref().map(|why| Refused { code: why.code().to_owned(), text: why.to_string() });
            let labels = Labels::new().with("policy", policy.to_string()).with("place", "p1");
            Arm {
                name: policy.to_string(),
                labels,
                promise: Some(policy.promise()),
                refused,
                ..Arm::default()
            }
        });
        document.arms = arms.collect();
        let mut failed = None;
        let document = Mutex::new(document);
        let lock = || document.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = campaign.judge(
            &recorded.log,
            watch,
            &mut |proofs| {
                let mut document = lock();
                document.planted = proofs.iter().map(planted).collect();
                let valid = proofs.iter().all(Proof::valid);
                // A proof that was stopped half-way proves nothing.
                document.injector_valid = (valid || watch.stop().is_none()).then_some(valid);
            },
            &mut |name, tally| {
                let mut document = lock();
                if let Some(arm) = document.arms.iter_mut().find(|arm| arm.name == name) {
                    arm.power_cuts = Some(self.power_cuts(name, &tally));
                }
                failed = failed.take().or(keep(&document).err());
            },
        );
        let mut document = document.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.map_or(Ok(()), Err)?;
        match ended {
            Err(Error::InjectorInvalid { .. }) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
        let stopped = watch.stop();
        document.complete = stopped.is_none() && document.injector_valid == Some(true);
        if stopped == Some(Stop::TimeLimit) {
            let text = "the time limit ended the run; what was judged by then is kept";
            document.notes.push(Note::warning(NoteCode::TimeLimit, text));
        }
        Ok(document)
    }

    fn power_cuts(&self, policy: &str, tally: &Tally) -> PowerCuts {
        let broken = tally.broken() > 0;
        PowerCuts {
            cuts: tally.random,
            aimed: tally.aimed,
            verdicts: words(&tally.verdicts),
            promise_kept: !broken,
            bound_95: (!broken && tally.random > 0).then(|| bound_95(tally.random)),
            in_fact: InFact {
                file_system: self.spec.file_system.name().to_owned(),
                cuts: tally.in_fact.values().sum(),
                data_kept: tally.data_kept,
                names_kept: tally.names_kept,
                verdicts: words(&tally.in_fact),
            },
            examples: tally.examples.values().map(|example| self.example(policy, example)).collect(),
        }
    }

    fn example(&self, policy: &str, Example { finding, image }: &Example) -> CutExample {
        let log = self.write_log.as_ref().or(self.from_log.as_ref());
        let log = log.map_or_else(|| "FILE".to_owned(), |log| log.display().to_string());
        let missing = image.missing.len() as u64 + u64::from(image.torn.is_some());
        let (template, sim, image) = (&self.template.name, self.spec.to_string(), image.to_string());
        let again = ["fsynclab", "plug", "copy", template, "--sim", &sim, "--policy", policy];
        let command = shell_words::join(again.into_iter().chain(["--from-log", &log, "--image", &image]));
        CutExample {
            verdict: finding.verdict.to_string(),
            promised: finding.promised,
            path: shown(&finding.path),
            detail: finding.detail.clone(),
            image,
            missing,
            command,
        }
    }
}

fn words(verdicts: &std::collections::BTreeMap<Verdict, u64>) -> Verdicts {
    verdicts.iter().map(|(verdict, count)| (verdict.to_string(), *count)).collect()
}

fn planted(proof: &Proof) -> PlantedFault {
    let wanted = match proof.planted.wanted {
        Wanted::Caught => "caught",
        Wanted::Passes => "passes",
        Wanted::Either => "either",
    };
    PlantedFault {
        name: proof.planted.name.to_owned(),
        wanted: wanted.to_owned(),
        images: proof.tally.images(),
        caught: proof.tally.broken(),
        verdicts: words(&proof.tally.verdicts),
    }
}

/// How often it is said how far the images have come.
const PACE_NS: u64 = 10_000_000_000;

/// Ends at a time limit, and says now and then how long it will take.
pub(super) struct Limited<'a> {
    watch: &'a dyn Watch,
    deadline: Option<Deadline>,
    what: &'static str,
    pace: Mutex<Pace>,
}

/// How far they have come, when the first began, and when that was last said.
#[derive(Default)]
struct Pace {
    position: u64,
    positions: u64,
    begun_ns: u64,
    said_ns: u64,
}

impl<'a> Limited<'a> {
    /// What is judged one after the other is called `what`.
    pub(super) fn new(watch: &'a dyn Watch, limit: Option<Duration>, what: &'static str) -> Limited<'a> {
        Limited { watch, deadline: limit.map(Deadline::after), what, pace: Mutex::default() }
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, done: u64, total: u64) {
        let mut pace = self.pace();
        let now = now_ns();
        if pace.positions == 0 || now - pace.said_ns < PACE_NS {
            return;
        }
        pace.said_ns = now;
        let left_ns = left_ns(now - pace.begun_ns, (pace.position, pace.positions), (done, total));
        let left =
            left_ns.map_or_else(String::new, |ns| format!(", about {} s left", ns.div_ceil(1_000_000_000)));
        let (position, positions) = (pace.position, pace.positions);
        let what = self.what;
        let text = format!("{what} {position} of {positions}: {done} of {total} images{left}");
        self.watch.event(Event::Note(&text));
    }
}

/// What is left after `elapsed_ns` in the `position`th of so many policies, at `done` of its images, if the others take as
/// long.
fn left_ns(elapsed_ns: u64, (position, positions): (u64, u64), (done, total): (u64, u64)) -> Option<u64> {
    let total = u128::from(total.max(1));
    let passed = u128::from(position.saturating_sub(1)) * total + u128::from(done);
    let left = (u128::from(positions) * total).saturating_sub(passed);
    u64::try_from((u128::from(elapsed_ns) * left).checked_div(passed)?).ok()
}

impl Watch for Limited<'_> {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Trial { position, positions, .. } => {
                let mut pace = self.pace();
                if pace.positions == 0 {
                    let now = now_ns();
                    *pace = Pace { begun_ns: now, said_ns: now, ..Pace::default() };
                }
                (pace.position, pace.positions) = (position.into(), positions.into());
            }
            Event::Progress { done, total, .. } => self.say(done, total),
            _ => {}
        }
        self.watch.event(event);
    }

    fn stop(&self) -> Option<Stop> {
        let late = || self.deadline.filter(|deadline| deadline.reached()).map(|_| Stop::TimeLimit);
        self.watch.stop().or_else(late)
    }
}

#[cfg(test)]
mod tests {
    use super::left_ns;

    #[test]
    fn what_is_left_counts_the_policies_to_come() {
        assert_eq!(left_ns(10, (1, 1), (50, 100)), Some(10));
        assert_eq!(left_ns(10, (1, 3), (100, 100)), Some(20));
        assert_eq!(left_ns(30, (2, 2), (50, 100)), Some(10));
        assert_eq!(left_ns(10, (1, 2), (0, 100)), None, "nothing is known yet");
        assert_eq!(left_ns(10, (2, 2), (0, 0)), Some(10));
    }
}
