//! A server that recovered, compared with what was acknowledged, then examined by PostgreSQL's own tools.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::ledger::{Promised, Scene};
use super::tally::{Finding, Verdict};
use super::workload::{ACCOUNTS, RESTORED_ROWS, SEED_ROWS, UPDATES};
use crate::powercut::error::{Attempt, Error};
use crate::server::ServerError;
use crate::server::cluster::{Binaries, Left, ROLE, Started, user_at};
use crate::server::connect::Session;
use crate::sys::tools::{End, Finished};
use crate::sys::watch::Watch;

/// What was found on one image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Everything that is not as it must be.
    pub findings: Vec<Finding>,
    /// How long recovery took, in nanoseconds, where the server started.
    pub recovery_ns: Option<u64>,
    /// Commits with `synchronous_commit=off` that had been acknowledged and are not there.
    pub unsynced: u64,
    /// The file system was repaired before it could be mounted.
    pub repaired: bool,
}

impl Checked {
    /// The worst.
    pub fn verdict(&self) -> Verdict {
        let otherwise = if self.repaired { Verdict::NeedsFsck } else { Verdict::Kept };
        self.findings.iter().map(|finding| finding.verdict).max().unwrap_or(otherwise)
    }

    fn add(&mut self, verdict: Verdict, what: impl Into<String>, detail: impl Into<String>) {
        self.findings.push(Finding { verdict, what: what.into(), detail: detail.into() });
    }
}

/// With what images are examined.
#[derive(Clone, Copy)]
pub struct Examiner<'a> {
    /// The server's programs.
    pub binaries: &'a Binaries,
    /// For its socket; its user owns it.
    pub sockets: &'a Path,
    /// Its log, replaced with every image.
    pub log: &'a Path,
    /// Asked whether to stop.
    pub watch: &'a dyn Watch,
}

impl Examiner<'_> {
    /// Recovers the server on a mounted image and looks at everything it has.
    pub fn examine(&self, root: &Path, scene: &Scene, promised: &Promised) -> Result<Checked, Error> {
        let mut checked = Checked::default();
        let user = user_at(root)?;
        let data = root.join(&scene.data);
        let left = Left {
            binaries: self.binaries,
            user: user.as_ref(),
            data: &data,
            sockets: self.sockets,
            log: self.log,
        };
        let server = match left.start(self.watch)? {
            Started::Ready(server) => server,
            Started::Refused(said) => {
                checked.add(Verdict::DoesNotStart, "server", said);
                return Ok(checked);
            }
        };
        checked.recovery_ns = Some(server.recovery_ns);
        let looked = look(&left, promised, &mut checked, self.watch);
        let stopped = server.stop(&left)?;
        looked?;
        if stopped.end == End::Exit(0) {
            checksums(&left, &mut checked, self.watch)?;
        } else {
            checked.add(
                Verdict::Corrupt,
                "server",
                format!("does not stop: {}", left.telling(Some(stopped.end))),
            );
        }
        Ok(checked)
    }
}

/// Tears half a page of the table that nobody writes to: no recovery puts that right.
pub fn tear(root: &Path, scene: &Scene) -> Result<(), Error> {
    let path = root.join(&scene.data).join(&scene.untouched);
    let file = OpenOptions::new().write(true).open(&path).attempt("open file", &path)?;
    file.write_all_at(&[0; 4096], 4096).attempt("write file", &path)
}

/// One thing that is asked.
type Part = fn(&mut Session, &Promised, &mut Checked) -> Result<(), ServerError>;

/// Everything that a running server can be asked.
fn look(left: &Left<'_>, promised: &Promised, checked: &mut Checked, watch: &dyn Watch) -> Result<(), Error> {
    let parts: [(&str, Part); 4] =
        [("commits", commits), ("accounts", accounts), ("databases", databases), ("restores", restores)];
    for (what, part) in parts {
        // A connection of its own: an error may have ended the last.
        let done = left.session("postgres").and_then(|mut session| part(&mut session, promised, checked));
        if let Err(error) = done {
            checked.add(Verdict::Corrupt, what, error.to_string());
        }
    }
    for name in &promised.databases {
        if checked.findings.iter().any(|finding| finding.what == format!("database {name}")) {
            continue;
        }
        let what = format!("database {name}");
        match left.session(name).and_then(|mut session| seed(&mut session)) {
            Ok(true) => {}
            Ok(false) => checked.add(Verdict::Lost, what, "rows of its template are missing"),
            Err(error) => checked.add(Verdict::Corrupt, what, error.to_string()),
        }
    }
    amcheck(left, checked, watch)
}

