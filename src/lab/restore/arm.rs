//! One arm: a dump restored on a server under settings.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::lab::arm::{AA, Arm, CONTROL, Halt, Trial};
use crate::lab::servers::{Server, add_note, counted, failed, settle, timed};
use crate::place::Place;
use crate::results::{Labels, Note, NoteCode, Phases, Promise, Refused, Restored, Sample};
use crate::server::cluster::Cluster;
use crate::server::dump::Contents;
use crate::server::error::ServerError;
use crate::server::restore::{Dump, Load, Loaded, Programs, RestoreError, check_rows};
use crate::server::segments;
use crate::server::settings::Setting;
use crate::server::sql::literal;
use crate::stats::Percentiles;
use crate::sys::clock::now_ns;
use crate::sys::watch::{Event, Phase, Watch};

/// What all arms of a run have in common.
pub(super) struct Bench<'a> {
    pub(super) watch: &'a dyn Watch,
    pub(super) places: &'a [Place],
    pub(super) dump: &'a Dump,
    /// Known before of all but a database that is dumped for every trial.
    pub(super) contents: Option<&'a Contents>,
    pub(super) jobs: usize,
}

pub(super) struct RestoreArm<'a, 's> {
    bench: &'a Bench<'a>,
    server: &'a RefCell<Server<'s>>,
    programs: &'a Programs,
    settings: Vec<Setting>,
    labels: Labels,
    /// What the last trial loaded, to be found again in its tables.
    loaded: Option<Contents>,
    errors_ignored: u64,
    notes: Vec<Note>,
}

impl<'a, 's> RestoreArm<'a, 's> {
    pub(super) fn new(
        bench: &'a Bench<'a>,
        server: &'a RefCell<Server<'s>>,
        programs: &'a Programs,
        settings: &[Setting],
    ) -> Self {
        let labels = Labels::new().with("server", server.borrow().name.clone());
        let labels =
            settings.iter().fold(labels, |labels, setting| labels.with(&setting.name, setting.value.clone()));
        Self {
            bench,
            server,
            programs,
            settings: settings.to_vec(),
            labels,
            loaded: None,
            errors_ignored: 0,
            notes: Vec::new(),
        }
    }

    /// The same arm as the baseline's second copy.
    pub(super) fn into_control(self) -> Self {
        Self { labels: self.labels.with(CONTROL, AA), ..self }
    }

    fn place(&self) -> Option<&'a Place> {
        self.server.borrow().place.map(|index| &self.bench.places[index])
    }

    fn wal_place(&self) -> Option<&'a Place> {
        self.server.borrow().wal_place.map(|index| &self.bench.places[index])
    }

    /// CREATE DATABASE, the load, ANALYZE and the CHECKPOINT that pays for all of it, each on the clock; what is asked
    /// between them is not.
    fn measure(&mut self) -> Result<(Phases, Restored), RestoreError> {
        let Bench { watch, dump, contents, jobs, .. } = *self.bench;
        let server = &mut *self.server.borrow_mut();
        let name = server.names.name(0);
        let (position, checkpoints) = (server.wal_position()?, server.checkpoints()?);
        let segments = Segments::now(server)?;
        let mut phases = Phases::new();
        server.announce()?;
        phases.insert("create_database_ns".to_owned(), timed(|| server.create())?);
        server.names.mark(&mut server.session, &name)?;
        let total_bytes = contents.map_or(0, |contents| contents.bytes);
        let load = Load { dump, contents, programs: self.programs, jobs, total_bytes };
        let began_ns = now_ns();
        let loaded = load.run(&mut server.session, &name, watch)?;
        let load_ns = now_ns() - began_ns;
        let mut parts = loaded.seen.phases(load_ns);
        let seen_ns: u64 = parts.values().sum();
        *parts.entry("schema_ns".to_owned()).or_default() += load_ns - seen_ns.min(load_ns);
        phases.extend(parts);
        let commits = server.session.value(&format!(
            "SELECT xact_commit FROM pg_catalog.pg_stat_database WHERE datname = {}",
            literal(&name)
        ))?;
        let mut inside = server.session.another(&name)?;
        go_on(watch)?;
        phases.insert("analyze_ns".to_owned(), timed(|| inside.run("ANALYZE"))?);
        go_on(watch)?;
        let begun = server.checkpoints()?.saturating_sub(checkpoints);
        let may_checkpoint = server.features.may_checkpoint;
        if may_checkpoint {
            phases.insert("checkpoint_ns".to_owned(), timed(|| server.session.run("CHECKPOINT"))?);
        }
        let restored = Restored {
            wal_bytes: server.wal_since(&position)?,
            // The last one is over, but may not be counted yet.
            checkpoints: begun + u64::from(may_checkpoint),
            commits: commits.parse().unwrap_or(0),
            ..restored(&loaded)
        };
        let restored = segments.counted(server, restored)?;
        go_on(watch)?;
        self.errors_ignored = loaded.errors_ignored;
        self.loaded = Some(loaded.contents);
        Ok((phases, restored))
    }

    fn halt(&self, error: RestoreError) -> Halt {
        if matches!(error, RestoreError::Server(ServerError::Stopped(_))) {
            return Halt::Stopped;
        }
        let error = match error {
            RestoreError::Server(error) => self.server.borrow_mut().explained(error).into(),
            RestoreError::Sys(error) => match self.server.borrow_mut().explained(error.into()) {
                ServerError::Sys(error) => RestoreError::Sys(error),
                error => error.into(),
            },
            other => other,
        };
        failed(&error, error.hint().as_deref())
    }
}

