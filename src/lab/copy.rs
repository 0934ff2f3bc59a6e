//! The adapter for template copies: one policy at one place is one arm.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hdrhistogram::Histogram;

use super::arm::{AA, Arm, CONTROL, Halt, Trial};
use super::copy_notes;
use crate::place::{Place, Settled};
use crate::replay::engine::{Copied, Engine, EngineError};
use crate::replay::means::Means;
use crate::replay::policy::Policy;
use crate::replay::verify::{Verify, VerifyError, verify};
use crate::results::{DeviceCounters, Failed, Input, Labels, Note, Promise, Refused, Sample};
use crate::simdrive::mount::REST;
use crate::stats::{self, Percentiles};
use crate::sys::error::shown;
use crate::sys::kernel::{Call, Fault, Kernel};
use crate::sys::real::Real;
use crate::sys::tallied::{SYNCS, Tallied, Tally};
use crate::sys::watch::{Event, Phase, Watch};

/// How long a trial waits for an idle disk: on one that others keep busy, all trials together must not take minutes.
const IDLE_LIMIT: Duration = Duration::from_secs(1);

/// Names that a copy run uses in its directory.
pub const NAMES: [&str; 3] = [SOURCE, COPY, TRY];
/// The staged source.
pub const SOURCE: &str = "source";
const COPY: &str = "copy";
const TRY: &str = "try";

/// A place that a run has entered, and what is copied there.
#[derive(Clone, Debug)]
pub struct Workshop<'a> {
    /// The place.
    pub place: &'a Place,
    /// The run's own directory in it.
    pub directory: PathBuf,
    /// The tree to copy: only read.
    pub source: PathBuf,
    /// A tree of the run's own, for policies that could leave it with shared extents.
    pub private: Option<PathBuf>,
    /// What is in that tree.
    pub input: Input,
}

/// What all arms of a run have in common.
pub struct Bench<'a, K> {
    /// Makes, counts and times the calls.
    pub kernel: &'a Tallied<K>,
    /// Hears of phases and says when to stop.
    pub watch: &'a dyn Watch,
    /// After the clock.
    pub verify: Verify,
    /// Policies that sync a whole file system may run beside a cluster.
    pub beside_server: bool,
}

/// A policy at a place.
pub struct CopyArm<'a, K> {
    bench: &'a Bench<'a, K>,
    shop: &'a Workshop<'a>,
    labels: Labels,
    policy: Policy,
    engine: Result<Engine<'a, Tallied<K>>, Refused>,
    promise: Promise,
    latency: BTreeMap<Call, Histogram<u64>>,
    notes: Vec<Note>,
}

impl<'a, K: Kernel> CopyArm<'a, K> {
    /// An arm, refused where the place cannot offer what the policy needs.
    pub fn new(bench: &'a Bench<'a, K>, shop: &'a Workshop<'a>, policy: &Policy) -> Result<Self, Failed> {
        let labels = Labels::new().with("policy", policy.to_string()).with("place", shop.place.id());
        let promise = policy.promise();
        let notes = copy_notes::before(policy, &shop.input).into_iter().collect();
        Ok(Self {
            engine: engine(bench, shop, policy)?,
            promise: shop.place.promises_at_most().map_or(promise, |most| most.min(promise)),
            bench,
            shop,
            labels,
            policy: policy.clone(),
            latency: BTreeMap::new(),
            notes,
        })
    }

    /// The same arm as the baseline's second copy.
    #[must_use]
    pub fn as_control(mut self) -> Self {
        self.labels = self.labels.with(CONTROL, AA);
        self
    }

