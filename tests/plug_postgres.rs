//! The plug is pulled on real servers: what they acknowledged is there on honest drives, every lie is found, and the checker
//! that is blind says so. Here it is a tenth of what `tests/campaign-postgres` does. Needs root, and `tests/servers`.

#![expect(clippy::print_stdout, reason = "the table is its reader's")]

mod common;
#[expect(dead_code, reason = "the program makes its clusters itself")]
#[path = "common/postgres.rs"]
mod postgres;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use fsynclab::report;
use fsynclab::results::{Arm, Document, PowerCuts, Recoveries, text};
use fsynclab::server::cluster::inside;
use fsynclab::sys::watch::Deadline;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use postgres::directory;
use tempfile::TempDir;

/// A place and a state directory of a test's own.
struct Bed {
    place: TempDir,
    state: TempDir,
}

impl Bed {
    fn new(name: &str) -> Self {
        let place = common::scratch(name);
        // The server's user must get through.
        std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).expect("mode");
        Self { place, state: common::scratch(name) }
    }

    fn plug(&self, arguments: &[&str]) -> Command {
        let mut command = common::fsynclab(self.state.path());
        command.args(["plug", "postgres", "--scratch"]).arg(self.place.path()).args(arguments);
        command
    }

    fn file(&self, name: &str) -> PathBuf {
        self.state.path().join(name)
    }

    /// Nothing of a run is left: no directory, no process, no journal.
    fn is_clean(&self) -> bool {
        let empty = |path: &Path| std::fs::read_dir(path).expect("it is there").count() == 0;
        let journals = std::fs::read_dir(self.state.path()).expect("it is there").flatten();
        empty(self.place.path())
            && inside(self.place.path()).is_empty()
            && !journals.into_iter().any(|entry| entry.file_name().to_string_lossy().contains("journal"))
    }
}

fn read(path: &Path) -> Document {
    text::read(&std::fs::read(path).expect("results are written")).expect("a document")
}

fn cut(arm: &Arm) -> (&PowerCuts, &Recoveries) {
    let failed = arm.failed.as_ref().map(|failed| failed.text.as_str());
    assert_eq!(failed, None, "{}", arm.name);
    (arm.power_cuts.as_ref().expect("it was cut"), arm.recoveries.as_ref().expect("it recovered"))
}

/// A line of the campaign's table.
fn row(name: &str, cuts: &PowerCuts, recoveries: &Recoveries) -> String {
    let count =
        |names: &[&str]| -> u64 { names.iter().filter_map(|verdict| cuts.verdicts.get(*verdict)).sum() };
    let time = |time: Option<u64>| time.map_or_else(|| "-".to_owned(), report::duration);
    format!(
        "| {name} | {} of {} | {} | {} | {} | {}, {} |",
        count(&["kept", "needs-fsck"]),
        cuts.cuts + cuts.aimed,
        count(&["lost"]),
        count(&["corrupt"]),
        count(&["does-not-start", "does-not-mount"]),
        time(recoveries.recovery_median_ns),
        time(recoveries.recovery_max_ns)
    )
}

/// How many random cuts, and how long the server works before: a tenth of the campaign unless it says so.
fn length() -> (u32, &'static str) {
    match std::env::var("FSYNCLAB_CAMPAIGN_CUTS") {
        Ok(cuts) => (cuts.parse().expect("a number of cuts"), "30s"),
        Err(_) => (6, "6s"),
    }
}

/// Cuts a server on a drive and holds it to what is expected of each arm.
fn check(spec: &str, major: u32, options: &[&str], expected: &[bool]) {
    let bed = Bed::new("plug-postgres");
    let (cuts, duration) = length();
    let (cuts, aimed, json) = (cuts.to_string(), cuts.div_ceil(2).max(6).to_string(), bed.file("out.json"));
    let bin = directory(major).to_string_lossy().into_owned();
    let mut command =
        bed.plug(&["--sim", spec, "--bin", &bin, "--cuts", &cuts, "--aimed", &aimed, "--seed", "1"]);
    let output = command
        .args(["--duration", duration, "--json"])
        .arg(&json)
        .args(options)
        .output()
        .expect("it starts");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), common::text(&output));
    let code = if expected.iter().all(|kept| *kept) { 0 } else { 4 };
    assert_eq!(output.status.code(), Some(code), "{spec} {options:?}: {said}");
    assert!(String::from_utf8_lossy(&output.stdout).lines().all(|line| line.chars().count() <= 79), "{said}");
    let document = read(&json);
    assert_eq!((document.injector_valid, document.complete), (Some(true), true));
    let expected_all = expected.len();
    assert_eq!(document.arms.len(), expected_all);
    for (arm, expected) in document.arms.iter().zip(expected) {
        let (found, recoveries) = cut(arm);
        let title = arm.title.as_deref().filter(|_| expected_all > 1).unwrap_or_default();
        let name = format!("`{spec}`, {major} {title}");
        println!("table {}", row(&name, found, recoveries));
        assert_eq!(found.promise_kept, *expected, "{name}: {said}");
        assert_eq!(found.bound_95.is_some(), *expected, "{name}");
        assert!(
            recoveries.commits_synchronous > 20 && recoveries.commits_asynchronous > 20,
            "{name}: {recoveries:?}"
        );
        assert!(recoveries.databases > 0 && recoveries.restores > 0, "{name}: {recoveries:?}");
        if !expected {
            assert!(said.contains("LOST OR DAMAGED") && !found.examples.is_empty(), "{name}: {said}");
        }
    }
    std::fs::remove_file(json).expect("it was written");
    assert!(bed.is_clean(), "{spec}");
}

