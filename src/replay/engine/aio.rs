//! The writes of many files in one call: allocated beforehand, so that it is known where they go, and handed over together
//! in the order of their places, so that the drive gets them in a few large requests.

use std::os::fd::BorrowedFd;

use super::calls::uninterrupted;
use super::copy::BUFFER_BYTES;
use super::{EngineError, Observer, Run, fault};
use crate::sys::aio::{Batch, Write};
use crate::sys::kernel::{Call, Fault, Kernel};

impl<K: Kernel, O: Observer> Run<'_, K, O> {
    /// Takes a file of so many bytes, whole blocks, into the batch. One that has become another size meanwhile is written
    /// at once and cut off where it ends.
    pub(super) fn move_together(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        size_bytes: u64,
    ) -> Result<u64, EngineError> {
        if size_bytes > 0 {
            let allocated = uninterrupted(|| self.calls.kernel.fallocate(to, 0, size_bytes));
            allocated.map_err(|errno| fault(Call::Fallocate, &self.target, errno))?;
        }
        let (block, token) = (self.tools.means.direct_block_bytes, self.tools.held.len());
        let (mut offset, mut place) = (0, None);
        loop {
            if self.batch().room().len() < BUFFER_BYTES {
                self.write_batch()?;
                place = None;
            }
            let kernel = self.calls.kernel;
            let read = kernel.read(from, &mut self.batch().room()[..BUFFER_BYTES]);
            let length = read.map_err(|errno| fault(Call::Read, &self.source, errno))?;
            if length == 0 {
                break;
            }
            self.go_on_after(offset, length as u64)?;
            let padded = length.next_multiple_of(block);
            self.batch().room()[length..padded].fill(0);
            let place = *place.get_or_insert_with(|| self.place(to, offset));
            let write = Write { offset, length: padded, token, place };
            self.batch().push(to, write);
            offset += length as u64;
            if padded > length {
                break;
            }
        }
        if offset != size_bytes {
            self.write_batch()?;
            let cut = self.calls.kernel.ftruncate(to, offset);
            cut.map_err(|errno| fault(Call::Ftruncate, &self.target, errno))?;
            self.copied.changed.push(self.source.to_path());
        }
        Ok(offset)
    }

    /// Writes what is in the batch, where the policy has one, and waits for it.
    pub(super) fn write_batch(&mut self) -> Result<(), EngineError> {
        let Some(batch) = &mut self.tools.batch else { return Ok(()) };
        let target = &self.target;
        let of_copy = |call| move |errno| fault(call, target, errno);
        while batch.waiting() > 0 {
            uninterrupted(|| self.calls.kernel.submit_batch(batch)).map_err(of_copy(Call::IoSubmit))?;
        }
        while batch.under_way() > 0 {
            uninterrupted(|| self.calls.kernel.await_batch(batch)).map_err(of_copy(Call::IoGetevents))?;
        }
        let held = &self.tools.held;
        batch.outcome().map_err(|(token, errno)| match held.name(token) {
            Some(path) => Fault::of(Call::IoSubmit, super::path::path_of(path))(errno).into(),
            None => fault(Call::IoSubmit, &self.target, errno),
        })
    }

    /// Where a part of a file lies. A file system that does not tell has all files at one place.
    fn place(&self, file: BorrowedFd<'_>, offset: u64) -> u64 {
        self.calls.kernel.place(file, offset).unwrap_or(0)
    }

    fn batch(&mut self) -> &mut Batch {
        self.tools.batch.as_mut().expect("copy=aio has a batch")
    }
}
