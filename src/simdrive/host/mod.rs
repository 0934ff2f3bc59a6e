//! The serving process of a simulated drive: a FUSE file system with one file, answered at the model's pace.
//!
//! It uses fuser's [`Session::from_fd`], which fits: the descriptor comes from outside, so that the mount is made by the
//! program, in its private namespace, while this process stays in the host's; one thread reads; an answer is a value
//! that any thread may send later. What fuser mounts and unmounts itself is not used.
//!
//! - It holds the only descriptor of the FUSE connection: when it ends, however it ends, the kernel fails all requests
//!   and nobody waits for ever. It never exits while a mount needs it: it leaves when the file system is unmounted.
//! - Nothing in the way of a request allocates page cache or any other memory: direct I/O, buffers made before, every
//!   page locked. A page fault would be enough: in a memory cgroup it waits for writeback, which waits for this process.
//!   PR_SET_IO_FLUSHER says the same to the kernel once more, where it is permitted.
//! - It exits on the first panic of any thread (fuser's own ends its session).
//! - When the program ends without a word, latency stops, and the kernel unmounts at full speed.

mod answer;
mod control;
mod engine;
mod file_system;
mod lane;
mod log;
mod pool;
mod readers;
mod store;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use fuser::{Config, Session, SessionACL};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask, raise};

pub use control::{Line, Message, Status};
pub use engine::{Tally, Transport};

use self::engine::Engine;
use self::file_system::DriveFile;
use self::log::Log;
use self::pool::Pool;
use self::readers::{READERS, Readers};
use self::store::{LANES, Store};
use super::model::{Model, Options};
use super::writelog::Header;
use crate::sys::clock::now_ns;
use crate::sys::fork::PanicEndsProcess;
use crate::sys::{memory, namespace};

/// Longest request: the kernel's own limit for FUSE (256 pages).
pub const MOST_BYTES: usize = 1 << 20;
/// Most requests in flight: what the loop device is told, and what buffers are made for.
pub const MOST_IN_FLIGHT: usize = 64;
/// Of each thread: all of it is locked.
const STACK_BYTES: usize = 256 << 10;

/// Everything the serving process needs, made before it is forked.
pub struct Server {
    /// The drive's tag, with which the name of its file begins.
    pub tag: String,
    /// Its numbers.
    pub model: Model,
    /// How it is set up.
    pub options: Options,
    /// An empty file as long as the drive, open with `O_DIRECT`.
    pub backing: File,
    /// The write log's empty file, open with `O_DIRECT`, and how it begins.
    pub log: Option<(File, Header)>,
    /// What is written is recorded too.
    pub log_data: bool,
    /// `/dev/fuse`.
    pub fuse: OwnedFd,
    /// The line to the program.
    pub line: Line,
}

impl Server {
    /// Serves until the file system is unmounted: the body of the forked process. Its result is the exit status.
    pub fn serve(self) -> i32 {
        match self.try_serve() {
            Ok(()) => 0,
            Err(error) => error.raw_os_error().unwrap_or(1),
        }
    }

    fn try_serve(self) -> io::Result<()> {
        keep_out_of_the_way()?;
        let Some(Message::Serve) = self.line.next()? else { return Ok(()) };
        let size_bytes = self.options.size_bytes;
        let store = Store::new(self.backing)?;
        let log =
            self.log.map(|(file, header)| Log::new(file, &header, self.log_data, now_ns())).transpose()?;
        let log_store = log.as_ref().map(Log::store);
        let engine = Arc::new(Engine::new(self.model, self.options, log));
        let pool = Pool::new()?;
        let readers = Readers::new();
        let drive = DriveFile {
            tag: self.tag,
            size_bytes,
            store: Arc::clone(&store),
            engine: Arc::clone(&engine),
            pool,
            readers: Arc::clone(&readers),
        };
        let session = Session::from_fd(drive, self.fuse, SessionACL::Owner, Config::default())?;
        self.line.answer(Status::default())?;

        let stores = [Some(Arc::clone(&store)), log_store].into_iter().flatten();
        let lanes = stores.flat_map(|store| (0..LANES).map(move |lane| (Arc::clone(&store), lane)));
        let drainers = lanes.map(|(store, lane)| start("drain", move || store.drain(lane)));
        let drainers = drainers.collect::<io::Result<Vec<_>>>()?;
        for _ in 0..READERS {
            let (readers, store, engine) = (Arc::clone(&readers), Arc::clone(&store), Arc::clone(&engine));
            start("read", move || readers.work(&store, &engine))?;
        }
        let timed = Arc::clone(&engine);
        start("timer", move || {
            memory::wake_on_time();
            timed.keep_time();
        })?;
        let (asked, kept, line) = (Arc::clone(&engine), Arc::clone(&store), self.line);
        start("control", move || obey(&line, &asked, &kept))?;

        let ended = session.run();
        let log = engine.close();
        readers.close();
        store.close();
        finish(log, drainers)?;
        ended
    }
}

/// Starts a thread whose panic is the end of the process.
fn start<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(move || {
        let _guard = PanicEndsProcess;
        body()
    })
}

/// SIGTERM is for the control thread alone, at the time it waits for it.
fn keep_out_of_the_way() -> io::Result<()> {
    pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&SigSet::from(Signal::SIGTERM)), None)?;
    namespace::leave_private_mounts()?;
    std::env::set_current_dir("/")?;
    // A container may refuse these three; direct I/O and locked buffers hold without them.
    memory::become_io_flusher();
    memory::run_before_others();
    std::fs::write("/proc/self/oom_score_adj", "-1000").unwrap_or_default();
    memory::lock_all()?;
    Ok(())
}

fn finish(log: Option<Log>, drainers: Vec<JoinHandle<io::Result<()>>>) -> io::Result<()> {
    let mut log = log;
    if let Some(log) = &mut log {
        log.finish()?;
    }
    for drainer in drainers {
        drainer.join().map_err(|_| io::Error::from(nix::errno::Errno::EIO))??;
    }
    log.map_or(Ok(()), |log| log.cut())
}

/// Does what the program says, until it is gone.
fn obey(line: &Line, engine: &Engine, store: &Store) {
    while let Ok(Some(message)) = line.next() {
        let mut broken = store.broken();
        match message {
            Message::LosePower => {
                let kept = engine.lose_power().map_or(Ok(()), Log::break_off);
                line.answer(Status { broken: broken.or(kept.err()), tally: engine.tally() })
                    .unwrap_or_default();
                // Whoever uses the drive must not be answered, not even that it is gone.
                raise(Signal::SIGKILL).unwrap_or_default();
            }
            Message::Serve | Message::Tell | Message::StayBehind => {}
            Message::StartLatency(transport) => engine.start_latency(transport),
            Message::StopLatency => engine.stop_latency(),
            Message::Mark(ref text) => broken = broken.or(engine.mark(text).err()),
        }
        if line.answer(Status { broken, tally: engine.tally() }).is_err() {
            break;
        }
        if message == Message::StayBehind && SigSet::from(Signal::SIGTERM).wait().is_err() {
            break;
        }
    }
    engine.stop_latency();
}
