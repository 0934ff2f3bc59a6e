//! What a file system does with an fsync, and where it keeps its bytes.

use std::path::PathBuf;

use crate::sys::error::shown;

use super::mounts::Mount;
use super::root::Root;

/// A mounted file system as the walk down needs it.
pub(super) struct FileSystem {
    /// What it does with an fsync, in words.
    pub flush: String,
    /// False where it drops flushes, absent where that cannot be seen.
    pub passes_flush: Option<bool>,
    /// Told to flush; absent where the question does not apply or cannot be answered.
    pub barriers: Option<bool>,
    /// Has a journal; absent likewise.
    pub journal: Option<bool>,
    /// Where it keeps its bytes.
    pub below: Below,
}

/// Where a file system keeps its bytes.
pub(super) enum Below {
    /// Block devices, by the kernel's names.
    Devices(Vec<String>),
    /// A directory of another file system.
    Directory(PathBuf),
    /// Memory, a server, a program, or what this program does not look into.
    Nothing,
}

/// What the file system of this mount does.
pub(super) fn describe(root: &Root, mount: &Mount) -> FileSystem {
    let kind = mount.file_system.as_str();
    if let Some((flush, passes_flush)) = without_device(kind) {
        let flush = flush.replace("{source}", &shown(&mount.source));
        return FileSystem { flush, passes_flush, barriers: None, journal: None, below: Below::Nothing };
    }
    if kind == "overlay" {
        return overlay(root, mount);
    }
    let devices = devices(root, mount);
    let barriers = barriers(root, mount, devices.first());
    let flush = match barriers {
        Some(false) => "mounted without barriers: never sends a flush".to_owned(),
        Some(true) if kind == "btrfs" && devices.len() > 1 => {
            format!("fsync ends in flushes of all {} devices", devices.len())
        }
        Some(true) => "fsync ends in a flush".to_owned(),
        None => "what its fsync sends is not known here".to_owned(),
    };
    let journal = journal(root, kind, devices.first());
    FileSystem { flush, passes_flush: barriers, barriers, journal, below: Below::Devices(devices) }
}

/// File systems without a block device of this machine: what is known of their fsync, and whether it reaches a disk.
fn without_device(kind: &str) -> Option<(&'static str, Option<bool>)> {
    Some(match kind {
        "tmpfs" | "ramfs" | "rootfs" | "devtmpfs" | "hugetlbfs" => {
            ("lives in memory: nothing is durable", Some(false))
        }
        "nfs" | "nfs4" => ("fsync ends at the server {source}: what it does is not visible here", None),
        "cifs" | "smb3" | "ceph" | "afs" | "lustre" | "beegfs" | "glusterfs" => {
            ("a network file system ({source}): what its servers do is not visible here", None)
        }
        "9p" | "virtiofs" | "vboxsf" | "prl_fs" => {
            ("a directory of the host ({source}): the host decides what fsync does", None)
        }
        "zfs" => ("ZFS dataset {source}: its disks, its log and sync=disabled are not visible here", None),
        "fuse" => ("a program serves it ({source}): the program decides what fsync does", None),
        fuse if fuse.starts_with("fuse.") => {
            ("a program serves it ({source}): the program decides what fsync does", None)
        }
        _ => return None,
    })
}

/// An overlay keeps what is written in its upper directory and passes fsync on to it, unless it is `volatile`
/// (overlayfs.rst: all sync calls to the upper file system are omitted).
fn overlay(root: &Root, mount: &Mount) -> FileSystem {
    let upper = mount.super_value("upperdir");
    let volatile = mount.has_super_option("volatile") || mount.has_super_option("fsync=volatile");
    let seen = upper.clone().filter(|upper| !root.is_live() || root.has(upper));
    let (flush, passes_flush) = match (&upper, &seen) {
        _ if volatile => ("mounted volatile: omits every sync".to_owned(), Some(false)),
        (None, _) => ("read-only: it has no upper directory".to_owned(), None),
        (Some(upper), None) => {
            (format!("its upper directory {} is not visible from here", shown(upper)), None)
        }
        (Some(_), Some(upper)) => (format!("fsync goes on to {}", shown(upper)), Some(true)),
    };
    let below = seen.map_or(Below::Nothing, Below::Directory);
    FileSystem { flush, passes_flush, barriers: None, journal: None, below }
}

/// The block devices of a file system. btrfs and bcachefs may have several; the mount table names one of btrfs's.
fn devices(root: &Root, mount: &Mount) -> Vec<String> {
    if !mount.device.starts_with("0:") {
        let name = root.follow(format!("sys/dev/block/{}", mount.device));
        return name.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
    }
    let source = mount.source.to_str().unwrap_or_default();
    let named: Vec<String> = source.split(':').filter_map(|part| kernel_name(root, part)).collect();
    let Some(first) = named.first().filter(|_| mount.file_system == "btrfs") else { return named };
    let members = root.names("sys/fs/btrfs").into_iter().find_map(|uuid| {
        let members = root.names(format!("sys/fs/btrfs/{uuid}/devices"));
        members.contains(first).then_some(members)
    });
    members.unwrap_or(named)
}

/// The kernel's name of a device node: `/dev/mapper/vg-pg` is `dm-0`, `/dev/cciss/c0d0` is `cciss!c0d0`.
fn kernel_name(root: &Root, node: &str) -> Option<String> {
    let name = node.strip_prefix("/dev/")?.replace('/', "!");
    if root.has(format!("sys/class/block/{name}")) {
        return Some(name);
    }
    if let Some(mapped) = node.strip_prefix("/dev/mapper/") {
        let blocks = root.names("sys/class/block");
        return blocks
            .into_iter()
            .find(|block| root.text(format!("sys/class/block/{block}/dm/name")).as_deref() == Some(mapped));
    }
    let real = root.follow(node)?;
    let real = real.strip_prefix("/dev/").ok()?.to_str()?.replace('/', "!");
    root.has(format!("sys/class/block/{real}")).then_some(real)
}

/// Whether the file system was told to flush. ext4's effective options stand in `/proc/fs/ext4/DEV/options`; its
/// default is not shown in the mount table. XFS has had no such option since 4.19.
fn barriers(root: &Root, mount: &Mount, device: Option<&String>) -> Option<bool> {
    let off = |option: &String| {
        matches!(option.as_str(), "nobarrier" | "barrier=0" | "barrier=none" | "fsync_mode=nobarrier")
    };
    if mount.super_options.iter().any(off) {
        return Some(false);
    }
    let kind = mount.file_system.as_str();
    if let (Some(device), "ext3" | "ext4") = (device, kind)
        && let Some(options) = root.text(format!("proc/fs/{kind}/{device}/options"))
    {
        return Some(options.lines().all(|line| line != "nobarrier" && line != "barrier=0"));
    }
    matches!(kind, "ext2" | "ext3" | "ext4" | "xfs" | "btrfs" | "f2fs").then_some(true)
}

fn journal(root: &Root, kind: &str, device: Option<&String>) -> Option<bool> {
    match kind {
        "ext2" => Some(false),
        "xfs" | "jfs" => Some(true),
        "ext3" | "ext4" => {
            let device = device?;
            let task = root.text(format!("sys/fs/ext4/{device}/journal_task"));
            match task {
                Some(task) => Some(task != "<none>"),
                None => root.has("proc/fs/jbd2").then(|| {
                    let prefix = format!("{device}-");
                    root.names("proc/fs/jbd2").iter().any(|name| name.starts_with(&prefix))
                }),
            }
        }
        _ => None,
    }
}
