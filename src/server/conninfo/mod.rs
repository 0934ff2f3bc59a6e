//! How a server is named, as psql takes it: options, connection parameters, services, variables, `.pgpass`, in libpq's
//! order of precedence. Nothing here connects.

mod error;
mod files;
mod keywords;
mod text;
mod tls_files;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use error::ConninfoError;
pub use files::Caution;
pub use keywords::{KEYWORDS, Support};
pub use text::{is_conninfo, quoted};
pub use tls_files::{CertMode, SslMode, TlsWish, Versions};

use files::Wanted;
use keywords::SESSION_VARIABLES;

/// What the command line says of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// `-h`.
    pub host: Option<String>,
    /// `-p`.
    pub port: Option<String>,
    /// `-U`.
    pub user: Option<String>,
    /// `-d` or positional: a name, connection parameters or a URI; parameters win over the options.
    pub database: Option<String>,
}

impl Asked {
    /// A server named by connection parameters alone.
    pub fn conninfo(text: &str) -> Self {
        Self { database: Some(text.to_owned()), ..Self::default() }
    }
}

/// What surrounds the command line.
pub struct Surroundings<'a> {
    /// The variables.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Where `.pgpass` lies.
    pub home: Option<PathBuf>,
    /// The user's name in the operating system.
    pub user: String,
}

impl Surroundings<'_> {
    /// Those of this process.
    pub fn here() -> Result<Self, ConninfoError> {
        let uid = nix::unistd::geteuid();
        let known = nix::unistd::User::from_uid(uid).ok().flatten();
        let known = known.ok_or(ConninfoError::NoUser { uid: uid.as_raw() })?;
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).map_or(known.dir, PathBuf::from);
        Ok(Self { variable: &|name| std::env::var(name).ok(), home: Some(home), user: known.name })
    }
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket in a directory; one that begins with `@` is abstract.
    Socket(PathBuf),
    /// A name or an address, and the address to use in place of the name's.
    Tcp {
        /// As given; for TLS, and to find the address.
        name: String,
        /// `hostaddr`.
        address: Option<IpAddr>,
    },
}

/// One of the hosts to be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Where.
    pub address: Address,
    /// Its port.
    pub port: u16,
    /// From the parameters, else from the password file.
    pub password: Option<String>,
}

/// What kind of server a connection must lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionAttrs {
    /// Any.
    Any,
    /// Sessions may write.
    ReadWrite,
    /// Sessions may not write.
    ReadOnly,
    /// Not in recovery.
    Primary,
    /// In recovery.
    Standby,
    /// In recovery if one of the hosts is, else any.
    PreferStandby,
}

/// Everything needed to connect.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// To be tried in this order; never empty.
    pub hosts: Vec<Host>,
    /// The role.
    pub user: String,
    /// As named; `postgres`, then `template1` where nothing names one.
    pub databases: Vec<String>,
    /// Encryption and certificates.
    pub tls: TlsWish,
    /// What kind of server.
    pub session_attrs: SessionAttrs,
    /// For one host; libpq's minimum of two seconds is kept. Without it thirty seconds, for every wait has a limit.
    pub connect_timeout: Duration,
    /// `disable`, `prefer`, `require`.
    pub channel_binding: postgres::config::ChannelBinding,
    /// The server's command-line options for the session.
    pub options: Option<String>,
    /// As `pg_stat_activity` shows it.
    pub application_name: String,
    /// Parameters of TCP; in seconds but for `tcp_user_timeout`.
    pub keepalive: Keepalive,
    /// What was passed over while this was read.
    pub cautions: Vec<Caution>,
}

/// Parameters of TCP connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keepalive {
    /// `keepalives=0`.
    pub off: bool,
    /// `keepalives_idle`, in seconds.
    pub idle_s: Option<u32>,
    /// `keepalives_interval`, in seconds.
    pub interval_s: Option<u32>,
    /// `keepalives_count`.
    pub count: Option<u32>,
    /// `tcp_user_timeout`, in milliseconds.
    pub user_timeout_ms: Option<u32>,
}

/// The database of a connection for which nothing names one, and the one to try where it is not there: as createdb does.
pub const DEFAULT_DATABASES: [&str; 2] = ["postgres", "template1"];

