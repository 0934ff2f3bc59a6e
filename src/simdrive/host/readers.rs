//! Threads that read what is in the file only, so that reads wait for the disk side by side.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use fuser::{Errno as FuseErrno, ReplyData};

use super::answer::Answer;
use super::engine::Engine;
use super::pool::Loan;
use super::store::Store;

/// How many there are.
pub const READERS: usize = 8;

/// A read that the engine has taken.
pub struct Read {
    /// The engine's number for it.
    pub id: u64,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: usize,
    /// Where they go.
    pub bytes: Loan,
    /// How they are answered.
    pub reply: ReplyData,
}

/// The reads that wait for a thread.
pub struct Readers {
    waiting: Mutex<(VecDeque<Read>, bool)>,
    changed: Condvar,
}

impl Readers {
    /// Nothing waits.
    pub fn new() -> Arc<Readers> {
        let waiting = VecDeque::with_capacity(2 * super::MOST_IN_FLIGHT);
        Arc::new(Readers { waiting: Mutex::new((waiting, false)), changed: Condvar::new() })
    }

    /// Hands a read over.
    pub fn push(&self, read: Read) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).0.push_back(read);
        self.changed.notify_one();
    }

    /// Ends the threads.
    pub fn close(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.changed.notify_all();
    }

    /// Reads until [`Readers::close`]: the body of each thread.
    pub fn work(&self, store: &Store, engine: &Engine) {
        while let Some(Read { id, offset, length, mut bytes, reply }) = self.next() {
            match store.read(offset, &mut bytes[..length]) {
                Ok(()) => engine.finish_read(id, Answer::Read(reply, bytes, length)),
                Err(errno) => {
                    engine.forget(id);
                    reply.error(FuseErrno::from_i32(errno as i32));
                }
            }
        }
    }

    fn next(&self) -> Option<Read> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(read) = waiting.0.pop_front() {
                return Some(read);
            }
            if waiting.1 {
                return None;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
