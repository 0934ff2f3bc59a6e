//! `fsynclab sim`: drives nobody has at hand, for any command, and what a recorded workload costs on them.

mod drives;
mod fit;
mod price;
mod show;

use std::process::ExitCode;

use anstream::ColorChoice;
use clap::Subcommand;

use super::output;
use crate::report;
use crate::simdrive::models::{BUILT_IN, built_in};

use super::places::drive_problem;

/// Simulated drives
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the models, one a line, name first
    List,
    Show(show::Args),
    Run(drives::Run),
    Mount(drives::Mount),
    Umount(drives::Umount),
    Fit(fit::Args),
    Price(price::Args),
}

/// Does what is asked; the exit status, that of `sim run` its command's own.
pub fn run(args: &Args, color: ColorChoice, verbose: bool) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::List => output::print(&list()?, color)?,
        Command::Show(args) => output::print(&show::show(args)?, color)?,
        Command::Run(args) => return drives::run(args, verbose),
        Command::Mount(args) => drives::mount(args)?,
        Command::Umount(args) => drives::umount(args)?,
        Command::Fit(args) => fit::run(args, color)?,
        Command::Price(args) => price::run(args, color)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list() -> anyhow::Result<String> {
    let mut lines = String::new();
    for (name, _) in BUILT_IN {
        let model = built_in(name).map_err(|error| drive_problem(&error))?;
        lines += &report::hanging(&format!("{name:<15}"), &model.summary);
    }
    Ok(lines)
}
