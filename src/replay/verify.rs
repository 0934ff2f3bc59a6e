//! After the clock: the copy against its source, byte for byte. The copy's pages are dropped first, so that what is
//! compared is what the file system has.
//!
//! A difference is the copy's fault unless the source was modified after the copy began: then the source changed while
//! it was copied, and no copy could have been right. The copy began when its top directory was created, by the file
//! system's own clock, which ticks some hundred times a second: the same time may be after. Where the file system does
//! not keep that time, every difference is the copy's fault.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nix::errno::Errno;

use crate::sys::error::shown;
use crate::sys::kernel::{Call, Fault, Kernel};
use crate::sys::watch::{Event, Phase, Stop, Watch};

const BUFFER_BYTES: usize = 256 << 10;

/// How much is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Names, sizes and every byte.
    #[default]
    Full,
    /// Names and sizes.
    Sizes,
    /// Nothing.
    Off,
}

impl Verify {
    /// Every value and its word.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Full, "full"), (Self::Sizes, "sizes"), (Self::Off, "off")];
}

impl fmt::Display for Verify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::ALL.iter().find(|(value, _)| value == self);
        f.pad(word.map_or("", |(_, word)| word))
    }
}

/// A word that is none of `full`, `sizes` and `off`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is none of full, sizes and off")]
pub struct UnknownVerify(String);

impl FromStr for Verify {
    type Err = UnknownVerify;

    fn from_str(text: &str) -> Result<Self, UnknownVerify> {
        let known = Self::ALL.into_iter().find(|(_, word)| *word == text);
        known.map(|(value, _)| value).ok_or_else(|| UnknownVerify(text.to_owned()))
    }
}

/// A copy that is what its source was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Files compared.
    pub files: u64,
    /// Sum of their sizes.
    pub bytes: u64,
    /// What is allocated for them in the source.
    pub source_allocated_bytes: u64,
    /// What is allocated for them in the copy: as much as their size where holes were filled.
    pub copy_allocated_bytes: u64,
    /// Source files that differ because they changed during the copy: the trial is not comparable.
    pub changed: Vec<PathBuf>,
}

/// Where a copy differs from its source; names are relative to both.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Difference {
    /// A byte.
    #[error("\"{}\" differs from its source at byte {offset}", shown(.path))]
    Byte {
        /// Which file.
        path: PathBuf,
        /// The first byte that differs, counted from 0.
        offset: u64,
    },
    /// The size.
    #[error("\"{}\" has {copy_bytes} bytes, its source {source_bytes}", shown(.path))]
    Size {
        /// Which file.
        path: PathBuf,
        /// Size of the source.
        source_bytes: u64,
        /// Size of the copy.
        copy_bytes: u64,
    },
    /// A name that the copy does not have.
    #[error("\"{}\" is missing in the copy", shown(.path))]
    Missing {
        /// Which entry.
        path: PathBuf,
    },
    /// A name that only the copy has.
    #[error("\"{}\" is in the copy only", shown(.path))]
    Extra {
        /// Which entry.
        path: PathBuf,
    },
    /// A directory for a file, or the other way round.
    #[error("\"{}\" is of another type than its source", shown(.path))]
    Type {
        /// Which entry.
        path: PathBuf,
    },
}

/// Why a copy was not found equal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// It differs.
    #[error("the copy is not equal to its source: {0}")]
    Differs(#[from] Difference),
    /// A call failed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// Asked to stop, between two files.
    #[error("stopped: {0}")]
    Stopped(Stop),
}

/// Compares the tree at `copy` with that at `source`; the first difference ends it. Entries that are neither files nor
/// directories are no part of either.
pub fn verify<K: Kernel>(
    kernel: &K,
    source: &Path,
    copy: &Path,
    how: Verify,
    watch: &dyn Watch,
) -> Result<Verified, VerifyError> {
    if how == Verify::Off {
        return Ok(Verified::default());
    }
    watch.event(Event::Phase(Phase::Verifying));
    let began = facts(copy)?;
    let mut comparison = Comparison {
        kernel,
        source,
        copy,
        how,
        watch,
        began,
        buffers: (vec![0; BUFFER_BYTES], vec![0; BUFFER_BYTES]),
        verified: Verified::default(),
        directories: vec![PathBuf::new()],
    };
    while let Some(directory) = comparison.directories.pop() {
        let compared = comparison.directory(&directory);
        comparison.unless_gone(compared)?;
    }
    Ok(comparison.verified)
}

struct Comparison<'a, K> {
    kernel: &'a K,
    source: &'a Path,
    copy: &'a Path,
    how: Verify,
    watch: &'a dyn Watch,
    began: Metadata,
    buffers: (Vec<u8>, Vec<u8>),
    verified: Verified,
    directories: Vec<PathBuf>,
}

