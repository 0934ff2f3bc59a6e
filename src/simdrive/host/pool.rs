//! Locked buffers for what is read, lent until the answer has left.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::sys::memory::{Fill, LockedBuffer};

/// Buffers of the longest request each. The last one given back is lent first, so that few are ever touched.
#[derive(Debug)]
pub struct Pool {
    free: Mutex<Vec<LockedBuffer>>,
    given_back: Condvar,
}

impl Pool {
    /// A pool of `count` buffers of `length_bytes`.
    pub fn new(count: usize, length_bytes: usize) -> io::Result<Arc<Pool>> {
        let free = (0..count)
            .map(|_| LockedBuffer::new(length_bytes, Fill::OnFirstTouch))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Arc::new(Pool { free: Mutex::new(free), given_back: Condvar::new() }))
    }

    /// Lends a buffer; waits for one when all are lent, as a drive whose queue is full.
    pub fn lend(self: &Arc<Pool>) -> Loan {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(buffer) = free.pop() {
                return Loan { buffer: Some(buffer), pool: Arc::clone(self) };
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
        free.extend(self.buffer.take());
        drop(free);
        self.pool.given_back.notify_one();
    }
}
