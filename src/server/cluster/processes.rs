//! The processes of a scratch cluster: those that work in its run directory. A server's processes change into its data
//! directory and our tools are started in the run directory, so this finds them all, and nobody else's: the directory's
//! name is random and its mode 0700. `/proc/PID/cwd` shows where a process works from whichever mount namespace it is read,
//! so those on a simulated drive, which only they can see, are found too. It begins at the namespace's root, which in a
//! chroot is not the process's; that one `/proc/PID/root` shows in the same way.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::server::error::ServerError;
use crate::sys::watch::Deadline;

/// How long a server has to end by itself: an immediate shutdown writes nothing.
const GRACE: Duration = Duration::from_secs(10);
const ASKED_EVERY: Duration = Duration::from_millis(10);

/// The processes whose current directory is this one or lies in it.
pub fn inside(directory: &Path) -> Vec<Pid> {
    let listed = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    listed
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| works_in(*pid, directory))
        .map(Pid::from_raw)
        .collect()
}

fn works_in(pid: i32, directory: &Path) -> bool {
    let shown = |what: &str| std::fs::read_link(format!("/proc/{pid}/{what}")).ok();
    let within =
        |(root, current): (PathBuf, PathBuf)| Some(Path::new("/").join(current.strip_prefix(root).ok()?));
    shown("root").zip(shown("cwd")).and_then(within).is_some_and(|current| current.starts_with(directory))
}

/// Ends them all: an immediate shutdown, then SIGKILL. True if there were any.
pub fn end_all(directory: &Path) -> Result<bool, ServerError> {
    let mut found = false;
    for signal in [Signal::SIGQUIT, Signal::SIGKILL] {
        let deadline = Deadline::after(GRACE);
        let mut told: Vec<Pid> = Vec::new();
        while !deadline.reached() {
            let pids = inside(directory);
            if pids.is_empty() {
                return Ok(found);
            }
            found = true;
            for pid in pids {
                if !told.contains(&pid) {
                    match kill(pid, signal) {
                        Ok(()) | Err(Errno::ESRCH) => told.push(pid),
                        Err(errno) => return Err(ServerError::Kill { pid: pid.as_raw(), errno }),
                    }
                }
            }
            sleep(ASKED_EVERY);
        }
    }
    let pids = inside(directory).into_iter().map(Pid::as_raw).collect();
    Err(ServerError::StillRunning { directory: directory.to_path_buf(), pids })
}
