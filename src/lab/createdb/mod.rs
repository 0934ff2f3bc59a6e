//! A whole run of CREATE DATABASE: servers made or reached, arms made and conducted. Step by step, so that what will be
//! done can be said before it is: a [`CreatedbSurvey`] makes nothing, [`make`](CreatedbSurvey::make) makes simulated
//! drives, [`enter`](CreatedbRun::enter) clusters and templates, [`conduct`](Entered::conduct) measures.

mod arm;
mod server;

use std::cell::RefCell;
use std::time::Duration;

use arm::{Bench, CreatedbArm};
use server::Server;

use super::arm::Arm;
use super::conduct::{Run, conduct};
use super::head::head;
use super::plan::Plan;
use super::scratch::user_of;
use crate::place::{self, Asked, Making, Place, PlaceError, Surveyed};
use crate::results::{Document, Input, Kind, Note, NoteCode};
use crate::server::cluster::Binaries;
use crate::server::conninfo::Target;
use crate::server::createdb::Strategy;
use crate::server::createdb::fairness::differences;
use crate::server::createdb::template::Recipe;
use crate::server::error::ServerError;
use crate::server::settings::{self, Setting};
use crate::sys::clock;
use crate::sys::journal::Journal;
use crate::sys::watch::Watch;

/// What was asked for.
#[derive(Clone, Debug)]
pub struct CreatedbRequest {
    /// Where scratch clusters are made.
    pub scratch: Vec<Asked>,
    /// `[NAME=]DIR` of their programs.
    pub binaries: Vec<String>,
    /// Servers that are not ours, by name.
    pub servers: Vec<(String, Target)>,
    /// For all scratch clusters.
    pub settings: Vec<Setting>,
    /// Each list a label, each value an arm.
    pub varied: Vec<Vec<Setting>>,
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
    /// Other clients of a server that is not ours may be active.
    pub others_may_be_active: bool,
    /// How often, in what order, how long.
    pub plan: Plan,
    /// A second copy of the baseline.
    pub aa: bool,
    /// The command line, passwords redacted.
    pub argv: Vec<String>,
}

/// Why a run was refused for safety.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A server that is not ours is in use.
    #[error("server \"{server}\" has {active} other active clients")]
    OthersActive {
        /// Its name.
        server: String,
        /// How many.
        active: u64,
    },
}

/// Why a run did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum CreatedbError {
    /// A place takes no cluster.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// A server failed.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// It would not be safe.
    #[error(transparent)]
    Refused(Refusal),
}

/// Where a server comes from.
#[derive(Clone, Debug)]
enum Source {
    Scratch { name: String, place: usize, binaries: Binaries },
    Live { name: String, target: Box<Target> },
}

impl Source {
    fn name(&self) -> String {
        let (Self::Scratch { name, .. } | Self::Live { name, .. }) = self;
        name.clone()
    }

    fn place(&self) -> Option<usize> {
        match self {
            Self::Scratch { place, .. } => Some(*place),
            Self::Live { .. } => None,
        }
    }
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
    servers: Vec<RefCell<Server<'a>>>,
    head: Document,
}

impl CreatedbSurvey {
    /// Looks at every place and at every build.
    pub fn new(request: CreatedbRequest, watch: &dyn Watch) -> Result<Self, CreatedbError> {
        settings::check_scratch(&request.settings)?;
        for setting in request.varied.iter().flatten() {
            settings::check_scratch(std::slice::from_ref(setting))?;
        }
        let places = Surveyed::new(&request.scratch)?;
        let mut sources = Vec::new();
        for (place, asked) in request.scratch.iter().enumerate() {
            let user = user_of(asked)?;
            for argument in &request.binaries {
                let binaries = Binaries::find(argument, user.as_ref(), watch)?;
                let name = if request.scratch.len() > 1 {
                    format!("{}@p{}", binaries.name, place + 1)
                } else {
                    binaries.name.clone()
                };
                sources.push(Source::Scratch { name, place, binaries });
            }
        }
        let live = |(name, target): &(String, Target)| Source::Live {
            name: name.clone(),
            target: Box::new(target.clone()),
        };
        sources.extend(request.servers.iter().map(live));
        Ok(Self { request, places, sources })
    }

