//! The timed loop: a case is opened fresh for every slice, its operations are timed one by one, its files are closed.
//!
//! All work happens in one directory of ours: `test` is a file of 16 MiB of random bytes, written and synced before any
//! clock, so that an overwrite neither allocates nor changes a size; every other file is made by its case.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use rand::Rng;

use super::cases::{At, BLOCK_BYTES, Case, Sync, Work};
use crate::sys::clock::now_ns;
use crate::sys::kernel::{Call, Fault, Kernel, RangeFlags};

/// The test file, as long as a WAL segment and as pg_test_fsync's.
pub const FILE_BYTES: usize = 16 << 20;

/// Where a growing file begins anew, so that a file system in memory is not filled.
const LONGEST_BYTES: u64 = 256 << 20;

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
}

impl Slice {
    fn empty() -> Self {
        let latency_ns =
            Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("bounds that a histogram can have");
        Self { operations: 0, elapsed_ns: 0, latency_ns }
    }

    /// Runs operations until the time is over; at least one, and the one in flight is finished and counted.
    fn fill(duration_ns: u64, mut operation: impl FnMut() -> Result<(), Fault>) -> Result<Self, Fault> {
        let mut slice = Self::empty();
        let start_ns = now_ns();
        let mut last_ns = start_ns;
        while last_ns - start_ns < duration_ns || slice.operations == 0 {
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

/// A directory prepared for slices.
#[derive(Debug)]
pub struct Bench<'a, K> {
    kernel: &'a K,
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
    /// Writes and syncs the test file in an empty directory of ours; its bytes come from `random`.
    pub fn new(kernel: &'a K, directory: &Path, random: &mut impl Rng) -> Result<Self, Fault> {
        let mut bytes = vec![0; FILE_BYTES + ALIGNMENT];
        random.fill_bytes(&mut bytes);
        let bench = Self { kernel, directory: directory.to_owned(), random: bytes };
        let file = bench.create("test")?;
        bench.put(&file, bench.bytes(FILE_BYTES), 0)?;
        bench.sync(&file, Sync::Fsync)?;
        bench.close(file)?;
        Ok(bench)
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
                let file = self.open("test", OFlag::O_RDWR)?;
                let slice = Slice::fill(duration_ns, || self.sync(&file, Sync::Fsync))?;
                self.close(file)?;
                Ok(slice)
            }
            Work::WriteFsyncClose => Slice::fill(duration_ns, || self.write_and_reopen(true)),
            Work::WriteCloseFsync => Slice::fill(duration_ns, || self.write_and_reopen(false)),
            Work::CreateName => self.create_names(duration_ns),
            Work::RenameName => self.rename_names(duration_ns),
            Work::Writers(writers) => self.writers(writers, duration_ns),
        }
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
        Slice::fill(duration_ns, || {
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
            At::SamePlace | At::Moving => self.open("test", OFlag::O_RDWR | flags),
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
        let file = self.open("test", OFlag::O_RDWR)?;
        let written = self.kernel.write(file.fd(), self.bytes(BLOCK_BYTES));
        whole(written, BLOCK_BYTES).map_err(file.name.fault(Call::Write))?;
        if sync_first {
            self.sync(&file, Sync::Fsync)?;
        }
        self.close(file)?;
        let file = self.open("test", OFlag::O_RDWR)?;
        if !sync_first {
            self.sync(&file, Sync::Fsync)?;
        }
        self.close(file)
    }

    fn create_names(&self, duration_ns: u64) -> Result<Slice, Fault> {
        let directory = self.open("", OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        let mut made = 0_u64;
        let slice = Slice::fill(duration_ns, || {
            made += 1;
            let file = self.create(&format!("name{made}"))?;
            self.put(&file, self.bytes(BLOCK_BYTES), 0)?;
            self.sync(&file, Sync::Fsync)?;
            self.close(file)?;
            self.sync(&directory, Sync::Fsync)
        })?;
        for number in 1..=made {
            self.unlink(&self.name(&format!("name{number}")))?;
        }
        self.close(directory)?;
        Ok(slice)
    }

    fn rename_names(&self, duration_ns: u64) -> Result<Slice, Fault> {
        let directory = self.open("", OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        for name in ["renamed0", "renamed1"] {
            let file = self.create(name)?;
            self.put(&file, self.bytes(BLOCK_BYTES), 0)?;
            self.sync(&file, Sync::Fsync)?;
            self.close(file)?;
        }
        self.sync(&directory, Sync::Fsync)?;
        let names = [self.name("renamed0"), self.name("renamed1")];
        // The first rename replaces the second file; from then on the one file moves between both names.
        let mut from = 0;
        let slice = Slice::fill(duration_ns, || {
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
            (0..writers).map(|number| self.written(&format!("writer{number}"))).collect::<Result<_, _>>()?;
        let bytes = self.bytes(BLOCK_BYTES);
        let slices: Vec<Result<Slice, Fault>> = std::thread::scope(|scope| {
            let threads: Vec<_> = files
                .iter()
                .map(|file| {
                    scope.spawn(move || {
                        Slice::fill(duration_ns, || {
                            self.put(file, bytes, 0)?;
                            self.sync(file, Sync::Fdatasync)
                        })
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("a writer does not panic")).collect()
        });
        for file in files {
            self.leave(file, At::Append)?;
        }
        slices.into_iter().try_fold(Slice::empty(), |all, slice| Ok(all.join(&slice?)))
    }

    /// A new file of one block, on disk.
    fn written(&self, name: &str) -> Result<File, Fault> {
        let file = self.create(name)?;
        self.put(&file, self.bytes(BLOCK_BYTES), 0)?;
        self.sync(&file, Sync::Fsync)?;
        Ok(file)
    }

    fn bytes(&self, length: usize) -> &[u8] {
        let start = self.random.as_ptr().align_offset(ALIGNMENT);
        &self.random[start..start + length]
    }

    fn name(&self, name: &str) -> Name {
        let path =
            if name.is_empty() { self.directory.clone() } else { self.directory.join(OsStr::new(name)) };
        let c = CString::new(path.as_os_str().as_bytes()).expect("a path of the file system has no NUL");
        Name { path, c }
    }

    fn open(&self, name: &str, flags: OFlag) -> Result<File, Fault> {
        let name = self.name(name);
        match self.kernel.open(&name.c, flags, OWNER_ONLY) {
            Ok(descriptor) => Ok(File { name, descriptor }),
            Err(errno) => Err(name.fault(Call::Openat)(errno)),
        }
    }

    fn create(&self, name: &str) -> Result<File, Fault> {
        self.open(name, OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL)
    }

    fn put(&self, file: &File, bytes: &[u8], offset: u64) -> Result<(), Fault> {
        let written = self.kernel.pwrite(file.fd(), bytes, offset);
        whole(written, bytes.len()).map_err(|errno| file.name.fault(Call::Pwrite64)(errno))
    }

    fn sync(&self, file: &File, sync: Sync) -> Result<(), Fault> {
        let (call, result) = match sync {
            Sync::None => return Ok(()),
            Sync::Fdatasync => (Call::Fdatasync, self.kernel.fdatasync(file.fd())),
            Sync::Fsync => (Call::Fsync, self.kernel.fsync(file.fd())),
            Sync::Range => {
                let all = self.kernel.sync_file_range(file.fd(), 0, 0, RangeFlags::WriteAndWait);
                (Call::SyncFileRange, all)
            }
            Sync::Syncfs => (Call::Syncfs, self.kernel.syncfs(file.fd())),
        };
        result.map_err(|errno| file.name.fault(call)(errno))
    }

    fn close(&self, file: File) -> Result<(), Fault> {
        self.kernel.close(file.descriptor).map_err(file.name.fault(Call::Close))
    }

    fn unlink(&self, name: &Name) -> Result<(), Fault> {
        self.kernel.unlink(&name.c).map_err(name.fault(Call::Unlink))
    }
}

/// A short write sets no error number; PostgreSQL reports it as a full disk, and so do we.
fn whole(written: Result<usize, Errno>, length: usize) -> Result<(), Errno> {
    if written? == length { Ok(()) } else { Err(Errno::ENOSPC) }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::probe::cases::CASES;
    use crate::sys::failing::{Effect, Failing, Planned};
    use crate::sys::real::Real;
    use crate::sys::tallied::Tallied;

    fn seeded() -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(42)
    }

    /// One operation of every case: what is called, and that nothing but the test file is left.
    #[test]
    fn an_operation_makes_the_calls_its_case_names() {
        let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let kernel = Tallied::new(Real);
        let bench = Bench::new(&kernel, directory.path(), &mut seeded()).expect("a bench");
        for case in CASES {
            kernel.take();
            let slice = match bench.slice(case, 0) {
                Ok(slice) => slice,
                Err(fault) => panic!("{} {}: {fault}", case.block, case.method),
            };
            let tally = kernel.take();
            let expected = match case.work {
                Work::Writes { count, sync, at, .. } => {
                    assert_eq!(tally.count(Call::Pwrite64), count as u64, "{case:?}");
                    let prepared = u64::from(at == At::Allocated);
                    assert_eq!(
                        tally.count(Call::Fsync),
                        u64::from(sync == Sync::Fsync) + prepared,
                        "{case:?}"
                    );
                    assert_eq!(tally.count(Call::Fdatasync), u64::from(sync == Sync::Fdatasync), "{case:?}");
                    assert_eq!(tally.count(Call::Syncfs), u64::from(sync == Sync::Syncfs), "{case:?}");
                    assert_eq!(tally.count(Call::SyncFileRange), u64::from(sync == Sync::Range), "{case:?}");
                    1
                }
                Work::Writers(writers) => {
                    assert_eq!(tally.count(Call::Fdatasync), slice.operations, "{case:?}");
                    assert!(slice.operations >= writers as u64, "{case:?}");
                    slice.operations
                }
                Work::CreateName => {
                    assert_eq!(tally.count(Call::Fsync), 2, "{case:?}");
                    1
                }
                _ => 1,
            };
            assert_eq!(slice.operations, expected, "{case:?}");
            assert_eq!(slice.latency_ns.len(), expected, "{case:?}");
            let left: Vec<_> = std::fs::read_dir(directory.path()).expect("the directory").collect();
            assert_eq!(left.len(), 1, "{case:?} leaves its files");
        }
    }

    #[test]
    fn a_failing_sync_ends_the_slice_with_call_path_and_error() {
        let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let kernel = Failing::new(Real, [Planned::nth(Call::Fdatasync, 3, Effect::Errno(Errno::EIO))]);
        let bench = Bench::new(&kernel, directory.path(), &mut seeded()).expect("a bench");
        let case = crate::probe::cases::find("one8", "fdatasync").expect("a case");
        let fault = bench.slice(case, 1_000_000_000).expect_err("the third fdatasync fails");
        assert_eq!((fault.call, fault.errno), (Call::Fdatasync, Errno::EIO));
        assert!(fault.path.ends_with("test"));
    }
}
