//! Writes to many files in one call, by Linux AIO. What one io_submit(2) hands over is sent to the drive together, so that
//! writes to neighbouring places become one request, which io_uring makes of them only where no write has to wait.
#![expect(unsafe_code, reason = "no safe wrapper among the libraries in use makes these calls")]

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::null_mut;

use nix::errno::Errno;

/// Bytes that one batch holds.
pub const BATCH_BYTES: usize = 16 << 20;
/// Writes that one batch holds.
const MOST_WRITES: usize = 1024;
/// On huge pages what lies in a row in memory does so for the drive too: a request has a limited number of pieces.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// `IOCB_CMD_PWRITE` of linux/aio_abi.h.
const PWRITE: u16 = 1;

/// `struct iocb` of linux/aio_abi.h, lowest byte first.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Control {
    data: u64,
    key: u32,
    rw_flags: i32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    length: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

/// `struct io_event` of linux/aio_abi.h.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Event {
    data: u64,
    control: u64,
    result: i64,
    result2: i64,
}

/// A write: the next bytes of the room on their way to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Where in the file.
    pub offset: u64,
    /// How many bytes.
    pub length: usize,
    /// Names the file where it fails.
    pub token: usize,
    /// Where on the disk: the order in which writes are handed over.
    pub place: u64,
}

/// Bytes of many files on their way to them. Filled, then submitted and awaited by way of
/// [`Kernel`](super::kernel::Kernel), so that the calls are counted.
#[derive(Debug)]
pub struct Batch {
    context: libc::c_ulong,
    /// Never reallocated: the kernel reads from it.
    room: Vec<u8>,
    start: usize,
    used: usize,
    /// As the kernel takes them, with what they were pushed as.
    writes: Vec<(Control, Write)>,
    submitted: usize,
    done: usize,
    failed: Option<(usize, Errno)>,
}

impl Batch {
    /// An empty batch. ENOSYS: the kernel has no AIO; EAGAIN: others use all of it.
    pub fn new() -> Result<Self, Errno> {
        let mut room = vec![0; BATCH_BYTES + HUGE_PAGE_BYTES];
        let start = room.as_ptr().align_offset(HUGE_PAGE_BYTES);
        let memory = room[start..start + BATCH_BYTES].as_mut_ptr();
        // SAFETY: the range is memory of ours; advice changes no content. Where there are no huge pages, none are used.
        unsafe { libc::madvise(memory.cast(), BATCH_BYTES, libc::MADV_HUGEPAGE) };
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes one number to where `context` is.
        Errno::result(unsafe { libc::syscall(libc::SYS_io_setup, MOST_WRITES, &raw mut context) })?;
        let writes = Vec::with_capacity(MOST_WRITES);
        Ok(Self { context, room, start, used: 0, writes, submitted: 0, done: 0, failed: None })
    }

    /// Where the next bytes belong; empty when the batch is full. Aligned for direct I/O as long as only multiples of a
    /// block are pushed.
    pub fn room(&mut self) -> &mut [u8] {
        let used = if self.writes.len() < MOST_WRITES { self.used } else { BATCH_BYTES };
        &mut self.room[self.start + used..self.start + BATCH_BYTES]
    }

    /// Adds the first bytes of the room as a write; what goes on where the last one ends is one with it. The file must stay
    /// open until the batch is awaited.
    pub fn push(&mut self, file: BorrowedFd<'_>, write: Write) {
        let buffer = self.room.as_ptr().wrapping_add(self.start + self.used) as u64;
        self.used += write.length;
        let length = write.length as u64;
        let goes_on = |(control, last): &&mut (Control, Write)| {
            last.token == write.token && last.offset + control.length == write.offset
        };
        match self.writes.last_mut().filter(goes_on) {
            Some((control, _)) => control.length += length,
            None => {
                let (file, offset) = (file.as_raw_fd().cast_unsigned(), write.offset.cast_signed());
                let control = Control { opcode: PWRITE, file, buffer, length, offset, ..Control::default() };
                self.writes.push((control, write));
            }
        }
    }

    /// Writes that are not submitted yet.
    pub fn waiting(&self) -> usize {
        self.writes.len() - self.submitted
    }

    /// Writes that are submitted and not awaited yet.
    pub fn under_way(&self) -> usize {
        self.submitted - self.done
    }

