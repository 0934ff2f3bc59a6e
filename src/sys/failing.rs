//! A kernel that breaks planned calls, for tests and for the proof that a checker finds what it must find.
//!
//! The fault model: calls of one kind are counted from 1, across threads, as they are made; a planned fault strikes one
//! of them, or every one from the n-th on. It either fails the call without making it, or lets it seem to succeed with
//! one byte changed, or lets it move fewer bytes than asked for. What no fault strikes reaches the kernel as it is.

use std::ffi::CStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{FileStat, Mode};
use nix::sys::uio;
use nix::unistd::{Whence, lseek};

use super::aio::Batch;
use super::kernel::{Call, Kernel, RangeFlags};
use super::uring::Ring;

/// What happens to a call that is struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It fails with this error and is not made.
    Errno(Errno),
    /// It succeeds, but the last byte moved is another one. Strikes read, write, pwrite and copy_file_range only.
    FlipByte,
    /// It moves half of what was asked for, at least one byte. Strikes read, write, pwrite and copy_file_range only.
    Short,
}

/// A fault to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The kind of call.
    pub call: Call,
    /// The first call struck, counted from 1.
    pub first: u64,
    /// The last call struck.
    pub last: u64,
    /// What happens to it.
    pub effect: Effect,
}

impl Planned {
    /// Strikes the n-th call of a kind, counted from 1.
    pub const fn nth(call: Call, n: u64, effect: Effect) -> Self {
        Self { call, first: n, last: n, effect }
    }

    /// Strikes the n-th call of a kind and every later one, as a device does that is full or gone.
    pub const fn from_nth(call: Call, n: u64, effect: Effect) -> Self {
        Self { call, first: n, last: u64::MAX, effect }
    }

    fn strikes(&self, call: Call, n: u64) -> bool {
        let moves = matches!(call, Call::Read | Call::Write | Call::Pwrite64 | Call::CopyFileRange);
        self.call == call
            && (self.first..=self.last).contains(&n)
            && (moves || matches!(self.effect, Effect::Errno(_)))
    }
}

/// A kernel with faults to come, and the record of those that came.
#[derive(Debug)]
pub struct Failing<K> {
    inner: K,
    plan: Vec<(Planned, AtomicU64)>,
    made: [AtomicU64; Call::ALL.len()],
}

impl<K: Kernel> Failing<K> {
    /// Where several faults strike one call, the first in the plan does.
    pub fn new(inner: K, plan: impl IntoIterator<Item = Planned>) -> Self {
        let plan = plan.into_iter().map(|fault| (fault, AtomicU64::new(0))).collect();
        Self { inner, plan, made: Default::default() }
    }

    /// Every planned fault and how often it struck.
    pub fn strikes(&self) -> impl Iterator<Item = (Planned, u64)> {
        self.plan.iter().map(|(fault, struck)| (*fault, struck.load(Ordering::Relaxed)))
    }

    /// The planned faults that never struck: a test that has any tested nothing.
    pub fn never_struck(&self) -> Vec<Planned> {
        self.strikes().filter(|(_, struck)| *struck == 0).map(|(fault, _)| fault).collect()
    }

    fn strike(&self, call: Call) -> Option<Effect> {
        let n = self.made[call as usize].fetch_add(1, Ordering::Relaxed) + 1;
        let (fault, struck) = self.plan.iter().find(|(fault, _)| fault.strikes(call, n))?;
        struck.fetch_add(1, Ordering::Relaxed);
        Some(fault.effect)
    }

    fn unless_struck<R>(&self, call: Call, make: impl FnOnce(&K) -> Result<R, Errno>) -> Result<R, Errno> {
        match self.strike(call) {
            Some(Effect::Errno(errno)) => Err(errno),
            _ => make(&self.inner),
        }
    }

    fn write_struck(
        &self,
        call: Call,
        bytes: &[u8],
        write: impl FnOnce(&[u8]) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        match self.strike(call) {
            None => write(bytes),
            Some(Effect::Errno(errno)) => Err(errno),
            Some(Effect::Short) => write(&bytes[..half(bytes.len())]),
            Some(Effect::FlipByte) => write(Flipped::of(bytes).bytes()),
        }
    }
}

fn half(length: usize) -> usize {
    length.div_ceil(2)
}

fn flip_last(bytes: &mut [u8]) {
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
}

/// A copy with its last byte changed, aligned as O_DIRECT wants it.
struct Flipped {
    room: Vec<u8>,
    start: usize,
    length: usize,
}

impl Flipped {
    const ALIGNMENT: usize = 4096;

