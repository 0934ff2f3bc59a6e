//! A whole copy run: sources staged, arms made and conducted. In three steps, so that what will be done can be said
//! before it is: [`new`](CopyRun::new) makes nothing, [`enter`](CopyRun::enter) makes one directory a place,
//! [`conduct`](Entered::conduct) writes.

use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;

use super::arm::Arm;
use super::bystander::NoCopy;
use super::cached::{Caches, in_state};
use super::command::{self, Command};
use super::conduct::{Run, conduct};
use super::copy::{CopyArm, Way};
use super::copy_bench::{Bench, NAMES, SOURCE, Workshop};
use super::copy_notes;
use super::copy_policy;
use super::head::head;
use super::plan::Plan;
use super::rate::Rate;
use super::source_cache::SourceCache;
use crate::place::{self, Place, PlaceError};
use crate::replay::engine::{Engine, EngineError};
use crate::replay::means::Means;
use crate::replay::policy::Policy;
use crate::replay::template::Template;
use crate::replay::template::build::{BuildError, BuildSync, build};
use crate::replay::verify::Verify;
use crate::results::{Document, Failed, Input, Kind};
use crate::storage::{Attached, Cache};
use crate::sys::clock;
use crate::sys::journal::Journal;
use crate::sys::kernel::{Fault, Kernel};
use crate::sys::real::Real;
use crate::sys::run_directory::RunDirectory;
use crate::sys::tallied::Tallied;
use crate::sys::watch::Watch;

/// What was asked for.
#[derive(Clone, Debug)]
pub struct CopyRequest {
    /// What is copied.
    pub template: Template,
    /// The first one is the baseline.
    pub policies: Vec<Policy>,
    /// Anybody's copiers: two arms each.
    pub commands: Vec<Command>,
    /// What is known of the source before each trial: every arm once for each; none: as it happens to be, which is warm.
    pub source_caches: Vec<SourceCache>,
    /// How often somebody else beside each trial wants a sync.
    pub bystander: Option<Rate>,
    /// How much a neighbour has written and not synced when a trial begins.
    pub dirty_bytes: Option<u64>,
    /// How often, in what order, how long.
    pub plan: Plan,
    /// A second copy of the baseline at each place.
    pub aa: bool,
    /// After the clock.
    pub verify: Verify,
    /// Arms that sync a whole file system may run beside a cluster.
    pub beside_server: bool,
    /// The states of the write cache to compare; none leaves it as it is.
    pub write_caches: Vec<Cache>,
    /// Switch it though others rely on the disk.
    pub force: bool,
    /// The command line, passwords redacted.
    pub argv: Vec<String>,
}

/// Why a run did not come to its end; `E` is why its document could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum CopyRunError<E> {
    /// A place takes no run.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// A source could not be made from its shape.
    #[error("could not make the source: {error}{full}")]
    Build {
        /// Why.
        error: BuildError,
        /// Where there is no space left: what was written and what is free.
        full: String,
    },
    /// A source could not be copied to its place.
    #[error("could not stage the source: {error}{full}")]
    Stage {
        /// Why.
        error: EngineError,
        /// Where there is no space left: what was written and what is free.
        full: String,
    },
    /// An arm could not be made.
    #[error("{}", .0.text)]
    Failed(Failed),
    /// Told to stop before the first trial.
    #[error("stopped before the first trial")]
    Stopped,
    /// The document could not be kept.
    #[error("{0}")]
    Keep(E),
}

/// Places that were looked at, and the document as far as it is known before anything is written.
pub struct CopyRun {
    request: CopyRequest,
    places: Vec<Place>,
    head: Document,
}

/// What will be written at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The run's own directory at the place that was asked for, as it is shown.
    pub directory: String,
    /// Copies that will be made and removed again, one at a time.
    pub copies: u64,
    /// Of each.
    pub bytes: u64,
    /// A running cluster shares the file system or a disk.
    pub gentle: bool,
}

/// A run that has made its directories: what is in them is journalled.
pub struct Entered<'a> {
    run: &'a CopyRun,
    journal: &'a Journal,
    directories: Vec<RunDirectory>,
}

