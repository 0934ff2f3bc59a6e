//! `fsynclab copy`: how long a template copy takes under each policy at each place.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anstream::ColorChoice;

use super::paper::Paper;
use super::places::{Places, place_problem};
use super::problem::{self, Problem, Status};
use super::rounds::{Defaults, Rounds};
use super::screen::Screen;
use super::{clean, complain, drive, grammar, output, redact};
use crate::lab::copy_run::{CopyRequest, CopyRun, CopyRunError, Intent};
use crate::lab::rate::Rate;
use crate::lab::source_cache::SourceCache;
use crate::place::{Asked, Making, Surveyed};
use crate::replay::policy;
use crate::replay::template::{Template, TemplateError, list_templates};
use crate::replay::verify::Verify;
use crate::report;
use crate::results::Document;
use crate::storage::Cache;
use crate::sys::error::shown;
use crate::sys::journal::{self, Journal};
use crate::sys::real::Real;
use crate::sys::signals::Signals;
use crate::sys::tallied::Tallied;
use crate::sys::watch::{Event, Phase, Stop, Watch};

/// What a directory is given to.
const COMMAND: &str = "fsynclab copy --into";

/// After this long no trial begins, unless the user says otherwise: the first answer comes within a minute …
const LIMIT: Duration = Duration::from_mins(1);
/// … but nobody else waits for a simulated drive, and the slow ones are what it is for.
const LIMIT_ON_DRIVES: Duration = Duration::from_mins(5);

const DEFAULTS: Defaults =
    Defaults { rounds: "7", warmup: "1", order: "shuffled", time_limit: "60s; with simulated drives 5min" };

/// How long a template copy takes under each policy at each place
///
/// With no arguments: the built-in PostgreSQL 15 template, immediate against deferred and the floor never, in the current
/// directory.
#[derive(Debug, clap::Args)]
#[command(mut_args(|arg| DEFAULTS.tell(arg)))]
pub struct Args {
    /// A built-in template (see --list-templates), a directory or a shape file
    #[arg(value_name = "TEMPLATE", default_value = "pg15")]
    template: OsString,
    /// Policies, NAME[+AXIS=VALUE]…; the first is the baseline
    #[arg(
        long = "policy",
        value_name = "POLICY",
        value_delimiter = ',',
        default_value = "immediate,deferred,never"
    )]
    policies: Vec<String>,
    /// A copier of your own as an arm: words as a shell splits them, nothing expanded, {src} and {dst} replaced, {dst} not
    /// there yet; once by itself and once with a syncfs after it (NAME+syncfs), ended if it takes longer than the time
    /// limit; may be repeated
    #[arg(long = "command", value_name = "NAME=ARGV")]
    commands: Vec<String>,
    #[command(flatten)]
    places: Places,
    #[command(flatten)]
    rounds: Rounds,
    /// Write the results to FILE, replaced after every round; - is standard output, and nothing else goes there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// How a copy is compared with its source, after the clock: full (every byte), sizes or off
    #[arg(long, value_name = "HOW", default_value_t = Verify::Full)]
    verify: Verify,
    /// Beside each trial, and in a control without any, append 8 kB and call fdatasync at this rate, as in 50/s: what the
    /// neighbours feel
    #[arg(long, value_name = "RATE")]
    bystander: Option<Rate>,
    /// Before each trial a neighbour on the same file system writes so much and does not sync it
    #[arg(long, value_name = "SIZE", value_parser = grammar::size)]
    dirty: Option<u64>,
    /// Whether the source's pages are in memory before each trial: warm, cold, or both as arms; on a copy of the run's own
    #[arg(long = "source-cache", value_name = "warm|cold", value_delimiter = ',')]
    source_caches: Vec<SourceCache>,
    /// Take the files of a shape so many times
    #[arg(long, value_name = "FACTOR", default_value_t = 1, value_parser = grammar::number(1..=1_000_000_u32))]
    template_scale: u32,
    /// Compare states of the drives' write cache: on, off; it is brought back at the end
    #[arg(long = "write-cache", value_name = "STATE", value_delimiter = ',', value_parser = drive::state)]
    write_caches: Vec<Cache>,
    /// Switch the write cache though others rely on the disk, or though it was found off
    #[arg(long, requires = "write_caches")]
    force: bool,
    /// Let arms run that sync a whole file system beside a running cluster
    #[arg(long)]
    beside_server: bool,
    #[command(flatten)]
    lists: Lists,
}

