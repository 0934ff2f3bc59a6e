//! Where the write log goes: a file written with direct I/O from locked memory, as the drive's own contents are.

use std::fs::File;
use std::io;
use std::sync::Arc;

use nix::errno::Errno;

use super::store::Store;
use crate::simdrive::model::Request;

/// Bytes that go to the file at a time; a multiple of every direct I/O alignment.
const CHUNK_BYTES: usize = 256 << 10;
/// The last chunk is padded to this, and the file cut to its true length afterwards.
const PADDING: usize = 4096;

/// Is told everything that happens to a drive, in order, and makes the bytes of a write log of it.
pub trait Recorder: Send {
    /// A request has arrived; `data` is what a write carries.
    fn issued(&mut self, request: &Request, data: &[u8], at_ns: u64, into: &mut Vec<u8>);
    /// Its answer is about to leave.
    fn completed(&mut self, id: u64, at_ns: u64, into: &mut Vec<u8>);
    /// The program marked this moment.
    fn marked(&mut self, mark: u64, at_ns: u64, into: &mut Vec<u8>);
}

/// A recorder and the file its bytes go to.
pub struct Log {
    recorder: Box<dyn Recorder>,
    file: File,
    store: Arc<Store>,
    pending: Vec<u8>,
    written: u64,
}

impl Log {
    /// `file` is empty and open with `O_DIRECT`. [`Store::drain`] of [`Log::store`] must run in a thread.
    pub fn new(file: File, recorder: Box<dyn Recorder>) -> io::Result<Log> {
        let store = Store::new(file.try_clone()?)?;
        // One request of the longest kind fits on top of a chunk that is nearly full.
        let pending = Vec::with_capacity(2 * CHUNK_BYTES + super::MOST_BYTES);
        Ok(Log { recorder, file, store, pending, written: 0 })
    }

    /// Takes the bytes to the file.
    pub fn store(&self) -> Arc<Store> {
        Arc::clone(&self.store)
    }

    /// A request has arrived.
    pub fn issued(&mut self, request: &Request, data: &[u8], at_ns: u64) -> Result<(), Errno> {
        self.recorder.issued(request, data, at_ns, &mut self.pending);
        self.pass_on()
    }

    /// An answer is about to leave. It is small and waits for the next request: a log that cannot be written refuses
    /// that one.
    pub fn completed(&mut self, id: u64, at_ns: u64) {
        self.recorder.completed(id, at_ns, &mut self.pending);
    }

    /// The program marked this moment.
    pub fn marked(&mut self, mark: u64, at_ns: u64) -> Result<(), Errno> {
        self.recorder.marked(mark, at_ns, &mut self.pending);
        self.pass_on()
    }

    fn pass_on(&mut self) -> Result<(), Errno> {
        let whole = self.pending.len() / CHUNK_BYTES * CHUNK_BYTES;
        for chunk in self.pending[..whole].chunks(CHUNK_BYTES) {
            self.store.write(self.written, chunk)?;
            self.written += chunk.len() as u64;
        }
        self.pending.drain(..whole);
        Ok(())
    }

    /// Hands over what is left; [`Log::cut`] may follow once [`Store::drain`] has ended.
    pub fn finish(&mut self) -> Result<(), Errno> {
        let length = self.written + self.pending.len() as u64;
        self.pending.resize(self.pending.len().next_multiple_of(PADDING), 0);
        for chunk in self.pending.chunks(CHUNK_BYTES) {
            self.store.write(self.written, chunk)?;
            self.written += chunk.len() as u64;
        }
        self.pending.clear();
        self.written = length;
        self.store.close();
        Ok(())
    }

    /// Cuts the file to what was recorded.
    pub fn cut(&self) -> io::Result<()> {
        self.file.set_len(self.written)
    }
}
