//! The copy pass: one directory, one file, and the four ways of moving bytes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::OFlag;

use super::calls::uninterrupted;
use super::listing::Kind;
use super::sorted::{Key, Sorted};
use super::stopwatch::Part;
use super::{EngineError, Observer, Run, Skipped, fault};
use crate::replay::means::LARGEST_BLOCK_BYTES;
use crate::replay::policy::axes::{RANGE_BYTES, WRITE_BYTES};
use crate::replay::policy::{CopyBy, Every, Hint, Open, Order, SyncWhen, Type};
use crate::sys::kernel::{Call, Kernel};

pub(super) const BUFFER_BYTES: usize = 64 << 10;
const RANGE_LENGTH: usize = 1 << 20;

/// copy_file_range cannot be used between these two files, or at all.
const RANGE_REFUSALS: [Errno; 5] = [Errno::EXDEV, Errno::EINVAL, Errno::ENOSYS, Errno::ENOTSUP, Errno::EPERM];

/// PostgreSQL's 64 KiB, aligned so that direct I/O takes it.
#[derive(Debug)]
pub(super) struct Buffer {
    room: Vec<u8>,
    start: usize,
}

impl Buffer {
    pub(super) fn new() -> Self {
        let room = vec![0; BUFFER_BYTES + LARGEST_BLOCK_BYTES];
        let start = room.as_ptr().align_offset(LARGEST_BLOCK_BYTES);
        Self { room, start }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.room[self.start..self.start + BUFFER_BYTES]
    }
}

/// How often a file is hinted while it is written.
#[derive(Clone, Copy)]
enum Pace {
    Never,
    EachChunk,
    Distance(u64),
}

