//! A drive as it is asked for:
//! `MODEL[,write-cache=on|off][,flush=honest|ignored][,fs=ext4|xfs|btrfs][,size=4GiB][,mount=OPTIONS]`.

use std::fmt;
use std::str::FromStr;

use super::Error;
use super::model::{Flush, Model, Options};

/// The size of a drive when none is asked for.
pub const DEFAULT_SIZE_BYTES: u64 = 4 << 30;

/// A drive and the file system on it. Its text is canonical: two that are equal print the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Spec {
    /// A built-in model's name, or the path of a file; see [`super::models::is_path`].
    pub model: String,
    /// On or off; `None`: as the model ships.
    pub write_cache: Option<bool>,
    /// What a flush does; `None`: as the model ships.
    pub flush: Option<Flush>,
    /// The file system on it.
    pub file_system: FileSystem,
    /// Its size.
    pub size_bytes: u64,
    /// Mount options, as `mount -o` takes them.
    pub mount_options: Option<String>,
}

/// A file system that a drive can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileSystem {
    /// ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// btrfs.
    Btrfs,
}

impl FileSystem {
    /// All of them, the default first.
    pub const ALL: [FileSystem; 3] = [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];

    /// As mount names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
            FileSystem::Btrfs => "btrfs",
        }
    }
}

impl Spec {
    /// An ext4 mounted without its journal.
    #[must_use]
    pub fn is_unjournaled(&self) -> bool {
        let mut options = self.mount_options.iter().flat_map(|options| options.split(','));
        self.file_system == FileSystem::Ext4
            && options.any(|option| matches!(option, "noload" | "norecovery"))
    }

    /// What is asked of `model`, or what it ships with where nothing is asked.
    pub fn options(&self, model: &Model, seed: u64) -> Result<Options, Error> {
        if self.write_cache == Some(true) && model.write_cache.is_none() {
            return Err(Error::NoWriteCache { model: model.name.clone() });
        }
        let shipped = model.options(self.size_bytes, seed);
        Ok(Options {
            write_cache: self.write_cache.unwrap_or(shipped.write_cache),
            flush: self.flush.unwrap_or(shipped.flush),
            ..shipped
        })
    }
}

impl FromStr for Spec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Spec, Error> {
        let wrong =
            |part: &str, expected| Error::Spec { spec: text.to_owned(), part: part.to_owned(), expected };
        let (model, mut rest) = text.split_once(',').unwrap_or((text, ""));
        if model.is_empty() || model.contains('=') {
            return Err(wrong(model, "the name of a model or the path of a .toml file"));
        }
        let mut spec = Spec {
            model: model.to_owned(),
            write_cache: None,
            flush: None,
            file_system: FileSystem::Ext4,
            size_bytes: DEFAULT_SIZE_BYTES,
            mount_options: None,
        };
        let mut seen = Vec::new();
        while !rest.is_empty() {
            let (part, after) = if rest.starts_with("mount=") { (rest, "") } else { first_part(rest) };
            rest = after;
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            if seen.contains(&key) {
                return Err(wrong(part, "each key once"));
            }
            seen.push(key);
            spec.set(key, value).map_err(|expected| wrong(part, expected))?;
        }
        if text.ends_with(',') && spec.mount_options.is_none() {
            return Err(wrong("", "a key after the comma"));
        }
        Ok(spec)
    }
}

fn first_part(text: &str) -> (&str, &str) {
    text.split_once(',').unwrap_or((text, ""))
}

impl Spec {
    /// Sets one key; the error says what would have been right.
    fn set(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        match key {
            "write-cache" => {
                self.write_cache = Some(one_of(value, &[("on", true), ("off", false)], "on or off")?);
            }
            "flush" => {
                let values = [("honest", Flush::Honest), ("ignored", Flush::Ignored)];
                self.flush = Some(one_of(value, &values, "honest or ignored")?);
            }
            "fs" => {
                let values = FileSystem::ALL.map(|file_system| (file_system.name(), file_system));
                self.file_system = one_of(value, &values, "ext4, xfs or btrfs")?;
            }
            "size" => {
                let size = parse_size(value).filter(|size| *size > 0 && size.is_multiple_of(4096));
                self.size_bytes =
                    size.ok_or("a size in whole blocks of 4096 bytes, such as 4GiB or 512MB")?;
            }
            "mount" if value.is_empty() => return Err("mount options"),
            "mount" => self.mount_options = Some(value.to_owned()),
            _ => return Err("write-cache=, flush=, fs=, size= or mount="),
        }
        Ok(())
    }
}

