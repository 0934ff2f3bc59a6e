//! What the engine with its tallies costs beside a bare loop of the same calls: `cargo bench --bench overhead`.
#![expect(clippy::print_stdout, reason = "a benchmark prints what it found")]

#[path = "overhead/pairs.rs"]
mod pairs;

use std::process::ExitCode;

use pairs::pairs;

/// Odd, so that one ratio is in the middle.
const PAIRS: usize = 201;
/// What counting and timing may cost.
const MOST: f64 = 1.05;

fn main() -> ExitCode {
    let control = pairs(PAIRS, true);
    let found = pairs(PAIRS, false);
    println!(
        "{PAIRS} pairs of {} calls, {:.2} ms at best; engine / bare: median {:.3}, at most {MOST}; bare / bare: {:.3}",
        found.calls,
        found.bare_ns.iter().min().copied().unwrap_or(0) as f64 / 1e6,
        found.median(),
        control.median()
    );
    if found.median() <= MOST { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
