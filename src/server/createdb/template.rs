//! The template: what it is, whether it can be copied, who holds it; and templates of our own making.

use std::fmt;
use std::time::Duration;

use super::database::check_length;
use crate::server::connect::Session;
use crate::server::error::ServerError;
use crate::server::features::Features;
use crate::server::sql::{identifier, literal};
use crate::sys::watch::{Deadline, Watch};

/// What a template holds. Counted by the server itself, which lists its own directory; for that one must be superuser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Regular files.
    pub files: u64,
    /// Sum of their sizes.
    pub bytes: u64,
}

/// A session that holds a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process.
    pub pid: i32,
    /// The role; empty for a background process.
    pub role: String,
    /// `application_name`, or the kind of process.
    pub what: String,
    /// `idle`, `active`, …
    pub state: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.state.is_empty() { "background" } else { &self.state };
        write!(f, "{} of \"{}\" (process {}, {state})", self.what, self.role, self.pid)
    }
}

/// What stands in the way of copying a template, before it is tried.
pub fn check(session: &mut Session, features: &Features, template: &str) -> Result<(), ServerError> {
    check_length(template)?;
    if features.standby {
        return Err(ServerError::Standby);
    }
    let rows = session.rows(&format!(
        "SELECT datistemplate OR pg_catalog.pg_has_role(datdba, 'usage'), datconnlimit = -2, \
         (SELECT rolcreatedb OR rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) \
         FROM pg_catalog.pg_database WHERE datname = {}",
        literal(template)
    ))?;
    let name = || template.to_owned();
    let Some(row) = rows.first() else { return Err(ServerError::NoTemplate { name: name() }) };
    match row.iter().map(|value| value == "t").collect::<Vec<_>>()[..] {
        [_, true, _] => Err(ServerError::InvalidTemplate { name: name() }),
        [false, _, _] if !features.superuser => Err(ServerError::TemplateNotOurs { name: name() }),
        [_, _, false] => Err(ServerError::MayNotCreate),
        _ => check_collation(session, features, template),
    }
}

/// From 15 on a database knows the version of its collation, and one that differs is not copied.
fn check_collation(session: &mut Session, features: &Features, template: &str) -> Result<(), ServerError> {
    if features.version_num < 150_000 {
        return Ok(());
    }
    let rows = session.rows(&format!(
        "SELECT datcollversion, coalesce(pg_catalog.pg_database_collation_actual_version(oid), 'none') \
         FROM pg_catalog.pg_database WHERE datname = {} \
         AND datcollversion IS DISTINCT FROM pg_catalog.pg_database_collation_actual_version(oid) \
         AND datcollversion IS NOT NULL",
        literal(template)
    ))?;
    match rows.into_iter().next().and_then(|row| <[String; 2]>::try_from(row).ok()) {
        Some([recorded, actual]) => {
            Err(ServerError::CollationMismatch { name: template.to_owned(), recorded, actual })
        }
        None => Ok(()),
    }
}

/// Who is connected to a database.
pub fn holders(session: &mut Session, database: &str) -> Result<Vec<Holder>, ServerError> {
    let rows = session.rows(&format!(
        "SELECT pid, coalesce(usename::text, ''), coalesce(nullif(application_name, ''), 'unnamed'), \
         coalesce(state, '') FROM pg_catalog.pg_stat_activity \
         WHERE datname = {} AND pid <> pg_backend_pid() ORDER BY pid",
        literal(database)
    ))?;
    Ok(rows
        .into_iter()
        .filter_map(|row| {
            let [pid, role, what, state] = <[String; 4]>::try_from(row).ok()?;
            Some(Holder { pid: pid.parse().ok()?, role, what, state })
        })
        .collect())
}

