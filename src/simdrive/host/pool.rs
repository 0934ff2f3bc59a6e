//! Locked buffers for what is read, lent until the answer has left.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::sys::memory::LockedBuffer;

/// Length and number of the buffers of each kind: as many short ones as there can be requests, and enough long ones to
/// keep a fast drive reading.
const KINDS: [(usize, usize); 2] = [(64 << 10, super::MOST_IN_FLIGHT), (super::MOST_BYTES, 16)];

/// Buffers for reads.
#[derive(Debug)]
pub struct Pool {
    free: Mutex<[Vec<LockedBuffer>; 2]>,
    given_back: Condvar,
}

impl Pool {
    /// All buffers, free.
    pub fn new() -> io::Result<Arc<Pool>> {
        let buffers =
            |(length, count)| (0..count).map(|_| LockedBuffer::new(length)).collect::<Result<Vec<_>, _>>();
        let free = [buffers(KINDS[0])?, buffers(KINDS[1])?];
        Ok(Arc::new(Pool { free: Mutex::new(free), given_back: Condvar::new() }))
    }

    /// Lends a buffer of `length` bytes or more; waits for one when all are lent, as a drive whose queue is full.
    pub fn lend(self: &Arc<Pool>, length: usize) -> Loan {
        let kind = usize::from(length > KINDS[0].0);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(buffer) = free[kind].pop() {
                return Loan { buffer: Some(buffer), kind, pool: Arc::clone(self) };
            }
            free = self.given_back.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A buffer on loan: given back when dropped.
#[derive(Debug)]
pub struct Loan {
    /// `None` only while it is dropped.
    buffer: Option<LockedBuffer>,
    kind: usize,
    pool: Arc<Pool>,
}

impl Deref for Loan {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer.as_deref().unwrap_or_default()
    }
}

impl DerefMut for Loan {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.buffer.as_deref_mut().unwrap_or_default()
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let mut free = self.pool.free.lock().unwrap_or_else(PoisonError::into_inner);
        free[self.kind].extend(self.buffer.take());
        drop(free);
        self.pool.given_back.notify_one();
    }
}