/// What there is to choose from
#[derive(Debug, clap::Args)]
struct Lists {
    /// Print the policies with their axes and promises
    #[arg(id = "list_policies", long = "list-policies")]
    policies: bool,
    /// Print the built-in templates
    #[arg(id = "list_templates", long = "list-templates")]
    templates: bool,
}

/// Measures, prints, undoes; the exit status.
pub fn run(args: &Args, color: ColorChoice, verbose: bool) -> anyhow::Result<ExitCode> {
    if args.lists.policies {
        output::print(&policies(), color)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.lists.templates {
        output::print(&templates(), color)?;
        return Ok(ExitCode::SUCCESS);
    }
    let asked = args.places.asked()?;
    let request = request(args, &asked)?;
    let screen = Screen::new(Signals::install()?, verbose);
    let surveyed = Surveyed::new(&asked).map_err(|error| place_problem(&error, COMMAND))?;
    let paper = Paper::new(args.json.as_deref(), color)?;
    let state = journal::state_directory()?;
    offer_cleaning(&state, &screen);
    let journal = Journal::create(&state)?;
    let making = args.places.recording().making(request.plan.seed, &state, &journal);
    let measured = on_places(request, surveyed, &making, &screen, &paper);
    screen.event(Event::Phase(Phase::Undoing));
    let undone = clean::undo_own(journal);
    screen.finish();
    if let (Err(_), Err(also)) = (&measured, &undone) {
        complain(&problem::of(also).to_string());
    }
    let document = measured?;
    paper.finish(&document, &screen)?;
    undone?;
    Ok(status(&document, screen.stop()))
}

fn request(args: &Args, places: &[Asked]) -> Result<CopyRequest, Problem> {
    // What is wrong on the command line is told before a large tree is read.
    let policies = grammar::policies(&args.policies)?;
    let commands = grammar::commands(&args.commands, &policies)?;
    let source_caches = grammar::none_twice("--source-cache", &args.source_caches)?;
    let write_caches = grammar::none_twice("--write-cache", &args.write_caches)?;
    let template =
        Template::resolve(&args.template, args.template_scale).map_err(|error| template_problem(&error))?;
    outside(&template, places)?;
    let simulated = places.iter().any(|place| matches!(place, Asked::Drive(_)));
    let limit = if simulated { LIMIT_ON_DRIVES } else { LIMIT };
    Ok(CopyRequest {
        template,
        policies,
        commands,
        source_caches,
        bystander: args.bystander,
        dirty_bytes: args.dirty,
        plan: args.rounds.clone().or(7, 1, limit).plan(),
        aa: args.rounds.aa,
        verify: args.verify,
        beside_server: args.beside_server,
        write_caches,
        force: args.force,
        argv: redact::arguments(std::env::args_os()),
    })
}

/// A template that cannot be had.
pub(super) fn template_problem(error: &TemplateError) -> Problem {
    let problem = match error {
        TemplateError::Number { .. } | TemplateError::ScaledTree { .. } => Problem::usage,
        _ => Problem::failed,
    };
    problem(error.to_string()).hint(error.hint())
}

/// A copy made inside of what is copied would copy itself.
fn outside(template: &Template, places: &[Asked]) -> Result<(), Problem> {
    let Some(tree) = template.tree.as_deref().and_then(|tree| tree.canonicalize().ok()) else {
        return Ok(());
    };
    let directories = places.iter().filter_map(|place| match place {
        Asked::Directory(directory) => Some(directory),
        Asked::Drive(_) => None,
    });
    let within = |place: &&PathBuf| place.canonicalize().is_ok_and(|place| place.starts_with(&tree));
    directories.clone().find(within).map_or(Ok(()), |place| {
        let message =
            format!("the place \"{}\" lies within the template \"{}\"", shown(place), template.name);
        Err(Problem::usage(message).hint(Some("name a directory outside of it: --into DIR")))
    })
}

/// Makes the drives, measures, takes them apart.
fn on_places(
    request: CopyRequest,
    surveyed: Surveyed,
    making: &Making<'_>,
    screen: &Screen,
    paper: &Paper,
) -> anyhow::Result<Document> {
    screen.event(Event::Phase(Phase::Making));
    let places = surveyed.make(making).map_err(|error| place_problem(&error, COMMAND))?;
    let run = CopyRun::new(request, places);
    let measured = measure(&run, making.journal, screen, paper);
    let closed = run.close(making.journal).map_err(|error| place_problem(&error, COMMAND));
    let document = measured?;
    closed?;
    Ok(document)
}

/// Says what will be done, then does it.
fn measure(run: &CopyRun, journal: &Journal, screen: &Screen, paper: &Paper) -> anyhow::Result<Document> {
    screen.without_bar(|| paper.head(run.head()))?;
    let entered = run.enter(journal).map_err(|error| place_problem(&error, COMMAND))?;
    screen.say(&announcement(&entered.intents(), run.time_limit()));
    let mut keep = paper.keeper(journal, screen)?;
    let kernel = Tallied::new(Real);
    let document = entered.conduct(&kernel, screen, &mut keep);
    document.map_err(|error| match (error, screen.stop()) {
        (CopyRunError::Place(error), _) => place_problem(&error, COMMAND).into(),
        (CopyRunError::Stopped, Some(Stop::Signal(signal))) => Problem::stopped(signal).into(),
        (error, _) => Problem::failed(error.to_string()).into(),
    })
}

/// What will be written, synced and taken.
fn announcement(intents: &[Intent], limit: Option<Duration>) -> String {
    let mut lines = Vec::new();
    for Intent { directory, copies, bytes, gentle } in intents {
        let each = report::size(*bytes);
        let (manner, others) = if *gentle {
            ("gently, for a running cluster shares this storage", "")
        } else {
            ("and sync that file system before each trial", " No running cluster shares it.")
        };
        let stop = limit.map_or_else(String::new, |limit| format!("; stops after {}", grammar::shown(limit)));
        lines.push(format!("will write {copies} x {each} in {directory} {manner}{stop}.{others}"));
    }
    lines.join("\n")
}

/// A run that was killed may have left something: said once, and how to be rid of it.
pub(super) fn offer_cleaning(state: &Path, screen: &Screen) {
    let is_left = |journal: &Journal| clean::standing(journal).is_empty();
    if journal::leftovers(state).is_ok_and(|left| left.journals.iter().any(is_left)) {
        screen.say("note: a killed run left something behind; fsynclab clean lists and undoes it");
    }
}

fn status(document: &Document, stop: Option<Stop>) -> ExitCode {
    let arms = &document.arms;
    match stop {
        Some(Stop::Signal(signal)) if !document.complete => Status::Signal(signal).into(),
        _ if arms.iter().any(|arm| arm.failed.is_some()) => Status::Failed.into(),
        _ if arms.iter().all(|arm| arm.summary.is_none()) => Status::Refused.into(),
        _ => ExitCode::SUCCESS,
    }
}

fn policies() -> String {
    let lines = policy::list().into_iter().flat_map(|policy| {
        let servers = policy.servers.map_or_else(String::new, |servers| format!("; PostgreSQL {servers}"));
        let head = format!("{:<13}{:<9}", policy.name, policy.promise);
        let axes = if policy.axes.is_empty() { "all axes at their defaults" } else { &policy.axes };
        let claim = report::hanging(&head, &format!("{}{servers}", policy.summary));
        [claim, report::hanging(&" ".repeat(head.len()), axes)]
    });
    report::hanging(&format!("{:<13}{:<9}", "policy", "promise"), "what it is, its axes")
        + &lines.collect::<String>()
}

fn templates() -> String {
    let lines = list_templates().into_iter().map(|template| {
        let (files, size) = (template.files, report::size(template.bytes));
        report::hanging(&format!("{:<12} {files:>7} files {size:>8}  ", template.name), template.summary)
    });
    lines.collect()
}
