//! What is on the simulated drive: a sparse file behind two locked batches of writes.
//!
//! Nothing here allocates page cache: the file is open with `O_DIRECT`, and a write ends once its bytes are in the
//! batch that is being filled. A thread of its own takes full batches to the file, so that the disk below neither
//! shows in the simulated drive's times nor limits its queue depth. When both batches are full, writes wait for the
//! disk. A failed write to the file is final: the drive is broken from then on.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};

use crate::sys::memory::LockedBuffer;

/// Bytes of one batch.
const BATCH_BYTES: usize = 8 << 20;
/// Most writes in one batch; the list of them is allocated once.
const BATCH_WRITES: usize = 4096;
/// Where a write starts in a batch: what any disk below wants for direct I/O.
const ALIGNMENT: usize = 4096;
/// Longest single write to the file.
const RUN_BYTES: usize = 1 << 20;

/// A write that lies in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Staged {
    offset: u64,
    length: usize,
    at: usize,
}

impl Staged {
    fn overlaps(&self, offset: u64, length: u64) -> bool {
        self.offset < offset + length && offset < self.offset + self.length as u64
    }

    fn contains(&self, offset: u64, length: usize) -> bool {
        self.offset <= offset && offset + length as u64 <= self.offset + self.length as u64
    }
}

#[derive(Debug)]
struct Batch {
    bytes: LockedBuffer,
    writes: Vec<Staged>,
    used: usize,
}

impl Batch {
    fn new() -> io::Result<Batch> {
        let bytes = LockedBuffer::new(BATCH_BYTES)?;
        Ok(Batch { bytes, writes: Vec::with_capacity(BATCH_WRITES), used: 0 })
    }

    fn has_room(&self, length: usize) -> bool {
        self.writes.len() < BATCH_WRITES && self.used + length <= BATCH_BYTES
    }

    fn push(&mut self, offset: u64, data: &[u8]) {
        self.bytes[self.used..self.used + data.len()].copy_from_slice(data);
        self.writes.push(Staged { offset, length: data.len(), at: self.used });
        self.used += data.len().next_multiple_of(ALIGNMENT);
    }

    fn clear(&mut self) {
        self.writes.clear();
        self.used = 0;
    }
}

#[derive(Debug)]
struct State {
    filling: Batch,
    /// What lies in the batch on its way to the file; empty when there is none.
    leaving: Vec<Staged>,
    broken: Option<Errno>,
    closing: bool,
}

/// The contents of a simulated drive. One thread reads and writes; [`Store::drain`] runs in another.
#[derive(Debug)]
pub struct Store {
    file: File,
    state: Mutex<State>,
    changed: Condvar,
}

impl Store {
    /// `file` is open with `O_DIRECT` and as long as the drive.
    pub fn new(file: File) -> io::Result<Arc<Store>> {
        let leaving = Vec::with_capacity(BATCH_WRITES);
        let state = State { filling: Batch::new()?, leaving, broken: None, closing: false };
        Ok(Arc::new(Store { file, state: Mutex::new(state), changed: Condvar::new() }))
    }

    /// The error that broke the drive.
    pub fn broken(&self) -> Option<Errno> {
        self.lock().broken
    }

    /// Writes `data`, a whole number of blocks.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let mut state = self.lock();
        while state.broken.is_none() && !state.filling.has_room(data.len()) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(errno) = state.broken {
            return Err(errno);
        }
        state.filling.push(offset, data);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Fills `buffer`, a whole number of blocks and aligned for direct I/O.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Errno> {
        let length = buffer.len() as u64;
        let state = self.lock();
        let newest = state.filling.writes.iter().rev().find(|staged| staged.overlaps(offset, length));
        if let Some(staged) = newest.filter(|staged| staged.contains(offset, buffer.len())) {
            let skip = usize::try_from(offset - staged.offset).map_err(|_| Errno::EINVAL)?;
            buffer.copy_from_slice(&state.filling.bytes[staged.at + skip..][..buffer.len()]);
            return Ok(());
        }
        self.settle(state, offset, length)?;
        match self.file.read_exact_at(buffer, offset) {
            Ok(()) => Ok(()),
            Err(error) => Err(errno_of(&error)),
        }
    }

