//! The process that removes a drive's loop number when nobody else is left to do it.

use std::io::{PipeReader, PipeWriter, Read};
use std::os::fd::AsRawFd;
use std::thread::sleep;
use std::time::Duration;

use super::queue;
use crate::simdrive::error::{Attempt, Error};
use crate::sys::fork::{self, Process};
use crate::sys::namespace;

/// For the loop device to let go after program and server have ended.
const LIMIT: Duration = Duration::from_mins(1);
/// For the keeper to end when it is not needed any more.
const DISMISS_LIMIT: Duration = Duration::from_secs(10);

/// A process that waits for the end of all that hold the other end of its pipe.
#[derive(Debug)]
pub struct Keeper {
    process: Process,
    held: PipeWriter,
}

impl Keeper {
    /// Starts it for loop number `number`. It stays outside the mount namespace of the drive.
    pub fn start(number: u32) -> Result<Keeper, Error> {
        let (theirs, held) = std::io::pipe().attempt("make a pipe for", queue::node(number))?;
        let control = queue::control()?;
        let keep = [theirs.as_raw_fd(), control.as_raw_fd()];
        let process = fork::detached("fsynclab-keep", &keep, || {
            let left = namespace::leave_private_mounts();
            wait_for_end(&theirs);
            let detached = queue::wait_until_detached(number, LIMIT);
            i32::from(left.is_err() || !detached || !queue::remove(&control, number))
        })
        .attempt("start a process for", queue::node(number))?;
        Ok(Keeper { process, held })
    }

    /// What the serving process must hold open: the keeper does nothing while it lives.
    pub fn held(&self) -> &PipeWriter {
        &self.held
    }

    /// Ends it: what it would do is done.
    pub fn dismiss(self) {
        let Keeper { process, held } = self;
        drop(held);
        // One that does not end has lost only its purpose: it ends at its own limit.
        process.wait(DISMISS_LIMIT).unwrap_or_default();
    }

    /// Lets it live on when this program ends: the serving process still holds its pipe.
    pub fn leave(self) {
        drop(self);
    }
}

fn wait_for_end(pipe: &PipeReader) {
    let mut pipe = pipe;
    while pipe.read(&mut [0]).is_err() {
        sleep(Duration::from_millis(10));
    }
}