    fn source(&self) -> &'a Path {
        match &self.shop.private {
            Some(private) if self.policy.needs().staged_source => private,
            _ => &self.shop.source,
        }
    }

    fn destination(&self) -> PathBuf {
        self.shop.directory.join(COPY)
    }

    fn note(&mut self, note: Note) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// What tells this arm from the others at its place.
    fn title(&self) -> String {
        let labels = self.labels.iter().filter(|(name, _)| *name != "place");
        labels.map(|(_, value)| value).collect::<Vec<_>>().join(" / ")
    }

    /// Says in the write log of a simulated drive what follows.
    fn mark(&self, text: &str) -> Result<(), Halt> {
        self.shop.place.mark(text).map_err(|error| failed_otherwise(&error).into())
    }

    /// What the trial says beyond its numbers.
    fn learn(&mut self, copied: &Copied) {
        let promise = copied.promise(&self.policy);
        if promise < self.promise {
            self.promise = promise;
        }
        for note in copy_notes::after(&self.policy, copied) {
            self.note(note);
        }
    }

    fn add_latency(&mut self, tally: Tally) {
        for (call, latency) in tally.latency {
            match self.latency.get_mut(&call) {
                Some(sum) => sum.add(latency).expect("histograms of equal bounds and precision"),
                None => drop(self.latency.insert(call, latency)),
            }
        }
    }

    /// What became of a copy that failed, with what the reader needs where the disk is full. After a failed sync nobody
    /// knows what is on disk: nothing is promised.
    fn failure(&mut self, error: EngineError) -> Halt {
        match error {
            EngineError::Stopped(_) => Halt::Stopped,
            EngineError::Fault(fault) => {
                let full = matches!(fault.errno, nix::errno::Errno::ENOSPC | nix::errno::Errno::EDQUOT);
                let mut failed = failed_call(&fault);
                if SYNCS.contains(&fault.call) {
                    self.promise = Promise::Nothing;
                }
                if full {
                    failed.text += &copy_notes::full(self.shop.place, &self.destination());
                }
                Halt::Failed(failed)
            }
            EngineError::Jobs { .. } => Halt::Failed(failed_otherwise(&error)),
        }
    }
}

/// The engine, or why the arm cannot be here.
fn engine<'a, K: Kernel>(
    bench: &'a Bench<'a, K>,
    shop: &Workshop<'_>,
    policy: &Policy,
) -> Result<Result<Engine<'a, Tallied<K>>, Refused>, Failed> {
    if shop.place.is_gentle() && policy.needs().whole_file_system_sync && !bench.beside_server {
        let text = "it would sync the whole file system beside a running cluster (--beside-server allows it)";
        return Ok(Err(Refused { code: "beside-server".to_owned(), text: text.to_owned() }));
    }
    let found = in_a_directory_of_its_own(shop, |directory| Means::at(policy, directory))?;
    Ok(match found {
        Err(unavailable) => {
            Err(Refused { code: unavailable.code().to_owned(), text: unavailable.to_string() })
        }
        Ok(means) => Ok(Engine::new(bench.kernel, policy, means).map_err(|error| failed_otherwise(&error))?),
    })
}

/// Whatever is tried there, a kill leaves nothing in the run's directory that the run does not know.
fn in_a_directory_of_its_own<T>(shop: &Workshop<'_>, try_out: impl FnOnce(&Path) -> T) -> Result<T, Failed> {
    let directory = shop.directory.join(TRY);
    fs::create_dir(&directory).map_err(|error| failed_io(Call::Mkdir, &directory, error))?;
    let found = try_out(&directory);
    fs::remove_dir_all(&directory).map_err(|error| failed_io(Call::Rmdir, &directory, error))?;
    Ok(found)
}

