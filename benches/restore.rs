//! A restore through this program against the shell's pipe, in turn: `pg_dump | psql` of the same database into a cluster of
//! PostgreSQL 15, and what this program's own processor time is beside that. As root or not: `cargo bench --bench restore`.
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/common/postgres.rs"]
mod postgres;
#[path = "restore/turns.rs"]
mod turns;

use std::process::ExitCode;

use fsynclab::stats::Verdict;

/// 100,000 rows of 97 bytes each: 204 MB of text.
const SCALE: u32 = 21;
const ROUNDS: usize = 7;
/// Of the restore's time.
const MOST_CPU: f64 = 0.01;

fn main() -> ExitCode {
    let found = turns::turns(SCALE, ROUNDS);
    println!("{found}");
    let near = found.verdict() == Verdict::NoDifferenceShown && found.own_cpu() < MOST_CPU;
    if near { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
