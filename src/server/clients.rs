//! pg_dump, psql, pg_restore and pgbench: those beside a server's programs, else those in PATH, never older than they may be.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::connect::Session;
use super::error::ServerError;
use crate::sys::tools::{Finished, Tool};
use crate::sys::watch::Watch;

/// The longest that one program may run.
pub(super) const LIMIT: Duration = Duration::from_hours(24 * 7);

/// Where the programs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clients {
    directory: PathBuf,
}

impl Clients {
    /// Those that belong to the server whose programs are in `directory`.
    pub fn beside(directory: &Path) -> Self {
        Self { directory: directory.to_path_buf() }
    }

    /// The first such program that is not older than this major version; 0 takes any.
    pub fn find(
        &self,
        program: &'static str,
        server: u32,
        watch: &dyn Watch,
    ) -> Result<PathBuf, ServerError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories = std::iter::once(self.directory.clone()).chain(std::env::split_paths(&path));
        let mut newest = None;
        for found in directories.map(|directory| directory.join(program)).filter(|path| path.is_file()) {
            let said = Tool::new(&found).arg("--version").run(watch).and_then(Finished::success)?.text();
            let client = major(&said).unwrap_or(0);
            if client >= server {
                return Ok(found);
            }
            newest = newest.max(Some(client));
        }
        Err(match newest {
            Some(client) => ServerError::ClientOlder { program, client, server },
            None => ServerError::NoClient { program, directory: self.directory.clone() },
        })
    }
}

/// From `pg_dump (PostgreSQL) 15.18 (Debian …)`.
fn major(said: &str) -> Option<u32> {
    let (_, version) = said.split_once("(PostgreSQL) ")?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// A program that works in a database; how to reach it is in its environment, which others cannot read.
pub(super) fn tool(program: &Path, session: &Session, database: &str) -> Tool {
    let mut tool = Tool::new(program).limit(LIMIT);
    for (name, value) in session.child_environment() {
        if let Some(value) = value {
            tool = tool.env(name, value);
        }
    }
    tool.env("PGDATABASE", database)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_the_programs_print_them() {
        assert_eq!(major("pg_dump (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"), Some(15));
        assert_eq!(major("psql (PostgreSQL) 19devel"), Some(19));
        assert_eq!(major("psql (EDB) 19"), None);
    }
}