fn one_of<T: Copy>(value: &str, values: &[(&str, T)], expected: &'static str) -> Result<T, &'static str> {
    values.iter().find(|(name, _)| *name == value).map(|(_, value)| *value).ok_or(expected)
}

/// Units of size, largest first; as in PostgreSQL kB, MB, GB, TB are powers of 1024.
const UNITS: [(&str, u64); 7] = [
    ("TB", 1 << 40),
    ("GiB", 1 << 30),
    ("GB", 1 << 30),
    ("MiB", 1 << 20),
    ("MB", 1 << 20),
    ("KiB", 1 << 10),
    ("kB", 1 << 10),
];

fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let factor = if unit.is_empty() { 1 } else { UNITS.iter().find(|(name, _)| *name == unit)?.1 };
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse::<u64>().ok()?.checked_mul(factor))?
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.model)?;
        if let Some(on) = self.write_cache {
            write!(f, ",write-cache={}", if on { "on" } else { "off" })?;
        }
        if let Some(flush) = self.flush {
            write!(f, ",flush={}", if flush == Flush::Honest { "honest" } else { "ignored" })?;
        }
        if self.file_system != FileSystem::Ext4 {
            write!(f, ",fs={}", self.file_system.name())?;
        }
        if self.size_bytes != DEFAULT_SIZE_BYTES {
            let units = UNITS.iter().filter(|(name, _)| name.ends_with("iB"));
            match units.into_iter().find(|(_, factor)| self.size_bytes.is_multiple_of(*factor)) {
                Some((name, factor)) => write!(f, ",size={}{name}", self.size_bytes / factor)?,
                None => write!(f, ",size={}", self.size_bytes)?,
            }
        }
        match &self.mount_options {
            Some(options) => write!(f, ",mount={options}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::simdrive::models::built_in;

    #[test]
    fn the_text_is_canonical() {
        for (text, canonical) in [
            ("sata-2009", "sata-2009"),
            ("sata-2009,fs=ext4,size=4GiB", "sata-2009"),
            ("sata-2009,size=512MB,fs=xfs,write-cache=off", "sata-2009,write-cache=off,fs=xfs,size=512MiB"),
            ("./my.toml,flush=ignored,size=8192", "./my.toml,flush=ignored,size=8KiB"),
            ("liar,mount=nobarrier,data=journal,fs=xfs", "liar,mount=nobarrier,data=journal,fs=xfs"),
        ] {
            assert_eq!(text.parse::<Spec>().expect(text).to_string(), canonical);
        }
    }

    #[test]
    fn mount_takes_the_rest() {
        let spec: Spec = "liar,fs=btrfs,mount=compress=zstd,ssd".parse().expect("a spec");
        assert_eq!(spec.mount_options.as_deref(), Some("compress=zstd,ssd"));
    }

    #[test]
    fn an_ext4_without_its_journal_is_told_from_the_options() {
        let is = |text: &str| text.parse::<Spec>().expect("a spec").is_unjournaled();
        assert!(is("liar,mount=noload") && is("liar,mount=noatime,norecovery"));
        assert!(!is("liar") && !is("liar,mount=nobarrier") && !is("liar,fs=xfs,mount=norecovery"));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        for (text, part, expected) in [
            ("", "", "the name of a model"),
            ("fs=ext4", "fs=ext4", "the name of a model"),
            ("liar,write-cache=yes", "write-cache=yes", "on or off"),
            ("liar,flush=no", "flush=no", "honest or ignored"),
            ("liar,fs=zfs", "fs=zfs", "ext4, xfs or btrfs"),
            ("liar,size=1000", "size=1000", "a size"),
            ("liar,size=99999999TB", "size=99999999TB", "a size"),
            ("liar,size=4gib", "size=4gib", "a size"),
            ("liar,depth=4", "depth=4", "write-cache="),
            ("liar,fs=xfs,fs=xfs", "fs=xfs", "each key once"),
            ("liar,", "", "a key after the comma"),
            ("liar,mount=", "mount=", "mount options"),
        ] {
            let message = text.parse::<Spec>().expect_err(text).to_string();
            assert!(message.contains(&format!("could not understand \"{part}\"")), "{message}");
            assert!(message.contains(&format!("expected {expected}")), "{message}");
        }
    }

    #[test]
    fn what_is_not_asked_for_is_as_the_model_ships() {
        let liar = built_in("liar").expect("listed");
        let options = "liar".parse::<Spec>().expect("a spec").options(&liar, 3).expect("options");
        assert_eq!((options.write_cache, options.flush, options.seed), (true, Flush::Ignored, 3));
        let options =
            "liar,write-cache=off".parse::<Spec>().expect("a spec").options(&liar, 3).expect("options");
        assert!(!options.write_cache);
    }

    #[test]
    fn a_drive_without_a_cache_has_none_to_switch_on() {
        let cloud = built_in("cloud-3000").expect("listed");
        let spec: Spec = "cloud-3000,write-cache=on".parse().expect("a spec");
        let message = spec.options(&cloud, 1).expect_err("no cache").to_string();
        assert_eq!(message, "simulated drive \"cloud-3000\" has no write cache to switch on");
    }

    proptest! {
        #[test]
        fn any_spec_is_read_as_it_was_written(
            write_cache in any::<Option<bool>>(), honest in any::<Option<bool>>(), fs in 0_usize..3,
            blocks in 1_u64..1 << 40, mount_options in prop::option::of("[a-z0-9=,]{1,20}"),
        ) {
            let flush = honest.map(|honest| if honest { Flush::Honest } else { Flush::Ignored });
            let (file_system, size_bytes) = (FileSystem::ALL[fs], blocks * 4096);
            let spec =
                Spec { model: "nvme-plp".to_owned(), write_cache, flush, file_system, size_bytes, mount_options };
            prop_assert_eq!(spec.to_string().parse::<Spec>().expect("its own text"), spec);
        }
    }
}
