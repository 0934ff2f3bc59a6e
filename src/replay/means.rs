//! What a place offers to a policy, found out before the clock starts.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use tempfile::NamedTempFile;

use super::policy::Policy;
use crate::sys::aio::Batch;
use crate::sys::direct::direct_alignment;
use crate::sys::error::reason;
use crate::sys::kernel::{Call, Fault, Kernel};
use crate::sys::real::Real;
use crate::sys::uring::Ring;

/// The most descriptors that a policy keeps open.
const MOST_DESCRIPTORS: usize = 512;
/// Descriptors left to the rest of the program.
const OTHER_DESCRIPTORS: u64 = 24;
/// What every direct write is aligned to where the place does not ask for more: the largest block of common drives.
pub const DIRECT_BLOCK_BYTES: usize = 4096;
/// Direct writes may ask for blocks up to this size, which is that of PostgreSQL's copy buffer.
pub const LARGEST_BLOCK_BYTES: usize = 64 << 10;

/// What the engine may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Means {
    /// Offsets, lengths and memory of direct writes are multiples of it.
    pub direct_block_bytes: usize,
    /// Files that may be open at the same time.
    pub descriptors: usize,
}

/// Why a policy cannot be here. The arm is refused, the others run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// Files cannot share blocks.
    #[error("the file system cannot share blocks between files (FICLONE: {})", reason(*.0))]
    Reflink(Errno),
    /// Files cannot be opened with O_DIRECT.
    #[error("the file system takes no direct I/O ({})", reason(*.0))]
    DirectIo(Errno),
    /// Direct writes must be larger than PostgreSQL's copy buffer.
    #[error("direct I/O needs blocks of {0} bytes, more than the copy buffer has")]
    DirectBlock(usize),
    /// No AIO.
    #[error("AIO is not available ({})", reason(*.0))]
    Aio(Errno),
    /// Space cannot be allocated before it is written.
    #[error("the file system allocates nothing beforehand ({})", reason(*.0))]
    Allocate(Errno),
    /// No ring.
    #[error("io_uring is not available ({})", reason(*.0))]
    IoUring(Errno),
    /// The place takes no file at all.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl Unavailable {
    /// The code of a refused arm.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Reflink(_) => "no-reflink",
            Self::DirectIo(_) | Self::DirectBlock(_) => "no-direct-io",
            Self::Aio(_) => "no-aio",
            Self::Allocate(_) => "no-fallocate",
            Self::IoUring(_) => "no-io-uring",
            Self::Fault(_) => "not-writable",
        }
    }
}

impl Default for Means {
    /// What does not depend on a place.
    fn default() -> Self {
        let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
        let free = usize::try_from(soft.saturating_sub(OTHER_DESCRIPTORS)).unwrap_or(MOST_DESCRIPTORS);
        Self { direct_block_bytes: DIRECT_BLOCK_BYTES, descriptors: free.clamp(1, MOST_DESCRIPTORS) }
    }
}

impl Means {
    /// Tries in `directory` what the policy needs, on files that are gone afterwards.
    pub fn at(policy: &Policy, directory: &Path) -> Result<Self, Unavailable> {
        let needs = policy.needs();
        let mut means = Self::default();
        if needs.io_uring {
            Ring::new(policy.axes().jobs).map_err(Unavailable::IoUring)?;
        }
        if needs.aio {
            Batch::new().map_err(Unavailable::Aio)?;
            let file = trial_file(directory)?;
            let blocks = 2 * DIRECT_BLOCK_BYTES as u64;
            Real.fallocate(file.as_file().as_fd(), 0, blocks).map_err(Unavailable::Allocate)?;
        }
        if needs.reflink {
            let (from, to) = (trial_file(directory)?, trial_file(directory)?);
            Real.clone_file(from.as_file().as_fd(), to.as_file().as_fd()).map_err(Unavailable::Reflink)?;
        }
        if needs.direct_io {
            means.direct_block_bytes = direct_block(trial_file(directory)?.path())?;
        }
        Ok(means)
    }
}

/// A file with one block of data.
fn trial_file(directory: &Path) -> Result<NamedTempFile, Fault> {
    let mut file = NamedTempFile::new_in(directory).map_err(Fault::of_io(Call::Openat, directory))?;
    file.write_all(&[1; DIRECT_BLOCK_BYTES]).map_err(Fault::of_io(Call::Write, directory))?;
    Ok(file)
}

fn direct_block(path: &Path) -> Result<usize, Unavailable> {
    let errno = |error: std::io::Error| {
        Unavailable::DirectIo(Errno::from_raw(error.raw_os_error().unwrap_or(libc::EINVAL)))
    };
    let file: File = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(path).map_err(errno)?;
    let asked = match direct_alignment(file.as_fd()) {
        Ok(Some(alignment)) if alignment.offset_bytes == 0 => {
            return Err(Unavailable::DirectIo(Errno::EINVAL));
        }
        Ok(Some(alignment)) => alignment.memory_bytes.max(alignment.offset_bytes),
        // A kernel that does not say takes what drives take.
        Ok(None) | Err(_) => DIRECT_BLOCK_BYTES,
    };
    let block = asked.max(DIRECT_BLOCK_BYTES);
    if block <= LARGEST_BLOCK_BYTES && block.is_power_of_two() {
        Ok(block)
    } else {
        Err(Unavailable::DirectBlock(block))
    }
}
