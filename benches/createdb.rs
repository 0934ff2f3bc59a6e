//! Replay against reality: what FILE_COPY of a real PostgreSQL 15 copies, and `pg-15`'s copy of the same template, in turn
//! at one place: within 10 % on a simulated uncached drive, where the model's times are most of it, and within 15 % where
//! the processor's are: on that drive with its cache on and never flushed (both as in the measurements of 2009-12), and on
//! the file system here.
//!
//! Needs root, and takes two minutes: `cargo bench --bench createdb`.
#![expect(clippy::print_stdout, reason = "the table is what it is for")]

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/common/postgres.rs"]
#[expect(dead_code, reason = "only where the servers are")]
mod postgres;
#[path = "../tests/sim/mod.rs"]
mod sim;
#[path = "createdb/turns.rs"]
mod turns;

use std::path::Path;
use std::process::ExitCode;

use fsynclab::place::Place;
use turns::{Turn, median};

const UNCACHED: &str = "sata-2009,write-cache=off";
const CACHED: &str = "sata-2009,write-cache=on,mount=nobarrier";

fn main() -> ExitCode {
    let directory = sim::directory();
    let found = [
        (format!("SIMULATED: {UNCACHED}"), on_drive(UNCACHED, 9), 0.10),
        (format!("SIMULATED: {CACHED}"), on_drive(CACHED, 21), 0.15),
        (directory.to_string_lossy().into_owned(), in_directory(&directory, 21), 0.15),
    ];
    let head = ["create", "checkpoints", "its copy", "replay", "differ"];
    println!("{:<52}{:>8}{:>13}{:>10}{:>9}{:>9}", "place, ms", head[0], head[1], head[2], head[3], head[4]);
    let near = found.map(|(place, turns, tolerance)| shown(&place, &turns, tolerance));
    if near == [true; 3] { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn on_drive(spec: &str, rounds: usize) -> Vec<Turn> {
    let journal = sim::journal();
    let spec = spec.parse().expect("a spec");
    let place = Place::simulate("p1", &spec, sim::options(&journal)).expect("a drive");
    let found = turns::turns(&place, &postgres::directory(15), rounds, &journal);
    place.close(&journal).expect("nothing is left of it");
    journal.close().expect("nothing is left to undo");
    found
}

fn in_directory(directory: &Path, rounds: usize) -> Vec<Turn> {
    let journal = sim::journal();
    let place = Place::survey("p1", directory).expect("a directory");
    let found = turns::turns(&place, &postgres::directory(15), rounds, &journal);
    journal.close().expect("nothing is left to undo");
    found
}

/// One line; whether the replay is near enough.
fn shown(place: &str, turns: &[Turn], tolerance: f64) -> bool {
    let differ = median(turns, |turn| turn.replay_ms / turn.copy_ms) - 1.0;
    let near = differ.abs() <= tolerance;
    println!(
        "{place:<52}{:>8.1}{:>13.1}{:>10.1}{:>9.1}{:>8.1}%{}",
        median(turns, |turn| turn.create_ms),
        median(turns, |turn| turn.checkpoints_ms),
        median(turns, |turn| turn.copy_ms),
        median(turns, |turn| turn.replay_ms),
        100.0 * differ,
        if near { "" } else { "  TOO FAR" }
    );
    near
}
