//! What the numbers of a model imply, found by running the drive in invented time over what a file system would send:
//! no time of the host, nothing from a table.

mod ext4;

#[cfg(test)]
mod tests;

use ext4::Ext4;

use super::model::{Model, Operation, Options};

/// What can be expected of a drive, the host's own time not counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Implied {
    /// 8 kB written to one place and synced, over and over, a second.
    pub synced_overwrites_per_s: f64,
    /// A GiB written in a row and flushed, in nanoseconds.
    pub write_gib_ns: u64,
    /// A GiB read in a row, in nanoseconds.
    pub read_gib_ns: u64,
    /// What `pg_test_fsync` would print on ext4.
    pub lines: Vec<Line>,
    /// How long the files of a CREATE DATABASE would take on ext4.
    pub create_database: Vec<Copy>,
}

/// A line of `pg_test_fsync`.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// `one8`, `two8`, `sizes` and `fd`, as its output is divided; `sizes-dsync`: the sizes written with `O_DSYNC`, which
    /// is what kernels up to 2.6.32 did for `O_SYNC`.
    pub block: &'static str,
    /// The line's label, without blanks.
    pub method: &'static str,
    /// Operations a second.
    pub ops_per_s: f64,
}

/// A template copied and synced.
#[derive(Debug, Clone, PartialEq)]
pub struct Copy {
    /// `pg-8.4` (each file synced as it is copied) or `pg-9.0` (hints, then a pass of syncs).
    pub policy: &'static str,
    /// Whether the file system sends flushes (`barrier`) or is mounted `nobarrier`.
    pub barriers: bool,
    /// How long it takes, in nanoseconds.
    pub elapsed_ns: u64,
}

/// How `pg_test_fsync` syncs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    OpenDatasync,
    Fdatasync,
    Fsync,
    OpenSync,
}

const METHODS: [(&str, Method); 4] = [
    ("open_datasync", Method::OpenDatasync),
    ("fdatasync", Method::Fdatasync),
    ("fsync", Method::Fsync),
    ("open_sync", Method::OpenSync),
];

/// 16 kB in equal writes, with the labels of the sizes' lines.
const SIZES: [(&str, u64); 5] = [("1x16kB", 1), ("2x8kB", 2), ("4x4kB", 4), ("8x2kB", 8), ("16x1kB", 16)];

/// `pg_test_fsync` runs each line for this long.
const LINE_NS: u64 = 5_000_000_000;

/// Enough for a mean of a fast drive.
const LINE_OPERATIONS: u64 = 500;

/// Runs the drive so set up over what ext4 sends.
#[must_use]
pub fn imply(model: &Model, options: &Options) -> Implied {
    let lines = lines(model, options);
    let synced = lines.iter().find(|line| line.method == "fdatasync").map_or(0.0, |line| line.ops_per_s);
    let copies = [("pg-8.4", true), ("pg-9.0", true), ("pg-8.4", false), ("pg-9.0", false)];
    Implied {
        synced_overwrites_per_s: synced,
        write_gib_ns: in_a_row_ns(model, options, Operation::Write),
        read_gib_ns: in_a_row_ns(model, options, Operation::Read),
        lines,
        create_database: copies.map(|(policy, barriers)| copy(model, options, policy, barriers)).to_vec(),
    }
}

/// What `pg_test_fsync` would print on one of its lines; `None` where it has no such line on this drive.
#[must_use]
pub fn line(model: &Model, options: &Options, block: &str, method: &str) -> Option<f64> {
    let asked = cases(model).into_iter().find(|case| (case.block, case.method) == (block, method));
    asked.map(|case| case.rate(model, options))
}

fn lines(model: &Model, options: &Options) -> Vec<Line> {
    let line =
        |case: Case| Line { block: case.block, method: case.method, ops_per_s: case.rate(model, options) };
    cases(model).into_iter().map(line).collect()
}

/// What is timed on a line of `pg_test_fsync`: so many writes of so many bytes, and how they are synced.
struct Case {
    block: &'static str,
    method: &'static str,
    sync: Method,
    writes: u64,
    bytes: u64,
}

impl Case {
    fn rate(&self, model: &Model, options: &Options) -> f64 {
        rate(Ext4::new(model, options, true), self.sync, self.writes, self.bytes)
    }
}

fn cases(model: &Model) -> Vec<Case> {
    let case = |block, method, sync, writes, bytes| Case { block, method, sync, writes, bytes };
    let mut cases = Vec::new();
    for (block, writes) in [("one8", 1), ("two8", 2)] {
        cases.extend(METHODS.map(|(method, sync)| case(block, method, sync, writes, 8192)));
    }
    for (block, sync) in [("sizes", Method::OpenSync), ("sizes-dsync", Method::OpenDatasync)] {
        let possible =
            SIZES.into_iter().filter(|(_, writes)| 16_384 / writes >= u64::from(model.block_bytes));
        cases.extend(possible.map(|(method, writes)| case(block, method, sync, writes, 16_384 / writes)));
    }
    for method in ["write_fsync_close", "write_close_fsync"] {
        cases.push(case("fd", method, Method::Fsync, 1, 8192));
    }
    cases
}

/// Operations a second of `writes` writes of `bytes` each to the same place, synced by `method`.
fn rate(mut ext4: Ext4, method: Method, writes: u64, bytes: u64) -> f64 {
    let mut operations = 0;
    while ext4.now_ns() < LINE_NS && operations < LINE_OPERATIONS {
        match method {
            Method::OpenDatasync => {
                (0..writes).for_each(|at| ext4.overwrite_and_fdatasync(at * bytes, bytes));
            }
            Method::OpenSync => (0..writes).for_each(|at| ext4.overwrite_and_fsync(at * bytes, bytes)),
            Method::Fdatasync => ext4.overwrite_and_fdatasync(0, writes * bytes),
            Method::Fsync => ext4.overwrite_and_fsync(0, writes * bytes),
        }
        operations += 1;
    }
    operations as f64 * 1e9 / ext4.now_ns().max(1) as f64
}

fn in_a_row_ns(model: &Model, options: &Options, operation: Operation) -> u64 {
    let mut ext4 = Ext4::new(model, options, true);
    ext4.stream(operation, 1 << 30);
    ext4.now_ns()
}

fn copy(model: &Model, options: &Options, policy: &'static str, barriers: bool) -> Copy {
    let mut ext4 = Ext4::new(model, options, barriers);
    let sizes = PG15_SIZES.iter().flat_map(|&(bytes, files)| std::iter::repeat_n(bytes, files));
    if policy == "pg-8.4" {
        sizes.for_each(|bytes| ext4.create_and_fsync(bytes));
    } else {
        let sizes: Vec<_> = sizes.collect();
        ext4.create_all_then_fsync_each(&sizes);
    }
    Copy { policy, barriers, elapsed_ns: ext4.now_ns() }
}

/// Sizes of the 298 files of PostgreSQL 15's template0 and how many have each.
const PG15_SIZES: [(u64, usize); 22] = [
    (0, 51),
    (3, 1),
    (512, 1),
    (8192, 120),
    (16_384, 47),
    (24_576, 42),
    (32_768, 5),
    (40_960, 7),
    (49_152, 4),
    (57_344, 1),
    (65_536, 2),
    (81_920, 1),
    (90_112, 2),
    (114_688, 5),
    (122_880, 2),
    (155_648, 1),
    (229_376, 1),
    (253_952, 1),
    (360_448, 1),
    (458_752, 1),
    (524_288, 1),
    (786_432, 1),
];