/// A statement is not interrupted; after it, the run may be told to stop.
fn go_on(watch: &dyn Watch) -> Result<(), ServerError> {
    watch.stop().map_or(Ok(()), |stop| Err(ServerError::Stopped(stop)))
}

/// Where the WAL's segments and, of a cluster of ours, its log stood.
struct Segments {
    highest: Option<u64>,
    log_bytes: Option<u64>,
}

impl Segments {
    fn now(server: &mut Server<'_>) -> Result<Self, ServerError> {
        let log = server.cluster.as_ref().map(Cluster::log);
        Ok(Self {
            highest: segments::highest(&mut server.session, &server.features)?,
            log_bytes: log.map(|log| segments::log_bytes(&log)).transpose()?,
        })
    }

    /// What was restored, with the segments that came since.
    fn counted(self, server: &mut Server<'_>, restored: Restored) -> Result<Restored, ServerError> {
        let highest = segments::highest(&mut server.session, &server.features)?;
        let log = server.cluster.as_ref().map(Cluster::log).zip(self.log_bytes);
        Ok(Restored {
            wal_segments: highest.zip(self.highest).map(|(after, before)| after.saturating_sub(before)),
            wal_segments_recycled: log
                .map(|(log, bytes)| segments::recycled_since(&log, bytes))
                .transpose()?,
            ..restored
        })
    }
}

fn restored(loaded: &Loaded) -> Restored {
    let (slowest_index, slowest_index_ns) = loaded.seen.slowest_index().unzip();
    Restored {
        user_ns: loaded.usage.user_ns,
        sys_ns: loaded.usage.sys_ns,
        bytes: loaded.contents.bytes,
        tables: loaded.contents.tables.len() as u64,
        rows: loaded.contents.rows(),
        errors_ignored: loaded.errors_ignored,
        slowest_index,
        slowest_index_ns,
        waits_ns: loaded.seen.waits_ns(),
        ..Restored::default()
    }
}

impl Arm for RestoreArm<'_, '_> {
    fn labels(&self) -> Labels {
        self.labels.clone()
    }

    fn promise(&self) -> Option<Promise> {
        None
    }

    fn refused(&self) -> Option<Refused> {
        None
    }

    fn prepare(&mut self, _trial: &Trial) -> Result<(), Halt> {
        let prepared = self.server.borrow_mut().begin(&self.settings, self.bench.watch);
        prepared.map_err(|error| self.halt(error.into()))?;
        for place in [self.place(), self.wal_place()] {
            if let Some(note) = settle(place, self.bench.watch)? {
                add_note(&mut self.notes, note);
            }
        }
        Ok(())
    }

    fn run(&mut self, trial: &Trial) -> Result<Sample, Halt> {
        self.bench.watch.event(Event::Phase(Phase::Running));
        let places = [self.place(), self.wal_place()];
        let before = places.map(|place| place.and_then(Place::counters));
        let measured = self.measure();
        let (phases, restored) = measured.map_err(|error| self.halt(error))?;
        let [device, wal_device] = counted(places, before);
        if restored.errors_ignored > 0 {
            let text = format!(
                "errors ignored on restore: {}; rows were not verified, and the time is that of what was restored",
                restored.errors_ignored
            );
            add_note(&mut self.notes, Note::warning(NoteCode::ErrorsIgnored, text));
        }
        Ok(Sample {
            elapsed_ns: phases.values().sum(),
            phases,
            device,
            wal_device,
            restored: Some(restored),
            ..trial.sample()
        })
    }

    fn check(&mut self, _trial: &Trial) -> Result<(), Halt> {
        let Some(contents) = self.loaded.take().filter(|_| self.errors_ignored == 0) else { return Ok(()) };
        self.bench.watch.event(Event::Phase(Phase::Verifying));
        let checked = {
            let server = self.server.borrow();
            let inside = server.session.another(&server.names.name(0));
            inside.map_err(RestoreError::from).and_then(|mut inside| check_rows(&mut inside, &contents))
        };
        checked.map_err(|error| self.halt(error))
    }

    fn clear(&mut self, _trial: &Trial) -> Result<(), Halt> {
        self.bench.watch.event(Event::Phase(Phase::Removing));
        let cleared = self.server.borrow_mut().drop_database();
        cleared.map_err(|error| self.halt(error.into()))
    }

    fn latency(&self) -> BTreeMap<String, Percentiles> {
        BTreeMap::new()
    }

    fn notes(&self) -> Vec<Note> {
        self.notes.clone()
    }
}
