//! What a text tells of the server version and the platform it comes from.
//!
//! Layouts by version: `pg_test_fsync.c` at each branch point (9.1 to 18 and master). Only what differs
//! visibly narrows the range, so most texts leave several versions open.

use std::fmt;

use super::Row;
use super::layout::{Block, Method, counts_writes};
use crate::probe::verdict::SyncMethod;

/// A major version of the server: 901 for 9.1, 1000 for 10, as `server_version_num` divided by 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u16);

impl Version {
    /// The first `pg_test_fsync` that installs with the server.
    pub const OLDEST: Version = Version(901);
    /// The newest layout known.
    pub const NEWEST: Version = Version(1900);

    /// The version of a major number: 10 and later.
    pub fn major(major: u16) -> Self {
        Self(major.saturating_mul(100))
    }

    /// The version of `9.minor`.
    pub fn nine(minor: u16) -> Self {
        Self(900_u16.saturating_add(minor))
    }

    /// Reads `9.3.25`, `13.4`, `17`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let mut parts = text[..end].split('.');
        let major: u16 = parts.next()?.parse().ok()?;
        let version = if major == 9 { Self::nine(parts.next()?.parse().ok()?) } else { Self::major(major) };
        (Self::OLDEST..=Self::NEWEST).contains(&version).then_some(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1000 { write!(f, "9.{}", self.0 - 900) } else { write!(f, "{}", self.0 / 100) }
    }
}

/// The versions whose layout the text has, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The oldest possible.
    pub oldest: Version,
    /// The newest possible.
    pub newest: Version,
}

impl Versions {
    /// Any version.
    pub const ANY: Versions = Versions { oldest: Version::OLDEST, newest: Version::NEWEST };

    /// Takes a further clue; one that contradicts those before (an edited text) is passed over.
    pub fn narrow(&mut self, oldest: Version, newest: Version) {
        let (oldest, newest) = (self.oldest.max(oldest), self.newest.min(newest));
        if oldest <= newest {
            *self = Self { oldest, newest };
        }
    }

    fn at_least(&mut self, oldest: Version) {
        self.narrow(oldest, Version::NEWEST);
    }

    fn at_most(&mut self, newest: Version) {
        self.narrow(Version::OLDEST, newest);
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.oldest == self.newest {
            self.oldest.fmt(f)
        } else {
            write!(f, "{} to {}", self.oldest, self.newest)
        }
    }
}

/// What the first lines say of direct I/O: a statement about the build, not about the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectIo {
    /// `O_DIRECT`: the `open_*` lines used it, which servers from 16 on do not.
    Requested,
    /// `F_NOCACHE`: macOS, 15 and later.
    NoCache,
    /// Not supported on this platform.
    Unsupported,
}

/// The platform, as far as the lines give it away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// `fsync` hands data to the drive and does not flush it; `fsync_writethrough` does.
    MacOs,
    /// `open_sync` and, up to 15, `fdatasync` are missing.
    Windows,
    /// Linux or another Unix: nothing in the text tells them apart.
    Unix,
    /// Too few lines.
    Unknown,
}

/// What the text of one run says about where it comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Origin {
    /// Versions with this layout.
    pub versions: Versions,
    /// Platform.
    pub platform: Platform,
    /// Direct I/O, if a line speaks of it.
    pub direct_io: Option<DirectIo>,
    /// Seconds each line was measured, 9.2 and later.
    pub seconds_per_test: Option<u32>,
    /// Operations of each line, 9.1.
    pub operations_per_test: Option<u32>,
    /// Size of one write in the blocks of one and two writes, kB; 8 unless the server was built otherwise.
    pub write_kb: Option<u32>,
}

impl Origin {
    pub(super) const UNKNOWN: Origin = Origin {
        versions: Versions::ANY,
        platform: Platform::Unknown,
        direct_io: None,
        seconds_per_test: None,
        operations_per_test: None,
        write_kb: None,
    };

