//! Faults of the real program's calls: one arm fails with a message as PostgreSQL words it, the others go on, the exit
//! status is 1, and nothing is left.

mod common;
#[path = "strace/moments.rs"]
mod moments;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use common::{FileSystem, Image, fsynclab, root_or_skip, scratch, text};
use fsynclab::results::{Arm, Document, Promise, text as form};
use moments::{Moment, Repeatable};
use tempfile::TempDir;

/// A tree, a place with a stranger's file, a state directory.
struct Bed {
    work: TempDir,
    place: PathBuf,
}

impl Bed {
    fn new(image: &Image) -> Self {
        let work = scratch("faults");
        let tree = work.path().join("tree");
        for directory in [&tree, &work.path().join("state")] {
            fs::create_dir(directory).expect("a directory");
        }
        for number in 0..60 {
            let size = [0, 8192, 8193, 200_000][number % 4];
            fs::write(tree.join(format!("file-{number}")), vec![0; size]).expect("a file");
        }
        fs::write(tree.join("large"), vec![0; 5 << 20]).expect("a file");
        let place = image.path().join("place");
        fs::create_dir_all(&place).expect("a place");
        fs::write(place.join("stranger"), "mine").expect("a stranger's file");
        Self { work, place }
    }

    fn command(&self, policies: &str) -> Command {
        let mut command = fsynclab(&self.work.path().join("state"));
        command.arg("copy").arg(self.work.path().join("tree")).arg("--into").arg(&self.place);
        command.args(["--policy", policies, "--order", "in-turn", "--rounds", "1", "--warmup", "0", "-v"]);
        command.args(["--seed", "1", "--beside-server", "--time-limit", "10min", "--json"]);
        command.arg(self.work.path().join("r.json"));
        command
    }

    fn document(&self) -> Document {
        form::read(&fs::read(self.work.path().join("r.json")).expect("results")).expect("a document")
    }

    /// Whatever happened, only the stranger's file is there, as it was.
    fn nothing_is_left(&self, what: &str) {
        let names = |path: PathBuf| -> Vec<String> {
            let listed = fs::read_dir(path).expect("a directory");
            listed.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names(self.place.clone()), ["stranger"], "{what}");
        assert_eq!(names(self.work.path().join("state")), [""; 0], "{what}");
    }
}

/// Every call of an undisturbed run of this policy and `never`.
fn rehearsed(bed: &Bed, policy: &str) -> Vec<Moment> {
    let command = || bed.command(&format!("{policy},never"));
    Repeatable { command: &command, work: bed.work.path() }.moments()
}

/// The middle one of the calls of a kind inside the first clock: where a run makes some more before than the rehearsal did,
/// it is still inside. A ring is entered as often as it happens to be: the first time.
fn to_strike<'a>(moments: &'a [Moment], call: &str) -> &'a Moment {
    let inside = |moment: &&Moment| moment.call == call && moment.trial == Some(1);
    let calls: Vec<&Moment> = moments.iter().filter(inside).collect();
    let at = if call == "io_uring_enter" { 0 } else { calls.len() / 2 };
    calls.get(at).unwrap_or_else(|| panic!("no {call} in the first trial"))
}

/// Strikes one call in the clock of the first arm, `policy`: it fails alone and at once. The arm, and what stderr said.
fn check(bed: &Bed, policy: &str, moment: &Moment, tamper: &str) -> (Arm, String) {
    let call = moment.call.as_str();
    let command = || bed.command(&format!("{policy},never"));
    let run = Repeatable { command: &command, work: bed.work.path() };
    let (output, lines) = run.with(call, &format!("{tamper}:when={}", moment.n));
    let what = format!("{policy}, {call} {}: {}\n{}", moment.n, moment.line, text(&output));
    assert_eq!(output.status.code(), Some(1), "{what}");
    let document = bed.document();
    let [failed, other] = document.arms.as_slice() else { panic!("two arms: {what}") };
    assert!(document.complete && other.failed.is_none() && other.samples.len() == 1, "{what}");
    bed.nothing_is_left(&what);
    if call.ends_with("sync") {
        // A failed sync is final.
        let struck = lines.iter().position(|line| line.ends_with("(INJECTED)")).expect("a struck call");
        let file = lines[struck].split(['<', '>']).nth(1).unwrap_or_default().to_owned();
        let again = lines[struck + 1..].iter().filter(|line| line.contains(&format!("<{file}>"))).count();
        assert_eq!(again, 0, "{what}: tried again");
    }
    (failed.clone(), common::told(&output))
}

