//! Scratch clusters: made in a run directory of ours, reached by a socket that nobody else can open, removed on every way
//! out. As root, programs run as the directory's owner, else as postgres, else as nobody.
//!
//! Who may connect is decided by the kernel: `peer`, with a map from our user and the server's to the role `postgres`.

mod binaries;
mod processes;
mod recovered;
mod standby;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

pub use binaries::{Binaries, Version, installed};
pub use processes::inside;
pub use recovered::{Left, Recovered, Started};
pub use standby::Standby;

use super::connect::{Session, connect_to};
use super::conninfo::{Address, Asked, Host, Surroundings, Target, resolve};
use super::error::ServerError;
use super::settings::Setting;
use crate::sys::error::{SysError, shown};
use crate::sys::journal::Journal;
use crate::sys::run_directory::RunDirectory;
use crate::sys::tools::{Finished, Tool};
use crate::sys::undo::{Undo, Undone};
use crate::sys::user::{User, is_root};
use crate::sys::watch::Watch;

/// The role that owns a scratch cluster.
pub const ROLE: &str = "postgres";

/// How long making and starting a cluster may take: on a drive that turns, initdb syncs a thousand files.
const LIMIT: Duration = Duration::from_mins(10);

/// The longest path of a socket (`sun_path` of unix(7), the last zero included).
const SOCKET_PATH_BYTES: usize = 108;

/// A server of ours, running.
#[derive(Debug)]
pub struct Cluster {
    /// Its programs.
    pub binaries: Binaries,
    run: RunDirectory,
    sockets: Option<RunDirectory>,
    wal: Option<RunDirectory>,
    user: Option<User>,
    settings: Vec<Setting>,
    /// What the journal must undo, in the order in which it was done.
    entries: Entries,
}

/// What a cluster is made with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// Beside those that every cluster of ours has.
    pub settings: &'a [Setting],
    /// Another place, for the WAL in a run directory of its own.
    pub wal_place: Option<&'a Path>,
    /// Further options for initdb.
    pub initdb: &'a [&'a str],
}

#[derive(Debug, Default)]
struct Entries {
    directories: Vec<(u64, RunDirectory)>,
    processes: Option<(u64, ClusterProcesses)>,
}

/// The user under whom a cluster at this place runs; nobody else than ourselves unless we are root.
pub fn user_at(place: &Path) -> Result<Option<User>, ServerError> {
    if !is_root() {
        return Ok(None);
    }
    let owner = User::owner_of(place)?;
    if owner.uid != 0 {
        return Ok(Some(owner));
    }
    Ok(Some(User::named("postgres").or_else(|_| User::named("nobody"))?))
}

impl Cluster {
    /// Makes a cluster in a run directory below `place`, with these settings, and starts it. What fails is undone.
    pub fn make(
        place: &Path,
        binaries: &Binaries,
        settings: &[Setting],
        journal: &Journal,
        watch: &dyn Watch,
    ) -> Result<Self, ServerError> {
        Self::make_with(place, binaries, Wanted { settings, ..Wanted::default() }, journal, watch)
    }

    /// The same with more than settings.
    pub fn make_with(
        place: &Path,
        binaries: &Binaries,
        wanted: Wanted<'_>,
        journal: &Journal,
        watch: &dyn Watch,
    ) -> Result<Self, ServerError> {
        super::settings::check_scratch(wanted.settings)?;
        let user = user_at(place)?;
        let (run, n) = RunDirectory::make(place, &["data", "socket", "log", "standby"], journal)?;
        let mut cluster = Self {
            binaries: binaries.clone(),
            sockets: None,
            wal: None,
            user,
            settings: wanted.settings.to_vec(),
            entries: Entries { directories: vec![(n, run.clone())], processes: None },
            run,
        };
        let made = cluster
            .make_wal(wanted.wal_place, journal)
            .and_then(|()| cluster.set_up(wanted.initdb, journal, watch));
        match made {
            Ok(()) => Ok(cluster),
            Err(error) => {
                let error = cluster.with_log(error);
                // The first error is the one to tell; where even this fails, the journal keeps the entry.
                cluster.close(journal).ok();
                Err(error)
            }
        }
    }

