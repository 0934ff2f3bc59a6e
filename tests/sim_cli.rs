//! `sim` on the command line: models, drives for everybody, refusals.

mod common;
mod sim;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Output, Stdio};

use common::{fsynclab, root_or_skip, scratch, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn run(state: &Path, arguments: &[&str]) -> Output {
    fsynclab(state).arg("sim").args(arguments).output().expect("the program")
}

fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", text(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn every_model_is_listed_shown_and_printed_with_its_sources() {
    let work = scratch("sim-list");
    let list = stdout(&run(work.path(), &["list"]));
    let names: Vec<&str> = list
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(names.len(), 12, "{list}");
    for name in names {
        let shown = stdout(&run(work.path(), &["show", name]));
        for part in ["synced overwrites", "a GiB written", "one8: fdatasync", "CREATE DATABASE, pg-9.0"] {
            assert!(shown.contains(part), "{name}: {shown}");
        }
        assert_eq!(shown.contains("cache on, flush ignored"), name == "liar", "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 79), "{shown}");
        let file = work.path().join(format!("{name}.toml"));
        let toml = stdout(&run(work.path(), &["show", name, "--toml"]));
        assert!(toml.contains('#'), "{name} names no source");
        fs::write(&file, toml).expect("a file");
        let again = stdout(&run(work.path(), &["show", file.to_str().expect("text")]));
        let figures = |text: &str| text[text.find("computed").expect("a head of the table")..].to_owned();
        assert_eq!(figures(&again), figures(&shown));
    }
}

#[test]
fn an_unknown_model_is_wrong_usage_everywhere() {
    let work = scratch("sim-unknown");
    for arguments in [
        &["sim", "show", "7200rpm"][..],
        &["sim", "run", "7200rpm", "--", "true"],
        &["sim", "mount", "7200rpm", "."],
        &["copy", "--sim", "7200rpm"],
        &["probe", "sim:7200rpm"],
    ] {
        let output = fsynclab(work.path()).args(arguments).output().expect("the program");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output));
        assert!(common::told(&output).contains("sim list"), "{}", text(&output));
    }
}

#[test]
fn without_root_it_is_refused_with_the_way_round() {
    if !root_or_skip("without_root_it_is_refused_with_the_way_round") {
        return;
    }
    let work = scratch("sim-nobody");
    // Of nobody, and a program that nobody may run.
    let program = work.path().join("fsynclab");
    fs::copy(env!("CARGO_BIN_EXE_fsynclab"), &program).expect("a copy of the program");
    nix::unistd::chown(work.path(), Some(65534.into()), Some(65534.into())).expect("root may");
    for arguments in [&["copy", "--sim", "liar"][..], &["sim", "run", "liar", "--", "true"]] {
        let output = std::process::Command::new("setpriv")
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
            .arg(&program)
            .args(arguments)
            .env("FSYNCLAB_STATE_DIR", work.path().join("state"))
            .current_dir(work.path())
            .output()
            .expect("setpriv");
        assert_eq!(output.status.code(), Some(3), "{}", text(&output));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("refused: simulated drives need root\nhint: "), "{stderr}");
        assert!(stderr.contains("sim price") && !stderr.contains("SIMULATED"), "{stderr}");
    }
}

#[test]
fn a_mounted_drive_is_there_for_everybody_until_it_is_unmounted() {
    if !root_or_skip("a_mounted_drive_is_there_for_everybody_until_it_is_unmounted") {
        return;
    }
    let work = scratch("sim-mount");
    let (state, target) = (work.path().join("state"), work.path().join("drive"));
    fs::create_dir(&target).expect("a directory");
    let directory = target.to_str().expect("text");
    let mounted =
        || fs::read_to_string("/proc/mounts").expect("mounts").contains(&format!(" {directory} ext4 "));
    let output = run(&state, &["mount", "zero", directory]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(mounted());
    fs::write(target.join("file"), "x").expect("a file on the drive");
    let output = run(&state, &["umount", directory]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(!mounted() && !target.join("file").exists());
    let left: Vec<_> = fs::read_dir(&state).expect("the state directory").flatten().collect();
    assert!(left.iter().all(|entry| entry.file_name() == "sim"), "{left:?}");
    let output = run(&state, &["umount", directory]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(common::told(&output).contains("is no mounted simulated drive"));
}

#[test]
fn a_probe_tells_a_liar() {
    if !root_or_skip("a_probe_tells_a_liar") {
        return;
    }
    let work = scratch("sim-probe");
    let probe = |spec: &str| {
        let mut command = fsynclab(&work.path().join("state"));
        command.args(["probe", "--sim", spec, "--time", "3s", "--only", "one8,same-place"]);
        command.output().expect("the program")
    };
    // Other work on the machine makes a disk of it that seems to turn.
    let tells = |_| Some(probe("liar")).filter(|output| output.status.code() == Some(4));
    let output = (0..5).find_map(tells).expect("one of five probes tells");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.starts_with("SIMULATED: ") && printed.contains("ANSWERED FROM MEMORY"), "{printed}");
    assert_eq!(probe("sata-2009,write-cache=off").status.code(), Some(0));
}

/// Loop devices of the drives that a process made.
fn loops_of(pid: u32) -> Vec<String> {
    let devices = fs::read_dir("/sys/block").expect("sysfs").flatten();
    let backing =
        devices.filter_map(|device| fs::read_to_string(device.path().join("loop/backing_file")).ok());
    backing.filter(|file| file.contains(&format!("fsynclab-sim-{pid:x}-"))).collect()
}

#[test]
fn a_run_on_two_drives_that_is_ended_leaves_none() {
    if !root_or_skip("a_run_on_two_drives_that_is_ended_leaves_none") {
        return;
    }
    let work = scratch("sim-ended");
    for (signal, left) in [(Signal::SIGTERM, 0), (Signal::SIGKILL, 1)] {
        let state = work.path().join(signal.as_str());
        let mut copy = fsynclab(&state)
            .args(["copy", "pg15", "--sim", "sata-2009,fs=xfs", "--into", "sim:zero,fs=btrfs"])
            .args(["--policy", "immediate", "--rounds", "100"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program");
        let stderr = copy.stderr.take().expect("a pipe");
        // What is written is announced when both drives are there.
        let announced = BufReader::new(stderr)
            .lines()
            .find(|line| line.as_ref().is_ok_and(|line| line.contains("sim:zero,fs=btrfs")));
        announced.expect("it announces what it writes").expect("text");
        assert_eq!(loops_of(copy.id()).len(), 2);
        let pid = Pid::from_raw(i32::try_from(copy.id()).expect("a pid"));
        kill(pid, signal).expect("it runs");
        let status = copy.wait().expect("it ends");
        assert!(!status.success(), "{status}");
        sim::wait_until("the kernel lets go of the drives", || loops_of(copy.id()).is_empty());
        let journals = || fs::read_dir(&state).expect("the state directory").flatten();
        assert_eq!(journals().filter(|entry| entry.file_name() != "sim").count(), left, "{signal}");
        let output = fsynclab(&state).args(["clean", "--yes"]).output().expect("the program");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        assert_eq!(journals().filter(|entry| entry.file_name() != "sim").count(), 0, "{signal}");
    }
}