    fn of(bytes: &[u8]) -> Self {
        let mut room = vec![0; bytes.len() + Self::ALIGNMENT];
        let start = room.as_ptr().align_offset(Self::ALIGNMENT);
        let copy = &mut room[start..start + bytes.len()];
        copy.copy_from_slice(bytes);
        flip_last(copy);
        Self { room, start, length: bytes.len() }
    }

    fn bytes(&self) -> &[u8] {
        &self.room[self.start..self.start + self.length]
    }
}

/// Changes the last byte that copy_file_range brought to `to`, whose position stands behind it.
fn flip_copied(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut byte = [0];
    uio::pread(from, &mut byte, lseek(from, 0, Whence::SeekCur)? - 1)?;
    flip_last(&mut byte);
    uio::pwrite(to, &byte, lseek(to, 0, Whence::SeekCur)? - 1).map(|_| ())
}

impl<K: Kernel> Kernel for Failing<K> {
    fn mkdir(&self, path: &CStr, mode: Mode) -> Result<(), Errno> {
        self.unless_struck(Call::Mkdir, |kernel| kernel.mkdir(path, mode))
    }

    fn open(&self, path: &CStr, flags: OFlag, mode: Mode) -> Result<OwnedFd, Errno> {
        self.unless_struck(Call::Openat, |kernel| kernel.open(path, flags, mode))
    }

    fn close(&self, file: OwnedFd) -> Result<(), Errno> {
        // A close that fails has closed all the same.
        let struck = self.strike(Call::Close);
        let closed = self.inner.close(file);
        if let Some(Effect::Errno(errno)) = struck { Err(errno) } else { closed }
    }

    fn getdents(&self, directory: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
        self.unless_struck(Call::Getdents64, |kernel| kernel.getdents(directory, buffer))
    }

    fn lstat(&self, path: &CStr) -> Result<FileStat, Errno> {
        self.unless_struck(Call::Newfstatat, |kernel| kernel.lstat(path))
    }

    fn read(&self, file: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
        match self.strike(Call::Read) {
            None => self.inner.read(file, buffer),
            Some(Effect::Errno(errno)) => Err(errno),
            Some(Effect::Short) => {
                let length = half(buffer.len());
                self.inner.read(file, &mut buffer[..length])
            }
            Some(Effect::FlipByte) => {
                let length = self.inner.read(file, buffer)?;
                flip_last(&mut buffer[..length]);
                Ok(length)
            }
        }
    }

    fn write(&self, file: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        self.write_struck(Call::Write, bytes, |bytes| self.inner.write(file, bytes))
    }

    fn pwrite(&self, file: BorrowedFd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        self.write_struck(Call::Pwrite64, bytes, |bytes| self.inner.pwrite(file, bytes, offset))
    }

    fn copy_file_range(
        &self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        length: usize,
    ) -> Result<usize, Errno> {
        match self.strike(Call::CopyFileRange) {
            None => self.inner.copy_file_range(from, to, length),
            Some(Effect::Errno(errno)) => Err(errno),
            Some(Effect::Short) => self.inner.copy_file_range(from, to, half(length)),
            Some(Effect::FlipByte) => {
                let copied = self.inner.copy_file_range(from, to, length)?;
                if copied > 0 {
                    flip_copied(from, to)?;
                }
                Ok(copied)
            }
        }
    }

