//! Trees: directories, odd names, what is no file, orders, descriptors, observers.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Mutex;

use nix::sys::stat::Mode;

use super::recorder::Recorder;
use super::{Bench, everywhere, parse};
use crate::replay::engine::{Kind, Observer};
use crate::replay::verify::{Verify, verify};
use crate::sys::real::Real;
use crate::sys::watch::Quiet;

/// A source that was modified within the tick in which its copy begins is taken for one that changed.
fn let_age() {
    std::thread::sleep(std::time::Duration::from_millis(30));
}

fn equal(bench: &Bench, policy: &str) {
    let verified = verify(&Real, &bench.source(), &bench.copy(), Verify::Full, &Quiet);
    let verified = verified.unwrap_or_else(|error| panic!("{policy}: {error}"));
    assert!(verified.changed.is_empty(), "{policy}: {:?}", verified.changed);
}

/// Where each of these comes in the calls.
fn positions(calls: &str, wanted: &[&str]) -> Vec<usize> {
    let calls: Vec<_> = calls.split(", ").collect();
    let at = |wanted: &&str| {
        let found = calls.iter().position(|call| call == wanted);
        found.unwrap_or_else(|| panic!("{wanted} is not in {calls:?}"))
    };
    wanted.iter().map(at).collect()
}

#[test]
fn every_policy_copies_a_tree_with_odd_names_and_skips_what_is_no_file() {
    let bench = Bench::with(&[("empty", 0), ("sub/deep/a", 8193), ("sub/b", 70_000), ("c", 3_000_001)]);
    fs::create_dir(bench.source().join("hollow")).expect("directory");
    let long = [b'n'; 255];
    let odd: [&[u8]; 7] = [b"-rf", b" ", b"a\nb", b"q\"'\\", "\u{e4}".as_bytes(), b"\xff\xfe", &long];
    for name in odd {
        fs::write(bench.source().join(OsStr::from_bytes(name)), name).expect("file");
    }
    nix::unistd::mkfifo(&bench.source().join("sub/fifo"), Mode::S_IRWXU).expect("FIFO");
    let _socket = UnixListener::bind(bench.source().join("socket")).expect("socket");
    std::os::unix::fs::symlink("c", bench.source().join("link")).expect("link");
    let_age();
    for policy in everywhere() {
        let copied = bench.replay(&Real, policy).expect(policy);
        equal(&bench, policy);
        assert_eq!((copied.files, copied.directories), (11, 4), "{policy}");
        let mut skipped: Vec<_> = copied.skipped.iter().map(|skipped| skipped.kind).collect();
        skipped.sort();
        assert_eq!(skipped, [Kind::Symlink, Kind::Fifo, Kind::Socket], "{policy}");
        assert_eq!(copied.changed, Vec::<std::path::PathBuf>::new());
        let parts: u64 = copied.phases.values().sum();
        assert_eq!(parts, copied.elapsed_ns, "{policy}");
        assert_eq!(copied.promise(&parse(policy)), parse(policy).promise());
        let mode = |name: &str| fs::metadata(bench.copy().join(name)).expect("facts").mode() & 0o7777;
        assert_eq!((mode("sub"), mode("sub/b")), (0o700, 0o600), "{policy}");
    }
}

#[test]
fn a_tree_without_files_is_copied_and_its_directories_synced() {
    let bench = Bench::new();
    let recorder = Recorder::new(bench.top.path());
    for policy in everywhere() {
        let copied = bench.replay(&recorder, policy).expect(policy);
        assert_eq!((copied.files, copied.bytes, copied.directories), (0, 0, 1));
    }
    bench.replay(&recorder, "deferred").expect("copy");
    assert!(recorder.take().ends_with("rdonly D, fsync D, close D, rdonly P, fsync P, close P"));
}

#[test]
fn where_readdir_does_not_say_what_an_entry_is_lstat_does() {
    let bench = Bench::with(&[("sub/a", 1)]);
    let mut recorder = Recorder::new(bench.top.path());
    recorder.hides_types = true;
    let_age();
    for policy in everywhere() {
        bench.replay(&recorder, policy).expect(policy);
        equal(&bench, policy);
    }
    recorder.take();
    bench.replay(&recorder, "pg-16").expect("copy");
    let calls = recorder.take();
    positions(&calls, &["lstat S/sub", "lstat S/sub/a", "lstat D/sub/a", "fsync D/sub/a"]);
}

