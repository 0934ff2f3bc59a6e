//! What the neighbours feel: beside each trial somebody else on the same file system appends 8 kB and calls fdatasync at a
//! fixed rate. Open loop: each sync is due at its time, whatever became of the one before, and its latency counts from
//! then on; waiting for a slow one before asking for the next would hide just what is looked for.
//!
//! The syncs that count are those due while the copy is made, and the first one due after it.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use hdrhistogram::Histogram;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::arm::{Arm, CONTROL, Halt, Trial};
use super::copy_bench::{BESIDE, Bench, Workshop, settle};
use super::failed::{failed_call, failed_io};
use super::rate::{Rate, SECOND_NS};
use crate::results::{self, Labels, Note, NoteCode, Promise, Refused, Sample};
use crate::stats::{self, Percentiles};
use crate::sys::clock::now_ns;
use crate::sys::files;
use crate::sys::kernel::{Call, Fault, Kernel};
use crate::sys::memory::wake_on_time;

/// What is appended before each sync: a block of WAL.
const APPEND_BYTES: usize = 8192;
/// The longest latency the histogram tells apart: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// How long after a copy a bystander that is behind may catch up; what has not begun by then counts as it stands.
const CATCH_UP_NS: u64 = 1_000_000_000;
/// How many syncs a trial of the control is long …
const CONTROL_SYNCS: u64 = 25;
/// … and at most how long.
const CONTROL_NS: u64 = 5 * SECOND_NS;
/// How often the control asks whether to stop.
const LOOK: Duration = Duration::from_millis(20);

/// Somebody else beside the trials of one arm.
pub(super) struct Bystander<'a, K> {
    kernel: &'a K,
    path: PathBuf,
    rate: Rate,
    felt: Felt,
}

/// What was felt over the trials that count.
struct Felt {
    latency_ns: Histogram<u64>,
    /// Inside the syncs, without the waiting for those before.
    service_ns: u64,
}

impl Felt {
    fn new() -> Self {
        let latency_ns =
            Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("bounds that a histogram can have");
        Self { latency_ns, service_ns: 0 }
    }

    fn add(&mut self, other: &Self) {
        self.latency_ns.add(&other.latency_ns).expect("histograms of equal bounds and precision");
        self.service_ns += other.service_ns;
    }
}

impl<'a, K: Kernel> Bystander<'a, K> {
    /// The bystander at this place, where one is asked for.
    pub(super) fn of(bench: &Bench<'a, K>, shop: &Workshop<'_>) -> Option<Self> {
        let kernel = bench.kernel.inner();
        bench.bystander.map(|rate| Self {
            kernel,
            path: shop.directory.join(BESIDE),
            rate,
            felt: Felt::new(),
        })
    }

    /// Runs `act` with somebody else beside it; with its result, how many syncs there were.
    pub(super) fn beside<R>(
        &mut self,
        trial: &Trial,
        act: impl FnOnce() -> Result<R, Halt>,
    ) -> Result<(R, u64), Halt> {
        let phase: f64 = ChaCha8Rng::seed_from_u64(trial.seed).random();
        let neighbour =
            Neighbour::new(self.kernel, &self.path, self.rate).map_err(|fault| failed_call(&fault))?;
        let end_ns = AtomicU64::new(u64::MAX);
        let wait = Duration::from_nanos(self.rate.period_ns()).mul_f64(phase);
        let first_ns = now_ns() + u64::try_from(wait.as_nanos()).expect("less than a second");
        let (acted, felt) = thread::scope(|scope| {
            let felt = scope.spawn(|| neighbour.live(first_ns, &end_ns));
            let acted = act();
            end_ns.store(now_ns(), Ordering::Relaxed);
            (acted, felt.join().expect("a bystander does not panic"))
        });
        let acted = acted?;
        let felt = felt.map_err(|fault| failed_call(&fault))?;
        if !trial.ignored {
            self.felt.add(&felt);
        }
        Ok((acted, felt.latency_ns.len()))
    }

    /// Removes what it wrote; outside the clock.
    pub(super) fn leave(&self) -> Result<(), Halt> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|error| failed_io(Call::Unlink, &self.path, error).into()),
        }
    }

    /// What it felt so far, in the trials that count.
    pub(super) fn felt(&self) -> Option<results::Bystander> {
        let latency_ns = &self.felt.latency_ns;
        let Percentiles { n, p99_ns, max_ns, .. } = stats::percentiles(latency_ns)?;
        let (p50_ns, per_second) = (latency_ns.value_at_quantile(0.5), self.rate.per_second);
        Some(results::Bystander { per_second, n, p50_ns, p99_ns, max_ns })
    }

    /// Whether its syncs take longer than the time from one to the next.
    fn is_overloaded(&self) -> bool {
        self.felt.service_ns > self.felt.latency_ns.len().saturating_mul(self.rate.period_ns())
    }
}

/// A file of its own, ready to be appended to.
struct Neighbour<'a, K> {
    kernel: &'a K,
    path: &'a Path,
    file: OwnedFd,
    period_ns: u64,
}

