//! The copy engine: one copy of one tree under one policy, call by call as PostgreSQL's copydir makes them.
//!
//! A tree is a list of directories, top first. One *group* of them (the whole tree, or each directory alone, as
//! [`Scope`] says) goes through the passes in order: copy, hint, settle, sync files, sync directories. The file with
//! the moving of bytes is `copy`, with writes in batches `aio`, with the passes `passes`, with syncs at the same time
//! `together`.
//!
//! Invariants: nothing is removed; a destination that exists is never touched; a failed sync ends the copy, for a second
//! one could succeed on data that are lost; no memory is taken per call, and per file only where files are sorted, kept
//! open or synced at the same time.

mod aio;
mod calls;
mod copy;
mod listing;
mod passes;
mod path;
mod sorted;
mod stopwatch;
mod together;

use std::ops::Range;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::means::Means;
use super::policy::{Axes, CopyBy, Every, Hint, Policy, Scope, SyncWhen, Via};
use crate::results::{Phases, Promise};
use crate::sys::aio::Batch;
use crate::sys::error::reason;
use crate::sys::kernel::{Call, Fault, Kernel};
use crate::sys::uring::Ring;
use crate::sys::watch::{Event, Phase, Stop, Watch};

use calls::Calls;
use copy::Buffer;
use listing::Listing;
use passes::Held;
use path::{Names, PathBuffer};
use stopwatch::Stopwatch;

pub use listing::Kind;
pub use stopwatch::Part;

/// Who is told what is durable, at the moment it is: a power cut's ledger, or nobody. Called inside the clock, and from
/// several threads where a policy has them.
pub trait Observer: Sync {
    /// The file's data are on disk, as far as its policy can know. Not told of files that one syncfs or one dummy covers.
    fn synced(&self, path: &Path);
    /// The directory's entries are on disk.
    fn directory_synced(&self, path: &Path);
    /// The policy has done all it does.
    fn done(&self);
}

impl Observer for () {
    #[inline]
    fn synced(&self, _path: &Path) {}

    #[inline]
    fn directory_synced(&self, _path: &Path) {}

    #[inline]
    fn done(&self) {}
}

/// Why there is no copy. What was made of it lies at the destination, for the caller to remove.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// A call failed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// Asked to stop.
    #[error("stopped: {0}")]
    Stopped(Stop),
    /// The threads or the ring of the policy cannot be had.
    #[error("could not prepare {jobs} syncs at the same time: {}", reason(*.errno))]
    Jobs {
        /// How many.
        jobs: u32,
        /// Why not.
        errno: Errno,
    },
}

/// An entry that is neither a file nor a directory; servers skip it too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Where it lies in the source.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
}

/// A finished copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// When it began, by CLOCK_MONOTONIC, in nanoseconds.
    pub started_ns: u64,
    /// From before the mkdir of the destination to the last close, in nanoseconds.
    pub elapsed_ns: u64,
    /// What the time went into; exclusive parts, named by [`Part`].
    pub phases: Phases,
    /// Files copied.
    pub files: u64,
    /// Directories made.
    pub directories: u64,
    /// Bytes moved: none where the copy shares its source's blocks.
    pub bytes: u64,
    /// Entries that were not copied.
    pub skipped: Vec<Skipped>,
    /// Source files that changed in a way the engine meets: gone between readdir and open, or longer than their end.
    pub changed: Vec<PathBuf>,
    /// The first hint's error where hints are not supported here; the others were left out.
    pub hint_unsupported: Option<Errno>,
    /// The error of a refused directory sync: names may be lost.
    pub directory_refused: Option<Errno>,
    /// The error of the way of copying that was replaced by `read-write`.
    pub fell_back: Option<Errno>,
}

impl Copied {
    /// What the policy can claim after what it met.
    pub fn promise(&self, policy: &Policy) -> Promise {
        match self.directory_refused {
            Some(_) if policy.axes().sync != SyncWhen::Syncfs => policy.promise().min(Promise::Data),
            _ => policy.promise(),
        }
    }
}

/// A policy ready to be replayed any number of times: buffers, threads and ring are made once, outside the clock.
#[derive(Debug)]
pub struct Engine<'k, K> {
    kernel: &'k K,
    policy: Policy,
    tools: Tools,
}

#[derive(Debug)]
struct Tools {
    means: Means,
    buffer: Buffer,
    listing: Listing,
    held: Held,
    pool: Option<ThreadPool>,
    ring: Option<Ring>,
    batch: Option<Batch>,
}

