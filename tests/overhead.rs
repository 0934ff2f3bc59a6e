//! The benchmark of the engine's overhead, tiny: that it runs, makes the same calls, and finds nothing absurd. The bound of
//! 1.05 is for an optimised build: `cargo bench --bench overhead`.

#[path = "../benches/overhead/pairs.rs"]
mod pairs;

use pairs::pairs;

/// An unoptimised build on a loaded machine; an allocation or a clock too many a call shows as more than this.
const ABSURD: f64 = 2.0;

#[test]
fn counting_and_timing_cost_little_beside_the_calls() {
    let found = pairs(15, false);
    println!(
        "engine / bare: {:.3} in {} calls, {:?} ns",
        found.median(),
        found.calls,
        found.bare_ns.iter().min()
    );
    assert!(found.median() < ABSURD, "{:?}", found.ratios);
    // mkdir; three directories opened, one of them to be synced; 4 getdents64; 298 files: 2 lstat, 3 open, 592 read, 294
    // write, 247 hints, 298 + 1 fsync; as many closes as opens.
    assert_eq!(found.calls, 1 + 4 + 2 * 298 + 592 + 294 + 247 + 299 + 2 * (3 * 298 + 3));
}
