//! Where the output goes and what the environment asks for: closed and full streams, colour, locale, width.

mod common;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{fsynclab, scratch, text};
use fsynclab::results::text as form;
use tempfile::TempDir;

/// A small run in a directory of its own.
fn small(work: &TempDir) -> Command {
    let here = work.path().join("here");
    fs::create_dir_all(&here).expect("a directory");
    fs::write(work.path().join("a.shape"), "fsynclab shape 1\n3 4096 PG_VERSION\n8192 8192 2619\nend 2\n")
        .expect("a shape");
    let mut command = fsynclab(&work.path().join("state"));
    command
        .arg("copy")
        .arg(work.path().join("a.shape"))
        .args(["--rounds", "1", "--seed", "7"])
        .current_dir(here);
    command
}

#[track_caller]
fn nothing_is_left(work: &TempDir) {
    for directory in ["here", "state"] {
        let left: Vec<_> = fs::read_dir(work.path().join(directory)).expect("the directory").collect();
        assert!(left.is_empty(), "{directory}: {left:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let work = scratch("closed");
    let mut child = small(&work).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program");
    let mut first = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    stdout.read_line(&mut first).expect("the first line");
    drop(stdout);
    let output = child.wait_with_output().expect("the program");
    assert!(first.contains("2 files"), "{first}");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(!common::told(&output).contains("panicked"), "{}", text(&output));
    nothing_is_left(&work);
}

#[test]
fn a_full_output_disk_is_told_and_ends_with_1() {
    for list in [&["copy", "--list-policies"][..], &["--help"], &["man"]] {
        let work = scratch("full");
        let full = File::options().write(true).open("/dev/full").expect("/dev/full");
        let output = fsynclab(work.path()).args(list).stdout(full).output().expect("the program");
        assert_eq!(output.status.code(), Some(1), "{list:?}: {}", text(&output));
        let stderr = common::told(&output);
        assert!(
            stderr.contains("could not write to standard output: No space left on device"),
            "{list:?}: {stderr}"
        );
    }
    let work = scratch("full");
    let full = File::options().write(true).open("/dev/full").expect("/dev/full");
    let output = small(&work).stdout(full).output().expect("the program");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    nothing_is_left(&work);
}

#[test]
fn results_that_cannot_be_kept_end_the_run_with_1() {
    let work = scratch("unkept");
    let output = small(&work).args(["--json", "/dev/full"]).output().expect("the program");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(common::told(&output).contains("No space left on device"), "{}", text(&output));
    nothing_is_left(&work);
}

#[test]
fn closed_streams_leave_nothing_behind() {
    let work = scratch("shut");
    let mut child = small(&work).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program");
    drop((child.stdout.take(), child.stderr.take()));
    let status = child.wait().expect("the program");
    assert_eq!(status.code(), Some(0));
    nothing_is_left(&work);
}

#[test]
fn with_a_dash_the_document_stands_alone_on_stdout() {
    let work = scratch("dash");
    let output = small(&work).args(["--json", "-", "--color", "always"]).output().expect("the program");
    let document = form::read(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
    assert!(document.complete);
    assert_eq!((document.seed, document.arms.len()), (7, 3));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        stderr.lines().filter(|line| line.starts_with("round ")).count(),
        2,
        "a line a round: {stderr}"
    );
}

#[test]
fn a_results_file_is_replaced_and_an_older_one_is_no_hindrance() {
    let work = scratch("replaced");
    let results = work.path().join("r.json");
    fs::write(&results, "{\n  \"schema\": \"fsynclab.results/0\",\n").expect("a file");
    let output = small(&work).arg("--json").arg(&results).output().expect("the program");
    assert!(output.status.success(), "{}", text(&output));
    let document = form::read(&fs::read(&results).expect("the results")).expect("a document");
    assert!(document.complete);
    nothing_is_left(&work);
    let beside = fs::read_dir(work.path()).expect("the directory").flatten();
    let names: Vec<_> = beside.map(|entry| entry.file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().contains(".tmp")), "{names:?}");
}

#[test]
fn colour_is_asked_for_and_refused_as_usual() {
    let coloured = |arguments: &[&str], variables: &[(&str, &str)]| {
        let work = scratch("colour");
        let output =
            small(&work).args(arguments).envs(variables.iter().copied()).output().expect("the program");
        assert!(output.status.success(), "{}", text(&output));
        output.stdout.contains(&0x1b)
    };
    assert!(!coloured(&[], &[]), "not on a pipe");
    assert!(coloured(&["--color", "always"], &[]));
    assert!(coloured(&[], &[("PG_COLOR", "always")]));
    assert!(!coloured(&[], &[("PG_COLOR", "always"), ("NO_COLOR", "1")]));
    assert!(!coloured(&["--color", "never"], &[("PG_COLOR", "always")]));
}

/// What a terminal of that many columns shows, escapes included.
fn on_a_terminal(columns: u16, work: &TempDir) -> String {
    let mut inner = small(work);
    inner.args(["--policy", "immediate,deferred+hint=write-and-wait+every=pass+order=inode"]);
    let words: Vec<String> = std::iter::once(inner.get_program())
        .chain(inner.get_args())
        .map(|word| format!("'{}'", word.to_string_lossy()))
        .collect();
    let shell = format!("stty cols {columns}; exec {}", words.join(" "));
    let mut command = Command::new("script");
    command.args(["-qec", &shell, "/dev/null"]).current_dir(work.path().join("here"));
    command.env("FSYNCLAB_STATE_DIR", work.path().join("state")).env("TERM", "xterm").stdin(Stdio::null());
    let output = command.output().expect("script");
    assert!(output.status.success(), "{}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_terminal_of_any_width_gets_the_same_report() {
    for columns in [20, 40, 80, 200] {
        let work = scratch("terminal");
        let shown = on_a_terminal(columns, &work);
        assert!(shown.contains("vs immediate") && shown.contains("seed 7"), "{columns}: {shown}");
        assert!(!shown.contains("panicked"), "{columns}: {shown}");
        nothing_is_left(&work);
    }
}

#[test]
fn no_locale_changes_a_number() {
    let work = scratch("locale");
    let results = work.path().join("r.json");
    let mut command = small(&work);
    command.env("LC_ALL", "de_DE.UTF-8").env("LANG", "de_DE.UTF-8").env("LANGUAGE", "de");
    let output = command.arg("--json").arg(&results).output().expect("the program");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        stdout.contains("MB/s") && stdout.contains("immediate is ") || stdout.contains("too few rounds"),
        "{stdout}"
    );
    assert!(!stdout.contains("0,"), "{stdout}");
    assert!(form::read(&fs::read(&results).expect("the results")).is_ok());
}

#[test]
fn passwords_on_the_command_line_do_not_reach_the_document() {
    let work = scratch("password");
    let target = work.path().join("here/password=secret");
    fs::create_dir_all(&target).expect("a directory");
    let output =
        small(&work).args(["--json", "-", "--into"]).arg("password=secret").output().expect("the program");
    let document = form::read(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
    assert_eq!(document.argv.last().map(String::as_str), Some("password=***"));
    assert!(document.argv.contains(&"--into".to_owned()));
}

#[test]
fn the_state_directory_is_made_and_one_that_cannot_be_is_told_with_a_hint() {
    let work = scratch("state");
    let output = small(&work).env("FSYNCLAB_STATE_DIR", "/proc/no/such").output().expect("the program");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let stderr = common::told(&output);
    assert!(
        stderr.contains("could not keep a journal") && stderr.contains("hint: set FSYNCLAB_STATE_DIR"),
        "{stderr}"
    );
    assert!(!Path::new("/proc/no").exists());
}

#[test]
fn progress_goes_to_stderr_only() {
    let work = scratch("progress");
    let mut child =
        small(&work).arg("-v").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program");
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    let output = child.wait_with_output().expect("the program");
    for phase in ["making", "settling", "copying", "syncing", "verifying", "removing", "undoing"] {
        assert!(said.contains(&format!("phase: {phase}")), "{phase} is not in: {said}");
    }
    assert!(!String::from_utf8_lossy(&output.stdout).contains("phase: "));
}