/// Waits until nobody is connected to the template; nobody is ever sent away.
pub fn wait_until_free(
    session: &mut Session,
    template: &str,
    limit: Duration,
    watch: &dyn Watch,
) -> Result<(), ServerError> {
    let deadline = Deadline::after(limit);
    loop {
        let holders = holders(session, template)?;
        if holders.is_empty() {
            return Ok(());
        }
        if let Some(stop) = watch.stop() {
            return Err(ServerError::Stopped(stop));
        }
        if deadline.reached() {
            return Err(ServerError::TemplateHeld { name: template.to_owned(), holders, limit });
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Files and bytes of a database in all its tablespaces but the global one; nothing without the right to look.
pub fn contents(
    session: &mut Session,
    features: &Features,
    database: &str,
) -> Result<Option<Contents>, ServerError> {
    if !features.superuser {
        return Ok(None);
    }
    let default = format!(
        "SELECT count(*), coalesce(sum((pg_catalog.pg_stat_file(p)).size), 0) FROM (SELECT d || '/' || f AS p \
         FROM (SELECT 'base/' || oid AS d FROM pg_catalog.pg_database WHERE datname = {}) AS b, \
         pg_catalog.pg_ls_dir(d) AS f) AS files",
        literal(database)
    );
    let row = session.rows(&default)?.into_iter().next().unwrap_or_default();
    let number = |index: usize| row.get(index).and_then(|text: &String| text.parse().ok()).unwrap_or(0);
    Ok(Some(Contents { files: number(0), bytes: number(1) }))
}

/// A template to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// So many small tables, each with a primary key and a text column: two files more for TOAST.
    Tables(u32),
    /// The tables of pgbench at a scale, filled as `pgbench -i` fills them; without pgbench itself.
    Pgbench(u32),
}

impl Recipe {
    /// From `tables=N` or `pgbench=S`.
    pub fn parse(text: &str) -> Result<Self, ServerError> {
        let malformed = || ServerError::MalformedRecipe { text: text.to_owned() };
        let (kind, number) = text.split_once('=').ok_or_else(malformed)?;
        let number =
            number.parse().ok().filter(|number| (1..=100_000).contains(number)).ok_or_else(malformed)?;
        match kind {
            "tables" => Ok(Self::Tables(number)),
            "pgbench" => Ok(Self::Pgbench(number)),
            _ => Err(malformed()),
        }
    }

    /// The statements, one transaction each.
    fn statements(self) -> Vec<String> {
        match self {
            Self::Tables(count) => (1..=count)
                .map(|n| {
                    format!(
                        "CREATE TABLE t{n} (id integer PRIMARY KEY, note text); \
                         INSERT INTO t{n} SELECT i, md5(i::text) FROM generate_series(1, 100) AS i"
                    )
                })
                .collect(),
            // Definitions and row counts of pgbench -i; source: its documentation.
            Self::Pgbench(scale) => vec![
                "CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22)); \
                 CREATE TABLE pgbench_tellers (tid int NOT NULL, bid int, tbalance int, filler char(84)) WITH (fillfactor=100); \
                 CREATE TABLE pgbench_accounts (aid int NOT NULL, bid int, abalance int, filler char(84)) WITH (fillfactor=100); \
                 CREATE TABLE pgbench_branches (bid int NOT NULL, bbalance int, filler char(88)) WITH (fillfactor=100)"
                    .to_owned(),
                format!("INSERT INTO pgbench_branches SELECT i, 0, '' FROM generate_series(1, {scale}) AS i"),
                format!("INSERT INTO pgbench_tellers SELECT i, (i - 1) / 10 + 1, 0, '' FROM generate_series(1, 10 * {scale}) AS i"),
                format!(
                    "INSERT INTO pgbench_accounts SELECT i, (i - 1) / 100000 + 1, 0, '' \
                     FROM generate_series(1::bigint, 100000::bigint * {scale}) AS i"
                ),
                "ALTER TABLE pgbench_branches ADD PRIMARY KEY (bid); ALTER TABLE pgbench_tellers ADD PRIMARY KEY (tid); \
                 ALTER TABLE pgbench_accounts ADD PRIMARY KEY (aid)"
                    .to_owned(),
            ],
        }
    }

    /// Makes the database and fills it; then everything is vacuumed and on disk, so that no trial pays for it.
    pub fn make(self, session: &mut Session, name: &str, watch: &dyn Watch) -> Result<(), ServerError> {
        session.run(&format!("CREATE DATABASE {} TEMPLATE template0", identifier(name)))?;
        let mut inside = session.another(name)?;
        for statement in self.statements() {
            if let Some(stop) = watch.stop() {
                return Err(ServerError::Stopped(stop));
            }
            inside.run(&statement)?;
        }
        inside.run("VACUUM (ANALYZE)")?;
        inside.run("CHECKPOINT")
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tables(count) => write!(f, "tables={count}"),
            Self::Pgbench(scale) => write!(f, "pgbench={scale}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipes_are_read_and_odd_ones_refused() {
        assert_eq!(Recipe::parse("tables=300").expect("recipe"), Recipe::Tables(300));
        assert_eq!(Recipe::parse("pgbench=10").expect("recipe"), Recipe::Pgbench(10));
        for text in ["tables", "tables=0", "tables=-1", "views=1", "pgbench=x"] {
            assert!(Recipe::parse(text).is_err(), "{text}");
        }
    }
}
