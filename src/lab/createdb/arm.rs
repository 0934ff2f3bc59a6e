//! One arm: a strategy on a server under settings.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use super::stage::Stage;
use crate::lab::arm::{AA, Arm, CONTROL, Halt, Trial};
use crate::lab::servers::{Server, add_note, counted as counters_of, halt, settle};
use crate::place::Place;
use crate::results::{Databases, Labels, Note, NoteCode, Promise, Refused, Sample};
use crate::server::createdb::Strategy;
use crate::server::createdb::calls::counted;
use crate::server::createdb::database::drop_ours;
use crate::server::createdb::template;
use crate::server::createdb::trial::{self, Measured, Subject, Work};
use crate::server::error::ServerError;
use crate::server::settings::Setting;
use crate::stats::Percentiles;
use crate::sys::watch::{Event, Phase, Watch};

/// What all arms of a run have in common.
pub(super) struct Bench<'a> {
    pub(super) watch: &'a dyn Watch,
    pub(super) places: &'a [Place],
    pub(super) creates: usize,
    pub(super) wait: Duration,
}

pub(super) struct CreatedbArm<'a, 's> {
    pub(super) bench: &'a Bench<'a>,
    pub(super) stage: &'a RefCell<Stage<'s>>,
    pub(super) strategy: Strategy,
    pub(super) settings: Vec<Setting>,
    pub(super) jobs: usize,
    labels: Labels,
    refused: Option<Refused>,
    /// Of the backend in one CREATE; counted before the first trial.
    calls: Option<BTreeMap<String, u64>>,
    notes: Vec<Note>,
}

impl<'a, 's> CreatedbArm<'a, 's> {
    pub(super) fn new(
        bench: &'a Bench<'a>,
        stage: &'a RefCell<Stage<'s>>,
        strategy: Strategy,
        settings: &[Setting],
        jobs: (usize, bool),
    ) -> Self {
        let labels = Labels::new()
            .with("strategy", strategy.name())
            .with("server", stage.borrow().server.name.clone());
        let labels =
            settings.iter().fold(labels, |labels, setting| labels.with(&setting.name, setting.value.clone()));
        let (jobs, several) = jobs;
        let refused = strategy
            .missing(&stage.borrow().server.features)
            .map(|text| Refused { code: "no-such-strategy".to_owned(), text: text.to_owned() });
        let clones = settings.iter().any(|setting| setting.name == "file_copy_method");
        let no_effect = format!(
            "file_copy_method changes nothing for {strategy}: this arm sets it itself or does not use it"
        );
        let notes = clones.then(|| Note::info(NoteCode::NoEffect, no_effect)).into_iter().collect();
        Self {
            labels: if several { labels.with("jobs", jobs.to_string()) } else { labels },
            bench,
            stage,
            strategy,
            settings: settings.to_vec(),
            jobs,
            refused,
            calls: None,
            notes,
        }
    }

    /// The same arm as the baseline's second copy.
    pub(super) fn into_control(mut self) -> Self {
        self.labels = self.labels.with(CONTROL, AA);
        self
    }

    /// The calls of one CREATE and what it copied, once; neither is timed.
    fn look_once(&mut self) -> Result<(), Halt> {
        if self.calls.is_some() {
            return Ok(());
        }
        let mut stage = self.stage.borrow_mut();
        let Stage { server, template, live, copied, .. } = &mut *stage;
        let Server { session, features, names, cluster, .. } = server;
        let (strategy, watch) = (self.strategy, self.bench.watch);
        let subject = Subject { features, strategy, template, names, live: live.as_ref(), watch };
        let name = names.name(0);
        let entries = subject.announce(std::slice::from_ref(&name)).map_err(|error| halt(&error))?;
        subject.prepare(session).map_err(|error| halt(&error))?;
        let sql = subject.create(&name);
        let backend =
            session.value("SELECT pg_backend_pid()").map_err(|error| halt(&error))?.parse().unwrap_or(0);
        let mut not_counted = None;
        let made = match cluster {
            Some(cluster) => match counted(backend, cluster.run_directory(), watch, || session.run(&sql)) {
                Ok(((), calls)) => Ok(calls),
                Err(ServerError::Sys(error)) => {
                    not_counted = Some(format!("calls were not counted: {error}"));
                    session.run(&sql).map(|()| BTreeMap::new())
                }
                Err(error) => Err(error),
            },
            None => session.run(&sql).map(|()| BTreeMap::new()),
        };
        if let Ok(Some(contents)) = template::contents(session, features, &name) {
            copied.insert(strategy, contents);
        }
        drop_ours(session, &name).map_err(|error| halt(&error))?;
        subject.forget(&entries).map_err(|error| halt(&error))?;
        drop(stage);
        self.calls = Some(made.map_err(|error| halt(&error))?);
        if let Some(text) = not_counted {
            add_note(&mut self.notes, Note::info(NoteCode::NotMeasured, text));
        }
        Ok(())
    }

