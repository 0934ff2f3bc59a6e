//! A kernel that makes every call and writes down what it was, short enough to be compared with what a hand wrote: `S`
//! is the source's top, `D` the copy's, `P` their parent. A read and a write of the same length are one `rw`, a hint that
//! goes on where the last ended has no offset, and what repeats has its number before it.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{FileStat, Mode};

use crate::sys::aio::Batch;
use crate::sys::kernel::{Kernel, RangeFlags};
use crate::sys::real::Real;
use crate::sys::uring::Ring;

#[derive(Default)]
struct Record {
    calls: Vec<String>,
    names: BTreeMap<RawFd, String>,
    flushed: u64,
    most_open: usize,
}

pub(super) struct Recorder {
    top: String,
    record: Mutex<Record>,
    /// As a file system that does not say what its entries are.
    pub(super) hides_types: bool,
}

impl Recorder {
    pub(super) fn new(top: &Path) -> Self {
        let top = top.to_str().expect("a name of ours is text").to_owned();
        Self { top, record: Mutex::default(), hides_types: false }
    }

    /// The calls since the last time, joined by commas.
    pub(super) fn take(&self) -> String {
        let calls = std::mem::take(&mut self.record().calls);
        folded(&calls)
    }

    /// Descriptors still open, and the most that were.
    pub(super) fn open(&self) -> (usize, usize) {
        let record = self.record();
        (record.names.len(), record.most_open)
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().expect("no call panics")
    }

    fn name(&self, path: &CStr) -> String {
        let path = path.to_string_lossy().replace(&self.top, "P");
        path.replace("P/source", "S").replace("P/copy", "D")
    }

    fn file(&self, file: BorrowedFd<'_>) -> String {
        self.record().names.get(&file.as_raw_fd()).cloned().unwrap_or_default()
    }

    fn note(&self, call: String) {
        self.record().calls.push(call);
    }
}

/// What belongs together in one word, what repeats with its number.
pub(super) fn folded(calls: &[String]) -> String {
    repeated(&paired(calls)).join(", ")
}

/// `read 5` and `write 5` as `rw 5`; `rw 5` and `hint 5` as `rwh 5`.
fn paired(calls: &[String]) -> Vec<String> {
    let mut paired: Vec<String> = Vec::new();
    for call in calls {
        let last = paired.last().map(String::as_str).unwrap_or_default();
        let (verb, rest) = call.split_once(' ').unwrap_or((call, ""));
        if verb == "write" && last == format!("read {rest}") {
            paired.pop();
            paired.push(format!("rw {rest}"));
        } else if verb == "hint" && last == format!("rw {rest}") {
            paired.pop();
            paired.push(format!("rwh {rest}"));
        } else {
            paired.push(call.clone());
        }
    }
    paired
}

fn repeated(calls: &[String]) -> Vec<String> {
    let mut runs: Vec<(usize, &String)> = Vec::new();
    for call in calls {
        match runs.last_mut() {
            Some((count, last)) if *last == call => *count += 1,
            _ => runs.push((1, call)),
        }
    }
    let shown = |(count, call): (usize, &String)| match count {
        1 => call.clone(),
        _ => format!("{count} {call}"),
    };
    runs.into_iter().map(shown).collect()
}

impl Kernel for Recorder {
    fn mkdir(&self, path: &CStr, mode: Mode) -> Result<(), Errno> {
        self.note(format!("mkdir {} {:o}", self.name(path), mode.bits()));
        Real.mkdir(path, mode)
    }

    fn open(&self, path: &CStr, flags: OFlag, mode: Mode) -> Result<OwnedFd, Errno> {
        let name = self.name(path);
        let mut words = match flags & OFlag::O_ACCMODE {
            OFlag::O_RDWR => "rdwr",
            OFlag::O_WRONLY => "wronly",
            _ if flags.contains(OFlag::O_DIRECTORY) => "opendir",
            _ => "rdonly",
        }
        .to_owned();
        for (flag, word) in [
            (OFlag::O_CREAT | OFlag::O_EXCL, "+creat"),
            (OFlag::O_DIRECT, "+direct"),
            (OFlag::O_SYNC, "+sync"),
            (OFlag::O_DSYNC, "+dsync"),
        ] {
            // O_SYNC contains O_DSYNC.
            if flags.contains(flag) && !words.ends_with("+sync") {
                words.push_str(word);
            }
        }
        self.note(format!("{words} {name}"));
        let file = Real.open(path, flags, mode)?;
        let mut record = self.record();
        record.names.insert(file.as_raw_fd(), name);
        record.most_open = record.most_open.max(record.names.len());
        record.flushed = 0;
        Ok(file)
    }