#[test]
fn eio_of_every_kind_of_call_fails_its_arm_and_no_other() {
    if !root_or_skip("eio_of_every_kind_of_call_fails_its_arm_and_no_other") {
        return;
    }
    let table = [
        ("immediate", "mkdir", "could not create directory"),
        ("pg-9.6", "openat", "could not open file"),
        ("pg-9.6", "getdents64", "could not read directory"),
        ("pg-9.6", "newfstatat", "could not stat file"),
        ("pg-9.6", "read", "could not read file"),
        ("pg-9.6", "write", "could not write to file"),
        ("pg-9.6", "sync_file_range", "could not flush dirty data of file"),
        ("pg-9.6", "fsync", "could not fsync file"),
        ("immediate", "close", "could not close file"),
        ("immediate", "fsync", "could not fsync file"),
        ("pg-9.0", "fadvise64", "could not advise on file"),
        ("pg-18-clone", "copy_file_range", "could not copy to file"),
        ("reflink", "ioctl", "could not clone file"),
        ("direct", "ftruncate", "could not truncate file"),
        ("git-batch", "unlink", "could not remove file"),
        ("syncfs", "syncfs", "could not synchronize file system of"),
        ("deferred+call=fdatasync", "fdatasync", "could not fdatasync file"),
        ("aio", "fallocate", "could not allocate space for file"),
        ("aio", "io_submit", "could not write to file"),
        ("aio", "io_getevents", "could not write to file"),
        ("uring", "io_uring_enter", "could not submit to the ring for"),
    ];
    let image = Image::new(FileSystem::Xfs, "300M", "");
    let bed = Bed::new(&image);
    let mut rehearsals: BTreeMap<&str, Vec<Moment>> = BTreeMap::new();
    for (policy, call, wanted) in table {
        let moments = rehearsals.entry(policy).or_insert_with(|| rehearsed(&bed, policy));
        let (arm, stderr) = check(&bed, policy, to_strike(moments, call), "error=EIO");
        let failed = arm.failed.as_ref().unwrap_or_else(|| panic!("{policy} {call}: the arm did not fail"));
        assert!(
            failed.text.starts_with(&format!("{wanted} \""))
                && failed.text.ends_with("\": Input/output error"),
            "{policy} {call}: {}",
            failed.text
        );
        assert_eq!((failed.errno, failed.call.as_deref()), (Some(5), Some(call)), "{policy} {call}");
        assert!(stderr.contains(&failed.text), "{policy} {call}: not told at once: {stderr}");
        assert!(arm.samples.is_empty(), "{policy} {call}: a failed trial counts for nothing");
        if call.contains("sync") {
            assert_eq!(arm.promise, Some(Promise::Nothing), "{policy} {call}: nobody knows what is on disk");
        }
    }
}

