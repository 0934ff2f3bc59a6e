//! `fsynclab restore`: how long `pg_dump | psql` or pg_restore takes on a real server, per setting.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anstream::ColorChoice;

use super::paper::Paper;
use super::places::place_problem;
use super::problem::Problem;
use super::rounds::{Defaults, Rounds};
use super::screen::Screen;
use super::servers::{Clusters, Connection};
use super::{grammar, redact, servers};
use crate::lab::restore::{Origin, RestoreRequest, RestoreRun, RestoreRunError, RestoreSurvey};
use crate::place::{Making, PlaceError};
use crate::report;
use crate::results::Document;
use crate::server::conninfo::Asked;
use crate::server::restore::RestoreError;
use crate::sys::SysError;
use crate::sys::journal::Journal;
use crate::sys::signals::Signals;
use crate::sys::watch::{Event, Stop, Watch};

/// What takes a place, for hints.
const COMMAND: &str = "fsynclab restore --scratch";

/// A restore takes what it takes, unless a limit was asked for.
const TIME_LIMIT: Duration = Duration::from_hours(24 * 30);

const DEFAULTS: Defaults =
    Defaults { rounds: "3; with --live 1", warmup: "0", order: "in-turn", time_limit: "30d" };

/// How long a restore takes on a real server, per setting or build
///
/// CREATE DATABASE, the load by `pg_dump | psql`, psql or pg_restore, ANALYZE and CHECKPOINT, in clusters made for the run
/// and removed after it. The source is only read. A plain dump is read before psql gets it: one that reaches beyond its
/// database is refused.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true, mut_args(|arg| DEFAULTS.tell(arg)))]
#[command(group = clap::ArgGroup::new("origin").required(true).args(["from", "dump"]))]
pub struct Args {
    /// With --live, the server: a database name, connection parameters or a URI, as psql takes them
    #[arg(value_name = "CONNINFO", requires = "live")]
    conninfo: Option<String>,
    #[command(flatten)]
    connection: Connection,
    /// Dump this database and restore it: a name, connection parameters or a URI, as psql takes them
    #[arg(long, value_name = "CONNINFO")]
    from: Option<String>,
    /// Restore this dump: plain (also packed by gzip, zstd, xz, lz4), custom, tar or directory
    #[arg(long, value_name = "PATH")]
    dump: Option<PathBuf>,
    /// Dump the database once for all trials, in place of once for each
    #[arg(long, conflicts_with = "dump")]
    dump_once: bool,
    /// Sessions of pg_restore at once
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = grammar::number(1..=1000_u16))]
    jobs: u16,
    #[command(flatten)]
    clusters: Clusters,
    #[command(flatten)]
    rounds: Rounds,
    /// Write the results to FILE, replaced after every round; - is standard output, and nothing else goes there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print help
    #[arg(id = "help", short = '?', long = "help", action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Measures, prints, undoes; the exit status.
pub fn run(args: &Args, color: ColorChoice, verbose: bool) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(Signals::install()?, verbose);
    let request = request(args, &screen)?;
    let survey = RestoreSurvey::new(request, &screen).map_err(|error| problem(&error, &screen))?;
    let paper = Paper::new(args.json.as_deref(), color)?;
    servers::carried_out(survey, &args.clusters.recording, paper, &screen, servers::plain)
}

impl servers::Surveyed for RestoreSurvey {
    type Run = RestoreRun;
    const COMMAND: &'static str = COMMAND;

    fn seed(&self) -> u64 {
        self.seed()
    }

    fn make(self, making: &Making<'_>) -> Result<RestoreRun, PlaceError> {
        self.make(making)
    }

    fn measure(
        run: &RestoreRun,
        journal: &Journal,
        screen: &Screen,
        paper: &Paper,
    ) -> anyhow::Result<Document> {
        for intent in run.intents() {
            screen.say(&format!("{intent}."));
        }
        let entered = run.enter(journal, screen).map_err(|error| problem(&error, screen))?;
        for cost in entered.costs().map_err(|error| problem(&error, screen))? {
            screen.say(&format!("{cost}."));
        }
        screen.without_bar(|| paper.head(entered.head()))?;
        let announcing = Announcing { screen, trials: run.trials(), said: AtomicBool::new(false) };
        Ok(entered.conduct(&announcing, &mut paper.keeper(journal, screen)?)?)
    }

    fn close(run: RestoreRun, journal: &Journal) -> Result<(), PlaceError> {
        run.close(journal)
    }
}

fn request(args: &Args, screen: &Screen) -> anyhow::Result<RestoreRequest> {
    let Args { conninfo, connection, clusters, .. } = args;
    let servers = servers::request("restore", connection, conninfo.as_ref(), clusters, screen)?;
    if args.dump_once && servers.scratch.is_empty() {
        let message = "--dump-once keeps the dump at the place of a scratch cluster, and there is none";
        return Err(Problem::usage(message).into());
    }
    // Somebody's server is asked for one round, unless more were asked for.
    let rounds = if connection.live { 1 } else { 3 };
    Ok(RestoreRequest {
        origin: origin(args, screen)?,
        dump_once: args.dump_once,
        servers,
        jobs: args.jobs.into(),
        plan: args.rounds.clone().or(rounds, 0, TIME_LIMIT).or_in_turn().plan(),
        aa: args.rounds.aa,
        argv: redact::arguments(std::env::args_os()),
    })
}

fn origin(args: &Args, screen: &Screen) -> anyhow::Result<Origin> {
    let Some(conninfo) = &args.from else {
        return Ok(Origin::Dump(args.dump.clone().unwrap_or_default()));
    };
    Ok(Origin::From(Box::new(servers::target(&Asked::conninfo(conninfo), screen)?)))
}

/// The screen, which after the first trial also says how long the run will take.
struct Announcing<'a> {
    screen: &'a Screen,
    trials: u64,
    said: AtomicBool,
}

impl Watch for Announcing<'_> {
    fn event(&self, event: Event<'_>) {
        self.screen.event(event);
        let Event::TrialDone { elapsed_ns: Some(elapsed_ns), .. } = event else { return };
        if !self.said.swap(true, Ordering::Relaxed) && self.trials > 1 {
            let (first, all) = (report::duration(elapsed_ns), report::duration(elapsed_ns * self.trials));
            self.screen
                .say(&format!("first trial done: {first}; {} trials = about {all} in all", self.trials));
        }
    }

    fn stop(&self) -> Option<Stop> {
        self.screen.stop()
    }
}

fn problem(error: &RestoreRunError, screen: &Screen) -> Problem {
    let error = match error {
        RestoreRunError::Place(error) => return place_problem(error, COMMAND),
        RestoreRunError::Restore(RestoreError::Server(error)) => return servers::problem(error, screen),
        RestoreRunError::Restore(error) => error,
    };
    let problem = match (error, screen.stop()) {
        (RestoreError::Sys(SysError::Stopped { .. }), Some(Stop::Signal(signal))) => {
            return Problem::stopped(signal);
        }
        (RestoreError::Danger { .. } | RestoreError::NoRoom { .. } | RestoreError::NoRoles { .. }, _) => {
            Problem::refused
        }
        (RestoreError::NotParallel, _) => Problem::usage,
        _ => Problem::failed,
    };
    problem(error.to_string()).hint(error.hint())
}
