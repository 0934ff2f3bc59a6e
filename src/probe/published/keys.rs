//! Sets out of the keys that a results file has in their place.

use super::{Block, Method, Origin, Platform, Version, Versions};
use crate::probe::verdict::SyncMethod;

impl Block {
    /// All of them, in the order of `pg_test_fsync`.
    pub const ALL: [Block; 5] = [Self::One8, Self::Two8, Self::Sizes, Self::Fd, Self::Nosync];

    /// The block of this key.
    pub fn from_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|block| block.key() == key)
    }
}

impl Method {
    /// The method of this key.
    pub fn from_key(key: &str) -> Option<Self> {
        let others = [Self::WriteFsyncClose, Self::WriteCloseFsync, Self::Write].into_iter();
        let sizes = [1, 2, 4, 8, 16].into_iter().map(Self::Writes);
        let methods = SyncMethod::ALL.into_iter().map(Self::Sync).chain(sizes).chain(others);
        methods.into_iter().find(|method| method.to_string() == key)
    }
}

impl Platform {
    /// The key in results; none where the text does not show it.
    pub fn key(self) -> Option<&'static str> {
        match self {
            Self::MacOs => Some("macos"),
            Self::Windows => Some("windows"),
            Self::Unix => Some("unix"),
            Self::Unknown => None,
        }
    }

    /// The platform of this key.
    pub fn from_key(key: Option<&str>) -> Self {
        let known = [Self::MacOs, Self::Windows, Self::Unix];
        known.into_iter().find(|platform| platform.key() == key).unwrap_or(Self::Unknown)
    }
}

impl Versions {
    /// What `Display` writes: `9.3 to 13`, `15`.
    pub fn from_text(text: &str) -> Option<Self> {
        let (oldest, newest) = text.split_once(" to ").unwrap_or((text, text));
        Some(Self { oldest: Version::parse(oldest)?, newest: Version::parse(newest)? })
    }
}

impl Origin {
    /// What our own probe does: as `pg_test_fsync` from 14 on, on Linux, with direct I/O in its `open_*` lines.
    pub fn of_probe() -> Self {
        Self {
            versions: Versions { oldest: Version::major(14), newest: Version::NEWEST },
            platform: Platform::Unix,
            direct_io: Some(super::DirectIo::Requested),
            ..Self::UNKNOWN
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_leads_back() {
        for block in Block::ALL {
            assert_eq!(Block::from_key(block.key()), Some(block));
        }
        for key in ["fdatasync", "fsync_writethrough", "1x16kB", "16x1kB", "write_close_fsync", "write"] {
            assert_eq!(Method::from_key(key).map(|method| method.to_string()).as_deref(), Some(key));
        }
        for platform in [Platform::MacOs, Platform::Windows, Platform::Unix, Platform::Unknown] {
            assert_eq!(Platform::from_key(platform.key()), platform);
        }
        for text in ["9.3 to 13", "15", "9.1 to 19"] {
            assert_eq!(Versions::from_text(text).map(|versions| versions.to_string()).as_deref(), Some(text));
        }
    }
}