/// The kernel writes, or reads, another byte than the program asked for, and says that all went well.
#[test]
fn one_flipped_byte_ends_with_1() {
    if !root_or_skip("one_flipped_byte_ends_with_1") {
        return;
    }
    let image = Image::new(FileSystem::Ext4, "128M", "");
    let bed = Bed::new(&image);
    let moments = rehearsed(&bed, "pg-9.6");
    for (call, tamper) in [("write", "poke_enter=@arg2=01"), ("read", "poke_exit=@arg2=01")] {
        let inside = |moment: &&Moment| moment.call == call && moment.trial == Some(1);
        let moved: Vec<&Moment> =
            moments.iter().filter(inside).filter(|moment| moment.line.ends_with(" = 65536")).collect();
        let (arm, stderr) = check(&bed, "pg-9.6", moved[moved.len() / 2], tamper);
        let failed = arm.failed.expect("the copy differs");
        assert!(failed.text.contains("differs from its source"), "{call}: {}", failed.text);
        assert!(failed.text.contains("large") && stderr.contains(&failed.text), "{call}: {}", failed.text);
    }
}

#[test]
fn a_read_only_file_system_is_told_in_postgresqls_words() {
    if !root_or_skip("a_read_only_file_system_is_told_in_postgresqls_words") {
        return;
    }
    let image = Image::new(FileSystem::Ext4, "128M", "");
    let bed = Bed::new(&image);
    let moments = rehearsed(&bed, "pg-9.6");
    let (arm, _) = check(&bed, "pg-9.6", to_strike(&moments, "mkdir"), "error=EROFS");
    let failed = arm.failed.expect("a failed arm").text;
    assert!(
        failed.starts_with("could not create directory \"")
            && failed.ends_with("/copy\": Read-only file system"),
        "{failed}"
    );
    common::run("mount", &["-o", "remount,ro", image.path().to_str().expect("UTF-8")]);
    let output = bed.command("never").output().expect("the program");
    let stderr = common::told(&output);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(stderr.contains("could not create directory \""), "{stderr}");
    assert!(stderr.contains("\": Read-only file system"), "{stderr}");
    bed.nothing_is_left("a place that is read-only");
}

/// Blocks that are shared need no room: that arm goes on where the others are out of it.
#[test]
fn where_the_copy_does_not_fit_its_arm_fails_and_one_that_fits_goes_on() {
    if !root_or_skip("where_the_copy_does_not_fit_its_arm_fails_and_one_that_fits_goes_on") {
        return;
    }
    let image = Image::new(FileSystem::Xfs, "300M", "");
    let bed = Bed::new(&image);
    fs::write(bed.work.path().join("tree/large"), vec![1; 140 << 20]).expect("a large file");
    let output = bed.command("deferred,reflink").output().expect("the program");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let document = bed.document();
    let failed = document.arms[0].failed.as_ref().expect("a full disk");
    assert_eq!((failed.errno, failed.call.as_deref()), (Some(28), Some("write")), "{}", text(&output));
    assert!(failed.text.contains("\": No space left on device ("), "{}", failed.text);
    assert!(failed.text.contains("bytes had been written, ") && failed.text.ends_with(" bytes are free)"));
    assert_eq!((document.arms[1].samples.len(), document.arms[1].failed.is_none()), (1, true));
    bed.nothing_is_left("a full disk");
}

