//! The timed loop: a case is opened fresh for every slice, its operations are timed one by one, its files are closed.
//!
//! All work happens in one directory of ours: `test` is a file of 16 MiB of random bytes and `writer-0` … are files of one
//! block, written and synced before any clock, so that an overwrite neither allocates nor changes a size; every other
//! file is made by its case. Device counters are read beside the clock, so that they hold the operations and nothing of
//! what a case needs before and after.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use rand::Rng;

use super::cases::{At, BLOCK_BYTES, Case, MOST_WRITERS, Sync, Work};
use crate::results::DeviceCounters;
use crate::sys::clock::now_ns;
use crate::sys::kernel::{Call, Fault, Kernel, RangeFlags};
use crate::sys::watch::Watch;

/// What the names of all files begin with; a number follows some.
pub const NAMES: [&str; 6] = [TEST, WRITER, "growing", "allocated", "name", "renamed"];
const TEST: &str = "test";
const WRITER: &str = "writer";

/// The test file, as long as a WAL segment and as pg_test_fsync's.
pub const FILE_BYTES: usize = 16 << 20;

/// Where a growing file begins anew, so that a file system in memory is not filled.
pub const LONGEST_BYTES: u64 = 256 << 20;

/// The longest latency a histogram tells apart: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// O_DIRECT wants the buffer aligned to the logical block of the device; pg_test_fsync aligns to 8 kB.
const ALIGNMENT: usize = 8192;

const OWNER_ONLY: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

/// What a slice measured.
#[derive(Clone, Debug)]
pub struct Slice {
    /// Operations finished.
    pub operations: u64,
    /// From before the first to after the last, in nanoseconds.
    pub elapsed_ns: u64,
    /// Of each operation, in nanoseconds.
    pub latency_ns: Histogram<u64>,
    /// What the disk did meanwhile; absent where no whole disk is known.
    pub device: Option<DeviceCounters>,
}

/// An empty histogram of latencies, to which those of slices can be added.
///
/// # Panics
/// Never: its bounds are fixed.
pub fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("bounds that a histogram can have")
}

impl Slice {
    fn empty() -> Self {
        Self { operations: 0, elapsed_ns: 0, latency_ns: latencies(), device: None }
    }

    /// Runs operations until the time is over or somebody says stop; at least one, and the one in flight is finished
    /// and counted.
    fn fill(
        duration_ns: u64,
        watch: &dyn Watch,
        mut operation: impl FnMut() -> Result<(), Fault>,
    ) -> Result<Self, Fault> {
        let mut slice = Self::empty();
        let start_ns = now_ns();
        let mut last_ns = start_ns;
        while slice.operations == 0 || (last_ns - start_ns < duration_ns && watch.stop().is_none()) {
            operation()?;
            let now_ns = now_ns();
            slice.latency_ns.saturating_record(now_ns - last_ns);
            slice.operations += 1;
            last_ns = now_ns;
        }
        slice.elapsed_ns = last_ns - start_ns;
        Ok(slice)
    }

    fn join(mut self, other: &Self) -> Self {
        self.operations += other.operations;
        self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
        self.latency_ns += &other.latency_ns;
        self
    }
}

/// What a bench looks at beside the clock.
#[derive(Clone, Copy)]
pub struct Beside<'a> {
    /// Says when to stop: a slice then ends early.
    pub watch: &'a dyn Watch,
    /// What the disks have done so far; absent where no whole disk is known.
    pub counters: &'a dyn Fn() -> Option<DeviceCounters>,
}

/// A directory prepared for slices.
pub struct Bench<'a, K> {
    kernel: &'a K,
    beside: Beside<'a>,
    directory: PathBuf,
    random: Vec<u8>,
}

/// A path as the calls want it and as messages show it.
struct Name {
    path: PathBuf,
    c: CString,
}

impl Name {
    fn fault(&self, call: Call) -> impl FnOnce(Errno) -> Fault {
        let path = self.path.clone();
        move |errno| Fault { call, path, errno }
    }
}

