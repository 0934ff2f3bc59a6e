//! SIGKILL at twenty moments, aimed by counting calls: in every phase at least one. Afterwards `clean` finds all that is
//! ours, and the results file is whole.

#[path = "strace/aimed.rs"]
mod aimed;
mod common;
#[path = "strace/moments.rs"]
mod moments;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;

use aimed::{Bed, STARTING, aims};
use common::{fsynclab, text};
use fsynclab::results::text as form;
use moments::{Moment, Repeatable};

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

    let cleaned = fsynclab(&bed.at("state")).args(["clean", "--yes"]).output().expect("the program");
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
