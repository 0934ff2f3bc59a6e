//! `fsynclab plug`: power cuts under a copy and under a server, simulated; and real ones, with a witness.

mod copy;
mod listen;
mod postgres;
mod verify;
mod witness;
mod write;

use std::process::ExitCode;

use anstream::ColorChoice;
use clap::Subcommand;

use super::clean;
use super::paper::Paper;
use super::problem::{Problem, Status};
use super::screen::Screen;
use crate::lab::plug::PlugError;
use crate::report;
use crate::results::Document;
use crate::sys::journal::Journal;
use crate::sys::watch::{Event, Phase, Stop, Watch};

/// Power cuts: is what was promised still there?
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Copy(Box<copy::CopyArgs>),
    Postgres(Box<postgres::PostgresArgs>),
    Listen(listen::ListenArgs),
    Write(Box<write::WriteArgs>),
    Verify(verify::VerifyArgs),
}

/// Does what the command says; the exit status.
pub fn run(args: &Args, color: ColorChoice, verbose: bool) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Copy(args) => copy::run(args, color, verbose),
        Command::Postgres(args) => postgres::run(args, color, verbose),
        Command::Listen(args) => listen::run(args, color, verbose),
        Command::Write(args) => write::run(args, color, verbose),
        Command::Verify(args) => verify::run(args, color, verbose),
    }
}

/// Undoes, prints, says how a campaign of cuts ended.
fn finished(
    done: Result<Document, PlugError>,
    journal: Journal,
    paper: Paper,
    screen: &Screen,
) -> anyhow::Result<ExitCode> {
    screen.event(Event::Phase(Phase::Undoing));
    let undone = clean::undo_own(journal);
    screen.finish();
    let document = done.map_err(|error| problem(&error))?;
    let status = status(&document, screen.stop());
    paper.finish(&document, screen)?;
    undone?;
    Ok(status)
}

fn status(document: &Document, stop: Option<Stop>) -> ExitCode {
    let arms = &document.arms;
    let broken = arms.iter().filter_map(|arm| arm.power_cuts.as_ref()).any(|cuts| !cuts.promise_kept);
    match stop {
        _ if document.injector_valid == Some(false) => Status::Failed.into(),
        _ if broken => Status::No.into(),
        Some(Stop::Signal(signal)) if !document.complete => Status::Signal(signal).into(),
        _ if arms.iter().any(|arm| arm.failed.is_some()) => Status::Failed.into(),
        _ if arms.iter().all(|arm| arm.refused.is_some()) => Status::Refused.into(),
        _ => ExitCode::SUCCESS,
    }
}

fn problem(error: &PlugError) -> Problem {
    match error {
        PlugError::Cut(cut) if cut.is_unavailable() => Problem::refused(cut.to_string()).hint(cut.hint()),
        PlugError::Cut(cut) => Problem::failed(cut.to_string()).hint(cut.hint()),
        PlugError::Sys(sys) => Problem::failed(sys.to_string()).hint(sys.hint()),
    }
}

/// What is found on one image, a line each.
fn findings(is_repaired: bool, lines: impl Iterator<Item = String>) -> String {
    let repaired = "needs-fsck: the file system was repaired before it could be mounted\n";
    let lines = lines.map(|line| report::wrapped(&line, 2));
    let text: String = is_repaired.then(|| repaired.to_owned()).into_iter().chain(lines).collect();
    if text.is_empty() { "kept: everything is there\n".to_owned() } else { text }
}
