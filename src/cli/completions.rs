//! `fsynclab completions SHELL`, from the same definitions as the command line itself.

use anstream::ColorChoice;
use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, output};

/// Print completions for a shell
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// Prints them.
pub fn run(args: &Args, color: ColorChoice) -> anyhow::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "fsynclab", &mut text);
    Ok(output::print(&String::from_utf8(text)?, color)?)
}
