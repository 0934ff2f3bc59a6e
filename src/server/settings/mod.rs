//! Settings of a server: asked for, changed, read back, restored.

pub mod change;

use std::fmt;

use crate::server::connect::Session;
use crate::server::error::ServerError;
use crate::server::sql::literal;

/// A setting and its value, as `--set P=V` gives them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setting {
    /// Lower case.
    pub name: String,
    /// As given; SHOW may word it otherwise.
    pub value: String,
}

impl Setting {
    /// From `P=V`.
    pub fn parse(text: &str) -> Result<Self, ServerError> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let name = name.trim().to_lowercase();
        let is_name =
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        if !is_name || !text.contains('=') || value.contains(['\n', '\r']) {
            return Err(ServerError::MalformedSetting { text: text.to_owned() });
        }
        Ok(Self { name, value: unquoted(value.trim()).to_owned() })
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

fn unquoted(value: &str) -> &str {
    value.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')).unwrap_or(value)
}

/// The values of `--vary P=V1,V2`: separated by commas, a value with a comma in double quotes.
pub fn parse_vary(text: &str) -> Result<Vec<Setting>, ServerError> {
    let malformed = || ServerError::MalformedSetting { text: text.to_owned() };
    let (name, values) = text.split_once('=').ok_or_else(malformed)?;
    let mut found = Vec::new();
    let mut rest = values;
    loop {
        let (value, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or_else(malformed)?,
            None => rest.split_at(rest.find(',').unwrap_or(rest.len())),
        };
        let named = Setting::parse(&format!("{name}=")).map_err(|_| malformed())?;
        let setting = Setting { value: value.to_owned(), ..named };
        if found.contains(&setting) || value.is_empty() {
            return Err(malformed());
        }
        found.push(setting);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(found),
            None => return Err(malformed()),
        }
    }
}

/// Every combination of one value of each.
pub fn product(varied: &[Vec<Setting>]) -> Vec<Vec<Setting>> {
    varied.iter().fold(vec![Vec::new()], |combinations, values| {
        let extended = |combination: &Vec<Setting>, value: &Setting| {
            combination.iter().chain([value]).cloned().collect::<Vec<_>>()
        };
        combinations
            .iter()
            .flat_map(|combination| values.iter().map(move |value| extended(combination, value)))
            .collect()
    })
}

/// What a scratch cluster's safety rests on cannot be set.
const OURS: &[&str] = &[
    "listen_addresses",
    "port",
    "unix_socket_directories",
    "unix_socket_permissions",
    "unix_socket_group",
    "hba_file",
    "ident_file",
    "data_directory",
    "config_file",
    "external_pid_file",
    "log_destination",
    "logging_collector",
];

/// What durability rests on, and the values that keep it. Source: the documentation of PostgreSQL, "Reliability" and
/// "Asynchronous Commit".
const DURABLE: &[(&str, &[&str])] = &[
    ("fsync", &["on"]),
    ("full_page_writes", &["on"]),
    ("synchronous_commit", &["on", "local", "remote_write", "remote_apply"]),
    ("data_sync_retry", &["off"]),
];

/// Settings that are never changed on a server that is not ours.
pub const SCRATCH_ONLY: &[&str] = &["fsync", "full_page_writes", "data_sync_retry", "wal_level"];

/// Refuses what would open a scratch cluster to others or move it.
pub fn check_scratch(settings: &[Setting]) -> Result<(), ServerError> {
    match settings.iter().find(|setting| OURS.contains(&setting.name.as_str())) {
        Some(setting) => Err(ServerError::SettingIsOurs { name: setting.name.clone() }),
        None => Ok(()),
    }
}

/// Settings that make a server not durable, in its own words: `fsync=off`. They are said first of all.
pub fn not_durable(session: &mut Session) -> Result<Vec<Setting>, ServerError> {
    let mut found = Vec::new();
    for (name, good) in DURABLE {
        let value = current(session, name)?;
        if value.as_ref().is_some_and(|value| !good.contains(&value.as_str())) {
            found.push(Setting { name: (*name).to_owned(), value: value.unwrap_or_default() });
        }
    }
    Ok(found)
}

/// The value in force; nothing where the server does not know the setting.
pub fn current(session: &mut Session, name: &str) -> Result<Option<String>, ServerError> {
    let rows = session.rows(&format!("SELECT pg_catalog.current_setting({}, true)", literal(name)))?;
    Ok(rows.into_iter().flatten().next().filter(|value| !value.is_empty()))
}

/// Every setting asked for is in force, and those on which durability rests are on unless asked otherwise.
pub fn check_in_force(session: &mut Session, asked: &[Setting]) -> Result<(), ServerError> {
    for setting in asked {
        if !is_in_force(session, setting)? {
            let found = current(session, &setting.name)?.unwrap_or_default();
            return Err(ServerError::SettingNotInForce { asked: setting.clone(), found });
        }
    }
    let weak =
        not_durable(session)?.into_iter().find(|weak| !asked.iter().any(|setting| setting.name == weak.name));
    match weak {
        Some(setting) => Err(ServerError::NotDurable { setting }),
        None => Ok(()),
    }
}

/// Whether the value in force is the one asked for, in whatever unit or spelling: the server itself compares, by setting
/// the asked value in a transaction where that is possible; where it is not, by the configuration file it has applied.
fn is_in_force(session: &mut Session, setting: &Setting) -> Result<bool, ServerError> {
    let found = current(session, &setting.name)?;
    if found.as_deref() == Some(setting.value.as_str()) {
        return Ok(true);
    }
    let name = literal(&setting.name);
    let applied = session.rows(&format!(
        "SELECT f.setting FROM pg_catalog.pg_file_settings f JOIN pg_catalog.pg_settings s USING (name) \
         WHERE lower(f.name) = {name} AND f.applied AND f.error IS NULL AND NOT s.pending_restart \
         AND s.source = 'configuration file' ORDER BY seqno DESC LIMIT 1"
    ))?;
    Ok(applied.into_iter().flatten().next().as_deref() == Some(setting.value.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let shown = match parse_vary(text) {
            Ok(settings) => {
                settings.iter().map(|setting| format!("[{setting}]")).collect::<Vec<_>>().concat()
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn values_are_split_at_commas_outside_quotes() {
        check("wal_sync_method=fdatasync,fsync", "[wal_sync_method=fdatasync][wal_sync_method=fsync]");
        check("X.y=\"a,b\",c", "[x.y=a,b][x.y=c]");
        check("a=1", "[a=1]");
        for text in ["a", "a=", "a=1,", "a=1,1", "a=\"1", "a=\"1\"2", "=1", "a b=1"] {
            check(text, &format!("invalid setting: \"{text}\""));
        }
    }

    #[test]
    fn combinations_keep_the_order_of_the_command_line() {
        let values = |text: &str| parse_vary(text).expect(text);
        let names: Vec<String> = product(&[values("a=1,2"), values("b=3,4")])
            .iter()
            .map(|combination| combination.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(names, ["a=1 b=3", "a=1 b=4", "a=2 b=3", "a=2 b=4"]);
        assert_eq!(product(&[]), [Vec::new()]);
    }

    #[test]
    fn what_would_open_a_scratch_cluster_is_refused() {
        let setting = Setting::parse("Listen_Addresses=*").expect("setting");
        let error = check_scratch(&[setting]).expect_err("refused");
        assert_eq!(error.to_string(), "listen_addresses of a scratch cluster cannot be set");
    }
}
