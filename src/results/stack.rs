//! What lies under a path, as facts.

use serde::{Deserialize, Serialize};

/// The layers under a path, from the mount down to the disks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// Type of the file system as the kernel names it (`ext4`, `xfs`, `btrfs`, `tmpfs`, …).
    pub file_system: String,
    /// Where it is mounted.
    #[serde(default)]
    pub mount_point: String,
    /// Mount and super-block options in force.
    pub mount_options: Vec<String>,
    /// What lies between the file system and the disks, top first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<Layer>,
    /// The whole disks at the bottom; empty where the backing device is unknown or there is none.
    pub disks: Vec<Disk>,
    /// Effective barriers: false where the file system was told not to flush; absent where that cannot be known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub barriers: Option<bool>,
    /// Whether the file system has a journal; absent where the question does not apply or cannot be answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<bool>,
}

/// One layer between a file system and its disks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// `partition`, `lvm`, `crypt`, `multipath`, `md`, `loop`, `overlay`, `btrfs`, …
    pub kind: String,
    /// The kernel's name of it (`dm-0`, `md127`, `loop3`), or a path.
    pub name: String,
    /// What it does to a flush, in words.
    pub flush: String,
}

/// A whole disk as `/sys/block` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// The kernel's name (`sda`, `nvme0n1`, `vda`).
    pub name: String,
    /// Model as the drive or the kernel names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The kernel's hint; proves nothing on virtual disks.
    pub rotational: bool,
    /// Made by a hypervisor or by software (virtio, loop, …).
    pub r#virtual: bool,
    /// Both views of the write cache.
    pub write_cache: CacheView,
    /// The kernel sends FUA to this disk.
    pub fua: bool,
}

/// The write cache as the kernel and as the drive itself see it; they may disagree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheView {
    /// `write back` or `write through`, from `queue/write_cache`; absent where it cannot be read.
    pub kernel: Option<String>,
    /// `on` or `off`, asked of the drive; absent where it was not or could not be asked.
    pub drive: Option<String>,
}