#[test]
fn what_a_directory_or_a_hint_refuses_is_no_fault_but_the_same_of_a_file_is() {
    if !root_or_skip("what_a_directory_or_a_hint_refuses_is_no_fault_but_the_same_of_a_file_is") {
        return;
    }
    let image = Image::new(FileSystem::Ext4, "128M", "");
    let bed = Bed::new(&image);
    let command = || bed.command("deferred");
    let run = Repeatable { command: &command, work: bed.work.path() };
    let seen = run.moments();
    let last = |trial| {
        let mut fsyncs = seen.iter().filter(|moment| moment.call == "fsync" && moment.trial == Some(trial));
        fsyncs.next_back().expect("the directory that holds the copy").n
    };
    for (errno, words) in [
        ("EINVAL", "Invalid argument"),
        ("EOPNOTSUPP", "Operation not supported"),
        ("ENOSYS", "Function not implemented"),
        ("EBADF", "Bad file descriptor"),
    ] {
        let (output, _) = run.with("fsync", &format!("error={errno}:when={}", last(1)));
        assert_eq!(output.status.code(), Some(0), "{errno}: {}", text(&output));
        let document = bed.document();
        assert_eq!(document.arms[0].promise, Some(Promise::Data), "{errno}");
        let note = document.notes.iter().find(|note| note.text.contains("directory entries are not durable"));
        assert!(note.is_some_and(|note| note.text.contains(words)), "{errno}: {:?}", document.notes);
        let (output, _) = run.with("fsync", &format!("error={errno}:when={}", last(1) - 5));
        assert_eq!(output.status.code(), Some(1), "{errno} of a file: {}", text(&output));
    }
    for errno in ["ENOSYS", "ESPIPE", "EPERM"] {
        let (output, lines) = run.with("sync_file_range", &format!("error={errno}"));
        assert_eq!(output.status.code(), Some(0), "{errno}: {}", text(&output));
        assert_eq!(
            lines.iter().filter(|line| line.contains("(INJECTED)")).count(),
            1,
            "{errno}: once a trial"
        );
        let document = bed.document();
        let told = document.notes.iter().filter(|note| note.text.contains("hints are not supported here"));
        assert_eq!(told.count(), 1, "{errno}: {:?}", document.notes);
        assert_eq!(document.arms[0].promise, Some(Promise::Tree), "{errno}: a hint counts for nothing");
    }
    bed.nothing_is_left("refusals");
}

#[test]
fn copy_file_range_across_file_systems_falls_back_and_says_so_but_a_server_fails() {
    if !root_or_skip("copy_file_range_across_file_systems_falls_back_and_says_so_but_a_server_fails") {
        return;
    }
    let image = Image::new(FileSystem::Ext4, "128M", "");
    let bed = Bed::new(&image);
    let command = || bed.command("deferred+copy=copy-file-range,pg-18-clone");
    let run = Repeatable { command: &command, work: bed.work.path() };
    let (output, _) = run.with("copy_file_range", "error=EXDEV");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let document = bed.document();
    let [lab, server] = document.arms.as_slice() else { panic!("two arms") };
    assert_eq!((lab.samples.len(), &lab.failed), (1, &None), "{}", text(&output));
    let calls = &lab.samples[0].calls;
    assert_eq!(calls.get("copy_file_range"), Some(&1), "tried once: {calls:?}");
    let note = document.notes.iter().find(|note| note.text.contains("moved by read and write"));
    assert!(note.is_some_and(|note| note.text.contains("Invalid cross-device link")), "{:?}", document.notes);
    let failed = server.failed.as_ref().expect("a server has no other way");
    assert!(failed.text.ends_with("Invalid cross-device link"), "{}", failed.text);
    bed.nothing_is_left("a fallback");
}

#[test]
fn time_inside_a_hint_that_blocks_is_told_apart() {
    if !root_or_skip("time_inside_a_hint_that_blocks_is_told_apart") {
        return;
    }
    let image = Image::new(FileSystem::Ext4, "128M", "");
    let bed = Bed::new(&image);
    let command = || bed.command("deferred,pg-9.0");
    let run = Repeatable { command: &command, work: bed.work.path() };
    let (output, lines) = run.with("sync_file_range", "delay_enter=20ms");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let document = bed.document();
    let sample = &document.arms[0].samples[0];
    // 46 files with data, the large one hinted five times.
    assert_eq!((sample.calls["sync_file_range"], lines.len()), (50, 51), "{lines:?}");
    let (in_hints_ns, of_calls_ns) = (sample.phases["hint_ns"], sample.calls_ns["sync_file_range"]);
    assert!(in_hints_ns >= 50 * 20_000_000, "{sample:?}");
    assert!(of_calls_ns <= in_hints_ns && in_hints_ns < sample.elapsed_ns, "{sample:?}");
    assert!(sample.phases["copy_ns"] + sample.phases["sync_files_ns"] <= sample.elapsed_ns - in_hints_ns);
}
