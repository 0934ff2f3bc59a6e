//! The servers of createdb, restore and pgbench: those that are there and those made for the run, and what the three do
//! with them alike.

use std::ffi::OsString;
use std::process::ExitCode;

use super::paper::Paper;
use super::places::{self, Recording, place_problem};
use super::problem::{Problem, Status};
use super::screen::Screen;
use super::{clean, drive, grammar};
use crate::lab::servers::{ServersError, ServersRequest};
use crate::place::{Making, PlaceError};
use crate::report;
use crate::results::Document;
use crate::server::cluster::installed;
use crate::server::conninfo::{Asked, Surroundings, Target, resolve};
use crate::server::error::ServerError;
use crate::server::settings::{Setting, parse_vary};
use crate::storage::Cache;
use crate::sys::SysError;
use crate::sys::journal::{self, Journal};
use crate::sys::watch::{Event, Phase, Stop, Watch};

/// A server that is there, as psql reaches it
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Servers that are there")]
pub struct Connection {
    /// Measure on a server that is not made for the run: it is told what that costs first
    #[arg(long)]
    pub live: bool,
    /// Host, or directory of the socket
    #[arg(short = 'h', long, value_name = "HOST", requires = "live")]
    host: Option<String>,
    /// Port
    #[arg(short = 'p', long, value_name = "PORT", requires = "live")]
    port: Option<String>,
    /// Role
    #[arg(short = 'U', long, value_name = "ROLE", requires = "live")]
    username: Option<String>,
    /// A database name, connection parameters or a URI
    #[arg(short = 'd', long, value_name = "CONNINFO", conflicts_with = "conninfo", requires = "live")]
    dbname: Option<String>,
    /// One more server; may be repeated
    #[arg(long = "server", value_name = "NAME=CONNINFO", requires = "live")]
    servers: Vec<String>,
    /// Go on though other clients are active
    #[arg(long)]
    yes: bool,
}

/// Clusters made for the run
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Scratch clusters")]
pub struct Clusters {
    /// A directory to make clusters in, or sim:SPEC; may be repeated
    #[arg(long, value_name = "PLACE")]
    pub scratch: Vec<OsString>,
    /// Where their WAL lies, a directory or sim:SPEC [default: with the data]
    #[arg(long, value_name = "PLACE", requires = "scratch")]
    wal_into: Option<OsString>,
    /// Where a server's programs are; may be repeated [default: the newest installed]
    #[arg(long = "bin", value_name = "[NAME=]DIR", requires = "scratch")]
    binaries: Vec<String>,
    /// A setting for all clusters; may be repeated
    #[arg(long = "set", value_name = "P=V", requires = "scratch", value_parser = setting)]
    settings: Vec<Setting>,
    /// A setting whose values are compared; may be repeated
    #[arg(long = "vary", value_name = "P=V1,V2")]
    varied: Vec<String>,
    /// Compare states of the write cache of the drives below: on, off; it is brought back at the end
    #[arg(long = "write-cache", value_name = "STATE", value_delimiter = ',', value_parser = drive::state, requires = "scratch", conflicts_with = "wal_into")]
    write_caches: Vec<Cache>,
    /// Switch the write cache though others rely on the disk, or though it was found off
    #[arg(long, requires = "write_caches")]
    force: bool,
    #[command(flatten)]
    pub recording: Recording,
}

fn setting(text: &str) -> Result<Setting, String> {
    Setting::parse(text).map_err(|error| error.to_string())
}

/// What was asked for; `command` needs a cluster of its own, or leave to use a server that is not made for it.
pub fn request(
    command: &str,
    connection: &Connection,
    conninfo: Option<&String>,
    clusters: &Clusters,
    screen: &Screen,
) -> anyhow::Result<ServersRequest> {
    if !connection.live && clusters.scratch.is_empty() {
        let message =
            format!("{command} needs a cluster of its own, or leave to use a server that is not made for it");
        let hint = "--scratch DIR makes a cluster there; --live uses the server that psql would reach";
        return Err(Problem::refused(message).hint(Some(hint)).into());
    }
    let given: Vec<OsString> = clusters.scratch.iter().chain(&clusters.wal_into).cloned().collect();
    let mut scratch = places::scratch(&given)?;
    clusters.recording.check(&scratch)?;
    let wal_into = clusters.wal_into.as_ref().and_then(|_| scratch.pop());
    let varied = clusters.varied.iter().map(|text| parse_vary(text)).collect::<Result<Vec<_>, _>>();
    Ok(ServersRequest {
        scratch,
        wal_into,
        binaries: binaries(clusters)?,
        servers: if connection.live { servers(connection, conninfo, screen)? } else { Vec::new() },
        others_may_be_active: connection.yes,
        settings: clusters.settings.clone(),
        write_caches: grammar::none_twice("--write-cache", &clusters.write_caches)?,
        force: clusters.force,
        varied: varied.map_err(|error| Problem::usage(error.to_string()))?,
    })
}

fn binaries(clusters: &Clusters) -> Result<Vec<String>, Problem> {
    if !clusters.binaries.is_empty() || clusters.scratch.is_empty() {
        return Ok(clusters.binaries.clone());
    }
    match installed() {
        Some(directory) => Ok(vec![directory.to_string_lossy().into_owned()]),
        None => Err(Problem::refused("no PostgreSQL server is installed here")
            .hint(Some("--bin DIR names the directory of postgres, initdb and pg_ctl"))),
    }
}

