//! What can go wrong in this wing, worded as PostgreSQL words it.

use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use postgres::error::SqlState;

use super::connect::Attempt;
use super::conninfo::ConninfoError;
use super::createdb::template::Holder;
use super::settings::Setting;
use super::sql::identifier;
use crate::sys::error::{SysError, shown};
use crate::sys::undo::UndoError;
use crate::sys::watch::Stop;

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
    /// A call on a file of a cluster failed.
    #[error("could not {deed} \"{}\": {source}", shown(.path))]
    File {
        /// What was to be done: `write file`.
        deed: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No server in a directory.
    #[error("\"{}\" holds no PostgreSQL server", shown(.directory))]
    NoBinaries {
        /// As given.
        directory: PathBuf,
    },
    /// A server without one of its programs.
    #[error("\"{}\" holds no {program}", shown(.directory))]
    NoProgram {
        /// Where the others are.
        directory: PathBuf,
        /// What is missing.
        program: &'static str,
    },
    /// A server that cannot be run.
    #[error("could not run the server in \"{}\"{}: {source}", shown(.directory), as_user(.user.as_deref()))]
    Unusable {
        /// Where it is.
        directory: PathBuf,
        /// As whom it was run.
        user: Option<String>,
        /// Why.
        source: SysError,
    },
    /// A place to which the cluster's user has no way.
    #[error("user \"{user}\" cannot work in \"{}\"", shown(.directory))]
    Impassable {
        /// The cluster's directory.
        directory: PathBuf,
        /// Who.
        user: String,
    },
    /// Something else than a PostgreSQL server.
    #[error("\"{}\" holds no PostgreSQL server: it says \"{said}\"", shown(.directory))]
    UnknownVersion {
        /// Where it is.
        directory: PathBuf,
        /// Its `--version`.
        said: String,
    },
    /// A scratch cluster failed.
    #[error("{}", cluster_worded(.source, .said))]
    Cluster {
        /// The error as we met it.
        source: Box<ServerError>,
        /// The last FATAL or PANIC of the server; empty where there is none.
        said: String,
        /// Where its log was kept.
        log: Option<PathBuf>,
    },
    /// A process of a cluster could not be told to end.
    #[error("could not send a signal to process {pid}: {}", .errno.desc())]
    Kill {
        /// Its number.
        pid: i32,
        /// Why.
        errno: Errno,
    },
    /// Processes that not even SIGKILL ended.
    #[error("the scratch cluster in \"{}\" does not end: processes {pids:?}", shown(.directory))]
    StillRunning {
        /// Its run directory.
        directory: PathBuf,
        /// What still runs.
        pids: Vec<i32>,
    },
    /// Something could not be undone.
    #[error("{0}")]
    Undo(#[source] UndoError),
    /// Not `NAME=VALUE`.
    #[error("invalid setting: \"{text}\"")]
    MalformedSetting {
        /// As given.
        text: String,
    },
    /// A setting on which the safety of a scratch cluster rests.
    #[error("{name} of a scratch cluster cannot be set")]
    SettingIsOurs {
        /// Its name.
        name: String,
    },
    /// A setting that did not take.
    #[error("setting {asked} is not in force: the server has \"{found}\"")]
    SettingNotInForce {
        /// What was asked for.
        asked: Setting,
        /// What SHOW says.
        found: String,
    },
    /// The run was told to stop.
    #[error("stopped: {0}")]
    Stopped(Stop),
    /// strace did not attach.
    #[error("could not trace process {pid}: strace ended")]
    NotTraced {
        /// The backend.
        pid: i32,
    },
    /// A thread of ours panicked.
    #[error("a session's thread ended without a result")]
    WorkerDied,
    /// A name that the server would cut.
    #[error("name \"{name}\" is longer than 63 bytes: the server would cut it")]
    NameTooLong {
        /// In full.
        name: String,
    },
    /// Somebody else's database under a name of ours.
    #[error("database \"{name}\" is not of this program: it is left alone")]
    ForeignDatabase {
        /// Its name.
        name: String,
    },
    /// What was journalled lies on another server than the one that answers.
    #[error("server \"{conninfo}\" is not the one on which databases were left")]
    AnotherServer {
        /// How it was reached.
        conninfo: String,
    },
    /// Nothing can be created in recovery.
    #[error("cannot create databases: the server is in recovery")]
    Standby,
    /// No such template.
    #[error("template database \"{name}\" does not exist")]
    NoTemplate {
        /// Its name.
        name: String,
    },
    /// An interrupted CREATE or DROP left it behind.
    #[error("cannot use invalid database \"{name}\" as template")]
    InvalidTemplate {
        /// Its name.
        name: String,
    },
    /// Neither a template for all nor ours.
    #[error("permission denied to copy database \"{name}\"")]
    TemplateNotOurs {
        /// Its name.
        name: String,
    },
    /// No right to create.
    #[error("permission denied to create database")]
    MayNotCreate,
    /// Its collation is not the one it was built with.
    #[error(
        "template database \"{name}\" was created using collation version {recorded}, but the system has {actual}"
    )]
    CollationMismatch {
        /// Its name.
        name: String,
        /// What it was built with.
        recorded: String,
        /// What is there now.
        actual: String,
    },
    /// Others are connected to it.
    #[error("source database \"{name}\" is being accessed by other users{}", waited(*.limit))]
    TemplateHeld {
        /// Its name.
        name: String,
        /// Who.
        holders: Vec<Holder>,
        /// How long it was waited for.
        limit: Duration,
    },
    /// Not `tables=N` or `pgbench=S`.
    #[error("invalid template to be made: \"{text}\" (tables=N or pgbench=S)")]
    MalformedRecipe {
        /// As given.
        text: String,
    },
    /// No such setting.
    #[error("unrecognized configuration parameter \"{name}\"")]
    UnknownSetting {
        /// Its name.
        name: String,
    },
    /// A setting that was decided when the server was built or the cluster made.
    #[error("parameter \"{name}\" cannot be changed")]
    FixedSetting {
        /// Its name.
        name: String,
    },
    /// A server that does not notice that a client was killed, or has not done with its statement.
    #[error("the server still runs a statement of session \"{name}\" after {} s", .limit.as_secs())]
    SessionStillThere {
        /// Its `application_name`.
        name: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// A setting that is not changed on a server of others.
    #[error("{name} is varied on scratch clusters only")]
    ScratchOnly {
        /// Its name.
        name: String,
    },
    /// A standby that does not catch up.
    #[error("the standby did not catch up within {} s", .limit.as_secs())]
    StandbyBehind {
        /// How long it was waited for.
        limit: Duration,
    },
    /// A program that no directory of programs holds.
    #[error("could not find {program}: neither in \"{}\" nor in PATH", shown(.directory))]
    NoClient {
        /// Its name.
        program: &'static str,
        /// Where the server's programs are.
        directory: PathBuf,
    },
    /// A program that must not be older than a server.
    #[error("{program} is of version {client}, older than the server ({server})")]
    ClientOlder {
        /// Its name.
        program: &'static str,
        /// Its major version.
        client: u32,
        /// The server's.
        server: u32,
    },
    /// A server that is not ours is in use.
    #[error("server \"{server}\" has {active} other active clients")]
    OthersActive {
        /// Its name.
        server: String,
        /// How many.
        active: u64,
    },
    /// What pgbench printed does not say how fast it was.
    #[error("pgbench printed no rate: \"{said}\"")]
    NoRate {
        /// The end of it.
        said: String,
    },
    /// A scratch cluster that would lose data, and nobody asked for that.
    #[error("the scratch cluster runs with {setting}")]
    NotDurable {
        /// The setting in force.
        setting: Setting,
    },
}

