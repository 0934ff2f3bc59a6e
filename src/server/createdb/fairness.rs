//! Whether two servers can be compared: what they are and how they are set.

use std::collections::BTreeMap;

use super::template::Contents;
use crate::server::connect::Session;
use crate::server::error::ServerError;
use crate::server::features::Features;

/// What must be equal for a difference in time to be a difference of the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The arm's server.
    pub server: String,
    /// `version()` up to the compiler.
    pub version: String,
    /// Read-only facts and every setting that is not at its default, by name.
    pub settings: BTreeMap<String, String>,
    /// The template, where it can be looked at.
    pub template: Option<Contents>,
}

/// Facts that no one sets, and that settings at their default do not tell.
const FIXED: &[&str] = &[
    "debug_assertions",
    "block_size",
    "wal_block_size",
    "segment_size",
    "wal_segment_size",
    "data_checksums",
];

/// Settings that initdb writes because a version has them, and that change no time here; then settings that differ
/// between any two clusters and change no time.
const OWN: &[&str] = &[
    "cluster_name",
    "config_file",
    "data_directory",
    "external_pid_file",
    "hba_file",
    "ident_file",
    "log_directory",
    "log_timezone",
    "port",
    "primary_conninfo",
    "timezone",
    "unix_socket_directories",
    "application_name",
    "autovacuum_worker_slots",
    "client_encoding",
];

impl Facts {
    /// Asks a server.
    pub fn read(
        session: &mut Session,
        server: &str,
        features: &Features,
        template: Option<Contents>,
    ) -> Result<Self, ServerError> {
        let fixed: Vec<String> = FIXED.iter().map(|name| format!("'{name}'")).collect();
        let rows = session.rows(&format!(
            "SELECT name, setting FROM pg_catalog.pg_settings \
             WHERE name IN ({}) OR source NOT IN ('default', 'override', 'client')",
            fixed.join(", ")
        ))?;
        let settings = rows
            .into_iter()
            .filter_map(|row| <[String; 2]>::try_from(row).ok())
            .filter(|[name, _]| !OWN.contains(&name.as_str()))
            .map(|[name, setting]| (name, setting))
            .collect();
        Ok(Self { server: server.to_owned(), version: features.version.clone(), settings, template })
    }

    fn setting(&self, name: &str) -> &str {
        self.settings.get(name).map_or("default", String::as_str)
    }

    /// Both in the words of a report's head: `assertions off, 8 kB blocks, checksums on`.
    pub fn in_words(&self) -> String {
        let on = |name: &str| if self.setting(name) == "on" { "on" } else { "off" };
        let block_kb = self.setting("block_size").parse::<u64>().unwrap_or(0) / 1024;
        format!(
            "assertions {}, {block_kb} kB blocks, checksums {}",
            on("debug_assertions"),
            on("data_checksums")
        )
    }
}

/// What differs between two servers apart from their version, a sentence each; `varied` are the settings that the run
/// itself varies.
pub fn differences(one: &Facts, other: &Facts, varied: &[&str]) -> Vec<String> {
    let names: std::collections::BTreeSet<&String> =
        one.settings.keys().chain(other.settings.keys()).collect();
    let mut found: Vec<String> = names
        .into_iter()
        .filter(|name| !varied.contains(&name.as_str()) && one.setting(name) != other.setting(name))
        .map(|name| {
            format!(
                "{name} is {} in {} and {} in {}",
                one.setting(name),
                one.server,
                other.setting(name),
                other.server
            )
        })
        .collect();
    if let (Some(mine), Some(theirs)) = (one.template, other.template)
        && mine != theirs
    {
        found.push(format!(
            "the template has {} files and {} bytes in {}, {} files and {} bytes in {}",
            mine.files, mine.bytes, one.server, theirs.files, theirs.bytes, other.server
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(server: &str, settings: &[(&str, &str)], files: u64) -> Facts {
        let settings =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let template = Some(Contents { files, bytes: 1 });
        Facts { server: server.to_owned(), version: "15.18".to_owned(), settings, template }
    }

    #[test]
    fn every_difference_is_told_but_the_varied_one() {
        let one = facts("a", &[("fsync", "on"), ("block_size", "8192"), ("debug_assertions", "off")], 298);
        let other = facts("b", &[("fsync", "off"), ("block_size", "8192"), ("work_mem", "64")], 299);
        let expected = [
            "debug_assertions is off in a and default in b",
            "work_mem is default in a and 64 in b",
            "the template has 298 files and 1 bytes in a, 299 files and 1 bytes in b",
        ];
        assert_eq!(differences(&one, &other, &["fsync"]), expected);
        assert_eq!(differences(&one, &one, &[]), Vec::<String>::new());
        assert_eq!(one.in_words(), "assertions off, 8 kB blocks, checksums off");
    }
}
