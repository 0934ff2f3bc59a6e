//! One arm: pgbench on a server under settings.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::lab::arm::{AA, Arm, CONTROL, Halt, Trial};
use crate::lab::servers::{Server, add_note, counted, halt, settle};
use crate::place::Place;
use crate::results::{Benched, Labels, Note, NoteCode, Promise, Refused, Sample};
use crate::server::error::ServerError;
use crate::server::pgbench::{self, Workload, latencies, wait_until_left, wal_syncs};
use crate::server::settings::Setting;
use crate::stats::{self, Percentiles};
use crate::sys::watch::{Event, Phase, Watch};

/// What decides whether a commit waits for the disk.
const WAITING: [&str; 3] = ["fsync", "synchronous_commit", "wal_sync_method"];
/// The name of a commit's latency.
const TRANSACTION: &str = "transaction";

/// What all arms of a run have in common.
pub(super) struct Bench<'a> {
    pub(super) watch: &'a dyn Watch,
    pub(super) places: &'a [Place],
    pub(super) workload: &'a Workload,
    /// Where pgbench writes its log.
    pub(super) log: &'a Path,
}

pub(super) struct PgbenchArm<'a, 's> {
    bench: &'a Bench<'a>,
    server: &'a RefCell<Server<'s>>,
    program: &'a Path,
    settings: Vec<Setting>,
    labels: Labels,
    latency_ns: Histogram<u64>,
    notes: Vec<Note>,
}

impl<'a, 's> PgbenchArm<'a, 's> {
    pub(super) fn new(
        bench: &'a Bench<'a>,
        server: &'a RefCell<Server<'s>>,
        program: &'a Path,
        settings: &[Setting],
    ) -> Self {
        let labels = Labels::new().with("server", server.borrow().name.clone());
        let labels =
            settings.iter().fold(labels, |labels, setting| labels.with(&setting.name, setting.value.clone()));
        Self {
            bench,
            server,
            program,
            settings: settings.to_vec(),
            labels,
            latency_ns: latencies(),
            notes: Vec::new(),
        }
    }

    /// The same arm as the baseline's second copy.
    pub(super) fn into_control(self) -> Self {
        Self { labels: self.labels.with(CONTROL, AA), ..self }
    }

    /// The places of data and WAL.
    fn places(&self) -> [Option<&'a Place>; 2] {
        let server = self.server.borrow();
        [server.place, server.wal_place].map(|index| index.map(|index| &self.bench.places[index]))
    }

    fn measure(&mut self, trial: &Trial) -> Result<(pgbench::Run, Benched), ServerError> {
        let Bench { watch, workload, log, .. } = *self.bench;
        let server = &mut *self.server.borrow_mut();
        let name = server.names.name(0);
        let in_force = server.in_force(&WAITING)?;
        let (position, syncs) = (server.wal_position()?, wal_syncs(&mut server.session, &server.features)?);
        let seed = (server.features.version_num >= 110_000).then_some(trial.seed);
        let run = pgbench::run(self.program, &server.session, &name, workload, seed, log, watch)?;
        wait_until_left(&mut server.session, &name)?;
        let after = wal_syncs(&mut server.session, &server.features)?;
        let benched = Benched {
            tps: run.tps,
            failed_transactions: run.failed,
            client_user_ns: run.usage.user_ns,
            client_sys_ns: run.usage.sys_ns,
            wal_written_bytes: server.wal_since(&position)?,
            wal_syncs: syncs.zip(after).map(|(before, after)| after.saturating_sub(before)),
            in_force,
        };
        Ok((run, benched))
    }
}

impl Arm for PgbenchArm<'_, '_> {
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
        {
            let server = &mut *self.server.borrow_mut();
            let prepared =
                server.begin(&self.settings, self.bench.watch).map_err(|error| server.explained(error));
            prepared.map_err(|error| halt(&error))?;
        }
        for place in self.places() {
            if let Some(note) = settle(place, self.bench.watch)? {
                add_note(&mut self.notes, note);
            }
        }
        Ok(())
    }

    fn run(&mut self, trial: &Trial) -> Result<Sample, Halt> {
        self.bench.watch.event(Event::Phase(Phase::Running));
        let places = self.places();
        let before = places.map(|place| place.and_then(Place::counters));
        let measured = self.measure(trial);
        let [device, wal_device] = counted(places, before);
        let measured = measured.map_err(|error| self.server.borrow_mut().explained(error));
        let (run, benched) = measured.map_err(|error| halt(&error))?;
        if !trial.ignored {
            self.latency_ns += &run.latency_ns;
        }
        if benched.failed_transactions > 0 {
            let text = format!("{} transactions failed and are in no figure", benched.failed_transactions);
            add_note(&mut self.notes, Note::warning(NoteCode::ErrorsIgnored, text));
        }
        // A rate of nothing has no time: such a sample is discarded.
        let elapsed = Duration::try_from_secs_f64(run.transactions as f64 / run.tps).unwrap_or_default();
        Ok(Sample {
            elapsed_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
            operations: Some(run.transactions),
            device,
            wal_device,
            benched: Some(benched),
            ..trial.sample()
        })
    }

    fn check(&mut self, _trial: &Trial) -> Result<(), Halt> {
        Ok(())
    }

    fn clear(&mut self, _trial: &Trial) -> Result<(), Halt> {
        // The tables are those of all trials.
        Ok(())
    }

    fn latency(&self) -> BTreeMap<String, Percentiles> {
        let percentiles = stats::percentiles(&self.latency_ns);
        percentiles.map(|percentiles| (TRANSACTION.to_owned(), percentiles)).into_iter().collect()
    }

    fn notes(&self) -> Vec<Note> {
        self.notes.clone()
    }
}
