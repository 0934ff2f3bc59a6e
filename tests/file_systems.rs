//! Every policy on every file system: contents equal, the promise printed, what cannot be there refused in words.

mod common;
#[path = "strace/trees.rs"]
mod trees;

use std::fs;
use std::path::Path;

use common::{FileSystem, Image, fsynclab, root_or_skip, run, scratch, text};
use fsynclab::replay::policy::{self, Policy};
use fsynclab::results::{Document, NoteCode, Promise, text as form};
use trees::Source;

/// Runs every named policy once and compares every byte; the document and what was printed.
fn copy(source: &Source, into: &Path) -> (Document, String) {
    let names: Vec<&str> = policy::list().iter().map(|listed| listed.name).collect();
    let work = scratch("file-systems");
    let json = work.path().join("r.json");
    let mut command = fsynclab(&work.path().join("state"));
    command.arg("copy").arg(source.path()).args(["--rounds", "1", "--warmup", "0", "--beside-server"]);
    command.args(["--time-limit", "10min", "--verify", "full", "--policy", &names.join(","), "--into"]);
    let output = command.arg(into).arg("--json").arg(&json).output().expect("the program");
    assert_eq!(output.status.code(), Some(0), "{}: {}", into.display(), text(&output));
    let left = fs::read_dir(into).expect("the place").filter(|entry| {
        entry.as_ref().is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with(".fsynclab"))
    });
    assert_eq!(left.count(), 0, "{}: something is left", into.display());
    let document = form::read(&fs::read(json).expect("results")).expect("a document");
    (document, String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Every arm ran, or is among `refused` with words that tell why; it promises what its policy does, at most `most`.
fn check(source: &Source, into: &Path, refused: &[(&str, &str)], most: Promise) -> Document {
    let (document, printed) = copy(source, into);
    for (arm, listed) in document.arms.iter().zip(policy::list()) {
        let what = format!("{} on {}", listed.name, document.places[0].stack.file_system);
        let policy: Policy = listed.name.parse().expect("a row of the table");
        let stack = &document.places[0].stack;
        let is_unjournaled = stack.file_system == "ext4" && stack.journal == Some(false);
        let promised =
            if is_unjournaled { policy.promise_without_journal() } else { listed.promise }.min(most);
        assert_eq!(arm.promise, Some(promised), "{what}");
        if let Some((_, why)) = refused.iter().find(|(name, _)| *name == listed.name) {
            let told = arm.refused.as_ref().unwrap_or_else(|| panic!("{what} ran"));
            assert!(told.text.contains(why), "{what}: {}", told.text);
            continue;
        }
        assert!(arm.refused.is_none() && arm.failed.is_none(), "{what}: {:?} {:?}", arm.refused, arm.failed);
        let sample = &arm.samples[0];
        assert_eq!(document.input.as_ref().expect("an input").files, source.sizes.len() as u64, "{what}");
        let phases: u64 = sample.phases.values().sum();
        assert!(phases <= sample.elapsed_ns && phases * 100 >= sample.elapsed_ns * 97, "{what}: {sample:?}");
        let row = printed.lines().find(|line| line.split_whitespace().next() == Some(listed.name));
        let promise = promised.to_string();
        assert!(row.is_some_and(|row| row.contains(&promise)), "{what}: no row with {promise} in\n{printed}");
    }
    document
}

const NO_REFLINK: (&str, &str) =
    ("reflink", "the file system cannot share blocks between files (FICLONE: Operation not supported)");

#[test]
fn every_policy_copies_right_on_every_file_system() {
    if !root_or_skip("every_policy_copies_right_on_every_file_system") {
        return;
    }
    let source = Source::of_all_sizes();
    for (file_system, size) in FileSystem::ALL.into_iter().zip(["256M", "256M", "400M", "512M"]) {
        let image = Image::new(file_system, size, "");
        let refused = match file_system {
            FileSystem::Ext4 | FileSystem::Ext4NoJournal => &[NO_REFLINK][..],
            FileSystem::Xfs | FileSystem::Btrfs => &[],
        };
        let document = check(&source, &image.path(), refused, Promise::Tree);
        let counted =
            document.arms[0].samples[0].device.expect("the loop device is known, by its mount on btrfs too");
        assert!(counted.flushes > 0, "{file_system:?}: {counted:?}");
    }
}

#[test]
fn in_memory_nothing_is_promised_and_no_disk_is_counted() {
    let place = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let document = check(&Source::of_all_sizes(), place.path(), &[NO_REFLINK], Promise::Nothing);
    assert!(
        document.notes.iter().any(|note| note.code == NoteCode::MemoryFileSystem),
        "{:?}",
        document.notes
    );
    assert!(document.arms.iter().flat_map(|arm| &arm.samples).all(|sample| sample.device.is_none()));
}

/// st_dev of an overlay has major number 0 and no disk of its own; what lies under it is found by its upper directory.
#[test]
fn an_overlay_is_seen_through_and_a_volatile_one_promises_nothing() {
    if !root_or_skip("an_overlay_is_seen_through_and_a_volatile_one_promises_nothing") {
        return;
    }
    let source = Source::of_all_sizes();
    let image = Image::new(FileSystem::Xfs, "400M", "");
    for (options, most) in [("", Promise::Tree), (",volatile", Promise::Nothing)] {
        let [lower, upper, work, merged] =
            ["lower", "upper", "work", "merged"].map(|name| image.path().join(format!("{name}{options}")));
        for directory in [&lower, &upper, &work, &merged] {
            fs::create_dir(directory).expect("a directory");
        }
        // A comma in a name would end the option.
        let [lower, upper, work] =
            [&lower, &upper, &work].map(|path| path.display().to_string().replace(',', "\\,"));
        let directories = format!("lowerdir={lower},upperdir={upper},workdir={work}{options}");
        let merged = merged.to_str().expect("UTF-8");
        run("mount", &["-t", "overlay", "overlay", "-o", &directories, merged]);
        let checked = std::panic::catch_unwind(|| check(&source, Path::new(merged), &[], most));
        run("umount", &[merged]);
        let document = checked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        assert_eq!(document.places[0].stack.file_system, "overlay");
        let volatile = document.notes.iter().any(|note| note.code == NoteCode::OverlayVolatile);
        assert_eq!(volatile, most == Promise::Nothing, "{:?}", document.notes);
    }
}
