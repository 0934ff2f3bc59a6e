//! A whole run of restores: clusters made, a dump looked through, arms made and conducted. In three steps, so that what
//! will be done can be said before it is: `survey` makes nothing, `enter` makes
//! clusters and, where asked for, one dump for all trials, [`conduct`](Entered::conduct) measures.

mod arm;
mod roles;

use std::cell::RefCell;
use std::path::PathBuf;

use arm::{Bench, RestoreArm};
use roles::{make_roles, missing_roles};

use super::arm::Arm;
use super::cached::Caches;
use super::conduct::{Run, conduct};
use super::head::head;
use super::plan::Plan;
use super::servers::{self, Server, ServersRequest, Source};
use crate::place::{self, Making, Place, PlaceError, Surveyed};
use crate::results::{Document, Input, Kind};
use crate::server::connect::connect;
use crate::server::conninfo::Target;
use crate::server::dump::Contents;
use crate::server::error::ServerError;
use crate::server::restore::{Dump, Programs, RestoreError, dump_once};
use crate::storage::Attached;
use crate::sys::clock;
use crate::sys::journal::Journal;
use crate::sys::run_directory::RunDirectory;
use crate::sys::watch::Watch;

/// What a cluster takes before anything is in it: its files and its first WAL segments.
const CLUSTER_BYTES: u64 = 64 << 20;
/// WAL is kept up to `max_wal_size`; its default.
const WAL_BYTES: u64 = 1 << 30;
/// What a text takes in a database, its indexes included: as much again. An estimate, said as one.
const GROWTH: u64 = 2;

/// What a restore's time depends on most; recorded with every result.
const TELLING: [&str; 9] = [
    "shared_buffers",
    "maintenance_work_mem",
    "max_wal_size",
    "checkpoint_timeout",
    "wal_level",
    "wal_sync_method",
    "synchronous_commit",
    "full_page_writes",
    "fsync",
];

/// What is restored.
#[derive(Clone, Debug)]
pub enum Origin {
    /// A database, dumped for every trial or once.
    From(Box<Target>),
    /// A file or directory of pg_dump.
    Dump(PathBuf),
}

/// What was asked for.
#[derive(Clone, Debug)]
pub struct RestoreRequest {
    /// What is restored.
    pub origin: Origin,
    /// Dump a database once for all trials.
    pub dump_once: bool,
    /// Where it is restored.
    pub servers: ServersRequest,
    /// Sessions of pg_restore.
    pub jobs: usize,
    /// How often, in what order, how long.
    pub plan: Plan,
    /// A second copy of the baseline.
    pub aa: bool,
    /// The command line, passwords redacted.
    pub argv: Vec<String>,
}

/// Why a run did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum RestoreRunError {
    /// A place takes no cluster.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// A dump or a server failed.
    #[error(transparent)]
    Restore(#[from] RestoreError),
}

impl From<ServerError> for RestoreRunError {
    fn from(error: ServerError) -> Self {
        Self::Restore(error.into())
    }
}

/// What was looked at, with nothing made.
pub struct RestoreSurvey {
    request: RestoreRequest,
    places: Surveyed,
    sources: Vec<Source>,
    programs: Vec<Programs>,
    dump: Dump,
    contents: Option<Contents>,
    source_bytes: u64,
}

/// The places, and the document as far as it is known before there is a cluster.
pub struct RestoreRun {
    request: RestoreRequest,
    places: Vec<Place>,
    sources: Vec<Source>,
    /// What loads the dump into each of them.
    programs: Vec<Programs>,
    dump: Dump,
    contents: Option<Contents>,
    /// Of the source: bytes of its database, or of the dump's text.
    source_bytes: u64,
    head: Document,
}

/// Clusters that are ready, and the document with what is known of them.
pub struct Entered<'a> {
    run: &'a RestoreRun,
    servers: Vec<RefCell<Server<'a>>>,
    caches: Vec<Caches<'a, Attached>>,
    /// What loads the dump into each of them.
    programs: Vec<Programs>,
    /// The one dump of a database that was asked for.
    dumped: Option<(Dump, Option<Contents>)>,
    head: Document,
}

