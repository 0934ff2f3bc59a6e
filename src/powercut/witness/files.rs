//! What a writer does to files: each call checked, each error with its path; a failed sync is final.

use std::os::fd::AsFd;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use super::method::{After, Method};
use super::sector::Sector;
use crate::powercut::contents::SECTOR_BYTES;
use crate::sys::files::text;
use crate::sys::kernel::{Call, Fault, Kernel, RangeFlags};

/// Which sectors are written, each with what it says.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The first, with its session, file, generation and message.
    pub first: Sector,
    /// How many.
    pub sectors: u32,
}

/// Opens a file, a new one where `new` says so; nothing that is there is ever opened for a new one.
fn open<K: Kernel>(kernel: &K, path: &Path, flags: OFlag) -> Result<std::os::fd::OwnedFd, Fault> {
    let at = Fault::of(Call::Openat, path);
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    kernel.open(&text(path).map_err(&at)?, flags | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW, mode).map_err(at)
}

/// Writes spans into one file and syncs it once after them, as the method has it; durable when this returns, where the
/// method promises that. `new` makes the file.
pub fn write<K: Kernel>(
    kernel: &K,
    path: &Path,
    method: &Method,
    new: bool,
    spans: &[Span],
) -> Result<(), Fault> {
    let make = if new { OFlag::O_CREAT | OFlag::O_EXCL } else { OFlag::empty() };
    let file = open(kernel, path, OFlag::O_WRONLY | method.open | make)?;
    for span in spans {
        let mut bytes = vec![0; span.sectors as usize * SECTOR_BYTES];
        for (place, sector) in (span.first.place..).zip(bytes.chunks_mut(SECTOR_BYTES)) {
            Sector { place, ..span.first }.write(sector);
        }
        let mut offset = u64::from(span.first.place) * SECTOR_BYTES as u64;
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            match kernel.pwrite(file.as_fd(), rest, offset) {
                Ok(0) => return Err(Fault::of(Call::Pwrite64, path)(Errno::EIO)),
                Ok(count) => {
                    rest = &rest[count..];
                    offset += count as u64;
                }
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(Fault::of(Call::Pwrite64, path)(errno)),
            }
        }
    }
    if method.hint {
        // A hint that is not supported hints nothing.
        kernel.sync_file_range(file.as_fd(), 0, 0, RangeFlags::Write).ok();
    }
    // A synchronous write syncs nothing where nothing is written; and what promises nothing begins with what is durable.
    let unsynced = new && method.after == After::Nothing && (spans.is_empty() || !method.data);
    let after = if unsynced { After::Fsync } else { method.after };
    match after {
        After::Nothing => {}
        After::Fsync => kernel.fsync(file.as_fd()).map_err(Fault::of(Call::Fsync, path))?,
        After::Fdatasync => kernel.fdatasync(file.as_fd()).map_err(Fault::of(Call::Fdatasync, path))?,
        After::Syncfs => kernel.syncfs(file.as_fd()).map_err(Fault::of(Call::Syncfs, path))?,
    }
    kernel.close(file).map_err(Fault::of(Call::Close, path))
}

/// Makes the names of a directory durable; false where it takes no sync, and then nothing may be said of them.
pub fn sync_names<K: Kernel>(kernel: &K, directory: &Path, method: &Method) -> Result<bool, Fault> {
    let opened = open(kernel, directory, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
    let synced = match method.after {
        After::Syncfs => {
            kernel.syncfs(opened.as_fd()).map_err(Fault::of(Call::Syncfs, directory)).map(|()| true)
        }
        _ => match kernel.fsync(opened.as_fd()) {
            Err(Errno::EINVAL | Errno::ENOTSUP | Errno::ENOSYS | Errno::EBADF) => Ok(false),
            synced => synced.map_err(Fault::of(Call::Fsync, directory)).map(|()| true),
        },
    }?;
    kernel.close(opened).map_err(Fault::of(Call::Close, directory))?;
    Ok(synced)
}

/// mkdir(2).
pub fn make_directory<K: Kernel>(kernel: &K, path: &Path) -> Result<(), Fault> {
    let at = Fault::of(Call::Mkdir, path);
    kernel.mkdir(&text(path).map_err(&at)?, Mode::S_IRWXU).map_err(at)
}

/// rename(2).
pub fn rename<K: Kernel>(kernel: &K, from: &Path, to: &Path) -> Result<(), Fault> {
    let at = Fault::of(Call::Rename, from);
    kernel.rename(&text(from).map_err(&at)?, &text(to).map_err(&at)?).map_err(at)
}

/// unlink(2).
pub fn remove<K: Kernel>(kernel: &K, path: &Path) -> Result<(), Fault> {
    let at = Fault::of(Call::Unlink, path);
    kernel.unlink(&text(path).map_err(&at)?).map_err(at)
}