/// Socket directories of the Debian packages and of PostgreSQL as it is built by itself.
const SOCKET_DIRECTORIES: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// Where services of the whole system are defined: Debian's directory, then that of a server built by itself.
const SYSTEM_DIRECTORIES: [&str; 2] = ["/etc/postgresql-common", "/usr/local/pgsql/etc"];

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads everything that says where a server is.
pub fn resolve(asked: &Asked, around: &Surroundings<'_>) -> Result<Target, ConninfoError> {
    let mut values = Values::asked(asked)?;
    values.add_service(around)?;
    values.add_variables(around);
    values.check_support()?;
    let (lines, caution) = match values.get("password") {
        Some(_) => (Vec::new(), None),
        None => files::read_passfile(&values.passfile(around)),
    };
    let user = values.get("user").unwrap_or(&around.user).to_owned();
    let databases = match values.get("dbname") {
        Some(name) => vec![name.to_owned()],
        None => DEFAULT_DATABASES.map(str::to_owned).to_vec(),
    };
    let hosts = values.hosts(|host, port| {
        let wanted = Wanted { host, port, database: &databases[0], user: &user };
        values.get("password").map(str::to_owned).or_else(|| files::password(&lines, wanted))
    })?;
    Ok(Target {
        hosts,
        user,
        databases,
        tls: TlsWish::read(&values, around)?,
        session_attrs: values.choice("target_session_attrs", SESSION_ATTRS)?,
        connect_timeout: values.connect_timeout()?,
        channel_binding: values.choice("channel_binding", CHANNEL_BINDING)?,
        options: values.options(around),
        application_name: values.application_name().to_owned(),
        keepalive: values.keepalive()?,
        cautions: caution.into_iter().collect(),
    })
}

const SESSION_ATTRS: &[(&str, SessionAttrs)] = &[
    ("any", SessionAttrs::Any),
    ("read-write", SessionAttrs::ReadWrite),
    ("read-only", SessionAttrs::ReadOnly),
    ("primary", SessionAttrs::Primary),
    ("standby", SessionAttrs::Standby),
    ("prefer-standby", SessionAttrs::PreferStandby),
];

const CHANNEL_BINDING: &[(&str, postgres::config::ChannelBinding)] = &[
    ("prefer", postgres::config::ChannelBinding::Prefer),
    ("disable", postgres::config::ChannelBinding::Disable),
    ("require", postgres::config::ChannelBinding::Require),
];