    fn place(&self) -> Option<&'a Place> {
        self.stage.borrow().server.place.map(|index| &self.bench.places[index])
    }

    fn wal_place(&self) -> Option<&'a Place> {
        self.stage.borrow().server.wal_place.map(|index| &self.bench.places[index])
    }

    fn measure(&mut self) -> Result<(Measured, Option<u64>), ServerError> {
        let mut stage = self.stage.borrow_mut();
        let Stage { server, template, live, dirt, standby, .. } = &mut *stage;
        let Server { session, features, names, .. } = server;
        let (strategy, watch) = (self.strategy, self.bench.watch);
        let subject = Subject { features, strategy, template, names, live: live.as_ref(), watch };
        let work = Work { creates: self.bench.creates, jobs: self.jobs };
        let measured = trial::run(session, subject, work, dirt.as_mut())?;
        let replay_ns = match standby {
            None => None,
            Some(standby) => {
                let name = names.name(0);
                let sql = subject.create(&name);
                let replayed = standby.replay_ns(session, watch, |session| session.run(&sql));
                drop_ours(session, &name)?;
                Some(replayed?)
            }
        };
        Ok((measured, replay_ns))
    }
}

impl Arm for CreatedbArm<'_, '_> {
    fn labels(&self) -> Labels {
        self.labels.clone()
    }

    fn promise(&self) -> Option<Promise> {
        None
    }

    fn refused(&self) -> Option<Refused> {
        self.refused.clone()
    }

    fn prepare(&mut self, _trial: &Trial) -> Result<(), Halt> {
        {
            let mut stage = self.stage.borrow_mut();
            stage.set(&self.settings, self.bench.watch).map_err(|error| halt(&error))?;
            let Stage { server: Server { session, cluster, .. }, template, .. } = &mut *stage;
            template::wait_until_free(session, template, self.bench.wait, self.bench.watch)
                .map_err(|error| halt(&error))?;
            // Somebody's server is measured as it is; ours begins each trial with nothing dirty.
            if cluster.is_some() {
                session.run("CHECKPOINT").map_err(|error| halt(&error))?;
            }
        }
        self.look_once()?;
        for place in [self.place(), self.wal_place()] {
            if let Some(note) = settle(place, self.bench.watch)? {
                add_note(&mut self.notes, note);
            }
        }
        Ok(())
    }

    fn run(&mut self, trial: &Trial) -> Result<Sample, Halt> {
        self.bench.watch.event(Event::Phase(Phase::Copying));
        let places = [self.place(), self.wal_place()];
        let before = places.map(|place| place.and_then(Place::counters));
        let (measured, replay_ns) = self.measure().map_err(|error| halt(&error))?;
        let [device, wal_device] = counters_of(places, before);
        Ok(Sample {
            elapsed_ns: measured.elapsed_ns,
            phases: measured.phases.unwrap_or_default(),
            calls: self.calls.clone().unwrap_or_default(),
            device,
            wal_device,
            databases: Some(Databases {
                create_ns: measured.create_ns,
                drop_ns: measured.drop_ns,
                drop_elapsed_ns: measured.drop_elapsed_ns,
                create_and_checkpoint_ns: measured.create_and_checkpoint_ns,
                wal_bytes: measured.wal_bytes,
                replay_ns,
            }),
            ..trial.sample()
        })
    }

    fn check(&mut self, _trial: &Trial) -> Result<(), Halt> {
        Ok(())
    }

    fn clear(&mut self, _trial: &Trial) -> Result<(), Halt> {
        // A trial drops what it made, whatever became of it.
        Ok(())
    }

    fn latency(&self) -> BTreeMap<String, Percentiles> {
        BTreeMap::new()
    }

    fn notes(&self) -> Vec<Note> {
        let stage = self.stage.borrow();
        let mine = stage.copied.get(&self.strategy);
        let differing =
            stage.copied.iter().find(|(_, theirs)| mine.is_some_and(|mine| mine.files != theirs.files));
        let differs = mine.zip(differing).filter(|(_, (other, _))| **other < self.strategy).map(|(mine, (other, theirs))| {
            let text = format!(
                "{} copied {} files with {} and {} with {other}: WAL_LOG copies what the catalog knows, FILE_COPY every file",
                stage.server.name, mine.files, self.strategy, theirs.files
            );
            Note::info(NoteCode::CopiedDiffers, text)
        });
        self.notes.iter().cloned().chain(differs).collect()
    }
}
