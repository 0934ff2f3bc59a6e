//! Switching the write cache of the disks under a place, all of them or none, and back.
//!
//! What is believed is what is read back afterwards, never what a drive answered. The kernel's own view is only made to
//! look again: it is never written, so it can never say `write through` of a drive that caches because of this program.

use std::fs::File;

use serde::{Deserialize, Serialize};

use crate::results::{CacheView, Disk, Stack};
use crate::sys::error::SysError;
use crate::sys::journal::Journal;
use crate::sys::undo::{Undo, Undone};

use super::disk::disks;
use super::drive::{Attached, Cache, Commands, DriveError, ask_drives};
use super::hazard::Hazard;
use super::root::Root;

/// Why a write cache was not switched, or not switched back.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// There is no disk to switch.
    #[error("could not switch a write cache: no disk is known under {file_system}")]
    NoDisk {
        /// What was found instead.
        file_system: String,
    },
    /// The drive could not be asked or told.
    #[error("could not switch the write cache of {disk}: {source}")]
    Drive {
        /// The disk.
        disk: String,
        /// What the drive or the kernel said.
        source: DriveError,
    },
    /// The drive says that it has no write cache.
    #[error("could not switch the write cache of {disk}: it says that it has none")]
    NoCache {
        /// The disk.
        disk: String,
    },
    /// Nothing names the disk for good, so its old state cannot be journalled.
    #[error(
        "could not switch the write cache of {disk}: it has neither serial number nor world-wide name to find it by"
    )]
    Unnamed {
        /// The disk.
        disk: String,
    },
    /// Refused for safety.
    #[error("the write cache was not switched: {}", listed(.hazards))]
    Hazards {
        /// All that speaks against it.
        hazards: Vec<Hazard>,
    },
    /// The drive said yes and did not.
    #[error("not honoured: {disk} was told to switch its write cache {to} and says that it is {found}")]
    NotHonoured {
        /// The disk.
        disk: String,
        /// What it was told.
        to: Cache,
        /// What it says afterwards.
        found: &'static str,
    },
    /// The journalled disk is not here any more.
    #[error("could not find the disk with {named}: its write cache was {was}")]
    Gone {
        /// Its serial number or world-wide name.
        named: String,
        /// What is to be restored.
        was: Cache,
    },
    /// Several disks bear the journalled name.
    #[error("could not tell the disk with {named} from others with the same: its write cache was {was}")]
    Ambiguous {
        /// The serial number.
        named: String,
        /// What is to be restored.
        was: Cache,
    },
    /// The journal cannot be kept.
    #[error(transparent)]
    Journal(#[from] SysError),
    /// Some disks were switched, and switching them back failed too.
    #[error("{first}; switching back failed too: {second}")]
    AndBack {
        /// What went wrong first.
        first: Box<SwitchError>,
        /// And then.
        second: Box<SwitchError>,
    },
}

impl SwitchError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Drive { source, .. } if source.is_privilege() => {
                Some("switching a write cache needs root, and the device itself: a container may lack it")
            }
            Self::Hazards { .. } => Some("--force switches it all the same"),
            Self::AndBack { .. } | Self::Gone { .. } | Self::Ambiguous { .. } => {
                Some("fsynclab drive --write-cache restore tries again")
            }
            _ => None,
        }
    }
}

fn listed(hazards: &[Hazard]) -> String {
    hazards.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// One disk that was to be switched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switched {
    /// The disk.
    pub disk: Disk,
    /// Both views before.
    pub before: CacheView,
    /// Both views as read back.
    pub after: CacheView,
    /// Its entry in the journal; none where it was in the asked-for state already.
    entry: Option<u64>,
    was: Cache,
}

impl Switched {
    /// False where it was in the asked-for state already.
    pub fn was_switched(&self) -> bool {
        self.entry.is_some()
    }
}

/// Disks switched, and held against other runs until [`restore`](Self::restore) or the end.
#[derive(Debug)]
pub struct Switch {
    /// Every disk of the stack.
    pub disks: Vec<Switched>,
    locks: Vec<File>,
}

