//! The same server twice shows no difference, one without fsync does. In a file of its own: other tests beside it would
//! scatter its times.

mod common;
#[path = "common/postgres.rs"]
#[expect(dead_code, reason = "the program makes the clusters here, not the test")]
mod postgres;

use fsynclab::results::text;
use postgres::{Bench, directory};

/// The verdict of a run with two arms of FILE_COPY. Its template has many small files, so that syncing them is most of the
/// work even on a fast disk.
fn verdict(bench: &Bench, arguments: &[&str]) -> String {
    let json = bench.state.path().join("results.json");
    let mut command = common::fsynclab(bench.state.path());
    command.args(["createdb", "--scratch"]).arg(bench.place.path()).args(arguments);
    command.args([
        "--strategy",
        "file_copy",
        "--rounds",
        "8",
        "--creates",
        "1",
        "--make-template",
        "tables=60",
    ]);
    let output = command.arg("--json").arg(&json).output().expect("the program");
    assert!(output.status.success(), "{}", common::text(&output));
    let found = text::read(&std::fs::read(&json).expect("results")).expect("a document");
    std::fs::remove_file(json).expect("results");
    let comparison = found.comparisons.first().expect("two arms");
    serde_json::to_value(comparison.verdict).expect("text").as_str().expect("text").to_owned()
}

/// An interval of 95 % is wrong once in twenty runs, and a busy machine may hide a difference once; not twice in a row.
fn soon(expected: &str, once: impl Fn() -> String) {
    let found: Vec<String> = (0..2).map(|_| once()).take_while(|found| found != expected).collect();
    assert!(found.len() < 2, "{found:?} in place of {expected}");
}

#[test]
fn the_same_server_twice_shows_no_difference_and_one_without_fsync_does() {
    let bench = Bench::new("fair");
    let bin = directory(15).to_string_lossy().into_owned();
    let (one, other) = (format!("one={bin}"), format!("other={bin}"));
    soon("no-difference-shown", || verdict(&bench, &["--bin", &one, "--bin", &other]));
    soon("faster", || verdict(&bench, &["--bin", &one, "--vary", "fsync=on,off"]));
    bench.close([]);
}
