//! `fsynclab plug verify`: after a real power cut, whether what was acknowledged is there.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anstream::ColorChoice;

use super::super::paper::Paper;
use super::super::problem::Status;
use super::super::screen::Screen;
use super::super::{grammar, redact};
use super::witness::{WitnessArgs, problem};
use crate::lab::witness::VerifyRequest;
use crate::powercut::judge::Verdict;
use crate::report;
use crate::sys::signals::Signals;

/// After the reboot, look whether everything is there that the witness was told is durable
///
/// Anything between what was acknowledged and what was written last is right. Exit status 4 where something acknowledged is
/// not there. What was written is removed where nothing is lost, and kept otherwise.
#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    witness: WitnessArgs,
    /// The directory that was given to plug write
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    /// The run [default: the one that wrote there last]
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// The cut [default: the last]
    #[arg(long, value_name = "N", value_parser = grammar::number(1..=u32::MAX))]
    cut: Option<u32>,
    /// Only the storage lost its power and was mounted again: this machine ran on
    #[arg(long)]
    storage_only: bool,
    /// The file system there cannot be mounted any more, not even after repair: count the cut so
    #[arg(long, conflicts_with = "storage_only")]
    does_not_mount: bool,
    /// Write the results to FILE; - is standard output, and nothing else goes there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Compares and prints; the exit status.
pub fn run(args: &VerifyArgs, color: ColorChoice, verbose: bool) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(Signals::install()?, verbose);
    let paper = Paper::new(args.json.as_deref(), color)?;
    let request = VerifyRequest {
        address: args.witness.address(Duration::ZERO)?,
        into: args.into.clone(),
        run: args.run.clone(),
        cut: args.cut,
        storage_only: args.storage_only,
        does_not_mount: args.does_not_mount,
        argv: redact::arguments(std::env::args_os()),
    };
    let document = request.run(&screen).map_err(|error| problem(&error, "fsynclab plug verify --into"))?;
    let pulled = document.pulled.as_ref();
    let cut = pulled.and_then(|pulled| pulled.cuts.iter().find(|cut| cut.cut == pulled.cut));
    let kept = cut.and_then(|cut| cut.verdict.as_deref()) == Some(Verdict::Kept.name());
    paper.finish_as(&document, &report::terminal(&document), &screen)?;
    Ok(if kept { ExitCode::SUCCESS } else { Status::No.into() })
}
