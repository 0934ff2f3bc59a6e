//! A whole run of CREATE DATABASE: servers made or reached, arms made and conducted. Step by step, so that what will be
//! done can be said before it is: a [`CreatedbSurvey`] makes nothing, [`make`](CreatedbSurvey::make) makes simulated
//! drives, [`enter`](CreatedbRun::enter) clusters and templates, [`conduct`](Entered::conduct) measures.

mod arm;
mod stage;

use std::cell::RefCell;
use std::time::Duration;

use arm::{Bench, CreatedbArm};
use stage::Stage;

use super::arm::Arm;
use super::cached::Caches;
use super::conduct::{Run, conduct};
use super::head::head;
use super::plan::Plan;
use super::servers::{self, ServersError, ServersRequest, Source};
use crate::place::{self, Making, Place, PlaceError, Surveyed};
use crate::results::{Document, Input, Kind, Note, NoteCode};
use crate::server::createdb::Strategy;
use crate::server::createdb::fairness::differences;
use crate::server::createdb::template::Recipe;
use crate::storage::Attached;
use crate::sys::clock;
use crate::sys::journal::Journal;
use crate::sys::watch::Watch;

/// What was asked for.
#[derive(Clone, Debug)]
pub struct CreatedbRequest {
    /// Where databases are created.
    pub servers: ServersRequest,
    /// Empty for all that any of the servers has.
    pub strategies: Vec<Strategy>,
    /// The template, unless one is made.
    pub template: String,
    /// The template to be made.
    pub recipe: Option<Recipe>,
    /// Databases in a row.
    pub creates: usize,
    /// Sessions at once; each value an arm.
    pub jobs: Vec<usize>,
    /// Of another database, dirtied before each CREATE.
    pub dirty_bytes: Option<u64>,
    /// Measure replay on a standby of each scratch cluster.
    pub standby: bool,
    /// How long a held template is waited for.
    pub wait: Duration,
    /// How often, in what order, how long.
    pub plan: Plan,
    /// A second copy of the baseline.
    pub aa: bool,
    /// The command line, passwords redacted.
    pub argv: Vec<String>,
}

/// What was looked at, with nothing made.
pub struct CreatedbSurvey {
    request: CreatedbRequest,
    places: Surveyed,
    sources: Vec<Source>,
}

/// The places, and the document as far as it is known before there is a server.
pub struct CreatedbRun {
    request: CreatedbRequest,
    places: Vec<Place>,
    sources: Vec<Source>,
    head: Document,
}

/// Servers that are ready, and the document with what is known of them.
pub struct Entered<'a> {
    run: &'a CreatedbRun,
    stages: Vec<RefCell<Stage<'a>>>,
    caches: Vec<Caches<'a, Attached>>,
    head: Document,
}

impl CreatedbSurvey {
    /// Looks at every place and at every build.
    pub fn new(request: CreatedbRequest, watch: &dyn Watch) -> Result<Self, ServersError> {
        request.servers.check()?;
        let places = Surveyed::new(&request.servers.places())?;
        let sources = Source::all(&request.servers, watch)?;
        Ok(Self { request, places, sources })
    }

    /// What will be made, a sentence each.
    pub fn intents(&self) -> Vec<String> {
        self.sources.iter().filter_map(|source| source.intent(&self.request.servers)).collect()
    }

    /// What decides the order of the rounds, and the drives.
    pub fn seed(&self) -> u64 {
        self.request.plan.seed
    }

    /// Makes the simulated drives among the places.
    pub fn make(self, making: &Making<'_>) -> Result<CreatedbRun, PlaceError> {
        let Self { request, places, sources } = self;
        let places = places.make(making)?;
        let head = head(Kind::Createdb, &request.argv, &places);
        Ok(CreatedbRun { request, places, sources, head })
    }
}

impl CreatedbRun {
    /// Takes the simulated drives apart; nothing is left on them by then.
    pub fn close(self, journal: &Journal) -> Result<(), PlaceError> {
        place::close(self.places, journal)
    }

