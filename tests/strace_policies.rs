//! Every policy under strace: the number and the order of its calls are those that the servers' own are known to be, and
//! the results file counts what strace counts.

#[path = "strace/base_4.rs"]
mod base_4;
mod common;
#[path = "strace/expected.rs"]
mod expected;
#[path = "strace/profiles.rs"]
mod profiles;
#[path = "strace/trace.rs"]
mod trace;
#[path = "strace/trees.rs"]
mod trees;

use std::collections::BTreeMap;

use common::{FileSystem, Image, root_or_skip, scratch};
use expected::{Profile, Sync, Tree, calls};
use fsynclab::results::Sample;
use profiles::{AXES, NAMED};
use trace::{Window, call_of, trace};
use trees::Source;

/// Runs the profiles' policies over a tree on XFS, where files can share blocks, and compares every call.
fn check(profiles: &[Profile], source: &Source) -> Vec<(Profile, Window)> {
    let (work, image) = (scratch("strace"), Image::new(FileSystem::Xfs, "500M", ""));
    let policies: Vec<&str> = profiles.iter().map(|profile| profile.policy).collect();
    let (windows, document) = trace(work.path(), source.path(), &image.path(), &policies);
    for arm in &document.arms {
        assert!(
            arm.refused.is_none() && arm.failed.is_none(),
            "{}: {:?} {:?}",
            arm.name,
            arm.refused,
            arm.failed
        );
    }
    assert_eq!(windows.len(), profiles.len(), "one window a policy");
    for ((profile, seen), arm) in profiles.iter().zip(&windows).zip(&document.arms) {
        assert_eq!(arm.labels.get("policy"), Some(profile.policy));
        let wanted = calls(profile, &Tree { sizes: &source.sizes, seen });
        if profile.together {
            same_together(profile, &wanted, seen, source);
        } else {
            same(profile.policy, &wanted, &seen.lines);
        }
        counts_agree(profile, seen, &arm.samples[0]);
    }
    profiles.iter().copied().zip(windows).collect()
}

/// Number and order.
fn same(policy: &str, wanted: &[String], seen: &[String]) {
    let differs = wanted.iter().zip(seen).position(|(wanted, seen)| wanted != seen);
    let at = differs.unwrap_or(wanted.len().min(seen.len()));
    let around = |lines: &[String]| lines[at.saturating_sub(3)..(at + 4).min(lines.len())].join("\n  ");
    assert!(
        wanted.len() == seen.len() && differs.is_none(),
        "{policy}: call {at} of {} (wanted {}) is another one\nwanted:\n  {}\nseen:\n  {}",
        seen.len(),
        wanted.len(),
        around(wanted),
        around(seen)
    );
}

/// Syncs at the same time: everything before the first and after the last is in order; between them each file has its
/// calls in order. What goes through a ring is seen by strace as the number that was submitted.
fn same_together(profile: &Profile, wanted: &[String], seen: &Window, source: &Source) {
    let ring = profile.policy.contains("uring");
    let is_sync = |line: &str| {
        let file = line.split_once(" C").is_some_and(|(_, file)| source.sizes.contains_key(file));
        file && matches!(call_of(line), "fsync" | "fdatasync")
    };
    let first = wanted.iter().position(|line| is_sync(line)).expect("a sync of a file");
    let last = wanted.iter().rposition(|line| is_sync(line)).expect("a sync of a file");
    let (begin, end) = (first - usize::from(profile.sync == Sync::After), wanted.len() - last - 2);
    let middle = begin..seen.lines.len() - end;
    same(profile.policy, &wanted[..begin], &seen.lines[..begin]);
    same(profile.policy, &wanted[last + 2..], &seen.lines[middle.end..]);
    let by_file = |lines: &[String]| {
        let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in lines.iter().filter(|line| call_of(line) != "io_uring_enter" && !(ring && is_sync(line)))
        {
            let file = line.split(' ').nth(1).expect("a path").to_owned();
            files.entry(file).or_default().push(line.clone());
        }
        files
    };
    assert_eq!(by_file(&wanted[begin..last + 2]), by_file(&seen.lines[middle.clone()]), "{}", profile.policy);
    if ring {
        let entered = seen.lines.iter().filter_map(|line| line.strip_prefix("io_uring_enter "));
        let submitted: usize = entered.map(|number| number.parse::<usize>().expect("no error")).sum();
        assert_eq!(submitted, wanted.iter().filter(|line| is_sync(line)).count(), "{}", profile.policy);
    }
}

