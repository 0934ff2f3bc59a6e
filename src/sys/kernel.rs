//! The calls that may stand inside a clock, behind one narrow trait: [`Real`](super::real::Real) makes them,
//! [`Tallied`](super::tallied::Tallied) counts and times them, [`Failing`](super::failing::Failing) breaks the n-th.

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{FileStat, Mode};

use super::aio::Batch;
use super::uring::Ring;

/// A system call, named as strace names it on x86-64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
pub enum Call {
    /// `mkdir`
    Mkdir,
    /// `openat`
    Openat,
    /// `close`
    Close,
    /// `getdents64`
    Getdents64,
    /// `newfstatat` with AT_SYMLINK_NOFOLLOW: what glibc makes of lstat
    Newfstatat,
    /// `read`
    Read,
    /// `write`
    Write,
    /// `pread64`
    Pread64,
    /// `pwrite64`
    Pwrite64,
    /// `copy_file_range`
    CopyFileRange,
    /// `ioctl`: FICLONE, FS_IOC_FIEMAP
    Ioctl,
    /// `sync_file_range`
    SyncFileRange,
    /// `fadvise64`
    Fadvise64,
    /// `fsync`
    Fsync,
    /// `fdatasync`
    Fdatasync,
    /// `syncfs`
    Syncfs,
    /// `ftruncate`
    Ftruncate,
    /// `fallocate`
    Fallocate,
    /// `rename`
    Rename,
    /// `unlink`
    Unlink,
    /// `rmdir`
    Rmdir,
    /// `io_uring_enter`
    IoUringEnter,
    /// `io_submit`
    IoSubmit,
    /// `io_getevents`
    IoGetevents,
}

impl Call {
    /// Every call, in the order of their numbers.
    pub const ALL: [Self; 24] = [
        Self::Mkdir,
        Self::Openat,
        Self::Close,
        Self::Getdents64,
        Self::Newfstatat,
        Self::Read,
        Self::Write,
        Self::Pread64,
        Self::Pwrite64,
        Self::CopyFileRange,
        Self::Ioctl,
        Self::SyncFileRange,
        Self::Fadvise64,
        Self::Fsync,
        Self::Fdatasync,
        Self::Syncfs,
        Self::Ftruncate,
        Self::Fallocate,
        Self::Rename,
        Self::Unlink,
        Self::Rmdir,
        Self::IoUringEnter,
        Self::IoSubmit,
        Self::IoGetevents,
    ];

    /// strace's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mkdir => "mkdir",
            Self::Openat => "openat",
            Self::Close => "close",
            Self::Getdents64 => "getdents64",
            Self::Newfstatat => "newfstatat",
            Self::Read => "read",
            Self::Write => "write",
            Self::Pread64 => "pread64",
            Self::Pwrite64 => "pwrite64",
            Self::CopyFileRange => "copy_file_range",
            Self::Ioctl => "ioctl",
            Self::SyncFileRange => "sync_file_range",
            Self::Fadvise64 => "fadvise64",
            Self::Fsync => "fsync",
            Self::Fdatasync => "fdatasync",
            Self::Syncfs => "syncfs",
            Self::Ftruncate => "ftruncate",
            Self::Fallocate => "fallocate",
            Self::Rename => "rename",
            Self::Unlink => "unlink",
            Self::Rmdir => "rmdir",
            Self::IoUringEnter => "io_uring_enter",
            Self::IoSubmit => "io_submit",
            Self::IoGetevents => "io_getevents",
        }
    }

    /// What PostgreSQL's messages say was attempted: `could not <verb> "path"`.
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Mkdir => "create directory",
            Self::Openat => "open file",
            Self::Close => "close file",
            Self::Getdents64 => "read directory",
            Self::Newfstatat => "stat file",
            Self::Read | Self::Pread64 => "read file",
            Self::Write | Self::Pwrite64 => "write to file",
            Self::CopyFileRange => "copy to file",
            Self::Ioctl => "clone file",
            Self::SyncFileRange => "flush dirty data of file",
            Self::Fadvise64 => "advise on file",
            Self::Fsync => "fsync file",
            Self::Fdatasync => "fdatasync file",
            Self::Syncfs => "synchronize file system of",
            Self::Ftruncate => "truncate file",
            Self::Fallocate => "allocate space for file",
            Self::Rename => "rename file",
            Self::Unlink => "remove file",
            Self::Rmdir => "remove directory",
            Self::IoUringEnter => "submit to the ring for",
            Self::IoSubmit | Self::IoGetevents => "write to file",
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A call that failed, on what, and why; printed as PostgreSQL prints it, the path escaped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("could not {} \"{}\": {}", .call.verb(), super::error::shown(.path), super::error::reason(*.errno))]
pub struct Fault {
    /// The call.
    pub call: Call,
    /// The file it was made on.
    pub path: PathBuf,
    /// The error number.
    pub errno: Errno,
}