    /// What will be made, a sentence each.
    pub fn intents(&self) -> Vec<String> {
        self.sources
            .iter()
            .filter_map(|source| match source {
                Source::Scratch { name, place, binaries } => Some(format!(
                    "will make a cluster of PostgreSQL {} ({name}) in {}, and remove it",
                    binaries.version, self.request.scratch[*place]
                )),
                Source::Live { .. } => None,
            })
            .collect()
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
    pub fn enter<'a>(
        &'a self,
        journal: &'a Journal,
        watch: &dyn Watch,
    ) -> Result<Entered<'a>, CreatedbError> {
        let mut servers = place::at_full_speed(&self.places, || {
            let ready = |source| Server::ready(source, self, journal, watch);
            self.sources.iter().map(ready).collect::<Result<Vec<_>, CreatedbError>>()
        })?;
        let mut head = self.head.clone();
        for server in &mut servers {
            head.servers.push(server.record(&self.request.settings));
            head.notes.extend(server.notes(&self.request)?);
        }
        head.notes.extend(unfairness(&self.request, &servers));
        head.input = servers.first().map(|server| {
            let contents = server.contents.unwrap_or_default();
            let template = match self.request.recipe {
                Some(recipe) => recipe.to_string(),
                None => server.template.clone(),
            };
            Input {
                template,
                files: contents.files,
                directories: 1,
                bytes: contents.bytes,
                allocated_bytes: None,
            }
        });
        Ok(Entered { run: self, servers: servers.into_iter().map(RefCell::new).collect(), head })
    }
}

/// What makes comparing two servers unfair.
fn unfairness(request: &CreatedbRequest, servers: &[Server<'_>]) -> Vec<Note> {
    let Some((first, others)) = servers.split_first() else { return Vec::new() };
    let varied: Vec<&str> =
        request.varied.iter().filter_map(|values| Some(values.first()?.name.as_str())).collect();
    let found = others.iter().flat_map(|other| differences(&first.facts, &other.facts, &varied));
    found.map(|text| Note::warning(NoteCode::ServersDiffer, text)).collect()
}

impl Entered<'_> {
    /// The document without arms.
    pub fn head(&self) -> &Document {
        &self.head
    }

    /// What the run costs servers that are not ours, a sentence each.
    pub fn costs(&self) -> Result<Vec<String>, CreatedbError> {
        let request = &self.run.request;
        let rounds = u64::from(request.plan.all_rounds());
        let each: usize = request.jobs.iter().map(|jobs| jobs * request.creates + 2).sum();
        let mut costs = Vec::new();
        for server in self.servers.iter().filter(|server| server.borrow().live.is_some()) {
            let strategies = self.strategies(&server.borrow()).len() as u64;
            let creates = rounds * each as u64 * strategies * settings::product(&request.varied).len() as u64;
            costs.push(server.borrow_mut().costs(creates)?);
        }
        Ok(costs)
    }

    /// The strategies asked for; without a word, those that any server has.
    fn strategies(&self, server: &Server<'_>) -> Vec<Strategy> {
        if !self.run.request.strategies.is_empty() {
            return self.run.request.strategies.clone();
        }
        Strategy::ALL.into_iter().filter(|strategy| strategy.missing(&server.features).is_none()).collect()
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
        for server in &self.servers {
            let strategies = self.strategies(&server.borrow());
            for settings in settings::product(&request.varied) {
                for jobs in &request.jobs {
                    for strategy in &strategies {
                        let arm = || CreatedbArm::new(&bench, server, *strategy, &settings, (*jobs, several));
                        let is_baseline = arms.is_empty();
                        arms.push(Box::new(arm()));
                        if is_baseline && request.aa {
                            arms.push(Box::new(arm().into_control()));
                        }
                    }
                }
            }
        }
        let run = Run { plan: &request.plan, watch, now_ns: &clock::now_ns, longer: "--time-limit" };
        conduct(&run, self.head.clone(), &mut arms, keep)
    }
}