    /// Makes a range read as zeroes and gives its space back.
    pub fn discard(&self, offset: u64, length: u64) -> Result<(), Errno> {
        self.settle(self.lock(), offset, length)?;
        let (start, length) = (signed(offset)?, signed(length)?);
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        fallocate(&self.file, flags, start, length)
    }

    /// Waits until nothing that overlaps the range is staged.
    fn settle(&self, mut state: MutexGuard<'_, State>, offset: u64, length: u64) -> Result<(), Errno> {
        let staged = |state: &State| {
            state.filling.writes.iter().chain(&state.leaving).any(|one| one.overlaps(offset, length))
        };
        while state.broken.is_none() && staged(&state) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.broken.map_or(Ok(()), Err)
    }

    /// Takes batches to the file until [`Store::close`] is called: the body of the thread that does it.
    pub fn drain(&self) -> io::Result<()> {
        let mut batch = Batch::new()?;
        loop {
            let mut state = self.lock();
            while state.filling.writes.is_empty() {
                if state.closing {
                    return Ok(());
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            std::mem::swap(&mut state.filling, &mut batch);
            state.leaving.extend_from_slice(&batch.writes);
            drop(state);
            self.changed.notify_all();
            let written = self.write_out(&batch);
            batch.clear();
            let mut state = self.lock();
            state.leaving.clear();
            state.broken = state.broken.or(written.err());
            drop(state);
            self.changed.notify_all();
        }
    }

    fn write_out(&self, batch: &Batch) -> Result<(), Errno> {
        let mut rest = batch.writes.as_slice();
        while let Some((first, _)) = rest.split_first() {
            let (count, length) = run(rest);
            let bytes = &batch.bytes[first.at..first.at + length];
            self.file.write_all_at(bytes, first.offset).map_err(|error| errno_of(&error))?;
            rest = &rest[count..];
        }
        Ok(())
    }

    /// Ends [`Store::drain`] once everything is in the file.
    pub fn close(&self) {
        self.lock().closing = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many of the first writes lie one after the other, in the batch as on the drive, and their length together.
fn run(writes: &[Staged]) -> (usize, usize) {
    let (mut count, mut length) = (0, 0);
    let Some(first) = writes.first() else { return (0, 0) };
    for staged in writes {
        let follows = staged.at == first.at + length && staged.offset == first.offset + length as u64;
        if count > 0 && (!follows || length + staged.length > RUN_BYTES) {
            break;
        }
        count += 1;
        length += staged.length;
    }
    (count, length)
}

fn errno_of(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

fn signed(number: u64) -> Result<i64, Errno> {
    i64::try_from(number).map_err(|_| Errno::EFBIG)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn staged(offset: u64, length: usize, at: usize) -> Staged {
        Staged { offset, length, at }
    }

    #[test]
    fn writes_that_follow_each_other_go_to_the_file_as_one() {
        assert_eq!(run(&[staged(0, 4096, 0), staged(4096, 8192, 4096), staged(0, 512, 12288)]), (2, 12288));
        assert_eq!(run(&[staged(0, 512, 0), staged(512, 512, 4096)]), (1, 512));
        assert_eq!(
            run(&[staged(8, RUN_BYTES, 0), staged(8 + RUN_BYTES as u64, 512, RUN_BYTES)]),
            (1, RUN_BYTES)
        );
    }

    #[test]
    fn overlap_and_containment_end_at_the_last_byte() {
        let one = staged(4096, 4096, 0);
        assert!(one.overlaps(0, 4097) && !one.overlaps(0, 4096) && !one.overlaps(8192, 1));
        assert!(one.contains(4096, 4096) && !one.contains(4096, 4097) && !one.contains(4095, 2));
    }
}
