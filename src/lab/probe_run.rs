//! A whole probe: the place surveyed, its disks watched while we are still, every case tried once, then short slices of
//! all cases in shuffled rounds. Between slices nothing waits for an idle disk: a slice ends with its own syncs, and
//! what it leaves unsynced is too little to matter; so drift and neighbours meet all cases alike.

use std::cell::Cell;
use std::thread;
use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::arm::Arm;
use super::cached::{CachedArm, Caches};
use super::conduct::{Run, conduct};
use super::head::head;
use super::plan::{Order, Plan};
use super::probe::{ProbeArm, Slices, WARM_UP_PART};
use super::probe_verdict;
use crate::place::{Place, PlaceError, Settled};
use crate::probe::bench::{Bench, Beside, FILE_BYTES, LONGEST_BYTES, NAMES};
use crate::probe::cases::Case;
use crate::results::{Baseline, Document, Kind, Note, NoteCode};
use crate::storage::{self, Attached, Cache, Root};
use crate::sys::clock;
use crate::sys::journal::Journal;
use crate::sys::kernel::{Fault, Kernel};
use crate::sys::run_directory::RunDirectory;
use crate::sys::watch::{Deadline, Event, Phase, Watch};

/// How long a probe waits for the disk to become idle before it watches what others do.
const IDLE_LIMIT: Duration = Duration::from_secs(5);
/// How long it watches.
const BASELINE: Duration = Duration::from_millis(500);
/// How often it asks meanwhile whether to stop.
const LOOK: Duration = Duration::from_millis(50);
/// From here on others keep the disk busy, percent.
const BUSY_PERCENT: f64 = 2.0;
/// The shortest slice: what is left of the time when the try-out has taken most of it.
const SHORTEST_SLICE_NS: u64 = 1_000_000;

/// What was asked for.
#[derive(Clone, Debug)]
pub struct ProbeRequest {
    /// What is timed.
    pub cases: Vec<&'static Case>,
    /// How often, in what order; its time limit is what ends a run on a disk that is slower than its slices.
    pub plan: Plan,
    /// How long it should take.
    pub time: Time,
    /// A case that syncs the whole file system may run beside a cluster.
    pub beside_server: bool,
    /// The states of the write cache to compare; none leaves it as it is.
    pub write_caches: Vec<Cache>,
    /// Switch it though others rely on the disk.
    pub force: bool,
    /// The command line, passwords redacted.
    pub argv: Vec<String>,
}

/// How long a probe should take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// All of it, preparation included.
    Whole(Duration),
    /// The slices of each case together, as pg_test_fsync takes its time.
    EachCase(Duration),
}

impl Time {
    /// What it was asked for with.
    fn option(self) -> &'static str {
        match self {
            Self::Whole(_) => "--time",
            Self::EachCase(_) => "--secs-per-test",
        }
    }

    /// About how long all cases take.
    pub fn whole(self, cases: usize) -> Duration {
        match self {
            Self::Whole(time) => time,
            Self::EachCase(time) => time.saturating_mul(u32::try_from(cases).unwrap_or(u32::MAX)),
        }
    }

    /// The length of one slice; the try-out has taken some of the time.
    fn slice_ns(self, plan: &Plan, running: usize, spent_ns: u64) -> u64 {
        let in_ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let rounds = u64::from(plan.rounds.max(1));
        let slice_ns = match self {
            Self::EachCase(time) => in_ns(time) / rounds,
            Self::Whole(time) => {
                let parts = (rounds * WARM_UP_PART + u64::from(plan.warmup)) * running.max(1) as u64;
                (in_ns(time).saturating_sub(spent_ns) / parts).saturating_mul(WARM_UP_PART)
            }
        };
        slice_ns.max(SHORTEST_SLICE_NS)
    }
}