impl CopyRun {
    /// A run at these places; nothing is made yet.
    pub fn new(request: CopyRequest, places: Vec<Place>) -> Self {
        let head =
            Document { input: Some(input(&request.template)), ..head(Kind::Copy, &request.argv, &places) };
        Self { request, places, head }
    }

    /// Takes the simulated drives among the places apart.
    pub fn close(self, journal: &Journal) -> Result<(), PlaceError> {
        place::close(self.places, journal)
    }

    /// The document without arms.
    pub fn head(&self) -> &Document {
        &self.head
    }

    /// After which no trial begins.
    pub fn time_limit(&self) -> Option<Duration> {
        self.request.plan.time_limit
    }

    /// Makes one directory at each place.
    pub fn enter<'a>(&'a self, journal: &'a Journal) -> Result<Entered<'a>, PlaceError> {
        let enter = |place: &Place| Ok(place.enter(&NAMES, journal)?.0);
        let directories = self.places.iter().map(enter).collect::<Result<Vec<_>, PlaceError>>()?;
        Ok(Entered { run: self, journal, directories })
    }
}

impl Entered<'_> {
    /// What will be written, place by place.
    pub fn intents(&self) -> Vec<Intent> {
        let CopyRequest { plan, policies, commands, source_caches, write_caches, aa, .. } = &self.run.request;
        let varied = source_caches.len().max(1) * write_caches.len().max(1);
        let arms = ((policies.len() + 2 * commands.len()) * varied) as u64 + u64::from(*aa);
        let intent = |(place, directory): (&Place, &RunDirectory)| Intent {
            directory: format!(
                "{}/{}",
                place.asked().to_string().trim_end_matches('/'),
                directory.path().file_name().unwrap_or_default().display()
            ),
            copies: arms * u64::from(plan.all_rounds()),
            bytes: self.run.request.template.shape.bytes(),
            gentle: place.is_gentle(),
        };
        self.run.places.iter().zip(&self.directories).map(intent).collect()
    }

    /// Stages the sources, then runs all rounds.
    pub fn conduct<K: Kernel, E>(
        &self,
        kernel: &Tallied<K>,
        watch: &dyn Watch,
        keep: &mut dyn FnMut(&Document) -> Result<(), E>,
    ) -> Result<Document, CopyRunError<E>> {
        let request = &self.run.request;
        let bench = Bench {
            kernel,
            watch,
            verify: request.verify,
            beside_server: request.beside_server,
            command_limit: request.plan.time_limit.unwrap_or(Duration::MAX),
            bystander: request.bystander,
            dirty_bytes: request.dirty_bytes,
        };
        let places = self.run.places.iter().zip(&self.directories);
        let shops = places
            .map(|(place, directory)| workshop(request, place, directory.path(), &bench))
            .collect::<Result<Vec<_>, _>>()?;
        let taken: Vec<_> = shops.iter().map(|shop| self.caches(shop)).collect();
        let mut arms: Vec<Box<dyn Arm + '_>> = Vec::new();
        for (shop, caches) in shops.iter().zip(&taken) {
            arms.extend(arms_at(request, &bench, shop, caches.as_ref()).map_err(CopyRunError::Failed)?);
        }
        let run = Run { plan: &request.plan, watch, now_ns: &clock::now_ns, longer: "--time-limit" };
        conduct(&run, self.run.head.clone(), &mut arms, keep).map_err(CopyRunError::Keep)
    }
}

impl Entered<'_> {
    /// The disks of a place, taken only where their caches are to be switched.
    fn caches(&self, shop: &Workshop<'_>) -> Option<Caches<'_, Attached>> {
        let CopyRequest { write_caches: states, force, .. } = &self.run.request;
        let take = || Caches::below(shop.place, states, *force, self.journal, &Attached);
        (!states.is_empty()).then(take)
    }
}