impl<K: Kernel, O: Observer> Run<'_, K, O> {
    /// Makes the directory at the target's path and copies the files of the source's into it.
    pub(super) fn copy_directory(&mut self) -> Result<(), EngineError> {
        self.calls.mkdir(self.target.as_cstr())?;
        self.copied.directories += 1;
        let directory = match self.calls.open_directory(self.source.as_cstr()) {
            Err(fault) if fault.errno == Errno::ENOENT && self.copied.directories > 1 => {
                self.copied.changed.push(self.source.to_path());
                return Ok(());
            }
            opened => opened?,
        };
        let sorts = self.sorts_copies();
        let mut sorted = Sorted::default();
        self.tools.listing.begin();
        loop {
            let next = self.tools.listing.next(self.calls.kernel, directory.as_fd());
            let entry = match next {
                Ok(Some(entry)) => entry,
                Ok(None) => break,
                Err(errno) => return Err(fault(Call::Getdents64, &self.source, errno)),
            };
            let (inode, kind) = (entry.inode, entry.kind);
            let lengths = (self.source.push(entry.name), self.target.push(entry.name));
            if sorts && let Some((kind, size_bytes)) = self.source_kind(kind)? {
                let key = Key { inode, size_bytes };
                sorted.push(self.source.below(lengths.0), kind, key);
            } else if !sorts {
                self.copy_entry(kind)?;
            }
            self.source.cut(lengths.0);
            self.target.cut(lengths.1);
        }
        self.copy_sorted(&sorted)?;
        Ok(self.calls.close(directory, self.source.as_cstr())?)
    }

    /// Where files are synced as they are copied, the order of syncing is that of copying.
    fn sorts_copies(&self) -> bool {
        let axes = self.axes();
        matches!(axes.sync, SyncWhen::Each | SyncWhen::Syncfs) && axes.order != Order::Readdir
    }

    fn copy_sorted(&mut self, sorted: &Sorted) -> Result<(), EngineError> {
        for position in sorted.order(self.axes().order) {
            let name = sorted.name(position).to_bytes();
            let lengths = (self.source.push(name), self.target.push(name));
            self.copy_known(sorted.kind(position), sorted.size_bytes(position))?;
            self.source.cut(lengths.0);
            self.target.cut(lengths.1);
        }
        Ok(())
    }

    fn copy_entry(&mut self, kind: Kind) -> Result<(), EngineError> {
        match self.source_kind(kind)? {
            Some((kind, size_bytes)) => self.copy_known(kind, size_bytes),
            None => Ok(()),
        }
    }

    /// What lies at the source's path, by lstat where the policy wants it, readdir does not say or a size is needed;
    /// nothing where it is gone.
    fn source_kind(&mut self, kind: Kind) -> Result<Option<(Kind, u64)>, EngineError> {
        let axes = self.axes();
        let sized = axes.copy == CopyBy::Aio || (axes.order == Order::Size && self.sorts_copies());
        if axes.r#type == Type::DType && kind != Kind::Unknown && !sized {
            return Ok(Some((kind, 0)));
        }
        match self.calls.lstat(self.source.as_cstr()) {
            Ok(facts) => Ok(Some((Kind::from_mode(facts.st_mode), facts.st_size.cast_unsigned()))),
            Err(fault) if fault.errno == Errno::ENOENT => {
                self.copied.changed.push(self.source.to_path());
                Ok(None)
            }
            Err(fault) => Err(fault.into()),
        }
    }

    fn copy_known(&mut self, kind: Kind, size_bytes: u64) -> Result<(), EngineError> {
        self.go_on()?;
        match kind {
            Kind::File => self.copy_file(size_bytes),
            Kind::Directory => {
                self.directories.push(self.target.below(self.top));
                Ok(())
            }
            kind => {
                self.copied.skipped.push(Skipped { path: self.source.to_path(), kind });
                Ok(())
            }
        }
    }

    /// `size_bytes` is 0 where nobody asked.
    fn copy_file(&mut self, size_bytes: u64) -> Result<(), EngineError> {
        let (calls, by) = (self.calls, self.way(size_bytes));
        let from = match calls.open(self.source.as_cstr(), OFlag::O_RDONLY) {
            Err(fault) if fault.errno == Errno::ENOENT => {
                self.copied.changed.push(self.source.to_path());
                return Ok(());
            }
            opened => opened?,
        };
        let to = calls.open(self.target.as_cstr(), self.create_flags(by))?;
        let bytes = match by {
            CopyBy::Aio => self.move_together(from.as_fd(), to.as_fd(), size_bytes)?,
            _ => self.move_bytes(by, from.as_fd(), to.as_fd())?,
        };
        self.copied.files += 1;
        self.copied.bytes += bytes;
        self.sync_before_close(&to, bytes)?;
        if calls.axes.sync == SyncWhen::Held {
            self.hold(to)?;
        } else {
            calls.close(to, self.target.as_cstr())?;
        }
        Ok(calls.close(from, self.source.as_cstr())?)
    }

    /// How a file of this size is copied: direct writes end on a block.
    fn way(&self, size_bytes: u64) -> CopyBy {
        let whole = size_bytes.is_multiple_of(self.tools.means.direct_block_bytes as u64);
        match self.axes().copy {
            CopyBy::Aio if !whole => CopyBy::ReadWrite,
            by => by,
        }
    }

    fn create_flags(&self, by: CopyBy) -> OFlag {
        let axes = self.axes();
        let access = match by {
            CopyBy::ReadWrite => OFlag::O_RDWR,
            CopyBy::CopyFileRange | CopyBy::Reflink => OFlag::O_WRONLY,
            CopyBy::Direct | CopyBy::Aio => OFlag::O_RDWR | OFlag::O_DIRECT,
        };
        let synced = match axes.open {
            Open::Plain => OFlag::empty(),
            Open::ODsync => OFlag::O_DSYNC,
            Open::OSync => OFlag::O_SYNC,
        };
        access | synced | OFlag::O_CREAT | OFlag::O_EXCL
    }

    /// O_DSYNC and O_SYNC cover writes only: a file that got none needs a sync of its own.
    fn sync_before_close(&mut self, to: &OwnedFd, bytes: u64) -> Result<(), EngineError> {
        let (calls, path) = (self.calls, self.target.as_cstr());
        let unsynced = matches!(calls.axes.sync, SyncWhen::Never | SyncWhen::Dummy);
        if calls.axes.sync == SyncWhen::Each {
            let before = self.clock.enter(Part::SyncFiles);
            calls.sync(to.as_fd(), path)?;
            self.clock.enter(before);
        } else if calls.axes.open != Open::Plain && unsynced {
            if bytes == 0 {
                let before = self.clock.enter(Part::SyncFiles);
                calls.fsync(to.as_fd(), path)?;
                self.clock.enter(before);
            }
            calls.observer.synced(super::path::path_of(path));
        }
        Ok(())
    }

    fn move_bytes(
        &mut self,
        by: CopyBy,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
    ) -> Result<u64, EngineError> {
        match by {
            CopyBy::CopyFileRange if self.copied.fell_back.is_none() => {
                self.move_chunks(from, to, Self::range_chunk)
            }
            CopyBy::ReadWrite | CopyBy::CopyFileRange | CopyBy::Aio => {
                self.move_chunks(from, to, Self::buffer_chunk)
            }
            CopyBy::Reflink => self.share(from, to),
            CopyBy::Direct => self.move_direct(from, to),
        }
    }

    /// PostgreSQL's loop: a hint that is due comes before the next read, the last after the end of the file. Servers
    /// before 9.6.6 hinted right after each write.
    fn move_chunks(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        mut chunk: impl FnMut(&mut Self, BorrowedFd<'_>, BorrowedFd<'_>) -> Result<usize, EngineError>,
    ) -> Result<u64, EngineError> {
        let pace = self.pace();
        let (mut offset, mut flushed) = (0, 0);
        loop {
            if matches!(pace, Pace::Distance(distance) if offset - flushed >= distance) {
                self.hint(to, flushed, offset - flushed)?;
                flushed = offset;
            }
            let moved = chunk(self, from, to)? as u64;
            if moved == 0 {
                break;
            }
            self.go_on_after(offset, moved)?;
            offset += moved;
            if matches!(pace, Pace::EachChunk) {
                self.hint(to, flushed, moved)?;
                flushed = offset;
            }
        }
        if matches!(pace, Pace::Distance(_)) && offset > flushed {
            self.hint(to, flushed, offset - flushed)?;
        }
        Ok(offset)
    }

    /// A large file, or one that grows as fast as it is read, is left where a multiple of 1 MiB was passed.
    pub(super) fn go_on_after(&self, offset: u64, moved: u64) -> Result<(), EngineError> {
        if offset / RANGE_BYTES == (offset + moved) / RANGE_BYTES { Ok(()) } else { self.go_on() }
    }

    fn pace(&self) -> Pace {
        let axes = self.axes();
        match axes.every {
            _ if axes.hint == Hint::None => Pace::Never,
            Every::Pass => Pace::Never,
            Every::Bytes(WRITE_BYTES) => Pace::EachChunk,
            Every::Bytes(bytes) => Pace::Distance(bytes),
            Every::File => Pace::Distance(u64::MAX),
        }
    }

    fn hint(&mut self, to: BorrowedFd<'_>, offset: u64, length: u64) -> Result<(), EngineError> {
        if self.copied.hint_unsupported.is_none() {
            let before = self.clock.enter(Part::Hint);
            self.copied.hint_unsupported = self.calls.hint(to, self.target.as_cstr(), offset, length)?;
            self.clock.enter(before);
        }
        Ok(())
    }

    fn read(&mut self, from: BorrowedFd<'_>) -> Result<usize, EngineError> {
        let read = self.calls.kernel.read(from, self.tools.buffer.bytes());
        read.map_err(|errno| fault(Call::Read, &self.source, errno))
    }

    /// After a short write the rest says why; where it does not, it is a full disk, as PostgreSQL takes it.
    fn write(&mut self, to: BorrowedFd<'_>, length: usize) -> Result<(), EngineError> {
        let bytes = &self.tools.buffer.bytes()[..length];
        let failed = |errno| fault(Call::Write, &self.target, errno);
        match self.calls.kernel.write(to, bytes).map_err(failed)? {
            written if written == length => Ok(()),
            written => {
                Err(failed(self.calls.kernel.write(to, &bytes[written..]).err().unwrap_or(Errno::ENOSPC)))
            }
        }
    }

    fn buffer_chunk(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<usize, EngineError> {
        let length = self.read(from)?;
        if length > 0 {
            self.write(to, length)?;
        }
        Ok(length)
    }

    /// Both ways go on at the files' own positions, so that the way can change at any chunk.
    fn range_chunk(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<usize, EngineError> {
        if self.copied.fell_back.is_some() {
            return self.buffer_chunk(from, to);
        }
        match uninterrupted(|| self.calls.kernel.copy_file_range(from, to, RANGE_LENGTH)) {
            Ok(length) => Ok(length),
            Err(errno) if !self.strict && RANGE_REFUSALS.contains(&errno) => {
                self.copied.fell_back = Some(errno);
                self.buffer_chunk(from, to)
            }
            Err(errno) => Err(fault(Call::CopyFileRange, &self.target, errno)),
        }
    }

    fn share(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<u64, EngineError> {
        match self.calls.kernel.clone_file(from, to) {
            Ok(()) => Ok(0),
            Err(errno) => Err(fault(Call::Ioctl, &self.target, errno)),
        }
    }

    /// The last block is filled with zeros, written whole and cut off. A file that goes on after a partial block grew
    /// while it was read: what came later is left out, for it would have no aligned place.
    fn move_direct(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<u64, EngineError> {
        let block = self.tools.means.direct_block_bytes;
        let mut offset = 0;
        loop {
            let length = self.read(from)?;
            if length == 0 {
                return Ok(offset);
            }
            let padded = length.next_multiple_of(block);
            self.tools.buffer.bytes()[length..padded].fill(0);
            self.write(to, padded)?;
            self.go_on_after(offset, length as u64)?;
            offset += length as u64;
            if padded > length {
                let cut = self.calls.kernel.ftruncate(to, offset);
                cut.map_err(|errno| fault(Call::Ftruncate, &self.target, errno))?;
                if self.read(from)? > 0 {
                    self.copied.changed.push(self.source.to_path());
                }
                return Ok(offset);
            }
        }
    }
}
