//! What `clean` does with drives whose program was killed, a hung serving process included.

mod sim;

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsynclab::simdrive::mount::{Record, leftovers, remove_number};
use fsynclab::simdrive::spec::FileSystem;
use fsynclab::sys::fork::{Process, detached, started_at};
use fsynclab::sys::undo::{Undo, Undone};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const LIMIT: Duration = Duration::from_secs(20);

/// A program that makes a drive, tells it, and writes until it is killed.
fn program(file_system: FileSystem) -> (Process, Record) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let kept = writer.as_raw_fd();
    let process = detached("fsynclab-victim", &[kept], move || {
        let journal = sim::journal();
        let drive = sim::drive(&sim::spec(file_system), &journal);
        let told = serde_json::to_string(drive.record()).map(|text| writeln!(&writer, "{text}"));
        let file = std::fs::File::create(drive.mount_point().join("file")).expect("the drive can be written");
        let chunk = vec![1; 1 << 20];
        let mut turn = 0;
        while file.write_all_at(&chunk, turn % 64 * chunk.len() as u64).is_ok() {
            turn += 1;
        }
        i32::from(told.is_ok())
    })
    .expect("it can be forked");
    let mut line = String::new();
    BufReader::new(reader).read_line(&mut line).expect("the program tells its drive");
    (process, serde_json::from_str(&line).unwrap_or_else(|_| panic!("no record: {line}")))
}

fn keeper_of(program: &Process) -> i32 {
    let children = format!("/proc/{0}/task/{0}/children", program.pid());
    let children = std::fs::read_to_string(children).expect("the program runs");
    let keeper = |pid: &&str| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "fsynclab-keep")
    };
    children.split_whitespace().find(keeper).expect("it has a keeper").parse().expect("a pid")
}

fn node(record: &Record) -> PathBuf {
    Path::new("/sys/block").join(format!("loop{}", record.loop_number))
}

#[test]
fn a_drive_whose_serving_process_hangs_is_undone() {
    for file_system in FileSystem::ALL {
        let (process, record) = program(file_system);
        kill(Pid::from_raw(record.server_pid), Signal::SIGSTOP).expect("it runs");
        std::thread::sleep(Duration::from_millis(200));
        process.signal(Signal::SIGKILL).expect("it runs");
        assert!(node(&record).exists(), "nobody can have taken it apart");
        assert_eq!(record.undo().expect("it can be undone"), Undone::Now);
        assert!(!node(&record).exists());
        assert_eq!(started_at(record.server_pid), None);
        assert!(!leftovers().0.contains(&record));
        assert!(process.wait(LIMIT).expect("it can be waited for").is_some(), "the program hangs");
        assert_eq!(record.undo().expect("nothing is left to undo"), Undone::Before);
    }
}

#[test]
fn a_number_whose_keeper_was_killed_too_is_found_and_removed() {
    let (process, record) = program(FileSystem::Xfs);
    for pid in [keeper_of(&process), record.server_pid, process.pid()] {
        kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it runs");
    }
    process.wait(LIMIT).expect("it can be waited for");
    sim::wait_until("the loop device lets go", || leftovers().1.contains(&record.loop_number));
    sim::wait_until("the number is removed", || remove_number(record.loop_number).is_ok_and(|gone| gone));
    assert!(!node(&record).exists());
}

#[test]
fn what_does_not_match_is_not_touched() {
    let journal = sim::journal();
    let drive = sim::drive(&sim::spec(FileSystem::Ext4), &journal);
    let mut other = drive.record().clone();
    other.tag.push('x');
    other.server_started += 1;
    other.undo().expect("there is no such drive");
    std::fs::write(drive.mount_point().join("file"), "x").expect("the drive is as it was");
    drive.close(&journal).expect("it closes well");
    let own = std::process::id() % 8;
    assert!(!remove_number(own).expect("loop-control is there"), "loop{own} is not ours");
}
