//! SIGINT, SIGTERM and SIGHUP in every phase, aimed by counting calls, a second one at the next call: the results are kept
//! as incomplete, nothing is left, and the exit status tells the first.

#[path = "strace/aimed.rs"]
mod aimed;
mod common;
#[path = "strace/moments.rs"]
mod moments;

use std::fs;

use aimed::{Bed, aims};
use common::text;
use fsynclab::results::text as form;
use moments::{Moment, Repeatable};

/// Signals a run at that call and the next of its kind; the exit status.
fn check(moment: &Moment, signal: &str, number: i32) -> Option<i32> {
    let bed = Bed::new();
    let command = || bed.command();
    let run = Repeatable { command: &command, work: bed.work.path() };
    let (first, second) = (moment.n, moment.n + 1);
    let (output, _) = run.with(&moment.call, &format!("signal={signal}:when={first}..{second}"));
    let what = format!(
        "{signal} while {}, {} {first}: {}\n{}",
        moment.phase,
        moment.call,
        moment.line,
        text(&output)
    );
    let results = fs::read(bed.at("results/r.json")).ok();
    let complete = results.map(|bytes| form::read(&bytes).expect("whole results").complete);
    // A run whose last trial is over is done; one that is still making its source has nothing to keep.
    let wanted = if complete == Some(true) { 0 } else { 128 + number };
    assert_eq!(output.status.code(), Some(wanted), "{what}");
    assert!(complete.is_some() || moment.phase == "making", "{what}: no results");
    assert_eq!(bed.names("place"), ["stranger"], "{what}");
    assert_eq!(bed.names("state"), [""; 0], "{what}");
    let mut results = bed.names("results");
    results.retain(|name| name != "r.json");
    assert_eq!(results, ["stranger"], "{what}");
    output.status.code()
}

#[test]
fn every_signal_in_every_phase_keeps_the_results_and_leaves_nothing() {
    let bed = Bed::new();
    let command = || bed.command();
    let moments = Repeatable { command: &command, work: bed.work.path() }.moments();
    let signals = [("SIGINT", 2), ("SIGTERM", 15), ("SIGHUP", 1)];
    for phase in ["making", "copying", "hinting", "syncing", "removing", "writing-results", "undoing"] {
        let aimed = aims(&moments, phase, signals.len()).into_iter().zip(signals);
        let ended: Vec<_> = aimed.map(|(moment, (signal, number))| check(moment, signal, number)).collect();
        println!("SIGINT, SIGTERM, SIGHUP while {phase}: {ended:?}");
        assert!(phase == "undoing" || ended.iter().any(|status| *status != Some(0)), "{phase}: {ended:?}");
    }
}
