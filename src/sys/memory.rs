//! Memory that is there before it is needed, and the settings with which a process that serves a device waits neither for
//! memory nor for others.
#![expect(unsafe_code, reason = "mmap, mlock and prctl have no safe wrapper among the features in use")]

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use nix::errno::Errno;

/// linux/prctl.h; not in the libc crate.
const PR_SET_IO_FLUSHER: libc::c_int = 57;

/// Anonymous memory, page-aligned (so fit for `O_DIRECT`), zeroed, locked.
#[derive(Debug)]
pub struct LockedBuffer {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the buffer owns its mapping alone; moving the owner to another thread moves all access with it.
unsafe impl Send for LockedBuffer {}

// SAFETY: through a shared reference the bytes are only read.
unsafe impl Sync for LockedBuffer {}

impl LockedBuffer {
    /// A buffer of `length_bytes`, which must not be 0. Fails with ENOMEM, or EPERM without CAP_IPC_LOCK.
    pub fn new(length_bytes: usize) -> Result<LockedBuffer, Errno> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length_bytes, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let start = NonNull::new(start.cast()).ok_or(Errno::ENOMEM)?;
        let buffer = LockedBuffer { start, length: length_bytes };
        // SAFETY: the range is exactly the mapping made above.
        Errno::result(unsafe { libc::mlock(start.as_ptr().cast(), length_bytes) })?;
        Ok(buffer)
    }
}

impl Deref for LockedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is readable, zero-filled and lives as long as self.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for LockedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` is the only access.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for LockedBuffer {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and no borrow of it outlives self. munmap of a whole mapping cannot fail.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// Brings every page of this process into memory (code and stacks included), now and with every later mapping, and keeps
/// it there: nothing it does from then on makes it wait for memory.
pub fn lock_all() -> Result<(), Errno> {
    // SAFETY: takes flags only.
    Errno::result(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) }).map(drop)
}

/// Tells the kernel that this thread, and those it starts, serve writeback (PR_SET_IO_FLUSHER): when it needs memory it
/// then never waits for the very requests it is to serve. Whether that was permitted: not without CAP_SYS_RESOURCE, not
/// before Linux 5.6.
pub fn become_io_flusher() -> bool {
    // SAFETY: takes numbers only; the unused ones must be 0.
    unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) == 0 }
}

/// Lets the timed waits of this thread end when they are over, not up to 50 us later (PR_SET_TIMERSLACK).
pub fn wake_on_time() {
    // SAFETY: takes numbers only; with these it cannot fail.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
}

/// Lets this process and the threads it starts run before others where both could (nice -20), as a device would. Whether
/// that was permitted: not without CAP_SYS_NICE.
pub fn run_before_others() -> bool {
    // SAFETY: takes numbers only.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_buffer_is_aligned_for_direct_io_and_starts_as_zeroes() {
        let mut buffer = LockedBuffer::new(3 * 4096).expect("12 kB can be locked");
        assert_eq!(buffer.as_ptr().align_offset(4096), 0);
        assert!(buffer.iter().all(|byte| *byte == 0));
        buffer[4096] = 7;
        assert_eq!(buffer[4096], 7);
    }
}
