//! `fsynclab probe --pg` against PostgreSQL 15's own pg_test_fsync, in turn on one ext4 file system in an image file,
//! one second a line, medians of five: every line within 10 %, or within twice what pg_test_fsync differs from itself.
//!
//! Needs root, and takes three minutes: `cargo bench --bench against_pg_test_fsync`.
#![expect(clippy::print_stdout, reason = "the table is what it is for")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::Path;
use std::process::{Command, ExitCode};

use common::{FileSystem, Image, fsynclab, scratch, text};
use fsynclab::probe::published::{Block, Method, Set, read};

const THEIRS: &str = "/usr/lib/postgresql/15/bin/pg_test_fsync";
const RUNS: usize = 5;
const TOLERANCE: f64 = 0.10;

fn main() -> ExitCode {
    let image = Image::new(FileSystem::Ext4, "600M", "");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        if run % 2 == 0 {
            theirs.push(of_theirs(&image.path()));
            ours.push(of_ours(&image.path()));
        } else {
            ours.push(of_ours(&image.path()));
            theirs.push(of_theirs(&image.path()));
        }
    }
    println!("{:<22}{:>10}{:>10}{:>9}{:>14}", "line", "theirs", "ours", "differ", "theirs spread");
    let mut all = true;
    for row in &theirs[0].rows {
        let line = (row.block, row.method);
        let (Some(theirs), Some(ours)) = (Rates::of(&theirs, line), Rates::of(&ours, line)) else { continue };
        let differ = ours.median / theirs.median - 1.0;
        let good = differ.abs() <= TOLERANCE.max(2.0 * theirs.spread);
        all &= good;
        println!(
            "{:<22}{:>10.0}{:>10.0}{:>8.1}%{:>13.1}%{}",
            format!("{} {}", line.0, line.1),
            theirs.median,
            ours.median,
            100.0 * differ,
            100.0 * theirs.spread,
            if good { "" } else { "  TOO FAR" }
        );
    }
    if all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn of_theirs(place: &Path) -> Set {
    let file = place.join("pg_test_fsync.out");
    let output = Command::new(THEIRS).args(["-s", "1", "-f"]).arg(file).output().expect(THEIRS);
    set(&output.stdout)
}

fn of_ours(place: &Path) -> Set {
    let state = scratch("state");
    let output =
        fsynclab(state.path()).args(["probe", "--pg"]).arg(place).output().expect("the program runs");
    // 4 where the image lies in memory: its figures are as good for this.
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", text(&output));
    set(&output.stdout)
}

fn set(bytes: &[u8]) -> Set {
    let mut reading = read(bytes);
    assert_eq!((reading.sets.len(), reading.unread.len()), (1, 0), "{}", String::from_utf8_lossy(bytes));
    reading.sets.remove(0)
}

struct Rates {
    median: f64,
    /// From the slowest run to the fastest, as a part of the median.
    spread: f64,
}

impl Rates {
    fn of(sets: &[Set], (block, method): (Block, Method)) -> Option<Self> {
        let mut rates = sets.iter().map(|set| set.rate(block, method)).collect::<Option<Vec<f64>>>()?;
        rates.sort_by(f64::total_cmp);
        let median = rates[rates.len() / 2];
        Some(Self { median, spread: (rates[rates.len() - 1] - rates[0]) / median })
    }
}