/// The arms at one place, the baseline first; beside it a second copy of it where asked for.
fn arms_at<'a, K: Kernel>(
    request: &CopyRequest,
    bench: &'a Bench<'a, K>,
    shop: &'a Workshop<'a>,
    caches: Option<&'a Caches<'a, Attached>>,
) -> Result<Vec<Box<dyn Arm + 'a>>, Failed> {
    let mut arms: Vec<Box<dyn Arm + 'a>> = Vec::new();
    for state in each(&request.write_caches) {
        let switched = |arm| in_state(arm, state.zip(caches));
        for source in each(&request.source_caches) {
            let arm = |way: Way<'a>| CopyArm::new(bench, shop, way).with_source(source);
            for policy in &request.policies {
                arms.push(switched(Box::new(arm(copy_policy::way(bench, shop, policy)?))));
                if request.aa && arms.len() == 1 {
                    arms.push(switched(Box::new(arm(copy_policy::way(bench, shop, policy)?).into_control())));
                }
            }
            for way in request.commands.iter().flat_map(|command| command::ways(bench, shop, command)) {
                arms.push(switched(Box::new(arm(way))));
            }
        }
        arms.extend(NoCopy::at(bench, shop).map(|control| switched(Box::new(control))));
    }
    Ok(arms)
}

/// Each value that is varied, or the one way in which it is not.
fn each<T: Copy>(given: &[T]) -> Vec<Option<T>> {
    if given.is_empty() { vec![None] } else { given.iter().copied().map(Some).collect() }
}

/// The source at one place: a shape's files are made there; a real tree is copied from where it lies, and staged for
/// arms that could leave it with shared extents, changed, or cold.
fn workshop<'a, K: Kernel, E>(
    request: &CopyRequest,
    place: &'a Place,
    directory: &Path,
    bench: &Bench<'_, K>,
) -> Result<Workshop<'a>, CopyRunError<E>> {
    let template = &request.template;
    let made = directory.join(SOURCE);
    let needs_private = !request.commands.is_empty()
        || !request.source_caches.is_empty()
        || request.policies.iter().any(|policy| policy.needs().staged_source);
    let (source, private) = match &template.tree {
        None => {
            place.make_room_for(template.shape.bytes())?;
            let sync = if place.is_gentle() { BuildSync::EachFile } else { BuildSync::FileSystem };
            build(&Real, &template.shape, &made, request.plan.seed, sync, bench.watch)
                .map_err(|error| of_build(error, place, &made))?;
            (made.clone(), Some(made))
        }
        Some(tree) if needs_private => {
            place.make_room_for(template.shape.bytes())?;
            stage(tree, &made, bench.watch).map_err(|error| of_engine(error, place, &made))?;
            (tree.clone(), Some(made))
        }
        Some(tree) => (tree.clone(), None),
    };
    Ok(Workshop { place, directory: directory.to_owned(), source, private, input: input(template) })
}

/// A durable private copy, by the plainest policy that makes one.
fn stage(tree: &Path, to: &Path, watch: &dyn Watch) -> Result<(), EngineError> {
    let policy: Policy = "deferred".parse().expect("a row of the table");
    Engine::new(&Real, &policy, Means::default())?.replay(tree, to, watch, &()).map(drop)
}

fn of_build<E>(error: BuildError, place: &Place, made: &Path) -> CopyRunError<E> {
    match error {
        BuildError::Stopped(_) => CopyRunError::Stopped,
        BuildError::Fault(fault) => {
            CopyRunError::Build { full: if_full(&fault, place, made), error: fault.into() }
        }
    }
}

fn of_engine<E>(error: EngineError, place: &Place, made: &Path) -> CopyRunError<E> {
    match error {
        EngineError::Stopped(_) => CopyRunError::Stopped,
        EngineError::Fault(fault) => {
            CopyRunError::Stage { full: if_full(&fault, place, made), error: fault.into() }
        }
        error @ EngineError::Jobs { .. } => CopyRunError::Stage { error, full: String::new() },
    }
}

/// How far the source came where there is no space left, as an arm tells it.
fn if_full(fault: &Fault, place: &Place, made: &Path) -> String {
    if matches!(fault.errno, Errno::ENOSPC | Errno::EDQUOT) {
        copy_notes::full(place, made)
    } else {
        String::new()
    }
}

fn input(template: &Template) -> Input {
    let shape = &template.shape;
    Input {
        template: template.name.clone(),
        files: shape.files.len() as u64,
        directories: shape.directories.len() as u64 + 1,
        bytes: shape.bytes(),
        allocated_bytes: template.tree.as_ref().map(|_| shape.allocated_bytes()),
    }
}
