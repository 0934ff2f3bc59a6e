//! `fsynclab pgbench`: commits per second on a real server, per setting, build and place; and whether the disk can do that.

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
use crate::lab::pgbench::{PgbenchRequest, PgbenchRun, PgbenchSurvey};
use crate::lab::servers::ServersError;
use crate::place::{Making, PlaceError};
use crate::results::Document;
use crate::server::pgbench::{Length, Workload};
use crate::sys::journal::Journal;
use crate::sys::signals::Signals;

/// What takes a place, for hints.
const COMMAND: &str = "fsynclab pgbench --scratch";

/// Eight rounds of some arms, ten seconds each.
const TIME_LIMIT: Duration = Duration::from_hours(1);

const DEFAULTS: Defaults =
    Defaults { rounds: "7; with --live 1", warmup: "1; with --live 0", order: "shuffled", time_limit: "1h" };

/// Commits per second on a real server, per setting, build and place
///
/// The server's own pgbench in a database made for the run, on clusters made for it (--scratch) or on a server that is there
/// (--live). Commits are held against the syncs that probe measures at the place of the WAL, and against the platter.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true, mut_args(|arg| DEFAULTS.tell(arg)))]
pub struct Args {
    /// With --live, the server: a database name, connection parameters or a URI, as psql takes them
    #[arg(value_name = "CONNINFO", requires = "live")]
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

/// pgbench's own options
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What pgbench does")]
struct Work {
    /// Clients at once
    #[arg(short = 'c', long = "client", value_name = "N", default_value_t = 1, value_parser = grammar::number(1..=10_000_u32))]
    clients: u32,
    /// Threads of pgbench
    #[arg(short = 'j', long = "jobs", value_name = "N", default_value_t = 1, value_parser = grammar::number(1..=10_000_u32))]
    threads: u32,
    /// Seconds of each trial [default: 10]
    #[arg(short = 'T', long = "time", value_name = "N", value_parser = grammar::number(1..=1_000_000_u32))]
    seconds: Option<u32>,
    /// Transactions of each client in each trial, in place of seconds
    #[arg(short = 't', long = "transactions", value_name = "N", conflicts_with = "seconds", value_parser = grammar::number(1..=1_000_000_000_u32))]
    transactions: Option<u32>,
    /// Scale of the tables: 100,000 accounts each; below the number of clients they wait for each other
    #[arg(short = 's', long = "scale", value_name = "N", default_value_t = 10, value_parser = grammar::number(1..=100_000_u32))]
    scale: u32,
    /// Show progress every N seconds
    #[arg(short = 'P', long = "progress", value_name = "N", value_parser = grammar::number(1..=1_000_000_u32))]
    progress: Option<u32>,
    /// Begin so many transactions a second, not as many as there can be
    #[arg(short = 'R', long = "rate", value_name = "N", value_parser = grammar::number(1..=10_000_000_u32))]
    rate: Option<u32>,
}

impl Work {
    fn workload(&self) -> Workload {
        Workload {
            clients: self.clients,
            threads: self.threads,
            length: match (self.transactions, self.seconds) {
                (Some(each), _) => Length::Transactions(each),
                (None, seconds) => Length::Seconds(seconds.unwrap_or(10)),
            },
            scale: self.scale,
            progress: self.progress,
            rate: self.rate,
        }
    }
}

/// Measures, prints, undoes; the exit status.
pub fn run(args: &Args, color: ColorChoice, verbose: bool) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(Signals::install()?, verbose);
    let request = request(args, &screen)?;
    let survey = PgbenchSurvey::new(request, &screen).map_err(|error| problem(&error, &screen))?;
    let paper = Paper::new(args.json.as_deref(), color)?;
    for intent in survey.intents() {
        screen.say(&format!("{intent}."));
    }
    servers::carried_out(survey, &args.clusters.recording, paper, &screen, servers::plain)
}

impl servers::Surveyed for PgbenchSurvey {
    type Run = PgbenchRun;
    const COMMAND: &'static str = COMMAND;

    fn seed(&self) -> u64 {
        self.seed()
    }

    fn make(self, making: &Making<'_>) -> Result<PgbenchRun, PlaceError> {
        self.make(making)
    }

    fn measure(
        run: &PgbenchRun,
        journal: &Journal,
        screen: &Screen,
        paper: &Paper,
    ) -> anyhow::Result<Document> {
        let mut entered = run.enter(journal, screen).map_err(|error| problem(&error, screen))?;
        for cost in entered.costs().map_err(|error| problem(&error, screen))? {
            screen.say(&format!("{cost}."));
        }
        entered.furnish(screen).map_err(|error| problem(&error, screen))?;
        screen.without_bar(|| paper.head(entered.head()))?;
        Ok(entered.conduct(screen, &mut paper.keeper(journal, screen)?)?)
    }

    fn close(run: PgbenchRun, journal: &Journal) -> Result<(), PlaceError> {
        run.close(journal)
    }
}

fn request(args: &Args, screen: &Screen) -> anyhow::Result<PgbenchRequest> {
    let Args { conninfo, connection, clusters, .. } = args;
    // Somebody's server is asked for one round, unless more were asked for.
    let (counted, warmup) = if connection.live { (1, 0) } else { (7, 1) };
    Ok(PgbenchRequest {
        servers: servers::request("pgbench", connection, conninfo.as_ref(), clusters, screen)?,
        workload: args.work.workload(),
        plan: args.rounds.clone().or(counted, warmup, TIME_LIMIT).plan(),
        aa: args.rounds.aa,
        argv: redact::arguments(std::env::args_os()),
    })
}

fn problem(error: &ServersError, screen: &Screen) -> Problem {
    servers::run_problem(error, COMMAND, screen)
}
