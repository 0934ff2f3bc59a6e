//! The kernel itself: each method is one system call and nothing else.
#![expect(unsafe_code, reason = "system calls that no safe wrapper makes as they must be made here")]

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{FileStat, Mode};

use super::aio::Batch;
use super::kernel::{Kernel, RangeFlags};
use super::uring::Ring;

/// The kernel we run on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Real;

/// FICLONE of linux/fs.h: _IOW(0x94, 9, int).
const FICLONE: libc::c_ulong = 0x4004_9409;

/// FS_IOC_FIEMAP of linux/fs.h: _IOWR('f', 11, struct fiemap).
const FS_IOC_FIEMAP: libc::c_ulong = 0xc020_660b;

/// `struct fiemap` of linux/fiemap.h with room for one extent.
#[derive(Default)]
#[repr(C)]
struct ExtentMap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extent: Extent,
}

/// `struct fiemap_extent`.
#[derive(Default)]
#[repr(C)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

fn length(result: isize) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno::last())
}

fn done(result: libc::c_int) -> Result<(), Errno> {
    if result == 0 { Ok(()) } else { Err(Errno::last()) }
}

/// An offset for the kernel; one beyond what it can take is EINVAL there, and here.
fn offset64(offset: u64) -> Result<libc::off_t, Errno> {
    libc::off_t::try_from(offset).map_err(|_| Errno::EINVAL)
}

// SAFETY of every block below: descriptors are borrowed or owned, so they are open; buffers are slices, so pointer and
// length belong together; paths are CStr, so they end in NUL.
impl Kernel for Real {
    fn mkdir(&self, path: &CStr, mode: Mode) -> Result<(), Errno> {
        done(unsafe { libc::mkdir(path.as_ptr(), mode.bits()) })
    }

    fn open(&self, path: &CStr, flags: OFlag, mode: Mode) -> Result<OwnedFd, Errno> {
        let file = unsafe { libc::open(path.as_ptr(), flags.bits(), mode.bits()) };
        if file < 0 { Err(Errno::last()) } else { Ok(unsafe { OwnedFd::from_raw_fd(file) }) }
    }

    fn close(&self, file: OwnedFd) -> Result<(), Errno> {
        done(unsafe { libc::close(file.into_raw_fd()) })
    }

    fn getdents(&self, directory: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
        let result = unsafe {
            libc::syscall(libc::SYS_getdents64, directory.as_raw_fd(), buffer.as_mut_ptr(), buffer.len())
        };
        usize::try_from(result).map_err(|_| Errno::last())
    }

    fn lstat(&self, path: &CStr) -> Result<FileStat, Errno> {
        nix::sys::stat::lstat(path)
    }

    fn read(&self, file: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
        length(unsafe { libc::read(file.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) })
    }

    fn write(&self, file: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        length(unsafe { libc::write(file.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) })
    }

    fn pwrite(&self, file: BorrowedFd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        let offset = offset64(offset)?;
        length(unsafe { libc::pwrite(file.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), offset) })
    }

    fn copy_file_range(
        &self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        length_bytes: usize,
    ) -> Result<usize, Errno> {
        let null = std::ptr::null_mut();
        length(unsafe {
            libc::copy_file_range(from.as_raw_fd(), null, to.as_raw_fd(), null, length_bytes, 0)
        })
    }

    fn clone_file(&self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Errno> {
        done(unsafe { libc::ioctl(to.as_raw_fd(), FICLONE, from.as_raw_fd()) })
    }

    fn place(&self, file: BorrowedFd<'_>, offset: u64) -> Result<u64, Errno> {
        let mut map = ExtentMap { start: offset, length: 1, extent_count: 1, ..ExtentMap::default() };
        done(unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut map) })?;
        if map.mapped_extents == 0 {
            return Err(Errno::ENODATA);
        }
        Ok(map.extent.physical.wrapping_add(offset).wrapping_sub(map.extent.logical))
    }

    fn sync_file_range(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        length: u64,
        flags: RangeFlags,
    ) -> Result<(), Errno> {
        let flags = match flags {
            RangeFlags::Write => libc::SYNC_FILE_RANGE_WRITE,
            RangeFlags::Wait => libc::SYNC_FILE_RANGE_WAIT_BEFORE,
            RangeFlags::WriteAndWait => {
                libc::SYNC_FILE_RANGE_WAIT_BEFORE
                    | libc::SYNC_FILE_RANGE_WRITE
                    | libc::SYNC_FILE_RANGE_WAIT_AFTER
            }
        };
        let (offset, length) = (offset64(offset)?, offset64(length)?);
        done(unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, flags) })
    }

    fn fadvise_dont_need(&self, file: BorrowedFd<'_>, offset: u64, length: u64) -> Result<(), Errno> {
        let (offset, length) = (offset64(offset)?, offset64(length)?);
        // posix_fadvise returns the error number and leaves errno alone.
        match unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, length, libc::POSIX_FADV_DONTNEED) } {
            0 => Ok(()),
            error => Err(Errno::from_raw(error)),
        }
    }

    fn fsync(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        done(unsafe { libc::fsync(file.as_raw_fd()) })
    }

    fn fdatasync(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        done(unsafe { libc::fdatasync(file.as_raw_fd()) })
    }

    fn syncfs(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        done(unsafe { libc::syncfs(file.as_raw_fd()) })
    }

    fn ftruncate(&self, file: BorrowedFd<'_>, length: u64) -> Result<(), Errno> {
        done(unsafe { libc::ftruncate(file.as_raw_fd(), offset64(length)?) })
    }

    fn fallocate(&self, file: BorrowedFd<'_>, offset: u64, length: u64) -> Result<(), Errno> {
        let (offset, length) = (offset64(offset)?, offset64(length)?);
        done(unsafe { libc::fallocate(file.as_raw_fd(), 0, offset, length) })
    }

    fn rename(&self, from: &CStr, to: &CStr) -> Result<(), Errno> {
        done(unsafe { libc::rename(from.as_ptr(), to.as_ptr()) })
    }

    fn unlink(&self, path: &CStr) -> Result<(), Errno> {
        done(unsafe { libc::unlink(path.as_ptr()) })
    }

    fn rmdir(&self, path: &CStr) -> Result<(), Errno> {
        done(unsafe { libc::rmdir(path.as_ptr()) })
    }

    fn enter_ring(&self, ring: &mut Ring) -> Result<(), Errno> {
        ring.enter()
    }

    fn submit_batch(&self, batch: &mut Batch) -> Result<usize, Errno> {
        batch.submit()
    }

    fn await_batch(&self, batch: &mut Batch) -> Result<(), Errno> {
        batch.wait()
    }
}
