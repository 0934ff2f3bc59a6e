//! `fsynclab createdb`: how long CREATE and DROP DATABASE take on a real server, by strategy.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anstream::ColorChoice;

use super::paper::Paper;
use super::places::{self, Recording, place_problem};
use super::problem::{Problem, Status};
use super::rounds::{Defaults, Rounds};
use super::screen::Screen;
use super::{clean, grammar, redact};
use crate::lab::createdb::{CreatedbError, CreatedbRequest, CreatedbRun, CreatedbSurvey};
use crate::place::Making;
use crate::report;
use crate::results::Document;
use crate::server::cluster::installed;
use crate::server::conninfo::{Asked, Surroundings, Target, resolve};
use crate::server::createdb::Strategy;
use crate::server::createdb::template::Recipe;
use crate::server::error::ServerError;
use crate::server::settings::{Setting, parse_vary};
use crate::sys::journal::{self, Journal};
use crate::sys::signals::Signals;
use crate::sys::watch::{Event, Phase, Stop, Watch};

/// What takes a place, for hints.
const COMMAND: &str = "fsynclab createdb --scratch";

/// A cluster takes seconds to make and a copy seconds on a slow drive.
const TIME_LIMIT: Duration = Duration::from_mins(30);

const DEFAULTS: Defaults = Defaults {
    rounds: "7; with --live 1",
    warmup: "1; with --live 0",
    order: "shuffled",
    time_limit: "30min",
};

/// How long CREATE and DROP DATABASE take on a real server, by strategy
///
/// On scratch clusters (--scratch), made for the run and removed after it, or on a server that is there (--live).
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true, mut_args(|arg| DEFAULTS.tell(arg)))]
pub struct Args {
    /// A database name, connection parameters or a URI, as psql takes them
    #[arg(value_name = "CONNINFO")]
    conninfo: Option<String>,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    clusters: Clusters,
    #[command(flatten)]
    work: Work,
    #[command(flatten)]
    rounds: Rounds,
    /// Write the results to FILE, replaced after every round; - is standard output, and nothing else goes there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print help
    #[arg(id = "help", short = '?', long = "help", action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// A server that is there, as psql reaches it
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Servers that are there")]
pub(super) struct Connection {
    /// Measure on a server that is not made for the run: it is told what that costs first
    #[arg(long)]
    pub(super) live: bool,
    /// Host, or directory of the socket
    #[arg(short = 'h', long, value_name = "HOST")]
    host: Option<String>,
    /// Port
    #[arg(short = 'p', long, value_name = "PORT")]
    port: Option<String>,
    /// Role
    #[arg(short = 'U', long, value_name = "ROLE")]
    username: Option<String>,
    /// A database name, connection parameters or a URI
    #[arg(short = 'd', long, value_name = "CONNINFO", conflicts_with = "conninfo")]
    dbname: Option<String>,
    /// One more server; may be repeated
    #[arg(long = "server", value_name = "NAME=CONNINFO", requires = "live")]
    servers: Vec<String>,
    /// Go on though other clients are active
    #[arg(long)]
    pub(super) yes: bool,
}

/// Clusters made for the run
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Scratch clusters")]
struct Clusters {
    /// A directory to make clusters in, or sim:SPEC; may be repeated
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["live", "conninfo", "host", "port", "username", "dbname"])]
    scratch: Vec<OsString>,
    /// Where a server's programs are; may be repeated [default: the newest installed]
    #[arg(long = "bin", value_name = "[NAME=]DIR", requires = "scratch")]
    binaries: Vec<String>,
    /// A setting for all clusters; may be repeated
    #[arg(long = "set", value_name = "P=V", requires = "scratch", value_parser = setting)]
    settings: Vec<Setting>,
    /// A setting whose values are compared; may be repeated
    #[arg(long = "vary", value_name = "P=V1,V2")]
    varied: Vec<String>,
    /// Measure on a standby how long it replays a copy
    #[arg(long, requires = "scratch")]
    standby: bool,
    #[command(flatten)]
    recording: Recording,
}

/// What is copied, and how
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What is copied")]
struct Work {
    /// The template database
    #[arg(short = 'T', long, value_name = "NAME", default_value = "template0")]
    template: String,
    /// Make the template: so many small tables, or those of pgbench at a scale
    #[arg(long, value_name = "tables=N|pgbench=S", conflicts_with = "template", value_parser = recipe)]
    make_template: Option<Recipe>,
    /// file_copy, file_copy+clone, wal_log [default: all that the server has]
    #[arg(long = "strategy", value_name = "STRATEGY", value_delimiter = ',', value_parser = strategy)]
    strategies: Vec<Strategy>,
    /// Databases created in a row, then dropped in a row
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = grammar::number(1..=1000_u16))]
    creates: u16,
    /// Sessions at once; several numbers are compared
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1", value_parser = grammar::number(1..=1000_u16))]
    jobs: Vec<u16>,
    /// Dirty so much of another database before each CREATE
    #[arg(long, value_name = "SIZE", value_parser = grammar::size)]
    dirty: Option<u64>,
    /// How long to wait while others are connected to the template
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = grammar::duration)]
    wait: Duration,
    /// For test suites that clone a template: clones per second by strategy and jobs, and the line for their code
    #[arg(long, conflicts_with = "jobs")]
    recommend: bool,
}

