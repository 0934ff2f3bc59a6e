//! Any command with a drive mounted: `sim run`.

use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;

use super::SimulatedDrive;
use crate::simdrive::error::{Attempt, Error};
use crate::sys::fork;
use crate::sys::journal::Journal;
use crate::sys::namespace;
use crate::sys::watch::{Stop, Watch};

/// The variable that tells a command where the drive is.
pub const MOUNT_VARIABLE: &str = "FSYNCLAB_MOUNT";
/// How often it is asked whether to stop.
const STEP: Duration = Duration::from_millis(50);
/// How long the command may take to end once it was asked to.
const GRACE: Duration = Duration::from_secs(10);

/// Runs a command on a drive, mounted at `$FSYNCLAB_MOUNT`, in a PID namespace that ends with it, so that nothing it
/// starts outlives the drive. Returns its exit status, 128 + n when signal n ended it. When the watch says stop, the
/// signal is passed on (SIGTERM for a time limit), and ten seconds later everything is killed. The drive is closed
/// whatever came of it.
pub fn run_command(
    drive: SimulatedDrive,
    journal: &Journal,
    command: &[String],
    watch: &dyn Watch,
) -> Result<i32, Error> {
    let status = match command.split_first() {
        Some((program, arguments)) => run_on(drive.mount_point(), program, arguments, watch),
        None => Err(Error::NoCommand { program: String::new(), errno: Errno::ENOENT }),
    };
    let closed = drive.close(journal);
    let status = status?;
    closed.map(|()| status)
}

fn run_on(mount_point: &Path, program: &str, arguments: &[String], watch: &dyn Watch) -> Result<i32, Error> {
    let variable = (MOUNT_VARIABLE, mount_point.as_os_str());
    let start = || fork::first_process(program, arguments, variable, own_proc);
    let process = namespace::with_new_pid_namespace(start)
        .map_err(|errno| Error::NoCommand { program: program.to_owned(), errno })?;
    let mut stopping = false;
    loop {
        let limit = if stopping { GRACE } else { STEP };
        match process.wait(limit).attempt("wait for", program)? {
            Some(WaitStatus::Exited(_, code)) => return Ok(code),
            Some(WaitStatus::Signaled(_, signal, _)) => return Ok(128 + signal as i32),
            Some(_) => {}
            None if stopping => process.signal(Signal::SIGKILL).attempt("end", program)?,
            None => {
                if let Some(stop) = watch.stop() {
                    process.signal(signal_for(stop)).attempt("end", program)?;
                    stopping = true;
                }
            }
        }
    }
}

fn signal_for(stop: Stop) -> Signal {
    match stop {
        Stop::Signal(number) => Signal::try_from(number).unwrap_or(Signal::SIGTERM),
        Stop::TimeLimit => Signal::SIGTERM,
    }
}

/// /proc of the new PID namespace, seen by the command alone.
fn own_proc() -> Result<(), Errno> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), None::<&str>)
}
