//! `fsynclab man [COMMAND]`, from the same definitions as the command line itself.

use anstream::ColorChoice;

use super::problem::Problem;
use super::{definitions, output};

/// Print the manual page, or that of a command (man sim run), in roff
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The command and the one below it, as two words or as sim-run; the whole program without
    command: Vec<String>,
}

/// Prints it.
pub fn run(args: &Args, color: ColorChoice) -> anyhow::Result<()> {
    let mut program = definitions();
    program.build();
    let version = program.get_version().unwrap_or_default();
    let source = format!("fsynclab {version}");
    let mut page = &program;
    for name in args.command.iter().flat_map(|words| words.split([' ', '-'])) {
        let unknown = || Problem::usage(format!("there is no command \"{}\"", args.command.join(" ")));
        page = page.find_subcommand(name).ok_or_else(unknown)?;
    }
    let mut text = Vec::new();
    clap_mangen::Man::new(page.clone()).source(source).render(&mut text)?;
    Ok(output::print(&String::from_utf8(text)?, color)?)
}