#[test]
fn servers_sync_a_directory_before_they_copy_the_next_and_others_all_at_the_end() {
    let bench = Bench::with(&[("a", 1), ("sub/b", 1)]);
    let recorder = Recorder::new(bench.top.path());
    let order = ["fsync D/a", "fsync D", "mkdir D/sub 700", "fsync D/sub/b", "fsync D/sub"];
    for policy in ["pg-9.6", "pg-16", "deferred+scope=directory"] {
        bench.replay(&recorder, policy).expect(policy);
        assert!(positions(&recorder.take(), &order).is_sorted(), "{policy}");
    }
    let order = ["mkdir D/sub 700", "fsync D/a", "fsync D/sub/b", "fsync D/sub", "fsync D", "fsync P"];
    for policy in ["deferred", "threads+jobs=2", "deferred+sync=held"] {
        bench.replay(&recorder, policy).expect(policy);
        assert!(positions(&recorder.take(), &order).is_sorted(), "{policy}");
    }
}

#[test]
fn files_are_synced_in_the_order_that_is_asked_for() {
    let bench = Bench::with(&[("three", 3), ("one", 1), ("four", 4), ("two", 2)]);
    let recorder = Recorder::new(bench.top.path());
    let synced = |policy: &str| {
        bench.replay(&recorder, policy).expect(policy);
        let calls = recorder.take();
        let files = calls.split(", ").filter_map(|call| call.strip_prefix("fsync D/"));
        files.map(str::to_owned).collect::<Vec<_>>()
    };
    let readdir = synced("deferred+dirs=none");
    let reversed: Vec<_> = readdir.iter().rev().cloned().collect();
    for when in ["each", "after", "held"] {
        let by = |order: &str| {
            synced(&format!(
                "never+sync={when}{}",
                if order.is_empty() { String::new() } else { format!("+order={order}") }
            ))
        };
        assert_eq!(by("size"), ["one", "two", "three", "four"], "{when}");
        assert_eq!(
            by("reverse"),
            if when == "each" { by("").into_iter().rev().collect() } else { reversed.clone() }
        );
        let mut inodes = by("inode");
        let inode = |tree: &Path, name: &str| fs::metadata(tree.join(name)).expect("facts").ino();
        let tree = if when == "each" { bench.source() } else { bench.copy() };
        assert!(inodes.is_sorted_by_key(|name| inode(&tree, name)), "{when}: {inodes:?}");
        inodes.sort();
        assert_eq!(inodes, ["four", "one", "three", "two"]);
    }
}

#[test]
fn descriptors_are_bounded_and_none_is_left_open() {
    let bench = Bench::new();
    for number in 0..100 {
        bench.file(&format!("{number}"), 10);
    }
    for (policy, most) in [
        ("deferred", 3),
        ("immediate", 3),
        ("pg-9.6", 3),
        ("reverse", 3),
        ("deferred+sync=held", 8 + 2),
        ("deferred+sync=held+jobs=64+via=io-uring", 8 + 2),
        ("uring", 8),
        ("threads", 8),
    ] {
        let recorder = Recorder::new(bench.top.path());
        let copied = bench.replay(&recorder, policy).expect(policy);
        assert_eq!(copied.files, 100);
        let (left, most_open) = recorder.open();
        assert_eq!(left, 0, "{policy}");
        assert!(most_open <= most, "{policy}: {most_open}");
    }
}

#[derive(Default)]
struct Ledger(Mutex<Vec<String>>);

impl Ledger {
    fn note(&self, word: &str, path: &Path) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.0.lock().expect("no holder panics").push(format!("{word} {name}"));
    }
}

impl Observer for Ledger {
    fn synced(&self, path: &Path) {
        self.note("file", path);
    }

    fn directory_synced(&self, path: &Path) {
        self.note("directory", path);
    }

    fn done(&self) {
        self.note("done", Path::new(""));
    }
}

#[test]
fn an_observer_hears_of_every_file_and_directory_that_is_durable_and_of_no_other() {
    let bench = Bench::with(&[("a", 1), ("empty", 0)]);
    let told = |policy: &str| {
        let ledger = Ledger::default();
        bench.replay_watched(&Real, policy, &Quiet, &ledger).expect(policy);
        let mut told = ledger.0.into_inner().expect("no holder panics");
        assert_eq!(told.pop().as_deref(), Some("done "), "{policy}");
        told.retain(|line| !line.starts_with("directory .") && !line.starts_with("directory replay"));
        told.sort();
        told
    };
    for policy in
        ["immediate", "deferred", "o-dsync", "uring", "threads", "deferred+sync=held", "direct", "aio"]
    {
        assert_eq!(told(policy), ["directory copy", "file a", "file empty"], "{policy}");
    }
    assert_eq!(told("pg-8.4"), ["file a", "file empty"]);
    assert!(told("never").is_empty() && told("git-batch").is_empty() && told("syncfs").is_empty());
}
