//! `fsynclab probe`: how fast and how honest a sync is here; `--published` judges somebody's pg_test_fsync output.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anstream::ColorChoice;

use super::paper::Paper;
use super::places::{Recording, drive_problem, place_problem};
use super::problem::{Problem, Status, exit_of};
use super::screen::Screen;
use super::{clean, drive, grammar, published, redact};
use crate::lab::probe_run::{ProbeRequest, ProbeRun, ProbeRunError, Time};
use crate::lab::{Order, Plan};
use crate::place::{Asked, Making, Surveyed};
use crate::probe::cases::{CASES, Case, PG_BLOCKS};
use crate::probe::published::Medium;
use crate::report;
use crate::results::Document;
use crate::storage::Cache;
use crate::sys::journal::{self, Journal};
use crate::sys::random::fresh_seed;
use crate::sys::real::Real;
use crate::sys::signals::Signals;
use crate::sys::watch::{Event, Phase, Stop, Watch};

/// A run that takes longer than this many times what was asked for ends early: a disk slower than its slices.
const LONGEST: u32 = 3;
/// Seconds a line with `--pg`, as pg_test_fsync takes them.
const PG_SECONDS: u32 = 1;

/// What a directory is given to.
const COMMAND: &str = "fsynclab probe";

/// How fast and how honest a sync is: all that pg_test_fsync measures and more
///
/// All work is done in a directory of its own, which is removed; an existing file is never touched. Exit status 4 where
/// syncs are answered from memory or do not reach the device.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory to work in, or sim:SPEC
    #[arg(value_name = "PATH", default_value = ".")]
    path: OsString,
    /// A simulated drive to work on, as copy takes it
    #[arg(long, value_name = "SPEC", conflicts_with = "path")]
    sim: Option<String>,
    #[command(flatten)]
    recording: Recording,
    /// Seconds for each line, as pg_test_fsync takes them
    #[arg(short = 's', long, value_name = "N", conflicts_with = "time", value_parser = grammar::number(1..=1_000_000_u32))]
    secs_per_test: Option<u32>,
    /// How long all of it takes
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = grammar::duration)]
    time: Duration,
    /// Only these groups of lines: one8, two8, sizes, fd, nosync (pg_test_fsync's), server, wal, …
    #[arg(long, value_name = "BLOCK", value_delimiter = ',', value_parser = block)]
    only: Vec<&'static str>,
    /// Print pg_test_fsync's lines in its very layout, one second each unless -s says otherwise
    #[arg(long)]
    pg: bool,
    /// Slices of each line
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = grammar::number(1..=1_000_000_u32))]
    rounds: u32,
    /// The order of slices follows from it [default: a new one, printed]
    #[arg(long, value_name = "N", value_parser = grammar::seed)]
    seed: Option<u64>,
    /// Write the results to FILE, replaced after every round; - is standard output, and nothing else goes there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Compare states of the drives' write cache: on, off; it is brought back at the end
    #[arg(long = "write-cache", value_name = "STATE", value_delimiter = ',', value_parser = drive::state, conflicts_with = "pg")]
    write_caches: Vec<Cache>,
    /// Switch the write cache though others rely on the disk, or though it was found off
    #[arg(long, requires = "write_caches")]
    force: bool,
    /// Run syncfs too where a running cluster shares the file system
    #[arg(long)]
    beside_server: bool,
    /// Measure nothing: read and judge pg_test_fsync output of 9.1 to 19; - is standard input
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["path", "sim", "write_log", "pg", "secs_per_test", "only", "write_caches"])]
    published: Vec<PathBuf>,
    /// What the published output was measured on: flash, rotating, or a rate as 7200rpm
    #[arg(long, value_name = "MEDIUM", requires = "published", value_parser = published::medium)]
    medium: Option<Medium>,
}

/// Measures and judges, or reads and judges.
pub fn run(args: &Args, color: ColorChoice, verbose: bool) -> anyhow::Result<ExitCode> {
    if !args.published.is_empty() {
        let medium = args.medium.unwrap_or(Medium::Unknown);
        return published::run(&args.published, medium, args.json.as_deref(), color);
    }
    let asked = [asked(args)?];
    let request = request(args)?;
    let screen = Screen::new(Signals::install()?, verbose);
    let surveyed = Surveyed::new(&asked).map_err(|error| place_problem(&error, COMMAND))?;
    let paper = Paper::new(args.json.as_deref(), color)?;
    let state = journal::state_directory()?;
    super::copy::offer_cleaning(&state, &screen);
    let journal = Journal::create(&state)?;
    let making = args.recording.making(request.plan.seed, &state, &journal);
    let measured = on_place(args, request, surveyed, &making, &screen, &paper);
    screen.event(Event::Phase(Phase::Undoing));
    let undone = clean::undo_own(journal);
    screen.finish();
    let document = measured?;
    let status = status(&document, screen.stop());
    if args.pg {
        let layout = report::pg_test_fsync(&document, args.secs_per_test.unwrap_or(PG_SECONDS));
        paper.finish_as(&document, &layout, &screen)?;
        if let Some(verdict) = &document.verdict {
            screen.say(report::verdict(verdict).trim_end());
        }
    } else {
        paper.finish(&document, &screen)?;
    }
    undone?;
    Ok(status)
}