/// Every acknowledged commit, and no hole.
fn commits(session: &mut Session, promised: &Promised, checked: &mut Checked) -> Result<(), ServerError> {
    let rows = session.rows(
        "SELECT connection, count(*), max(number), \
         count(*) FILTER (WHERE pad <> md5(connection || ' ' || number)) FROM commits GROUP BY connection",
    )?;
    let numbers: Vec<[u32; 4]> = rows.into_iter().filter_map(|row| numbers(&row)).collect();
    for (connection, commits) in &promised.commits {
        let found = numbers.iter().find(|[found, ..]| found == connection);
        let [_, count, last, wrong] = found.copied().unwrap_or([*connection, 0, 0, 0]);
        let what = format!("connection {connection}");
        if last < commits.synchronous {
            let detail = format!(
                "commit {} was acknowledged with synchronous_commit=on, the last that is there is {last}",
                commits.synchronous
            );
            checked.add(Verdict::Lost, &what, detail);
        } else {
            checked.unsynced += u64::from(commits.last.saturating_sub(last));
        }
        if count != last {
            checked.add(Verdict::Corrupt, &what, format!("of commits 1 to {last} only {count} are there"));
        }
        if last > commits.last + 1 {
            let detail = format!("commit {last} is there, and no more than {} were begun", commits.last + 1);
            checked.add(Verdict::Corrupt, &what, detail);
        }
        if wrong > 0 {
            checked.add(Verdict::Corrupt, &what, format!("{wrong} rows are not as they were written"));
        }
    }
    Ok(())
}

/// Each commit adds one to so many accounts: all or nothing of it.
fn accounts(session: &mut Session, promised: &Promised, checked: &mut Checked) -> Result<(), ServerError> {
    let rows = session.rows(
        "SELECT owner, count(*), sum(balance), \
         (SELECT count(*) FROM commits WHERE connection = owner) FROM accounts GROUP BY owner",
    )?;
    let rows: Vec<[u32; 4]> = rows.iter().filter_map(|row| numbers(row)).collect();
    for connection in promised.commits.keys().filter(|one| rows.iter().all(|[owner, ..]| owner != *one)) {
        checked.add(Verdict::Lost, format!("accounts of connection {connection}"), "none is there");
    }
    for [owner, count, sum, commits] in rows {
        let what = format!("accounts of connection {owner}");
        if count != ACCOUNTS {
            checked.add(Verdict::Corrupt, &what, format!("{count} of {ACCOUNTS} are there"));
        }
        if sum != commits * UPDATES {
            checked.add(Verdict::Corrupt, what, format!("{sum} was added by {commits} commits of {UPDATES}"));
        }
    }
    if !seed(session)? {
        checked.add(Verdict::Lost, "seed", "rows that nobody touched are missing");
    }
    Ok(())
}

/// Are the rows of the template whole?
fn seed(session: &mut Session) -> Result<bool, ServerError> {
    let right = session.value("SELECT count(*) FROM seed WHERE pad = md5(n::text)")?;
    Ok(right == SEED_ROWS.to_string())
}

fn databases(session: &mut Session, promised: &Promised, checked: &mut Checked) -> Result<(), ServerError> {
    let there: Vec<String> =
        session.rows("SELECT datname FROM pg_catalog.pg_database")?.into_iter().flatten().collect();
    for name in promised.databases.iter().filter(|name| !there.contains(*name)) {
        checked.add(Verdict::Lost, format!("database {name}"), "was acknowledged and is not there");
    }
    Ok(())
}

fn restores(session: &mut Session, promised: &Promised, checked: &mut Checked) -> Result<(), ServerError> {
    for number in &promised.restores {
        let what = format!("restore {number}");
        let table = format!("restored_{number}.items");
        if session.value(&format!("SELECT to_regclass('{table}') IS NOT NULL"))? == "f" {
            checked.add(Verdict::Lost, what, "was acknowledged and is not there");
            continue;
        }
        let sum = u64::from(RESTORED_ROWS) * u64::from(RESTORED_ROWS + 1) / 2;
        let found = session.rows(&format!("SELECT count(*), coalesce(sum(n), 0) FROM {table}"))?;
        if found.concat() != [RESTORED_ROWS.to_string(), sum.to_string()] {
            let detail = format!("{} of {RESTORED_ROWS} rows, sum {}", found[0][0], found[0][1]);
            checked.add(Verdict::Lost, what, detail);
        }
    }
    Ok(())
}

/// Every table and index of every database, each row found in its indexes.
fn amcheck(left: &Left<'_>, checked: &mut Checked, watch: &dyn Watch) -> Result<(), Error> {
    let tool = left.program("pg_amcheck").env("PGHOST", left.sockets).env("PGUSER", ROLE);
    let finished = tool.args(["-w", "--all", "--heapallindexed"]).run(watch)?;
    complained(&finished, "pg_amcheck", checked);
    Ok(())
}

/// Every page of every file.
fn checksums(left: &Left<'_>, checked: &mut Checked, watch: &dyn Watch) -> Result<(), Error> {
    let finished = left.program("pg_checksums").args(["--check", "-D"]).arg(left.data).run(watch)?;
    complained(&finished, "pg_checksums", checked);
    Ok(())
}

/// A tool that does not end well has found something; its first words tell what.
fn complained(finished: &Finished, tool: &str, checked: &mut Checked) {
    if finished.end == End::Exit(0) {
        return;
    }
    let said = [finished.text(), String::from_utf8_lossy(&finished.stderr).into_owned()].concat();
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let said = lines.take(2).collect::<Vec<_>>().join(" ");
    let said = if said.is_empty() { format!("it {}", finished.end) } else { said };
    checked.add(Verdict::Corrupt, tool, said);
}

fn numbers<const N: usize>(row: &[String]) -> Option<[u32; N]> {
    let numbers: Vec<u32> = row.iter().filter_map(|text| text.parse().ok()).collect();
    numbers.try_into().ok()
}
