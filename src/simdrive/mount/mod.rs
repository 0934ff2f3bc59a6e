//! A simulated drive with a file system on it: made, mounted, taken apart.
//!
//! Who holds what, so that nothing is left whoever is killed:
//! - The mounts live in a mount namespace of the calling thread and of what it starts. When the last of them is gone
//!   the kernel unmounts: the file system, then (autoclear) the loop device lets go, then the FUSE file system ends.
//! - The serving process is forked before and stays outside. It leaves when the FUSE file system ends. A server inside
//!   the namespace it serves would wait for itself.
//! - A keeper process waits until both are gone and removes the loop number.

mod image;
mod keeper;
mod make;
mod plan;
mod queue;
mod run;
mod setup;
mod teardown;
mod transport;

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;

pub use image::ImageDevice;
pub use plan::model_of;
pub use run::{MOUNT_VARIABLE, run_command};
pub use teardown::{Record, leftovers, remove_number, umount};

use self::keeper::Keeper;
use self::teardown::Ending;
use super::error::{Attempt, Error, errno_of};
use super::host::{Line, Message, Status, Tally, Transport};
use super::spec::Spec;
use crate::sys::fork::Process;
use crate::sys::journal::Journal;
use crate::sys::undo::{UndoKind, UndoTable};

/// For the serving process to end by itself.
const LIMIT: Duration = Duration::from_secs(10);

/// What this wing knows to undo.
pub const UNDO: &UndoTable = &[UndoKind::of::<Record>()];

/// The mark that stands in the write log where the file system is made and aged: what comes before is no part of a run.
pub const MADE: &str = "made";

/// The mark at the end of a trial: what comes after it belongs to none.
pub const REST: &str = "rest";

/// How a drive is made.
pub struct Options<'a> {
    /// Decides the drive's angle and the contents that age its file system.
    pub seed: u64,
    /// A directory on real storage, made if it is not there: the drive's contents lie in it without a name, and its
    /// mount point `sim/TAG/mnt` is seen there by those inside.
    pub directory: PathBuf,
    /// Age the file system before the run.
    pub aged: bool,
    /// Record everything that reaches the drive in this new file, on a file system that can do direct I/O. It is whole
    /// once the drive is closed.
    pub write_log: Option<PathBuf>,
    /// Record what is written too.
    pub log_data: bool,
    /// Where what must be undone is written before it is done.
    pub journal: &'a Journal,
}

/// A mounted drive. [`SimulatedDrive::close`] is the way out; when it is only dropped, everything stays mounted until
/// the program ends.
#[derive(Debug)]
pub struct SimulatedDrive {
    record: Record,
    /// Number of its entry in the journal.
    entry: u64,
    /// `sim/TAG`.
    home: PathBuf,
    mount_point: PathBuf,
    transport: Transport,
    line: Line,
    server: Process,
    keeper: Keeper,
}

impl SimulatedDrive {
    /// Makes a drive with a file system, mounts it for the calling thread and what that starts from now on (threads
    /// that exist do not see it), and starts the model's time.
    pub fn create(spec: &Spec, options: Options<'_>) -> Result<SimulatedDrive, Error> {
        setup::in_private(spec, options)
    }

    /// Where the file system is mounted.
    pub fn mount_point(&self) -> &Path {
        &self.mount_point
    }

    /// `loopN`, as in `/sys/block/loopN/stat`.
    pub fn device_name(&self) -> String {
        format!("loop{}", self.record.loop_number)
    }

    /// What identifies the drive in a journal.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The process id of the serving process.
    pub fn server_pid(&self) -> i32 {
        self.server.pid()
    }

    /// What the way to the drive costs without any drive, and what is taken off the model's times.
    pub fn transport_ns(&self) -> u64 {
        self.transport.base_ns
    }

