//! `fsynclab completions SHELL`, from the same definitions as the command line itself.

use anstream::ColorChoice;
use clap_complete::Shell;

use super::{definitions, output};

/// Print completions for a shell
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// Prints them.
pub fn run(args: &Args, color: ColorChoice) -> anyhow::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut definitions(), "fsynclab", &mut text);
    Ok(output::print(&String::from_utf8(text)?, color)?)
}
