//! `fsynclab restore`: how long `pg_dump | psql` or pg_restore takes on a real server, per setting.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anstream::ColorChoice;

use super::createdb::{Connection, servers};
use super::paper::Paper;
use super::places::{self, Recording, place_problem};
use super::problem::{Problem, Status};
use super::rounds::{Defaults, Rounds};
use super::screen::Screen;
use super::{clean, grammar, redact};
use crate::lab::restore::{Origin, RestoreRequest, RestoreRun, RestoreRunError, RestoreSurvey};
use crate::place::Making;
use crate::report;
use crate::results::Document;
use crate::server::cluster::installed;
use crate::server::conninfo::{Asked, Surroundings, resolve};
use crate::server::error::ServerError;
use crate::server::restore::RestoreError;
use crate::server::settings::{Setting, parse_vary};
use crate::sys::SysError;
use crate::sys::journal::{self, Journal};
use crate::sys::signals::Signals;
use crate::sys::watch::{Event, Phase, Stop, Watch};

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
    /// A directory to make clusters in, or sim:SPEC; may be repeated
    #[arg(long, value_name = "PLACE")]
    scratch: Vec<OsString>,
    #[command(flatten)]
    recording: Recording,
    /// Where a server's programs are; may be repeated [default: the newest installed]
    #[arg(long = "bin", value_name = "[NAME=]DIR")]
    binaries: Vec<String>,
    /// A setting for all clusters; may be repeated
    #[arg(long = "set", value_name = "P=V", value_parser = setting)]
    settings: Vec<Setting>,
    /// A setting whose values are compared; may be repeated
    #[arg(long = "vary", value_name = "P=V1,V2")]
    varied: Vec<String>,
    #[command(flatten)]
    rounds: Rounds,
    /// Write the results to FILE, replaced after every round; - is standard output, and nothing else goes there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print help
    #[arg(id = "help", short = '?', long = "help", action = clap::ArgAction::Help)]
    help: Option<bool>,
}

fn setting(text: &str) -> Result<Setting, String> {
    Setting::parse(text).map_err(|error| error.to_string())
}

/// Measures, prints, undoes; the exit status.
pub fn run(args: &Args, color: ColorChoice, verbose: bool) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(Signals::install()?, verbose);
    let request = request(args, &screen)?;
    let survey = RestoreSurvey::new(request, &screen).map_err(|error| stopped(&error, &screen))?;
    let paper = Paper::new(args.json.as_deref(), color)?;
    let state = journal::state_directory()?;
    super::copy::offer_cleaning(&state, &screen);
    let journal = Journal::create(&state)?;
    let making = args.recording.making(survey.seed(), &state, &journal);
    let measured = on_places(survey, &making, &screen, &paper);
    screen.event(Event::Phase(Phase::Undoing));
    let undone = clean::undo_own(journal);
    screen.finish();
    let document = measured?;
    let status = status(&document, screen.stop());
    paper.finish(&document, &screen)?;
    undone?;
    Ok(status)
}

fn request(args: &Args, screen: &Screen) -> anyhow::Result<RestoreRequest> {
    let Connection { live, yes, .. } = args.connection;
    let servers = if live { servers(&args.connection, args.conninfo.as_ref(), screen)? } else { Vec::new() };
    if servers.is_empty() && args.scratch.is_empty() {
        let message = "restore needs a cluster of its own, or leave to use a server that is not made for it";
        let hint = "--scratch DIR makes a cluster there; --live uses the server that psql would reach";
        return Err(Problem::refused(message).hint(Some(hint)).into());
    }
    if args.dump_once && args.scratch.is_empty() {
        let message = "--dump-once keeps the dump at the place of a scratch cluster, and there is none";
        return Err(Problem::usage(message).into());
    }
    let scratch = places::scratch(&args.scratch)?;
    args.recording.check(&scratch)?;
    // Somebody's server is asked for one round, unless more were asked for.
    let rounds = if live { 1 } else { 3 };
    let varied = args.varied.iter().map(|text| parse_vary(text)).collect::<Result<Vec<_>, _>>();
    let varied = varied.map_err(|error| Problem::usage(error.to_string()))?;
    Ok(RestoreRequest {
        origin: origin(args, screen)?,
        dump_once: args.dump_once,
        scratch,
        binaries: binaries(args)?,
        servers,
        others_may_be_active: yes,
        settings: args.settings.clone(),
        varied,
        jobs: args.jobs.into(),
        plan: args.rounds.clone().or(rounds, 0, TIME_LIMIT).or_in_turn().plan(),
        aa: args.rounds.aa,
        argv: redact::arguments(std::env::args_os()),
    })
}

