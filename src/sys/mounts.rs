//! What is mounted where, as the calling thread sees it, and unmounting that cannot hang the caller.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::wait::WaitStatus;

use super::fork;

/// One line of mountinfo (proc(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// `major:minor` of the file system's device.
    pub device: String,
    /// Where it is mounted.
    pub target: PathBuf,
    /// Type of the file system.
    pub kind: String,
    /// What is mounted: for a FUSE file system its FSName.
    pub source: String,
}

/// The mounts that the calling thread sees, oldest first. Reads only /proc: it answers even when a server hangs.
pub fn seen_here() -> std::io::Result<Vec<Mount>> {
    Ok(parse(&std::fs::read_to_string("/proc/thread-self/mountinfo")?))
}

/// The mounts that process `pid` sees.
pub fn seen_by(pid: i32) -> std::io::Result<Vec<Mount>> {
    Ok(parse(&std::fs::read_to_string(format!("/proc/{pid}/mountinfo"))?))
}

fn parse(text: &str) -> Vec<Mount> {
    text.lines()
        .filter_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let mut fields = before.split(' ').skip(2);
            let device = fields.next()?.to_owned();
            let target = PathBuf::from(unescape(fields.nth(1)?));
            let mut fields = after.split(' ');
            let kind = fields.next()?.to_owned();
            Some(Mount { device, target, kind, source: unescape(fields.next()?) })
        })
        .collect()
}

/// Blank, tab, newline and backslash stand there as three octal digits.
fn unescape(field: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(field.to_owned(), |text, (code, sign)| text.replace(code, sign))
}

/// How an attempt to unmount ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmounted {
    /// It is unmounted.
    Done,
    /// Nothing was mounted there (any more).
    NotMounted,
    /// Something has files open there.
    Busy,
    /// It still had not ended at the limit; the kernel may finish it later.
    Late,
}

/// umount2(2) in a process of its own, for it waits for the device: `limit` at the most. `inside` is a process in whose
/// mount namespace it is done, `None` for the caller's.
pub fn unmount(
    target: &Path,
    flags: MntFlags,
    inside: Option<i32>,
    limit: Duration,
) -> Result<Unmounted, Errno> {
    let helper = fork::helper(|| {
        let entered = inside.map_or(Ok(()), super::namespace::enter_mounts_of);
        match entered.and_then(|()| umount2(target, flags)) {
            Ok(()) => 0,
            Err(errno) => errno as i32,
        }
    })?;
    match helper.wait(limit)? {
        None => {
            // It may sit in the kernel until the connection is aborted; the signal waits for it there.
            helper.signal(nix::sys::signal::Signal::SIGKILL)?;
            Ok(Unmounted::Late)
        }
        Some(WaitStatus::Exited(_, 0)) => Ok(Unmounted::Done),
        Some(WaitStatus::Exited(_, code)) => match Errno::from_raw(code) {
            Errno::EBUSY => Ok(Unmounted::Busy),
            Errno::EINVAL | Errno::ENOENT => Ok(Unmounted::NotMounted),
            errno => Err(errno),
        },
        Some(_) => Err(Errno::EINTR),
    }
}

/// Aborts the FUSE connection of that number (the minor number of its mount's device): everything that waits for its
/// server fails at once. ENOENT when there is no such connection. It mounts the control file system where no other
/// process sees it.
pub fn abort_fuse(connection: u32, limit: Duration) -> Result<(), Errno> {
    const CONNECTIONS: &str = "/sys/fs/fuse/connections";
    let abort = || {
        unshare(CloneFlags::CLONE_NEWNS)?;
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
        match mount(Some("fusectl"), CONNECTIONS, Some("fusectl"), MsFlags::empty(), None::<&str>) {
            // It is mounted there on most systems.
            Ok(()) | Err(Errno::EBUSY) => {}
            Err(errno) => return Err(errno),
        }
        std::fs::write(format!("{CONNECTIONS}/{connection}/abort"), "1")
            .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0)))
    };
    let helper = fork::helper(|| abort().map_or_else(|errno: Errno| errno as i32, |()| 0))?;
    match helper.wait(limit)? {
        Some(WaitStatus::Exited(_, 0)) => Ok(()),
        Some(WaitStatus::Exited(_, code)) => Err(Errno::from_raw(code)),
        _ => Err(Errno::ETIMEDOUT),
    }
}

/// syncfs(2) of the file system that `directory` is on.
pub fn sync_file_system(directory: &Path) -> std::io::Result<()> {
    let directory = std::fs::File::open(directory)?;
    nix::unistd::syncfs(&directory)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_read_with_optional_fields_and_escapes() {
        let line = "36 35 0:42 / /mnt/a\\040b rw,noatime shared:1 master:2 - fuse fsynclab-7\\134 rw,errors=continue\n";
        let mount = Mount {
            device: "0:42".to_owned(),
            target: PathBuf::from("/mnt/a b"),
            kind: "fuse".to_owned(),
            source: "fsynclab-7\\".to_owned(),
        };
        assert_eq!(parse(line), [mount]);
    }

    #[test]
    fn the_root_is_seen() {
        let mounts = seen_here().expect("/proc is there");
        assert!(mounts.iter().any(|mount| mount.target == Path::new("/")));
    }
}
