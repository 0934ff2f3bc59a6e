//! What is timed, as one table: command line, report and tests read it.
//!
//! The first 16 rows are pg_test_fsync's, with its open flags and its labels (as in `fixtures/pg_test_fsync/*.tsv`); the
//! rest is what it lacks.

use nix::fcntl::OFlag;

/// 8 kB, a PostgreSQL block.
pub const BLOCK_BYTES: usize = 8192;

/// Threads of the case with the most writers.
pub const MOST_WRITERS: usize = 16;

/// What one operation of a case is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// `count` writes of `size_bytes`, then a sync.
    Writes {
        /// Flags beside O_RDWR.
        open: OFlag,
        /// Writes in one operation.
        count: usize,
        /// Bytes of each.
        size_bytes: usize,
        /// Where they go.
        at: At,
        /// What follows them.
        sync: Sync,
    },
    /// The sync alone, on a file with nothing to write.
    CleanFsync,
    /// open, write 8 kB, fsync, close, open, close.
    WriteFsyncClose,
    /// open, write 8 kB, close, open, fsync, close.
    WriteCloseFsync,
    /// Create a file, write 8 kB, fsync it, close it, fsync its directory.
    CreateName,
    /// rename over an older name, fsync the directory.
    RenameName,
    /// This many threads, each overwriting 8 kB of a file of its own and calling fdatasync.
    Writers(usize),
}

/// Where the writes of an operation go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// From the start of the file, the same place in every operation.
    SamePlace,
    /// On through a file of 16 MiB that was written before, and again from its start.
    Moving,
    /// At the end of a file that grows.
    Append,
    /// On through a file that fallocate(2) made: allocated, never written.
    Allocated,
}

/// What follows the writes of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Nothing: the write itself is synchronous, or nothing is.
    None,
    /// fdatasync(2).
    Fdatasync,
    /// fsync(2).
    Fsync,
    /// sync_file_range(2) with all three flags: the data are handed to the drive, no flush is sent.
    Range,
    /// syncfs(2).
    Syncfs,
}

/// One line of the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Group of comparable lines; pg_test_fsync's are `one8`, `two8`, `sizes`, `fd`, `nosync`.
    pub block: &'static str,
    /// Key within the block.
    pub method: &'static str,
    /// What the reader sees; pg_test_fsync's own words where it has the line.
    pub label: &'static str,
    /// What one operation is.
    pub work: Work,
}

const PLAIN: OFlag = OFlag::empty();
const DSYNC: OFlag = OFlag::O_DSYNC;
const SYNC: OFlag = OFlag::O_SYNC;
const DSYNC_DIRECT: OFlag = OFlag::O_DSYNC.union(OFlag::O_DIRECT);
const SYNC_DIRECT: OFlag = OFlag::O_SYNC.union(OFlag::O_DIRECT);

const fn case(block: &'static str, method: &'static str, label: &'static str, work: Work) -> Case {
    Case { block, method, label, work }
}

const fn same(open: OFlag, count: usize, size_bytes: usize, sync: Sync) -> Work {
    Work::Writes { open, count, size_bytes, at: At::SamePlace, sync }
}

const fn one(at: At, size_bytes: usize) -> Work {
    Work::Writes { open: PLAIN, count: 1, size_bytes, at, sync: Sync::Fdatasync }
}

/// The blocks of pg_test_fsync.
pub const PG_BLOCKS: [&str; 5] = ["one8", "two8", "sizes", "fd", "nosync"];

