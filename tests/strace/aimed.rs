//! A small run from a shape, and calls of it to aim at, by phase.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::common::fsynclab;
use crate::moments::Moment;

/// Before any phase is told: the journal and the run's directory are made.
pub const STARTING: &str = "starting";
/// Calls that change something: between two of them a kill leaves the same. Files are opened and read by the waiting for an
/// idle disk too, how often differs from run to run; so those are no calls to aim by.
const CHANGES: [&str; 10] = [
    "mkdir",
    "write",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "rename",
    "renameat2",
    "unlink",
    "unlinkat",
    "rmdir",
];

/// A state directory, a place and a directory for results, a stranger's file in both.
pub struct Bed {
    pub work: TempDir,
}

impl Bed {
    pub fn new() -> Self {
        // In memory: elsewhere a running cluster could want the room, and the run would be refused.
        let work = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
        for directory in ["state", "place", "results"] {
            fs::create_dir(work.path().join(directory)).expect("a directory");
        }
        for directory in ["place", "results"] {
            fs::write(work.path().join(directory).join("stranger"), "mine").expect("a stranger's file");
        }
        let mut shape = "fsynclab shape 1\n".to_owned();
        for number in 0..20 {
            writeln!(shape, "{0} {0} file-{number}", number * 1000).expect("a string takes all");
        }
        shape += "end 20\n";
        fs::write(work.path().join("shape"), shape).expect("a shape");
        Self { work }
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    pub fn command(&self) -> Command {
        let mut command = fsynclab(&self.at("state"));
        command.arg("copy").arg(self.at("shape")).arg("--into").arg(self.at("place"));
        command.args([
            "--policy",
            "initdb-sync,immediate",
            "--order",
            "in-turn",
            "--rounds",
            "2",
            "--warmup",
            "0",
        ]);
        command.args(["--seed", "1", "--beside-server", "--time-limit", "10min", "-v", "--json"]);
        command.arg(self.at("results/r.json"));
        command
    }

    pub fn names(&self, directory: &str) -> Vec<String> {
        let listed = fs::read_dir(self.at(directory)).expect("a directory");
        let names = listed.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

/// So many calls of a phase, spread evenly over it.
pub fn aims<'a>(moments: &'a [Moment], phase: &str, kills: usize) -> Vec<&'a Moment> {
    let changes = |moment: &&Moment| {
        let told = if moment.phase.is_empty() { STARTING } else { &moment.phase };
        told == phase && CHANGES.contains(&moment.call.as_str()) && !moment.line.starts_with("write(2<")
    };
    let found: Vec<&Moment> = moments.iter().filter(changes).collect();
    assert!(found.len() >= kills, "only {} calls while {phase}", found.len());
    // One further each time, or a phase that repeats itself would be met at the same call every time.
    (0..kills).map(|kill| found[(found.len() * (2 * kill + 1) / (2 * kills) + kill) % found.len()]).collect()
}
