//! A whole run of pgbench: clusters made, tables filled, the places of their WAL probed, arms made and conducted. In steps,
//! so that what will be done can be said before it is: a [`PgbenchSurvey`] makes nothing, [`make`](PgbenchSurvey::make)
//! makes simulated drives, [`enter`](PgbenchRun::enter) clusters, [`furnish`](Entered::furnish) tables, [`conduct`](Entered::conduct) measures.

mod arm;
mod plausible;
mod wal;

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use arm::{Bench, PgbenchArm};

use super::arm::Arm;
use super::cached::Caches;
use super::conduct::{Run, conduct};
use super::head::head;
use super::plan::Plan;
use super::servers::{self, Server, ServersError, ServersRequest, Source};
use crate::place::{self, Making, Place, PlaceError, Surveyed};
use crate::results::{Document, Input, Kind, Note, NoteCode};
use crate::server::error::ServerError;
use crate::server::pgbench::{self, Length, Workload};
use crate::storage::Attached;
use crate::sys::clock;
use crate::sys::journal::Journal;
use crate::sys::run_directory::RunDirectory;
use crate::sys::watch::{Event, Phase, Watch};

/// What a table of scale 1 and its index take, in bytes: 157 MiB at scale 10.
const SCALE_BYTES: u64 = 16 << 20;

/// What a commit's time depends on most; recorded with every server.
const TELLING: [&str; 8] = [
    "shared_buffers",
    "max_wal_size",
    "wal_level",
    "wal_sync_method",
    "synchronous_commit",
    "commit_delay",
    "full_page_writes",
    "fsync",
];

/// The first pgbench with `--random-seed`.
const SEEDED: u32 = 11;

const WITHOUT_CHECKPOINT: &str = "no CHECKPOINT before a trial: it pays for what was written before";

/// What was asked for.
#[derive(Clone, Debug)]
pub struct PgbenchRequest {
    /// Where it runs.
    pub servers: ServersRequest,
    /// What runs.
    pub workload: Workload,
    /// How often, in what order, how long.
    pub plan: Plan,
    /// A second copy of the baseline.
    pub aa: bool,
    /// The command line, passwords redacted.
    pub argv: Vec<String>,
}

/// What was looked at, with nothing made.
pub struct PgbenchSurvey {
    request: PgbenchRequest,
    places: Surveyed,
    sources: Vec<Source>,
    /// pgbench for each of them.
    programs: Vec<PathBuf>,
}

/// The places, and the document as far as it is known before there is a server.
pub struct PgbenchRun {
    request: PgbenchRequest,
    places: Vec<Place>,
    sources: Vec<Source>,
    programs: Vec<PathBuf>,
    head: Document,
}

/// Servers that are ready, and the document with what is known of them.
pub struct Entered<'a> {
    run: &'a PgbenchRun,
    servers: Vec<RefCell<Server<'a>>>,
    caches: Vec<Caches<'a, Attached>>,
    journal: &'a Journal,
    /// Where pgbench writes its log.
    log: PathBuf,
    head: Document,
}

impl PgbenchSurvey {
    /// Looks at every place, every build and every server.
    pub fn new(request: PgbenchRequest, watch: &dyn Watch) -> Result<Self, ServersError> {
        request.servers.check()?;
        let places = Surveyed::new(&request.servers.places())?;
        let sources = Source::all(&request.servers, watch)?;
        let mut programs = Vec::new();
        for source in &sources {
            let (clients, server) = source.clients()?;
            // An older one does as well, from the version on that takes a seed.
            programs.push(clients.find("pgbench", server.min(SEEDED), watch)?);
            source.look(&request.servers)?;
        }
        Ok(Self { request, places, sources, programs })
    }

    /// What will be made, a sentence each.
    pub fn intents(&self) -> Vec<String> {
        self.sources.iter().filter_map(|source| source.intent(&self.request.servers)).collect()
    }

    /// What decides the order of the rounds, the rows that transactions take, and the drives.
    pub fn seed(&self) -> u64 {
        self.request.plan.seed
    }

    /// Makes the simulated drives among the places.
    pub fn make(self, making: &Making<'_>) -> Result<PgbenchRun, PlaceError> {
        let Self { request, places, sources, programs } = self;
        let places = places.make(making)?;
        let mut head = head(Kind::Pgbench, &request.argv, &places);
        let Workload { scale, clients, .. } = request.workload;
        head.input = Some(Input {
            template: format!("pgbench {}, -s {scale}", request.workload.options().join(" ")),
            files: 0,
            directories: 0,
            bytes: u64::from(scale) * SCALE_BYTES,
            allocated_bytes: None,
        });
        if scale < clients {
            let text = format!(
                "{clients} clients update {scale} rows of pgbench_branches: they wait for each other, and few commits share a \
                 sync; -s {clients} or more is what pgbench advises"
            );
            head.notes.push(Note::warning(NoteCode::Contended, text));
        }
        Ok(PgbenchRun { request, places, sources, programs, head })
    }
}

