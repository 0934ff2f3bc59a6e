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