    fn clone_file(&self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Errno> {
        self.unless_struck(Call::Ioctl, |kernel| kernel.clone_file(from, to))
    }

    fn place(&self, file: BorrowedFd<'_>, offset: u64) -> Result<u64, Errno> {
        self.unless_struck(Call::Ioctl, |kernel| kernel.place(file, offset))
    }

    fn sync_file_range(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        length: u64,
        flags: RangeFlags,
    ) -> Result<(), Errno> {
        self.unless_struck(Call::SyncFileRange, |kernel| kernel.sync_file_range(file, offset, length, flags))
    }

    fn fadvise_dont_need(&self, file: BorrowedFd<'_>, offset: u64, length: u64) -> Result<(), Errno> {
        self.unless_struck(Call::Fadvise64, |kernel| kernel.fadvise_dont_need(file, offset, length))
    }

    fn fsync(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        self.unless_struck(Call::Fsync, |kernel| kernel.fsync(file))
    }

    fn fdatasync(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        self.unless_struck(Call::Fdatasync, |kernel| kernel.fdatasync(file))
    }

    fn syncfs(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        self.unless_struck(Call::Syncfs, |kernel| kernel.syncfs(file))
    }

    fn ftruncate(&self, file: BorrowedFd<'_>, length: u64) -> Result<(), Errno> {
        self.unless_struck(Call::Ftruncate, |kernel| kernel.ftruncate(file, length))
    }

    fn fallocate(&self, file: BorrowedFd<'_>, offset: u64, length: u64) -> Result<(), Errno> {
        self.unless_struck(Call::Fallocate, |kernel| kernel.fallocate(file, offset, length))
    }

    fn rename(&self, from: &CStr, to: &CStr) -> Result<(), Errno> {
        self.unless_struck(Call::Rename, |kernel| kernel.rename(from, to))
    }

    fn unlink(&self, path: &CStr) -> Result<(), Errno> {
        self.unless_struck(Call::Unlink, |kernel| kernel.unlink(path))
    }

    fn rmdir(&self, path: &CStr) -> Result<(), Errno> {
        self.unless_struck(Call::Rmdir, |kernel| kernel.rmdir(path))
    }

    fn enter_ring(&self, ring: &mut Ring) -> Result<(), Errno> {
        self.unless_struck(Call::IoUringEnter, |kernel| kernel.enter_ring(ring))
    }

    fn submit_batch(&self, batch: &mut Batch) -> Result<usize, Errno> {
        self.unless_struck(Call::IoSubmit, |kernel| kernel.submit_batch(batch))
    }

    fn await_batch(&self, batch: &mut Batch) -> Result<(), Errno> {
        self.unless_struck(Call::IoGetevents, |kernel| kernel.await_batch(batch))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;

    use super::*;
    use crate::sys::real::Real;

    #[test]
    fn only_the_nth_call_of_the_kind_fails_and_the_record_says_so() {
        let planned = Planned::nth(Call::Newfstatat, 2, Effect::Errno(Errno::EIO));
        let missed = Planned::nth(Call::Unlink, 1, Effect::Errno(Errno::EROFS));
        let kernel = Failing::new(Real, [planned, missed]);
        let results: Vec<_> = (0..3).map(|_| kernel.lstat(c"/").map(|_| ())).collect();
        assert_eq!(results, [Ok(()), Err(Errno::EIO), Ok(())]);
        assert_eq!(kernel.strikes().collect::<Vec<_>>(), [(planned, 1), (missed, 0)]);
        assert_eq!(kernel.never_struck(), [missed]);
    }

    #[test]
    fn a_lasting_fault_strikes_every_later_call() {
        let lasting = Planned::from_nth(Call::Mkdir, 1, Effect::Errno(Errno::ENOSPC));
        let kernel = Failing::new(Real, [lasting]);
        for _ in 0..3 {
            assert_eq!(kernel.mkdir(c"/no/such/parent", Mode::S_IRWXU), Err(Errno::ENOSPC));
        }
        assert_eq!(kernel.strikes().collect::<Vec<_>>(), [(lasting, 3)]);
    }

    #[test]
    fn an_effect_that_a_call_cannot_have_never_strikes() {
        let odd = Planned::nth(Call::Newfstatat, 1, Effect::FlipByte);
        let kernel = Failing::new(Real, [odd]);
        assert!(kernel.lstat(c"/").is_ok());
        assert_eq!(kernel.never_struck(), [odd]);
    }

    #[test]
    fn moved_bytes_are_changed_or_fewer_whichever_call_moves_them() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("source");
        fs::write(&path, b"abcdef").expect("source");
        let source = || fs::File::open(&path).expect("source");
        let target = || fs::File::create(directory.path().join("target")).expect("target");
        let content = || fs::read(directory.path().join("target")).expect("target");
        let struck = |call, effect| Failing::new(Real, [Planned::nth(call, 1, effect)]);

        for (effect, expected) in [(Effect::FlipByte, &b"abcdeg"[..]), (Effect::Short, b"abc")] {
            let mut buffer = [0; 6];
            let length = struck(Call::Read, effect).read(source().as_fd(), &mut buffer).expect("read");
            assert_eq!(&buffer[..length], expected);

            let length = struck(Call::Write, effect).write(target().as_fd(), b"abcdef").expect("write");
            assert_eq!((length, content().as_slice()), (expected.len(), expected));

            let kernel = struck(Call::Pwrite64, effect);
            assert_eq!(kernel.pwrite(target().as_fd(), b"abcdef", 0), Ok(expected.len()));
            assert_eq!(content(), expected);

            let kernel = struck(Call::CopyFileRange, effect);
            assert_eq!(kernel.copy_file_range(source().as_fd(), target().as_fd(), 6), Ok(expected.len()));
            assert_eq!(content(), expected);
        }
    }
}
