//! Floor 6: the only wing with clap, anyhow and printing; one file a command. What a command does is done below: here
//! arguments are read, progress is shown, results are printed and the exit status is chosen.

mod clean;
mod compare;
mod completions;
mod copy;
mod createdb;
mod drive;
mod grammar;
mod lines;
mod man;
mod output;
mod paper;
mod pgbench;
mod places;
mod plug;
mod probe;
mod problem;
mod published;
mod redact;
mod restore;
mod rounds;
mod screen;
mod servers;
mod shape;
mod sim;

use std::io::{self, Write};
use std::process::ExitCode;

use anstream::ColorChoice;
use clap::{Arg, ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::sys::signals::outlive_file_size_limit;

pub use problem::{Problem, Status};

const EXIT_STATUS: &str = "\
Exit status: 0 done; 1 an arm or the run failed; 2 wrong usage; 3 nothing could be measured here, or refused for safety; \
4 done, and the answer is no; 128+n ended by signal n, results kept.";

/// Heads the options that every command takes.
const GENERAL: &str = "General options";

/// Stand in the help for values that are numbers.
const NUMBERS: [&str; 5] = ["N", "DURATION", "RATE", "SIZE", "FACTOR"];

/// What it costs, on this storage, to be sure that data is on disk, and whether it is really there
#[derive(Debug, Parser)]
#[command(name = "fsynclab", version, disable_help_flag = true)]
#[command(after_help = EXIT_STATUS, max_term_width = 79)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// When to use colour; NO_COLOR and PG_COLOR are honoured
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = GENERAL)]
    color: output::Color,
    /// Say each phase on standard error as it starts
    #[arg(short, long, global = true, help_heading = GENERAL)]
    verbose: bool,
    /// Print help
    #[arg(short = 'h', short_alias = '?', long, global = true, action = ArgAction::Help, help_heading = GENERAL)]
    help: Option<bool>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Copy(Box<copy::Args>),
    Createdb(Box<createdb::Args>),
    Drive(drive::Args),
    Plug(Box<plug::Args>),
    Restore(Box<restore::Args>),
    Pgbench(Box<pgbench::Args>),
    Probe(Box<probe::Args>),
    Compare(compare::Args),
    Shape(shape::Args),
    Sim(sim::Args),
    Clean(clean::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// The whole program: reads the command line, does what it asks, says how it ended.
pub fn main() -> ExitCode {
    if let Err(error) = outlive_file_size_limit() {
        complain(&Problem::failed(error.to_string()).to_string());
        return Status::Failed.into();
    }
    let read = definitions().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match read {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let color = cli.color.choice(|name| std::env::var(name).ok());
    let done = match cli.command {
        Command::Copy(args) => copy::run(&args, color, cli.verbose),
        Command::Createdb(args) => createdb::run(&args, color, cli.verbose),
        Command::Drive(args) => drive::run(&args, color),
        Command::Plug(args) => plug::run(&args, color, cli.verbose),
        Command::Pgbench(args) => pgbench::run(&args, color, cli.verbose),
        Command::Restore(args) => restore::run(&args, color, cli.verbose),
        Command::Probe(args) => probe::run(&args, color, cli.verbose),
        Command::Compare(args) => compare::run(&args, color).map(|()| ExitCode::SUCCESS),
        Command::Shape(args) => shape::run(&args, color).map(|()| ExitCode::SUCCESS),
        Command::Sim(args) => sim::run(&args, color, cli.verbose),
        Command::Clean(args) => clean::run(&args, color).map(|()| ExitCode::SUCCESS),
        Command::Completions(args) => completions::run(&args, color).map(|()| ExitCode::SUCCESS),
        Command::Man(args) => man::run(&args, color).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|error| {
        let problem = problem::of(&error);
        complain(&problem.to_string());
        problem.status().into()
    })
}

/// The command line, as it is read, completed and put into manual pages.
fn definitions() -> clap::Command {
    hyphens_in_numbers(Cli::command())
}

/// Options whose value is a number take one that begins with a hyphen too, so that what is wrong with it is said in this
/// program's words.
fn hyphens_in_numbers(command: clap::Command) -> clap::Command {
    let is_number = |arg: &Arg| {
        arg.get_value_names().is_some_and(|names| names.iter().any(|name| NUMBERS.contains(&name.as_str())))
    };
    let take = |arg: Arg| if is_number(&arg) { arg.allow_hyphen_values(true) } else { arg };
    command.mut_args(take).mut_subcommands(hyphens_in_numbers)
}

/// A message on stderr; one that takes nothing changes no exit status.
fn complain(message: &str) {
    writeln!(io::stderr(), "{}", lines::wrapped(message)).ok();
}

/// Help and version go to stdout with status 0, what is wrong to stderr with status 2.
fn usage(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        complain(error.render().to_string().trim_end());
        return Status::Usage.into();
    }
    match output::print(&error.render().ansi().to_string(), ColorChoice::Auto) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            complain(&problem.to_string());
            Status::Failed.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_contradict_each_other_nowhere() {
        definitions().debug_assert();
    }

    /// Every way to a subcommand and its long options whose value is `N`.
    fn numbers(command: &clap::Command, way: &[String], found: &mut Vec<Vec<String>>) {
        let way = [way, &[command.get_name().to_owned()]].concat();
        let is_number =
            |arg: &&Arg| arg.get_value_names().is_some_and(|names| names.iter().any(|name| name == "N"));
        for option in command.get_arguments().filter(is_number).filter_map(Arg::get_long) {
            found.push([way.as_slice(), &[format!("--{option}")]].concat());
        }
        command.get_subcommands().for_each(|command| numbers(command, &way, found));
    }

    #[test]
    fn every_number_that_is_none_is_told_in_our_words() {
        let mut found = Vec::new();
        numbers(&definitions(), &[], &mut found);
        assert!(found.len() > 12, "{found:?}");
        for words in found {
            for value in ["-1", "x", "99999999999999999999999"] {
                let words = words.iter().map(String::as_str).chain([value]);
                let error = definitions().try_get_matches_from(words.clone()).expect_err("no number");
                let told = error.to_string();
                assert!(told.contains(": a whole number from "), "{:?}: {told}", words.collect::<Vec<_>>());
            }
        }
    }
}
