//! What O_DIRECT asks of buffers and offsets, by statx.
#![expect(unsafe_code, reason = "nix has no statx")]

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;

/// Alignments in bytes that direct I/O on a file asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectAlignment {
    /// Of memory.
    pub memory_bytes: usize,
    /// Of offsets and lengths.
    pub offset_bytes: usize,
}

/// Absent where the kernel (before 6.1) or the file system does not say; zeros where the file takes no direct I/O.
pub fn direct_alignment(file: BorrowedFd<'_>) -> Result<Option<DirectAlignment>, Errno> {
    let mut facts = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the path is an empty C string, the buffer a statx of ours.
    let result = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            facts.as_mut_ptr(),
        )
    };
    Errno::result(result)?;
    // SAFETY: zeroed, then filled in by the kernel; every bit pattern is a statx.
    let facts = unsafe { facts.assume_init() };
    Ok((facts.stx_mask & libc::STATX_DIOALIGN != 0).then_some(DirectAlignment {
        memory_bytes: facts.stx_dio_mem_align as usize,
        offset_bytes: facts.stx_dio_offset_align as usize,
    }))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn an_alignment_is_a_power_of_two_where_there_is_one() {
        let file = tempfile::tempfile().expect("file");
        if let Some(alignment) = direct_alignment(file.as_fd()).expect("statx") {
            assert!(alignment.offset_bytes == 0 || alignment.offset_bytes.is_power_of_two());
        }
    }
}
