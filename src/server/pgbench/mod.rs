//! pgbench as it is: its tables made in a database of ours, its transactions run, its output and its log read.

mod output;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use hdrhistogram::Histogram;
use nix::sys::signal::Signal;

use self::output::Output;
use super::clients::{LIMIT, tool};
use super::connect::Session;
use super::error::ServerError;
use super::features::Features;
use super::sql::literal;
use crate::sys::error::SysError;
use crate::sys::tools::{Finished, Running, Usage};
use crate::sys::watch::{Deadline, Event, Watch};

/// How much longer than asked for a run may take: it first vacuums its tables.
const GRACE: Duration = Duration::from_mins(10);
/// How long the sessions of a run have to end and report what they did.
const GONE_LIMIT: Duration = Duration::from_secs(10);
const ASKED_EVERY: Duration = Duration::from_millis(50);

/// The longest latency a histogram tells apart: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// How pgbench is run; its own options.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// `-c`.
    pub clients: u32,
    /// `-j`.
    pub threads: u32,
    /// `-T` or `-t`.
    pub length: Length,
    /// `-s`.
    pub scale: u32,
    /// `-P`, in seconds.
    pub progress: Option<u32>,
    /// `-R`, transactions a second.
    pub rate: Option<u32>,
}

/// How long pgbench runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// `-T`.
    Seconds(u32),
    /// `-t`, of each client.
    Transactions(u32),
}

impl Workload {
    /// The options of a run.
    pub fn options(&self) -> Vec<String> {
        let (length, count) = match self.length {
            Length::Seconds(seconds) => ("-T", seconds),
            Length::Transactions(each) => ("-t", each),
        };
        let given = [("-c", Some(self.clients)), ("-j", Some(self.threads)), (length, Some(count))];
        let asked = [("-P", self.progress), ("-R", self.rate)];
        let all = given.into_iter().chain(asked);
        all.filter_map(|(option, value)| Some([option.to_owned(), value?.to_string()])).flatten().collect()
    }

    fn limit(&self) -> Duration {
        match self.length {
            Length::Seconds(seconds) => Duration::from_secs(seconds.into()) + GRACE,
            Length::Transactions(_) => LIMIT,
        }
    }
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Run {
    /// Transactions finished.
    pub transactions: u64,
    /// Transactions that failed.
    pub failed: u64,
    /// Transactions a second, without the time to connect.
    pub tps: f64,
    /// Of each transaction, in nanoseconds.
    pub latency_ns: Histogram<u64>,
    /// Of pgbench.
    pub usage: Usage,
}

/// An empty histogram of latencies, to which those of runs can be added.
///
/// # Panics
/// Never: its bounds are fixed.
pub fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("bounds that a histogram can have")
}

/// Makes and fills the tables.
pub fn initialise(
    program: &Path,
    session: &Session,
    database: &str,
    scale: u32,
    watch: &dyn Watch,
) -> Result<(), ServerError> {
    let tool = tool(program, session, database).limit(LIMIT);
    tool.args(["-i", "-q", "-s", &scale.to_string()]).run(watch).and_then(Finished::success)?;
    Ok(())
}

/// Runs the transactions; a seed decides which rows they take (pgbench 11). The log is written in an empty directory of ours,
/// read, and removed.
pub fn run(
    program: &Path,
    session: &Session,
    database: &str,
    workload: &Workload,
    seed: Option<u64>,
    log: &Path,
    watch: &dyn Watch,
) -> Result<Run, ServerError> {
    let tool = tool(program, session, database).limit(workload.limit()).directory(log);
    let seed = seed.map(|seed| format!("--random-seed={seed}"));
    let running = tool.arg("-l").args(workload.options()).args(seed).start()?;
    let finished = waited(running, workload.limit(), watch).and_then(Finished::success)?;
    let said = finished.text();
    let Output { transactions, failed, tps } =
        Output::read(&said).ok_or_else(|| ServerError::NoRate { said })?;
    Ok(Run { transactions, failed, tps, latency_ns: read_log(log)?, usage: finished.usage })
}

/// Waits for the end and passes on what it says of its progress.
fn waited(mut running: Running, limit: Duration, watch: &dyn Watch) -> Result<Finished, SysError> {
    let deadline = Deadline::after(limit);
    let mut told = String::new();
    while running.ended()?.is_none() && watch.stop().is_none() && !deadline.reached() {
        tell(running.stderr(), &mut told, watch);
        sleep(ASKED_EVERY);
    }
    if watch.stop().is_some() {
        running.signal(Signal::SIGINT)?;
    }
    let finished = running.wait(watch)?;
    tell(&finished.stderr, &mut told, watch);
    Ok(finished)
}

/// Passes on the last whole line of progress, once.
fn tell(said: &[u8], told: &mut String, watch: &dyn Watch) {
    let said = String::from_utf8_lossy(said);
    let whole = said.rfind('\n').map_or("", |end| &said[..end]);
    match whole.lines().rfind(|line| line.starts_with("progress: ")) {
        Some(last) if last != told => {
            last.clone_into(told);
            watch.event(Event::Note(told));
        }
        _ => {}
    }
}

/// The latencies in the log files of a directory, which are removed.
fn read_log(directory: &Path) -> Result<Histogram<u64>, ServerError> {
    let mut latency_ns = latencies();
    let listed = fs::read_dir(directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    for entry in listed.map_err(ServerError::file("read directory", directory))? {
        let path = entry.path();
        let at = ServerError::file("read file", &path);
        for line in BufReader::new(File::open(&path).map_err(&at)?).lines() {
            if let Some(ns) = output::latency_ns(&line.map_err(&at)?) {
                latency_ns.saturating_record(ns);
            }
        }
        fs::remove_file(&path).map_err(ServerError::file("remove file", &path))?;
    }
    Ok(latency_ns)
}

/// How often the server has synced its WAL so far, or written it synchronously where its method opens the file so;
/// absent before 14, which do not count.
pub fn wal_syncs(session: &mut Session, features: &Features) -> Result<Option<u64>, ServerError> {
    let opened = session.value("SHOW wal_sync_method")?.starts_with("open_");
    let sql = match (features.version_num, opened) {
        (..140_000, _) => return Ok(None),
        (..180_000, true) => "SELECT wal_write FROM pg_catalog.pg_stat_wal",
        (..180_000, false) => "SELECT wal_sync FROM pg_catalog.pg_stat_wal",
        (_, true) => "SELECT sum(writes) FROM pg_catalog.pg_stat_io WHERE object = 'wal'",
        (_, false) => "SELECT sum(fsyncs) FROM pg_catalog.pg_stat_io WHERE object = 'wal'",
    };
    Ok(session.value(sql)?.parse().ok())
}

/// Waits until nobody is connected to a database any more: a session reports what it did when it ends.
pub fn wait_until_left(session: &mut Session, database: &str) -> Result<(), ServerError> {
    let sql =
        format!("SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE datname = {}", literal(database));
    let deadline = Deadline::after(GONE_LIMIT);
    while session.value(&sql)? != "0" && !deadline.reached() {
        sleep(ASKED_EVERY);
    }
    Ok(())
}
