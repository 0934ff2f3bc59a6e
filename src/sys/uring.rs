//! Syncs through an io_uring: submitted without waiting, awaited together.
#![expect(unsafe_code, reason = "the ring takes entries that it cannot check")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, opcode, types};
use nix::errno::Errno;

/// A ring of syncs. What enters the kernel goes through [`Kernel::enter_ring`](super::kernel::Kernel::enter_ring), so
/// that it is counted.
pub struct Ring {
    ring: IoUring,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

impl Ring {
    /// Room for so many syncs in flight. ENOSYS, EPERM: the kernel has no io_uring, or it is switched off.
    pub fn new(in_flight: u32) -> Result<Self, Errno> {
        IoUring::new(in_flight).map(|ring| Self { ring }).map_err(|error| errno(&error))
    }

    /// Adds a sync to what the next entering submits: fdatasync where only data count. False where the ring is full. The
    /// file must stay open until the sync is completed, else another file could be synced under its number.
    pub fn push(&mut self, file: BorrowedFd<'_>, data_only: bool, token: u64) -> bool {
        let flags = if data_only { types::FsyncFlags::DATASYNC } else { types::FsyncFlags::empty() };
        let sync = opcode::Fsync::new(types::Fd(file.as_raw_fd())).flags(flags).build().user_data(token);
        // SAFETY: a sync points to no memory.
        unsafe { self.ring.submission().push(&sync) }.is_ok()
    }

    /// Submits what was pushed and waits until one sync is completed: one io_uring_enter.
    pub(super) fn enter(&mut self) -> Result<(), Errno> {
        self.ring.submit_and_wait(1).map(|_| ()).map_err(|error| errno(&error))
    }

    /// A completed sync: its token, and how it went.
    pub fn completed(&mut self) -> Option<(u64, Result<(), Errno>)> {
        let entry = self.ring.completion().next()?;
        let result = if entry.result() < 0 { Err(Errno::from_raw(-entry.result())) } else { Ok(()) };
        Some((entry.user_data(), result))
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn every_sync_is_completed_once_under_its_token_and_with_its_own_result() {
        let mut ring = Ring::new(4).expect("io_uring");
        let file = tempfile::tempfile().expect("file");
        let (pipe, _other_end) = nix::unistd::pipe().expect("pipe");
        assert!(ring.push(file.as_fd(), false, 1) && ring.push(file.as_fd(), true, 2));
        assert!(ring.push(pipe.as_fd(), false, 3));
        let mut results = Vec::new();
        while results.len() < 3 {
            ring.enter().expect("enter");
            results.extend(std::iter::from_fn(|| ring.completed()));
        }
        results.sort_by_key(|(token, _)| *token);
        assert_eq!(results, [(1, Ok(())), (2, Ok(())), (3, Err(Errno::EINVAL))]);
    }
}
