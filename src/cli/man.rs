//! `fsynclab man [COMMAND]`, from the same definitions as the command line itself.

use anstream::ColorChoice;
use clap::CommandFactory;

use super::problem::Problem;
use super::{Cli, output};

/// Print the manual page, or that of a command, in roff
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The command; the whole program without
    command: Option<String>,
}

/// Prints it.
pub fn run(args: &Args, color: ColorChoice) -> anyhow::Result<()> {
    let mut program = Cli::command();
    program.build();
    let page = match &args.command {
        None => program,
        Some(name) => {
            let unknown = || Problem::usage(format!("there is no command \"{name}\""));
            program.find_subcommand(name).cloned().ok_or_else(unknown)?
        }
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    Ok(output::print(&String::from_utf8(text)?, color)?)
}
