//! What the two who speak with a witness have in common.

use std::path::PathBuf;
use std::time::Duration;

use super::super::problem::Problem;
use crate::lab::witness::PulledError;
use crate::powercut::WitnessError;
use crate::powercut::witness::link::Address;
use crate::powercut::witness::token::{Token, VARIABLE};
use crate::sys::error::shown;

/// Where the witness is.
#[derive(Debug, clap::Args)]
pub struct WitnessArgs {
    /// The machine on which plug listen runs: HOST or HOST:PORT
    #[arg(long, value_name = "HOST")]
    witness: String,
    /// The file with its token, which nobody else may read [default: the variable FSYNCLAB_WITNESS_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl WitnessArgs {
    /// As it was given, for a command line.
    pub fn shown(&self) -> String {
        let file = self.token_file.as_ref().map(|file| format!(" --token-file {}", shown(file)));
        format!("--witness {}{}", self.witness, file.unwrap_or_default())
    }

    /// The witness, who may be away for so long.
    pub fn address(&self, patience: Duration) -> Result<Address, Problem> {
        let token = token(self.token_file.as_ref())?.ok_or_else(|| {
            Problem::usage("no token is given").hint(Some(format!("--token-file FILE, or {VARIABLE}")))
        })?;
        Address::find(&self.witness, token, patience).map_err(|error| problem(&error.into(), ""))
    }
}

/// The token of a file, else of the environment.
pub fn token(file: Option<&PathBuf>) -> Result<Option<Token>, Problem> {
    let variable = std::env::var(VARIABLE).ok();
    Token::load(file.map(PathBuf::as_path), variable.as_deref()).map_err(|error| problem(&error.into(), ""))
}

/// What went wrong; `command` is what a directory is given to.
pub fn problem(error: &PulledError, command: &str) -> Problem {
    let problem = if error.is_refusal() { Problem::refused } else { Problem::failed };
    problem(error.to_string()).hint(error.hint(command))
}

/// The same of the witness itself.
pub fn witness_problem(error: WitnessError) -> Problem {
    problem(&error.into(), "")
}