impl<K: Kernel> Comparison<'_, K> {
    fn directory(&mut self, name: &Path) -> Result<(), VerifyError> {
        let here = self.source.join(name);
        let mut copies = entries(&self.copy.join(name))?;
        for (entry, kind) in entries(&here)? {
            if let Some(stop) = self.watch.stop() {
                return Err(VerifyError::Stopped(stop));
            }
            let path = name.join(&entry);
            let compared = match copies.remove(&entry) {
                None => self.differs(&here, Difference::Missing { path }),
                Some(other) if other != kind => self.differs(&here, Difference::Type { path }),
                Some(_) if kind == Entry::Directory => {
                    self.directories.push(path);
                    Ok(())
                }
                Some(_) => self.file(path),
            };
            self.unless_gone(compared)?;
        }
        match copies.pop_first() {
            Some((entry, _)) => self.differs(&here, Difference::Extra { path: name.join(entry) }),
            None => Ok(()),
        }
    }

    fn file(&mut self, path: PathBuf) -> Result<(), VerifyError> {
        let (source, copy) = (self.source.join(&path), self.copy.join(&path));
        let (source_facts, copy_facts) = (facts(&source)?, facts(&copy)?);
        self.verified.files += 1;
        self.verified.bytes += source_facts.size();
        self.verified.source_allocated_bytes += source_facts.blocks() * 512;
        self.verified.copy_allocated_bytes += copy_facts.blocks() * 512;
        let (source_bytes, copy_bytes) = (source_facts.size(), copy_facts.size());
        if source_bytes != copy_bytes {
            return self.differs(&source, Difference::Size { path, source_bytes, copy_bytes });
        }
        if self.how == Verify::Full
            && let Some(offset) = self.first_difference(&source, &copy)?
        {
            return self.differs(&source, Difference::Byte { path, offset });
        }
        // What was appended in time was copied too: equal, but no other trial copied as much. Within one tick of the
        // clock the change may as well have come first, and then nothing is wrong.
        if self.changed(&source_facts) == Some(Ordering::Greater) {
            self.verified.changed.push(source);
        }
        Ok(())
    }

    /// A source that is gone since its name was read changed too; a copy that is gone is a fault.
    fn unless_gone(&mut self, compared: Result<(), VerifyError>) -> Result<(), VerifyError> {
        match compared {
            Err(VerifyError::Fault(Fault { errno: Errno::ENOENT | Errno::ENOTDIR, path, .. }))
                if path.starts_with(self.source) =>
            {
                self.verified.changed.push(path);
                Ok(())
            }
            compared => compared,
        }
    }

    /// When a file was modified, as against the beginning of the copy; unknown where either time is not kept.
    fn changed(&self, source: &Metadata) -> Option<Ordering> {
        Some(source.modified().ok()?.cmp(&self.began.created().ok()?))
    }

    /// The fault of the copy, or of a source that was modified since the copy began.
    fn differs(&mut self, modified: &Path, difference: Difference) -> Result<(), VerifyError> {
        if !self.changed(&facts(modified)?).is_some_and(Ordering::is_ge) {
            return Err(difference.into());
        }
        let (Difference::Byte { path, .. }
        | Difference::Size { path, .. }
        | Difference::Missing { path }
        | Difference::Extra { path }
        | Difference::Type { path }) = difference;
        self.verified.changed.push(self.source.join(path));
        Ok(())
    }

    fn first_difference(&mut self, source: &Path, copy: &Path) -> Result<Option<u64>, Fault> {
        let (mut one, mut other) = (open(source)?, open(copy)?);
        // Dirty pages stay; a place that does not take the advice is compared from memory.
        self.kernel.fadvise_dont_need(other.as_fd(), 0, 0).unwrap_or_default();
        let mut offset = 0;
        loop {
            let length = fill(&mut one, source, &mut self.buffers.0)?;
            let copied = fill(&mut other, copy, &mut self.buffers.1)?;
            let pairs = self.buffers.0[..length].iter().zip(&self.buffers.1[..copied]);
            if self.buffers.0[..length] != self.buffers.1[..copied] {
                let equal = pairs.take_while(|(one, other)| one == other).count();
                return Ok(Some(offset + equal as u64));
            }
            if length == 0 {
                return Ok(None);
            }
            offset += length as u64;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    File,
    Directory,
}

fn entries(directory: &Path) -> Result<BTreeMap<OsString, Entry>, Fault> {
    let fault = Fault::of_io(Call::Getdents64, directory);
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).map_err(&fault)? {
        let entry = entry.map_err(&fault)?;
        let kind = match entry.file_type() {
            Ok(kind) if kind.is_file() => Entry::File,
            Ok(kind) if kind.is_dir() => Entry::Directory,
            Ok(_) => continue,
            // Gone since its name was read.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(fault(error)),
        };
        found.insert(entry.file_name(), kind);
    }
    Ok(found)
}

fn facts(path: &Path) -> Result<Metadata, Fault> {
    fs::symlink_metadata(path).map_err(Fault::of_io(Call::Newfstatat, path))
}

fn open(path: &Path) -> Result<File, Fault> {
    File::open(path).map_err(Fault::of_io(Call::Openat, path))
}

fn fill(file: &mut File, path: &Path, buffer: &mut [u8]) -> Result<usize, Fault> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(length) => filled += length,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Fault::of_io(Call::Read, path)(error)),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests;
