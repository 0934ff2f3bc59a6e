//! What the neighbours feel, through the whole program, on real file systems in image files.

mod common;

use std::fs;
use std::path::Path;
use std::process::Output;

use common::{FileSystem, Image, fsynclab, root_or_skip, scratch, text};
use fsynclab::results::{Document, NoteCode, text as form};

fn copy(place: &Path, arguments: &[&str]) -> (Output, Document) {
    let work = scratch("bystander");
    let json = work.path().join("r.json");
    let mut program = fsynclab(&work.path().join("state"));
    program.args(["copy", "--beside-server", "--json"]).arg(&json).arg("--into").arg(place).args(arguments);
    let output = program.output().expect("the program");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let document = form::read(&fs::read(&json).expect("results")).expect("a document");
    (output, document)
}

#[test]
fn every_arm_tells_what_its_neighbour_felt_and_so_does_a_control_without_a_copy() {
    if !root_or_skip("every_arm_tells_what_its_neighbour_felt_and_so_does_a_control_without_a_copy") {
        return;
    }
    for file_system in FileSystem::ALL {
        let image = Image::new(file_system, "600M", "");
        let arguments = ["many-small:50", "--policy", "immediate,syncfs", "--aa", "--rounds", "6"];
        let options = ["--bystander", "50/s", "--time-limit", "10min", "--command", "cp=cp -a {src} {dst}"];
        let (output, document) = copy(&image.path(), &[&arguments[..], &options[..]].concat());
        let names: Vec<&str> = document.arms.iter().map(|arm| arm.name.as_str()).collect();
        let arms = ["immediate", "immediate / A/A", "syncfs", "cp", "cp+syncfs", "no-copy"];
        assert_eq!(names, arms);
        for arm in &document.arms {
            let felt = arm.bystander.unwrap_or_else(|| panic!("{file_system:?}: {} has none", arm.name));
            assert!(felt.n >= 6, "{file_system:?}: {}: {felt:?}", arm.name);
            assert!(0 < felt.p50_ns && felt.p50_ns <= felt.max_ns, "{file_system:?}: {}: {felt:?}", arm.name);
            assert_eq!((felt.per_second, felt.p99_ns.is_some()), (50, felt.n >= 1000), "{}", arm.name);
        }
        let alone = document.arms.last().expect("the control");
        let felt = alone.bystander.expect("felt");
        assert!((6 * 25..=6 * 40).contains(&felt.n), "{file_system:?}: {felt:?}");
        assert_eq!((alone.promise, alone.samples.len()), (None, 7));
        assert!(document.comparisons.iter().all(|found| found.arm != "no-copy"));
        let stdout = String::from_utf8_lossy(&output.stdout);
        let words: Vec<&str> = stdout.split_whitespace().collect();
        // Without a journal syncfs promises nothing: no arm is told to be the better one.
        let told = ["fdatasync 50 times a second", "beside syncs p50", "Beside it a neighbour waits up to"];
        let expected = if file_system == FileSystem::Ext4NoJournal { &told[..2] } else { &told[..] };
        for part in expected {
            assert!(words.join(" ").contains(part), "{file_system:?}: \"{part}\" is not in: {stdout}");
        }
        assert!(stdout.lines().all(|line| line.chars().count() <= 79), "{stdout}");
        assert_eq!(fs::read_dir(image.path()).expect("the place").filter(is_ours).count(), 0);
    }
}

fn is_ours(entry: &std::io::Result<fs::DirEntry>) -> bool {
    entry.as_ref().is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with(".fsynclab"))
}

#[test]
fn a_place_that_cannot_keep_the_rate_is_told() {
    if !root_or_skip("a_place_that_cannot_keep_the_rate_is_told") {
        return;
    }
    let image = Image::new(FileSystem::Ext4, "64M", "");
    let arguments = ["many-small:5", "--policy", "never", "--rounds", "1", "--bystander", "10000/s"];
    let (_, document) = copy(&image.path(), &arguments);
    let note = document.notes.iter().find(|note| note.code == NoteCode::Overloaded).expect("a note");
    assert!(note.text.contains("cannot keep 10000/s even without a copy"), "{note:?}");
}
