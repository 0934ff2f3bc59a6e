//! What the engine makes of calls that fail.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;

use super::{Bench, everywhere, parse};
use crate::replay::engine::{Copied, EngineError};
use crate::results::Promise;
use crate::sys::failing::{Effect, Failing, Planned};
use crate::sys::kernel::Call;
use crate::sys::real::Real;
use crate::sys::tallied::{Tallied, Tally};
use crate::sys::watch::{Event, Stop, Watch};

fn bench() -> Bench {
    Bench::with(&[("a", 70_000), ("empty", 0), ("sub/b", 2_000_000), ("sub/c", 3)])
}

/// A copy with faults to come, and the calls that were made, those struck included.
fn broken(bench: &Bench, policy: &str, plan: &[Planned]) -> (Result<Copied, EngineError>, Tally) {
    let kernel = Tallied::new(Failing::new(Real, plan.iter().copied()));
    let result = bench.replay(&kernel, policy);
    assert_eq!(kernel.inner().never_struck(), [], "{policy}");
    (result, kernel.take())
}

fn fails(call: Call, n: u64, errno: Errno) -> Planned {
    Planned::nth(call, n, Effect::Errno(errno))
}

#[test]
fn eio_of_any_call_ends_every_policy_with_a_fault_that_names_it() {
    let bench = bench();
    for policy in everywhere().filter(|policy| *policy != "syncfs") {
        let kernel = Tallied::new(Real);
        bench.replay(&kernel, policy).expect(policy);
        for (call, spent) in kernel.take().calls {
            for n in [1, spent.count.div_ceil(2), spent.count] {
                // How often a ring is entered is up to the drive.
                let n = if call == Call::IoUringEnter { 1 } else { n };
                let (result, tally) = broken(&bench, policy, &[fails(call, n, Errno::EIO)]);
                match result {
                    Err(EngineError::Fault(fault)) => {
                        assert_eq!((fault.call, fault.errno), (call, Errno::EIO), "{policy}");
                        assert!(fault.path.starts_with(bench.top.path()), "{policy}: {fault}");
                    }
                    other => panic!("{policy}: {n}. {call}: {other:?}"),
                }
                let alone = parse(policy).axes().jobs == 1;
                assert!(tally.count(call) == n || !alone, "{policy}: {call} was made again");
            }
        }
    }
}

#[test]
fn a_fault_is_worded_as_postgresql_words_it() {
    let bench = bench();
    let (result, _) = broken(&bench, "deferred", &[fails(Call::Fsync, 1, Errno::EIO)]);
    let error = result.expect_err("a failed sync").to_string();
    assert!(error.starts_with("could not fsync file \"") && error.ends_with("\": Input/output error"));
}

#[test]
fn a_refused_directory_sync_lowers_the_promise_to_data() {
    let bench = Bench::with(&[("a", 5)]);
    for errno in [Errno::EINVAL, Errno::EBADF, Errno::ENOTSUP, Errno::ENOSYS] {
        let (result, _) = broken(&bench, "immediate", &[fails(Call::Fsync, 2, errno)]);
        let copied = result.expect("a copy all the same");
        assert_eq!(copied.directory_refused, Some(errno));
        assert_eq!(copied.promise(&parse("immediate")), Promise::Data);
        let (result, _) = broken(&bench, "immediate", &[fails(Call::Fsync, 1, errno)]);
        assert!(matches!(result, Err(EngineError::Fault(_))), "a file's sync is never refused");
    }
}

#[test]
fn hints_that_are_not_supported_are_tried_once() {
    let bench = bench();
    let policies = [
        ("pg-9.3", Call::SyncFileRange),
        ("pg-9.0", Call::Fadvise64),
        ("git-batch", Call::SyncFileRange),
        ("initdb-sync", Call::SyncFileRange),
        ("dpkg", Call::SyncFileRange),
        ("dpkg+sync=held", Call::SyncFileRange),
        ("deferred+sync=held+every=pass", Call::SyncFileRange),
    ];
    for (policy, call) in policies {
        for errno in [Errno::ENOSYS, Errno::ESPIPE, Errno::EPERM] {
            let (result, tally) = broken(&bench, policy, &[fails(call, 1, errno)]);
            let copied = result.expect("a copy all the same");
            assert_eq!((copied.hint_unsupported, copied.files), (Some(errno), 4), "{policy}");
            assert_eq!(tally.count(call), 1, "{policy}");
            assert_eq!(copied.promise(&parse(policy)), parse(policy).promise());
        }
    }
}

