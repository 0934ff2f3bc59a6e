//! The FUSE file system: a root directory and in it one file, the drive.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    Errno as FuseErrno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, Request, WriteFlags,
};
use nix::errno::Errno;

use super::answer::Answer;
use super::engine::{Asked, Engine};
use super::pool::Pool;
use super::readers::{Read, Readers};
use super::store::Store;
use crate::simdrive::model::Operation;
use crate::sys::clock::now_ns;

/// Attributes never change, so the kernel may keep them.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);
const FILE: INodeNo = INodeNo(2);

/// One file, served from a store at the pace of an engine.
pub struct DriveFile {
    /// The drive's tag: the file has every name that begins with it.
    pub tag: String,
    /// Its length.
    pub size_bytes: u64,
    /// What is in it.
    pub store: Arc<Store>,
    /// When answers leave.
    pub engine: Arc<Engine>,
    /// For what is read.
    pub pool: Arc<Pool>,
    /// Fetch what is in the file only.
    pub readers: Arc<Readers>,
}

impl DriveFile {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let (kind, perm, size) = if inode == FILE {
            (FileType::RegularFile, 0o600, self.size_bytes)
        } else {
            (FileType::Directory, 0o700, 0)
        };
        let long_ago = SystemTime::UNIX_EPOCH;
        FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: long_ago,
            mtime: long_ago,
            ctime: long_ago,
            crtime: long_ago,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for DriveFile {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let most = u32::try_from(super::MOST_BYTES).map_err(|_| Errno::EINVAL)?;
        let in_flight = u16::try_from(super::MOST_IN_FLIGHT).map_err(|_| Errno::EINVAL)?;
        let set = config
            .set_max_write(most)
            .and_then(|_| config.set_max_background(in_flight).map_err(u32::from))
            .and_then(|_| config.set_congestion_threshold(in_flight).map_err(u32::from));
        set.map_err(|_| Errno::EINVAL)?;
        // Without it the kernel makes one request of a time out of what the loop device sends side by side.
        config.add_capabilities(InitFlags::FUSE_ASYNC_DIO).map_err(|_| Errno::EOPNOTSUPP.into())
    }

    fn lookup(&self, _request: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name.as_encoded_bytes().starts_with(self.tag.as_bytes()) {
            reply.entry(&FOR_EVER, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(FuseErrno::ENOENT);
        }
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _file: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOR_EVER, &self.attributes(inode));
    }

    fn open(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO
            | FopenFlags::FOPEN_NOFLUSH
            | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _file: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let arrived_ns = now_ns();
        let left = self.size_bytes.saturating_sub(offset);
        let length = u64::from(size).min(left);
        let count = super::MOST_BYTES.min(usize::try_from(length).unwrap_or(usize::MAX));
        let asked = asked(Operation::Read, offset, count as u64, arrived_ns);
        let mut bytes = self.pool.lend(count);
        if self.store.read_staged(offset, &mut bytes[..count]) {
            self.engine.submit(asked, &[], Answer::Read(reply, bytes, count));
            return;
        }
        match self.engine.begin_read(asked) {
            Ok(id) => self.readers.push(Read { id, offset, length: count, bytes, reply }),
            Err(errno) => reply.error(FuseErrno::from_i32(errno as i32)),
        }
    }

    fn write(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _file: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let arrived_ns = now_ns();
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        match self.store.write(offset, data) {
            Ok(()) => {
                let answer = Answer::Written(reply, length);
                self.engine.submit(
                    asked(Operation::Write, offset, u64::from(length), arrived_ns),
                    data,
                    answer,
                );
            }
            Err(errno) => reply.error(FuseErrno::from_i32(errno as i32)),
        }
    }

    fn fsync(&self, _request: &Request, _inode: INodeNo, _file: FileHandle, _data: bool, reply: ReplyEmpty) {
        let arrived_ns = now_ns();
        match self.store.broken() {
            None => self.engine.submit(asked(Operation::Flush, 0, 0, arrived_ns), &[], Answer::Done(reply)),
            Some(errno) => reply.error(FuseErrno::from_i32(errno as i32)),
        }
    }

    /// What the loop device makes of discards and of writes of zeroes.
    fn fallocate(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _file: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let arrived_ns = now_ns();
        if mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) == 0 {
            reply.error(FuseErrno::EOPNOTSUPP);
            return;
        }
        match self.store.discard(offset, length) {
            Ok(()) => {
                self.engine.submit(
                    asked(Operation::Discard, offset, length, arrived_ns),
                    &[],
                    Answer::Done(reply),
                );
            }
            Err(errno) => reply.error(FuseErrno::from_i32(errno as i32)),
        }
    }
}

fn asked(operation: Operation, offset_bytes: u64, length_bytes: u64, arrived_ns: u64) -> Asked {
    Asked { operation, offset_bytes, length_bytes, arrived_ns }
}
