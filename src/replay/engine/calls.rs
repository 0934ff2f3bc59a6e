//! The kernel's calls with their paths, so that every error is a [`Fault`]; shared by threads.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{FileStat, Mode};

use super::Observer;
use super::path::path_of;
use crate::replay::policy::{Axes, Hint, SyncCall};
use crate::sys::kernel::{Call, Fault, Kernel, RangeFlags};

/// Modes as servers up to 10 set them, and later ones without group access.
pub(super) const FILE_MODE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);
pub(super) const DIRECTORY_MODE: Mode = Mode::S_IRWXU;
/// glibc's opendir.
const OPENDIR: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_NONBLOCK).union(OFlag::O_CLOEXEC).union(OFlag::O_DIRECTORY);
/// A file system that cannot sync directories says so with one of these; PostgreSQL goes on after the first two.
const DIRECTORY_REFUSALS: [Errno; 4] = [Errno::EBADF, Errno::EINVAL, Errno::ENOTSUP, Errno::ENOSYS];
/// A hint that nothing here understands, or that seccomp forbids.
const HINT_REFUSALS: [Errno; 5] = [Errno::ENOSYS, Errno::ESPIPE, Errno::EPERM, Errno::EINVAL, Errno::ENOTSUP];

pub(super) struct Calls<'a, K, O> {
    pub(super) kernel: &'a K,
    pub(super) axes: &'a Axes,
    pub(super) observer: &'a O,
}

impl<K, O> Clone for Calls<'_, K, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, O> Copy for Calls<'_, K, O> {}

/// EINTR of a call that transferred nothing says nothing; PostgreSQL repeats these calls too.
pub(super) fn uninterrupted<R>(mut call: impl FnMut() -> Result<R, Errno>) -> Result<R, Errno> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            result => return result,
        }
    }
}

fn fault(call: Call, path: &CStr) -> impl Fn(Errno) -> Fault {
    Fault::of(call, path_of(path))
}

impl<K: Kernel, O: Observer> Calls<'_, K, O> {
    pub(super) fn mkdir(&self, path: &CStr) -> Result<(), Fault> {
        self.kernel.mkdir(path, DIRECTORY_MODE).map_err(fault(Call::Mkdir, path))
    }

    pub(super) fn open(&self, path: &CStr, flags: OFlag) -> Result<OwnedFd, Fault> {
        self.kernel.open(path, flags, FILE_MODE).map_err(fault(Call::Openat, path))
    }

    pub(super) fn open_directory(&self, path: &CStr) -> Result<OwnedFd, Fault> {
        self.open(path, OPENDIR)
    }

    pub(super) fn close(&self, file: OwnedFd, path: &CStr) -> Result<(), Fault> {
        self.kernel.close(file).map_err(fault(Call::Close, path))
    }

    pub(super) fn lstat(&self, path: &CStr) -> Result<FileStat, Fault> {
        self.kernel.lstat(path).map_err(fault(Call::Newfstatat, path))
    }

    /// Syncs a file by the policy's call; never a second time after an error.
    pub(super) fn sync(&self, file: BorrowedFd<'_>, path: &CStr) -> Result<(), Fault> {
        self.sync_unseen(file, path)?;
        self.observer.synced(path_of(path));
        Ok(())
    }

    /// As [`Calls::sync`], of a file that is none of the copy's.
    pub(super) fn sync_unseen(&self, file: BorrowedFd<'_>, path: &CStr) -> Result<(), Fault> {
        match self.axes.call {
            SyncCall::Fsync => self.fsync(file, path),
            SyncCall::Fdatasync => {
                uninterrupted(|| self.kernel.fdatasync(file)).map_err(fault(Call::Fdatasync, path))
            }
        }
    }

    pub(super) fn fsync(&self, file: BorrowedFd<'_>, path: &CStr) -> Result<(), Fault> {
        uninterrupted(|| self.kernel.fsync(file)).map_err(fault(Call::Fsync, path))
    }

    pub(super) fn syncfs(&self, file: BorrowedFd<'_>, path: &CStr) -> Result<(), Fault> {
        uninterrupted(|| self.kernel.syncfs(file)).map_err(fault(Call::Syncfs, path))
    }

    /// Reopens a file by name as servers do, O_RDWR for systems that sync nothing else, syncs and closes it.
    pub(super) fn sync_by_name(&self, path: &CStr) -> Result<(), Fault> {
        let file = self.open(path, OFlag::O_RDWR)?;
        self.sync(file.as_fd(), path)?;
        self.close(file, path)
    }

    /// The error of a file system that refuses to sync directories, which is no fault.
    pub(super) fn sync_directory(&self, path: &CStr) -> Result<Option<Errno>, Fault> {
        let file = self.open(path, OFlag::O_RDONLY)?;
        let refused = match uninterrupted(|| self.kernel.fsync(file.as_fd())) {
            Ok(()) => {
                self.observer.directory_synced(path_of(path));
                None
            }
            Err(errno) if DIRECTORY_REFUSALS.contains(&errno) => Some(errno),
            Err(errno) => return Err(fault(Call::Fsync, path)(errno)),
        };
        self.close(file, path)?;
        Ok(refused)
    }

    /// Gives the policy's hint; a length of 0 means the whole file. The error of a place without such hints is no fault,
    /// while any other is that of a failed write.
    pub(super) fn hint(
        &self,
        file: BorrowedFd<'_>,
        path: &CStr,
        offset: u64,
        length: u64,
    ) -> Result<Option<Errno>, Fault> {
        let (call, result) = match self.axes.hint {
            Hint::None => return Ok(None),
            Hint::Fadvise => {
                (Call::Fadvise64, uninterrupted(|| self.kernel.fadvise_dont_need(file, offset, length)))
            }
            Hint::SyncFileRange => self.range(file, offset, length, RangeFlags::Write),
            Hint::WriteAndWait => self.range(file, offset, length, RangeFlags::WriteAndWait),
        };
        unsupported(call, path, result)
    }

    /// Waits for the writeback that was started.
    pub(super) fn settle(&self, file: BorrowedFd<'_>, path: &CStr) -> Result<Option<Errno>, Fault> {
        let (call, result) = self.range(file, 0, 0, RangeFlags::Wait);
        unsupported(call, path, result)
    }

    fn range(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        length: u64,
        flags: RangeFlags,
    ) -> (Call, Result<(), Errno>) {
        let made = uninterrupted(|| self.kernel.sync_file_range(file, offset, length, flags));
        (Call::SyncFileRange, made)
    }
}

fn unsupported(call: Call, path: &CStr, result: Result<(), Errno>) -> Result<Option<Errno>, Fault> {
    match result {
        Ok(()) => Ok(None),
        Err(errno) if HINT_REFUSALS.contains(&errno) => Ok(Some(errno)),
        Err(errno) => Err(fault(call, path)(errno)),
    }
}
