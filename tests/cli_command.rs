//! Anybody's copier as an arm, and whether its source was in memory, through the whole program.

mod common;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use common::{FileSystem, Image, fsynclab, root_or_skip, scratch, text};
use fsynclab::results::{Arm, Document, Promise, text as form};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// A state directory, and room for what a test's commands say.
struct Bed {
    work: TempDir,
}

impl Bed {
    fn new() -> Self {
        let work = scratch("command");
        fs::create_dir(work.path().join("place")).expect("a directory");
        Self { work }
    }

    fn place(&self) -> PathBuf {
        self.work.path().join("place")
    }

    /// What commands wrote to `$SAID`.
    fn said(&self) -> String {
        fs::read_to_string(self.work.path().join("said")).expect("what a command said")
    }

    fn program(&self, place: &Path, arguments: &[&str]) -> Command {
        let mut command = fsynclab(&self.work.path().join("state"));
        command.args(["copy", "many-small:20", "--beside-server", "--rounds", "1"]).args(arguments);
        command.arg("--into").arg(place).arg("--json").arg(self.work.path().join("r.json"));
        command.env("SAID", self.work.path().join("said"));
        command
    }

    /// Of the copies nothing is left.
    fn copy(&self, place: &Path, arguments: &[&str]) -> (Output, Document) {
        let before = fs::read_dir(place).expect("the place").count();
        let output = self.program(place, arguments).output().expect("the program");
        assert_eq!(fs::read_dir(place).expect("the place").count(), before, "left: {}", text(&output));
        let results = fs::read(self.work.path().join("r.json"));
        let results = results.unwrap_or_else(|_| panic!("no results: {}", text(&output)));
        (output, form::read(&results).expect("a document"))
    }
}

/// A script as a command's words, the paths its $1 and $2.
fn script(name: &str, script: &str) -> String {
    format!("{name}=sh -c '{script}' sh {{src}} {{dst}}")
}

fn names(document: &Document) -> Vec<&str> {
    document.arms.iter().map(|arm| arm.name.as_str()).collect()
}

fn arm<'a>(document: &'a Document, name: &str) -> &'a Arm {
    document.arms.iter().find(|arm| arm.name == name).unwrap_or_else(|| panic!("no {name}"))
}

fn flushes(arm: &Arm) -> u64 {
    arm.samples[1].device.expect("counters of a loop device").flushes
}

#[test]
fn a_command_is_two_arms_counted_and_compared_as_a_policy_is() {
    if !root_or_skip("a_command_is_two_arms_counted_and_compared_as_a_policy_is") {
        return;
    }
    for file_system in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs] {
        let image = Image::new(file_system, "600M", "");
        let arguments = [
            "--policy",
            "immediate",
            "--command",
            "cp-a=cp -a {src} {dst}",
            "--command",
            "rsync=rsync -a --fsync {src}/ {dst}/",
        ];
        let (output, document) = Bed::new().copy(&image.path(), &arguments);
        assert_eq!(output.status.code(), Some(0), "{file_system:?}: {}", text(&output));
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(stdout.contains("rsync+syncfs  tree") && stdout.contains("cp-a "), "{stdout}");
        assert!(!stdout.contains("(floor)"), "what a command syncs is not known: {stdout}");
        assert_eq!(names(&document), ["immediate", "cp-a", "cp-a+syncfs", "rsync", "rsync+syncfs"]);
        let (plain, synced) = (arm(&document, "cp-a"), arm(&document, "cp-a+syncfs"));
        assert_eq!((plain.promise, synced.promise), (Some(Promise::Nothing), Some(Promise::Tree)));
        assert_eq!(plain.labels.get("command"), Some("cp-a"));
        assert_eq!(plain.samples[1].calls.get("syncfs"), None);
        assert_eq!(synced.samples[1].calls["syncfs"], 1);
        let phases: u64 = synced.samples[1].phases.values().sum();
        assert_eq!(phases, synced.samples[1].elapsed_ns);
        assert!(flushes(synced) >= 1, "{file_system:?}: syncfs made no flush");
        assert!(flushes(arm(&document, "rsync")) >= 20, "{file_system:?}: rsync --fsync syncs each file");
        let compared: Vec<(&str, &str)> =
            document.comparisons.iter().map(|found| (found.baseline.as_str(), found.arm.as_str())).collect();
        let expected = ["cp-a", "cp-a+syncfs", "rsync", "rsync+syncfs"].map(|name| ("immediate", name));
        assert_eq!(compared, expected);
    }
}

#[test]
fn a_command_works_on_a_copy_of_the_runs_own_and_makes_the_destination() {
    let bed = Bed::new();
    let template = bed.work.path().join("template");
    fs::create_dir(&template).expect("a directory");
    fs::write(template.join("a b"), "data").expect("a file");
    let said = script("it", "test ! -e \"$2\" && cp -a \"$1\" \"$2\" && echo \"$1\" >>\"$SAID\"");
    let mut program = fsynclab(&bed.work.path().join("state"));
    program.arg("copy").arg(&template).args(["--beside-server", "--rounds", "1", "--command", &said]);
    let output = program.arg("--into").arg(bed.place()).env("SAID", bed.work.path().join("said")).output();
    let output = output.expect("the program");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let said = bed.said();
    assert_eq!(said.lines().count(), 4, "two arms, two rounds: {said}");
    assert!(said.lines().all(|line| line.contains("/.fsynclab-") && line.ends_with("/source")), "{said}");
}

