//! The program, its drive process, or both are killed at any moment, under load: nothing is left, nothing hangs.
//!
//! `FSYNCLAB_SIM_KILLS` says how many times (9), `FSYNCLAB_SIM_SEED` when and whom (1).

mod sim;

use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use fsynclab::simdrive::Error;
use fsynclab::simdrive::mount::{Record, SimulatedDrive, leftovers, run_command};
use fsynclab::simdrive::spec::FileSystem;
use fsynclab::sys::clock::now_ns;
use fsynclab::sys::fork::{Process, detached, started_at};
use fsynclab::sys::journal::Journal;
use fsynclab::sys::kernel::Kernel;
use fsynclab::sys::real::Real;
use fsynclab::sys::undo::{Undo, Undone};
use fsynclab::sys::watch::Quiet;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// For a program whose drive process was killed to notice and end.
const PROGRAM_LIMIT: Duration = Duration::from_mins(1);
const CHUNK: usize = 64 << 10;

/// How the program puts load on its drive.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// Threads of its own that write and sync.
    Threads,
    /// Processes under `run_command` that do.
    Command,
}

#[derive(Clone, Copy, Debug)]
enum Killed {
    Program,
    Server,
    Both,
}

/// Starts a program that makes a drive and writes to it until it is killed or the drive fails; and its journal.
fn program(file_system: FileSystem, load: Load) -> (Process, PathBuf) {
    let state = sim::directory().join(format!("victim-{}", now_ns()));
    let process = detached("fsynclab-victim", &[], || {
        let Ok(journal) = Journal::create(&state) else { return 2 };
        let ended = match load {
            Load::Threads => write_in_threads(file_system, &journal),
            Load::Command => write_in_a_command(file_system, &journal),
        };
        i32::from(ended.is_err())
    });
    let in_state = || std::fs::read_dir(&state).ok()?.flatten().map(|entry| entry.path()).next();
    sim::wait_until("the program has a journal", || in_state().is_some());
    (process.expect("it can be forked"), in_state().expect("it is there"))
}

fn write_in_threads(file_system: FileSystem, journal: &Journal) -> Result<(), Error> {
    let drive = SimulatedDrive::create(&sim::spec(file_system), sim::options(journal))?;
    thread::scope(|scope| {
        for name in ["one", "two", "three"] {
            let path = drive.mount_point().join(name);
            scope.spawn(move || write_until_it_fails(&path));
        }
    });
    drive.close(journal)
}

fn write_until_it_fails(path: &Path) -> std::io::Result<()> {
    let file = std::fs::File::create(path)?;
    let chunk = vec![1; CHUNK];
    for turn in 0.. {
        file.write_all_at(&chunk, turn % 64 * CHUNK as u64)?;
        if turn % 4 == 0 {
            Real.fsync(file.as_fd())?;
        }
    }
    Ok(())
}

fn write_in_a_command(file_system: FileSystem, journal: &Journal) -> Result<(), Error> {
    let script = "cd $FSYNCLAB_MOUNT; for n in 1 2 3; do
        (while dd if=/dev/zero of=f$n bs=64k count=40 conv=fsync 2>/dev/null; do :; done) & done; wait";
    let command: Vec<String> = ["sh", "-c", script].map(str::to_owned).to_vec();
    run_command(sim::drive(&sim::spec(file_system), journal), journal, &command, &Quiet).map(drop)
}

/// The record in the program's journal, as soon as it stands there.
fn record_in(journal: &Path) -> Record {
    let read = || {
        let text = std::fs::read_to_string(journal).ok()?;
        let entry: serde_json::Value = serde_json::from_str(text.lines().next()?).ok()?;
        serde_json::from_value(entry["data"].clone()).ok()
    };
    sim::wait_until("the program journals its drive", || read().is_some());
    read().expect("it stands there")
}

/// Kernel threads that work for a loop device: `jbd2/loop5-8`, `xfsaild/loop5`, `kworker/u8:1+loop5`; a worker with a
/// minus sign has nothing to do and keeps the name of its last work.
fn threads_of(device: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("/proc is there").flatten();
    let names = processes.filter_map(|process| std::fs::read_to_string(process.path().join("comm")).ok());
    let idle = |name: &str| name.starts_with("kworker/") && !name.contains('+');
    names.filter(|name| name.contains(device) && !idle(name)).collect()
}

fn nothing_is_left(record: &Record, what: &str) {
    let device = format!("loop{}", record.loop_number);
    let node = PathBuf::from("/sys/block").join(&device);
    sim::wait_until(&format!("{what}: {device} is gone"), || !node.exists());
    sim::wait_until(&format!("{what}: the serving process is gone"), || {
        started_at(record.server_pid).is_none()
    });
    sim::wait_until(&format!("{what}: kernel threads of {device} are idle"), || {
        threads_of(&device).is_empty()
    });
    assert!(!leftovers().0.contains(record), "{what}: mounts are left");
}

#[test]
fn whoever_is_killed_nothing_is_left() {
    let seed = sim::number("FSYNCLAB_SIM_SEED", 1);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut longest_ms = 0;
    let kills = sim::number("FSYNCLAB_SIM_KILLS", 9);
    for turn in 0..kills {
        let file_system = FileSystem::ALL[usize::try_from(turn % 3).expect("three")];
        let load = [Load::Threads, Load::Command][random.random_range(0..2)];
        let killed = [Killed::Program, Killed::Server, Killed::Both][random.random_range(0..3)];
        let delay = Duration::from_micros(random.random_range(0..900_000));
        let what = format!(
            "seed {seed}, turn {turn}: {killed:?} on {} with {load:?} after {delay:?}",
            file_system.name()
        );
        let (process, journal) = program(file_system, load);
        let record = record_in(&journal);
        thread::sleep(delay);
        let start_ns = now_ns();
        if matches!(killed, Killed::Server | Killed::Both) {
            kill(Pid::from_raw(record.server_pid), Signal::SIGKILL).expect("the serving process runs");
        }
        if matches!(killed, Killed::Program | Killed::Both) {
            process.signal(Signal::SIGKILL).expect("the program runs");
        }
        let ended = process.wait(PROGRAM_LIMIT).expect("it can be waited for");
        assert!(ended.is_some(), "{what}: the program hangs");
        nothing_is_left(&record, &what);
        assert_eq!(record.undo().expect("nothing is left to undo"), Undone::Before, "{what}");
        std::fs::remove_dir_all(journal.parent().expect("the state directory")).expect("it can be removed");
        longest_ms = longest_ms.max((now_ns() - start_ns) / 1_000_000);
    }
    println!("{kills} kills, the longest end took {longest_ms} ms");
}
