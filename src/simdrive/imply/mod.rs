//! What the numbers of a model imply, found by running the drive in invented time over what a file system would send:
//! no time of the host, nothing from a table.

mod ext4;

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
const LINE_OPERATIONS: u64 = 2000;

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

fn lines(model: &Model, options: &Options) -> Vec<Line> {
    let line = |block, method, sync, writes, bytes| Line {
        block,
        method,
        ops_per_s: rate(Ext4::new(model, options, true), sync, writes, bytes),
    };
    let mut lines = Vec::new();
    for (block, writes) in [("one8", 1), ("two8", 2)] {
        lines.extend(METHODS.map(|(method, sync)| line(block, method, sync, writes, 8192)));
    }
    for (block, sync) in [("sizes", Method::OpenSync), ("sizes-dsync", Method::OpenDatasync)] {
        let possible =
            SIZES.into_iter().filter(|(_, writes)| 16_384 / writes >= u64::from(model.block_bytes));
        lines.extend(possible.map(|(method, writes)| line(block, method, sync, writes, 16_384 / writes)));
    }
    for method in ["write_fsync_close", "write_close_fsync"] {
        lines.push(line("fd", method, Method::Fsync, 1, 8192));
    }
    lines
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simdrive::model::Flush;
    use crate::simdrive::models::{BUILT_IN, built_in};
    use crate::simdrive::spec::DEFAULT_SIZE_BYTES;

    fn implied(name: &str, change: impl Fn(&mut Options)) -> Implied {
        let model = built_in(name).expect("listed");
        let mut options = model.options(DEFAULT_SIZE_BYTES, 1);
        change(&mut options);
        imply(&model, &options)
    }

    fn line(implied: &Implied, block: &str, method: &str) -> f64 {
        let found = implied.lines.iter().find(|line| line.block == block && line.method == method);
        found.expect("a line of pg_test_fsync").ops_per_s
    }

    fn assert_near(what: &str, implied: f64, published: f64, tolerance: f64) {
        let off = implied / published - 1.0;
        assert!(
            off.abs() <= tolerance,
            "{what}: {implied:.1} implied, {published} published, off by {off:.2}"
        );
    }

    #[test]
    fn the_shape_is_that_of_the_template() {
        assert_eq!(PG15_SIZES.iter().map(|(_, files)| files).sum::<usize>(), 298);
        assert_eq!(PG15_SIZES.iter().map(|&(bytes, files)| bytes * files as u64).sum::<u64>(), 7_471_619);
    }

    #[test]
    fn sata_2009_with_its_cache_off_implies_the_published_lines() {
        let implied = implied("sata-2009", |options| options.write_cache = false);
        assert_near("fdatasync", line(&implied, "one8", "fdatasync"), 105.8, 0.15);
        assert_near("fsync", line(&implied, "one8", "fsync"), 27.7, 0.15);
        assert_near("two open_sync", line(&implied, "two8", "open_datasync"), 55.8, 0.15);
        for (method, published) in
            [("1x16kB", 103.6), ("2x8kB", 55.2), ("4x4kB", 28.3), ("8x2kB", 14.6), ("16x1kB", 7.4)]
        {
            assert_near(method, line(&implied, "sizes-dsync", method), published, 0.2);
        }
    }

    #[test]
    fn sata_2009_implies_the_published_create_database() {
        let off = implied("sata-2009", |options| options.write_cache = false);
        let ms = |copy: &Copy| copy.elapsed_ns as f64 / 1e6;
        assert_near("each file synced, cache off", ms(&off.create_database[0]), 6964.0, 0.25);
        assert_near("synced afterwards, cache off", ms(&off.create_database[1]), 2183.0, 0.25);
        let on = implied("sata-2009", |_| ());
        let apart_ms = ms(&on.create_database[2]) - ms(&on.create_database[3]);
        assert!(
            ms(&on.create_database[2]) < 1000.0 && apart_ms > 60.0,
            "{apart_ms} ms apart, the host's time apart"
        );
    }

    #[test]
    fn a_disk_that_answers_from_its_cache_is_too_fast_for_its_revolution() {
        let lying = implied("sata-2009", |options| options.flush = Flush::Ignored);
        assert!(lying.synced_overwrites_per_s > 3000.0);
        let honest = implied("sata-2009", |_| ());
        assert_near("one a revolution", honest.synced_overwrites_per_s, 120.0, 0.02);
    }

    #[test]
    fn ssd_sata_2014_implies_the_published_lines() {
        let implied = implied("ssd-sata-2014", |_| ());
        for (block, method, published) in [
            ("one8", "fdatasync", 2259.7),
            ("one8", "fsync", 1949.7),
            ("one8", "open_datasync", 2245.2),
            ("two8", "fdatasync", 2161.9),
            ("two8", "fsync", 1891.9),
            ("two8", "open_datasync", 1118.8),
            ("sizes-dsync", "1x16kB", 2171.6),
            ("sizes-dsync", "4x4kB", 569.6),
            ("sizes-dsync", "16x1kB", 142.5),
            ("fd", "write_fsync_close", 1947.6),
        ] {
            assert_near(method, line(&implied, block, method), published, 0.1);
        }
    }

    #[test]
    fn other_models_imply_their_published_rates() {
        for (name, published) in [("sas-10k", 159.7), ("nvme-consumer", 608.6), ("raid-bbu", 23_000.0)] {
            assert_near(name, implied(name, |_| ()).synced_overwrites_per_s, published, 0.1);
        }
    }

    #[test]
    fn every_model_implies_something() {
        for (name, _) in BUILT_IN {
            let implied = implied(name, |_| ());
            assert!(implied.lines.iter().all(|line| line.ops_per_s > 0.0), "{name}");
            assert!(implied.create_database[0].elapsed_ns > implied.create_database[1].elapsed_ns, "{name}");
        }
    }
}