/// What is done about hazards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Care {
    /// Refuse where there are any: those found by [`hazards`](super::hazards), and a cache found off.
    Heed(Vec<Hazard>),
    /// Switch all the same (`--force`).
    Force,
}

/// Switches every disk of a stack, or none.
pub fn write_cache(
    stack: &Stack,
    to: Cache,
    care: Care,
    journal: &Journal,
    commands: &impl Commands,
) -> Result<Switch, SwitchError> {
    if stack.disks.is_empty() {
        return Err(SwitchError::NoDisk { file_system: stack.file_system.clone() });
    }
    let mut locks = Vec::new();
    let mut plan = Vec::new();
    let mut found_off = Vec::new();
    for disk in &stack.disks {
        let (switched, lock) = look(disk, to, commands)?;
        locks.push(lock);
        if to == Cache::On && switched.was == Cache::Off {
            found_off.push(Hazard::WasOff { disk: disk.name.clone() });
        }
        plan.push(switched);
    }
    if let Care::Heed(mut hazards) = care
        && plan.iter().any(|switched| switched.was != to)
    {
        hazards.extend(found_off);
        if !hazards.is_empty() {
            return Err(SwitchError::Hazards { hazards });
        }
    }
    let mut done = Switch { disks: Vec::new(), locks };
    for mut switched in plan {
        let result = one(&mut switched, to, journal, commands);
        done.disks.push(switched);
        if let Err(first) = result {
            return Err(match done.restore(journal, commands) {
                Ok(_) => first,
                Err(second) => SwitchError::AndBack { first: Box::new(first), second: Box::new(second) },
            });
        }
    }
    Ok(done)
}

/// Locks and asks one disk.
fn look(disk: &Disk, to: Cache, commands: &impl Commands) -> Result<(Switched, File), SwitchError> {
    let at = |source| SwitchError::Drive { disk: disk.name.clone(), source };
    let lock = commands.lock(disk).map_err(at)?;
    let was = match commands.ask(disk).map_err(at)?.cache {
        Some(was) => was,
        None if to == Cache::Off => Cache::Off,
        None => return Err(SwitchError::NoCache { disk: disk.name.clone() }),
    };
    if disk.serial.is_none() && disk.wwn.is_none() && was != to {
        return Err(SwitchError::Unnamed { disk: disk.name.clone() });
    }
    let before = view(was, disk, commands);
    Ok((Switched { disk: disk.clone(), after: before.clone(), before, entry: None, was }, lock))
}

fn view(drive: Cache, disk: &Disk, commands: &impl Commands) -> CacheView {
    CacheView { kernel: commands.kernel_view(disk), drive: Some(drive.name().to_owned()), remark: None }
}

fn one(
    switched: &mut Switched,
    to: Cache,
    journal: &Journal,
    commands: &impl Commands,
) -> Result<(), SwitchError> {
    if switched.was == to {
        return Ok(());
    }
    switched.entry = Some(journal.push(&SwitchedCache::of(&switched.disk, switched.was))?);
    switched.after = turn(&switched.disk, to, commands)?;
    Ok(())
}

/// Switches one disk and gives both views as read back. A cache switched off is written out before, and once more for
/// what came between.
fn turn(disk: &Disk, to: Cache, commands: &impl Commands) -> Result<CacheView, SwitchError> {
    let at = |source| SwitchError::Drive { disk: disk.name.clone(), source };
    if to == Cache::Off {
        commands.flush(disk).map_err(at)?;
    }
    commands.set(disk, to).map_err(at)?;
    if to == Cache::Off {
        commands.flush(disk).map_err(at)?;
    }
    commands.rescan(disk).map_err(at)?;
    match commands.ask(disk).map_err(at)?.cache {
        Some(found) if found == to => Ok(view(found, disk, commands)),
        found => {
            let found = found.map_or("none", Cache::name);
            Err(SwitchError::NotHonoured { disk: disk.name.clone(), to, found })
        }
    }
}

