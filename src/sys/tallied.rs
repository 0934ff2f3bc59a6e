//! A kernel that counts and times its calls as `strace -c` would, failed ones included, without strace's cost: two
//! reads of the vdso clock and two relaxed atomic additions a call, and a histogram under a lock for syncs only.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use hdrhistogram::Histogram;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{FileStat, Mode};

use super::aio::Batch;
use super::clock::now_ns;
use super::kernel::{Call, Kernel, RangeFlags};
use super::uring::Ring;

/// Calls whose latency is kept in a histogram.
pub const SYNCS: [Call; 4] = [Call::Fsync, Call::Fdatasync, Call::Syncfs, Call::SyncFileRange];

/// The longest latency a histogram tells apart: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// How often a call was made, and the time inside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Calls made, failed ones included.
    pub count: u64,
    /// Sum of the time inside them, in nanoseconds.
    pub elapsed_ns: u64,
}

/// What was counted since the last take.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Every call that was made at least once.
    pub calls: BTreeMap<Call, Spent>,
    /// Latencies in nanoseconds of every kind of sync that was made at least once.
    pub latency: BTreeMap<Call, Histogram<u64>>,
    /// What the first of each kind of sync took, in nanoseconds: it may have to wait for what was left undone before.
    pub first_ns: BTreeMap<Call, u64>,
}

impl Tally {
    /// How often a call was made.
    pub fn count(&self, call: Call) -> u64 {
        self.calls.get(&call).map_or(0, |spent| spent.count)
    }
}

/// A kernel and the tally of its calls. Threads share it.
#[derive(Debug)]
pub struct Tallied<K> {
    inner: K,
    calls: [Counters; Call::ALL.len()],
    latency: [Mutex<Latency>; SYNCS.len()],
}

/// On a cache line of its own, so that threads that make different calls do not slow each other.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Counters {
    count: AtomicU64,
    elapsed_ns: AtomicU64,
}

#[derive(Debug)]
struct Latency {
    all_ns: Histogram<u64>,
    first_ns: Option<u64>,
}

impl Default for Latency {
    fn default() -> Self {
        let all_ns = Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("bounds that a histogram can have");
        Self { all_ns, first_ns: None }
    }
}

impl<K> Tallied<K> {
    /// Nothing counted yet.
    pub fn new(inner: K) -> Self {
        Self { inner, calls: Default::default(), latency: Default::default() }
    }

    /// The kernel that makes the calls.
    pub fn inner(&self) -> &K {
        &self.inner
    }

    /// Adds one call that was made elsewhere, as those through a ring are.
    #[inline]
    pub fn add(&self, call: Call, elapsed_ns: u64) {
        let counters = &self.calls[call as usize];
        counters.count.fetch_add(1, Ordering::Relaxed);
        counters.elapsed_ns.fetch_add(elapsed_ns, Ordering::Relaxed);
        if let Some(position) = sync_position(call) {
            // A panic of another thread leaves a histogram that is still whole.
            let mut latency = self.latency[position].lock().unwrap_or_else(PoisonError::into_inner);
            latency.all_ns.saturating_record(elapsed_ns);
            latency.first_ns.get_or_insert(elapsed_ns);
        }
    }

    /// What was counted since the last take; counts from zero again. Meant for the moment between two trials, when no
    /// thread makes a call.
    pub fn take(&self) -> Tally {
        let mut tally = Tally::default();
        for call in Call::ALL {
            let counters = &self.calls[call as usize];
            let count = counters.count.swap(0, Ordering::Relaxed);
            let elapsed_ns = counters.elapsed_ns.swap(0, Ordering::Relaxed);
            if count > 0 {
                tally.calls.insert(call, Spent { count, elapsed_ns });
            }
        }
        for (call, latency) in SYNCS.into_iter().zip(&self.latency) {
            let mut latency = latency.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(first_ns) = latency.first_ns.take() {
                tally.first_ns.insert(call, first_ns);
                // Reset, not replaced: fresh memory would be faulted in inside the next trial's clock.
                tally.latency.insert(call, latency.all_ns.clone());
                latency.all_ns.reset();
            }
        }
        tally
    }

    #[inline]
    fn timed<R>(&self, call: Call, made: impl FnOnce(&K) -> R) -> R {
        let start_ns = now_ns();
        let result = made(&self.inner);
        self.add(call, now_ns().saturating_sub(start_ns));
        result
    }
}

#[inline]
fn sync_position(call: Call) -> Option<usize> {
    match call {
        Call::Fsync => Some(0),
        Call::Fdatasync => Some(1),
        Call::Syncfs => Some(2),
        Call::SyncFileRange => Some(3),
        _ => None,
    }
}

impl<K: Kernel> Kernel for Tallied<K> {
    fn mkdir(&self, path: &CStr, mode: Mode) -> Result<(), Errno> {
        self.timed(Call::Mkdir, |kernel| kernel.mkdir(path, mode))
    }

    fn open(&self, path: &CStr, flags: OFlag, mode: Mode) -> Result<OwnedFd, Errno> {
        self.timed(Call::Openat, |kernel| kernel.open(path, flags, mode))
    }

    fn close(&self, file: OwnedFd) -> Result<(), Errno> {
        self.timed(Call::Close, |kernel| kernel.close(file))
    }

    fn getdents(&self, directory: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
        self.timed(Call::Getdents64, |kernel| kernel.getdents(directory, buffer))
    }

    fn lstat(&self, path: &CStr) -> Result<FileStat, Errno> {
        self.timed(Call::Newfstatat, |kernel| kernel.lstat(path))
    }

