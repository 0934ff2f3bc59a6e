//! The drive's own view of its write cache, asked by ioctl: [`Commands`] is what can be said to a disk, [`Attached`]
//! says it, the dialects (`ata`, `scsi`, `nvme`) make and read the bytes.

mod ata;
mod attached;
mod nvme;
mod scsi;

use std::fmt;
use std::fs::File;
use std::path::PathBuf;

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use crate::results::{Disk, Stack};

use crate::sys::error::shown;

use super::error::Cause;

pub use attached::Attached;

/// A state of a write cache that can be switched to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    /// Writes are acknowledged before they are on the medium.
    On,
    /// They are not.
    Off,
}

impl Cache {
    /// `on` or `off`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }

    /// What the kernel's `queue/write_cache` should say where a cache is in this state.
    pub const fn kernel_words(self) -> &'static str {
        match self {
            Self::On => "write back",
            Self::Off => "write through",
        }
    }
}

impl fmt::Display for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a drive says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The state of its write cache; none where it says that it has none.
    pub cache: Option<Cache>,
    /// Model.
    pub model: Option<String>,
    /// Firmware revision.
    pub firmware: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Revolutions a minute; 0 says that nothing turns.
    pub claimed_rpm: Option<u32>,
}

/// Why a drive could not be asked or told something.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// A device of this kind has no write cache of its own that could be asked.
    #[error("a device of kind \"{kind}\" has no write cache of its own to be asked")]
    NothingToAsk {
        /// The kind, as in the stack.
        kind: String,
    },
    /// Its node cannot be opened.
    #[error("could not open \"{}\": {source}", shown(.node))]
    Open {
        /// The device node.
        node: PathBuf,
        /// The kernel's answer.
        source: Cause,
    },
    /// The kernel did not pass the command on.
    #[error("could not send {command} to \"{}\": {}", shown(.node), .errno.desc())]
    NotSent {
        /// The command.
        command: &'static str,
        /// The device node.
        node: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The drive did not do it.
    #[error("\"{}\" rejected {command} (sense key {key:X}h, code {code:02X}h/{qualifier:02X}h)", shown(.node))]
    Rejected {
        /// The command.
        command: &'static str,
        /// The device node.
        node: PathBuf,
        /// Sense key.
        key: u8,
        /// Additional sense code.
        code: u8,
        /// Its qualifier.
        qualifier: u8,
    },
    /// The controller did not do it, or the command never arrived.
    #[error("\"{}\" failed {command} (status {status:#x})", shown(.node))]
    Status {
        /// The command.
        command: &'static str,
        /// The device node.
        node: PathBuf,
        /// NVMe status, or the host adapter's.
        status: u32,
    },
    /// Its answer is not what the standard says.
    #[error("the answer of \"{}\" to {command} could not be understood", shown(.node))]
    Unreadable {
        /// The command.
        command: &'static str,
        /// The device node.
        node: PathBuf,
    },
    /// A file of sysfs did not take a value.
    #[error("could not write to \"{}\": {source}", shown(.file))]
    Sysfs {
        /// The file.
        file: PathBuf,
        /// The kernel's answer.
        source: Cause,
    },
    /// Another run holds the disk.
    #[error("another run is at work on \"{}\"", shown(.node))]
    Locked {
        /// The device node.
        node: PathBuf,
    },
}

impl DriveError {
    /// Whether a privilege is missing, and nothing else.
    pub fn is_privilege(&self) -> bool {
        match self {
            Self::Open { source, .. } | Self::Sysfs { source, .. } => source.is_privilege(),
            Self::NotSent { errno, .. } => matches!(errno, Errno::EPERM | Errno::EACCES),
            _ => false,
        }
    }
}

/// What can be said to a disk. A fake of it is what the switching is tested with.
pub trait Commands {
    /// Asks the drive itself.
    fn ask(&self, disk: &Disk) -> Result<Told, DriveError>;
    /// The kernel's copy of what the drive once told, where one is kept: needs less privilege.
    fn recall(&self, disk: &Disk) -> Option<Told>;
    /// Tells the drive to switch its write cache. Whether it did, only asking again shows.
    fn set(&self, disk: &Disk, to: Cache) -> Result<(), DriveError>;
    /// Makes the drive write out what it caches, whatever the kernel thinks of it.
    fn flush(&self, disk: &Disk) -> Result<(), DriveError>;
    /// Makes the kernel look at the drive again.
    fn rescan(&self, disk: &Disk) -> Result<(), DriveError>;
    /// The kernel's view as it is now.
    fn kernel_view(&self, disk: &Disk) -> Option<String>;
    /// Takes the disk for this run, until the file is closed.
    fn lock(&self, disk: &Disk) -> Result<File, DriveError>;
}

/// Asks every disk of a stack for its own view of its write cache, and for what sysfs did not tell. A disk that cannot
/// be asked carries the reason as a remark.
pub fn ask_drives(stack: &mut Stack, commands: &impl Commands) {
    for disk in &mut stack.disks {
        let (told, remark) = match commands.ask(disk) {
            Ok(told) => (Some(told), None),
            Err(error) => match commands.recall(disk) {
                Some(told) => {
                    (Some(told), Some("from the kernel's copy: asking the drive needs root".to_owned()))
                }
                None if error.is_privilege() => (None, Some("asking the drive needs root".to_owned())),
                None => (None, Some(error.to_string())),
            },
        };
        disk.write_cache.remark = remark;
        let Some(told) = told else { continue };
        disk.write_cache.drive = Some(told.cache.map_or("none", Cache::name).to_owned());
        // sysfs may have cut the model; the drive's own word is whole.
        disk.model = told.model.or(disk.model.take());
        disk.firmware = told.firmware.or(disk.firmware.take());
        disk.serial = disk.serial.take().or(told.serial);
        disk.claimed_rpm = disk.claimed_rpm.or(told.claimed_rpm);
    }
}
