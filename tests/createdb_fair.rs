//! The same server twice shows no difference, one without fsync does. On a simulated drive that takes its time for every
//! write, wherever that goes: there syncing is most of the work, whatever else the machine does.

mod common;
#[path = "common/postgres.rs"]
#[expect(dead_code, reason = "the program makes the clusters here, not the test")]
mod postgres;

use std::os::unix::fs::PermissionsExt;

use fsynclab::results::{Comparison, text};
use fsynclab::stats::Verdict;
use postgres::directory;

/// A network volume: no head that is nearer to one cluster than to another.
const PLACE: &str = "sim:cloud-3000";

/// What comparing two arms of FILE_COPY finds.
fn compared(arguments: &[&str]) -> Comparison {
    let state = common::scratch("fair");
    // The cluster's user gets through to the drive below it.
    std::fs::set_permissions(state.path(), std::fs::Permissions::from_mode(0o711)).expect("mode");
    let json = state.path().join("results.json");
    let mut command = common::fsynclab(state.path());
    command.args(["createdb", "--scratch", PLACE, "--strategy", "file_copy"]).args(arguments);
    command.args(["--rounds", "8", "--creates", "1", "--json"]).arg(&json);
    let output = command.output().expect("the program");
    assert!(output.status.success(), "{}", common::text(&output));
    let found = text::read(&std::fs::read(&json).expect("results")).expect("a document");
    found.comparisons.into_iter().next().expect("two arms")
}

/// An interval of 95 % is wrong once in twenty runs; not twice in a row.
#[test]
fn the_same_server_twice_shows_no_difference() {
    if !common::root_or_skip("the_same_server_twice_shows_no_difference") {
        return;
    }
    let bin = directory(15).to_string_lossy().into_owned();
    let (one, other) = (format!("one={bin}"), format!("other={bin}"));
    let twice = || compared(&["--bin", &one, "--bin", &other]);
    let found: Vec<_> =
        (0..2).map(|_| twice()).take_while(|found| found.verdict != Verdict::NoDifferenceShown).collect();
    assert!(found.len() < 2, "{found:?}");
}

#[test]
fn a_server_without_fsync_is_faster_by_a_factor() {
    if !common::root_or_skip("a_server_without_fsync_is_faster_by_a_factor") {
        return;
    }
    let found = compared(&["--bin", &directory(15).to_string_lossy(), "--vary", "fsync=on,off"]);
    assert_eq!(found.verdict, Verdict::Faster, "{found:?}");
    assert!(found.ratio.is_some_and(|ratio| ratio > 2.0), "{found:?}");
}
