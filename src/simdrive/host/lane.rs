//! One lane of a store: two locked batches of writes, one that is filled and one on its way to the file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;

use crate::simdrive::error::errno_of;
use crate::sys::memory::LockedBuffer;

/// Bytes of one batch.
const BATCH_BYTES: usize = 2 << 20;
/// Most writes in one batch; the list of them is allocated once.
const BATCH_WRITES: usize = 1024;
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
    fn end(&self) -> u64 {
        self.offset + self.length as u64
    }

    fn overlaps(&self, offset: u64, length: u64) -> bool {
        self.offset < offset + length && offset < self.end()
    }

    fn contains(&self, offset: u64, length: u64) -> bool {
        self.offset <= offset && offset + length <= self.end()
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

    fn overlaps(&self, offset: u64, length: u64) -> bool {
        self.writes.iter().any(|staged| staged.overlaps(offset, length))
    }

    /// Copies what lies here of the range over `buffer`, in the order in which it was written; whether the newest
    /// write alone covers it.
    fn overlay(&self, offset: u64, buffer: &mut [u8]) -> bool {
        let length = buffer.len() as u64;
        let whole = self.writes.iter().rev().find(|staged| staged.overlaps(offset, length));
        if let Some(staged) = whole.filter(|staged| staged.contains(offset, length)) {
            self.copy(staged, offset, buffer);
            return true;
        }
        for staged in self.writes.iter().filter(|staged| staged.overlaps(offset, length)) {
            self.copy(staged, offset, buffer);
        }
        false
    }

    fn copy(&self, staged: &Staged, offset: u64, buffer: &mut [u8]) {
        let (start, end) = (staged.offset.max(offset), staged.end().min(offset + buffer.len() as u64));
        let length = place(end - start);
        let from = staged.at + place(start - staged.offset);
        buffer[place(start - offset)..][..length].copy_from_slice(&self.bytes[from..][..length]);
    }
}

/// A distance inside a buffer.
fn place(distance: u64) -> usize {
    usize::try_from(distance).unwrap_or(usize::MAX)
}

#[derive(Debug)]
struct State {
    filling: Batch,
    /// On its way to the file.
    leaving: Option<Arc<Batch>>,
    /// Batches that have reached the file.
    gone: u64,
    broken: Option<Errno>,
    closing: bool,
}

/// A lane. One thread writes, any thread reads; [`Lane::drain`] runs in another.
#[derive(Debug)]
pub struct Lane {
    state: Mutex<State>,
    changed: Condvar,
}

impl Lane {
    /// An empty lane.
    pub fn new() -> io::Result<Lane> {
        let state = State { filling: Batch::new()?, leaving: None, gone: 0, broken: None, closing: false };
        Ok(Lane { state: Mutex::new(state), changed: Condvar::new() })
    }

    /// The error that broke it.
    pub fn broken(&self) -> Option<Errno> {
        self.lock().broken
    }

    /// Takes a write; waits while both batches are full.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let mut state = self.wait_while(|state| !state.filling.has_room(data.len()))?;
        state.filling.push(offset, data);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Reads what was written last, if one write that waits here covers it.
    pub fn read_staged(&self, offset: u64, buffer: &mut [u8]) -> bool {
        self.lock().filling.overlay(offset, buffer)
    }

    /// Reads what was written last, from here or from the file.
    pub fn read(&self, file: &File, offset: u64, buffer: &mut [u8]) -> Result<(), Errno> {
        let state = self.lock();
        if state.filling.overlay(offset, buffer) {
            return Ok(());
        }
        let mut gone = state.gone;
        drop(state);
        loop {
            file.read_exact_at(buffer, offset).map_err(|error| errno_of(&error))?;
            let state = self.lock();
            if state.gone == gone {
                if let Some(leaving) = &state.leaving {
                    leaving.overlay(offset, buffer);
                }
                state.filling.overlay(offset, buffer);
                return state.broken.map_or(Ok(()), Err);
            }
            // A batch reached the file meanwhile: what was read may be older than that.
            gone = state.gone;
        }
    }

    /// Waits until nothing that overlaps the range is here.
    pub fn settle(&self, offset: u64, length: u64) -> Result<(), Errno> {
        let staged = |state: &State| {
            state.filling.overlaps(offset, length)
                || state.leaving.as_ref().is_some_and(|leaving| leaving.overlaps(offset, length))
        };
        self.wait_while(staged).map(drop)
    }

    /// Takes batches to the file until [`Lane::close`] is called: the body of the thread that does it.
    pub fn drain(&self, file: &File) -> io::Result<()> {
        let mut spare = Batch::new()?;
        loop {
            let mut state = self.lock();
            while state.filling.writes.is_empty() {
                if state.closing {
                    return Ok(());
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let leaving = Arc::new(std::mem::replace(&mut state.filling, spare));
            state.leaving = Some(Arc::clone(&leaving));
            drop(state);
            self.changed.notify_all();
            let written = write_out(&leaving, file);
            let mut state = self.lock();
            state.leaving = None;
            state.gone += 1;
            state.broken = state.broken.or(written.err());
            drop(state);
            self.changed.notify_all();
            // Others look at it under the lock only, so ours is the last.
            spare = Arc::into_inner(leaving).ok_or(Errno::EIO)?;
            spare.clear();
        }
    }

    /// Ends [`Lane::drain`] once everything is in the file.
    pub fn close(&self) {
        self.lock().closing = true;
        self.changed.notify_all();
    }

    /// Waits while `held` holds; an error when the lane is broken.
    fn wait_while(&self, held: impl Fn(&State) -> bool) -> Result<MutexGuard<'_, State>, Errno> {
        let mut state = self.lock();
        while state.broken.is_none() && held(&state) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match state.broken {
            None => Ok(state),
            Some(errno) => Err(errno),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write_out(batch: &Batch, file: &File) -> Result<(), Errno> {
    let mut rest = batch.writes.as_slice();
    while let Some((first, _)) = rest.split_first() {
        let (count, length) = run(rest);
        let bytes = &batch.bytes[first.at..first.at + length];
        file.write_all_at(bytes, first.offset).map_err(|error| errno_of(&error))?;
        rest = &rest[count..];
    }
    Ok(())
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
    fn what_is_read_is_what_was_written_last() {
        let mut batch = Batch::new().expect("2 MiB can be locked");
        batch.push(4096, &[1; 8192]);
        batch.push(8192, &[2; 512]);
        let mut buffer = [0; 16384];
        assert!(!batch.overlay(0, &mut buffer), "the batch does not cover it");
        assert_eq!((buffer[4095], buffer[4096], buffer[8191]), (0, 1, 1));
        assert_eq!((buffer[8192], buffer[8703], buffer[8704], buffer[12288]), (2, 2, 1, 0));
        assert!(batch.overlay(8192, &mut buffer[..512]));
        assert!(!batch.overlay(8192, &mut buffer[..1024]), "the newest covers half of it");
    }
}
