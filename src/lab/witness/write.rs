//! `plug write`: the place is looked at and probed, the witness is told, then writers write until the power goes.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{ScopedJoinHandle, scope, sleep};
use std::time::Duration;

use nix::sys::stat::Mode;

use super::{PulledError, below_mount, boot};
use crate::lab::plan::{Order, Plan};
use crate::lab::probe_run::{ProbeRequest, ProbeRun, Time};
use crate::place::Place;
use crate::powercut::WitnessError;
use crate::powercut::witness::event::{Probed, Reply, Request, Session};
use crate::powercut::witness::link::{Address, Link};
use crate::powercut::witness::sector::session_number;
use crate::powercut::witness::write::{MOST_BYTES, Task, Writer, directory_name};
use crate::probe::cases::CASES;
use crate::results::{Document, Note, NoteCode};
use crate::sys::error::shown;
use crate::sys::files;
use crate::sys::host::host_facts;
use crate::sys::journal::Journal;
use crate::sys::kernel::Kernel;
use crate::sys::random::fresh_id;
use crate::sys::run_directory::RunDirectory;
use crate::sys::tools::Tool;
use crate::sys::undo::{UNDO, Undo};
use crate::sys::watch::{Deadline, Event, Stop, Watch};

/// How long the short probe takes.
const PROBE: Duration = Duration::from_secs(2);
/// The lines of it.
const PROBED: &str = "one8";
/// How often it is looked whether something has happened.
const TICK: Duration = Duration::from_millis(20);
/// How often it is said how far the writers are.
const SAID: Duration = Duration::from_secs(10);
/// For the cut command.
const COMMAND_LIMIT: Duration = Duration::from_mins(2);
/// For the power to go after it.
const STILL_ON: Duration = Duration::from_mins(1);

/// Who cuts the power, and when.
#[derive(Clone, Debug)]
pub struct CutPlan {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// So long after the writers began.
    pub after: Duration,
}

/// What is written where, and who witnesses it.
pub struct WriteRequest {
    /// Where.
    pub place: Place,
    /// The witness.
    pub address: Address,
    /// A run that is known there, for one more cut of it.
    pub run: Option<String>,
    /// How many write at once.
    pub writers: u32,
    /// Decides what is written.
    pub seed: u64,
    /// Probe the place first.
    pub probe: bool,
    /// Who cuts; else somebody by hand.
    pub cut: Option<CutPlan>,
    /// The writers end by themselves after this.
    pub time_limit: Option<Duration>,
}

/// A writer that the witness knows.
pub struct Begun<'a> {
    request: &'a WriteRequest,
    session: Session,
    directory: RunDirectory,
    entry: u64,
    /// The run.
    pub run: String,
    /// Which cut of it this will be.
    pub cut: u32,
}

impl WriteRequest {
    /// The most that lies on the disk at a time, in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.writers) * MOST_BYTES
    }

    /// What a reader must know before anybody pulls a plug.
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = super::verify::with_reach(self.place.notes(), self.place.stack());
        let text = "at the cut everything on this machine that is not synced is lost, whoever wrote it";
        notes.push(Note::warning(NoteCode::CutReach, text));
        notes
    }

    /// Probes, makes the directory, tells the witness. What was made is in the journal.
    pub fn begin<K: Kernel>(
        &self,
        kernel: &K,
        journal: &Journal,
        watch: &dyn Watch,
    ) -> Result<Begun<'_>, PulledError> {
        self.place.make_room_for(self.bytes())?;
        let probe = if self.probe { self.probed(kernel, journal, watch) } else { None };
        // What the probe made must not outlive the cut.
        journal.undo_those(UNDO, |entry| entry.kind == RunDirectory::KIND)?;
        let (directory, entry) = self.place.enter(&["w"], journal)?;
        for writer in 0..self.writers {
            files::make_directory(&directory.path().join(directory_name(writer)), Mode::S_IRWXU)?;
        }
        let into = directory.path().parent().unwrap_or(Path::new("/"));
        let stack = self.place.stack().clone();
        let session = Session {
            id: fresh_id(),
            into: shown(into),
            directory: directory.path().file_name().map(|name| shown(Path::new(name))).unwrap_or_default(),
            below_mount: below_mount(into, &stack),
            boot: boot(),
            kernel: host_facts().kernel,
            seed: self.seed,
            writers: self.writers,
            stack,
            probe,
            // Arguments may hold passwords.
            cut_by: self.cut.as_ref().and_then(|cut| cut.command.first().cloned()),
        };
        let request = Request::Begin { run: self.run.clone(), session: Box::new(session.clone()) };
        match self.address.ask(&request, &|| watch.stop())? {
            Reply::Begun { run, cut } => Ok(Begun { request: self, session, directory, entry, run, cut }),
            _ => Err(WitnessError::Refused { why: "it answers something else".to_owned() }.into()),
        }
    }

    /// What a short probe finds; one that fails is told and missed by nobody.
    fn probed<K: Kernel>(&self, kernel: &K, journal: &Journal, watch: &dyn Watch) -> Option<Probed> {
        let cases = CASES.iter().filter(|case| case.block == PROBED).collect();
        let (rounds, warmup, order, time_limit) = (3, 1, Order::Shuffled, Some(4 * PROBE));
        let request = ProbeRequest {
            cases,
            plan: Plan { rounds, warmup, order, seed: self.seed, time_limit },
            time: Time::Whole(PROBE),
            beside_server: false,
            write_caches: Vec::new(),
            force: false,
            argv: Vec::new(),
        };
        let probed = || -> Result<Document, String> {
            let place = Place::survey("p1", self.place.directory()).map_err(|error| error.to_string())?;
            let run = ProbeRun::new(request, place);
            let entered = run.enter(journal).map_err(|error| error.to_string())?;
            let quiet = Silent(watch);
            entered
                .conduct(kernel, &quiet, &mut |_| Ok::<(), Infallible>(()))
                .map_err(|error| error.to_string())
        };
        match probed() {
            Ok(document) => figures(&document),
            Err(why) => {
                watch.event(Event::Note(&format!("note: the probe before the cut found nothing: {why}")));
                None
            }
        }
    }
}