#[test]
fn with_the_cache_off_every_sync_method_survives() {
    let methods = ["--vary", "wal_sync_method=fdatasync,fsync,open_datasync"];
    check("ide-2003,write-cache=off,size=1GiB", 15, &methods, &[true, true, true]);
}

#[test]
fn with_the_cache_on_an_honest_flush_saves_everything() {
    check("ide-2003,write-cache=on,size=1GiB", 15, &[], &[true]);
}

#[test]
fn with_the_cache_on_a_server_is_damaged_where_flushes_are_not_asked_for() {
    check("ide-2003,write-cache=on,size=1GiB,mount=nobarrier", 15, &[], &[false]);
}

#[test]
fn with_the_cache_on_a_server_is_damaged_where_flushes_are_ignored() {
    check("ide-2003,write-cache=on,flush=ignored,size=1GiB", 15, &[], &[false]);
}

#[test]
fn a_server_that_does_not_sync_is_found_whatever_the_drive() {
    check("ide-2003,write-cache=off,size=1GiB", 15, &["--vary", "fsync=on,off"], &[true, false]);
}

#[test]
fn half_a_page_is_found_where_pages_are_not_kept_whole_in_the_wal() {
    check("nvme-consumer,size=1GiB", 15, &["--vary", "full_page_writes=on,off"], &[true, false]);
}

#[test]
fn other_builds_on_other_file_systems_lose_nothing() {
    check("nvme-consumer,fs=xfs,size=1GiB", 18, &[], &[true]);
    check("nvme-consumer,fs=btrfs,size=1GiB", 16, &[], &[true]);
    check("sata-2009,size=1GiB", 17, &["--set", "wal_level=minimal", "--set", "max_wal_senders=0"], &[true]);
}

fn little(bed: &Bed, options: &[&str]) -> Output {
    let mut command =
        bed.plug(&["--sim", "ide-2003,flush=ignored,size=512MiB", "--seed", "3", "--duration", "4s"]);
    command.args(["--bin"]).arg(directory(15)).args(options).output().expect("it starts")
}

#[test]
fn an_example_can_be_seen_again_and_a_blind_checker_says_so() {
    let bed = Bed::new("plug-postgres-again");
    let (log, json) = (bed.file("log"), bed.file("out.json"));
    let (log, json) = (log.to_string_lossy(), json.to_string_lossy());
    let output = little(&bed, &["--cuts", "4", "--aimed", "8", "--write-log", &log, "--json", &json]);
    assert_eq!(output.status.code(), Some(4), "{}", common::text(&output));
    let document = read(Path::new(&*json));
    let example = &cut(&document.arms[0]).0.examples[0];
    let output = little(&bed, &["--from-log", &log, "--image", &example.image]);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(4), "{shown}{}", common::text(&output));
    assert!(shown.starts_with(&format!("{}: ", example.verdict)), "{shown}");
    let again = shell_words::split(&example.command).expect("a command line");
    let output = bed.plug(&[]).args(&again[3..]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(4), "{again:?}: {}", common::text(&output));
    let output = little(&bed, &["--cuts", "1", "--from-log", &log, "--blind"]);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("INJECTOR INVALID"), "{shown}");
    assert!(bed.is_clean());
}

#[test]
fn a_time_limit_keeps_what_was_judged_and_a_kill_leaves_nothing_that_clean_does_not_undo() {
    let bed = Bed::new("plug-postgres-ended");
    let json = bed.file("out.json").to_string_lossy().into_owned();
    let output = little(&bed, &["--cuts", "4000", "--time-limit", "25s", "--json", &json]);
    let document = read(Path::new(&json));
    let said = common::text(&output);
    assert!(
        !document.complete && document.notes.iter().any(|note| note.text.contains("time limit")),
        "{said}"
    );
    assert!(bed.is_clean(), "{said}");
    for (wait_s, signal) in [(4, Signal::SIGKILL), (14, Signal::SIGKILL), (9, Signal::SIGINT)] {
        let mut command =
            bed.plug(&["--sim", "nvme-consumer,size=512MiB", "--cuts", "4000", "--duration", "4s"]);
        command.arg("--bin").arg(directory(15)).process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it starts");
        std::thread::sleep(Duration::from_secs(wait_s));
        kill(Pid::from_raw(child.id().cast_signed()), signal).expect("it runs");
        let status = child.wait().expect("it ends");
        if signal == Signal::SIGINT {
            assert_eq!(status.code(), Some(130));
        }
        let mut clean = common::fsynclab(bed.state.path());
        let output = clean.args(["clean", "--yes"]).output().expect("it starts");
        assert_eq!(output.status.code(), Some(0), "after {wait_s} s: {}", common::text(&output));
        let deadline = Deadline::after(Duration::from_secs(20));
        while !bed.is_clean() && !deadline.reached() {
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(bed.is_clean(), "after {wait_s} s: {:?}", inside(bed.place.path()));
    }
}