    /// Takes the clues that any line may carry.
    pub(super) fn observe(&mut self, text: &str) {
        self.observe_path(text);
        let trimmed = text.trim();
        if trimmed.starts_with('(') && text.contains("preference order") {
            match trimmed {
                _ if trimmed.ends_with("except fdatasync") => self.versions.at_most(Version::nine(4)),
                _ if trimmed.ends_with("default)") => self.versions.at_least(Version::nine(5)),
                _ => {}
            }
            if trimmed.starts_with("(in wal_sync_method") {
                self.versions.at_most(Version::major(16));
            } else {
                self.versions.at_least(Version::major(17));
            }
        } else if trimmed.starts_with("Non-Sync'ed") {
            self.versions.at_most(Version::nine(4));
        } else if trimmed.starts_with("Non-sync'ed") {
            self.versions.at_least(Version::nine(5));
        } else if trimmed.contains("»wal_sync_method«") || trimmed.contains("« wal_sync_method »") {
            self.versions.at_least(Version::major(17));
        }
    }

    /// A version named by `-V`, `version()` or the directory in a prompt.
    fn observe_path(&mut self, text: &str) {
        for before in ["PostgreSQL) ", "PostgreSQL ", "postgresql/", "postgresql@", "pgsql-"] {
            let named = text.split_once(before).and_then(|(_, after)| Version::parse(after));
            if let Some(version) = named {
                self.versions.narrow(version, version);
            }
        }
    }

    /// Takes the first line of a run, if this is one.
    pub(super) fn observe_duration(&mut self, text: &str) -> bool {
        let Some((number, others)) = only_number(text) else { return false };
        let text = text.trim().to_lowercase();
        if text.ends_with("operations per test") || text.ends_with("ops per test") {
            self.operations_per_test = Some(number);
            self.versions.narrow(Version::OLDEST, Version::OLDEST);
            return true;
        }
        let english = text.ends_with("per test") && text.contains("second");
        if !english && (others > LONGEST_FIRST_LINE || !SECONDS.iter().any(|word| text.contains(word))) {
            return false;
        }
        self.seconds_per_test = Some(number);
        self.versions.at_least(if english { Version::nine(2) } else { Version::major(10) });
        match text.as_str() {
            "1 second per test" => self.versions.at_least(Version::major(11)),
            "1 seconds per test" => self.versions.at_most(Version::major(10)),
            _ => {}
        }
        true
    }

    /// Takes the line about direct I/O, if this is one.
    pub(super) fn observe_direct_io(&mut self, text: &str) -> bool {
        if text.contains("F_NOCACHE") {
            self.direct_io = Some(DirectIo::NoCache);
            self.platform = Platform::MacOs;
            self.versions.at_least(Version::major(15));
        } else if text.contains("O_DIRECT") && text.contains("open_datasync") {
            self.direct_io = Some(DirectIo::Requested);
        } else if text.trim_start().starts_with("Direct I/O") || text.trim_start().starts_with("Direct-I/O") {
            self.direct_io = Some(DirectIo::Unsupported);
        } else {
            return false;
        }
        true
    }

    /// Takes the columns of a line that still has its own indentation.
    pub(super) fn observe_columns(&mut self, text: &str) {
        if counts_writes(text) {
            self.versions.at_least(Version::nine(2));
        } else if text.contains("kB open_sync") {
            self.versions.at_most(Version::nine(1));
        }
        if text.len() - text.trim_start().len() != 8 || !text.is_ascii() {
            return;
        }
        let not_available_ends = text.find("n/a").map(|_| text.trim_end().len());
        match (not_available_ends, text.find(" ops/sec")) {
            (Some(59), _) => self.versions.at_least(Version::major(11)),
            (Some(60), _) => self.versions.narrow(Version::nine(4), Version::nine(4)),
            (Some(58), _) => self.versions.at_most(Version::major(10)),
            (_, Some(49)) => self.versions.at_most(Version::nine(3)),
            (_, Some(51)) => self.versions.at_least(Version::nine(4)),
            _ => {}
        }
    }