    /// How the writes went, the first that failed by its token; the batch is empty again. ENOSPC where less was written
    /// than asked for.
    pub fn outcome(&mut self) -> Result<(), (usize, Errno)> {
        self.writes.clear();
        (self.used, self.submitted, self.done) = (0, 0, 0);
        self.failed.take().map_or(Ok(()), Err)
    }

    pub(super) fn submit(&mut self) -> Result<usize, Errno> {
        if self.submitted == 0 {
            self.writes.sort_by_key(|(_, write)| write.place);
            (0..).zip(&mut self.writes).for_each(|(at, (control, _))| control.data = at);
        }
        let waiting = self.writes[self.submitted..].iter_mut();
        let mut controls: Vec<*mut Control> = waiting.map(|(control, _)| &raw mut *control).collect();
        // SAFETY: the controls lie in `writes`, which is not touched before they are awaited, and point into `room`, which
        // lives until io_destroy(2) has awaited them.
        let result = unsafe {
            libc::syscall(libc::SYS_io_submit, self.context, controls.len(), controls.as_mut_ptr())
        };
        let submitted = usize::try_from(result).map_err(|_| Errno::last())?;
        self.submitted += submitted;
        Ok(submitted)
    }

    pub(super) fn wait(&mut self) -> Result<(), Errno> {
        let mut events = vec![Event::default(); self.under_way()];
        let (count, no_limit) = (events.len(), null_mut::<libc::timespec>());
        // SAFETY: the kernel writes at most `count` events to where there is room for as many.
        let result = unsafe {
            libc::syscall(libc::SYS_io_getevents, self.context, count, count, events.as_mut_ptr(), no_limit)
        };
        let done = usize::try_from(result).map_err(|_| Errno::last())?;
        self.done += done;
        for event in &events[..done] {
            let Some((control, write)) = usize::try_from(event.data).ok().and_then(|at| self.writes.get(at))
            else {
                continue;
            };
            let failed = match event.result {
                ..0 => Some(Errno::from_raw(i32::try_from(-event.result).unwrap_or(libc::EIO))),
                written if written.cast_unsigned() < control.length => Some(Errno::ENOSPC),
                _ => None,
            };
            self.failed = self.failed.or(failed.map(|errno| (write.token, errno)));
        }
        Ok(())
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: the context is ours; the call waits for what is under way, so that nothing reads from `room` afterwards.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    fn write_all(batch: &mut Batch) -> Result<(), (usize, Errno)> {
        while batch.waiting() > 0 {
            batch.submit().expect("io_submit");
        }
        while batch.under_way() > 0 {
            batch.wait().expect("io_getevents");
        }
        batch.outcome()
    }

    #[test]
    fn bytes_of_several_files_reach_them_and_neighbours_are_one_write() {
        let (one, two) =
            (tempfile::NamedTempFile::new().expect("file"), tempfile::NamedTempFile::new().expect("file"));
        let mut batch = Batch::new().expect("AIO");
        for (file, offset, byte, token) in [(&one, 0, 1, 0), (&one, 4096, 2, 0), (&two, 0, 3, 1)] {
            batch.room()[..4096].fill(byte);
            let write = Write { offset, length: 4096, token, place: 10 - token as u64 };
            batch.push(file.as_file().as_fd(), write);
        }
        assert_eq!(batch.waiting(), 2);
        assert_eq!(write_all(&mut batch), Ok(()));
        let found = std::fs::read(one.path()).expect("file");
        assert!(
            found.len() == 8192 && found[..4096].iter().all(|byte| *byte == 1) && found[4096..] == [2; 4096]
        );
        assert_eq!(std::fs::read(two.path()).expect("file"), [3; 4096]);
        assert_eq!((batch.waiting(), batch.room().len()), (0, BATCH_BYTES));
    }

    #[test]
    fn a_write_that_fails_is_named() {
        let read_only = std::fs::File::open("/proc/self/exe").expect("file");
        let file = tempfile::tempfile().expect("file");
        let mut batch = Batch::new().expect("AIO");
        for (file, token) in [(&file, 7), (&read_only, 8)] {
            batch.push(file.as_fd(), Write { offset: 0, length: 4096, token, place: 0 });
        }
        assert_eq!(batch.submit(), Ok(1));
        assert_eq!(batch.submit(), Err(Errno::EBADF));
        while batch.under_way() > 0 {
            batch.wait().expect("io_getevents");
        }
        assert_eq!(batch.outcome(), Ok(()));
    }
}
