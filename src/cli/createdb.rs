//! `fsynclab createdb`: how long CREATE and DROP DATABASE take on a real server, by strategy.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anstream::ColorChoice;

use super::paper::Paper;
use super::problem::Problem;
use super::rounds::{Defaults, Rounds};
use super::screen::Screen;
use super::servers::{Clusters, Connection};
use super::{grammar, redact, servers};
use crate::lab::createdb::{CreatedbRequest, CreatedbRun, CreatedbSurvey};
use crate::lab::servers::ServersError;
use crate::place::{Making, PlaceError};
use crate::report;
use crate::results::Document;
use crate::server::createdb::Strategy;
use crate::server::createdb::template::Recipe;
use crate::sys::journal::Journal;
use crate::sys::signals::Signals;

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
    /// Measure on a standby how long it replays a copy
    #[arg(long, requires = "scratch")]
    standby: bool,
    /// For test suites that clone a template: clones per second by strategy and jobs, and the line for their code
    #[arg(long, conflicts_with = "jobs")]
    recommend: bool,
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
    let survey = CreatedbSurvey::new(request, &screen).map_err(|error| problem(&error, &screen))?;
    let paper = Paper::new(args.json.as_deref(), color)?;
    for intent in survey.intents() {
        screen.say(&format!("{intent}."));
    }
    servers::carried_out(survey, &args.clusters.recording, paper, &screen, |document| {
        let advice = if args.work.recommend { report::recommendation(document) } else { String::new() };
        servers::plain(document) + &advice
    })
}

impl servers::Surveyed for CreatedbSurvey {
    type Run = CreatedbRun;
    const COMMAND: &'static str = COMMAND;

    fn seed(&self) -> u64 {
        self.seed()
    }

    fn make(self, making: &Making<'_>) -> Result<CreatedbRun, PlaceError> {
        self.make(making)
    }

    fn measure(
        run: &CreatedbRun,
        journal: &Journal,
        screen: &Screen,
        paper: &Paper,
    ) -> anyhow::Result<Document> {
        let entered = run.enter(journal, screen).map_err(|error| problem(&error, screen))?;
        for cost in entered.costs().map_err(|error| problem(&error, screen))? {
            screen.say(&format!("{cost}."));
        }
        screen.without_bar(|| paper.head(entered.head()))?;
        Ok(entered.conduct(screen, &mut paper.keeper(journal, screen)?)?)
    }

    fn close(run: CreatedbRun, journal: &Journal) -> Result<(), PlaceError> {
        run.close(journal)
    }
}

fn request(args: &Args, screen: &Screen) -> anyhow::Result<CreatedbRequest> {
    let jobs = if args.work.recommend { vec![1, 2, 4, 8] } else { args.work.jobs.clone() };
    if args.work.dirty.is_some() && jobs.iter().any(|jobs| *jobs > 1) {
        let message = "--dirty dirties buffers before each CREATE, and with several sessions at once there is no before";
        return Err(Problem::usage(message).hint(Some("--jobs 1, without --recommend")).into());
    }
    // Somebody's server is asked for one round, unless more were asked for.
    let (counted, warmup) = if args.connection.live { (1, 0) } else { (7, 1) };
    let rounds = args.rounds.clone().or(counted, warmup, TIME_LIMIT);
    let Args { conninfo, connection, clusters, .. } = args;
    Ok(CreatedbRequest {
        servers: servers::request("createdb", connection, conninfo.as_ref(), clusters, screen)?,
        strategies: args.work.strategies.clone(),
        template: args.work.template.clone(),
        recipe: args.work.make_template,
        creates: args.work.creates.into(),
        jobs: jobs.into_iter().map(usize::from).collect(),
        dirty_bytes: args.work.dirty,
        standby: args.work.standby,
        wait: args.work.wait,
        plan: rounds.plan(),
        aa: args.rounds.aa,
        argv: redact::arguments(std::env::args_os()),
    })
}

fn problem(error: &ServersError, screen: &Screen) -> Problem {
    servers::run_problem(error, COMMAND, screen)
}
