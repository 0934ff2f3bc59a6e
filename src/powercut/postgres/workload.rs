//! What a cluster does until its power is cut: connections that commit, databases that are created, dumps that are
//! restored, checkpoints in between so that pages of tables are always on their way.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle, scope, sleep};
use std::time::Duration;

use super::ledger::Acknowledged;
use crate::powercut::error::{Attempt, Error};
use crate::powercut::ledger::Ledger;
use crate::server::ServerError;
use crate::server::cluster::Cluster;
use crate::server::connect::Session;
use crate::server::createdb::Strategy;
use crate::server::features::Features;
use crate::sys::tools::Finished;
use crate::sys::watch::{Deadline, Quiet, Watch};

/// Accounts of each connection, about ten to a page.
pub const ACCOUNTS: u32 = 200;
/// Of these, each commit adds one to so many.
pub const UPDATES: u32 = 3;
/// Rows of the table that nobody writes to.
pub const SEED_ROWS: u32 = 400;
/// Rows of a restore.
pub const RESTORED_ROWS: u32 = 1500;
/// An asynchronous connection makes every so manieth commit a synchronous one, which must take the others along.
const SYNCHRONOUS_EVERY: u32 = 10;
/// Databases by each strategy, and restores.
const EACH: u32 = 2;
/// Between two of them at most: a log may be full before the time is over.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Between two checkpoints.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);
/// Between two commits of a connection: where a commit costs nothing the log would soon be full.
const COMMIT_EVERY: Duration = Duration::from_millis(5);
/// How often it is asked whether it is over.
const ASKED_EVERY: Duration = Duration::from_millis(20);
/// A log is read into memory: no more is added to it.
const MOST_LOG_BYTES: u64 = 256 << 20;

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Those with an even number commit synchronously, the others do not wait.
    pub connections: u32,
    /// How long; less where the log grows too long.
    pub duration: Duration,
}

/// Fills a cluster that is new; gives the file of the table that nobody writes to, from the data directory.
pub fn prepare(cluster: &Cluster, workload: Workload) -> Result<String, ServerError> {
    for database in ["template1", "postgres"] {
        cluster.session(database)?.run(&format!(
            "CREATE EXTENSION amcheck; CREATE TABLE seed (n integer PRIMARY KEY, pad text); \
             INSERT INTO seed SELECT n, md5(n::text) FROM generate_series(1, {SEED_ROWS}) n"
        ))?;
    }
    let mut session = cluster.session("postgres")?;
    session.run(&format!(
        "CREATE TABLE commits (connection integer, number integer, pad text, PRIMARY KEY (connection, number)); \
         CREATE TABLE accounts (owner integer, id integer, balance bigint, filler text, PRIMARY KEY (owner, id)); \
         INSERT INTO accounts SELECT owner, id, 0, repeat('x', 700) \
         FROM generate_series(0, {}) owner, generate_series(0, {}) id",
        workload.connections - 1,
        ACCOUNTS - 1
    ))?;
    session.run("CHECKPOINT")?;
    session.value("SELECT pg_relation_filepath('seed')")
}

/// One commit: a row that names it, and so many accounts of the connection's own.
fn transaction(connection: u32, number: u32, synchronous: bool) -> String {
    let ids: Vec<String> =
        (0..UPDATES).map(|nth| ((number * 37 + nth * 67) % ACCOUNTS).to_string()).collect();
    format!(
        "BEGIN; SET LOCAL synchronous_commit = {}; \
         INSERT INTO commits VALUES ({connection}, {number}, md5('{connection} {number}')); \
         UPDATE accounts SET balance = balance + 1 WHERE owner = {connection} AND id IN ({}); COMMIT",
        if synchronous { "on" } else { "off" },
        ids.join(", ")
    )
}

/// A dump as pg_dump words it, of a schema of its own.
fn dump(number: u32) -> String {
    let rows: String =
        (1..=RESTORED_ROWS).map(|n| format!("{n}\t{:032x}\n", u64::from(n) * 2_654_435_761)).collect();
    format!(
        "CREATE SCHEMA restored_{number};\n\
         CREATE TABLE restored_{number}.items (n integer NOT NULL, pad text);\n\
         COPY restored_{number}.items (n, pad) FROM stdin;\n{rows}\\.\n\
         ALTER TABLE ONLY restored_{number}.items ADD CONSTRAINT items_pkey PRIMARY KEY (n);\n\
         CREATE INDEX items_pad ON restored_{number}.items USING btree (pad);\n"
    )
}

/// When everybody stops.
struct Shift {
    deadline: Deadline,
    over: AtomicBool,
    workload: Workload,
}

impl Shift {
    fn over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || self.deadline.reached()
    }

    fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Waits so long, or until it is over.
    fn rest(&self, time: Duration) {
        let until = Deadline::after(time);
        while !until.reached() && !self.over() {
            sleep(until.left().min(ASKED_EVERY));
        }
    }

    /// The part of the time between things of which there are so many.
    fn pause(&self, many: u32) {
        self.rest(LONGEST_PAUSE.min(self.workload.duration / (many + 1)));
    }
}

