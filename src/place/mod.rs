//! Floor 4: a directory, real or on a simulated drive, as a place of work: what must not be touched is refused, what lies
//! under it is known, its disks are counted and waited for. What is done there, and how often, is decided above.

mod asked;
mod drives;
mod error;
mod idle;
mod simulated;

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

pub use asked::{Asked, Making, Surveyed, close};
pub use error::PlaceError;
pub use idle::Settled;
pub use simulated::at_full_speed;

use simulated::Simulated;

use crate::results::{self, DeviceCounters, Note, NoteCode, Promise, Stack};
use crate::storage::clusters::{self, Cluster, Sharing};
use crate::storage::{self, Root};
use crate::sys::error::shown;
use crate::sys::files::{self, Space};
use crate::sys::journal::Journal;
use crate::sys::kernel::{Call, Fault, Kernel};
use crate::sys::real::Real;
use crate::sys::run_directory::RunDirectory;

/// What a running cluster needs left on its file system, lest a brief ENOSPC stop its WAL: this part of it …
const CLUSTERS_PART: u64 = 10;
/// … and this much, in bytes.
const CLUSTERS_BYTES: u64 = 2 << 30;
/// A file system with less than one part in this many left is nearly full: allocation gets slow and scattered.
const NEARLY_FULL_PART: u64 = 20;

/// Where work happens. A place on a simulated drive has an end: [`Place::close`].
#[derive(Debug)]
pub struct Place {
    id: String,
    directory: PathBuf,
    stack: Stack,
    neighbours: Vec<(Cluster, Sharing)>,
    simulated: Option<Simulated>,
}

impl Place {
    /// Looks at a directory and refuses what must not be written to; makes nothing.
    pub fn survey(id: &str, directory: &Path) -> Result<Self, PlaceError> {
        let missing = |error: std::io::Error| PlaceError::Missing {
            directory: directory.to_owned(),
            source: error.into(),
        };
        let found = fs::metadata(directory).map_err(missing)?;
        if found.file_type().is_block_device() {
            return Err(PlaceError::BlockDevice { device: directory.to_owned() });
        }
        if !found.is_dir() {
            return Err(PlaceError::NoDirectory { path: directory.to_owned() });
        }
        if let Some(claimed) = clusters::claimed(directory)? {
            return Err(PlaceError::Claimed(claimed));
        }
        let root = Root::live();
        let stack = storage::survey(directory)?;
        let neighbours = clusters::neighbours(directory, &stack, &root)?;
        Ok(Self { id: id.to_owned(), directory: directory.to_owned(), stack, neighbours, simulated: None })
    }

    /// `p1`, `p2`, …
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The directory, as it was given; on a drive, where that is mounted.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// As it was asked for.
    pub fn asked(&self) -> Asked {
        match &self.simulated {
            Some(simulated) => Asked::Drive(simulated.spec.clone()),
            None => Asked::Directory(self.directory.clone()),
        }
    }

    /// What lies under it.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// As a document records it.
    pub fn record(&self) -> results::Place {
        results::Place {
            id: self.id.clone(),
            path: self.asked().to_string(),
            simulated: self.simulated.is_some(),
            model: self.simulated.as_ref().map(|simulated| simulated.spec.model.clone()),
            stack: self.stack.clone(),
        }
    }

    /// Makes the run's own directory here, journalled before and durable after; its number in the journal beside it.
    pub fn enter(&self, names: &[&str], journal: &Journal) -> Result<(RunDirectory, u64), PlaceError> {
        Ok(RunDirectory::make(&self.directory, names, journal)?)
    }

    /// A running cluster shares the file system or a disk: nothing may stall it.
    pub fn is_gentle(&self) -> bool {
        !self.neighbours.is_empty()
    }

    /// An ext4 that keeps no journal: what syncfs does there is not all that it does elsewhere.
    pub fn is_unjournaled(&self) -> bool {
        self.stack.file_system == "ext4" && self.stack.journal == Some(false)
    }

    /// The most that any policy can promise here, where that is less than its own promise.
    pub fn promises_at_most(&self) -> Option<Promise> {
        let volatile = storage::in_memory(&self.stack) || storage::overlay_volatile(&self.stack);
        volatile.then_some(Promise::Nothing)
    }

    /// What the disks under this place have done so far, summed; absent where no disk is known.
    pub fn counters(&self) -> Option<DeviceCounters> {
        let root = Root::live();
        let mut devices = self.stack.counted.iter().map(|device| storage::disk_counters(device, &root));
        let first = devices.next()?.ok()?;
        devices.try_fold(first, |sum, device| {
            let device = device.ok()?;
            Some(DeviceCounters {
                writes: sum.writes + device.writes,
                bytes_written: sum.bytes_written + device.bytes_written,
                flushes: sum.flushes + device.flushes,
            })
        })
    }

    /// Syncs the whole file system, so that no trial pays for what was written before it.
    pub fn sync_file_system(&self) -> Result<(), PlaceError> {
        let opened = fs::File::open(&self.directory).map_err(Fault::of_io(Call::Openat, &self.directory))?;
        Real.syncfs(opened.as_fd()).map_err(Fault::of(Call::Syncfs, &self.directory))?;
        Ok(())
    }

    /// Size and free space.
    pub fn space(&self) -> Result<Space, PlaceError> {
        Ok(files::space(&self.directory)?)
    }

    /// Whether this much may be written. Elsewhere ENOSPC is met and told; beside a running cluster never less than
    /// 10 % of the file system, and 2 GiB, is left.
    pub fn make_room_for(&self, bytes: u64) -> Result<(), PlaceError> {
        let shares_space = |(_, sharing): &&(Cluster, Sharing)| *sharing == Sharing::FileSystem;
        let Some((cluster, _)) = self.neighbours.iter().find(shares_space) else { return Ok(()) };
        let space = self.space()?;
        let kept_bytes = (space.total_bytes / CLUSTERS_PART).max(CLUSTERS_BYTES);
        if space.available_bytes.saturating_sub(bytes) < kept_bytes {
            return Err(PlaceError::TooFull {
                directory: self.directory.clone(),
                cluster: cluster.data_directory.clone(),
                needed_bytes: bytes,
                available_bytes: space.available_bytes,
                kept_bytes,
            });
        }
        Ok(())
    }

    /// Who shares what with this place, and what was left out for their sake.
    fn beside_note(&self) -> Option<Note> {
        let closest = self.neighbours.iter().map(|(_, sharing)| *sharing).max()?;
        let shared = match closest {
            Sharing::Disk => "a disk",
            Sharing::FileSystem => "the file system",
        };
        let clusters: Vec<String> =
            self.neighbours.iter().map(|(cluster, _)| shown(&cluster.data_directory)).collect();
        let text = format!(
            "beside a running cluster, which shares {shared} with {} ({}): no syncfs and no wait for an idle disk \
             between trials",
            shown(&self.directory),
            clusters.join(", ")
        );
        Some(Note::warning(NoteCode::BesideServer, text))
    }

    /// What a reader must know of this place beside any number.
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = storage::notes(&self.stack);
        notes.extend(self.simulated.iter().flat_map(Simulated::notes));
        notes.extend(self.beside_note());
        if let Ok(space) = self.space()
            && space.available_bytes < space.total_bytes / NEARLY_FULL_PART
        {
            let percent = 100 * space.available_bytes / space.total_bytes.max(1);
            let text = format!("{} is nearly full: {percent} % are free", shown(&self.directory));
            notes.push(Note::warning(NoteCode::NearlyFull, text));
        }
        notes
    }
}

#[cfg(test)]
mod tests;
