//! Connections: the hosts of a [`Target`] in turn, each encrypted as asked for, as libpq goes through them.

mod names;
mod tls;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use postgres::config::{SslMode as Wire, SslNegotiation};
use postgres::error::SqlState;
use postgres::{Client, Config, NoTls, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::conninfo::{Address, Host, SessionAttrs, SslMode, Target, quoted};
use super::error::ServerError;
use super::sql::literal;
use crate::sys::watch::Deadline;

/// A connection, and how it came about.
pub struct Session {
    client: Client,
    /// The host that took it.
    pub host: Host,
    /// The database.
    pub database: String,
    target: Target,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("place", &place(&self.host))
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

/// One host that could not be used.
#[derive(Debug)]
pub struct Attempt {
    /// As libpq names it: `at "db", port 5432`, `on socket "/tmp/.s.PGSQL.5432"`.
    pub place: String,
    /// Why.
    pub reason: Reason,
}

/// Why a host could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// It did not answer, or not kindly.
    #[error("{}", super::error::worded(.0))]
    Postgres(#[source] postgres::Error),
    /// `target_session_attrs=read-write`.
    #[error("session is read-only")]
    ReadOnly,
    /// `target_session_attrs=read-only`.
    #[error("session is not read-only")]
    NotReadOnly,
    /// `target_session_attrs=primary`.
    #[error("server is in hot standby mode")]
    Standby,
    /// `target_session_attrs=standby`.
    #[error("server is not in hot standby mode")]
    NotStandby,
}

/// How long a server may go on with the statement of a client that was killed.
const GONE_LIMIT: Duration = Duration::from_mins(5);

/// Connects to the first host and database that will do.
///
/// # Panics
/// Never: a target names at least one database.
pub fn connect(target: &Target) -> Result<Session, ServerError> {
    let (last, earlier) = target.databases.split_last().expect("a target names at least one database");
    for database in earlier {
        match connect_to(target, database) {
            Err(error) if error.sql_state() == Some(&SqlState::INVALID_CATALOG_NAME) => {}
            decided => return decided,
        }
    }
    connect_to(target, last)
}

/// Connects to a database of the target's server.
pub fn connect_to(target: &Target, database: &str) -> Result<Session, ServerError> {
    let mut attempts = Vec::new();
    let passes: &[SessionAttrs] = match target.session_attrs {
        SessionAttrs::PreferStandby => &[SessionAttrs::Standby, SessionAttrs::Any],
        SessionAttrs::Any => &[SessionAttrs::Any],
        SessionAttrs::ReadWrite => &[SessionAttrs::ReadWrite],
        SessionAttrs::ReadOnly => &[SessionAttrs::ReadOnly],
        SessionAttrs::Primary => &[SessionAttrs::Primary],
        SessionAttrs::Standby => &[SessionAttrs::Standby],
    };
    for attrs in passes {
        for host in &target.hosts {
            match connect_host(target, host, database, *attrs)? {
                Ok(session) => return Ok(session),
                Err(reason) => {
                    let last = is_final(&reason);
                    attempts.push(Attempt { place: place(host), reason });
                    if last {
                        return Err(ServerError::Unreachable { attempts });
                    }
                }
            }
        }
    }
    Err(ServerError::Unreachable { attempts })
}

/// A server that answered with an error ends the search, unless it is only starting or stopping: so libpq does.
fn is_final(reason: &Reason) -> bool {
    let Reason::Postgres(error) = reason else { return false };
    error.code().is_some_and(|code| *code != SqlState::CANNOT_CONNECT_NOW)
}

type Tried<T> = Result<Result<T, Reason>, ServerError>;

fn connect_host(target: &Target, host: &Host, database: &str, attrs: SessionAttrs) -> Tried<Session> {
    let client = match open(target, host, database)? {
        Ok(client) => client,
        Err(error) => return Ok(Err(Reason::Postgres(error))),
    };
    let mut session =
        Session { client, host: host.clone(), database: database.to_owned(), target: target.clone() };
    match session.suits(attrs)? {
        None => Ok(Ok(session)),
        Some(reason) => Ok(Err(reason)),
    }
}

/// The first way of encrypting that the mode allows, then the second.
fn open(
    target: &Target,
    host: &Host,
    database: &str,
) -> Result<Result<Client, postgres::Error>, ServerError> {
    let config = config(target, host, database);
    let plain = || {
        let mut config = config.clone();
        config.ssl_mode(Wire::Disable).connect(NoTls)
    };
    let encrypted = |wire: Wire| -> Result<Result<Client, postgres::Error>, ServerError> {
        let tls = MakeRustlsConnect::new(tls::configuration(&target.tls)?);
        let mut config = config.clone();
        Ok(config.ssl_mode(wire).connect(tls))
    };
    // A socket needs no encryption, whatever the mode.
    if matches!(host.address, Address::Socket(_)) {
        return Ok(plain());
    }
    match target.tls.mode {
        SslMode::Disable => Ok(plain()),
        SslMode::Allow => match plain() {
            Err(error) if is_refused(&error) => encrypted(Wire::Require),
            decided => Ok(decided),
        },
        SslMode::Prefer => match encrypted(Wire::Prefer)? {
            Err(error) if is_refused(&error) || is_tls(&error) => Ok(plain()),
            decided => Ok(decided),
        },
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => encrypted(Wire::Require),
    }
}

/// The server wants it encrypted, or not encrypted.
fn is_refused(error: &postgres::Error) -> bool {
    error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION)
}

fn is_tls(error: &postgres::Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    source
        .and_then(io::Error::get_ref)
        .is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>)
}

