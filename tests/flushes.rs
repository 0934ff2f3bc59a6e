//! What a copy costs the disk: the flushes of `pg15` under each way of syncing, on real file systems in image files.
#![expect(clippy::print_stdout, reason = "the counts are the reader's")]

mod common;

use std::fs;

use common::{FileSystem, Image, fsynclab, root_or_skip, scratch, text};
use fsynclab::results::{Document, text as form};

/// Rounds, the first of which does not count: a file system that is made anew needs some copies to find its habits.
fn copy(image: &Image, policies: &str, warmup: u32) -> Document {
    let work = scratch("flushes");
    let json = work.path().join("results.json");
    let mut command = fsynclab(&work.path().join("state"));
    command.args(["copy", "pg15", "--beside-server", "--time-limit", "10min", "--policy", policies]);
    command.args(["--verify", "sizes", "--rounds", "3", "--warmup", &warmup.to_string(), "--into"]);
    let output = command.arg(image.path()).arg("--json").arg(&json).output().expect("the program");
    assert!(output.status.success(), "{}", text(&output));
    form::read(&fs::read(json).expect("results")).expect("a document")
}

/// The median, which a commit of the journal by its own timer does not move.
fn flushes(document: &Document, policy: &str) -> u64 {
    let arm = document.arms.iter().find(|arm| arm.labels.get("policy") == Some(policy)).expect("an arm");
    let counted = arm.samples.iter().filter(|sample| !sample.ignored);
    let mut flushes: Vec<u64> = counted.map(|sample| sample.device.expect("counters").flushes).collect();
    flushes.sort_unstable();
    println!("{policy}: {flushes:?}");
    flushes[flushes.len() / 2]
}

/// `wanted`: policy, least and most.
fn check(file_system: FileSystem, size: &str, warmup: u32, wanted: &[(&str, u64, u64)]) {
    let image = Image::new(file_system, size, "");
    let policies: Vec<&str> = wanted.iter().map(|(policy, _, _)| *policy).collect();
    let document = copy(&image, &policies.join(","), warmup);
    for (policy, least, most) in wanted {
        let found = flushes(&document, policy);
        assert!(
            (*least..=*most).contains(&found),
            "{file_system:?} {policy}: {found} flushes, not {least} to {most}"
        );
    }
}

/// 298 files and two directories: each fsync of `immediate` commits the journal, which takes two flushes (the first of
/// the two directories is in the commit before); `deferred` commits once, then flushes once a file.
#[test]
fn on_ext4_immediate_flushes_596_times_deferred_about_300_syncfs_hardly_never_not_at_all() {
    if root_or_skip("on_ext4_immediate_flushes_596_times_deferred_about_300_syncfs_hardly_never_not_at_all") {
        let wanted = [
            ("immediate", 596, 600),
            ("deferred", 299, 303),
            ("pg-9.6", 299, 303),
            ("syncfs", 1, 6),
            ("never", 0, 0),
        ];
        check(FileSystem::Ext4, "256M", 1, &wanted);
    }
}

#[test]
fn on_xfs_the_flushes_are_those_of_ext4() {
    if root_or_skip("on_xfs_the_flushes_are_those_of_ext4") {
        let wanted = [("immediate", 590, 602), ("deferred", 297, 304), ("syncfs", 1, 6), ("never", 0, 0)];
        check(FileSystem::Xfs, "400M", 1, &wanted);
    }
}

/// A fresh btrfs takes full commits; after four copies it has its habits. A commit of its own accord takes two flushes.
#[test]
fn on_an_aged_btrfs_deferred_saves_no_flush() {
    if root_or_skip("on_an_aged_btrfs_deferred_saves_no_flush") {
        // A small btrfs runs short of room for metadata and commits on its own: six flushes more in every trial.
        let wanted = [("immediate", 590, 610), ("deferred", 590, 610), ("syncfs", 1, 8), ("never", 0, 4)];
        check(FileSystem::Btrfs, "4G", 4, &wanted);
    }
}