    /// Draws the conclusions that need all rows.
    pub(super) fn conclude(&mut self, rows: &[Row]) {
        if rows.iter().any(|row| row.usecs_per_op.is_some()) {
            self.versions.at_least(Version::nine(3));
        } else if rows.iter().filter(|row| row.ops_per_sec.is_some()).count() > 1 {
            self.versions.at_most(Version::nine(2));
        }
        if self.platform != Platform::Unknown {
            return;
        }
        let one =
            |method| rows.iter().find(|row| row.block == Block::One8 && row.method == Method::Sync(method));
        let missing = |method| one(method).is_some_and(|row| row.ops_per_sec.is_none());
        let there = |method| one(method).is_some_and(|row| row.ops_per_sec.is_some());
        let without_open_sync = missing(SyncMethod::OpenSync) && there(SyncMethod::OpenDatasync);
        self.platform =
            if without_open_sync && !one(SyncMethod::OpenSync).is_some_and(|row| row.direct_io_refused) {
                Platform::Windows
            } else if there(SyncMethod::FsyncWritethrough) {
                Platform::MacOs
            } else if missing(SyncMethod::FsyncWritethrough) || there(SyncMethod::OpenSync) {
                Platform::Unix
            } else {
                Platform::Unknown
            };
    }
}

/// Characters beside its number in the longest translated first line.
const LONGEST_FIRST_LINE: usize = 40;

/// Parts of the word for seconds in the translations of 10 to 19.
const SECONDS: [&str; 11] =
    ["sekund", "second", "segundo", "сек", "秒", "초", "saniye", "წამ", "δευτ", "giây", "szek"];

/// The only number of a text, and how many characters stand beside it.
fn only_number(text: &str) -> Option<(u32, usize)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    let (number, further) = (numbers.next()?, numbers.next());
    let others = text.trim().chars().count().saturating_sub(number.len());
    if further.is_some() { None } else { number.parse().ok().map(|number| (number, others)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_known_in_every_language() {
        let lines = [
            ("30 seconds per test", 30),
            ("2 Sekunden pro Test", 2),
            ("5 secondes par test", 5),
            ("на тест отводится 5 сек.", 5),
            ("テスト１件あたり 5 秒", 5),
            ("검사 간격: 5 초", 5),
            ("test başına 5 saniye", 5),
            ("5 segundos por prueba", 5),
        ];
        for (text, seconds) in lines {
            let mut origin = Origin::UNKNOWN;
            assert!(origin.observe_duration(text), "{text}");
            assert_eq!(origin.seconds_per_test, Some(seconds), "{text}");
        }
        for text in ["it took 5 seconds and 3 ms", "8 Ko d'écritures :", "seconds per test", "8kB writes"] {
            let mut origin = Origin::UNKNOWN;
            assert!(!origin.observe_duration(text), "{text}");
        }
    }

    #[test]
    fn a_named_version_is_taken_and_a_contradiction_passed_over() {
        let cases = [
            ("$ /usr/lib/postgresql/12/bin/pg_test_fsync", "12"),
            ("/usr/pgsql-9.6/bin/pg_test_fsync", "9.6"),
            ("pg_test_fsync (PostgreSQL) 13.4", "13"),
            ("PostgreSQL 9.3.25 on x86_64", "9.3"),
            ("PostgreSQL 42", "9.1 to 19"),
        ];
        for (text, expected) in cases {
            let mut origin = Origin::UNKNOWN;
            origin.observe(text);
            assert_eq!(origin.versions.to_string(), expected, "{text}");
        }
        let mut versions = Versions::ANY;
        versions.at_most(Version::nine(4));
        versions.at_least(Version::major(17));
        assert_eq!(versions.to_string(), "9.1 to 9.4");
    }
}
