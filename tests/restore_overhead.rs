//! The benchmark of a restore against the shell's pipe, tiny: that it runs, and finds nothing absurd. Its bounds are for an
//! optimised build and 200 MB: `cargo bench --bench restore`.

mod common;
#[path = "common/postgres.rs"]
mod postgres;
#[path = "../benches/restore/turns.rs"]
mod turns;

/// An unoptimised build looks at every byte of 10 MB with the debug build's care.
const ABSURD_CPU: f64 = 0.5;

#[test]
fn a_restore_through_us_takes_little_processor_time_of_ours() {
    let found = turns::turns(1, 2);
    println!("{found}");
    assert!(found.own_cpu() < ABSURD_CPU, "{found}");
}
