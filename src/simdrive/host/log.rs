//! Where the write log goes: a file written with direct I/O from locked memory, as the drive's own contents are.

use std::fs::File;
use std::io;
use std::sync::Arc;

use nix::errno::Errno;

use super::store::Store;
use crate::simdrive::error::errno_of;
use crate::simdrive::model::Request;
use crate::simdrive::writelog::{Encoder, Entry, Header};

/// Bytes that go to the file at a time; a multiple of every direct I/O alignment.
const CHUNK_BYTES: usize = 256 << 10;
/// The last chunk is padded to this, and the file cut to its true length afterwards.
const PADDING: usize = 4096;

/// A write log and the file its bytes go to.
pub struct Log {
    encoder: Encoder,
    file: File,
    store: Arc<Store>,
    keep_data: bool,
    start_ns: u64,
    pending: Vec<u8>,
    written: u64,
}

impl Log {
    /// Begins a log at `start_ns` of the clock. `file` is empty and open with `O_DIRECT`. [`Store::drain`] of
    /// [`Log::store`] must run in a thread.
    pub fn new(file: File, header: &Header, keep_data: bool, start_ns: u64) -> io::Result<Log> {
        let store = Store::new(file.try_clone()?)?;
        // One request of the longest kind fits on top of a chunk that is nearly full.
        let mut pending = Vec::with_capacity(2 * CHUNK_BYTES + super::MOST_BYTES);
        let mut encoder = Encoder::default();
        encoder.header(header, &mut pending);
        Ok(Log { encoder, file, store, keep_data, start_ns, pending, written: 0 })
    }

    /// Takes the bytes to the file.
    pub fn store(&self) -> Arc<Store> {
        Arc::clone(&self.store)
    }

    /// A request has arrived; `data` is what a write carries.
    pub fn issued(&mut self, request: Request, data: &[u8], at_ns: u64) -> Result<(), Errno> {
        let data = self.keep_data.then_some(data);
        self.enter(&Entry::Issued { at_ns: at_ns - self.start_ns, request, data })?;
        self.pass_on()
    }

    /// An answer is about to leave. Its entry is small and waits for the next request: a log that cannot be written
    /// refuses that one.
    pub fn completed(&mut self, id: u64, at_ns: u64) {
        self.enter(&Entry::Completed { at_ns: at_ns - self.start_ns, id }).unwrap_or_default();
    }

    /// The program marked this moment.
    pub fn marked(&mut self, text: &str, at_ns: u64) -> Result<(), Errno> {
        self.enter(&Entry::Mark { at_ns: at_ns - self.start_ns, text })?;
        self.pass_on()
    }

    /// Fails only for data longer than any request.
    fn enter(&mut self, entry: &Entry<'_>) -> Result<(), Errno> {
        self.encoder.entry(entry, &mut self.pending).map_err(|_| Errno::EMSGSIZE)
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

    /// Ends the log and hands over what is left; [`Log::cut`] may follow once [`Store::drain`] has ended.
    pub fn finish(&mut self) -> Result<(), Errno> {
        self.encoder.end(&mut self.pending);
        self.hand_over()?;
        self.store.close();
        Ok(())
    }

    /// Takes everything so far to the file and leaves the log without an end, as one whose writer was stopped.
    pub fn break_off(mut self) -> Result<(), Errno> {
        self.hand_over()?;
        self.store.settle()?;
        self.cut().map_err(|error| errno_of(&error))
    }

    /// Hands over what is left, padded.
    fn hand_over(&mut self) -> Result<(), Errno> {
        let length = self.written + self.pending.len() as u64;
        self.pending.resize(self.pending.len().next_multiple_of(PADDING), 0);
        for chunk in self.pending.chunks(CHUNK_BYTES) {
            self.store.write(self.written, chunk)?;
            self.written += chunk.len() as u64;
        }
        self.pending.clear();
        self.written = length;
        Ok(())
    }

    /// Cuts the file to what was recorded.
    pub fn cut(&self) -> io::Result<()> {
        self.file.set_len(self.written)
    }
}