/// The results file counts as strace does: syncs that go through a ring are no calls, what submits them is.
fn counts_agree(profile: &Profile, seen: &Window, sample: &Sample) {
    assert_eq!(sample.calls, seen.counts(), "{}: the results file and strace disagree", profile.policy);
}

fn on_file(path: &str) -> bool {
    path.starts_with("C/") || path.starts_with("S/")
}

/// The numbers that PostgreSQL 15 was traced with, and what follows from its sizes for the other servers.
#[test]
fn every_named_policy_copies_base_4_of_postgresql_15_call_by_call() {
    if !root_or_skip("every_named_policy_copies_base_4_of_postgresql_15_call_by_call") {
        return;
    }
    let source = base_4::base_4();
    assert_eq!((source.sizes.len(), source.sizes.values().sum::<u64>()), (298, 7_471_619));
    let table = [
        // policy, lstat and open on files, read, write, sync_file_range, fadvise64, copy_file_range, fsync, of directories
        ("pg-8.4", [298, 596, 592, 294, 0, 0, 0, 298, 0]),
        ("pg-9.0", [596, 894, 592, 294, 0, 294, 0, 298, 1]),
        ("pg-9.3", [596, 894, 592, 294, 294, 0, 0, 298, 1]),
        ("pg-9.6", [596, 894, 592, 294, 247, 0, 0, 298, 1]),
        ("pg-16", [0, 894, 592, 294, 247, 0, 0, 298, 1]),
        ("pg-18-clone", [0, 894, 0, 0, 0, 0, 545, 298, 1]),
        ("immediate", [0, 596, 592, 294, 0, 0, 0, 298, 2]),
        ("deferred", [0, 894, 592, 294, 247, 0, 0, 298, 2]),
        ("never", [0, 596, 592, 294, 0, 0, 0, 0, 0]),
    ];
    let windows = check(NAMED, &source);
    for (policy, wanted) in table {
        let (_, seen) = windows.iter().find(|(profile, _)| profile.policy == policy).expect("a policy");
        let files = |call: &str| seen.count(call, on_file);
        let found = [
            files("newfstatat"),
            files("openat"),
            files("read"),
            files("write"),
            files("sync_file_range"),
            files("fadvise64"),
            files("copy_file_range"),
            files("fsync"),
            seen.count("fsync", |path| !on_file(path)),
        ];
        assert_eq!(found, wanted, "{policy}");
        println!("{policy}: {found:?}");
    }
}

#[test]
fn every_named_policy_copies_files_of_all_sizes_and_names_call_by_call() {
    if !root_or_skip("every_named_policy_copies_files_of_all_sizes_and_names_call_by_call") {
        return;
    }
    check(NAMED, &Source::of_all_sizes());
}

#[test]
fn every_axis_changes_its_calls_and_no_other() {
    if !root_or_skip("every_axis_changes_its_calls_and_no_other") {
        return;
    }
    check(AXES, &Source::of_all_sizes());
}

#[test]
fn the_comparison_bites() {
    let lines = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    same("equal", &lines("a,b"), &lines("a,b"));
    for (wanted, seen) in [("a,b", "b,a"), ("a,b", "a"), ("a", "a,b"), ("a C/x", "a C/y")] {
        let bitten = std::panic::catch_unwind(|| same("other", &lines(wanted), &lines(seen)));
        assert!(bitten.is_err(), "{wanted} and {seen} are not the same");
    }
}