fn asked(args: &Args) -> Result<Asked, Problem> {
    let asked = args.sim.as_ref().map_or_else(|| Asked::read(&args.path), |spec| Asked::drive(spec));
    let asked = asked.map_err(|error| drive_problem(&error))?;
    args.recording.check(std::slice::from_ref(&asked))?;
    Ok(asked)
}

fn request(args: &Args) -> Result<ProbeRequest, Problem> {
    let write_caches = grammar::none_twice("--write-cache", &args.write_caches)?;
    let cases: Vec<&'static Case> = CASES
        .iter()
        .filter(|case| !args.pg || PG_BLOCKS.contains(&case.block))
        .filter(|case| args.only.is_empty() || args.only.contains(&case.block))
        .collect();
    let each = args.secs_per_test.or(args.pg.then_some(PG_SECONDS));
    let time = each
        .map_or(Time::Whole(args.time), |seconds| Time::EachCase(Duration::from_secs(u64::from(seconds))));
    let limit = time.whole(cases.len() * write_caches.len().max(1)).saturating_mul(LONGEST);
    Ok(ProbeRequest {
        cases,
        plan: Plan {
            rounds: args.rounds,
            warmup: 1,
            order: Order::Shuffled,
            seed: args.seed.unwrap_or_else(fresh_seed),
            time_limit: Some(limit),
        },
        time,
        beside_server: args.beside_server,
        write_caches,
        force: args.force,
        argv: redact::arguments(std::env::args_os()),
    })
}

fn block(text: &str) -> Result<&'static str, String> {
    let mut blocks: Vec<&'static str> = CASES.iter().map(|case| case.block).collect();
    blocks.dedup();
    let found = blocks.iter().find(|block| **block == text);
    found.copied().ok_or_else(|| format!("one of {}", blocks.join(", ")))
}

/// Makes the drive where one is asked for, measures, takes it apart.
fn on_place(
    args: &Args,
    request: ProbeRequest,
    surveyed: Surveyed,
    making: &Making<'_>,
    screen: &Screen,
    paper: &Paper,
) -> anyhow::Result<Document> {
    let mut places = surveyed.make(making).map_err(|error| place_problem(&error, COMMAND))?;
    let run = ProbeRun::new(request, places.pop().expect("one is asked for"));
    let measured = measure(args, &run, making.journal, screen, paper);
    let closed = run.close(making.journal).map_err(|error| place_problem(&error, COMMAND));
    let document = measured?;
    closed?;
    Ok(document)
}

/// Says what will be done, then does it.
fn measure(
    args: &Args,
    run: &ProbeRun,
    journal: &Journal,
    screen: &Screen,
    paper: &Paper,
) -> anyhow::Result<Document> {
    if !args.pg {
        screen.without_bar(|| paper.head(run.head()))?;
    }
    let entered = run.enter(journal).map_err(|error| place_problem(&error, COMMAND))?;
    let mut keep = paper.keeper(journal, screen)?;
    let document = entered.conduct(&Real, &ByRound(screen), &mut keep);
    document.map_err(|error| match (error, screen.stop()) {
        (ProbeRunError::Place(error), _) => place_problem(&error, COMMAND).into(),
        (ProbeRunError::Stopped, Some(Stop::Signal(signal))) => Problem::stopped(signal).into(),
        (error @ ProbeRunError::TooShort { .. }, _) => {
            Problem::usage(error.to_string()).hint(Some("--time takes how long all of it may take")).into()
        }
        (error, _) => Problem::failed(error.to_string()).into(),
    })
}

/// Forty slices a round are too many to tell each.
struct ByRound<'a>(&'a Screen);

impl Watch for ByRound<'_> {
    fn event(&self, event: Event<'_>) {
        if !matches!(event, Event::TrialDone { .. }) {
            self.0.event(event);
        }
    }

    fn stop(&self) -> Option<Stop> {
        self.0.stop()
    }
}

fn status(document: &Document, stop: Option<Stop>) -> ExitCode {
    let arms = &document.arms;
    let code = document.verdict.as_ref().map(|verdict| verdict.code.as_str());
    match stop {
        Some(Stop::Signal(signal)) if !document.complete => Status::Signal(signal).into(),
        _ if arms.iter().any(|arm| arm.failed.is_some()) => Status::Failed.into(),
        _ if arms.iter().all(|arm| arm.summary.is_none()) => Status::Refused.into(),
        _ => code.map_or(ExitCode::SUCCESS, exit_of),
    }
}
