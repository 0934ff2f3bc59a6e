//! A restore through this program against the shell's pipe, in turn: `pg_dump | psql` of the same database into a cluster of
//! PostgreSQL 15, and what this program's own processor time is beside that. On the disk here and, as root, on an
//! uncached drive: `cargo bench --bench restore`, five minutes.
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/common/postgres.rs"]
#[expect(dead_code, reason = "only where the servers are")]
mod postgres;
#[path = "../tests/sim/mod.rs"]
mod sim;
#[path = "restore/turns.rs"]
mod turns;

use std::process::ExitCode;

use fsynclab::place::Place;
use fsynclab::stats::Verdict;
use nix::unistd::geteuid;

/// 100,000 rows of 97 bytes each: 204 MB of text.
const SCALE: u32 = 21;
const ROUNDS: usize = 7;
/// Of the restore's time.
const MOST_CPU: f64 = 0.01;
const UNCACHED: &str = "sata-2009,write-cache=off,size=8GiB";

fn main() -> ExitCode {
    let journal = sim::journal();
    let scratch = common::scratch("restore-turns");
    std::fs::set_permissions(scratch.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("mode");
    let here = Place::survey("p1", scratch.path()).expect("a directory");
    let is_near = |place: &Place, name: &str| {
        let found = turns::turns(place, &postgres::directory(15), SCALE, ROUNDS, &journal);
        println!("{name}\n{found}\n");
        found.verdict() == Verdict::NoDifferenceShown && found.own_cpu() < MOST_CPU
    };
    let mut near = vec![is_near(&here, "the disk here")];
    if geteuid().is_root() {
        let spec = UNCACHED.parse().expect("a spec");
        let drive = Place::simulate("p2", &spec, sim::options(&journal)).expect("a drive");
        near.push(is_near(&drive, &format!("SIMULATED: {UNCACHED}")));
        drive.close(&journal).expect("nothing is left of it");
    }
    journal.close().expect("nothing is left to undo");
    if near.iter().all(|near| *near) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
