//! `fsynclab plug listen`: the witness of real power cuts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anstream::ColorChoice;

use super::super::output;
use super::super::screen::Screen;
use super::witness::{token, witness_problem};
use crate::powercut::witness::book::Shelf;
use crate::powercut::witness::listen::Witness;
use crate::powercut::witness::token::Token;
use crate::sys::error::shown;
use crate::sys::journal::{Journal, state_directory};
use crate::sys::signals::Signals;
use crate::sys::watch::Watch;

/// The token, in the directory of the ledgers.
const TOKEN: &str = "token";

/// Witness real power cuts: keep, on a machine that stays on, what plug write acknowledges
///
/// Every run has a directory with its ledger, which is synced before anything is acknowledged; none is ever removed. Ends
/// by a signal and may be started again at any time: writers wait.
#[derive(Debug, clap::Args)]
pub struct ListenArgs {
    /// Where to listen; 0.0.0.0:7407 is everywhere
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7407")]
    listen: SocketAddr,
    /// Where the ledgers lie [default: "witness" in the state directory]
    #[arg(long, value_name = "DIR")]
    ledgers: Option<PathBuf>,
    /// The file with the token of its writers [default: the variable FSYNCLAB_WITNESS_TOKEN, else a new one in DIR/token]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// Listens until a signal ends it.
pub fn run(args: &ListenArgs, color: ColorChoice, verbose: bool) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(Signals::install()?, verbose);
    let ledgers = if let Some(directory) = &args.ledgers {
        directory.clone()
    } else {
        let state = state_directory()?;
        // A journal makes its directory; nothing here must be undone.
        Journal::create(&state)?.close()?;
        state.join("witness")
    };
    let shelf = Shelf::open(&ledgers).map_err(witness_problem)?;
    let own = ledgers.join(TOKEN);
    let (token, made) = match token(args.token_file.as_ref())? {
        Some(token) => (token, None),
        None => (Token::read_or_make(&own).map_err(witness_problem)?, Some(own)),
    };
    let witness = Witness::new(shelf, token, args.listen).map_err(witness_problem)?;
    let mut text = match witness.address() {
        Some(address) => format!("listening on {address}; ledgers in {}\n", shown(&ledgers)),
        None => String::new(),
    };
    if let Some(path) = made {
        text += &format!("writers need {} (plug write --token-file)\n", shown(&path));
    }
    output::print(&text, color)?;
    witness.serve(&screen);
    if let Some(stop) = screen.stop() {
        screen.say(&format!("{stop}: the ledgers are whole; writers wait until this listens again"));
    }
    Ok(ExitCode::SUCCESS)
}
