//! Runs that are ended from outside: results kept, nothing left, and `clean` for what a kill leaves.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use common::{fsynclab, scratch, text};
use fsynclab::results::text as form;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

struct Bed {
    work: TempDir,
}

impl Bed {
    fn new(name: &str) -> Self {
        let work = scratch(name);
        fs::create_dir(work.path().join("place")).expect("a directory");
        Self { work }
    }

    fn place(&self) -> PathBuf {
        self.work.path().join("place")
    }

    fn start(&self) -> Child {
        let mut command = fsynclab(&self.work.path().join("state"));
        command.args([
            "copy",
            "-v",
            "--rounds",
            "500",
            "--time-limit",
            "5min",
            "--policy",
            "immediate,deferred",
            "--json",
        ]);
        command.arg(self.work.path().join("r.json")).arg("--into").arg(self.place());
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program")
    }

    fn clean(&self, arguments: &[&str]) -> std::process::Output {
        let mut command = fsynclab(&self.work.path().join("state"));
        command.arg("clean").args(arguments).stdin(Stdio::null()).output().expect("the program")
    }

    fn is_empty(&self) -> bool {
        let count = |name: &str| fs::read_dir(self.work.path().join(name)).expect("the directory").count();
        count("place") == 0 && count("state") == 0
    }
}

/// Reads progress until the run is in that phase for the n-th time, then sends the signals.
fn interrupt(child: &mut Child, phase: &str, times: usize, signals: &[Signal]) -> ExitStatus {
    let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let line = format!("phase: {phase}");
    let mut said = lines.map_while(Result::ok);
    let met = said.by_ref().filter(|said| *said == line).nth(times - 1);
    assert!(met.is_some(), "the run ended before {phase}");
    for signal in signals {
        kill(Pid::from_raw(i32::try_from(child.id()).expect("a pid")), *signal).expect("a living run");
        std::thread::sleep(Duration::from_millis(2));
    }
    // The pipe is drained, or the run would wait for its reader.
    said.for_each(drop);
    child.wait().expect("the program")
}

#[test]
fn a_signal_in_any_phase_keeps_the_results_and_leaves_nothing() {
    let moments = [
        ("making", 1),
        ("settling", 3),
        ("copying", 6),
        ("syncing", 8),
        ("verifying", 4),
        ("removing", 5),
        ("writing-results", 3),
    ];
    for (signal, (phase, times)) in
        [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].iter().cycle().zip(moments)
    {
        let bed = Bed::new("signal");
        let status = interrupt(&mut bed.start(), phase, times, &[*signal, *signal]);
        assert_eq!(status.code(), Some(128 + *signal as i32), "{signal} while {phase}");
        assert!(bed.is_empty(), "{signal} while {phase}: something is left");
        match fs::read(bed.work.path().join("r.json")) {
            Ok(results) => {
                let document = form::read(&results).expect("a whole document");
                assert!(!document.complete, "{signal} while {phase}");
            }
            Err(_) => assert_eq!(phase, "making", "no results were kept"),
        }
    }
}

#[test]
fn after_a_kill_clean_removes_what_is_ours_and_nothing_else() {
    let bed = Bed::new("kill");
    let status = interrupt(&mut bed.start(), "copying", 4, &[Signal::SIGKILL]);
    assert_eq!(status.signal(), Some(9));
    let stranger = bed.place().join("stranger");
    fs::write(&stranger, "mine").expect("a file");
    assert_eq!(fs::read_dir(bed.place()).expect("the place").count(), 2, "the run directory is left");

    let output = bed.clean(&[]);
    assert_eq!(output.status.code(), Some(3), "nobody can be asked: {}", text(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("run directory"), "{}", text(&output));
    assert_eq!(fs::read_dir(bed.place()).expect("the place").count(), 2, "nothing was touched");

    let output = bed.clean(&["--yes"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(fs::read_to_string(&stranger).expect("the stranger's file"), "mine");
    fs::remove_file(&stranger).expect("the file");
    assert!(bed.is_empty());
    let results = fs::read(bed.work.path().join("r.json")).expect("the results file");
    assert!(!form::read(&results).expect("a whole document").complete);

    let output = bed.clean(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("nothing was left behind"));
}

#[test]
fn the_next_run_offers_to_clean_what_a_killed_one_left() {
    let bed = Bed::new("offer");
    interrupt(&mut bed.start(), "syncing", 2, &[Signal::SIGKILL]);
    let mut command: Command = fsynclab(&bed.work.path().join("state"));
    command.args(["copy", "--policy", "never", "--rounds", "1", "--into"]).arg(bed.place());
    let output = command.output().expect("the program");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(common::told(&output).contains("fsynclab clean"), "{}", text(&output));
    assert!(bed.clean(&["--yes"]).status.success());
    assert!(bed.is_empty());
}

#[test]
fn clean_leaves_a_living_run_alone() {
    let bed = Bed::new("alive");
    let mut child = bed.start();
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "phase: copying"));
    let output = bed.clean(&["--yes"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("nothing was left behind"), "{}", text(&output));
    kill(Pid::from_raw(i32::try_from(child.id()).expect("a pid")), Signal::SIGTERM).expect("a living run");
    lines.for_each(drop);
    assert_eq!(child.wait().expect("the program").code(), Some(143));
    assert!(bed.is_empty());
}