/// An open file and its name.
struct File {
    name: Name,
    descriptor: OwnedFd,
}

impl File {
    fn fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl<'a, K: Kernel> Bench<'a, K> {
    /// Writes and syncs the files that are overwritten in an empty directory of ours; their bytes come from `random`.
    pub fn new(
        kernel: &'a K,
        directory: &Path,
        random: &mut impl Rng,
        beside: Beside<'a>,
    ) -> Result<Self, Fault> {
        let mut bytes = vec![0; FILE_BYTES + ALIGNMENT];
        random.fill_bytes(&mut bytes);
        let bench = Self { kernel, beside, directory: directory.to_owned(), random: bytes };
        bench.make(TEST, FILE_BYTES)?;
        for number in 0..MOST_WRITERS {
            bench.make(&writer(number), BLOCK_BYTES)?;
        }
        Ok(bench)
    }

    /// A file of its own, on disk.
    fn make(&self, name: &str, size_bytes: usize) -> Result<(), Fault> {
        let file = self.create(name)?;
        self.put(&file, self.bytes(size_bytes), 0)?;
        self.sync(&file, Sync::Fsync)?;
        self.close(file)
    }

    /// Removes what a slice that failed has left.
    pub fn clear(&self) -> Result<(), Fault> {
        let listed = std::fs::read_dir(&self.directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        for entry in listed.map_err(Fault::of_io(Call::Getdents64, &self.directory))? {
            let name = entry.file_name();
            let kept = name.as_bytes().starts_with(TEST.as_bytes())
                || name.as_bytes().starts_with(WRITER.as_bytes())
                || name.as_bytes().starts_with(b".");
            if !kept {
                self.unlink(&self.name(&name))?;
            }
        }
        Ok(())
    }

    /// Whether a fault was met at the directory itself, and not at a file in it.
    pub fn is_of_directory(&self, fault: &Fault) -> bool {
        fault.path == self.directory
    }

    /// Runs a case for about this long.
    pub fn slice(&self, case: &Case, duration_ns: u64) -> Result<Slice, Fault> {
        match case.work {
            Work::Writes { open, count, size_bytes, at, sync } => {
                let file = self.target(at, open)?;
                let slice = self.writes(&file, count, size_bytes, at, sync, duration_ns)?;
                self.leave(file, at)?;
                Ok(slice)
            }
            Work::CleanFsync => {
                let file = self.open(TEST, OFlag::O_RDWR)?;
                let slice = self.measure(duration_ns, || self.sync(&file, Sync::Fsync))?;
                self.close(file)?;
                Ok(slice)
            }
            Work::WriteFsyncClose => self.measure(duration_ns, || self.write_and_reopen(true)),
            Work::WriteCloseFsync => self.measure(duration_ns, || self.write_and_reopen(false)),
            Work::CreateName => self.create_names(duration_ns),
            Work::RenameName => self.rename_names(duration_ns),
            Work::Writers(writers) => self.writers(writers, duration_ns),
        }
    }

    /// A slice with the counters read right before and right after it.
    fn measure(
        &self,
        duration_ns: u64,
        operation: impl FnMut() -> Result<(), Fault>,
    ) -> Result<Slice, Fault> {
        self.counted(|| Slice::fill(duration_ns, self.beside.watch, operation))
    }

    fn counted(&self, slice: impl FnOnce() -> Result<Slice, Fault>) -> Result<Slice, Fault> {
        let before = (self.beside.counters)();
        let slice = slice()?;
        let after = (self.beside.counters)();
        Ok(Slice { device: before.zip(after).map(|(before, after)| after.since(before)), ..slice })
    }

    fn writes(
        &self,
        file: &File,
        count: usize,
        size_bytes: usize,
        at: At,
        sync: Sync,
        duration_ns: u64,
    ) -> Result<Slice, Fault> {
        let step_bytes = (count * size_bytes) as u64;
        let end_bytes = if at == At::Append { LONGEST_BYTES } else { FILE_BYTES as u64 };
        // As pg_test_fsync: every write of an operation comes from the start of the same buffer.
        let bytes = self.bytes(size_bytes);
        let mut offset = 0;
        self.measure(duration_ns, || {
            if at == At::SamePlace || offset + step_bytes > end_bytes {
                offset = 0;
            }
            for _ in 0..count {
                self.put(file, bytes, offset)?;
                offset += size_bytes as u64;
            }
            self.sync(file, sync)
        })
    }

    /// The file that a case writes, as it must be before the first operation.
    fn target(&self, at: At, flags: OFlag) -> Result<File, Fault> {
        match at {
            At::SamePlace | At::Moving => self.open(TEST, OFlag::O_RDWR | flags),
            At::Append => self.create("growing"),
            At::Allocated => {
                let file = self.create("allocated")?;
                let made = self.kernel.fallocate(file.fd(), 0, FILE_BYTES as u64);
                made.map_err(file.name.fault(Call::Fallocate))?;
                self.sync(&file, Sync::Fsync)?;
                Ok(file)
            }
        }
    }

    fn leave(&self, file: File, at: At) -> Result<(), Fault> {
        let made_here = matches!(at, At::Append | At::Allocated);
        let name = Name { path: file.name.path.clone(), c: file.name.c.clone() };
        self.close(file)?;
        if made_here { self.unlink(&name) } else { Ok(()) }
    }

    /// pg_test_fsync's question whether fsync on another descriptor writes what this one wrote.
    fn write_and_reopen(&self, sync_first: bool) -> Result<(), Fault> {
        let file = self.open(TEST, OFlag::O_RDWR)?;
        let written = self.kernel.write(file.fd(), self.bytes(BLOCK_BYTES));
        whole(written, BLOCK_BYTES).map_err(file.name.fault(Call::Write))?;
        if sync_first {
            self.sync(&file, Sync::Fsync)?;
        }
        self.close(file)?;
        let file = self.open(TEST, OFlag::O_RDWR)?;
        if !sync_first {
            self.sync(&file, Sync::Fsync)?;
        }
        self.close(file)
    }

    fn create_names(&self, duration_ns: u64) -> Result<Slice, Fault> {
        let directory = self.open("", OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        let mut made = 0_u64;
        let slice = self.measure(duration_ns, || {
            made += 1;
            let file = self.create(format!("name-{made}"))?;
            self.put(&file, self.bytes(BLOCK_BYTES), 0)?;
            self.sync(&file, Sync::Fsync)?;
            self.close(file)?;
            self.sync(&directory, Sync::Fsync)
        })?;
        for number in 1..=made {
            self.unlink(&self.name(format!("name-{number}")))?;
        }
        self.close(directory)?;
        Ok(slice)
    }

    fn rename_names(&self, duration_ns: u64) -> Result<Slice, Fault> {
        let directory = self.open("", OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        for name in ["renamed-0", "renamed-1"] {
            let file = self.create(name)?;
            self.put(&file, self.bytes(BLOCK_BYTES), 0)?;
            self.sync(&file, Sync::Fsync)?;
            self.close(file)?;
        }
        self.sync(&directory, Sync::Fsync)?;
        let names = [self.name("renamed-0"), self.name("renamed-1")];
        // The first rename replaces the second file; from then on the one file moves between both names.
        let mut from = 0;
        let slice = self.measure(duration_ns, || {
            let renamed = self.kernel.rename(&names[from].c, &names[1 - from].c);
            renamed.map_err(names[from].fault(Call::Rename))?;
            from = 1 - from;
            self.sync(&directory, Sync::Fsync)
        })?;
        self.unlink(&names[from])?;
        self.close(directory)?;
        Ok(slice)
    }

    /// Threads that share the flushes of one device; operations are those of all together.
    fn writers(&self, writers: usize, duration_ns: u64) -> Result<Slice, Fault> {
        let files: Vec<File> =
            (0..writers).map(|number| self.open(writer(number), OFlag::O_RDWR)).collect::<Result<_, _>>()?;
        let slice = self.counted(|| {
            let slices = self.side_by_side(&files, duration_ns);
            slices.into_iter().try_fold(Slice::empty(), |all, slice| Ok(all.join(&slice?)))
        })?;
        for file in files {
            self.close(file)?;
        }
        Ok(slice)
    }

    /// A thread a file, each overwriting its block.
    fn side_by_side(&self, files: &[File], duration_ns: u64) -> Vec<Result<Slice, Fault>> {
        let (kernel, watch, bytes) = (self.kernel, self.beside.watch, self.bytes(BLOCK_BYTES));
        std::thread::scope(|scope| {
            let write = |file| {
                scope.spawn(move || {
                    Slice::fill(duration_ns, watch, || {
                        put(kernel, file, bytes, 0)?;
                        sync(kernel, file, Sync::Fdatasync)
                    })
                })
            };
            let threads: Vec<_> = files.iter().map(write).collect();
            threads.into_iter().map(|thread| thread.join().expect("a writer does not panic")).collect()
        })
    }

    fn bytes(&self, length: usize) -> &[u8] {
        let start = self.random.as_ptr().align_offset(ALIGNMENT);
        &self.random[start..start + length]
    }

    fn name(&self, name: impl AsRef<OsStr>) -> Name {
        let name = name.as_ref();
        let path = if name.is_empty() { self.directory.clone() } else { self.directory.join(name) };
        let c = CString::new(path.as_os_str().as_bytes()).expect("a path of the file system has no NUL");
        Name { path, c }
    }

    fn open(&self, name: impl AsRef<OsStr>, flags: OFlag) -> Result<File, Fault> {
        let name = self.name(name);
        match self.kernel.open(&name.c, flags | OFlag::O_CLOEXEC, OWNER_ONLY) {
            Ok(descriptor) => Ok(File { name, descriptor }),
            Err(errno) => Err(name.fault(Call::Openat)(errno)),
        }
    }

    fn create(&self, name: impl AsRef<OsStr>) -> Result<File, Fault> {
        self.open(name, OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL)
    }

    fn put(&self, file: &File, bytes: &[u8], offset: u64) -> Result<(), Fault> {
        put(self.kernel, file, bytes, offset)
    }

    fn sync(&self, file: &File, how: Sync) -> Result<(), Fault> {
        sync(self.kernel, file, how)
    }

    fn close(&self, file: File) -> Result<(), Fault> {
        self.kernel.close(file.descriptor).map_err(file.name.fault(Call::Close))
    }

    fn unlink(&self, name: &Name) -> Result<(), Fault> {
        self.kernel.unlink(&name.c).map_err(name.fault(Call::Unlink))
    }
}

fn writer(number: usize) -> String {
    format!("{WRITER}-{number}")
}

fn put(kernel: &impl Kernel, file: &File, bytes: &[u8], offset: u64) -> Result<(), Fault> {
    let written = kernel.pwrite(file.fd(), bytes, offset);
    whole(written, bytes.len()).map_err(|errno| file.name.fault(Call::Pwrite64)(errno))
}

fn sync(kernel: &impl Kernel, file: &File, how: Sync) -> Result<(), Fault> {
    let (call, result) = match how {
        Sync::None => return Ok(()),
        Sync::Fdatasync => (Call::Fdatasync, kernel.fdatasync(file.fd())),
        Sync::Fsync => (Call::Fsync, kernel.fsync(file.fd())),
        Sync::Range => {
            let all = kernel.sync_file_range(file.fd(), 0, 0, RangeFlags::WriteAndWait);
            (Call::SyncFileRange, all)
        }
        Sync::Syncfs => (Call::Syncfs, kernel.syncfs(file.fd())),
    };
    result.map_err(|errno| file.name.fault(call)(errno))
}

/// A short write sets no error number; PostgreSQL reports it as a full disk, and so do we.
fn whole(written: Result<usize, Errno>, length: usize) -> Result<(), Errno> {
    if written? == length { Ok(()) } else { Err(Errno::ENOSPC) }
}

#[cfg(test)]
mod tests;