/// Why a probe did not come to its end; `E` is why its document could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum ProbeRunError<E> {
    /// The place takes no run.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Its files could not be made.
    #[error(transparent)]
    Prepare(#[from] Fault),
    /// One operation of each case took longer than all of it should.
    #[error("{} s are too short: one operation of each line takes {:.2} s", .asked.as_secs_f64(), .needed.as_secs_f64())]
    TooShort {
        /// How long it should take.
        asked: Duration,
        /// How long the operations took.
        needed: Duration,
    },
    /// Told to stop before the first slice.
    #[error("stopped before the first slice")]
    Stopped,
    /// The document could not be kept.
    #[error("{0}")]
    Keep(E),
}

/// A place that was looked at, and the document as far as it is known before anything is written.
pub struct ProbeRun {
    request: ProbeRequest,
    place: Place,
    head: Document,
}

/// A run that has made its directory.
pub struct EnteredProbe<'a> {
    run: &'a ProbeRun,
    journal: &'a Journal,
    directory: RunDirectory,
}

impl ProbeRun {
    /// Asks the drives of the place.
    pub fn new(request: ProbeRequest, mut place: Place) -> Self {
        place.ask_drives(&Attached);
        let head = head(Kind::Probe, &request.argv, std::slice::from_ref(&place));
        Self { request, place, head }
    }

    /// Takes the place apart where it is a simulated drive.
    pub fn close(self, journal: &Journal) -> Result<(), PlaceError> {
        self.place.close(journal)
    }

    /// The document without arms.
    pub fn head(&self) -> &Document {
        &self.head
    }

    /// Makes the run's directory.
    pub fn enter<'a>(&'a self, journal: &'a Journal) -> Result<EnteredProbe<'a>, PlaceError> {
        self.place.make_room_for(FILE_BYTES as u64 + LONGEST_BYTES)?;
        Ok(EnteredProbe { run: self, journal, directory: self.place.enter(&NAMES, journal)?.0 })
    }
}

impl EnteredProbe<'_> {
    /// Watches, tries, measures, judges.
    pub fn conduct<K: Kernel, E>(
        &self,
        kernel: &K,
        watch: &dyn Watch,
        keep: &mut dyn FnMut(&Document) -> Result<(), E>,
    ) -> Result<Document, ProbeRunError<E>> {
        let ProbeRun { request, place, head } = self.run;
        let began_ns = clock::now_ns();
        let mut head = head.clone();
        watch.event(Event::Phase(Phase::Settling));
        head.notes.extend(quieten(place, watch)?);
        head.baseline = baseline(place, watch);
        head.notes.extend(head.baseline.as_ref().and_then(others));
        watch.event(Event::Phase(Phase::Making));
        // An older kernel's counters have no flushes, and would seem to say that none were sent.
        let counted = probe_verdict::flushes_counted(place.stack(), &Root::live());
        let counters = || if counted { place.counters() } else { None };
        let mut random = ChaCha8Rng::seed_from_u64(request.plan.seed);
        let beside = Beside { watch, counters: &counters };
        let bench = Bench::new(kernel, self.directory.path(), &mut random, beside)?;
        let slices = Slices {
            bench: &bench,
            watch,
            place: place.id(),
            slice_ns: Cell::new(0),
            spare_file_system: place.is_gentle() && !request.beside_server,
        };
        let tried_ns = clock::now_ns();
        let mut tried = Vec::new();
        for case in &request.cases {
            if watch.stop().is_some() {
                return Err(ProbeRunError::Stopped);
            }
            tried.push(ProbeArm::try_out(&slices, case)?);
        }
        let needed = Duration::from_nanos(clock::now_ns() - tried_ns);
        if let Time::Whole(asked) = request.time
            && asked <= needed
        {
            return Err(ProbeRunError::TooShort { asked, needed });
        }
        let caches = self.caches();
        let mut arms = arms(tried, &request.write_caches, caches.as_ref());
        let running = arms.iter().filter(|arm| arm.refused().is_none()).count();
        let spent_ns = clock::now_ns() - began_ns;
        slices.slice_ns.set(request.time.slice_ns(&request.plan, running, spent_ns));
        let judged = |document: &Document| {
            let stacks = caches.iter().flat_map(|caches| {
                let states = request.write_caches.iter();
                states.filter_map(|state| Some((*state, caches.stack_when(*state)?)))
            });
            probe_verdict::judged(document, &stacks.collect::<Vec<_>>())
        };
        let plan = request.plan_by_state();
        let run = Run { plan: &plan, watch, now_ns: &clock::now_ns, longer: request.time.option() };
        let document = conduct(&run, head, &mut arms, &mut |document| keep(&judged(document)));
        Ok(judged(&document.map_err(ProbeRunError::Keep)?))
    }

    /// The disks of the place, taken only where their caches are to be switched.
    fn caches(&self) -> Option<Caches<'_, Attached>> {
        let ProbeRequest { write_caches: states, force, .. } = &self.run.request;
        let take = || Caches::below(&self.run.place, states, *force, self.journal, &Attached);
        (!states.is_empty()).then(take)
    }
}

