//! What lies under a path, as facts.

use serde::{Deserialize, Serialize};

/// The layers under a path, from the mount down to the disks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// Type of the file system as the kernel names it (`ext4`, `xfs`, `btrfs`, `tmpfs`, …).
    pub file_system: String,
    /// Where it is mounted, escaped where it is not text.
    #[serde(default)]
    pub mount_point: String,
    /// Mount and super-block options in force.
    pub mount_options: Vec<String>,
    /// What lies between the file system and the disks, top first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<Layer>,
    /// The whole disks at the bottom; empty where the backing device is unknown or there is none.
    pub disks: Vec<Disk>,
    /// The devices whose `/sys/class/block/NAME/stat` counts what this place writes and flushes: the topmost loop
    /// devices, whose counters carry nobody else's traffic, else the disks, by their paths where they have several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<String>,
    /// The weakest link between an fsync and the medium, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weakest_link: Option<String>,
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
    /// False where it drops flushes; absent where what it does cannot be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes_flush: Option<bool>,
}

/// A whole disk as `/sys/block` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// The kernel's name (`sda`, `nvme0n1`, `vda`).
    pub name: String,
    /// Model as the drive or the kernel names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Firmware revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// Serial number, as the drive tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// World-wide name (`naa.…`, `eui.…`, `nvme.…`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wwn: Option<String>,
    /// How it is attached: `sata`, `scsi`, `usb`, `nvme`, `virtio`, `xen`, `mmc`, `network`, `loop`, `zram`, …
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Logical block size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_block_bytes: Option<u32>,
    /// Physical block size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_block_bytes: Option<u32>,
    /// The I/O scheduler in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// Revolutions a minute as the drive claims them; 0 says that nothing turns. The claim may be false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_rpm: Option<u32>,
    /// The kernel's names of the paths to it where it has several (multipath): flushes are counted there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
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
    /// `on`, `off` or `none` (it has none), asked of the drive; absent where it was not or could not be asked.
    pub drive: Option<String>,
    /// Why the drive's own view is absent, or that it is second-hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}