/// Parameters by name, gathered from the strongest source to the weakest. An empty value counts as none.
struct Values(BTreeMap<&'static str, String>);

impl Values {
    fn asked(asked: &Asked) -> Result<Self, ConninfoError> {
        let mut values = BTreeMap::new();
        let options = [("host", &asked.host), ("port", &asked.port), ("user", &asked.user)];
        for (name, value) in options {
            values.extend(value.clone().map(|value| (name, value)));
        }
        match &asked.database {
            Some(text) if is_conninfo(text) => values.extend(text::parse(text)?),
            Some(name) => values.extend([("dbname", name.clone())]),
            None => {}
        }
        Ok(Self(values))
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn add_service(&mut self, around: &Surroundings<'_>) -> Result<(), ConninfoError> {
        let service = self.0.get("service").cloned().or_else(|| (around.variable)("PGSERVICE"));
        let Some(service) = service.filter(|service| !service.is_empty()) else { return Ok(()) };
        let named = self.0.get("servicefile").cloned().or_else(|| (around.variable)("PGSERVICEFILE"));
        let own = match named {
            Some(path) => Some(PathBuf::from(path)),
            None => {
                around.home.as_ref().map(|home| home.join(".pg_service.conf")).filter(|path| path.exists())
            }
        };
        let system: Vec<PathBuf> = match (around.variable)("PGSYSCONFDIR") {
            Some(directory) => vec![PathBuf::from(directory)],
            None => SYSTEM_DIRECTORIES.map(PathBuf::from).to_vec(),
        };
        let system =
            system.into_iter().map(|directory| directory.join("pg_service.conf")).find(|path| path.exists());
        for path in own.into_iter().chain(system) {
            if let Some(pairs) = files::read_service(&path, &service)? {
                // Of a line that stands twice libpq takes the first.
                for (name, value) in pairs {
                    self.0.entry(name).or_insert(value);
                }
                return Ok(());
            }
        }
        Err(ConninfoError::ServiceNotFound { service })
    }

    fn add_variables(&mut self, around: &Surroundings<'_>) {
        for keyword in KEYWORDS {
            if let Some(value) = keyword.variable.and_then(around.variable) {
                self.0.entry(keyword.name).or_insert(value);
            }
        }
    }

    fn check_support(&self) -> Result<(), ConninfoError> {
        for keyword in KEYWORDS {
            let value = self.0.get(keyword.name).map_or("", String::as_str);
            match keyword.support {
                Support::OnlyAs(values) if !value.is_empty() && !values.contains(&value) => {
                    return Err(ConninfoError::Unsupported { name: keyword.name });
                }
                _ => {}
            }
        }
        match self.get("gssencmode") {
            Some("require") => Err(ConninfoError::Unsupported { name: "gssencmode" }),
            _ => Ok(()),
        }
    }

    /// The value of a parameter that has a list of them; the first of the list where it is not given.
    fn choice<T: Copy>(&self, name: &'static str, choices: &[(&str, T)]) -> Result<T, ConninfoError> {
        let Some(value) = self.get(name) else { return Ok(choices[0].1) };
        let found = choices.iter().find(|(known, _)| *known == value).map(|(_, choice)| *choice);
        found.ok_or_else(|| ConninfoError::InvalidValue { name, value: value.to_owned() })
    }

    fn number<T: std::str::FromStr>(&self, name: &'static str) -> Result<Option<T>, ConninfoError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let invalid = || ConninfoError::InvalidValue { name, value: value.to_owned() };
        value.trim().parse().map(Some).map_err(|_| invalid())
    }

    fn passfile(&self, around: &Surroundings<'_>) -> PathBuf {
        match (self.get("passfile"), &around.home) {
            (Some(path), _) => PathBuf::from(path),
            (None, Some(home)) => home.join(".pgpass"),
            (None, None) => PathBuf::from(".pgpass"),
        }
    }

    fn hosts(&self, password: impl Fn(&str, &str) -> Option<String>) -> Result<Vec<Host>, ConninfoError> {
        let list = |name| self.get(name).map(|text| text.split(',').collect::<Vec<_>>());
        let (names, addresses) = (list("host"), list("hostaddr"));
        let ports = list("port").unwrap_or_else(|| vec![""]);
        let count = names.as_ref().or(addresses.as_ref()).map_or(1, Vec::len);
        let mismatch = |what, found| Err(ConninfoError::Mismatch { what, found, hosts: count });
        match &addresses {
            Some(addresses) if addresses.len() != count => {
                return mismatch("hostaddr values", addresses.len());
            }
            _ => {}
        }
        if ports.len() != 1 && ports.len() != count {
            return mismatch("port numbers", ports.len());
        }
        let at = |list: &Option<Vec<&'_ str>>, index| list.as_ref().map_or("", |list| list[index]).to_owned();
        (0..count)
            .map(|index| {
                let port_text = match ports[if ports.len() == 1 { 0 } else { index }].trim() {
                    "" => "5432",
                    text => text,
                };
                let port = port_text.parse().ok().filter(|port| *port != 0).ok_or_else(|| {
                    ConninfoError::InvalidValue { name: "port", value: port_text.to_owned() }
                })?;
                let (name, given_address) = (at(&names, index), at(&addresses, index));
                let address = address(&name, &given_address, port)?;
                let sought = match (&address, name.as_str(), given_address.as_str()) {
                    (Address::Socket(directory), ..) if is_default(directory) => "localhost",
                    (_, "", address) => address,
                    (_, name, _) => name,
                };
                Ok(Host { password: password(sought, port_text), address, port })
            })
            .collect()
    }

    fn connect_timeout(&self) -> Result<Duration, ConninfoError> {
        Ok(match self.number::<i64>("connect_timeout")? {
            Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs().max(2)),
            _ => DEFAULT_TIMEOUT,
        })
    }

    /// The session's options, with what libpq makes of the variables for settings in front of them.
    fn options(&self, around: &Surroundings<'_>) -> Option<String> {
        let settings = SESSION_VARIABLES.iter().filter_map(|(variable, setting)| {
            let value = (around.variable)(variable).filter(|value| value != "default")?;
            Some(format!("-c {setting}={}", value.replace('\\', "\\\\").replace(' ', "\\ ")))
        });
        let all: Vec<String> = settings.chain(self.get("options").map(str::to_owned)).collect();
        (!all.is_empty()).then(|| all.join(" "))
    }

    fn application_name(&self) -> &str {
        self.get("application_name").or_else(|| self.get("fallback_application_name")).unwrap_or("fsynclab")
    }

    fn keepalive(&self) -> Result<Keepalive, ConninfoError> {
        Ok(Keepalive {
            off: self.number("keepalives")? == Some(0),
            idle_s: self.number("keepalives_idle")?,
            interval_s: self.number("keepalives_interval")?,
            count: self.number("keepalives_count")?,
            user_timeout_ms: self.number("tcp_user_timeout")?,
        })
    }
}

fn address(name: &str, given: &str, port: u16) -> Result<Address, ConninfoError> {
    if !given.is_empty() {
        let address = given
            .parse()
            .map_err(|_| ConninfoError::InvalidValue { name: "hostaddr", value: given.to_owned() })?;
        let name = if name.is_empty() { given } else { name };
        return Ok(Address::Tcp { name: name.to_owned(), address: Some(address) });
    }
    Ok(match name {
        "" => Address::Socket(default_socket_directory(port)),
        name if name.starts_with(['/', '@']) => Address::Socket(PathBuf::from(name)),
        name => Address::Tcp { name: name.to_owned(), address: None },
    })
}

/// The first of the default directories with a socket for this port, else the first that is there: libpq's is fixed when
/// it is built, and a program that serves all builds has to look.
fn default_socket_directory(port: u16) -> PathBuf {
    let directories = SOCKET_DIRECTORIES.map(PathBuf::from);
    let listening = directories.iter().find(|directory| directory.join(format!(".s.PGSQL.{port}")).exists());
    let there = || directories.iter().find(|directory| directory.is_dir());
    listening.or_else(there).unwrap_or(&directories[0]).clone()
}

fn is_default(directory: &Path) -> bool {
    SOCKET_DIRECTORIES.iter().any(|default| Path::new(default) == directory)
}

#[cfg(test)]
mod tests;