    /// Journalled before the processes, so that it is there until they have ended.
    fn make_wal(&mut self, place: Option<&Path>, journal: &Journal) -> Result<(), ServerError> {
        let Some(place) = place else { return Ok(()) };
        let (wal, n) = RunDirectory::make(place, &["wal"], journal)?;
        self.entries.directories.push((n, wal.clone()));
        self.own(wal.path())?;
        self.wal = Some(wal);
        Ok(())
    }

    fn set_up(&mut self, initdb: &[&str], journal: &Journal, watch: &dyn Watch) -> Result<(), ServerError> {
        let processes = ClusterProcesses { directory: self.run.path().to_path_buf() };
        self.entries.processes = Some((journal.push(&processes)?, processes));
        self.own(self.run.path())?;
        if self.run.path().join("socket/.s.PGSQL.5432.lock").as_os_str().len() >= SOCKET_PATH_BYTES {
            let (sockets, n) = RunDirectory::make(Path::new("/tmp"), &["socket"], journal)?;
            self.own(sockets.path())?;
            self.entries.directories.push((n, sockets.clone()));
            self.sockets = Some(sockets);
        }
        let sockets = self.socket_directory();
        fs::create_dir(&sockets).map_err(ServerError::file("create directory", &sockets))?;
        fs::set_permissions(&sockets, fs::Permissions::from_mode(0o700))
            .map_err(ServerError::file("set permissions of directory", &sockets))?;
        self.own(&sockets)?;
        let data = self.data_directory();
        let program = self.program("initdb").arg("-D").arg(&data);
        let program = match &self.wal {
            Some(wal) => program.arg("-X").arg(wal.path().join("wal")),
            None => program,
        };
        program
            .args(["-U", ROLE, "--auth=peer", "--encoding=UTF8", "--locale=C"])
            .args(initdb)
            .run(watch)
            .and_then(Finished::success)
            .map_err(|error| self.no_way(error))?;
        self.configure(&data)?;
        self.control("start", watch)?;
        self.check_settings()
    }

    /// The programs can be run, as was tried before: where one may not be here, it is the directory.
    fn no_way(&self, error: SysError) -> ServerError {
        match (&self.user, error) {
            (Some(user), SysError::Execute { errno: Errno::EACCES, .. }) => ServerError::Impassable {
                directory: self.run.path().to_path_buf(),
                user: user.name.to_string_lossy().into_owned(),
            },
            (_, error) => error.into(),
        }
    }

    /// Gives a directory to the cluster's user.
    fn own(&self, path: &Path) -> Result<(), ServerError> {
        Ok(self.user.as_ref().map_or(Ok(()), |user| user.give(path))?)
    }

    fn configure(&self, data: &Path) -> Result<(), ServerError> {
        let mut text = format!(
            "\nlisten_addresses = ''\nport = 5432\nunix_socket_permissions = 0700\nunix_socket_directories = {}\n\
             log_checkpoints = on\nlogging_collector = off\nlog_destination = 'stderr'\n",
            super::sql::configured(&self.socket_directory().to_string_lossy())
        );
        for setting in &self.settings {
            text.extend([&setting.name, " = ", &super::sql::configured(&setting.value), "\n"]);
        }
        append(&data.join("postgresql.conf"), &text)?;
        let map = self.map()?;
        write(&data.join("pg_ident.conf"), &map)?;
        write(&data.join("pg_hba.conf"), "local all all peer map=ours\nlocal replication all peer map=ours\n")
    }

    /// Who in the operating system is the role `postgres`: ourselves and the server's user.
    fn map(&self) -> Result<String, ServerError> {
        let mut names = vec![Surroundings::here()?.user];
        names.extend(self.user.as_ref().map(|user| user.name.to_string_lossy().into_owned()));
        names.dedup();
        let lines: Vec<String> = names.iter().map(|name| format!("ours \"{name}\" {ROLE}\n")).collect();
        Ok(lines.concat())
    }

    /// One of the server's programs, in the run directory and as the cluster's user.
    pub fn program(&self, name: &str) -> Tool {
        let tool = Tool::new(self.binaries.program(name)).directory(self.run.path()).limit(LIMIT);
        match &self.user {
            Some(user) => tool.as_user(user),
            None => tool,
        }
    }

    fn control(&self, what: &str, watch: &dyn Watch) -> Result<(), ServerError> {
        let seconds = LIMIT.as_secs().to_string();
        let data = self.data_directory();
        let tool =
            self.program("pg_ctl").args([what, "-w", "-s", "-t", &seconds, "-m", "fast", "-D"]).arg(data);
        tool.arg("-l").arg(self.log()).run(watch).and_then(Finished::success)?;
        Ok(())
    }

