use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::probe::cases::CASES;
use crate::sys::failing::{Effect, Failing, Planned};
use crate::sys::real::Real;
use crate::sys::tallied::Tallied;
use crate::sys::watch::{Event, Quiet, Stop};

const BESIDE: Beside<'_> = Beside { watch: &Quiet, counters: &|| None };

fn seeded() -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(42)
}

fn left(directory: &Path) -> usize {
    std::fs::read_dir(directory).expect("the directory").count()
}

/// One operation of every case: what is called, and that nothing but the test file is left.
#[test]
fn an_operation_makes_the_calls_its_case_names() {
    let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let kernel = Tallied::new(Real);
    let bench = Bench::new(&kernel, directory.path(), &mut seeded(), BESIDE).expect("a bench");
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
                assert_eq!(tally.count(Call::Fsync), u64::from(sync == Sync::Fsync) + prepared, "{case:?}");
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
        assert_eq!(left(directory.path()), 1 + MOST_WRITERS, "{case:?} leaves its files");
    }
}

#[test]
fn a_failing_sync_ends_the_slice_with_call_path_and_error() {
    let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let kernel = Failing::new(Real, [Planned::nth(Call::Fdatasync, 3, Effect::Errno(Errno::EIO))]);
    let bench = Bench::new(&kernel, directory.path(), &mut seeded(), BESIDE).expect("a bench");
    let case = crate::probe::cases::find("one8", "fdatasync").expect("a case");
    let fault = bench.slice(case, 1_000_000_000).expect_err("the third fdatasync fails");
    assert_eq!((fault.call, fault.errno), (Call::Fdatasync, Errno::EIO));
    assert!(fault.path.ends_with("test"));
}

#[test]
fn what_a_failed_slice_leaves_is_cleared() {
    let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let kernel = Failing::new(Real, [Planned::nth(Call::Rename, 2, Effect::Errno(Errno::EIO))]);
    let bench = Bench::new(&kernel, directory.path(), &mut seeded(), BESIDE).expect("a bench");
    let case = crate::probe::cases::find("names", "rename").expect("a case");
    let fault = bench.slice(case, 1_000_000_000).expect_err("the second rename fails");
    assert_eq!(fault.call, Call::Rename);
    assert_eq!(left(directory.path()), 2 + MOST_WRITERS, "the failed slice left a file");
    bench.clear().expect("cleared");
    assert_eq!(left(directory.path()), 1 + MOST_WRITERS);
}

#[test]
fn the_counters_hold_the_operations_and_not_what_a_case_prepares() {
    let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let kernel = Tallied::new(Real);
    let syncs = std::cell::Cell::new(0);
    let counters = || {
        let made = kernel.take();
        syncs.set(syncs.get() + made.count(Call::Fsync) + made.count(Call::Fdatasync));
        Some(DeviceCounters { flushes: syncs.get(), ..DeviceCounters::default() })
    };
    let beside = Beside { watch: &Quiet, counters: &counters };
    let bench = Bench::new(&kernel, directory.path(), &mut seeded(), beside).expect("a bench");
    for (block, method, syncs) in [("wal", "allocated", 1), ("names", "create", 2), ("names", "rename", 1)] {
        let case = crate::probe::cases::find(block, method).expect("a case");
        let slice = bench.slice(case, 0).expect("one operation");
        assert_eq!(slice.device.map(|device| device.flushes), Some(syncs), "{case:?}");
    }
}

/// Says stop from the start.
struct Stopping;

impl Watch for Stopping {
    fn event(&self, _event: Event<'_>) {}

    fn stop(&self) -> Option<Stop> {
        Some(Stop::TimeLimit)
    }
}

#[test]
fn a_stop_ends_a_slice_after_the_operation_in_flight() {
    let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let beside = Beside { watch: &Stopping, ..BESIDE };
    let bench = Bench::new(&Real, directory.path(), &mut seeded(), beside).expect("a bench");
    let case = crate::probe::cases::find("nosync", "write").expect("a case");
    assert_eq!(bench.slice(case, u64::MAX).expect("a slice").operations, 1);
}