impl ProbeRequest {
    /// A slice is shorter than switching a cache takes: each round switches once a state.
    fn plan_by_state(&self) -> Plan {
        let order = match self.write_caches.len() {
            0 | 1 => self.plan.order,
            _ => Order::Blocks(self.cases.len()),
        };
        Plan { order, ..self.plan.clone() }
    }
}

/// Every case once, or once for each state of the caches.
fn arms<'a, K: Kernel>(
    tried: Vec<ProbeArm<'a, K>>,
    states: &[Cache],
    caches: Option<&'a Caches<'a, Attached>>,
) -> Vec<Box<dyn Arm + 'a>> {
    let Some(caches) = caches else {
        return tried.into_iter().map(|arm| Box::new(arm) as Box<dyn Arm + 'a>).collect();
    };
    let in_state = |state: &Cache, arm: &ProbeArm<'a, K>| {
        Box::new(CachedArm::new(Box::new(arm.another()), *state, caches)) as Box<dyn Arm + 'a>
    };
    states.iter().flat_map(|state| tried.iter().map(|arm| in_state(state, arm))).collect()
}

/// Lets what was written before come to rest, unless a running cluster would feel it.
fn quieten<E>(place: &Place, watch: &dyn Watch) -> Result<Option<Note>, ProbeRunError<E>> {
    if place.is_gentle() {
        return Ok(None);
    }
    place.sync_file_system()?;
    match place.wait_until_idle(IDLE_LIMIT, watch) {
        Settled::Idle | Settled::Unknown => Ok(None),
        Settled::Stopped => Err(ProbeRunError::Stopped),
        Settled::StillBusy => {
            let text = format!("the disk was not idle within {} s before the probe", IDLE_LIMIT.as_secs());
            Ok(Some(Note::warning(NoteCode::NotIdle, text)))
        }
    }
}

/// What the disks do while this run is still.
fn baseline(place: &Place, watch: &dyn Watch) -> Option<Baseline> {
    let root = Root::live();
    let look = || -> Option<Vec<u64>> {
        let devices = place.stack().counted.iter();
        devices.map(|device| Some(storage::activity(device, &root).ok()?.busy_ms)).collect()
    };
    let (start_ns, busy, before) = (clock::now_ns(), look()?, place.counters()?);
    let deadline = Deadline::after(BASELINE);
    while !deadline.reached() && watch.stop().is_none() {
        thread::sleep(LOOK.min(deadline.left()));
    }
    let busiest_ms = look()?.iter().zip(&busy).map(|(now, then)| now.saturating_sub(*then)).max()?;
    Some(Baseline {
        elapsed_ns: clock::now_ns() - start_ns,
        busy_ns: busiest_ms.saturating_mul(1_000_000),
        device: place.counters()?.since(before),
    })
}

fn others(baseline: &Baseline) -> Option<Note> {
    let seconds = baseline.elapsed_ns as f64 / 1e9;
    let (busy, flushes) = (baseline.busy_percent(), baseline.device.flushes as f64 / seconds);
    (busy >= BUSY_PERCENT || flushes > 0.0).then(|| {
        let text = format!(
            "others keep the disk {busy:.0} % busy, with {:.0} writes and {flushes:.0} flushes a second: they are \
             counted here as ours",
            baseline.device.writes as f64 / seconds
        );
        Note::warning(NoteCode::OtherWriters, text)
    })
}
