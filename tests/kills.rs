//! SIGKILL at twenty moments, aimed by counting calls: in every phase at least one. Afterwards `clean` finds all that is
//! ours, and the results file is whole.

mod common;
#[path = "strace/moments.rs"]
mod moments;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use common::{fsynclab, scratch, text};
use fsynclab::results::text as form;
use moments::{Moment, Repeatable};
use tempfile::TempDir;

/// Before any phase is told: the journal and the run's directory are made.
const STARTING: &str = "starting";
/// How many kills are aimed at each phase, twenty in all.
const KILLS: [(&str, usize); 8] = [
    (STARTING, 1),
    ("making", 3),
    ("copying", 4),
    ("hinting", 2),
    ("syncing", 3),
    ("removing", 2),
    ("writing-results", 3),
    ("undoing", 2),
];
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

struct Bed {
    work: TempDir,
}

impl Bed {
    fn new() -> Self {
        let work = scratch("kills");
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
        fs::write(work.path().join("shape"), shape).expect("a shape");
        Self { work }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    fn command(&self) -> Command {
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

    fn clean(&self) -> Output {
        fsynclab(&self.at("state")).args(["clean", "--yes"]).output().expect("the program")
    }

    fn names(&self, directory: &str) -> Vec<String> {
        let listed = fs::read_dir(self.at(directory)).expect("a directory");
        let names = listed.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

/// So many calls of a phase, spread evenly over it.
fn aims<'a>(moments: &'a [Moment], phase: &str, kills: usize) -> Vec<&'a Moment> {
    let changes = |moment: &&Moment| {
        moment.phase == phase
            && CHANGES.contains(&moment.call.as_str())
            && !moment.line.starts_with("write(2<")
    };
    let found: Vec<&Moment> = moments.iter().filter(changes).collect();
    assert!(found.len() >= kills, "only {} calls while {phase}", found.len());
    // One further each time, or a phase that repeats itself would be met at the same call every time.
    (0..kills).map(|kill| found[(found.len() * (2 * kill + 1) / (2 * kills) + kill) % found.len()]).collect()
}

/// Kills a run at that call and cleans up; the phase in which it fell.
fn check(moment: &Moment) -> String {
    let bed = Bed::new();
    let command = || bed.command();
    let run = Repeatable { command: &command, work: bed.work.path() };
    let (output, _) = run.with(&moment.call, &format!("signal=SIGKILL:when={}", moment.n));
    let what = format!("{} {}: {}\n{}", moment.call, moment.n, moment.line, text(&output));
    assert_eq!(output.status.signal(), Some(9), "{what}");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let phase =
        stderr.lines().filter_map(|line| line.strip_prefix("phase: ")).next_back().unwrap_or(STARTING);

    let cleaned = bed.clean();
    let what = format!("killed while {phase}, at {what}\ncleaned: {}", text(&cleaned));
    assert!(cleaned.status.success(), "{what}");
    assert_eq!(bed.names("place"), ["stranger"], "{what}");
    assert_eq!(bed.names("state"), [""; 0], "{what}");
    let mut results = bed.names("results");
    results.retain(|name| name != "r.json");
    assert_eq!(results, ["stranger"], "{what}");
    for directory in ["place", "results"] {
        let stranger = fs::read_to_string(bed.at(directory).join("stranger")).expect("the stranger's file");
        assert_eq!(stranger, "mine", "{what}");
    }
    if let Ok(results) = fs::read(bed.at("results/r.json")) {
        let document = form::read(&results).unwrap_or_else(|error| panic!("torn results: {error}: {what}"));
        assert!(!document.complete || matches!(phase, "writing-results" | "undoing"), "{what}");
    }
    phase.to_owned()
}

#[test]
fn after_a_kill_in_any_phase_clean_leaves_nothing_of_ours_and_all_of_others() {
    let bed = Bed::new();
    let command = || bed.command();
    let moments = Repeatable { command: &command, work: bed.work.path() }.moments();
    let mut fell: BTreeMap<String, u32> = BTreeMap::new();
    for (aimed, kills) in KILLS {
        for moment in aims(&moments, aimed, kills) {
            let phase = check(moment);
            println!("killed at {} {}, while {phase}: {}", moment.call, moment.n, moment.line);
            *fell.entry(phase).or_default() += 1;
        }
    }
    println!("{fell:?}");
    assert_eq!(fell.values().sum::<u32>(), 20);
    for phase in ["making", "copying", "hinting", "syncing", "removing", "writing-results", "undoing"] {
        assert!(fell.contains_key(phase), "none fell while {phase}: {fell:?}");
    }
}