/// Everything at once.
pub struct Hands<'a, 'drive> {
    /// Who does it.
    pub cluster: &'a Cluster,
    /// Where it is written down.
    pub ledger: &'a Ledger<'drive>,
    /// The write log, which must not grow too long.
    pub log: &'a Path,
    /// Scratch space on real storage, for dumps.
    pub directory: &'a Path,
}

impl Hands<'_, '_> {
    /// Works until the time is over or `watch` says stop; what was begun is finished.
    pub fn work(&self, workload: Workload, watch: &dyn Watch) -> Result<(), Error> {
        let sessions: Vec<Session> = (0..workload.connections + 3)
            .map(|_| self.cluster.session("postgres"))
            .collect::<Result<_, _>>()?;
        let shift =
            Shift { deadline: Deadline::after(workload.duration), over: AtomicBool::new(false), workload };
        scope(|scope| {
            let hands = self.start(scope, &shift, sessions);
            let length = || self.log.metadata().map_or(0, |log| log.len());
            let most_bytes = length() + MOST_LOG_BYTES;
            while !shift.over() {
                let long = length() > most_bytes;
                if long || watch.stop().is_some() {
                    shift.end();
                }
                sleep(ASKED_EVERY);
            }
            let join = |hand: ScopedJoinHandle<'_, Result<(), Error>>| {
                hand.join().unwrap_or(Err(ServerError::WorkerDied.into()))
            };
            // All are waited for before the first error is told.
            hands.into_iter().map(join).fold(Ok(()), Result::and)
        })
    }

    fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        shift: &'scope Shift,
        sessions: Vec<Session>,
    ) -> Vec<ScopedJoinHandle<'scope, Result<(), Error>>> {
        let connections = shift.workload.connections;
        let hand = move |(number, session): (u32, Session)| {
            let done = match number.checked_sub(connections) {
                None => self.commit(session, number, shift),
                Some(0) => self.create(session, shift),
                Some(1) => self.restore(&session, shift),
                Some(_) => checkpoint(session, shift),
            };
            if done.is_err() {
                shift.end();
            }
            done
        };
        (0..).zip(sessions).map(|one| scope.spawn(move || hand(one))).collect()
    }

    fn acknowledge(&self, what: &Acknowledged) {
        self.ledger.mark(&what.to_string());
    }

    fn commit(&self, mut session: Session, connection: u32, shift: &Shift) -> Result<(), Error> {
        let waits = connection.is_multiple_of(2);
        for number in 1.. {
            if shift.over() {
                break;
            }
            let synchronous = waits || number % SYNCHRONOUS_EVERY == 0;
            session.run(&transaction(connection, number, synchronous))?;
            self.acknowledge(&Acknowledged::Commit { connection, number, synchronous });
            shift.rest(COMMIT_EVERY);
        }
        Ok(())
    }

    fn create(&self, mut session: Session, shift: &Shift) -> Result<(), Error> {
        let features = Features::read(&mut session)?;
        let possible = |strategy: &Strategy| strategy.missing(&features).is_none();
        let strategies: Vec<Strategy> = Strategy::ALL.into_iter().filter(possible).collect();
        let all: Vec<(u32, Strategy)> = (1..).zip(strategies.repeat(EACH as usize)).collect();
        for (number, strategy) in &all {
            shift.pause(u32::try_from(all.len()).unwrap_or(1));
            if shift.over() {
                break;
            }
            let name = format!("plug_{number}_{}", strategy.name().replace('+', "_"));
            if let Some(setting) = strategy.session_setting(&features) {
                session.run(setting)?;
            }
            session.run(&strategy.create(&features, &name, "template1"))?;
            self.acknowledge(&Acknowledged::Database(name));
        }
        Ok(())
    }

    fn restore(&self, session: &Session, shift: &Shift) -> Result<(), Error> {
        for number in 1..=EACH {
            shift.pause(EACH);
            if shift.over() {
                break;
            }
            let path = self.directory.join("dump");
            std::fs::write(&path, dump(number)).attempt("write file", &path)?;
            let dump = File::open(&path).attempt("open file", &path)?;
            let mut psql = self.cluster.program("psql").args(["-X", "-q", "-w", "-v", "ON_ERROR_STOP=1"]);
            for (name, value) in session.child_environment() {
                if let Some(value) = value {
                    psql = psql.env(name, value);
                }
            }
            // Every second one in one transaction, where a server with wal_level=minimal leaves out the WAL.
            let psql = if number % 2 == 0 { psql.arg("-1") } else { psql };
            psql.args(["-f", "-"]).stdin(OwnedFd::from(dump)).run(&Quiet).and_then(Finished::success)?;
            self.acknowledge(&Acknowledged::Restore(number));
        }
        Ok(())
    }
}

fn checkpoint(mut session: Session, shift: &Shift) -> Result<(), Error> {
    while !shift.over() {
        shift.rest(CHECKPOINT_EVERY);
        session.run("CHECKPOINT")?;
    }
    Ok(())
}
