//! Namespaces: mounts that only this thread and what it starts can see, and processes that all end together.

use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};

/// The mount namespace the process started in.
static OUTSIDE: OnceLock<File> = OnceLock::new();

fn current(kind: &str) -> Result<File, Errno> {
    File::open(format!("/proc/thread-self/ns/{kind}"))
        .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0)))
}

/// The descriptor of the namespace that the program started in, once it was asked for: a process that closes all others
/// keeps it.
pub(super) fn outside_descriptor() -> Option<RawFd> {
    OUTSIDE.get().map(AsRawFd::as_raw_fd)
}

fn outside() -> Result<&'static File, Errno> {
    if let Some(outside) = OUTSIDE.get() {
        return Ok(outside);
    }
    let here = current("mnt")?;
    Ok(OUTSIDE.get_or_init(|| here))
}

fn inode(namespace: &File) -> Result<u64, Errno> {
    let metadata =
        namespace.metadata().map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0)))?;
    Ok(metadata.ino())
}

/// Moves the calling thread into a mount namespace of its own, whose mounts never reach the host, unless it is in one
/// already. Threads and processes it starts from then on are inside too; threads that exist stay where they are.
/// When the last of them is gone, however it went, the kernel unmounts everything in the namespace.
pub fn make_mounts_private() -> Result<(), Errno> {
    if inode(outside()?)? != inode(&current("mnt")?)? {
        return Ok(());
    }
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
}

/// Moves the calling process back to the mount namespace that the program started in. EINVAL in a process with several
/// threads.
pub fn leave_private_mounts() -> Result<(), Errno> {
    setns(outside()?, CloneFlags::CLONE_NEWNS)
}

/// Moves the calling process into the mount namespace of process `pid`. EINVAL in a process with several threads.
pub fn enter_mounts_of(pid: i32) -> Result<(), Errno> {
    let namespace = File::open(format!("/proc/{pid}/ns/mnt"))
        .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0)))?;
    setns(namespace, CloneFlags::CLONE_NEWNS)
}

/// Runs `start` with a new PID namespace for the first process it forks: that process is number 1 there, and when it
/// ends the kernel kills every other. Later children of this thread are as before.
pub fn with_new_pid_namespace<T>(start: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let before = current("pid_for_children")?;
    unshare(CloneFlags::CLONE_NEWPID)?;
    let started = start();
    setns(before, CloneFlags::CLONE_NEWPID)?;
    started
}
