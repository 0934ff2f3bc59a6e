//! A thinly provisioned disk that runs out of room: the file system took the data, the disk does not. No write tells it,
//! only the sync, whatever makes it (a call, a thread, a ring); its arm fails at once.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use common::{fsynclab, root_or_skip, run, scratch, text};
use fsynclab::results::{Document, Promise, text as form};
use tempfile::TempDir;

/// ext4 without a journal in an image of 256 MiB, in a memory file system that has room for far less of it.
struct Disk {
    directory: TempDir,
    device: String,
}

impl Disk {
    fn new(room: &str) -> Self {
        let directory = scratch("thin");
        let [memory, mount] = ["memory", "mnt"].map(|name| directory.path().join(name));
        fs::create_dir(&memory).expect("a directory");
        fs::create_dir(&mount).expect("a directory");
        run(
            "mount",
            &[
                OsStr::new("-t"),
                "tmpfs".as_ref(),
                "-o".as_ref(),
                room.as_ref(),
                "none".as_ref(),
                memory.as_ref(),
            ],
        );
        let image = memory.join("image");
        run("truncate", &[OsStr::new("-s"), "256M".as_ref(), image.as_ref()]);
        let options = ["-q", "-F", "-O", "^has_journal", "-E", "lazy_itable_init=0", "-e", "continue"];
        run("mkfs.ext4", &options.iter().map(OsStr::new).chain([image.as_os_str()]).collect::<Vec<_>>());
        let device =
            run("losetup", &[OsStr::new("--find"), "--show".as_ref(), image.as_ref()]).trim().to_owned();
        run("mount", &[OsStr::new(&device), mount.as_os_str()]);
        Self { directory, device }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("mnt")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let [memory, mount] = ["memory", "mnt"].map(|name| self.directory.path().join(name));
        let ended = [
            Command::new("umount").arg(mount).status(),
            Command::new("losetup").arg("--detach").arg(&self.device).status(),
            // The loop device lets go of its file a little later.
            Command::new("umount").arg("--lazy").arg(memory).status(),
        ];
        if !ended.iter().all(|status| status.as_ref().is_ok_and(std::process::ExitStatus::success)) {
            // A panic here would hide the test's own.
            fs::write("/dev/stderr", format!("left behind: {}\n", self.device)).unwrap_or_default();
        }
    }
}

/// One policy that asks the disk, and `never`, which does not.
fn check(policy: &str, call: &str) {
    let disk = Disk::new("size=24m");
    let work = scratch("thin-run");
    let json = work.path().join("r.json");
    let mut command = fsynclab(&work.path().join("state"));
    command.args(["copy", "few", "--rounds", "2", "--warmup", "0", "--order", "in-turn", "--beside-server"]);
    command.args(["--verify", "off", "--policy", &format!("{policy},never"), "--into"]);
    let tree = work.path().join("few");
    fs::create_dir(&tree).expect("a directory");
    for number in 0..60 {
        fs::write(tree.join(number.to_string()), vec![7; 1 << 20]).expect("a file");
    }
    command.current_dir(work.path());
    let output = command.arg(disk.path()).arg("--json").arg(&json).output().expect("the program");
    let what = format!("{policy}: {}", text(&output));
    assert_eq!(output.status.code(), Some(1), "{what}");
    let document: Document = form::read(&fs::read(&json).expect("results")).expect("a document");
    let arm = &document.arms[0];
    let failed = arm.failed.as_ref().unwrap_or_else(|| panic!("it did not fail: {what}"));
    // By which of the two errors the file system passes it on depends on who wrote the data back first.
    let words = match failed.errno {
        Some(28) => "\": No space left on device (",
        _ => "\": Input/output error",
    };
    assert!(failed.text.contains(words) && failed.call.as_deref() == Some(call), "{what}");
    assert_eq!((arm.promise, arm.samples.len()), (Some(Promise::Nothing), 0), "{what}");
}

#[test]
fn what_the_disk_did_not_take_is_told_by_every_kind_of_sync() {
    if !root_or_skip("what_the_disk_did_not_take_is_told_by_every_kind_of_sync") {
        return;
    }
    for (policy, call) in [
        ("immediate", "fsync"),
        ("deferred+call=fdatasync", "fdatasync"),
        ("deferred+sync=held", "fsync"),
        ("threads", "fsync"),
        ("uring", "fsync"),
        ("syncfs", "syncfs"),
    ] {
        check(policy, call);
    }
}