fn setting(text: &str) -> Result<Setting, String> {
    Setting::parse(text).map_err(|error| error.to_string())
}

fn recipe(text: &str) -> Result<Recipe, String> {
    Recipe::parse(text).map_err(|error| error.to_string())
}

fn strategy(text: &str) -> Result<Strategy, String> {
    Strategy::named(text).ok_or_else(|| format!("one of {}", Strategy::ALL.map(Strategy::name).join(", ")))
}

/// Measures, prints, undoes; the exit status.
pub fn run(args: &Args, color: ColorChoice, verbose: bool) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(Signals::install()?, verbose);
    let request = request(args, &screen)?;
    let survey = CreatedbSurvey::new(request, &screen).map_err(|error| problem(&error))?;
    let paper = Paper::new(args.json.as_deref(), color)?;
    let state = journal::state_directory()?;
    super::copy::offer_cleaning(&state, &screen);
    let journal = Journal::create(&state)?;
    let making = args.clusters.recording.making(survey.seed(), &state, &journal);
    let measured = on_places(survey, &making, &screen, &paper);
    screen.event(Event::Phase(Phase::Undoing));
    let undone = clean::undo_own(journal);
    screen.finish();
    let document = measured?;
    let status = status(&document, screen.stop());
    let text = format!("\n{}", report::results(&document));
    let advice = if args.work.recommend { report::recommendation(&document) } else { String::new() };
    paper.finish_as(&document, &(text + &advice), &screen)?;
    undone?;
    Ok(status)
}

fn request(args: &Args, screen: &Screen) -> anyhow::Result<CreatedbRequest> {
    let servers = if args.connection.live {
        servers(&args.connection, args.conninfo.as_ref(), screen)?
    } else {
        Vec::new()
    };
    if servers.is_empty() && args.clusters.scratch.is_empty() {
        let message = "createdb needs a cluster of its own, or leave to use a server that is not made for it";
        let hint = "--scratch DIR makes a cluster there; --live uses the server that psql would reach";
        return Err(Problem::refused(message).hint(Some(hint)).into());
    }
    let scratch = places::scratch(&args.clusters.scratch)?;
    args.clusters.recording.check(&scratch)?;
    let jobs = if args.work.recommend { vec![1, 2, 4, 8] } else { args.work.jobs.clone() };
    if args.work.dirty.is_some() && jobs.iter().any(|jobs| *jobs > 1) {
        let message = "--dirty dirties buffers before each CREATE, and with several sessions at once there is no before";
        return Err(Problem::usage(message).hint(Some("--jobs 1, without --recommend")).into());
    }
    let varied = args.clusters.varied.iter().map(|text| parse_vary(text)).collect::<Result<Vec<_>, _>>();
    let varied = varied.map_err(|error| Problem::usage(error.to_string()))?;
    // Somebody's server is asked for one round, unless more were asked for.
    let (counted, warmup) = if args.connection.live { (1, 0) } else { (7, 1) };
    let rounds = args.rounds.clone().or(counted, warmup, TIME_LIMIT);
    Ok(CreatedbRequest {
        scratch,
        binaries: binaries(args)?,
        servers,
        settings: args.clusters.settings.clone(),
        varied,
        strategies: args.work.strategies.clone(),
        template: args.work.template.clone(),
        recipe: args.work.make_template,
        creates: args.work.creates.into(),
        jobs: jobs.into_iter().map(usize::from).collect(),
        dirty_bytes: args.work.dirty,
        standby: args.clusters.standby,
        wait: args.work.wait,
        others_may_be_active: args.connection.yes,
        plan: rounds.plan(),
        aa: args.rounds.aa,
        argv: redact::arguments(std::env::args_os()),
    })
}

fn binaries(args: &Args) -> Result<Vec<String>, Problem> {
    if !args.clusters.binaries.is_empty() || args.clusters.scratch.is_empty() {
        return Ok(args.clusters.binaries.clone());
    }
    match installed() {
        Some(directory) => Ok(vec![directory.to_string_lossy().into_owned()]),
        None => Err(Problem::refused("no PostgreSQL server is installed here")
            .hint(Some("--bin DIR names the directory of postgres, initdb and pg_ctl"))),
    }
}