/// The server that the options name, then every `--server`.
fn servers(
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
    asked.into_iter().map(|(name, asked)| Ok((name, target(&asked, screen)?))).collect()
}

/// Where a server is, with what is to be said of the way there.
pub fn target(asked: &Asked, screen: &Screen) -> Result<Target, Problem> {
    let around = Surroundings::here().map_err(|error| Problem::failed(error.to_string()))?;
    let target =
        resolve(asked, &around).map_err(|error| Problem::usage(error.to_string()).hint(error.hint()))?;
    for caution in &target.cautions {
        screen.say(&format!("WARNING: {caution}"));
    }
    Ok(target)
}

/// A run on servers that was looked at, and what a command does with it its own way.
pub trait Surveyed {
    /// With its drives made.
    type Run;
    /// What takes a place, for hints.
    const COMMAND: &'static str;

    /// Decides the drives.
    fn seed(&self) -> u64;
    /// Makes the simulated drives.
    fn make(self, making: &Making<'_>) -> Result<Self::Run, PlaceError>;
    /// Says what will be done and what that costs, then does it.
    fn measure(
        run: &Self::Run,
        journal: &Journal,
        screen: &Screen,
        paper: &Paper,
    ) -> anyhow::Result<Document>;
    /// Takes the simulated drives apart.
    fn close(run: Self::Run, journal: &Journal) -> Result<(), PlaceError>;
}

/// Makes the drives, measures, takes them apart, undoes the rest, prints by `report`; the exit status.
pub fn carried_out<S: Surveyed>(
    survey: S,
    recording: &Recording,
    paper: Paper,
    screen: &Screen,
    report: impl FnOnce(&Document) -> String,
) -> anyhow::Result<ExitCode> {
    let state = journal::state_directory()?;
    super::copy::offer_cleaning(&state, screen);
    let journal = Journal::create(&state)?;
    let making = recording.making(survey.seed(), &state, &journal);
    let measured = on_drives(survey, &making, screen, &paper);
    screen.event(Event::Phase(Phase::Undoing));
    let undone = clean::undo_own(journal);
    screen.finish();
    let document = measured?;
    let status = status(&document, screen.stop());
    paper.finish_as(&document, &report(&document), screen)?;
    undone?;
    Ok(status)
}

/// All that lies on the drives is undone before these are taken apart; the first error is told.
fn on_drives<S: Surveyed>(
    survey: S,
    making: &Making<'_>,
    screen: &Screen,
    paper: &Paper,
) -> anyhow::Result<Document> {
    screen.event(Event::Phase(Phase::Making));
    let run = survey.make(making).map_err(|error| place_problem(&error, S::COMMAND))?;
    let measured = S::measure(&run, making.journal, screen, paper);
    screen.event(Event::Phase(Phase::Undoing));
    let undone = clean::undo_on_drives(making.journal);
    let closed = S::close(run, making.journal).map_err(|error| place_problem(&error, S::COMMAND));
    let document = measured?;
    undone?;
    closed?;
    Ok(document)
}

/// The report as it stands below the header.
pub fn plain(document: &Document) -> String {
    format!("\n{}", report::results(document))
}

/// Why a run of `command` did not come to its end.
pub fn run_problem(error: &ServersError, command: &str, screen: &Screen) -> Problem {
    match error {
        ServersError::Place(error) => place_problem(error, command),
        ServersError::Server(error) => problem(error, screen),
    }
}

/// An error of a server, unless it is the end that a signal asked for.
pub fn problem(error: &ServerError, screen: &Screen) -> Problem {
    let is_stop = matches!(
        error,
        ServerError::Stopped(_) | ServerError::Sys(SysError::Stopped { .. }) | ServerError::Cluster { .. }
    );
    if let Some(Stop::Signal(signal)) = screen.stop().filter(|_| is_stop) {
        return Problem::stopped(signal);
    }
    let problem = match error {
        ServerError::Unreachable { .. }
        | ServerError::NoBinaries { .. }
        | ServerError::NoProgram { .. }
        | ServerError::NoClient { .. }
        | ServerError::ClientOlder { .. }
        | ServerError::Unusable { .. }
        | ServerError::Impassable { .. }
        | ServerError::OthersActive { .. }
        | ServerError::Standby
        | ServerError::MayNotCreate
        | ServerError::TemplateNotOurs { .. }
        | ServerError::TemplateHeld { .. }
        | ServerError::InvalidTemplate { .. }
        | ServerError::CollationMismatch { .. }
        | ServerError::ScratchOnly { .. } => Problem::refused,
        ServerError::SettingIsOurs { .. }
        | ServerError::UnknownSetting { .. }
        | ServerError::FixedSetting { .. }
        | ServerError::NameTooLong { .. }
        | ServerError::MalformedSetting { .. } => Problem::usage,
        _ => Problem::failed,
    };
    problem(error.to_string()).hint(error.hint())
}

/// How a run ended.
fn status(document: &Document, stop: Option<Stop>) -> ExitCode {
    let arms = &document.arms;
    match stop {
        Some(Stop::Signal(signal)) if !document.complete => Status::Signal(signal).into(),
        _ if arms.iter().any(|arm| arm.failed.is_some()) => Status::Failed.into(),
        _ if arms.iter().all(|arm| arm.refused.is_some()) => Status::Refused.into(),
        _ => ExitCode::SUCCESS,
    }
}
