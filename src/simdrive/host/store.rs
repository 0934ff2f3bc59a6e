//! What is on the simulated drive: a sparse file behind locked batches of writes.
//!
//! Nothing here allocates page cache: the file is open with `O_DIRECT`, and a write ends once its bytes are in a batch.
//! Threads of their own take full batches to the file, so that the disk below neither shows in the simulated drive's
//! times nor limits its queue depth. (Memory in place of the file would be simpler, and dies in a small memory cgroup.)
//! When all batches are full, writes wait for the disk. A failed write to the file is final: the drive is broken.
//!
//! Stripes of the drive belong to lanes: each drains by itself, and writes to one place stay in order.

use std::fs::File;
use std::io;
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};

use super::lane::Lane;

/// Writes to the file side by side.
pub const LANES: usize = 4;
const STRIPE_BYTES: u64 = 1 << 20;

/// The contents of a simulated drive. One thread writes, any thread reads; [`Store::drain`] runs in one more for each lane.
#[derive(Debug)]
pub struct Store {
    file: File,
    lanes: [Lane; LANES],
}

impl Store {
    /// `file` is open with `O_DIRECT` and as long as the drive.
    pub fn new(file: File) -> io::Result<Arc<Store>> {
        let lanes = [Lane::new()?, Lane::new()?, Lane::new()?, Lane::new()?];
        Ok(Arc::new(Store { file, lanes }))
    }

    /// The error that broke the drive.
    pub fn broken(&self) -> Option<Errno> {
        self.lanes.iter().find_map(Lane::broken)
    }

    /// Writes `data`, a whole number of blocks.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let (mut offset, mut data) = (offset, data);
        while !data.is_empty() {
            let (part, rest) = data.split_at(in_stripe(offset, data.len()));
            self.lane(offset).write(offset, part)?;
            offset += part.len() as u64;
            data = rest;
        }
        Ok(())
    }

    /// Fills `buffer` if all of it was written last in one write that is still here; whether that is so.
    pub fn read_staged(&self, offset: u64, buffer: &mut [u8]) -> bool {
        in_stripe(offset, buffer.len()) == buffer.len() && self.lane(offset).read_staged(offset, buffer)
    }

    /// Fills `buffer`, a whole number of blocks and aligned for direct I/O.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Errno> {
        let (mut offset, mut buffer) = (offset, buffer);
        while !buffer.is_empty() {
            let (part, rest) = buffer.split_at_mut(in_stripe(offset, buffer.len()));
            self.lane(offset).read(&self.file, offset, part)?;
            offset += part.len() as u64;
            buffer = rest;
        }
        Ok(())
    }

    /// Makes a range read as zeroes and gives its space back.
    pub fn discard(&self, offset: u64, length: u64) -> Result<(), Errno> {
        for lane in &self.lanes {
            lane.settle(offset, length)?;
        }
        let (start, length) = (signed(offset)?, signed(length)?);
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        fallocate(&self.file, flags, start, length)
    }

    /// Takes the writes of one lane to the file until [`Store::close`] is called.
    pub fn drain(&self, lane: usize) -> io::Result<()> {
        self.lanes[lane].drain(&self.file)
    }

    /// Waits until everything written so far is in the file.
    pub fn settle(&self) -> Result<(), Errno> {
        self.lanes.iter().try_for_each(|lane| lane.settle(0, u64::MAX))
    }

    /// Ends [`Store::drain`] once everything is in the file.
    pub fn close(&self) {
        for lane in &self.lanes {
            lane.close();
        }
    }

    fn lane(&self, offset: u64) -> &Lane {
        let stripe = usize::try_from(offset / STRIPE_BYTES % LANES as u64).unwrap_or(0);
        &self.lanes[stripe]
    }
}

/// How much of a request at `offset` lies in the stripe it begins in.
fn in_stripe(offset: u64, length: usize) -> usize {
    let left = STRIPE_BYTES - offset % STRIPE_BYTES;
    usize::try_from(left).map_or(length, |left| left.min(length))
}

fn signed(number: u64) -> Result<i64, Errno> {
    i64::try_from(number).map_err(|_| Errno::EFBIG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_cut_where_its_stripe_ends() {
        assert_eq!(in_stripe(0, 1 << 20), 1 << 20);
        assert_eq!(in_stripe((1 << 20) - 512, 4096), 512);
        assert_eq!(in_stripe(1 << 20, 4096), 4096);
    }
}
