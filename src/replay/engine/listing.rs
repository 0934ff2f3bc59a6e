//! A directory read as glibc's readdir reads it: 32 KiB of raw entries at a time.

use std::fmt;
use std::os::fd::BorrowedFd;

use nix::errno::Errno;

use crate::sys::kernel::Kernel;

/// glibc's buffer.
const LISTING_BYTES: usize = 32 << 10;
/// Where the name begins in a struct linux_dirent64: after d_ino, d_off, d_reclen and d_type.
const NAME_AT: usize = 19;

/// The reading of one directory, `.` and `..` left out.
#[derive(Debug)]
pub(super) struct Listing {
    buffer: Vec<u8>,
    filled: usize,
    at: usize,
}

/// What readdir says of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub(super) inode: u64,
    pub(super) kind: Kind,
    pub(super) name: &'a [u8],
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link: never followed.
    Symlink,
    /// A FIFO: opening it would block.
    Fifo,
    /// A socket.
    Socket,
    /// A block or character device.
    Device,
    /// readdir does not say, or something newer than this program.
    Unknown,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink => "symbolic link",
            Self::Fifo => "FIFO",
            Self::Socket => "socket",
            Self::Device => "device",
            Self::Unknown => "thing of an unknown kind",
        })
    }
}

impl Kind {
    fn from_readdir(kind: u8) -> Self {
        match kind {
            libc::DT_REG => Self::File,
            libc::DT_DIR => Self::Directory,
            libc::DT_LNK => Self::Symlink,
            libc::DT_FIFO => Self::Fifo,
            libc::DT_SOCK => Self::Socket,
            libc::DT_BLK | libc::DT_CHR => Self::Device,
            _ => Self::Unknown,
        }
    }

    /// From `st_mode`.
    pub fn from_mode(mode: libc::mode_t) -> Self {
        match mode & libc::S_IFMT {
            libc::S_IFREG => Self::File,
            libc::S_IFDIR => Self::Directory,
            libc::S_IFLNK => Self::Symlink,
            libc::S_IFIFO => Self::Fifo,
            libc::S_IFSOCK => Self::Socket,
            libc::S_IFBLK | libc::S_IFCHR => Self::Device,
            _ => Self::Unknown,
        }
    }

    /// For a sentence: `skipped FIFO "x"`.
    pub const fn words(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink => "symbolic link",
            Self::Fifo => "FIFO",
            Self::Socket => "socket",
            Self::Device => "device",
            Self::Unknown => "entry of unknown type",
        }
    }
}

impl Listing {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; LISTING_BYTES], filled: 0, at: 0 }
    }

    /// Forgets what was read of another directory.
    pub(super) fn begin(&mut self) {
        (self.filled, self.at) = (0, 0);
    }

    /// The next entry of the directory that is open as `file`.
    pub(super) fn next<K: Kernel>(
        &mut self,
        kernel: &K,
        file: BorrowedFd<'_>,
    ) -> Result<Option<Entry<'_>>, Errno> {
        loop {
            if self.at >= self.filled {
                self.filled = kernel.getdents(file, &mut self.buffer)?;
                self.at = 0;
                if self.filled == 0 {
                    return Ok(None);
                }
            }
            let start = self.at;
            let length = usize::from(u16::from_ne_bytes([self.buffer[start + 16], self.buffer[start + 17]]));
            self.at = start + length;
            let name = &self.buffer[start + NAME_AT..start + length];
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
            if !matches!(&name[..end], b"." | b"..") {
                return Ok(Some(self.entry(start, end)));
            }
        }
    }

    fn entry(&self, start: usize, name_length: usize) -> Entry<'_> {
        let mut inode = [0; 8];
        inode.copy_from_slice(&self.buffer[start..start + 8]);
        Entry {
            inode: u64::from_ne_bytes(inode),
            kind: Kind::from_readdir(self.buffer[start + 18]),
            name: &self.buffer[start + NAME_AT..start + NAME_AT + name_length],
        }
    }
}
