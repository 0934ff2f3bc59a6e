//! The benchmark of a restore against the shell's pipe, tiny: that it runs, and finds nothing absurd. Its bounds are for an
//! optimised build and 200 MB: `cargo bench --bench restore`.

mod common;
#[path = "common/postgres.rs"]
#[expect(dead_code, reason = "a part of it is used here")]
mod postgres;
#[path = "../benches/restore/turns.rs"]
mod turns;

use fsynclab::place::Place;

/// An unoptimised build looks at every byte of 10 MB with the debug build's care.
const ABSURD_CPU: f64 = 0.5;

#[test]
fn a_restore_through_us_takes_little_processor_time_of_ours() {
    let bench = postgres::Bench::new("restore-turns");
    let place = Place::survey("p1", bench.place.path()).expect("a directory");
    let found = turns::turns(&place, &postgres::directory(15), 1, 2, &bench.journal);
    println!("{found}");
    assert!(found.own_cpu() < ABSURD_CPU, "{found}");
    bench.close([]);
}
