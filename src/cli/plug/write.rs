//! `fsynclab plug write`: writes, and tells the witness, until the power goes.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anstream::ColorChoice;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::super::places::place_problem;
use super::super::problem::{Problem, Status};
use super::super::screen::Screen;
use super::super::{clean, grammar, output};
use super::witness::{WitnessArgs, problem};
use crate::lab::witness::{Begun, CutPlan, WriteRequest};
use crate::place::Place;
use crate::report;
use crate::sys::error::shown;
use crate::sys::journal::{self, Journal};
use crate::sys::random::fresh_seed;
use crate::sys::real::Real;
use crate::sys::signals::Signals;
use crate::sys::watch::Stop;

/// What a directory is given to.
const COMMAND: &str = "fsynclab plug write --into";

/// Write and sync without end, and tell a witness what is durable, until somebody pulls the plug
///
/// After the reboot: fsynclab plug verify. All work is done in a directory of its own; nothing that is there is touched.
#[derive(Debug, clap::Args)]
pub struct WriteArgs {
    #[command(flatten)]
    witness: WitnessArgs,
    /// The directory to work in, on the storage under test
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    /// Add a cut to this run, in place of a new one
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// How many write at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = grammar::number(1..=64_u32))]
    writers: u32,
    /// What is written, and when the cut comes, follows from it [default: a new one, printed]
    #[arg(long, value_name = "N", value_parser = grammar::seed)]
    seed: Option<u64>,
    /// Cut the power with this command: shell words, nothing expanded; else pull the plug by hand
    #[arg(long, value_name = "ARGV")]
    cut_command: Option<String>,
    /// When to: a random time between these two after the writers began, or this time
    #[arg(long, value_name = "FROM..UPTO", default_value = "10s..60s", value_parser = range, requires = "cut_command")]
    cut_after: (Duration, Duration),
    /// Do not probe the directory first, which takes some seconds
    #[arg(long)]
    no_probe: bool,
    /// How long the witness may be away
    #[arg(long, value_name = "DURATION", default_value = "2min", value_parser = grammar::duration)]
    patience: Duration,
    /// End after this if no cut came; nothing is left then
    #[arg(long, value_name = "DURATION", value_parser = grammar::duration)]
    time_limit: Option<Duration>,
}

/// Two durations, or one for both.
fn range(text: &str) -> Result<(Duration, Duration), String> {
    let (from, upto) = text.split_once("..").unwrap_or((text, text));
    let (from, upto) = (grammar::duration(from)?, grammar::duration(upto)?);
    if from > upto {
        return Err("the first is the shorter one, as in 10s..60s".to_owned());
    }
    Ok((from, upto))
}

/// Writes until the power goes, or until it does not.
pub fn run(args: &WriteArgs, color: ColorChoice, verbose: bool) -> anyhow::Result<ExitCode> {
    let request = request(args)?;
    let screen = Screen::new(Signals::install()?, verbose);
    let journal = Journal::create(&journal::state_directory()?)?;
    output::print(&head(&request), color)?;
    let begun = match request.begin(&Real, &journal, &screen) {
        Ok(begun) => begun,
        Err(error) => {
            clean::undo_own(journal)?;
            return Err(problem(&error, COMMAND).into());
        }
    };
    output::print(&ready(args, &request, &begun), color)?;
    let done = begun.run(&Real, &journal, &screen);
    screen.finish();
    match done {
        Ok(stop) => {
            clean::undo_own(journal)?;
            screen.say(&format!("{stop}: there was no cut; nothing is left"));
            Ok(match stop {
                Stop::Signal(signal) => Status::Signal(signal).into(),
                Stop::TimeLimit => ExitCode::SUCCESS,
            })
        }
        // What was acknowledged before can be verified: the directory stays, and the journal knows it.
        Err(error) => {
            let problem = problem(&error, COMMAND);
            screen.say(
                "what was acknowledged until now is left for fsynclab plug verify; fsynclab clean removes it",
            );
            Err(problem.into())
        }
    }
}

fn request(args: &WriteArgs) -> Result<WriteRequest, Problem> {
    let place = Place::survey("p1", &args.into).map_err(|error| place_problem(&error, COMMAND))?;
    let seed = args.seed.unwrap_or_else(fresh_seed);
    let cut = args.cut_command.as_ref().map(|text| cut(text, args.cut_after, seed)).transpose()?;
    Ok(WriteRequest {
        place,
        address: args.witness.address(args.patience)?,
        run: args.run.clone(),
        writers: args.writers,
        seed,
        probe: !args.no_probe,
        cut,
        time_limit: args.time_limit,
    })
}

fn cut(text: &str, (from, upto): (Duration, Duration), seed: u64) -> Result<CutPlan, Problem> {
    let command = shell_words::split(text).ok().filter(|words| !words.is_empty());
    let command = command.ok_or_else(|| Problem::usage(format!("--cut-command '{text}' is no command")))?;
    let after = ChaCha8Rng::seed_from_u64(seed ^ 0xC7).random_range(from..=upto);
    Ok(CutPlan { command, after })
}

/// What will be written, and what a cut means here.
fn head(request: &WriteRequest) -> String {
    let place = request.place.record();
    let mut text = report::wrapped(
        &format!(
            "{}: {}; {} writers, at most {}, seed {}",
            shown(request.place.directory()),
            place.stack.weakest_link.as_deref().unwrap_or(&place.stack.file_system),
            request.writers,
            report::size(request.bytes()),
            request.seed
        ),
        2,
    );
    for note in request.notes() {
        text += &report::wrapped(&format!("note: {}", note.text), 2);
    }
    text
}

fn ready(args: &WriteArgs, request: &WriteRequest, begun: &Begun<'_>) -> String {
    let (run, cut) = (&begun.run, begun.cut);
    let when = match &request.cut {
        Some(plan) => format!("{} cuts the power in {:.1} s", plan.command[0], plan.after.as_secs_f64()),
        None => "pull the plug whenever you like".to_owned(),
    };
    let directory = shown(begun.directory());
    let text = format!("run {run}, cut {cut}: writing in {directory}; {when}. After the reboot:");
    let command = format!("fsynclab plug verify {} --into {}", args.witness.shown(), shown(&args.into));
    report::wrapped(&text, 2) + &format!("  {command}\n")
}
