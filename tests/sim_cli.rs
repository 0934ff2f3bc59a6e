//! `sim` on the command line: models, drives for everybody, refusals.

mod common;

use std::fs;
use std::path::Path;
use std::process::Output;

use common::{fsynclab, root_or_skip, scratch, text};

fn sim(state: &Path, arguments: &[&str]) -> Output {
    fsynclab(state).arg("sim").args(arguments).output().expect("the program")
}

fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", text(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn every_model_is_listed_shown_and_printed_with_its_sources() {
    let work = scratch("sim-list");
    let list = stdout(&sim(work.path(), &["list"]));
    let names: Vec<&str> = list
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(names.len(), 12, "{list}");
    for name in names {
        let shown = stdout(&sim(work.path(), &["show", name]));
        for part in ["synced overwrites", "a GiB written", "one8: fdatasync", "CREATE DATABASE, pg-9.0"] {
            assert!(shown.contains(part), "{name}: {shown}");
        }
        assert!(shown.lines().all(|line| line.chars().count() <= 79), "{shown}");
        let file = work.path().join(format!("{name}.toml"));
        let toml = stdout(&sim(work.path(), &["show", name, "--toml"]));
        assert!(toml.contains('#'), "{name} names no source");
        fs::write(&file, toml).expect("a file");
        let again = stdout(&sim(work.path(), &["show", file.to_str().expect("text")]));
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
        assert!(String::from_utf8_lossy(&output.stderr).contains("sim list"), "{}", text(&output));
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
        assert!(stderr.contains("sim price"), "{stderr}");
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
    let output = sim(&state, &["mount", "zero", directory]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(mounted());
    fs::write(target.join("file"), "x").expect("a file on the drive");
    let output = sim(&state, &["umount", directory]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(!mounted() && !target.join("file").exists());
    let left: Vec<_> = fs::read_dir(&state).expect("the state directory").flatten().collect();
    assert!(left.iter().all(|entry| entry.file_name() == "sim"), "{left:?}");
    let output = sim(&state, &["umount", directory]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is no mounted simulated drive"));
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
    let output = probe("liar");
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.starts_with("SIMULATED: ") && printed.contains("ANSWERED FROM MEMORY"), "{printed}");
    assert_eq!(probe("sata-2009,write-cache=off").status.code(), Some(0));
}
