//! Databases of ours on a server: their names, the comment that says whose they are, and their end.

use std::time::Duration;

use postgres::error::SqlState;
use serde::{Deserialize, Serialize};

use crate::server::connect::{Session, connect};
use crate::server::conninfo::{Asked, Surroundings, resolve};
use crate::server::error::ServerError;
use crate::server::sql::{identifier, literal};
use crate::sys::undo::{Undo, Undone};
use crate::sys::watch::Deadline;

/// How every database of ours begins.
pub const PREFIX: &str = "fsynclab_";

/// The longest name a server takes; it cuts longer ones without a word.
pub const LONGEST_NAME_BYTES: usize = 63;

/// How long the sessions in a database have to end.
const GONE_LIMIT: Duration = Duration::from_secs(20);
const ASKED_EVERY: Duration = Duration::from_millis(20);

/// The databases of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    id: String,
}

impl Names {
    /// A run's own.
    pub fn new() -> Self {
        Self { id: crate::sys::random::fresh_id()[..12].to_owned() }
    }

    /// The n-th.
    pub fn name(&self, n: usize) -> String {
        format!("{PREFIX}{}_{n}", self.id)
    }

    /// What the run's sessions are called, for `clean` to wait until the server has noticed that they are dead.
    pub fn session(&self) -> String {
        session_of(&self.name(0))
    }

    /// What is written on each.
    pub fn comment(&self) -> String {
        comment(&self.name(0))
    }

    /// Says whose a database is.
    pub fn mark(&self, session: &mut Session, database: &str) -> Result<(), ServerError> {
        session.run(&format!("COMMENT ON DATABASE {} IS {}", identifier(database), literal(&self.comment())))
    }
}

impl Default for Names {
    fn default() -> Self {
        Self::new()
    }
}

/// The comment that belongs to a name of ours.
fn comment(name: &str) -> String {
    format!("scratch database of fsynclab run {}; safe to drop", id_of(name))
}

/// What the sessions of the run were called to which a name of ours belongs.
fn session_of(name: &str) -> String {
    format!("fsynclab {}", id_of(name))
}

fn id_of(name: &str) -> &str {
    name.trim_start_matches(PREFIX).split('_').next().unwrap_or_default()
}

/// A name that a server would cut is refused.
pub fn check_length(name: &str) -> Result<(), ServerError> {
    if name.len() > LONGEST_NAME_BYTES {
        return Err(ServerError::NameTooLong { name: name.to_owned() });
    }
    Ok(())
}

/// What a server has under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A database of this run; `invalid` where a DROP or a CREATE was interrupted (datconnlimit = -2).
    Ours {
        /// It can only be dropped.
        invalid: bool,
    },
    /// Somebody else's.
    Foreign,
}

/// Looks. A database without any comment under a name of ours is one whose run died before it could mark it: the name
/// holds twelve random digits.
pub fn find(session: &mut Session, name: &str) -> Result<Found, ServerError> {
    let sql = format!(
        "SELECT datconnlimit = -2, coalesce(pg_catalog.shobj_description(oid, 'pg_database'), '') \
         FROM pg_catalog.pg_database WHERE datname = {}",
        literal(name)
    );
    let rows = session.rows(&sql)?;
    Ok(match rows.first().map(Vec::as_slice) {
        None => Found::Nothing,
        Some([invalid, said]) if name.starts_with(PREFIX) && (said.is_empty() || *said == comment(name)) => {
            Found::Ours { invalid: invalid == "t" }
        }
        Some(_) => Found::Foreign,
    })
}

/// Drops a database of ours and no other; true if it was there.
pub fn drop_ours(session: &mut Session, name: &str) -> Result<bool, ServerError> {
    match find(session, name)? {
        Found::Nothing => Ok(false),
        Found::Ours { .. } => match session.run(&format!("DROP DATABASE {}", identifier(name))) {
            // Somebody was dropping it when we looked: a run that was killed in its DROP.
            Err(error) if error.sql_state() == Some(&SqlState::INVALID_CATALOG_NAME) => Ok(false),
            dropped => dropped.map(|()| true),
        },
        Found::Foreign => Err(ServerError::ForeignDatabase { name: name.to_owned() }),
    }
}

/// Ends what is connected to a database of ours, so that it can be dropped: a server goes on with the statement of a
/// client that was killed.
pub fn end_sessions(session: &mut Session, database: &str) -> Result<(), ServerError> {
    let connected = format!("FROM pg_catalog.pg_stat_activity WHERE datname = {}", literal(database));
    let deadline = Deadline::after(GONE_LIMIT);
    loop {
        session.run(&format!("SELECT pg_catalog.pg_terminate_backend(pid) {connected}"))?;
        if session.value(&format!("SELECT count(*) {connected}"))? == "0" || deadline.reached() {
            // What is still there is told by the DROP that it prevents.
            return Ok(());
        }
        std::thread::sleep(ASKED_EVERY);
    }
}

/// The number that tells one cluster from all others.
pub fn system_identifier(session: &mut Session) -> Result<String, ServerError> {
    session.value("SELECT system_identifier FROM pg_catalog.pg_control_system()")
}

/// A database of ours on a server that is not, for the journal. No password is in it: `clean` finds it as the run did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScratchDatabase {
    /// How to connect, without a password.
    pub conninfo: String,
    /// The server's.
    pub system_identifier: String,
    /// The database.
    pub name: String,
}

impl Undo for ScratchDatabase {
    const KIND: &'static str = "scratch-database";
    type Error = ServerError;

    fn describe(&self) -> String {
        format!("database \"{}\" on server \"{}\"", self.name, self.conninfo)
    }

    fn undo(&self) -> Result<Undone, ServerError> {
        let around = Surroundings::here()?;
        let mut session = connect(&resolve(&Asked::conninfo(&self.conninfo), &around)?)?;
        if system_identifier(&mut session)? != self.system_identifier {
            return Err(ServerError::AnotherServer { conninfo: self.conninfo.clone() });
        }
        if matches!(find(&mut session, &self.name)?, Found::Ours { .. }) {
            // A psql or pgbench of a run that was killed goes on without it.
            end_sessions(&mut session, &self.name)?;
        }
        session.wait_until_gone(&session_of(&self.name))?;
        Ok(if drop_ours(&mut session, &self.name)? { Undone::Now } else { Undone::Before })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_enough_and_each_run_knows_its_own() {
        let (one, other) = (Names::new(), Names::new());
        assert!(one.name(99_999).len() <= LONGEST_NAME_BYTES);
        assert_eq!(comment(&one.name(7)), one.comment());
        assert_ne!(comment(&one.name(7)), other.comment());
        check_length(&"ü".repeat(31)).expect("62 bytes");
        assert!(check_length(&"ü".repeat(32)).is_err());
    }
}