    /// Stops and starts it, for settings that need that.
    pub fn restart(&self, watch: &dyn Watch) -> Result<(), ServerError> {
        self.control("restart", watch).map_err(|error| self.with_log(error))
    }

    /// Every setting asked for is in force, and those on which durability rests are on unless asked otherwise.
    fn check_settings(&self) -> Result<(), ServerError> {
        super::settings::check_in_force(&mut self.session("postgres")?, &self.settings)
    }

    /// A connection as the role `postgres`.
    pub fn session(&self, database: &str) -> Result<Session, ServerError> {
        connect_to(&self.target()?, database)
    }

    /// Where it is, as a connection needs it.
    pub fn target(&self) -> Result<Target, ServerError> {
        target_at(self.socket_directory())
    }

    /// Ends all its processes at once; nothing is written any more. Its files stay until it is closed.
    pub fn crash(&self) -> Result<(), ServerError> {
        processes::end_all(self.run.path()).map(drop)
    }

    /// Its data directory.
    pub fn data_directory(&self) -> PathBuf {
        self.run.path().join("data")
    }

    /// Its run directory, where a standby of it may lie.
    pub fn run_directory(&self) -> &Path {
        self.run.path()
    }

    fn socket_directory(&self) -> PathBuf {
        self.sockets.as_ref().unwrap_or(&self.run).path().join("socket")
    }

    /// What the server says.
    pub fn log(&self) -> PathBuf {
        self.run.path().join("log")
    }

    /// The error with what the server said last, and its log kept where the run directory's end does not reach it.
    fn with_log(&self, error: ServerError) -> ServerError {
        let Ok(text) = fs::read_to_string(self.log()) else { return error };
        let said =
            text.lines().rfind(|line| line.contains("FATAL:") || line.contains("PANIC:")).unwrap_or_default();
        let kept =
            std::env::temp_dir().join(format!("fsynclab-{}.log", &crate::sys::random::fresh_id()[..8]));
        let kept = fs::write(&kept, &text).ok().map(|()| kept);
        ServerError::Cluster { source: Box::new(error), said: said.to_owned(), log: kept }
    }

    /// Copies the log out of the run directory: for a run in which the server failed.
    pub fn keep_log(&self, error: ServerError) -> ServerError {
        self.with_log(error)
    }

    /// Stops and removes it.
    pub fn close(mut self, journal: &Journal) -> Result<(), ServerError> {
        if let Some((n, processes)) = self.entries.processes.take() {
            journal.undo(n, &processes).map_err(ServerError::Undo)?;
        }
        for (n, directory) in self.entries.directories.drain(..).rev() {
            journal.undo(n, &directory).map_err(ServerError::Undo)?;
        }
        Ok(())
    }
}

/// A server of ours by its socket directory. No variable of ours is read: they speak of other servers.
fn target_at(sockets: PathBuf) -> Result<Target, ServerError> {
    let around = Surroundings { variable: &|_| None, home: None, user: ROLE.to_owned() };
    let mut target = resolve(&Asked::default(), &around)?;
    target.hosts = vec![Host { address: Address::Socket(sockets), port: 5432, password: None }];
    Ok(target)
}

/// The processes of a cluster, for the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterProcesses {
    #[serde(with = "crate::sys::path_text")]
    directory: PathBuf,
}

impl ClusterProcesses {
    /// Those that will work in a directory or below it.
    pub fn below(directory: &Path) -> Self {
        Self { directory: directory.to_path_buf() }
    }
}

impl Undo for ClusterProcesses {
    const KIND: &'static str = "scratch-cluster";
    type Error = ServerError;

    fn describe(&self) -> String {
        format!("scratch cluster in \"{}\"", shown(&self.directory))
    }

    fn undo(&self) -> Result<Undone, ServerError> {
        Ok(if processes::end_all(&self.directory)? { Undone::Now } else { Undone::Before })
    }
}

fn append(path: &Path, text: &str) -> Result<(), ServerError> {
    let old = fs::read_to_string(path).map_err(ServerError::file("read file", path))?;
    write(path, &(old + text))
}

/// Replaces the content and leaves the owner.
fn write(path: &Path, text: &str) -> Result<(), ServerError> {
    fs::write(path, text).map_err(ServerError::file("write file", path))
}
