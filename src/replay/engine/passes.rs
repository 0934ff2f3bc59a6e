//! What comes after the copying: hints in a pass of their own, waiting, syncs of files and of directories.

use std::ffi::CStr;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use nix::fcntl::OFlag;

use super::listing::Kind;
use super::sorted::{Key, Sorted};
use super::stopwatch::Part;
use super::together::{self, Work};
use super::{EngineError, Observer, Run, fault};
use crate::replay::policy::{Dirs, Every, Order, Settle, Type, Via};
use crate::sys::kernel::{Call, Kernel};

/// The extra file of `sync=dummy`.
const DUMMY: &[u8] = b".fsynclab-dummy";

/// Copies whose descriptors are still open.
#[derive(Debug, Default)]
pub(super) struct Held {
    files: Vec<OwnedFd>,
    sorted: Sorted,
}

impl Held {
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// The path of a held file.
    pub(super) fn name(&self, position: usize) -> Option<&CStr> {
        (position < self.files.len()).then(|| self.sorted.name(position))
    }

    pub(super) fn clear(&mut self) {
        self.files.clear();
        self.sorted.clear();
    }
}

impl<K: Kernel, O: Observer> Run<'_, K, O> {
    /// As initdb does: every file, then its directory, reopened and hinted as a whole.
    pub(super) fn hint_pass(&mut self, group: Range<usize>) -> Result<(), EngineError> {
        self.clock.enter(Part::Hint);
        for position in group {
            self.at_directory(position, |run| {
                run.walk(Type::DType, false, &mut |run, _| {
                    if run.copied.hint_unsupported.is_some() {
                        return Ok(());
                    }
                    let path = run.target.as_cstr();
                    let file = run.calls.open(path, OFlag::O_RDONLY)?;
                    run.copied.hint_unsupported = run.calls.hint(file.as_fd(), path, 0, 0)?;
                    Ok(run.calls.close(file, path)?)
                })?;
                if run.axes().dirs != Dirs::None && run.copied.hint_unsupported.is_none() {
                    // A file system whose directories have no pages to write back is not without hints.
                    let path = run.target.as_cstr();
                    let file = run.calls.open(path, OFlag::O_RDONLY)?;
                    run.calls.hint(file.as_fd(), path, 0, 0)?;
                    run.calls.close(file, path)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    pub(super) fn settle_pass(&mut self, group: Range<usize>) -> Result<(), EngineError> {
        self.clock.enter(Part::Settle);
        for position in group {
            self.at_directory(position, |run| {
                run.walk(Type::DType, false, &mut |run, _| {
                    if run.copied.hint_unsupported.is_some() {
                        return Ok(());
                    }
                    let path = run.target.as_cstr();
                    let file = run.calls.open(path, OFlag::O_RDONLY)?;
                    run.copied.hint_unsupported = run.calls.settle(file.as_fd(), path)?;
                    Ok(run.calls.close(file, path)?)
                })
            })?;
        }
        Ok(())
    }

    /// Every file by name in the destination's own order, or in the order that is asked for.
    pub(super) fn sync_pass(&mut self, group: Range<usize>) -> Result<(), EngineError> {
        self.clock.enter(Part::SyncFiles);
        let axes = *self.axes();
        let sized = axes.order == Order::Size;
        if axes.order == Order::Readdir && axes.jobs == 1 && axes.via == Via::Threads {
            for position in group {
                self.at_directory(position, |run| {
                    run.walk(axes.r#type, sized, &mut |run, _| {
                        Ok(run.calls.sync_by_name(run.target.as_cstr())?)
                    })
                })?;
            }
            return Ok(());
        }
        let mut files = Sorted::default();
        for position in group {
            self.at_directory(position, |run| {
                run.walk(axes.r#type, sized, &mut |run, key| {
                    files.push(run.target.as_cstr(), Kind::File, key);
                    Ok(())
                })
            })?;
        }
        let order = files.order(axes.order);
        self.sync_work(Work { names: &files, open: None }, &order)
    }

    /// Keeps a copy open until the pass, or until the hand is full.
    pub(super) fn hold(&mut self, file: OwnedFd) -> Result<(), EngineError> {
        let path = self.target.as_cstr();
        let key = match self.axes().order {
            Order::Readdir | Order::Reverse => Key::default(),
            Order::Inode | Order::Size => {
                let facts = self.calls.lstat(path)?;
                Key { inode: facts.st_ino, size_bytes: facts.st_size.cast_unsigned() }
            }
        };
        self.tools.held.sorted.push(path, Kind::File, key);
        self.tools.held.files.push(file);
        if self.tools.held.files.len() >= self.tools.means.descriptors {
            self.sync_held()?;
        }
        Ok(())
    }

    /// Hints, waits for, syncs and closes what is held.
    pub(super) fn sync_held(&mut self) -> Result<(), EngineError> {
        self.write_batch()?;
        let mut held = std::mem::take(&mut self.tools.held);
        let axes = *self.axes();
        let before = self.clock.enter(Part::Hint);
        let named = |position: usize| held.sorted.name(position);
        if axes.every == Every::Pass {
            for (position, file) in held.files.iter().enumerate() {
                if self.copied.hint_unsupported.is_none() {
                    let refused = self.calls.hint(file.as_fd(), named(position), 0, 0)?;
                    self.copied.hint_unsupported = refused;
                }
            }
        }
        self.clock.enter(Part::Settle);
        if axes.settle == Settle::Wait {
            for (position, file) in held.files.iter().enumerate() {
                if self.copied.hint_unsupported.is_none() {
                    let refused = self.calls.settle(file.as_fd(), named(position))?;
                    self.copied.hint_unsupported = refused;
                }
            }
        }
        self.clock.enter(Part::SyncFiles);
        let order = held.sorted.order(axes.order);
        self.sync_work(Work { names: &held.sorted, open: Some(&held.files) }, &order)?;
        for (position, file) in held.files.drain(..).enumerate() {
            self.calls.close(file, held.sorted.name(position))?;
        }
        self.clock.enter(before);
        held.clear();
        self.tools.held = held;
        Ok(())
    }

    fn sync_work(&mut self, work: Work<'_>, order: &[usize]) -> Result<(), EngineError> {
        let in_flight = (self.axes().jobs as usize).min(self.tools.means.descriptors);
        match (&mut self.tools.ring, &self.tools.pool) {
            (Some(ring), _) => together::by_ring(self.calls, ring, in_flight, work, order, self.watch),
            (None, Some(pool)) => together::by_threads(self.calls, pool, work, order, self.watch),
            (None, None) => together::in_turn(self.calls, work, order, self.watch),
        }
    }

    pub(super) fn sync_file_system(&mut self) -> Result<(), EngineError> {
        self.clock.enter(Part::SyncFiles);
        let path = self.target.as_cstr();
        let file = self.calls.open(path, OFlag::O_RDONLY)?;
        self.calls.syncfs(file.as_fd(), path)?;
        Ok(self.calls.close(file, path)?)
    }

    /// git's batch mode: the sync of one more file makes the drive write what it was sent for the others. The file lies
    /// in the copy, so that it goes with it whatever happens, and is gone when the policy is done.
    pub(super) fn sync_dummy(&mut self, top: usize) -> Result<(), EngineError> {
        self.clock.enter(Part::SyncFiles);
        self.at_directory(top, |run| {
            let length = run.target.push(DUMMY);
            let path = run.target.as_cstr();
            let file = run.calls.open(path, OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL)?;
            run.calls.sync_unseen(file.as_fd(), path)?;
            run.calls.close(file, path)?;
            let unlinked = run.calls.kernel.unlink(path);
            unlinked.map_err(|errno| fault(Call::Unlink, &run.target, errno))?;
            run.target.cut(length);
            Ok(())
        })
    }

    /// The lowest directories first, the one that holds the copy last.
    pub(super) fn sync_directories(&mut self, group: Range<usize>) -> Result<(), EngineError> {
        let dirs = self.axes().dirs;
        if dirs == Dirs::None {
            return Ok(());
        }
        self.clock.enter(Part::SyncDirectories);
        let top = group.start;
        for position in group.rev() {
            self.go_on()?;
            let refused =
                self.at_directory(position, |run| Ok(run.calls.sync_directory(run.target.as_cstr())?))?;
            self.copied.directory_refused = self.copied.directory_refused.or(refused);
        }
        if dirs == Dirs::OwnAndParent {
            let parent = self.at_directory(top, |run| Ok(run.target.parent()))?;
            let refused = self.calls.sync_directory(parent.as_cstr())?;
            self.copied.directory_refused = self.copied.directory_refused.or(refused);
        }
        Ok(())
    }

    /// Calls `each` with the target's path at every file of the directory that it stands at.
    fn walk(
        &mut self,
        by: Type,
        sized: bool,
        each: &mut dyn FnMut(&mut Self, Key) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let directory = self.calls.open_directory(self.target.as_cstr())?;
        self.tools.listing.begin();
        loop {
            let (inode, kind, length) = match self.tools.listing.next(self.calls.kernel, directory.as_fd()) {
                Ok(Some(entry)) => (entry.inode, entry.kind, self.target.push(entry.name)),
                Ok(None) => break,
                Err(errno) => return Err(fault(Call::Getdents64, &self.target, errno)),
            };
            let mut file = kind;
            let mut key = Key { inode, size_bytes: 0 };
            if by == Type::Lstat || kind == Kind::Unknown || (sized && kind == Kind::File) {
                let facts = self.calls.lstat(self.target.as_cstr())?;
                file = Kind::from_mode(facts.st_mode);
                key.size_bytes = facts.st_size.cast_unsigned();
            }
            if file == Kind::File {
                self.go_on()?;
                each(self, key)?;
            }
            self.target.cut(length);
        }
        Ok(self.calls.close(directory, self.target.as_cstr())?)
    }
}