    fn read(&self, file: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
        self.timed(Call::Read, |kernel| kernel.read(file, buffer))
    }

    fn write(&self, file: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        self.timed(Call::Write, |kernel| kernel.write(file, bytes))
    }

    fn pwrite(&self, file: BorrowedFd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        self.timed(Call::Pwrite64, |kernel| kernel.pwrite(file, bytes, offset))
    }

    fn copy_file_range(
        &self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        length: usize,
    ) -> Result<usize, Errno> {
        self.timed(Call::CopyFileRange, |kernel| kernel.copy_file_range(from, to, length))
    }

    fn clone_file(&self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Errno> {
        self.timed(Call::Ioctl, |kernel| kernel.clone_file(from, to))
    }

    fn place(&self, file: BorrowedFd<'_>, offset: u64) -> Result<u64, Errno> {
        self.timed(Call::Ioctl, |kernel| kernel.place(file, offset))
    }

    fn sync_file_range(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        length: u64,
        flags: RangeFlags,
    ) -> Result<(), Errno> {
        self.timed(Call::SyncFileRange, |kernel| kernel.sync_file_range(file, offset, length, flags))
    }

    fn fadvise_dont_need(&self, file: BorrowedFd<'_>, offset: u64, length: u64) -> Result<(), Errno> {
        self.timed(Call::Fadvise64, |kernel| kernel.fadvise_dont_need(file, offset, length))
    }

    fn fsync(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        self.timed(Call::Fsync, |kernel| kernel.fsync(file))
    }

    fn fdatasync(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        self.timed(Call::Fdatasync, |kernel| kernel.fdatasync(file))
    }

    fn syncfs(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        self.timed(Call::Syncfs, |kernel| kernel.syncfs(file))
    }

    fn ftruncate(&self, file: BorrowedFd<'_>, length: u64) -> Result<(), Errno> {
        self.timed(Call::Ftruncate, |kernel| kernel.ftruncate(file, length))
    }

    fn fallocate(&self, file: BorrowedFd<'_>, offset: u64, length: u64) -> Result<(), Errno> {
        self.timed(Call::Fallocate, |kernel| kernel.fallocate(file, offset, length))
    }

    fn rename(&self, from: &CStr, to: &CStr) -> Result<(), Errno> {
        self.timed(Call::Rename, |kernel| kernel.rename(from, to))
    }

    fn unlink(&self, path: &CStr) -> Result<(), Errno> {
        self.timed(Call::Unlink, |kernel| kernel.unlink(path))
    }

    fn rmdir(&self, path: &CStr) -> Result<(), Errno> {
        self.timed(Call::Rmdir, |kernel| kernel.rmdir(path))
    }

    fn enter_ring(&self, ring: &mut Ring) -> Result<(), Errno> {
        self.timed(Call::IoUringEnter, |kernel| kernel.enter_ring(ring))
    }

    fn submit_batch(&self, batch: &mut Batch) -> Result<usize, Errno> {
        self.timed(Call::IoSubmit, |kernel| kernel.submit_batch(batch))
    }

    fn await_batch(&self, batch: &mut Batch) -> Result<(), Errno> {
        self.timed(Call::IoGetevents, |kernel| kernel.await_batch(batch))
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::sys::real::Real;

    #[test]
    fn calls_are_counted_failed_ones_included_and_a_take_begins_anew() {
        let kernel = Tallied::new(Real);
        let null = kernel.open(c"/dev/null", OFlag::O_WRONLY, Mode::empty()).expect("open");
        assert_eq!(kernel.fsync(null.as_fd()), Err(Errno::EINVAL));
        assert_eq!(kernel.write(null.as_fd(), b"four"), Ok(4));
        assert_eq!(kernel.lstat(c"/no/such/file").map(|_| ()), Err(Errno::ENOENT));
        kernel.close(null).expect("close");

        let tally = kernel.take();
        let counts: Vec<(&str, u64)> =
            tally.calls.iter().map(|(call, spent)| (call.name(), spent.count)).collect();
        assert_eq!(counts, [("openat", 1), ("close", 1), ("newfstatat", 1), ("write", 1), ("fsync", 1)]);
        assert_eq!(tally.latency.keys().collect::<Vec<_>>(), [&Call::Fsync]);
        assert_eq!(tally.latency[&Call::Fsync].len(), 1);
        assert_eq!(kernel.take(), Tally::default());
    }

    #[test]
    fn a_latency_is_kept_to_three_digits_and_one_beyond_an_hour_is_not_lost() {
        let kernel = Tallied::new(Real);
        for (position, call) in SYNCS.into_iter().enumerate() {
            assert_eq!(sync_position(call), Some(position));
            kernel.add(call, 123_456_789);
            kernel.add(call, 2 * LONGEST_NS);
        }
        let tally = kernel.take();
        for call in SYNCS {
            let latency = &tally.latency[&call];
            let low = latency.min();
            assert!((123_333_333..=123_580_245).contains(&low), "{low}");
            assert!(latency.max() >= LONGEST_NS);
            assert_eq!(tally.calls[&call].elapsed_ns, 123_456_789 + 2 * LONGEST_NS);
        }
    }

    #[test]
    fn threads_share_one_tally() {
        let kernel = Tallied::new(Real);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..500).for_each(|_| kernel.add(Call::Fsync, 1000)));
            }
        });
        let tally = kernel.take();
        assert_eq!(tally.calls[&Call::Fsync], Spent { count: 2000, elapsed_ns: 2_000_000 });
        assert_eq!(tally.latency[&Call::Fsync].len(), 2000);
    }
}
