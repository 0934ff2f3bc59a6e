//! A standby of a scratch cluster, beside it in its run directory and ended with it: what replaying a copy costs there.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::Cluster;
use crate::server::connect::{Session, connect_to};
use crate::server::conninfo::quoted;
use crate::server::error::ServerError;
use crate::server::sql::configured;
use crate::sys::clock::now_ns;
use crate::sys::tools::Finished;
use crate::sys::watch::{Deadline, Watch};

const PORT: u16 = 5433;

/// How long it may take until the primary's WAL flows.
const START_LIMIT: Duration = Duration::from_mins(1);

/// How long a standby may take to receive or to replay one copy.
const LIMIT: Duration = Duration::from_mins(10);
/// How often it is asked; no replay time is more precise than that.
const ASKED_EVERY: Duration = Duration::from_micros(500);

/// A standby, running.
#[derive(Debug)]
pub struct Standby {
    session: Session,
}

impl Standby {
    /// Copies the cluster and starts the copy as its standby.
    pub fn make(cluster: &Cluster, watch: &dyn Watch) -> Result<Self, ServerError> {
        let data = cluster.run_directory().join("standby");
        let sockets = cluster.socket_directory();
        cluster
            .program("pg_basebackup")
            .args(["--checkpoint=fast", "--wal-method=stream", "--no-password"])
            .args(["-U", super::ROLE, "-p", "5432", "-h"])
            .arg(&sockets)
            .arg("-D")
            .arg(&data)
            .run(watch)
            .and_then(Finished::success)?;
        configure(cluster, &data)?;
        let log = cluster.run_directory().join("log-standby");
        let started = cluster
            .program("pg_ctl")
            .args(["start", "-w", "-s", "-t", &super::LIMIT.as_secs().to_string(), "-D"])
            .arg(&data)
            .arg("-l")
            .arg(&log)
            .run(watch)
            .and_then(Finished::success);
        started.map_err(|error| said_by(&log, error.into()))?;
        let mut target = cluster.target()?;
        for host in &mut target.hosts {
            host.port = PORT;
        }
        let mut standby = Self { session: connect_to(&target, "postgres")? };
        let streams = "SELECT count(*) = 1 FROM pg_catalog.pg_stat_wal_receiver WHERE status = 'streaming'";
        standby.wait(streams, START_LIMIT, watch).map_err(|error| said_by(&log, error))?;
        Ok(standby)
    }

    /// How long the standby needs to replay what `deed` writes, in nanoseconds: replay is held until everything has
    /// arrived, so that neither the primary's work nor the network is in it.
    pub fn replay_ns(
        &mut self,
        primary: &mut Session,
        watch: &dyn Watch,
        deed: impl FnOnce(&mut Session) -> Result<(), ServerError>,
    ) -> Result<u64, ServerError> {
        self.session.run("SELECT pg_catalog.pg_wal_replay_pause()")?;
        let done = deed(primary).and_then(|()| {
            let end = primary.value("SELECT pg_catalog.pg_current_wal_flush_lsn()")?;
            self.wait(&format!("SELECT pg_catalog.pg_last_wal_receive_lsn() >= '{end}'"), LIMIT, watch)?;
            Ok(end)
        });
        let began_ns = now_ns();
        self.session.run("SELECT pg_catalog.pg_wal_replay_resume()")?;
        self.wait(&format!("SELECT pg_catalog.pg_last_wal_replay_lsn() >= '{}'", done?), LIMIT, watch)?;
        Ok(now_ns() - began_ns)
    }

    fn wait(&mut self, question: &str, limit: Duration, watch: &dyn Watch) -> Result<(), ServerError> {
        let deadline = Deadline::after(limit);
        while self.session.value(question)? != "t" {
            if let Some(stop) = watch.stop() {
                return Err(ServerError::Stopped(stop));
            }
            if deadline.reached() {
                return Err(ServerError::StandbyBehind { limit });
            }
            std::thread::sleep(ASKED_EVERY);
        }
        Ok(())
    }
}

/// What a standby has to be told; until 11 in a file of its own. The words are few: a server that was moved after it was
/// built may use another version's libpq, which knows fewer than pg_basebackup writes.
fn configure(cluster: &Cluster, data: &Path) -> Result<(), ServerError> {
    let primary = format!(
        "user={} port=5432 host={}",
        super::ROLE,
        quoted(&cluster.socket_directory().to_string_lossy())
    );
    let primary = format!("primary_conninfo = {}\n", configured(&primary));
    let configuration = data.join("postgresql.conf");
    if cluster.binaries.version.major >= 12 {
        super::append(&configuration, &format!("\nport = {PORT}\n{primary}"))?;
        return super::write(&data.join("standby.signal"), "");
    }
    super::append(&configuration, &format!("\nport = {PORT}\nhot_standby = on\n"))?;
    super::write(&data.join("recovery.conf"), &format!("standby_mode = on\n{primary}"))
}

fn said_by(log: &Path, error: ServerError) -> ServerError {
    let text = fs::read_to_string(log).unwrap_or_default();
    let said = text.lines().rfind(|line| line.contains("FATAL:")).unwrap_or_default().to_owned();
    ServerError::Cluster { source: Box::new(error), said, log: None }
}
