//! A server on a data directory as something left it: started by us, on a socket that nobody else can open. That it does
//! not start is an answer, not an error.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::{Binaries, processes, target_at};
use crate::server::connect::{Session, connect_to};
use crate::server::error::ServerError;
use crate::sys::clock::now_ns;
use crate::sys::tools::{End, Finished, Running, Tool};
use crate::sys::user::User;
use crate::sys::watch::{Deadline, Watch};

/// For recovery: images lie in memory, and the WAL of a run is short.
const LIMIT: Duration = Duration::from_mins(5);
/// How long a shutdown may take: its checkpoint writes what little a recovery has dirtied.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(30);
/// How often the log is looked at.
const ASKED_EVERY: Duration = Duration::from_millis(10);
/// What a server of any version writes once it takes connections.
const READY: &str = "database system is ready to accept connections";

/// A data directory, and with what a server is started there.
#[derive(Clone, Copy, Debug)]
pub struct Left<'a> {
    /// The programs.
    pub binaries: &'a Binaries,
    /// Who owns the files; nobody else than ourselves unless we are root.
    pub user: Option<&'a User>,
    /// The data directory.
    pub data: &'a Path,
    /// For the socket: a short path, the server's own.
    pub sockets: &'a Path,
    /// The server's log, replaced.
    pub log: &'a Path,
}

/// What came of a start.
#[derive(Debug)]
pub enum Started {
    /// It recovered and takes connections.
    Ready(Recovered),
    /// It does not: the line of its log that tells why.
    Refused(String),
}

/// A server that recovered. [`Recovered::stop`] is the way out.
#[derive(Debug)]
pub struct Recovered {
    running: Running,
    /// From its start until it took connections, in nanoseconds.
    pub recovery_ns: u64,
}

impl Left<'_> {
    /// One of the programs, as the server's user.
    pub fn program(&self, name: &str) -> Tool {
        let tool = Tool::new(self.binaries.program(name)).limit(LIMIT);
        match self.user {
            Some(user) => tool.as_user(user),
            None => tool,
        }
    }

    /// Starts a server and waits until it has recovered.
    pub fn start(&self, watch: &dyn Watch) -> Result<Started, ServerError> {
        // After a reboot the number in it may be another server's: ours.
        fs::remove_file(self.data.join("postmaster.pid")).ok();
        let at = |deed| ServerError::file(deed, self.log);
        let log = File::create(self.log).map_err(at("create file"))?;
        let outlet = || log.try_clone().map(OwnedFd::from).map_err(at("open file"));
        let started_ns = now_ns();
        let mut running = self
            .program("postgres")
            .arg("-D")
            .arg(self.data)
            .args(["-c".to_owned(), format!("unix_socket_directories={}", self.sockets.display())])
            .stdout(outlet()?)
            .stderr(outlet()?)
            .start()?;
        let deadline = Deadline::after(LIMIT);
        loop {
            if self.said().contains(READY) {
                return Ok(Started::Ready(Recovered { running, recovery_ns: now_ns() - started_ns }));
            }
            if let Some(end) = running.ended()? {
                self.end_rest()?;
                return Ok(Started::Refused(self.telling(Some(end))));
            }
            let stop = watch.stop();
            if stop.is_some() || deadline.reached() {
                running.end(Signal::SIGQUIT)?;
                self.end_rest()?;
                return match stop {
                    Some(stop) => Err(ServerError::Stopped(stop)),
                    None => Ok(Started::Refused(self.telling(None))),
                };
            }
            std::thread::sleep(ASKED_EVERY);
        }
    }

    /// A connection to the server that was started.
    pub fn session(&self, database: &str) -> Result<Session, ServerError> {
        connect_to(&target_at(self.sockets.to_path_buf())?, database)
    }

    /// The line of the log that tells most: the first FATAL or PANIC, else the last, else how the server ended.
    pub fn telling(&self, end: Option<End>) -> String {
        let text = self.said();
        let severe = |line: &str| {
            ["PANIC:", "FATAL:"].iter().find_map(|word| line.find(word)).map(|at| line[at..].to_owned())
        };
        let ended = || end.map_or_else(|| "no answer in time".to_owned(), |end| format!("it {end}"));
        text.lines().find_map(severe).or_else(|| text.lines().last().map(str::to_owned)).unwrap_or_else(ended)
    }

    fn said(&self) -> String {
        fs::read(self.log)
            .map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Children of a server that was ended hard.
    fn end_rest(&self) -> Result<(), ServerError> {
        processes::end_all(self.data).map(drop)
    }
}

impl Recovered {
    /// Shuts it down with a checkpoint and waits until nothing of it is left; how it ended. One that is damaged may never end
    /// by itself: seen of 15 that was told to while it recovered from a PANIC.
    pub fn stop(self, left: &Left<'_>) -> Result<Finished, ServerError> {
        let finished = self.running.end_within(Signal::SIGINT, SHUTDOWN_LIMIT)?;
        left.end_rest()?;
        Ok(finished)
    }
}