#[test]
fn a_command_that_fails_or_copies_wrongly_fails_its_arms_only() {
    let bed = Bed::new();
    for (words, says) in [
        (
            script("it", "echo 1 >&2; echo two >&2; echo three >&2; echo sorry >&2; exit 3"),
            "two; three; sorry",
        ),
        (script("it", "kill -9 $$"), "was terminated by signal 9"),
        ("it=no-such-copier {src} {dst}".to_owned(), "could not execute \"no-such-copier\""),
        (script("it", "true"), "could not stat file"),
        (script("it", "mkdir \"$2\""), "is missing in the copy"),
        (
            script("it", "cp -a \"$1\" \"$2\"; echo x >>\"$2/16384\""),
            "\"16384\" has 8194 bytes, its source 8192",
        ),
        (script("it", "cp -a \"$1\" \"$2\"; touch \"$2/more\""), "\"more\" is in the copy only"),
        (script("it", "echo x >\"$2\""), "could not read directory"),
    ] {
        let (output, document) = bed.copy(&bed.place(), &["--policy", "never", "--command", &words]);
        assert_eq!(output.status.code(), Some(1), "{words}: {}", text(&output));
        let failed = arm(&document, "it").failed.as_ref().unwrap_or_else(|| panic!("{words}: no failure"));
        assert!(failed.text.contains(says), "{words}: {failed:?}");
        assert!(arm(&document, "it+syncfs").failed.is_some(), "{words}");
        assert_eq!(arm(&document, "never").samples.len(), 2, "{words}");
    }
    let (_, document) = bed.copy(&bed.place(), &["--policy", "never", "--command", &script("it", "exit 3")]);
    let failed = arm(&document, "it").failed.as_ref().expect("a failure");
    assert_eq!(failed.text, "\"sh\" exited with exit code 3");
}

#[test]
fn a_command_that_does_not_end_is_ended_at_the_time_limit() {
    let bed = Bed::new();
    let hangs = script("hangs", "sleep 600");
    let arguments = ["--policy", "never", "--time-limit", "2s", "--order", "in-turn", "--command", &hangs];
    let (output, document) = bed.copy(&bed.place(), &arguments);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let failed = arm(&document, "hangs").failed.as_ref().expect("a failure");
    assert_eq!(failed.text, "\"sh\" did not end within 2 s");
    assert!(!document.complete);
}

#[test]
fn a_signal_ends_the_command_too() {
    let bed = Bed::new();
    let hangs = script("hangs", "echo $$ >\"$SAID\"; cp -a \"$1\" \"$2\"; exec sleep 600");
    let arguments = ["--policy", "never", "--order", "in-turn", "--command", &hangs];
    let mut program = bed.program(&bed.place(), &arguments);
    let mut run = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program");
    let said = bed.work.path().join("said");
    for _ in 0..3000 {
        if fs::read_to_string(&said).is_ok_and(|said| said.ends_with('\n')) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    kill(Pid::from_raw(i32::try_from(run.id()).expect("a pid")), Signal::SIGINT).expect("a living run");
    let status = run.wait().expect("the program");
    assert_eq!((status.code(), status.signal()), (Some(130), None));
    let pid = bed.said();
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "the command, process {pid}, lives on");
    assert_eq!(fs::read_dir(bed.place()).expect("the place").count(), 0, "something is left");
    let results =
        form::read(&fs::read(bed.work.path().join("r.json")).expect("results")).expect("a document");
    assert!(!results.complete && arm(&results, "hangs").samples.is_empty());
}

#[test]
fn what_is_no_command_is_wrong_usage() {
    let bed = Bed::new();
    for (wrong, says) in [
        (&["--command", "cp -a {src} {dst}"], "has no name"),
        (&["--command", "cp=cp -a {src}"], "has no {dst}"),
        (&["--command", "never=cp -a {src} {dst}"], "\"never\" is given twice"),
        (&["--source-cache", "lukewarm"], "neither warm nor cold"),
        (&["--source-cache", "cold,cold"], "is given twice"),
        (&["--template-scale", "0"], "--template-scale"),
    ] {
        let output = bed.program(&bed.place(), wrong).output().expect("the program");
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", text(&output));
        assert!(common::told(&output).contains(says), "{wrong:?}: {}", text(&output));
    }
}

#[test]
fn a_source_is_cold_or_warm_before_each_trial_as_its_arm_says() {
    if !root_or_skip("a_source_is_cold_or_warm_before_each_trial_as_its_arm_says") {
        return;
    }
    let image = Image::new(FileSystem::Ext4, "64M", "");
    let bed = Bed::new();
    let counts = "fincore --bytes --noheadings --output RES \"$1/16384\" >>\"$SAID\"; cp -a \"$1\" \"$2\"";
    let counts = script("it", counts);
    let arguments =
        ["--policy", "never", "--order", "in-turn", "--source-cache", "warm,cold", "--command", &counts];
    let (output, document) = bed.copy(&image.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let arms =
        ["never / warm", "it / warm", "it+syncfs / warm", "never / cold", "it / cold", "it+syncfs / cold"];
    assert_eq!(names(&document), arms);
    let said = bed.said();
    let cached: Vec<u64> = said.lines().map(|line| line.trim().parse().expect("bytes")).collect();
    assert_eq!(cached, [8192, 8192, 0, 0, 8192, 8192, 0, 0], "both rounds");
    let compared = |baseline: &str, arm: &str| {
        document.comparisons.iter().any(|found| found.baseline == baseline && found.arm == arm)
    };
    assert!(compared("never / warm", "never / cold") && compared("never / cold", "it / cold"));
}

#[test]
fn a_shape_is_taken_so_many_times() {
    let bed = Bed::new();
    let (output, document) = bed.copy(&bed.place(), &["--policy", "never", "--template-scale", "4"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let input = document.input.expect("an input");
    assert_eq!((input.files, input.bytes), (80, 80 * 8192));
}