fn config(target: &Target, host: &Host, database: &str) -> Config {
    let mut config = Config::new();
    match &host.address {
        Address::Socket(directory) => {
            config.host_path(socket_directory(directory));
        }
        Address::Tcp { name, address } => {
            config.host(name);
            address.map(|address| config.hostaddr(address));
        }
    }
    config
        .port(host.port)
        .user(&target.user)
        .dbname(database)
        .application_name(&target.application_name)
        .connect_timeout(target.connect_timeout)
        .channel_binding(target.channel_binding)
        .keepalives(!target.keepalive.off);
    if target.tls.direct {
        config.ssl_negotiation(SslNegotiation::Direct);
    }
    host.password.as_ref().map(|password| config.password(password));
    target.options.as_ref().map(|options| config.options(options));
    let seconds = |value: u32| Duration::from_secs(value.into());
    target.keepalive.idle_s.map(|value| config.keepalives_idle(seconds(value)));
    target.keepalive.interval_s.map(|value| config.keepalives_interval(seconds(value)));
    target.keepalive.count.map(|value| config.keepalives_retries(value));
    target
        .keepalive
        .user_timeout_ms
        .map(|value| config.tcp_user_timeout(Duration::from_millis(value.into())));
    config
}

/// An abstract socket begins with a zero byte where libpq lets one write `@`.
fn socket_directory(directory: &Path) -> PathBuf {
    match directory.to_str().and_then(|text| text.strip_prefix('@')) {
        Some(rest) => PathBuf::from(format!("\0{rest}")),
        None => directory.to_path_buf(),
    }
}

/// A host as libpq names it in messages.
fn place(host: &Host) -> String {
    match &host.address {
        Address::Socket(directory) => {
            format!("on socket \"{}/.s.PGSQL.{}\"", crate::sys::error::shown(directory), host.port)
        }
        Address::Tcp { name, address: Some(address) } if name.parse() != Ok(*address) => {
            format!("at \"{name}\" ({address}), port {}", host.port)
        }
        Address::Tcp { name, .. } => format!("at \"{name}\", port {}", host.port),
    }
}

impl Session {
    /// Whether the server is of the kind asked for; why not, otherwise.
    fn suits(&mut self, attrs: SessionAttrs) -> Result<Option<Reason>, ServerError> {
        let wrong = match attrs {
            SessionAttrs::Any | SessionAttrs::PreferStandby => return Ok(None),
            SessionAttrs::ReadWrite => {
                (self.value("SHOW transaction_read_only")? == "on").then_some(Reason::ReadOnly)
            }
            SessionAttrs::ReadOnly => {
                (self.value("SHOW transaction_read_only")? == "off").then_some(Reason::NotReadOnly)
            }
            SessionAttrs::Primary => (self.value(IN_RECOVERY)? == "t").then_some(Reason::Standby),
            SessionAttrs::Standby => (self.value(IN_RECOVERY)? == "f").then_some(Reason::NotStandby),
        };
        Ok(wrong)
    }

    /// Runs one or several statements and forgets what they return.
    pub fn run(&mut self, sql: &str) -> Result<(), ServerError> {
        self.client.batch_execute(sql).map_err(|source| ServerError::statement(sql, source))
    }