impl Switch {
    /// Switches back what was switched, last first, and gives both views as read back. Every disk is tried; the first
    /// failure is told, and stays in the journal.
    pub fn restore(
        mut self,
        journal: &Journal,
        commands: &impl Commands,
    ) -> Result<Vec<Switched>, SwitchError> {
        let mut failed = None;
        for switched in self.disks.iter_mut().rev() {
            let Some(entry) = switched.entry else { continue };
            match back(&switched.disk, switched.was, commands) {
                Ok((_, now)) => {
                    switched.after = now;
                    journal.done(entry)?;
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        drop(self.locks);
        match failed {
            None => Ok(self.disks),
            Some(error) => Err(error),
        }
    }
}

/// Brings a disk into its old state unless it is in it.
fn back(disk: &Disk, was: Cache, commands: &impl Commands) -> Result<(Undone, CacheView), SwitchError> {
    let at = |source| SwitchError::Drive { disk: disk.name.clone(), source };
    if commands.ask(disk).map_err(at)?.cache == Some(was) {
        // The kernel may not have looked since.
        commands.rescan(disk).map_err(at)?;
        return Ok((Undone::Before, view(was, disk, commands)));
    }
    Ok((Undone::Now, turn(disk, was, commands)?))
}

/// The old state of a switched write cache, as journalled. The disk is named by what stays with it: kernel names change
/// with the order in which disks are found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchedCache {
    serial: Option<String>,
    wwn: Option<String>,
    model: Option<String>,
    was: Cache,
}

impl SwitchedCache {
    fn of(disk: &Disk, was: Cache) -> Self {
        Self { serial: disk.serial.clone(), wwn: disk.wwn.clone(), model: disk.model.clone(), was }
    }

    fn is(&self, disk: &Disk) -> bool {
        let same_wwn = self.wwn.is_some() && self.wwn == disk.wwn;
        match &self.serial {
            // A name that sysfs did not tell then, or does not now, decides nothing.
            Some(_) => self.serial == disk.serial && (same_wwn || self.wwn.is_none() || disk.wwn.is_none()),
            None => same_wwn,
        }
    }

    /// The disk among `disks`. Several are one disk on several paths if they share a world-wide name; else the serial
    /// number is one that its maker gave to many, and none of them is touched.
    fn find<'a>(&self, disks: &'a [Disk]) -> Result<&'a Disk, SwitchError> {
        let mut found = disks.iter().filter(|disk| self.is(disk));
        let first = found.next().ok_or_else(|| SwitchError::Gone { named: self.named(), was: self.was })?;
        if found.any(|other| other.wwn.is_none() || other.wwn != first.wwn) {
            return Err(SwitchError::Ambiguous { named: self.named(), was: self.was });
        }
        Ok(first)
    }

    fn named(&self) -> String {
        match (&self.serial, &self.wwn) {
            (Some(serial), _) => format!("serial number {serial}"),
            (None, Some(wwn)) => format!("world-wide name {wwn}"),
            (None, None) => "no name".to_owned(),
        }
    }

    /// Brings the disk, looked for among `disks`, back into its old state.
    fn restore(&self, disks: &[Disk], commands: &impl Commands) -> Result<Undone, SwitchError> {
        let disk = self.find(disks)?;
        let _lock =
            commands.lock(disk).map_err(|source| SwitchError::Drive { disk: disk.name.clone(), source })?;
        Ok(back(disk, self.was, commands)?.0)
    }
}

impl Undo for SwitchedCache {
    const KIND: &'static str = "write-cache";
    type Error = SwitchError;

    fn describe(&self) -> String {
        let model = self.model.as_deref().unwrap_or("disk");
        format!("write cache of {model} with {}: was {}", self.named(), self.was)
    }

    fn undo(&self) -> Result<Undone, SwitchError> {
        let mut here = Stack { disks: disks(&Root::live()), ..Stack::default() };
        if self.find(&here.disks).is_err() {
            // Older kernels show no serial number of a SATA disk; the disk itself tells it.
            ask_drives(&mut here, &Attached);
        }
        self.restore(&here.disks, &Attached)
    }
}

#[cfg(test)]
mod tests;