impl<K: Kernel> Arm for CopyArm<'_, K> {
    fn labels(&self) -> Labels {
        self.labels.clone()
    }

    fn promise(&self) -> Option<Promise> {
        Some(self.promise)
    }

    fn refused(&self) -> Option<Refused> {
        self.engine.as_ref().err().cloned()
    }

    fn prepare(&mut self, trial: &Trial) -> Result<(), Halt> {
        let place = self.shop.place;
        self.bench.watch.event(Event::Phase(Phase::Settling));
        place.make_room_for(self.shop.input.bytes).map_err(|error| failed_otherwise(&error))?;
        if place.is_gentle() {
            return Ok(());
        }
        place.sync_file_system().map_err(|error| failed_otherwise(&error))?;
        match place.wait_until_idle(IDLE_LIMIT, self.bench.watch) {
            Settled::Idle | Settled::Unknown => {}
            Settled::Stopped => return Err(Halt::Stopped),
            Settled::StillBusy => self.note(copy_notes::not_idle(place, IDLE_LIMIT)),
        }
        if trial.ignored { Ok(()) } else { self.mark(&self.title()) }
    }

    fn run(&mut self, trial: &Trial) -> Result<Sample, Halt> {
        let destination = self.destination();
        let (bench, source) = (self.bench, self.source());
        let engine = self.engine.as_mut().expect("a refused arm is never run");
        bench.kernel.take();
        let before = self.shop.place.counters();
        let copied = engine.replay(source, &destination, bench.watch, &());
        let after = self.shop.place.counters();
        let tally = bench.kernel.take();
        let copied = copied.map_err(|error| self.failure(error))?;
        let device = before.zip(after).map(|(before, after)| after.since(before));
        self.learn(&copied);
        if let Some(note) = device.and_then(|device| copy_notes::others(device, &self.shop.input)) {
            self.note(note);
        }
        let sample = sample(trial, &copied, &tally, device);
        if !trial.ignored {
            self.add_latency(tally);
        }
        Ok(sample)
    }

    fn check(&mut self, _trial: &Trial) -> Result<(), Halt> {
        self.mark(REST)?;
        let Bench { verify: how, watch, .. } = self.bench;
        let verified =
            verify(&Real, self.source(), &self.destination(), *how, *watch).map_err(|error| match error {
                VerifyError::Stopped(_) => Halt::Stopped,
                VerifyError::Fault(fault) => Halt::Failed(failed_call(&fault)),
                VerifyError::Differs(_) => Halt::Failed(failed_otherwise(&error)),
            })?;
        for note in copy_notes::verified(&verified) {
            self.note(note);
        }
        Ok(())
    }

    fn clear(&mut self, _trial: &Trial) -> Result<(), Halt> {
        self.bench.watch.event(Event::Phase(Phase::Removing));
        let destination = self.destination();
        match fs::remove_dir_all(&destination) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|error| failed_io(Call::Unlink, &destination, error).into()),
        }
    }

    fn latency(&self) -> BTreeMap<String, Percentiles> {
        let named = self
            .latency
            .iter()
            .filter_map(|(call, latency)| Some((call.name().to_owned(), stats::percentiles(latency)?)));
        named.collect()
    }

    fn notes(&self) -> Vec<Note> {
        self.notes.clone()
    }
}

fn sample(trial: &Trial, copied: &Copied, tally: &Tally, device: Option<DeviceCounters>) -> Sample {
    let calls = || tally.calls.iter().map(|(call, spent)| (call.name().to_owned(), spent));
    Sample {
        elapsed_ns: copied.elapsed_ns,
        phases: copied.phases.clone(),
        calls: calls().map(|(name, spent)| (name, spent.count)).collect(),
        calls_ns: calls().map(|(name, spent)| (name, spent.elapsed_ns)).collect(),
        first_sync_ns: [Call::Fsync, Call::Fdatasync]
            .iter()
            .find_map(|call| tally.first_ns.get(call))
            .copied(),
        device,
        ..trial.sample()
    }
}

pub(super) fn failed_call(fault: &Fault) -> Failed {
    Failed {
        text: fault.to_string(),
        errno: Some(fault.errno as i32),
        call: Some(fault.call.name().to_owned()),
        path: Some(shown(&fault.path)),
    }
}

fn failed_io(call: Call, path: &Path, error: std::io::Error) -> Failed {
    failed_call(&Fault::of_io(call, path)(error))
}

fn failed_otherwise(error: &dyn std::error::Error) -> Failed {
    Failed { text: error.to_string(), errno: None, call: None, path: None }
}