fn binaries(args: &Args) -> Result<Vec<String>, Problem> {
    if !args.binaries.is_empty() || args.scratch.is_empty() {
        return Ok(args.binaries.clone());
    }
    match installed() {
        Some(directory) => Ok(vec![directory.to_string_lossy().into_owned()]),
        None => Err(Problem::refused("no PostgreSQL server is installed here")
            .hint(Some("--bin DIR names the directory of postgres, initdb and pg_ctl"))),
    }
}

fn origin(args: &Args, screen: &Screen) -> anyhow::Result<Origin> {
    let Some(conninfo) = &args.from else {
        return Ok(Origin::Dump(args.dump.clone().unwrap_or_default()));
    };
    let around = Surroundings::here().map_err(|error| Problem::failed(error.to_string()))?;
    let target = resolve(&Asked::conninfo(conninfo), &around)
        .map_err(|error| Problem::usage(error.to_string()).hint(error.hint()))?;
    for caution in &target.cautions {
        screen.say(&format!("WARNING: {caution}"));
    }
    Ok(Origin::From(Box::new(target)))
}

/// Makes the drives, measures, takes them apart.
fn on_places(
    survey: RestoreSurvey,
    making: &Making<'_>,
    screen: &Screen,
    paper: &Paper,
) -> anyhow::Result<Document> {
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

/// Says what will be done, then does it.
fn measure(run: &RestoreRun, journal: &Journal, screen: &Screen, paper: &Paper) -> anyhow::Result<Document> {
    for intent in run.intents() {
        screen.say(&format!("{intent}."));
    }
    let entered = run.enter(journal, screen).map_err(|error| stopped(&error, screen))?;
    for cost in entered.costs().map_err(|error| stopped(&error, screen))? {
        screen.say(&format!("{cost}."));
    }
    screen.without_bar(|| paper.head(entered.head()))?;
    if let Some(temporary) = paper.temporary() {
        journal.push(&temporary)?;
    }
    let announcing = Announcing { screen, trials: run.trials(), said: AtomicBool::new(false) };
    Ok(entered.conduct(&announcing, &mut |document| {
        screen.event(Event::Phase(Phase::WritingResults));
        paper.keep(document)
    })?)
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

fn stopped(error: &RestoreRunError, screen: &Screen) -> Problem {
    let is_stop = matches!(
        error,
        RestoreRunError::Restore(
            RestoreError::Server(ServerError::Stopped(_) | ServerError::Sys(SysError::Stopped { .. }))
                | RestoreError::Sys(SysError::Stopped { .. })
        )
    );
    match screen.stop() {
        Some(Stop::Signal(signal)) if is_stop => Problem::stopped(signal),
        _ => problem(error),
    }
}

fn problem(error: &RestoreRunError) -> Problem {
    match error {
        RestoreRunError::Place(error) => place_problem(error, COMMAND),
        RestoreRunError::Restore(error) => {
            let message = error.to_string();
            let problem = match error {
                RestoreError::Danger { .. }
                | RestoreError::NoClient { .. }
                | RestoreError::ClientOlder { .. }
                | RestoreError::NoRoom { .. }
                | RestoreError::NoRoles { .. }
                | RestoreError::OthersActive { .. }
                | RestoreError::Server(
                    ServerError::Unreachable { .. }
                    | ServerError::NoBinaries { .. }
                    | ServerError::NoProgram { .. }
                    | ServerError::Unusable { .. }
                    | ServerError::Impassable { .. }
                    | ServerError::Standby
                    | ServerError::ScratchOnly { .. },
                ) => Problem::refused(message),
                RestoreError::NotParallel
                | RestoreError::Server(
                    ServerError::SettingIsOurs { .. }
                    | ServerError::UnknownSetting { .. }
                    | ServerError::FixedSetting { .. }
                    | ServerError::MalformedSetting { .. },
                ) => Problem::usage(message),
                _ => Problem::failed(message),
            };
            problem.hint(error.hint())
        }
    }
}

fn status(document: &Document, stop: Option<Stop>) -> ExitCode {
    match stop {
        Some(Stop::Signal(signal)) if !document.complete => Status::Signal(signal).into(),
        _ if document.arms.iter().any(|arm| arm.failed.is_some()) => Status::Failed.into(),
        _ => ExitCode::SUCCESS,
    }
}