impl ServerError {
    pub(super) fn file(deed: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::File { deed, path: path.clone(), source }
    }

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
    pub fn hint(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Conninfo(error) => error.hint().map(Cow::from),
            Self::Sys(error) => error.hint().map(Cow::from),
            Self::Statement { source, .. } => {
                source.as_db_error().and_then(|error| error.hint()).map(Cow::from)
            }
            Self::Cluster { log: Some(log), .. } => {
                Some(format!("the server's log was kept in \"{}\"", shown(log)).into())
            }
            Self::NoBinaries { .. } => {
                Some("--bin takes the directory of postgres, initdb and pg_ctl".into())
            }
            Self::Unusable { user: Some(user), .. } => {
                Some(format!("the directory and all above it must be readable by \"{user}\"").into())
            }
            Self::Impassable { user, .. } => Some(
                format!(
                    "every directory above it must let \"{user}\" pass; simulated drives are mounted below \
                     $FSYNCLAB_STATE_DIR"
                )
                .into(),
            ),
            Self::InvalidTemplate { name } => Some(
                format!("it was left by an interrupted CREATE or DROP DATABASE and can only be dropped: DROP DATABASE {}", identifier(name)).into(),
            ),
            Self::TemplateNotOurs { name } => Some(
                format!("run as its owner, or let all copy it: ALTER DATABASE {} IS_TEMPLATE true", identifier(name)).into(),
            ),
            Self::MayNotCreate => Some("the role needs CREATEDB".into()),
            Self::ClientOlder { .. } => Some("a newer one in PATH is taken too".into()),
            Self::OthersActive { .. } => Some("--yes measures beside them, and slows them down".into()),
            Self::CollationMismatch { name, .. } => Some(
                format!(
                    "rebuild what depends on the collation, then ALTER DATABASE {} REFRESH COLLATION VERSION",
                    identifier(name)
                )
                .into(),
            ),
            Self::TemplateHeld { holders, .. } => Some(
                format!("{}; nobody was disconnected", holders.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")).into(),
            ),
            _ => None,
        }
    }
}

fn waited(limit: Duration) -> String {
    if limit.is_zero() { String::new() } else { format!(" after {} s", limit.as_secs_f64()) }
}

fn as_user(user: Option<&str>) -> String {
    user.map(|user| format!(" as user \"{user}\"")).unwrap_or_default()
}

/// What the server said, where it said something: it knows better than the tool that waited for it.
fn cluster_worded(source: &ServerError, said: &str) -> String {
    match said.find("FATAL:").or_else(|| said.find("PANIC:")) {
        Some(at) => format!("the scratch cluster failed: {}", &said[at..]),
        None => source.to_string(),
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
