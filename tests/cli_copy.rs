//! Source trees of every kind through the whole program, and what the results file says of them.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{fsynclab, root_or_skip, run, scratch, text};
use fsynclab::results::{Document, NoteCode, text as form};
use tempfile::TempDir;

/// A place, a template beside it, and a state directory.
struct Bed {
    work: TempDir,
}

impl Bed {
    fn new(name: &str) -> Self {
        let work = scratch(name);
        fs::create_dir(work.path().join("template")).expect("a directory");
        fs::create_dir(work.path().join("place")).expect("a directory");
        Self { work }
    }

    fn template(&self) -> PathBuf {
        self.work.path().join("template")
    }

    fn command(&self, place: &Path, arguments: &[&str]) -> Command {
        let mut command = fsynclab(&self.work.path().join("state"));
        command.arg("copy").arg(self.template()).arg("--into").arg(place);
        command.args(["--rounds", "1", "--json"]).arg(self.work.path().join("r.json")).args(arguments);
        command
    }

    /// One round and its warm-up; nothing is left but the results.
    fn copy(&self, arguments: &[&str]) -> (Output, Document) {
        let place = self.work.path().join("place");
        let output = self.command(&place, arguments).output().expect("the program");
        let left = fs::read_dir(&place).expect("the place").count();
        let journals = fs::read_dir(self.work.path().join("state")).expect("the state directory").count();
        assert_eq!((left, journals), (0, 0), "something is left: {}", text(&output));
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(stdout.lines().all(|line| line.chars().count() <= 79), "{stdout}");
        let results = fs::read(self.work.path().join("r.json")).expect("the results file");
        (output, form::read(&results).expect("a document"))
    }
}

