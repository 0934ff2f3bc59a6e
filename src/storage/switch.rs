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

/// One disk of a [`Switch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switched {
    /// The disk.
    pub disk: Disk,
    /// Both views as found.
    pub before: CacheView,
    /// Both views as last read back.
    pub after: CacheView,
    was: Cache,
    now: Cache,
    /// Its entry in the journal as long as it may be in another state than it was found in.
    entry: Option<u64>,
}

/// Disks whose write cache is switched, held against other runs until [`restore`](Self::restore) or the end.
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
    let mut switch = Switch::take(stack, &[to], care, commands)?;
    switch.turn(to, journal, commands)?;
    Ok(switch)
}

impl Switch {
    /// Takes the disks of a stack for a run that will need their caches in these states; nothing is switched yet.
    pub fn take(
        stack: &Stack,
        states: &[Cache],
        care: Care,
        commands: &impl Commands,
    ) -> Result<Self, SwitchError> {
        if stack.disks.is_empty() {
            return Err(SwitchError::NoDisk { file_system: stack.file_system.clone() });
        }
        let mut taken = Self { disks: Vec::new(), locks: Vec::new() };
        for disk in &stack.disks {
            let (switched, lock) = look(disk, states, commands)?;
            taken.disks.push(switched);
            taken.locks.push(lock);
        }
        let changes = |disk: &&Switched| states.iter().any(|state| *state != disk.was);
        if let Care::Heed(mut hazards) = care
            && taken.disks.iter().any(|disk| changes(&disk))
        {
            let off = taken.disks.iter().filter(|disk| disk.was == Cache::Off).filter(changes);
            hazards.extend(off.map(|disk| Hazard::WasOff { disk: disk.disk.name.clone() }));
            if !hazards.is_empty() {
                return Err(SwitchError::Hazards { hazards });
            }
        }
        Ok(taken)
    }

    /// Switches every disk; where one cannot be, all are brought back to what they were found in.
    pub fn turn(
        &mut self,
        to: Cache,
        journal: &Journal,
        commands: &impl Commands,
    ) -> Result<(), SwitchError> {
        let turned = self.disks.iter_mut().try_for_each(|disk| disk.turn(to, journal, commands));
        turned.map_err(|first| match self.bring_back(journal, commands) {
            Ok(()) => first,
            Err(second) => SwitchError::AndBack { first: Box::new(first), second: Box::new(second) },
        })
    }

    /// Switches back what was switched, last first, and gives both views as read back. Every disk is tried; the first
    /// failure is told, and stays in the journal.
    pub fn restore(
        mut self,
        journal: &Journal,
        commands: &impl Commands,
    ) -> Result<Vec<Switched>, SwitchError> {
        self.bring_back(journal, commands)?;
        Ok(self.disks)
    }

    fn bring_back(&mut self, journal: &Journal, commands: &impl Commands) -> Result<(), SwitchError> {
        let mut failed = None;
        for disk in self.disks.iter_mut().rev() {
            if let Err(error) = disk.bring_back(journal, commands) {
                failed = failed.or(Some(error));
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

impl Switched {
    fn turn(&mut self, to: Cache, journal: &Journal, commands: &impl Commands) -> Result<(), SwitchError> {
        if self.now == to {
            return Ok(());
        }
        if self.entry.is_none() {
            self.entry = Some(journal.push(&SwitchedCache::of(&self.disk, self.was))?);
        }
        self.after = turn(&self.disk, to, commands)?;
        self.now = to;
        Ok(())
    }

    fn bring_back(&mut self, journal: &Journal, commands: &impl Commands) -> Result<(), SwitchError> {
        let Some(entry) = self.entry else { return Ok(()) };
        (_, self.after) = back(&self.disk, self.was, commands)?;
        self.now = self.was;
        journal.done(entry)?;
        self.entry = None;
        Ok(())
    }
}

/// Locks and asks one disk.
fn look(disk: &Disk, states: &[Cache], commands: &impl Commands) -> Result<(Switched, File), SwitchError> {
    let at = |source| SwitchError::Drive { disk: disk.name.clone(), source };
    let lock = commands.lock(disk).map_err(at)?;
    let told = commands.ask(disk).map_err(at)?.cache;
    let was = match told {
        Some(was) => was,
        None if states.contains(&Cache::On) => {
            return Err(SwitchError::NoCache { disk: disk.name.clone() });
        }
        None => Cache::Off,
    };
    if disk.serial.is_none() && disk.wwn.is_none() && states.iter().any(|state| *state != was) {
        return Err(SwitchError::Unnamed { disk: disk.name.clone() });
    }
    let before = view(told, disk, commands);
    Ok((Switched { disk: disk.clone(), after: before.clone(), before, was, now: was, entry: None }, lock))
}

fn view(drive: Option<Cache>, disk: &Disk, commands: &impl Commands) -> CacheView {
    let drive = drive.map_or("none", Cache::name).to_owned();
    CacheView { kernel: commands.kernel_view(disk), drive: Some(drive), remark: None }
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
    let found = commands.ask(disk).map_err(at)?.cache;
    if found == Some(to) {
        return Ok(view(found, disk, commands));
    }
    let found = found.map_or("none", Cache::name);
    Err(SwitchError::NotHonoured { disk: disk.name.clone(), to, found })
}

/// Brings a disk into its old state unless it is in it.
fn back(disk: &Disk, was: Cache, commands: &impl Commands) -> Result<(Undone, CacheView), SwitchError> {
    let at = |source| SwitchError::Drive { disk: disk.name.clone(), source };
    if commands.ask(disk).map_err(at)?.cache == Some(was) {
        // The kernel may not have looked since.
        commands.rescan(disk).map_err(at)?;
        return Ok((Undone::Before, view(Some(was), disk, commands)));
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