impl RestoreSurvey {
    /// Looks at every place, every build and at the dump.
    pub fn new(request: RestoreRequest, watch: &dyn Watch) -> Result<Self, RestoreRunError> {
        request.servers.check()?;
        let places = Surveyed::new(&request.servers.places())?;
        let sources = Source::all(&request.servers, watch)?;
        let mut dump = match &request.origin {
            Origin::From(target) => Dump::Database(Box::new(connect(target)?)),
            Origin::Dump(path) => Dump::at(path)?,
        };
        let is_text =
            matches!(dump, Dump::Plain { .. }) || (matches!(dump, Dump::Database(_)) && !request.dump_once);
        if request.jobs > 1 && is_text {
            return Err(RestoreError::NotParallel.into());
        }
        let mut contents = None;
        let mut programs = Vec::new();
        for source in &sources {
            let (clients, server) = source.clients()?;
            programs.push(dump.programs(&clients, server, watch)?);
            if contents.is_none() {
                contents = dump.survey(&clients, watch)?;
            }
            let plain = contents.as_ref().filter(|_| matches!(dump, Dump::Plain { .. }));
            if let (Some(mut session), Some(contents)) = (source.look(&request.servers)?, plain) {
                let roles = missing_roles(&mut session, contents)?;
                if !roles.is_empty() {
                    return Err(RestoreError::NoRoles { roles }.into());
                }
            }
        }
        let source_bytes = match (&mut dump, &contents) {
            (Dump::Database(session), _) => session
                .value("SELECT pg_catalog.pg_database_size(pg_catalog.current_database())")?
                .parse()
                .unwrap_or(0),
            (_, contents) => contents.as_ref().map_or(0, |contents| contents.bytes),
        };
        Ok(Self { request, places, sources, programs, dump, contents, source_bytes })
    }

    /// What decides the order of the rounds, and the drives.
    pub fn seed(&self) -> u64 {
        self.request.plan.seed
    }

    /// Makes the simulated drives among the places.
    pub fn make(self, making: &Making<'_>) -> Result<RestoreRun, PlaceError> {
        let Self { request, places, sources, programs, dump, contents, source_bytes } = self;
        let places = places.make(making)?;
        let mut head = head(Kind::Restore, &request.argv, &places);
        head.input = Some(Input {
            template: format!("{} ({})", dump.name(), dump.form()),
            files: contents.as_ref().map_or(0, |contents| contents.tables.len() as u64),
            directories: 0,
            bytes: source_bytes,
            allocated_bytes: None,
        });
        Ok(RestoreRun { request, places, sources, programs, dump, contents, source_bytes, head })
    }
}

impl RestoreRun {
    /// Takes the simulated drives apart; nothing is left on them by then.
    pub fn close(self, journal: &Journal) -> Result<(), PlaceError> {
        place::close(self.places, journal)
    }

    /// Data, indexes and WAL of one restore, and every cluster of the place; with one dump for all, that too.
    fn needed_bytes(&self, place: usize) -> u64 {
        let data_bytes = match self.dump {
            Dump::Database(_) => self.source_bytes,
            _ => self.source_bytes * GROWTH,
        };
        let dump_bytes = if self.request.dump_once && place == 0 { self.source_bytes } else { 0 };
        let clusters = self.sources.iter().filter(|source| source.place() == Some(place)).count() as u64;
        let wal_bytes = data_bytes.min(WAL_BYTES);
        match &self.request.servers.wal_into {
            Some(_) if place == self.request.servers.scratch.len() => wal_bytes + CLUSTER_BYTES,
            Some(_) => data_bytes + dump_bytes + clusters * CLUSTER_BYTES,
            None => data_bytes + wal_bytes + dump_bytes + clusters * CLUSTER_BYTES,
        }
    }

    fn check_room(&self) -> Result<(), RestoreRunError> {
        for (index, place) in self.places.iter().enumerate() {
            let needed_bytes = self.needed_bytes(index);
            place.make_room_for(needed_bytes)?;
            let free_bytes = place.space()?.available_bytes;
            if free_bytes < needed_bytes {
                let path = place.directory().to_path_buf();
                return Err(RestoreError::NoRoom { path, free_bytes, needed_bytes }.into());
            }
        }
        Ok(())
    }

    /// How many trials there will be.
    pub fn trials(&self) -> u64 {
        let ways = self.sources.iter().map(|source| self.request.servers.ways_at(source.place()));
        let arms = ways.sum::<usize>() + usize::from(self.request.aa);
        arms as u64 * u64::from(self.request.plan.all_rounds())
    }

    /// What will be made and what it costs, a sentence each.
    pub fn intents(&self) -> Vec<String> {
        let mut intents: Vec<String> =
            self.sources.iter().filter_map(|source| source.intent(&self.request.servers)).collect();
        if let Dump::Database(session) = &self.dump {
            let times = if self.request.dump_once { 1 } else { self.trials() };
            intents.push(format!(
                "will dump database \"{}\" of the server {} {times} times: it is only read",
                session.database,
                session.place()
            ));
        }
        for (index, place) in self.places.iter().enumerate() {
            // A survey has just read it; where it cannot be read any more the run will tell.
            let free_bytes = place.space().map_or(0, |space| space.available_bytes);
            intents.push(format!(
                "{}: {} MB free, about {} MB needed at the peak",
                place.asked(),
                free_bytes >> 20,
                self.needed_bytes(index) >> 20
            ));
        }
        intents
    }