/// Every line, in the order of the report.
pub const CASES: &[Case] = &[
    case("one8", "open_datasync", "open_datasync", same(DSYNC_DIRECT, 1, BLOCK_BYTES, Sync::None)),
    case("one8", "fdatasync", "fdatasync", same(PLAIN, 1, BLOCK_BYTES, Sync::Fdatasync)),
    case("one8", "fsync", "fsync", same(PLAIN, 1, BLOCK_BYTES, Sync::Fsync)),
    case("one8", "open_sync", "open_sync", same(SYNC_DIRECT, 1, BLOCK_BYTES, Sync::None)),
    case("two8", "open_datasync", "open_datasync", same(DSYNC_DIRECT, 2, BLOCK_BYTES, Sync::None)),
    case("two8", "fdatasync", "fdatasync", same(PLAIN, 2, BLOCK_BYTES, Sync::Fdatasync)),
    case("two8", "fsync", "fsync", same(PLAIN, 2, BLOCK_BYTES, Sync::Fsync)),
    case("two8", "open_sync", "open_sync", same(SYNC_DIRECT, 2, BLOCK_BYTES, Sync::None)),
    case("sizes", "1x16kB", "1 * 16kB open_sync write", same(SYNC_DIRECT, 1, 16384, Sync::None)),
    case("sizes", "2x8kB", "2 *  8kB open_sync writes", same(SYNC_DIRECT, 2, 8192, Sync::None)),
    case("sizes", "4x4kB", "4 *  4kB open_sync writes", same(SYNC_DIRECT, 4, 4096, Sync::None)),
    case("sizes", "8x2kB", "8 *  2kB open_sync writes", same(SYNC_DIRECT, 8, 2048, Sync::None)),
    case("sizes", "16x1kB", "16 *  1kB open_sync writes", same(SYNC_DIRECT, 16, 1024, Sync::None)),
    case("fd", "write_fsync_close", "write, fsync, close", Work::WriteFsyncClose),
    case("fd", "write_close_fsync", "write, close, fsync", Work::WriteCloseFsync),
    case("nosync", "write", "write", same(PLAIN, 1, BLOCK_BYTES, Sync::None)),
    // What the server does: O_DSYNC and O_SYNC without O_DIRECT (always from 16 on, before that unless wal_level=minimal).
    case("server", "open_datasync", "open_datasync, buffered", same(DSYNC, 1, BLOCK_BYTES, Sync::None)),
    case("server", "open_sync", "open_sync, buffered", same(SYNC, 1, BLOCK_BYTES, Sync::None)),
    case("wal", "append", "file grows", one(At::Append, BLOCK_BYTES)),
    case("wal", "written", "written before (as WAL)", one(At::Moving, BLOCK_BYTES)),
    case("wal", "allocated", "fallocated", one(At::Allocated, BLOCK_BYTES)),
    case("same-place", "160B", "160 bytes", one(At::SamePlace, 160)),
    case("same-place", "1kB", "1 kB", one(At::SamePlace, 1024)),
    case("same-place", "4kB", "4 kB", one(At::SamePlace, 4096)),
    case("same-place", "16kB", "16 kB", one(At::SamePlace, 16384)),
    case("same-place", "64kB", "64 kB", one(At::SamePlace, 65536)),
    case("moving", "160B", "160 bytes", one(At::Moving, 160)),
    case("moving", "4kB", "4 kB", one(At::Moving, 4096)),
    case("moving", "16kB", "16 kB", one(At::Moving, 16384)),
    case("moving", "64kB", "64 kB", one(At::Moving, 65536)),
    case("names", "create", "create, fsync it and dir", Work::CreateName),
    case("names", "rename", "rename, fsync directory", Work::RenameName),
    case("others", "clean_fsync", "fsync of a clean file", Work::CleanFsync),
    case("others", "sync_file_range", "sync_file_range", same(PLAIN, 1, BLOCK_BYTES, Sync::Range)),
    case("others", "syncfs", "syncfs", same(PLAIN, 1, BLOCK_BYTES, Sync::Syncfs)),
    case("writers", "1", "1 writer", Work::Writers(1)),
    case("writers", "2", "2 writers", Work::Writers(2)),
    case("writers", "4", "4 writers", Work::Writers(4)),
    case("writers", "8", "8 writers", Work::Writers(8)),
    case("writers", "16", "16 writers", Work::Writers(MOST_WRITERS)),
];

/// The line of a block and method.
pub fn find(block: &str, method: &str) -> Option<&'static Case> {
    CASES.iter().find(|case| case.block == block && case.method == method)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sixteen_lines_are_those_of_pg_test_fsync() {
        let theirs = include_str!("../../fixtures/pg_test_fsync/virtio-pg15-one-second.tsv");
        let keys: Vec<(&str, &str)> = theirs
            .lines()
            .skip(1)
            .filter_map(|line| {
                let mut cells = line.split('\t');
                Some((cells.next()?, cells.next()?))
            })
            .filter(|(_, method)| *method != "fsync_writethrough")
            .collect();
        let ours: Vec<(&str, &str)> = CASES.iter().take(16).map(|case| (case.block, case.method)).collect();
        assert_eq!(ours, keys);
    }

    #[test]
    fn no_line_is_there_twice() {
        for case in CASES {
            assert_eq!(
                CASES.iter().filter(|other| (other.block, other.method) == (case.block, case.method)).count(),
                1
            );
        }
    }
}