impl<'k, K: Kernel> Engine<'k, K> {
    /// Takes what the policy needs of memory, threads and rings.
    pub fn new(kernel: &'k K, policy: &Policy, means: Means) -> Result<Self, EngineError> {
        let axes = policy.axes();
        let most = u32::try_from(means.descriptors).unwrap_or(u32::MAX);
        let jobs = axes.jobs.min(most);
        let failed = |errno| EngineError::Jobs { jobs, errno };
        let pool = (axes.jobs > 1 && axes.via == Via::Threads)
            .then(|| ThreadPoolBuilder::new().num_threads(jobs as usize).build())
            .transpose()
            .map_err(|_| failed(Errno::EAGAIN))?;
        let ring = (axes.via == Via::IoUring).then(|| Ring::new(jobs)).transpose().map_err(failed)?;
        let batch = (axes.copy == CopyBy::Aio).then(Batch::new).transpose().map_err(failed)?;
        let tools = Tools {
            means,
            buffer: Buffer::new(),
            listing: Listing::new(),
            held: Held::default(),
            pool,
            ring,
            batch,
        };
        Ok(Self { kernel, policy: policy.clone(), tools })
    }

    /// Copies the tree at `source` to `destination`, which must not exist while its parent does. The clock runs from
    /// the mkdir to the last close. `watch` hears of the phases and is asked between files, and within large ones,
    /// whether to stop. After a fault the engine has served: what a failed sync left behind is nothing to go on with.
    pub fn replay<O: Observer>(
        &mut self,
        source: &Path,
        destination: &Path,
        watch: &dyn Watch,
        observer: &O,
    ) -> Result<Copied, EngineError> {
        let target = PathBuffer::new(destination);
        let mut run = Run {
            calls: Calls { kernel: self.kernel, axes: self.policy.axes(), observer },
            strict: self.policy.replays_server(),
            watch,
            clock: Stopwatch::start(),
            source: PathBuffer::new(source),
            top: target.len(),
            target,
            directories: Names::default(),
            tools: &mut self.tools,
            copied: Copied::default(),
        };
        let result = run.tree();
        run.tools.held.clear();
        if result.is_ok() {
            observer.done();
        }
        let (started_ns, elapsed_ns, phases) = run.clock.stop();
        result.map(|()| Copied { started_ns, elapsed_ns, phases, ..run.copied })
    }
}

/// One copy while it is made.
struct Run<'a, K, O> {
    calls: Calls<'a, K, O>,
    /// True where a server is replayed: it reports errors that others work around.
    strict: bool,
    watch: &'a dyn Watch,
    clock: Stopwatch,
    source: PathBuffer,
    target: PathBuffer,
    /// Length of the target's path at the top.
    top: usize,
    /// Relative to both ends, top first; the top itself is the empty name.
    directories: Names,
    tools: &'a mut Tools,
    copied: Copied,
}

impl<K: Kernel, O: Observer> Run<'_, K, O> {
    fn tree(&mut self) -> Result<(), EngineError> {
        self.directories.push(c"");
        let mut done = 0;
        while done < self.directories.len() {
            let first = done;
            self.tell(Phase::Copying);
            self.clock.enter(Part::Copy);
            while done < self.directories.len() && (done == first || self.axes().scope == Scope::Tree) {
                self.at_directory(done, Self::copy_directory)?;
                done += 1;
            }
            self.passes(first..done)?;
        }
        Ok(())
    }

    /// What follows the copying of a group of directories.
    fn passes(&mut self, group: Range<usize>) -> Result<(), EngineError> {
        let axes = *self.axes();
        if axes.sync == SyncWhen::Held {
            self.sync_held()?;
        } else {
            if axes.hint != Hint::None && axes.every == Every::Pass {
                self.tell(Phase::Hinting);
                self.hint_pass(group.clone())?;
            }
            if axes.settle != super::policy::Settle::None {
                self.settle_pass(group.clone())?;
            }
        }
        self.tell(Phase::Syncing);
        match axes.sync {
            SyncWhen::After => self.sync_pass(group.clone())?,
            SyncWhen::Syncfs => self.sync_file_system()?,
            SyncWhen::Dummy => self.sync_dummy(group.start)?,
            SyncWhen::Never | SyncWhen::Each | SyncWhen::Held => {}
        }
        self.sync_directories(group)?;
        Ok(())
    }

    fn axes(&self) -> &Axes {
        self.calls.axes
    }

    fn tell(&self, phase: Phase) {
        self.watch.event(Event::Phase(phase));
    }

    /// Asked once a file and once a MiB.
    fn go_on(&self) -> Result<(), EngineError> {
        match self.watch.stop() {
            Some(stop) => Err(EngineError::Stopped(stop)),
            None => Ok(()),
        }
    }

    /// With both paths at a directory of the tree.
    fn at_directory<R>(
        &mut self,
        position: usize,
        act: impl FnOnce(&mut Self) -> Result<R, EngineError>,
    ) -> Result<R, EngineError> {
        let name = self.directories.get(position).to_bytes();
        let lengths = (self.source.push(name), self.target.push(name));
        let result = act(self);
        self.source.cut(lengths.0);
        self.target.cut(lengths.1);
        result
    }
}

fn fault(call: Call, path: &PathBuffer, errno: Errno) -> EngineError {
    Fault { call, path: path.to_path(), errno }.into()
}

#[cfg(test)]
mod tests;