    /// Makes the clusters, and the one dump, where there is room for them. What is made is journalled; who ends the run
    /// undoes it.
    pub fn enter<'a>(
        &'a self,
        journal: &'a Journal,
        watch: &dyn Watch,
    ) -> Result<Entered<'a>, RestoreRunError> {
        self.check_room()?;
        let caches = self.request.servers.caches(&self.places, journal);
        let dumped = if self.request.dump_once { self.dumped(journal, watch)? } else { None };
        let (dump, contents) = match &dumped {
            Some((dump, contents)) => (dump, contents),
            None => (&self.dump, &self.contents),
        };
        let mut head = self.head.clone();
        let mut servers = Vec::new();
        let mut loading = Vec::new();
        for (source, programs) in self.sources.iter().zip(&self.programs) {
            // A database that was dumped once is text or an archive by now, which another program may load.
            let programs = match &dumped {
                Some((dump, _)) => {
                    let (clients, server) = source.clients()?;
                    dump.programs(&clients, server, watch)?
                }
                None => programs.clone(),
            };
            let mut server = place::at_full_speed(&self.places, || {
                let server = Server::ready(source, &self.request.servers, &self.places, journal, watch);
                Ok::<_, RestoreRunError>(server?)
            })?;
            if let (Dump::Plain { .. }, Some(contents)) = (dump, contents) {
                make_roles(&mut server, contents)?;
            }
            head.servers.push(server.record(&TELLING)?);
            head.notes
                .extend(server.notes("the last CHECKPOINT needs the right to it: its cost is missing")?);
            servers.push(RefCell::new(server));
            loading.push(programs);
        }
        Ok(Entered { run: self, servers, caches, programs: loading, dumped, head })
    }

    /// Dumps a database into a directory of ours at the first place.
    fn dumped(
        &self,
        journal: &Journal,
        watch: &dyn Watch,
    ) -> Result<Option<(Dump, Option<Contents>)>, RestoreRunError> {
        let (Dump::Database(source), Some(place), Some(first)) =
            (&self.dump, self.places.first(), self.sources.first())
        else {
            return Ok(None);
        };
        let (clients, _) = first.clients()?;
        let (run, _) =
            RunDirectory::make(place.directory(), &["dump"], journal).map_err(RestoreError::Sys)?;
        let target = run.path().join("dump");
        dump_once(source, &target, &clients, self.request.jobs, watch)?;
        let dump = Dump::at(&target)?;
        let contents = dump.survey(&clients, watch)?;
        Ok(Some((dump, contents)))
    }
}

impl Entered<'_> {
    /// The document without arms.
    pub fn head(&self) -> &Document {
        &self.head
    }

    /// What the run costs servers that are not ours, a sentence each.
    pub fn costs(&self) -> Result<Vec<String>, RestoreRunError> {
        let settings = self.run.request.servers.varied_names();
        let each = self.run.trials() / self.servers.len().max(1) as u64;
        let mut costs = Vec::new();
        for server in self.servers.iter().filter(|server| !server.borrow().is_ours()) {
            let server = &mut *server.borrow_mut();
            let followers = server.followers(&settings)?;
            costs.push(format!(
                "{}: {each} restores into a database of ours, dropped after each; each ends in a checkpoint of the whole \
                 cluster and writes all rows and indexes into the WAL; {followers}",
                server.name
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
        let RestoreRun { request, places, .. } = self.run;
        let (dump, contents) = match &self.dumped {
            Some((dump, contents)) => (dump, contents.as_ref()),
            None => (&self.run.dump, self.run.contents.as_ref()),
        };
        let bench = Bench { watch, places, dump, contents, jobs: request.jobs };
        let mut arms: Vec<Box<dyn Arm + '_>> = Vec::new();
        for (server, programs) in self.servers.iter().zip(&self.programs) {
            let place = server.borrow().place;
            for (state, settings) in request.servers.ways(place, &self.caches) {
                let arm = || RestoreArm::new(&bench, server, programs, &settings);
                servers::add(&mut arms, state, request.aa, arm, RestoreArm::into_control);
            }
        }
        let run = Run { plan: &request.plan, watch, now_ns: &clock::now_ns, longer: "--time-limit" };
        conduct(&run, self.head.clone(), &mut arms, keep)
    }
}