impl PgbenchRun {
    /// Takes the simulated drives apart; nothing is left on them by then.
    pub fn close(self, journal: &Journal) -> Result<(), PlaceError> {
        place::close(self.places, journal)
    }

    /// Makes the clusters, reaches the servers. What is made is journalled; who ends the run undoes it.
    pub fn enter<'a>(&'a self, journal: &'a Journal, watch: &dyn Watch) -> Result<Entered<'a>, ServersError> {
        for place in &self.places {
            place.make_room_for(2 * SCALE_BYTES * u64::from(self.request.workload.scale))?;
        }
        let caches = self.request.servers.caches(&self.places, journal);
        let servers = place::at_full_speed(&self.places, || {
            let ready = |source| Server::ready(source, &self.request.servers, &self.places, journal, watch);
            self.sources
                .iter()
                .map(|source| Ok(RefCell::new(ready(source)?)))
                .collect::<Result<_, ServersError>>()
        })?;
        Ok(Entered { run: self, servers, caches, journal, log: PathBuf::new(), head: self.head.clone() })
    }

    /// Runs of pgbench on each server.
    fn runs_each(&self) -> u64 {
        u64::from(self.request.plan.all_rounds()) * self.request.servers.ways_at(None) as u64
    }
}

impl Entered<'_> {
    /// Makes databases and tables, and probes the places of the WAL.
    pub fn furnish(&mut self, watch: &dyn Watch) -> Result<(), ServersError> {
        let PgbenchRun { request, places, programs, .. } = self.run;
        watch.event(Event::Phase(Phase::Making));
        place::at_full_speed(places, || {
            for (server, program) in self.servers.iter_mut().zip(programs) {
                let server = server.get_mut();
                let name = server.names.name(0);
                server.announce()?;
                server.create()?;
                server.names.mark(&mut server.session, &name)?;
                pgbench::initialise(program, &server.session, &name, request.workload.scale, watch)?;
            }
            Ok::<_, ServersError>(())
        })?;
        for server in &mut self.servers {
            let server = server.get_mut();
            self.head.servers.push(server.record(&TELLING)?);
            self.head.notes.extend(server.notes(WITHOUT_CHECKPOINT)?);
            match wal::place(server, places, request.plan.seed, self.journal, watch)? {
                Ok(place) => self.head.wal_places.push(place),
                Err(why) => self.head.notes.push(Note::info(NoteCode::NotMeasured, why)),
            }
        }
        let made = RunDirectory::make(&std::env::temp_dir(), &["log"], self.journal);
        self.log = made.map_err(ServerError::from)?.0.path().join("log");
        let failed = |source| ServerError::File { deed: "create directory", path: self.log.clone(), source };
        Ok(fs::create_dir(&self.log).map_err(failed)?)
    }

    /// The document without arms.
    pub fn head(&self) -> &Document {
        &self.head
    }

    /// What the run costs servers that are not ours, a sentence each.
    pub fn costs(&self) -> Result<Vec<String>, ServersError> {
        let PgbenchRequest { servers: asked, workload, .. } = &self.run.request;
        let long = match workload.length {
            Length::Seconds(seconds) => format!("{seconds} s"),
            Length::Transactions(each) => format!("{each} transactions of each client"),
        };
        let mut costs = Vec::new();
        for server in self.servers.iter().filter(|server| !server.borrow().is_ours()) {
            let server = &mut *server.borrow_mut();
            let followers = server.followers(&asked.varied_names())?;
            costs.push(format!(
                "{}: {} runs of {long} with {} clients in a database of ours of about {} MB, dropped at the end; all that \
                 they write goes through the WAL; before, a file of 16 MB is synced beside that for {} s; {followers}",
                server.name,
                self.run.runs_each(),
                workload.clients,
                (u64::from(workload.scale) * SCALE_BYTES) >> 20,
                wal::SECONDS,
            ));
        }
        Ok(costs)
    }

    /// Runs all rounds.
    pub fn conduct<E>(
        &self,
        watch: &dyn Watch,
        keep: &mut dyn FnMut(&Document) -> Result<(), E>,
    ) -> Result<Document, E> {
        let PgbenchRun { request, places, programs, .. } = self.run;
        let bench = Bench { watch, places, workload: &request.workload, log: &self.log };
        let mut arms: Vec<Box<dyn Arm + '_>> = Vec::new();
        for (server, program) in self.servers.iter().zip(programs) {
            let place = server.borrow().place;
            for (state, settings) in request.servers.ways(place, &self.caches) {
                let arm = || PgbenchArm::new(&bench, server, program, &settings);
                servers::add(&mut arms, state, request.aa, arm, PgbenchArm::into_control);
            }
        }
        let run = Run { plan: &request.plan, watch, now_ns: &clock::now_ns, longer: "--time-limit" };
        let clients = request.workload.clients;
        let judged = |document: &Document| plausible::judged(document, clients);
        let document = conduct(&run, self.head.clone(), &mut arms, &mut |document| keep(&judged(document)))?;
        Ok(judged(&document))
    }
}