/// The report as one line: where lines break depends on the length of paths.
fn in_one_line(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn codes(document: &Document) -> Vec<NoteCode> {
    document.notes.iter().map(|note| note.code).collect()
}

#[test]
fn a_run_ends_with_a_table_a_finding_and_a_document() {
    let bed = Bed::new("plain");
    fs::write(bed.template().join("PG_VERSION"), "15\n").expect("a file");
    fs::write(bed.template().join("2619"), vec![7; 100_000]).expect("a file");
    let (output, document) = bed.copy(&["--seed", "42", "--aa"]);
    let stdout = in_one_line(&output);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    for part in [
        "2 files, 98 kB",
        "vs immediate",
        "too few rounds",
        "A/A control",
        "1 round, seed 42",
        "--list-policies",
    ] {
        assert!(stdout.contains(part), "\"{part}\" is not in: {stdout}");
    }
    assert!(document.complete && document.seed == 42);
    assert_eq!(document.arms.len(), 4);
    let deferred = document.arms.iter().find(|arm| arm.name == "deferred").expect("the arm");
    assert_eq!(deferred.samples.iter().map(|sample| sample.ignored).collect::<Vec<_>>(), [true, false]);
    let sample = &deferred.samples[1];
    assert_eq!((sample.calls["fsync"], sample.calls["sync_file_range"], sample.calls["openat"]), (4, 2, 10));
    let phases: u64 = sample.phases.values().sum();
    assert!(phases.abs_diff(sample.elapsed_ns) * 100 <= 3 * sample.elapsed_ns, "{sample:?}");
    assert_eq!(deferred.latency["fsync"].n, 4, "the warm-up does not count");
}

#[test]
fn names_are_copied_byte_for_byte_and_odd_things_are_skipped() {
    let bed = Bed::new("names");
    let long = vec![b'n'; 255];
    let names: [&[u8]; 9] = [
        b"a b",
        b"new\nline",
        b"tab\t",
        b"-rf",
        b"\"quoted'",
        b"back\\slash",
        "Größe".as_bytes(),
        b"\xff\xfe",
        &long,
    ];
    for name in names {
        fs::write(bed.template().join(OsStr::from_bytes(name)), name).expect("a file");
    }
    fs::write(bed.template().join("empty"), "").expect("a file");
    run("mkfifo", &[bed.template().join("fifo")]);
    std::os::unix::fs::symlink("/etc/passwd", bed.template().join("link")).expect("a link");
    let (output, document) = bed.copy(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(document.input.as_ref().map(|input| input.files), Some(10));
    let skipped: Vec<&str> = document
        .notes
        .iter()
        .filter(|note| note.code == NoteCode::SkippedEntry)
        .map(|note| note.text.as_str())
        .collect();
    assert_eq!(skipped.len(), 2, "{skipped:?}");
    assert!(skipped.iter().any(|text| text.ends_with("fifo\": a FIFO")), "{skipped:?}");
}

#[test]
fn an_empty_tree_has_no_throughput_and_is_no_failure() {
    let bed = Bed::new("empty");
    fs::create_dir(bed.template().join("sub")).expect("a directory");
    fs::write(bed.template().join("sub/0"), "").expect("a file");
    let (output, document) = bed.copy(&["--policy", "immediate,deferred,pg-15"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(in_one_line(&output).contains("n/a MB/s"), "{}", text(&output));
    assert!(codes(&document).contains(&NoteCode::ManyDirectories), "{:?}", document.notes);
}

#[test]
fn of_a_sparse_source_both_sizes_are_told_and_what_became_of_the_holes() {
    let bed = Bed::new("sparse");
    let file = fs::File::create(bed.template().join("16384")).expect("a file");
    file.set_len(64 << 20).expect("a hole");
    let (output, document) = bed.copy(&[]);
    let stdout = in_one_line(&output);
    assert!(
        stdout.contains("0 bytes allocated") && stdout.contains("allocated: immediate n/a MB/s"),
        "{stdout}"
    );
    let note = document.notes.iter().find(|note| note.code == NoteCode::SparseSource).expect("a note");
    assert!(note.text.ends_with("in the copy they were filled"), "{note:?}");
}

#[test]
fn what_cannot_be_read_is_listed_and_is_no_partial_success() {
    if !root_or_skip("what_cannot_be_read_is_listed_and_is_no_partial_success") {
        return;
    }
    let bed = Bed::new("unreadable");
    for name in ["secret", "other", "open"] {
        fs::write(bed.template().join(name), name).expect("a file");
    }
    for name in ["secret", "other"] {
        fs::set_permissions(bed.template().join(name), fs::Permissions::from_mode(0o000)).expect("chmod");
    }
    run("chown", &["-R", "nobody", bed.work.path().to_str().expect("text")]);
    let program = bed.work.path().join("program");
    fs::copy(env!("CARGO_BIN_EXE_fsynclab"), &program).expect("a copy that nobody can reach");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("chmod");
    let output = Command::new("setpriv")
        .args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"])
        .arg(&program)
        .arg("copy")
        .arg(bed.template())
        .arg("--into")
        .arg(bed.work.path().join("place"))
        .env("FSYNCLAB_STATE_DIR", bed.work.path().join("state"))
        .output()
        .expect("setpriv");
    let stderr = common::told(&output);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(stderr.contains("Permission denied") && stderr.contains("other"), "{stderr}");
    assert_eq!(fs::read_dir(bed.work.path().join("place")).expect("the place").count(), 0);
}

#[test]
fn a_full_disk_fails_its_arms_and_is_left_as_it_was() {
    if !root_or_skip("a_full_disk_fails_its_arms_and_is_left_as_it_was") {
        return;
    }
    let bed = Bed::new("full");
    fs::write(bed.template().join("16384"), vec![7; 3 << 20]).expect("a file");
    let place = bed.work.path().join("place");
    run("mount", &["-t", "tmpfs", "-o", "size=2M", "tmpfs", place.to_str().expect("text")]);
    let (output, document) = bed.copy(&["--policy", "immediate,deferred"]);
    run("umount", &[&place]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let failed = document.arms[0].failed.as_ref().expect("it failed");
    assert!(failed.text.contains("No space left on device"), "{failed:?}");
    assert!(
        failed.text.contains("bytes had been written") && failed.text.contains("bytes are free"),
        "{failed:?}"
    );
    assert_eq!((failed.errno, failed.call.as_deref()), (Some(28), Some("write")));
    assert!(in_one_line(&output).contains("FAILED: could not write"), "{}", text(&output));
}

#[test]
fn a_source_without_room_is_told_as_an_arm_and_a_place_mounted_read_only_is_refused() {
    let name = "a_source_without_room_is_told_as_an_arm_and_a_place_mounted_read_only_is_refused";
    if !root_or_skip(name) {
        return;
    }
    let work = scratch("no-room");
    let place = work.path().join("place");
    fs::create_dir(&place).expect("a directory");
    let copy = || {
        let mut command = fsynclab(&work.path().join("state"));
        command.args(["copy", "pg15", "--into"]).arg(&place).output().expect("the program")
    };
    run("mount", &["-t", "tmpfs", "-o", "size=2M", "tmpfs", place.to_str().expect("text")]);
    let full = copy();
    run("mount", &["-o", "remount,ro", place.to_str().expect("text")]);
    let read_only = copy();
    run("umount", &[&place]);
    let stderr = String::from_utf8_lossy(&full.stderr).replace('\n', " ");
    assert_eq!(full.status.code(), Some(1), "{}", text(&full));
    assert!(stderr.contains("could not make the source: ") && stderr.contains("bytes are free)"), "{stderr}");
    assert_eq!(read_only.status.code(), Some(3), "{}", text(&read_only));
    assert!(common::told(&read_only).contains("Read-only file system"));
}

#[test]
fn a_source_that_changes_is_told_and_hangs_nothing() {
    let bed = Bed::new("changing");
    for name in ["log", "still"] {
        fs::write(bed.template().join(name), vec![1; 4 << 20]).expect("a file");
    }
    let (log, comes_and_goes) = (bed.template().join("log"), bed.template().join("comes-and-goes"));
    let over = AtomicBool::new(false);
    let (output, document) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut growing = fs::OpenOptions::new().append(true).open(&log).expect("the file");
            let began = Instant::now();
            while !over.load(Ordering::Relaxed) && began.elapsed() < Duration::from_mins(2) {
                growing.write_all(b"one more line\n").expect("a line");
                fs::write(&comes_and_goes, "x").expect("a file");
                fs::remove_file(&comes_and_goes).expect("the file");
            }
        });
        let done = bed.copy(&["--policy", "immediate,deferred"]);
        over.store(true, Ordering::Relaxed);
        done
    });
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let told = document.notes.iter().find(|note| note.code == NoteCode::ChangedDuringCopy).expect("a note");
    assert!(
        told.text.starts_with("changed during copy: ") && told.text.contains("not comparable"),
        "{told:?}"
    );
}

#[test]
fn memory_is_never_called_durable() {
    let bed = Bed::new("memory");
    fs::write(bed.template().join("1"), "1").expect("a file");
    let place =
        tempfile::Builder::new().prefix("fsynclab-test-").tempdir_in("/dev/shm").expect("a directory");
    let output =
        bed.command(place.path(), &["--policy", "immediate,deferred,syncfs"]).output().expect("the program");
    let results = fs::read(bed.work.path().join("r.json")).expect("the results file");
    let document = form::read(&results).expect("a document");
    assert!(
        document.arms.iter().all(|arm| arm.promise == Some(fsynclab::results::Promise::Nothing)),
        "{}",
        text(&output)
    );
    assert!(codes(&document).contains(&NoteCode::MemoryFileSystem));
}

#[test]
fn few_descriptors_suffice() {
    let bed = Bed::new("descriptors");
    for number in 0..300 {
        fs::write(bed.template().join(number.to_string()), "x").expect("a file");
    }
    let program = env!("CARGO_BIN_EXE_fsynclab");
    let output = Command::new("prlimit")
        .arg("--nofile=64:64")
        .arg(program)
        .arg("copy")
        .arg(bed.template())
        .arg("--into")
        .arg(bed.work.path().join("place"))
        .args(["--rounds", "1", "--policy", "deferred,deferred+sync=held,threads,uring"])
        .env("FSYNCLAB_STATE_DIR", bed.work.path().join("state"))
        .output()
        .expect("prlimit");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[test]
fn a_neighbours_dirty_data_is_told_and_gone_afterwards() {
    let bed = Bed::new("dirty");
    fs::write(bed.template().join("file"), [7; 8192]).expect("a file");
    let (output, document) = bed.copy(&["--policy", "deferred,aio", "--dirty", "16MB"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let note = document.notes.iter().find(|note| note.code == NoteCode::DirtyNeighbour).expect("a note");
    assert!(note.text.contains("16777216 bytes of a neighbour's"), "{}", note.text);
}