impl Fault {
    /// For `map_err`: the fault of a call on a path, from its error number.
    pub fn of(call: Call, path: &Path) -> impl Fn(Errno) -> Self {
        move |errno| Self { call, path: path.to_path_buf(), errno }
    }

    /// For `map_err` after what std does: as [`Fault::of`]; EIO where std made the error up.
    pub fn of_io(call: Call, path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| Self::of(call, path)(error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))
    }
}

/// Flags of sync_file_range(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RangeFlags {
    /// SYNC_FILE_RANGE_WRITE alone: start writeback, wait for nothing.
    Write,
    /// WAIT_BEFORE, WRITE and WAIT_AFTER.
    WriteAndWait,
    /// WAIT_BEFORE alone: wait for writeback that was started.
    Wait,
}

/// The calls a clock may contain. Every method is one system call (EINTR of a call that transferred nothing is the
/// caller's to see), its error the bare error number: the caller knows the path.
pub trait Kernel: Sync {
    /// mkdir(2).
    fn mkdir(&self, path: &CStr, mode: Mode) -> Result<(), Errno>;
    /// open(2), as openat on AT_FDCWD.
    fn open(&self, path: &CStr, flags: OFlag, mode: Mode) -> Result<OwnedFd, Errno>;
    /// close(2), its result checked.
    fn close(&self, file: OwnedFd) -> Result<(), Errno>;
    /// getdents64(2): raw entries into the buffer; 0 at the end.
    fn getdents(&self, directory: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno>;
    /// lstat(2).
    fn lstat(&self, path: &CStr) -> Result<FileStat, Errno>;
    /// read(2).
    fn read(&self, file: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno>;
    /// write(2).
    fn write(&self, file: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno>;
    /// pwrite(2).
    fn pwrite(&self, file: BorrowedFd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno>;
    /// copy_file_range(2) at both implicit positions.
    fn copy_file_range(
        &self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        length: usize,
    ) -> Result<usize, Errno>;
    /// ioctl(FICLONE).
    fn clone_file(&self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Errno>;
    /// ioctl(FS_IOC_FIEMAP): where the byte at `offset` lies on the disk, in bytes; ENODATA in a hole.
    fn place(&self, file: BorrowedFd<'_>, offset: u64) -> Result<u64, Errno>;
    /// sync_file_range(2); a length of 0 means to the end of the file.
    fn sync_file_range(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        length: u64,
        flags: RangeFlags,
    ) -> Result<(), Errno>;
    /// posix_fadvise(2) with POSIX_FADV_DONTNEED.
    fn fadvise_dont_need(&self, file: BorrowedFd<'_>, offset: u64, length: u64) -> Result<(), Errno>;
    /// fsync(2).
    fn fsync(&self, file: BorrowedFd<'_>) -> Result<(), Errno>;
    /// fdatasync(2).
    fn fdatasync(&self, file: BorrowedFd<'_>) -> Result<(), Errno>;
    /// syncfs(2).
    fn syncfs(&self, file: BorrowedFd<'_>) -> Result<(), Errno>;
    /// ftruncate(2).
    fn ftruncate(&self, file: BorrowedFd<'_>, length: u64) -> Result<(), Errno>;
    /// fallocate(2) with mode 0.
    fn fallocate(&self, file: BorrowedFd<'_>, offset: u64, length: u64) -> Result<(), Errno>;
    /// rename(2).
    fn rename(&self, from: &CStr, to: &CStr) -> Result<(), Errno>;
    /// unlink(2).
    fn unlink(&self, path: &CStr) -> Result<(), Errno>;
    /// rmdir(2).
    fn rmdir(&self, path: &CStr) -> Result<(), Errno>;
    /// io_uring_enter(2): submits the syncs that were pushed and waits until one is completed.
    fn enter_ring(&self, ring: &mut Ring) -> Result<(), Errno>;
    /// io_submit(2) of the writes of a batch that are not submitted yet; how many were.
    fn submit_batch(&self, batch: &mut Batch) -> Result<usize, Errno>;
    /// io_getevents(2): waits until every submitted write of a batch is done.
    fn await_batch(&self, batch: &mut Batch) -> Result<(), Errno>;
}