/// The server that the options name, then every `--server`.
pub(super) fn servers(
    connection: &Connection,
    conninfo: Option<&String>,
    screen: &Screen,
) -> anyhow::Result<Vec<(String, Target)>> {
    let Connection { host, port, username, dbname, servers, .. } = connection;
    let database = conninfo.or(dbname.as_ref()).cloned();
    let first = Asked { host: host.clone(), port: port.clone(), user: username.clone(), database };
    let mut asked = Vec::new();
    if servers.is_empty() || first != Asked::default() {
        asked.push(("server".to_owned(), first));
    }
    for text in servers {
        match text.split_once('=') {
            Some((name, conninfo)) if !name.is_empty() && !conninfo.is_empty() => {
                asked.push((name.to_owned(), Asked::conninfo(conninfo)));
            }
            _ => return Err(Problem::usage("--server takes NAME=CONNINFO").into()),
        }
    }
    let around = Surroundings::here().map_err(|error| Problem::failed(error.to_string()))?;
    let mut found = Vec::new();
    for (name, asked) in asked {
        let target =
            resolve(&asked, &around).map_err(|error| Problem::usage(error.to_string()).hint(error.hint()))?;
        for caution in &target.cautions {
            screen.say(&format!("WARNING: {caution}"));
        }
        found.push((name, target));
    }
    Ok(found)
}

/// Says what will be made, makes the drives, measures, takes them apart.
fn on_places(
    survey: CreatedbSurvey,
    making: &Making<'_>,
    screen: &Screen,
    paper: &Paper,
) -> anyhow::Result<Document> {
    for intent in survey.intents() {
        screen.say(&format!("{intent}."));
    }
    screen.event(Event::Phase(Phase::Making));
    let run = survey.make(making).map_err(|error| place_problem(&error, COMMAND))?;
    let measured = measure(&run, making.journal, screen, paper);
    screen.event(Event::Phase(Phase::Undoing));
    let undone = clean::undo_on_drives(making.journal);
    let closed = run.close(making.journal).map_err(|error| place_problem(&error, COMMAND));
    let document = measured?;
    undone?;
    closed?;
    Ok(document)
}

/// Makes the clusters, says what that costs, measures.
fn measure(run: &CreatedbRun, journal: &Journal, screen: &Screen, paper: &Paper) -> anyhow::Result<Document> {
    let stopped = |error: CreatedbError| match (&error, screen.stop()) {
        (
            CreatedbError::Server(ServerError::Stopped(_) | ServerError::Sys(_)),
            Some(Stop::Signal(signal)),
        ) => Problem::stopped(signal),
        _ => problem(&error),
    };
    let entered = run.enter(journal, screen).map_err(stopped)?;
    for cost in entered.costs().map_err(|error| problem(&error))? {
        screen.say(&format!("{cost}."));
    }
    screen.without_bar(|| paper.head(entered.head()))?;
    if let Some(temporary) = paper.temporary() {
        journal.push(&temporary)?;
    }
    Ok(entered.conduct(screen, &mut |document| {
        screen.event(Event::Phase(Phase::WritingResults));
        paper.keep(document)
    })?)
}

fn problem(error: &CreatedbError) -> Problem {
    match error {
        CreatedbError::Place(error) => place_problem(error, COMMAND),
        CreatedbError::Refused(refusal) => Problem::refused(refusal.to_string())
            .hint(Some("--yes measures beside them, and slows them down")),
        CreatedbError::Server(
            error @ (ServerError::Unreachable { .. }
            | ServerError::NoBinaries { .. }
            | ServerError::NoProgram { .. }
            | ServerError::Unusable { .. }
            | ServerError::Impassable { .. }
            | ServerError::Standby
            | ServerError::MayNotCreate
            | ServerError::TemplateNotOurs { .. }
            | ServerError::TemplateHeld { .. }
            | ServerError::InvalidTemplate { .. }
            | ServerError::CollationMismatch { .. }
            | ServerError::ScratchOnly { .. }),
        ) => Problem::refused(error.to_string()).hint(error.hint()),
        CreatedbError::Server(
            error @ (ServerError::SettingIsOurs { .. }
            | ServerError::UnknownSetting { .. }
            | ServerError::FixedSetting { .. }
            | ServerError::NameTooLong { .. }
            | ServerError::MalformedSetting { .. }),
        ) => Problem::usage(error.to_string()).hint(error.hint()),
        CreatedbError::Server(error) => Problem::failed(error.to_string()).hint(error.hint()),
    }
}

fn status(document: &Document, stop: Option<Stop>) -> ExitCode {
    let arms = &document.arms;
    match stop {
        Some(Stop::Signal(signal)) if !document.complete => Status::Signal(signal).into(),
        _ if arms.iter().any(|arm| arm.failed.is_some()) => Status::Failed.into(),
        _ if arms.iter().all(|arm| arm.refused.is_some()) => Status::Refused.into(),
        _ => ExitCode::SUCCESS,
    }
}