impl<'a, K: Kernel> Neighbour<'a, K> {
    /// The file, with one block in it: the first sync of a file commits its name too, which is not what is measured.
    fn new(kernel: &'a K, path: &'a Path, rate: Rate) -> Result<Self, Fault> {
        let at = Fault::of(Call::Openat, path);
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_APPEND | OFlag::O_CLOEXEC;
        let file = kernel.open(&files::text(path).map_err(&at)?, flags, Mode::S_IRUSR | Mode::S_IWUSR);
        let neighbour = Self { kernel, path, file: file.map_err(at)?, period_ns: rate.period_ns() };
        neighbour.append()?;
        Ok(neighbour)
    }

    fn append(&self) -> Result<(), Fault> {
        let mut left = [0; APPEND_BYTES].as_slice();
        while !left.is_empty() {
            let written =
                self.kernel.write(self.file.as_fd(), left).map_err(Fault::of(Call::Write, self.path))?;
            left = &left[written..];
        }
        self.kernel.fdatasync(self.file.as_fd()).map_err(Fault::of(Call::Fdatasync, self.path))
    }

    /// Syncs when it is time to, until the copy's end is set and the first sync due after it is done.
    fn live(&self, first_ns: u64, end_ns: &AtomicU64) -> Result<Felt, Fault> {
        wake_on_time();
        let mut felt = Felt::new();
        let mut due_ns = first_ns;
        loop {
            thread::sleep(Duration::from_nanos(due_ns.saturating_sub(now_ns())));
            let begun_ns = now_ns();
            self.append()?;
            let done_ns = now_ns();
            felt.latency_ns.saturating_record(done_ns.saturating_sub(due_ns));
            felt.service_ns += done_ns - begun_ns;
            let end_ns = end_ns.load(Ordering::Relaxed);
            if due_ns >= end_ns {
                return Ok(felt);
            }
            due_ns += self.period_ns;
            if done_ns > end_ns.saturating_add(CATCH_UP_NS) {
                while due_ns < end_ns {
                    felt.latency_ns.saturating_record(done_ns - due_ns);
                    felt.service_ns += self.period_ns;
                    due_ns += self.period_ns;
                }
                return Ok(felt);
            }
        }
    }
}

/// The control: the bystander alone, without any copy.
pub(super) struct NoCopy<'a, K> {
    bench: &'a Bench<'a, K>,
    shop: &'a Workshop<'a>,
    bystander: Bystander<'a, K>,
    not_idle: Option<Note>,
}

impl<'a, K: Kernel> NoCopy<'a, K> {
    /// The arm's name.
    pub(super) const NAME: &'static str = "no-copy";

    /// The control at a place, where a bystander is asked for.
    pub(super) fn at(bench: &'a Bench<'a, K>, shop: &'a Workshop<'a>) -> Option<Self> {
        let bystander = Bystander::of(bench, shop)?;
        Some(Self { bench, shop, bystander, not_idle: None })
    }

    fn overloaded(&self) -> Option<Note> {
        self.bystander.is_overloaded().then(|| {
            let place = crate::sys::error::shown(self.shop.place.directory());
            let text = format!(
                "{place} cannot keep {} even without a copy: the bystander's latencies are those of a queue",
                self.bystander.rate
            );
            Note::warning(NoteCode::Overloaded, text)
        })
    }
}

