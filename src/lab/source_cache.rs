//! Whether the source's pages are in memory when a copy begins: an arm, not an accident.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::str::FromStr;

use super::arm::Halt;
use super::failed::{failed_call, failed_io};
use crate::results::Failed;
use crate::sys::kernel::{Call, Fault, Kernel};
use crate::sys::real::Real;
use crate::sys::watch::Watch;

/// What is known of the source's contents when the clock starts; names and inodes stay cached either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceCache {
    /// In memory, as far as that reaches.
    Warm,
    /// On the disk only.
    Cold,
}

/// A word that is neither `warm` nor `cold`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is neither warm nor cold")]
pub struct UnknownSourceCache(String);

impl SourceCache {
    /// The label of arms that differ in this.
    pub const LABEL: &'static str = "source_cache";
    /// Every value and its word.
    pub const ALL: [(Self, &'static str); 2] = [(Self::Warm, "warm"), (Self::Cold, "cold")];

    /// Makes it so for every file of a tree of ours, which must be on disk already: dirty pages would stay.
    pub(super) fn bring_about(self, tree: &Path, watch: &dyn Watch) -> Result<(), Halt> {
        for entry in walkdir::WalkDir::new(tree) {
            if watch.stop().is_some() {
                return Err(Halt::Stopped);
            }
            let entry = entry.map_err(|error| failed_io(Call::Getdents64, tree, io::Error::from(error)))?;
            if entry.file_type().is_file() {
                self.bring_about_of(entry.path())?;
            }
        }
        Ok(())
    }

    fn bring_about_of(self, path: &Path) -> Result<(), Failed> {
        let mut file = File::open(path).map_err(|error| failed_io(Call::Openat, path, error))?;
        match self {
            Self::Warm => io::copy(&mut file, &mut io::sink())
                .map(drop)
                .map_err(|error| failed_io(Call::Read, path, error)),
            Self::Cold => Real
                .fadvise_dont_need(file.as_fd(), 0, 0)
                .map_err(|errno| failed_call(&Fault::of(Call::Fadvise64, path)(errno))),
        }
    }
}

impl fmt::Display for SourceCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::ALL.iter().find(|(value, _)| value == self);
        f.pad(word.map_or("", |(_, word)| word))
    }
}

impl FromStr for SourceCache {
    type Err = UnknownSourceCache;

    fn from_str(text: &str) -> Result<Self, UnknownSourceCache> {
        let known = Self::ALL.into_iter().find(|(_, word)| *word == text);
        known.map(|(value, _)| value).ok_or_else(|| UnknownSourceCache(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::sys::files;
    use crate::sys::tools::Tool;
    use crate::sys::watch::Quiet;

    /// Bytes of a file that are in memory, as fincore(1) counts them.
    fn cached_bytes(path: &Path) -> u64 {
        let asked = Tool::new("fincore").args(["--bytes", "--noheadings", "--output", "RES"]).arg(path);
        let found = asked.run(&Quiet).and_then(crate::sys::tools::Finished::success).expect("fincore");
        found.text().trim().parse().expect("a number")
    }

    #[test]
    fn a_cold_source_is_not_in_memory_and_a_warm_one_is() {
        let tree = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
        let path = tree.path().join("base/1/2619");
        fs::create_dir_all(files::directory_of(&path)).expect("a directory");
        fs::write(&path, vec![7; 100_000]).expect("a file");
        Real.fsync(File::open(&path).expect("the file").as_fd()).expect("synced");
        let brought = |cache: SourceCache| {
            cache.bring_about(tree.path(), &Quiet).expect("brought about");
            cached_bytes(&path)
        };
        assert_eq!(brought(SourceCache::Cold), 0);
        assert!(brought(SourceCache::Warm) >= 100_000);
        assert_eq!(brought(SourceCache::Cold), 0);
    }
}