    /// Takes the model's time from now on (a drive at rest), or none.
    pub fn latency(&self, on: bool) -> Result<(), Error> {
        let message = if on { Message::StartLatency(self.transport) } else { Message::StopLatency };
        self.ask(&message).map(drop)
    }

    /// Puts a mark into the write log, 1000 bytes at most: after every answer that has left, before every request to come.
    pub fn mark(&self, text: &str) -> Result<(), Error> {
        self.ask(&Message::Mark(text.to_owned())).map(drop)
    }

    /// Cuts its power: the serving process dies, at this moment in the life of whoever uses the drive. The write log, if
    /// one is kept, has all that reached the drive before, and no end: what of it the drive still has is for
    /// [`Drive::volatile`](super::model::Drive::volatile) to say. [`SimulatedDrive::close`] removes what is left.
    pub fn cut_power(&self) -> Result<(), Error> {
        self.ask(&Message::LosePower).map(drop)
    }

    /// What was done so far; an error when the drive is broken.
    pub fn tally(&self) -> Result<Tally, Error> {
        self.ask(&Message::Tell).map(|status| status.tally)
    }

    fn ask(&self, message: &Message) -> Result<Status, Error> {
        let tag = || self.record.tag.clone();
        match self.line.ask(message) {
            Ok(Status { broken: Some(errno), .. }) => {
                // The home is sim/TAG below it.
                let directory = self.home.ancestors().nth(2).unwrap_or(&self.home).to_owned();
                Err(Error::Broken { tag: tag(), directory, errno })
            }
            Ok(status) => Ok(status),
            Err(error) if matches!(errno_of(&error), Errno::EPIPE | Errno::ECONNRESET) => {
                Err(Error::ServerEnded { tag: tag(), status: self.server.ending(Duration::from_secs(1)) })
            }
            Err(error) => Err(error).attempt("ask the serving process of", tag()),
        }
    }

    /// Unmounts the drive and removes everything of it. After an error as much as possible is removed all the same; the
    /// error that tells most is returned. A drive on which files are open ([`Error::InUse`]) is seen by nobody any more
    /// and goes with the last of them.
    pub fn close(self, journal: &Journal) -> Result<(), Error> {
        let entry = self.entry;
        let told = self.ask(&Message::StopLatency).map(drop);
        let tag = self.record.tag.clone();
        let unmounted = match teardown::unmount(&self.record, &self.mount_point) {
            Ok(Ending::InUse) => {
                teardown::unmount_connection(&self.record)?;
                self.keeper.leave();
                return Err(Error::InUse { target: self.mount_point });
            }
            Ok(Ending::WasNotMounted) => Err(Error::UnmountedByOthers { tag }),
            Ok(Ending::Clean | Ending::Aborted) => Ok(()),
            Err(error) => Err(error),
        };
        self.take_apart()?;
        journal.done(entry)?;
        told.and(unmounted)
    }

    /// Everything below the file system.
    fn take_apart(self) -> Result<(), Error> {
        let SimulatedDrive { record, home, server, keeper, line, .. } = self;
        let disconnected = teardown::unmount_connection(&record);
        drop(line);
        let ended = match server.wait(LIMIT) {
            Ok(None) => server.end(LIMIT).attempt("end", &record.tag).map(drop),
            ended => ended.attempt("wait for", &record.tag).map(drop),
        };
        let gone = queue::remove(&queue::control()?, record.loop_number);
        keeper.dismiss();
        let removed = std::fs::remove_dir_all(&home).attempt("remove directory", &home);
        let what = format!("loop{}", record.loop_number);
        let gone = if gone { Ok(()) } else { Err(Error::StillThere { tag: record.tag, what }) };
        disconnected.and(ended).and(gone).and(removed)
    }
}

/// Makes a drive and mounts it on an empty directory for everybody on this host. It lives on when the program ends,
/// until [`umount`].
pub fn mount(spec: &Spec, target: &Path, options: Options<'_>) -> Result<Record, Error> {
    setup::for_everybody(spec, target, options)
}
