//! What can go wrong in this wing, worded as PostgreSQL words it.

use std::error::Error;

use postgres::error::SqlState;

use super::connect::Attempt;
use super::conninfo::ConninfoError;
use crate::sys::error::SysError;

/// Why something this wing was asked for did not happen.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Where the server is could not be understood.
    #[error(transparent)]
    Conninfo(#[from] ConninfoError),
    /// A file, a journal, a child.
    #[error(transparent)]
    Sys(#[from] SysError),
    /// No host would do.
    #[error("{}", attempts_worded(.attempts))]
    Unreachable {
        /// What was tried, in order.
        attempts: Vec<Attempt>,
    },
    /// A statement failed.
    #[error("{}", worded(.source))]
    Statement {
        /// Its beginning, for the log.
        sql: String,
        /// Why.
        source: postgres::Error,
    },
}

impl ServerError {
    pub(super) fn statement(sql: &str, source: postgres::Error) -> Self {
        Self::Statement { sql: sql.chars().take(200).collect(), source }
    }

    /// The server's own code for it, where the server spoke.
    pub fn sql_state(&self) -> Option<&SqlState> {
        match self {
            Self::Statement { source, .. } => source.code(),
            Self::Unreachable { attempts } => match &attempts.last()?.reason {
                super::connect::Reason::Postgres(error) => error.code(),
                _ => None,
            },
            _ => None,
        }
    }

    /// What the reader can do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Conninfo(error) => error.hint(),
            Self::Sys(error) => error.hint(),
            Self::Statement { source, .. } => source.as_db_error().and_then(|error| error.hint()),
            Self::Unreachable { .. } => None,
        }
    }
}

fn attempts_worded(attempts: &[Attempt]) -> String {
    let lines: Vec<String> = attempts
        .iter()
        .map(|attempt| format!("connection to server {} failed: {}", attempt.place, attempt.reason))
        .collect();
    lines.join("\n")
}

/// An error of the library in the words of PostgreSQL: what the server said, or the innermost cause.
pub(super) fn worded(error: &postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return format!("{}:  {}", said.severity(), said.message());
    }
    let mut innermost: &dyn Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    // The standard library appends the number to the system's words.
    match text.split_once(" (os error ") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}
