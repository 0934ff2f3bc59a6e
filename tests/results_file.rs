//! Results files that are older, newer, torn, edited or somebody else's: read where they can be, else refused in words.

mod common;

use std::fs;

use common::{fsynclab, scratch, text, told};
use fsynclab::results::text::read;
use serde_json::{Value, json};

/// A document as a run writes it.
fn whole() -> String {
    let work = scratch("results-file");
    let place = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let mut command = fsynclab(&work.path().join("state"));
    command.args([
        "copy",
        "many-small:3",
        "--policy",
        "immediate,never",
        "--rounds",
        "2",
        "--json",
        "-",
        "--into",
    ]);
    let output = command.arg(place.path()).output().expect("the program");
    assert!(output.status.success(), "{}", text(&output));
    String::from_utf8(output.stdout).expect("JSON is UTF-8")
}

fn edited(whole: &str, pointer: &str, value: Value) -> String {
    let mut document: Value = serde_json::from_str(whole).expect("JSON");
    *document.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = value;
    document.to_string()
}

#[test]
fn a_torn_file_is_refused_wherever_it_was_torn() {
    let whole = whole();
    assert!(read(whole.as_bytes()).is_ok());
    let end = whole.trim_end().len();
    for length in (0..end).step_by(97).chain([end - 1]) {
        let error = read(&whole.as_bytes()[..length]).expect_err("a torn file");
        assert!(error.to_string().contains("was cut short"), "{length} bytes: {error}");
    }
}

#[test]
fn what_another_version_wrote_or_somebody_edited_is_refused_in_words() {
    let whole = whole();
    let table = [
        (
            "/schema",
            json!("fsynclab.results/2"),
            "results file has schema \"fsynclab.results/2\"; this program reads",
        ),
        (
            "/schema",
            json!("fsynclab.results/0"),
            "results file has schema \"fsynclab.results/0\"; this program reads",
        ),
        ("/schema", Value::Null, "it has no \"schema\" field"),
        ("/schema", json!(1), "not a results file: "),
        ("/seed", json!("42"), "not a results file: "),
        ("/arms/0/samples/0/elapsed_ns", json!(-5), "not a results file: "),
        ("/arms/0/samples/0/elapsed_ns", json!("1,5"), "not a results file: "),
        ("/arms/0/samples/0/elapsed_ns", json!(1.5), "not a results file: "),
        ("/arms", json!({}), "not a results file: "),
        ("/arms/0/promise", json!("everything"), "not a results file: "),
    ];
    for (pointer, value, wanted) in table {
        let edited = edited(&whole, pointer, value.clone());
        let error = read(edited.as_bytes()).expect_err("an edited file");
        assert!(error.to_string().contains(wanted), "{pointer} = {value}: {error}");
    }
    for (other, wanted) in [("", "was cut short"), ("{}", "no \"schema\""), ("[1]", "not a results file: ")] {
        let error = read(other.as_bytes()).expect_err("another file");
        assert!(error.to_string().contains(wanted), "{other}: {error}");
    }
}

/// A field that this version does not know is of no harm, nor is another machine's host.
#[test]
fn what_a_later_version_adds_is_read_over() {
    let whole = whole();
    let host =
        json!({"kernel": "4.19.0-arm64", "cpus": 1, "memory_bytes": 1, "load_1m": 0.5, "hypervisor": "none"});
    for (pointer, value) in [("/host", host), ("/argv", json!(["fsynclab", "copy", "on another machine"]))] {
        let edited = edited(&whole, pointer, value);
        read(edited.as_bytes()).unwrap_or_else(|error| panic!("{pointer}: {error}"));
    }
}

#[test]
fn a_command_that_reads_results_names_the_file_it_cannot_read() {
    let work = scratch("results-file");
    let whole = whole();
    let torn = work.path().join("torn.json");
    fs::write(&torn, &whole[..whole.len() / 2]).expect("a file");
    let mut command = fsynclab(&work.path().join("state"));
    let output = command.arg("compare").arg(&torn).arg(&torn).output().expect("the program");
    let stderr = told(&output);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(stderr.contains("torn.json") && stderr.contains("was cut short"), "{stderr}");
    let lines = String::from_utf8_lossy(&output.stderr).lines().count();
    assert!(!stderr.contains("panicked") && lines < 4, "{stderr}");
}