impl<K: Kernel> Arm for NoCopy<'_, K> {
    fn labels(&self) -> Labels {
        Labels::new().with(CONTROL, Self::NAME).with("place", self.shop.place.id())
    }

    fn promise(&self) -> Option<Promise> {
        None
    }

    fn refused(&self) -> Option<Refused> {
        None
    }

    fn prepare(&mut self, _trial: &Trial) -> Result<(), Halt> {
        self.not_idle = settle(self.bench, self.shop)?.or(self.not_idle.take());
        Ok(())
    }

    fn run(&mut self, trial: &Trial) -> Result<Sample, Halt> {
        let (watch, place) = (self.bench.watch, self.shop.place);
        let length_ns = CONTROL_NS.min(CONTROL_SYNCS * self.bystander.rate.period_ns());
        let wait = || {
            let (before, started_ns) = (place.counters(), now_ns());
            while now_ns() - started_ns < length_ns {
                if watch.stop().is_some() {
                    return Err(Halt::Stopped);
                }
                thread::sleep(LOOK);
            }
            let device = before.zip(place.counters()).map(|(before, after)| after.since(before));
            Ok(Sample { elapsed_ns: now_ns() - started_ns, device, ..trial.sample() })
        };
        Ok(self.bystander.beside(trial, wait)?.0)
    }

    fn check(&mut self, _trial: &Trial) -> Result<(), Halt> {
        Ok(())
    }

    fn clear(&mut self, _trial: &Trial) -> Result<(), Halt> {
        self.bystander.leave()
    }

    fn latency(&self) -> BTreeMap<String, Percentiles> {
        BTreeMap::new()
    }

    fn bystander(&self) -> Option<results::Bystander> {
        self.bystander.felt()
    }

    fn notes(&self) -> Vec<Note> {
        self.overloaded().into_iter().chain(self.not_idle.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;
    use crate::sys::failing::{Effect, Failing, Planned};
    use crate::sys::real::Real;

    const MS: u64 = 1_000_000;

    fn bystander<'a, K: Kernel>(kernel: &'a K, directory: &Path, rate: &str) -> Bystander<'a, K> {
        let rate = rate.parse().expect("a rate");
        Bystander { kernel, path: directory.join(BESIDE), rate, felt: Felt::new() }
    }

    fn room() -> tempfile::TempDir {
        tempfile::tempdir_in("/var/tmp").expect("a directory on a disk")
    }

    /// One trial and its end, after which nothing of it is left.
    fn beside<K: Kernel, R>(
        bystander: &mut Bystander<'_, K>,
        ignored: bool,
        act: impl FnOnce() -> Result<R, Halt>,
    ) -> Result<(R, u64), Halt> {
        let acted = bystander.beside(&trial(ignored), act);
        bystander.leave().expect("removed");
        let room = files::directory_of(&bystander.path);
        assert_eq!(fs::read_dir(room).expect("the directory").count(), 0);
        acted
    }

    fn trial(ignored: bool) -> Trial {
        Trial { round: 1, position: 1, ignored, seed: 42 }
    }

    #[test]
    fn every_sync_due_during_the_copy_counts_and_one_more() {
        let room = room();
        let mut bystander = bystander(&Real, room.path(), "100/s");
        let act = || {
            thread::sleep(Duration::from_millis(200));
            Ok(7)
        };
        assert_eq!(beside(&mut bystander, true, act).map(|(acted, _)| acted), Ok(7));
        assert_eq!(bystander.felt(), None, "a warm-up does not count");
        let (_, appends) = beside(&mut bystander, false, act).expect("a trial");
        assert!((20..=100).contains(&appends), "{appends}: 20 or 21, more where the sleep was long");
        let felt = bystander.felt().expect("felt");
        assert_eq!((felt.n, felt.per_second, felt.p99_ns), (appends, 100, None));
        assert!(0 < felt.p50_ns && felt.p50_ns <= felt.max_ns);
    }

    #[test]
    fn a_copy_that_is_over_before_a_sync_was_due_has_one_all_the_same() {
        let room = room();
        let mut bystander = bystander(&Real, room.path(), "20/s");
        assert_eq!(beside(&mut bystander, false, || Ok(())), Ok(((), 1)));
    }

    #[test]
    fn a_copy_that_fails_is_what_is_told() {
        let room = room();
        let mut bystander = bystander(&Real, room.path(), "100/s");
        let stopped = beside(&mut bystander, false, || Err::<(), _>(Halt::Stopped));
        assert_eq!((stopped, bystander.felt()), (Err(Halt::Stopped), None));
    }

    #[test]
    fn a_sync_that_fails_voids_the_trial_whenever_it_does() {
        for first in [1, 2, 4] {
            let room = room();
            let fault = Planned::from_nth(Call::Fdatasync, first, Effect::Errno(Errno::EIO));
            let kernel = Failing::new(Real, [fault]);
            let mut bystander = bystander(&kernel, room.path(), "100/s");
            let act = || {
                thread::sleep(Duration::from_millis(100));
                Ok(())
            };
            let Err(Halt::Failed(failed)) = beside(&mut bystander, false, act) else { panic!("{first}") };
            assert_eq!(failed.call.as_deref(), Some("fdatasync"), "{first}");
            assert!(failed.text.starts_with("could not fdatasync file") && bystander.felt().is_none());
        }
    }

    /// As if everything had stood still: the copy began so long ago, and ended so long ago.
    fn lived(first_ms_ago: u64, end_ms_ago: u64) -> Histogram<u64> {
        let room = room();
        let path = room.path().join(BESIDE);
        let neighbour = Neighbour::new(&Real, &path, "100/s".parse().expect("a rate")).expect("a file");
        let now_ns = now_ns();
        let end_ns = AtomicU64::new(now_ns - end_ms_ago * MS);
        neighbour.live(now_ns - first_ms_ago * MS, &end_ns).expect("synced").latency_ns
    }

    #[test]
    fn a_latency_counts_from_the_moment_the_sync_was_due() {
        let latency_ns = lived(500, 0);
        assert_eq!(latency_ns.len(), 51, "50 while all stood still, and one more");
        assert!(latency_ns.max() >= 499 * MS && latency_ns.value_at_quantile(0.5) >= 200 * MS);
    }

    #[test]
    fn who_is_too_far_behind_to_catch_up_counts_as_it_stands() {
        let latency_ns = lived(3000, 2000);
        assert_eq!(latency_ns.len(), 100);
        assert!(latency_ns.min() >= 2000 * MS && latency_ns.max() >= 2995 * MS);
    }

    #[test]
    fn a_place_is_overloaded_where_a_sync_takes_longer_than_the_time_to_the_next() {
        let mut bystander = bystander(&Real, Path::new("/nowhere"), "50/s");
        for service_ms in [19, 22] {
            bystander.felt.latency_ns.record(service_ms * MS).expect("recorded");
            bystander.felt.service_ns += service_ms * MS;
            assert_eq!(bystander.is_overloaded(), service_ms == 22);
        }
    }
}
