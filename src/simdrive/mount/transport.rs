//! What the way from a request's issuer to the serving process and back costs, measured while answers are free.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::queue;
use crate::simdrive::error::{Attempt, Error};
use crate::simdrive::host::{MOST_BYTES, Transport};
use crate::sys::clock::now_ns;
use crate::sys::memory::LockedBuffer;

const SHORT_BYTES: usize = 4096;
const SHORT_WRITES: u64 = 300;
const LONG_WRITES: u64 = 12;

/// Times direct writes of 4 KiB and 1 MiB to a loop device that carries nothing yet: their medians.
pub fn measure(number: u32) -> Result<Transport, Error> {
    let node = queue::node(number);
    let device = queue::open(number, libc::O_DIRECT)?;
    let buffer = LockedBuffer::new(MOST_BYTES).attempt("lock memory for", &node)?;
    let short_ns = median_ns(&device, &node, &buffer[..SHORT_BYTES], SHORT_WRITES)?;
    let long_ns = median_ns(&device, &node, &buffer, LONG_WRITES)?;
    Ok(Transport { base_ns: short_ns, per_mib_ns: long_ns.saturating_sub(short_ns) })
}

fn median_ns(device: &File, node: &Path, bytes: &[u8], count: u64) -> Result<u64, Error> {
    let mut times = Vec::new();
    for turn in 0..count {
        let start_ns = now_ns();
        device.write_all_at(bytes, turn * bytes.len() as u64).attempt("write to file", node)?;
        times.push(now_ns() - start_ns);
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}