#[test]
fn copy_file_range_that_cannot_be_falls_back_except_where_a_server_would_not() {
    let bench = bench();
    let plan = [fails(Call::CopyFileRange, 1, Errno::EXDEV)];
    let (result, tally) = broken(&bench, "immediate+copy=copy-file-range", &plan);
    assert_eq!(result.expect("a copy").fell_back, Some(Errno::EXDEV));
    assert_eq!(tally.count(Call::CopyFileRange), 1);
    let (result, _) = broken(&bench, "pg-18-clone", &plan);
    assert!(matches!(result, Err(EngineError::Fault(fault)) if fault.errno == Errno::EXDEV));
}

#[test]
fn a_call_that_was_interrupted_is_made_again() {
    let bench = Bench::with(&[("a", 70_000), ("b", 8192), ("sub/c", 2_000_000), ("sub/d", 3)]);
    for (policy, call) in [
        ("pg-18-clone", Call::CopyFileRange),
        ("pg-16", Call::SyncFileRange),
        ("pg-16", Call::Fsync),
        ("uring", Call::IoUringEnter),
        ("aio", Call::IoSubmit),
        ("aio", Call::IoGetevents),
    ] {
        let (result, _) = broken(&bench, policy, &[fails(call, 1, Errno::EINTR)]);
        assert_eq!(result.expect(policy).files, 4);
    }
}

#[test]
fn a_short_write_is_a_full_disk() {
    let bench = bench();
    for policy in ["immediate", "direct"] {
        let (result, _) = broken(&bench, policy, &[Planned::nth(Call::Write, 2, Effect::Short)]);
        let error = result.expect_err("a short write").to_string();
        assert!(error.starts_with("could not write to file"), "{error}");
        assert!(error.ends_with(": No space left on device"), "{error}");
    }
}

#[test]
fn a_file_that_is_gone_before_it_is_opened_has_changed() {
    let bench = Bench::with(&[("a", 5)]);
    // The first open is of the source's directory.
    let (result, _) = broken(&bench, "deferred", &[fails(Call::Openat, 2, Errno::ENOENT)]);
    let copied = result.expect("a copy");
    assert_eq!((copied.changed, copied.files), (vec![bench.source().join("a")], 0));
    let (result, _) = broken(&bench, "pg-9.6", &[fails(Call::Newfstatat, 1, Errno::ENOENT)]);
    assert_eq!(result.expect("a copy").changed, [bench.source().join("a")]);
    fs::remove_dir_all(bench.source()).expect("source");
    let result = bench.replay(&Real, "deferred");
    assert!(matches!(result, Err(EngineError::Fault(fault)) if fault.errno == Errno::ENOENT));
}

#[test]
fn an_existing_destination_is_never_touched() {
    let bench = bench();
    bench.replay(&Real, "never").expect("copy");
    let policy = parse("never");
    let mut engine =
        crate::replay::engine::Engine::new(&Real, &policy, crate::replay::means::Means::default())
            .expect("engine");
    let result = engine.replay(&bench.source(), &bench.copy(), &crate::sys::watch::Quiet, &());
    assert!(matches!(result, Err(EngineError::Fault(fault)) if fault.errno == Errno::EEXIST));
}

/// Says stop when it was asked so often.
struct Impatient {
    asked: AtomicU32,
    patience: u32,
}

impl Watch for Impatient {
    fn event(&self, _event: Event<'_>) {}

    fn stop(&self) -> Option<Stop> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        (asked >= self.patience).then_some(Stop::TimeLimit)
    }
}

#[test]
fn a_copy_stops_between_files_wherever_it_is_asked_to() {
    let bench = bench();
    for policy in everywhere() {
        let patience = |patience| Impatient { asked: AtomicU32::new(0), patience };
        let watch = patience(u32::MAX);
        bench.replay_watched(&Real, policy, &watch, &()).expect(policy);
        let asked = watch.asked.into_inner();
        assert!(asked >= 5, "{policy}: asked {asked} times");
        for stop_at in 0..asked {
            let result = bench.replay_watched(&Real, policy, &patience(stop_at), &());
            assert_eq!(result, Err(EngineError::Stopped(Stop::TimeLimit)), "{policy}, {stop_at}");
        }
    }
}