    /// Makes the clusters, reaches the servers. What is made is journalled; who ends the run undoes it.
    pub fn enter<'a>(&'a self, journal: &'a Journal, watch: &dyn Watch) -> Result<Entered<'a>, ServersError> {
        let caches = self.request.servers.caches(&self.places, journal);
        let mut stages = place::at_full_speed(&self.places, || {
            let ready = |source| Ok(Stage::ready(source, self, journal, watch)?);
            self.sources.iter().map(ready).collect::<Result<Vec<_>, ServersError>>()
        })?;
        let mut head = self.head.clone();
        for stage in &mut stages {
            head.servers.push(stage.record(&self.request.servers.settings));
            head.notes.extend(stage.notes(&self.request)?);
        }
        head.notes.extend(unfairness(&self.request.servers, &stages));
        head.input = stages.first().map(|stage| {
            let contents = stage.contents.unwrap_or_default();
            let template = match self.request.recipe {
                Some(recipe) => recipe.to_string(),
                None => stage.template.clone(),
            };
            Input {
                template,
                files: contents.files,
                directories: 1,
                bytes: contents.bytes,
                allocated_bytes: None,
            }
        });
        let stages = stages.into_iter().map(RefCell::new).collect();
        Ok(Entered { run: self, stages, caches, head })
    }
}

/// What makes comparing two servers unfair.
fn unfairness(request: &ServersRequest, stages: &[Stage<'_>]) -> Vec<Note> {
    let Some((first, others)) = stages.split_first() else { return Vec::new() };
    let varied = request.varied_names();
    let found = others.iter().flat_map(|other| differences(&first.facts, &other.facts, &varied));
    found.map(|text| Note::warning(NoteCode::ServersDiffer, text)).collect()
}

impl Entered<'_> {
    /// The document without arms.
    pub fn head(&self) -> &Document {
        &self.head
    }

    /// What the run costs servers that are not ours, a sentence each.
    pub fn costs(&self) -> Result<Vec<String>, ServersError> {
        let request = &self.run.request;
        let rounds = u64::from(request.plan.all_rounds());
        let each: usize = request.jobs.iter().map(|jobs| jobs * request.creates + 2).sum();
        let mut costs = Vec::new();
        let varied = request.servers.varied_names();
        for stage in self.stages.iter().filter(|stage| stage.borrow().live.is_some()) {
            let strategies = self.strategies(&stage.borrow()).len() as u64;
            let creates = rounds * each as u64 * strategies * request.servers.ways_at(None) as u64;
            costs.push(stage.borrow_mut().costs(creates, &varied)?);
        }
        Ok(costs)
    }

    /// The strategies asked for; without a word, those that any server has.
    fn strategies(&self, stage: &Stage<'_>) -> Vec<Strategy> {
        if !self.run.request.strategies.is_empty() {
            return self.run.request.strategies.clone();
        }
        let has = |strategy: &Strategy| strategy.missing(&stage.server.features).is_none();
        Strategy::ALL.into_iter().filter(has).collect()
    }

    /// Runs all rounds.
    pub fn conduct<E>(
        &self,
        watch: &dyn Watch,
        keep: &mut dyn FnMut(&Document) -> Result<(), E>,
    ) -> Result<Document, E> {
        let request = &self.run.request;
        let bench = Bench { watch, places: &self.run.places, creates: request.creates, wait: request.wait };
        let several = request.jobs.len() > 1;
        let mut arms: Vec<Box<dyn Arm + '_>> = Vec::new();
        for stage in &self.stages {
            let strategies = self.strategies(&stage.borrow());
            let place = stage.borrow().server.place;
            for (state, settings) in request.servers.ways(place, &self.caches) {
                for jobs in &request.jobs {
                    for strategy in &strategies {
                        let arm = || CreatedbArm::new(&bench, stage, *strategy, &settings, (*jobs, several));
                        servers::add(&mut arms, state, request.aa, arm, CreatedbArm::into_control);
                    }
                }
            }
        }
        let run = Run { plan: &request.plan, watch, now_ns: &clock::now_ns, longer: "--time-limit" };
        conduct(&run, self.head.clone(), &mut arms, keep)
    }
}