fn figures(document: &Document) -> Option<Probed> {
    let fdatasync = document.arms.iter().find(|arm| arm.labels.get("method") == Some("fdatasync"))?;
    Some(Probed {
        verdict: document.verdict.clone()?,
        overwrites_per_sec: fdatasync.summary.as_ref().and_then(|summary| summary.ops_per_sec),
        flushes_per_op: fdatasync.device.map(|device| device.flushes_per_op),
    })
}

/// The probe is a detail: only its end may be asked for.
struct Silent<'a>(&'a dyn Watch);

impl Watch for Silent<'_> {
    fn event(&self, _: Event<'_>) {}

    fn stop(&self) -> Option<Stop> {
        self.0.stop()
    }
}

/// What the threads share.
#[derive(Default)]
struct Shared {
    ended: AtomicBool,
    acknowledged: AtomicU64,
    first_error: Mutex<Option<WitnessError>>,
}

impl Shared {
    fn fail(&self, error: WitnessError) {
        // Who was told to stop has not failed.
        if !matches!(error, WitnessError::Stopped(_)) {
            self.first_error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
        self.ended.store(true, Ordering::Relaxed);
    }
}

impl Begun<'_> {
    /// Where everything lies.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Writes until the power goes; returns only if it does not. After a stop that was asked for the directory is removed
    /// and the witness told that this was no cut; after an error it stays, for what was acknowledged before can be
    /// verified.
    pub fn run<K: Kernel>(
        self,
        kernel: &K,
        journal: &Journal,
        watch: &dyn Watch,
    ) -> Result<Stop, PulledError> {
        let shared = Shared::default();
        let limit = self.request.time_limit.map(Deadline::after);
        let asked = || {
            let late = || limit.filter(|limit| limit.reached()).map(|_| Stop::TimeLimit);
            watch.stop().or_else(late)
        };
        let stopping = || asked().or(shared.ended.load(Ordering::Relaxed).then_some(Stop::TimeLimit));
        let stop = || stopping().is_some();
        let told = || {
            shared.acknowledged.fetch_add(1, Ordering::Relaxed);
        };
        let done = scope(|scope| {
            let (shared, stopping, stop, told) = (&shared, &stopping, &stop, &told);
            let writers: Vec<ScopedJoinHandle<'_, ()>> = (0..self.session.writers)
                .map(|writer| {
                    let link = Link::new(&self.request.address, (&self.run, self.cut), writer, stopping);
                    let task = self.task(writer, stop);
                    let writer = Writer::new(kernel, link, task, told);
                    scope.spawn(move || writer.run().unwrap_or_else(|error| shared.fail(error)))
                })
                .collect();
            let done = self.wait(watch, &asked, shared);
            shared.ended.store(true, Ordering::Relaxed);
            for writer in writers {
                writer.join().unwrap_or_default();
            }
            done
        });
        if let Some(error) = shared.first_error.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error.into());
        }
        let stop = done?;
        let request = Request::Leave { run: self.run.clone(), cut: self.cut };
        self.request.address.ask(&request, &|| None)?;
        // What cannot be removed stays in the journal, which is undone and told of at the end.
        journal.undo(self.entry, &self.directory).ok();
        Ok(stop)
    }

    fn task<'a>(&self, writer: u32, stop: &'a (dyn Fn() -> bool + Sync)) -> Task<'a> {
        Task {
            root: self.directory.path().to_owned(),
            writer,
            session: session_number(&self.session.id),
            seed: self.session.seed,
            spare_file_system: self.request.place.is_gentle(),
            stop,
        }
    }

    /// Waits for the end, or cuts.
    fn wait(
        &self,
        watch: &dyn Watch,
        asked: &dyn Fn() -> Option<Stop>,
        shared: &Shared,
    ) -> Result<Stop, PulledError> {
        let mut cut = self.request.cut.as_ref().map(|plan| (plan, Deadline::after(plan.after)));
        let mut still_on: Option<Deadline> = None;
        let mut said = Deadline::after(SAID);
        loop {
            if let Some(stop) = asked() {
                return Ok(stop);
            }
            if shared.ended.load(Ordering::Relaxed) {
                // Why is told by whoever ended it.
                return Ok(Stop::TimeLimit);
            }
            if let Some((plan, _)) = cut.take_if(|(_, at)| at.reached()) {
                cut_power(plan, watch)?;
                still_on = Some(Deadline::after(STILL_ON));
            }
            if still_on.is_some_and(Deadline::reached) {
                return Err(PulledError::StillOn { seconds: STILL_ON.as_secs() });
            }
            if said.reached() {
                said = Deadline::after(SAID);
                let acknowledged = shared.acknowledged.load(Ordering::Relaxed);
                watch.event(Event::Note(&format!("{acknowledged} acknowledged, waiting for the cut")));
            }
            sleep(TICK);
        }
    }
}

fn cut_power(plan: &CutPlan, watch: &dyn Watch) -> Result<(), PulledError> {
    let Some((program, arguments)) = plan.command.split_first() else { return Ok(()) };
    watch.event(Event::Note(&format!("now {program} cuts the power")));
    let tool = Tool::new(program).args(arguments).inherit_env().limit(COMMAND_LIMIT);
    tool.run(watch)?.success()?;
    Ok(())
}