    /// The rows of a statement, every value as text; null is empty.
    pub fn rows(&mut self, sql: &str) -> Result<Vec<Vec<String>>, ServerError> {
        let messages = self.client.simple_query(sql).map_err(|source| ServerError::statement(sql, source))?;
        Ok(messages
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(
                    (0..row.len()).map(|column| row.get(column).unwrap_or_default().to_owned()).collect(),
                ),
                _ => None,
            })
            .collect())
    }

    /// The first value of the first row; empty where there is none.
    pub fn value(&mut self, sql: &str) -> Result<String, ServerError> {
        Ok(self.rows(sql)?.into_iter().next().and_then(|row| row.into_iter().next()).unwrap_or_default())
    }

    /// The same server and role, another database or the same once more.
    pub fn another(&self, database: &str) -> Result<Self, ServerError> {
        let target = Target { hosts: vec![self.host.clone()], ..self.target.clone() };
        connect_to(&target, database)
    }

    /// What it is called in `pg_stat_activity`.
    pub fn name(&self) -> &str {
        &self.target.application_name
    }

    /// Waits until no session of a name is left: the server goes on with a statement whose client was killed, and a
    /// database it still creates would appear after it was looked for.
    pub fn wait_until_gone(&mut self, name: &str) -> Result<(), ServerError> {
        let deadline = Deadline::after(GONE_LIMIT);
        let sql = format!(
            "SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE application_name = {} AND pid <> pg_backend_pid()",
            literal(name)
        );
        while self.value(&sql)? != "0" {
            if deadline.reached() {
                return Err(ServerError::SessionStillThere { name: name.to_owned(), limit: GONE_LIMIT });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Where it leads, as libpq says it: `at "db", port 5432`, `on socket "/tmp/.s.PGSQL.5432"`.
    pub fn place(&self) -> String {
        place(&self.host)
    }

    /// Whether the server is on this machine for certain: reached by a socket.
    pub fn is_local(&self) -> bool {
        matches!(self.host.address, Address::Socket(_))
    }

    /// How to reach the same server and database again, without a password: for a journal.
    pub fn conninfo(&self) -> String {
        let mut words = vec![match &self.host.address {
            Address::Socket(directory) => format!("host={}", quoted(&directory.to_string_lossy())),
            Address::Tcp { name, address: Some(address) } => {
                format!("host={} hostaddr={address}", quoted(name))
            }
            Address::Tcp { name, .. } => format!("host={}", quoted(name)),
        }];
        words.push(format!("port={}", self.host.port));
        words.push(format!("user={}", quoted(&self.target.user)));
        words.push(format!("dbname={}", quoted(&self.database)));
        words.join(" ")
    }

    /// What a child process of ours needs to reach the same server: variables, for a command line can be read by all.
    /// A variable without a value is to be removed: a service would win over the others.
    pub fn child_environment(&self) -> Vec<(&'static str, Option<OsString>)> {
        let (host, address) = match &self.host.address {
            Address::Socket(directory) => (directory.as_os_str().to_owned(), None),
            Address::Tcp { name, address } => (OsString::from(name), address.map(|a| a.to_string().into())),
        };
        let tls = &self.target.tls;
        let mode = match tls.mode {
            SslMode::Disable => "disable",
            SslMode::Allow => "allow",
            SslMode::Prefer => "prefer",
            SslMode::Require => "require",
            SslMode::VerifyCa => "verify-ca",
            SslMode::VerifyFull => "verify-full",
        };
        let root = tls.root.clone().map_or_else(|| OsString::from("system"), PathBuf::into_os_string);
        vec![
            ("PGSERVICE", None),
            ("PGSERVICEFILE", None),
            ("PGHOST", Some(host)),
            ("PGHOSTADDR", address),
            ("PGPORT", Some(self.host.port.to_string().into())),
            ("PGUSER", Some(self.target.user.clone().into())),
            ("PGDATABASE", Some(self.database.clone().into())),
            ("PGPASSWORD", self.host.password.clone().map(OsString::from)),
            ("PGOPTIONS", self.target.options.clone().map(OsString::from)),
            ("PGSSLMODE", Some(mode.into())),
            ("PGSSLROOTCERT", Some(root)),
            ("PGSSLCERT", Some(tls.certificate.clone().into_os_string())),
            ("PGSSLKEY", Some(tls.key.clone().into_os_string())),
        ]
    }
}

const IN_RECOVERY: &str = "SELECT pg_catalog.pg_is_in_recovery()";
