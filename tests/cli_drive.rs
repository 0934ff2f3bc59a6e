//! `fsynclab drive` as a user meets it on this machine; switching real caches is held in tests/qemu.rs.

mod common;

use std::path::Path;
use std::process::Output;

use common::{FileSystem, Image, as_nobody, fsynclab, root_or_skip, scratch, text};

fn drive(arguments: &[&str], state: &Path) -> Output {
    fsynclab(state).arg("drive").args(arguments).output().expect("the program runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn every_layer_is_shown_within_79_columns() {
    if !root_or_skip("every_layer_is_shown_within_79_columns") {
        return;
    }
    let state = scratch("drive");
    let image = Image::new(FileSystem::Ext4, "64M", "nobarrier");
    let path = image.path().display().to_string();
    let output = drive(&[&path], state.path());
    let shown = stdout(&output);
    assert!(output.status.success(), "{}", text(&output));
    assert!(shown.lines().all(|line| line.chars().count() <= 79), "{shown}");
    for part in ["barriers OFF", "loop", "weakest link: ext4 on", "disk ", "write cache: drive"] {
        assert!(shown.contains(part), "no {part:?} in\n{shown}");
    }
}

#[test]
fn the_document_has_the_same_for_programs() {
    let state = scratch("drive");
    let file = state.path().join("found.json");
    let output = drive(&["/dev/shm", "--json", &file.display().to_string()], state.path());
    assert!(output.status.success(), "{}", text(&output));
    let written = std::fs::read_to_string(&file).expect("the document");
    let document: serde_json::Value = serde_json::from_str(&written).expect("JSON");
    assert_eq!(document["kind"], "drive");
    assert_eq!(document["places"][0]["stack"]["file_system"], "tmpfs");
    assert_eq!(document["notes"][0]["code"], "memory-file-system");
    let alone = drive(&["/dev/shm", "--json", "-"], state.path());
    let document: serde_json::Value = serde_json::from_str(&stdout(&alone)).expect("nothing but JSON");
    assert_eq!(document["complete"], true);
}

#[test]
fn what_cannot_be_switched_is_refused_with_status_3_and_leaves_no_journal() {
    let state = scratch("drive");
    let output = drive(&["/dev/shm", "--write-cache", "off"], state.path());
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("no disk is known under tmpfs"), "{}", text(&output));
    let left = std::fs::read_dir(state.path()).expect("the state directory").count();
    assert_eq!(left, 0, "journals were left");
    let output = drive(&["--write-cache", "restore"], state.path());
    assert_eq!(stdout(&output), "no write cache was left switched\n");
}

#[test]
fn a_loop_device_has_no_cache_of_its_own_and_the_disk_below_is_not_switched_by_mistake() {
    if !root_or_skip("a_loop_device_has_no_cache_of_its_own_and_the_disk_below_is_not_switched_by_mistake") {
        return;
    }
    let state = scratch("drive");
    let image = Image::new(FileSystem::Ext4, "64M", "");
    let path = image.path().display().to_string();
    let output = drive(&[&path, "--write-cache", "off"], state.path());
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
}

#[test]
fn wrong_usage_is_told_with_status_2_and_a_missing_path_with_status_1() {
    let state = scratch("drive");
    let status = |arguments: &[&str]| drive(arguments, state.path()).status.code();
    assert_eq!(status(&["--write-cache", "half"]), Some(2));
    assert_eq!(status(&["--force"]), Some(2));
    assert_eq!(status(&["--", "true"]), Some(2));
    assert_eq!(status(&["--write-cache", "restore", "--", "true"]), Some(2));
    let missing = drive(&["/no/such place"], state.path());
    assert_eq!(missing.status.code(), Some(1));
    let expected = "error: could not resolve \"/no/such place\": No such file or directory\n";
    assert_eq!(String::from_utf8_lossy(&missing.stderr), expected);
}

#[test]
fn without_privilege_the_rest_is_shown() {
    if !root_or_skip("without_privilege_the_rest_is_shown") {
        return;
    }
    let state = scratch("drive");
    let mut command = fsynclab(state.path());
    command.args(["drive", "/var/tmp"]);
    let output = as_nobody(&command).output().expect("the program runs");
    assert!(output.status.success(), "{}", text(&output));
    assert!(stdout(&output).contains("weakest link:"), "{}", text(&output));
}