    fn close(&self, file: OwnedFd) -> Result<(), Errno> {
        let mut record = self.record();
        let name = record.names.remove(&file.as_raw_fd()).unwrap_or_default();
        record.calls.push(format!("close {name}"));
        Real.close(file)
    }

    fn getdents(&self, directory: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
        self.note(format!("dents {}", self.file(directory)));
        let length = Real.getdents(directory, buffer)?;
        let mut at = 0;
        while self.hides_types && at < length {
            buffer[at + 18] = libc::DT_UNKNOWN;
            at += usize::from(u16::from_ne_bytes([buffer[at + 16], buffer[at + 17]]));
        }
        Ok(length)
    }

    fn lstat(&self, path: &CStr) -> Result<FileStat, Errno> {
        self.note(format!("lstat {}", self.name(path)));
        Real.lstat(path)
    }

    fn read(&self, file: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
        let length = Real.read(file, buffer)?;
        self.note(if length == 0 { "eof".to_owned() } else { format!("read {length}") });
        Ok(length)
    }

    fn write(&self, file: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        self.note(format!("write {}", bytes.len()));
        Real.write(file, bytes)
    }

    fn pwrite(&self, file: BorrowedFd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        self.note(format!("pwrite {} {offset}", bytes.len()));
        Real.pwrite(file, bytes, offset)
    }

    fn copy_file_range(
        &self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        length: usize,
    ) -> Result<usize, Errno> {
        let copied = Real.copy_file_range(from, to, length)?;
        self.note(format!("range {copied}"));
        Ok(copied)
    }

    fn clone_file(&self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Errno> {
        self.note("clone".to_owned());
        Real.clone_file(from, to)
    }

    fn place(&self, file: BorrowedFd<'_>, offset: u64) -> Result<u64, Errno> {
        self.note("place".to_owned());
        Real.place(file, offset)
    }

    fn sync_file_range(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        length: u64,
        flags: RangeFlags,
    ) -> Result<(), Errno> {
        let word = match flags {
            RangeFlags::Write => "hint",
            RangeFlags::WriteAndWait => "hintwait",
            RangeFlags::Wait => "wait",
        };
        self.hinted(word, file, offset, length);
        Real.sync_file_range(file, offset, length, flags)
    }

    fn fadvise_dont_need(&self, file: BorrowedFd<'_>, offset: u64, length: u64) -> Result<(), Errno> {
        self.hinted("advise", file, offset, length);
        Real.fadvise_dont_need(file, offset, length)
    }

    fn fsync(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        self.note(format!("fsync {}", self.file(file)));
        Real.fsync(file)
    }

    fn fdatasync(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        self.note(format!("fdatasync {}", self.file(file)));
        Real.fdatasync(file)
    }

    fn syncfs(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        // Not made: it would wait for everything that others wrote.
        self.note(format!("syncfs {}", self.file(file)));
        Ok(())
    }

    fn ftruncate(&self, file: BorrowedFd<'_>, length: u64) -> Result<(), Errno> {
        self.note(format!("truncate {length}"));
        Real.ftruncate(file, length)
    }

    fn fallocate(&self, file: BorrowedFd<'_>, offset: u64, length: u64) -> Result<(), Errno> {
        self.note(format!("allocate {offset} {length}"));
        Real.fallocate(file, offset, length)
    }

    fn rename(&self, from: &CStr, to: &CStr) -> Result<(), Errno> {
        self.note(format!("rename {} {}", self.name(from), self.name(to)));
        Real.rename(from, to)
    }

    fn unlink(&self, path: &CStr) -> Result<(), Errno> {
        self.note(format!("unlink {}", self.name(path)));
        Real.unlink(path)
    }

    fn rmdir(&self, path: &CStr) -> Result<(), Errno> {
        self.note(format!("rmdir {}", self.name(path)));
        Real.rmdir(path)
    }

    fn enter_ring(&self, ring: &mut Ring) -> Result<(), Errno> {
        self.note("ring".to_owned());
        Real.enter_ring(ring)
    }

    fn submit_batch(&self, batch: &mut Batch) -> Result<usize, Errno> {
        self.note(format!("submit {}", batch.waiting()));
        Real.submit_batch(batch)
    }

    fn await_batch(&self, batch: &mut Batch) -> Result<(), Errno> {
        self.note("await".to_owned());
        Real.await_batch(batch)
    }
}

impl Recorder {
    fn hinted(&self, word: &str, file: BorrowedFd<'_>, offset: u64, length: u64) {
        let name = self.file(file);
        let mut record = self.record();
        let goes_on = offset == record.flushed && length > 0;
        record.flushed = offset + length;
        record.calls.push(match (goes_on, length) {
            (true, _) => format!("{word} {length}"),
            (false, 0) if offset == 0 => format!("{word} all of {name}"),
            (false, _) => format!("{word} {length} at {offset}"),
        });
    }
}
