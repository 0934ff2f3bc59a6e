//! What a drive is to be: model, size, file system, mount options.

use nix::mount::MsFlags;

use crate::simdrive::model::{Flush, Model};

/// A file system that a simulated drive can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileSystem {
    /// ext4, made without lazy initialisation.
    Ext4,
    /// XFS.
    Xfs,
    /// btrfs.
    Btrfs,
}

impl FileSystem {
    /// All of them.
    pub const ALL: [FileSystem; 3] = [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];

    /// The kernel's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
            FileSystem::Btrfs => "btrfs",
        }
    }

    /// The program that makes it, and the Debian package that has it.
    pub const fn tool(self) -> (&'static str, &'static str) {
        match self {
            FileSystem::Ext4 => ("mkfs.ext4", "e2fsprogs"),
            FileSystem::Xfs => ("mkfs.xfs", "xfsprogs"),
            FileSystem::Btrfs => ("mkfs.btrfs", "btrfs-progs"),
        }
    }

    /// Arguments of that program before the device. Nothing is left for the kernel to initialise while trials run.
    pub const fn arguments(self) -> &'static [&'static str] {
        match self {
            FileSystem::Ext4 => &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
            FileSystem::Xfs | FileSystem::Btrfs => &["-q", "-f"],
        }
    }
}

impl std::str::FromStr for FileSystem {
    type Err = UnknownFileSystem;

    fn from_str(name: &str) -> Result<FileSystem, UnknownFileSystem> {
        FileSystem::ALL.into_iter().find(|one| one.name() == name).ok_or(UnknownFileSystem)
    }
}

/// No file system of that name can be made on a simulated drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("file systems of simulated drives are ext4, xfs and btrfs")]
pub struct UnknownFileSystem;

/// A drive with a file system.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// The drive's numbers.
    pub model: Model,
    /// Is its write cache on?
    pub write_cache: bool,
    /// What it does with a flush.
    pub flush: Flush,
    /// The file system made on it.
    pub file_system: FileSystem,
    /// Size of the drive; space below is taken as it is written.
    pub size_bytes: u64,
    /// Mount options, separated by commas; may be empty.
    pub mount_options: String,
}

impl Spec {
    /// A drive as the model ships it: 4 GiB, no mount options.
    pub fn new(model: Model, file_system: FileSystem) -> Spec {
        Spec {
            write_cache: model.write_cache,
            flush: model.flush,
            model,
            file_system,
            size_bytes: 4 << 30,
            mount_options: String::new(),
        }
    }
}

/// Options that mount(2) takes as flags, as mount(8) spells them; all others are the file system's own.
const FLAGS: &[(&str, MsFlags)] = &[
    ("defaults", MsFlags::empty()),
    ("rw", MsFlags::empty()),
    ("ro", MsFlags::MS_RDONLY),
    ("nosuid", MsFlags::MS_NOSUID),
    ("nodev", MsFlags::MS_NODEV),
    ("noexec", MsFlags::MS_NOEXEC),
    ("sync", MsFlags::MS_SYNCHRONOUS),
    ("dirsync", MsFlags::MS_DIRSYNC),
    ("noatime", MsFlags::MS_NOATIME),
    ("nodiratime", MsFlags::MS_NODIRATIME),
    ("relatime", MsFlags::MS_RELATIME),
    ("strictatime", MsFlags::MS_STRICTATIME),
    ("lazytime", MsFlags::MS_LAZYTIME),
];

/// Mount options as mount(2) takes them: flags, and the rest in the order given.
pub fn split_options(options: &str) -> (MsFlags, String) {
    let mut flags = MsFlags::empty();
    let mut rest = Vec::new();
    for option in options.split(',').filter(|option| !option.is_empty()) {
        match FLAGS.iter().find(|(name, _)| *name == option) {
            Some((_, flag)) => flags |= *flag,
            None => rest.push(option),
        }
    }
    (flags, rest.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_leave_the_option_string_and_the_rest_keeps_its_order() {
        let (flags, rest) = split_options("noatime,nobarrier,rw,data=ordered,sync");
        assert_eq!(flags, MsFlags::MS_NOATIME | MsFlags::MS_SYNCHRONOUS);
        assert_eq!(rest, "nobarrier,data=ordered");
        assert_eq!(split_options(""), (MsFlags::empty(), String::new()));
    }
}
