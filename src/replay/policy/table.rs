//! The named policies, one row each, and the server versions that each `pg-…` row stands for.
//!
//! Sources: PostgreSQL's copydir.c of every release from 8.1 to 18, its file_utils.c (initdb), dpkg's archives.c, git's
//! bulk-checkin.c.

use super::axes::{Axes, Axis, CopyBy, Dirs, Every, Hint, Open, Order, Scope, Settle, SyncWhen, Type, Via};
use super::{Policy, Promise};

/// A named policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// As the command line names it.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// The server versions that it replays call by call, faults included; absent where no server does this.
    pub servers: Option<&'static str>,
    /// All of its axes.
    pub axes: Axes,
}

const IMMEDIATE: Axes = Axes { sync: SyncWhen::Each, dirs: Dirs::OwnAndParent, ..Axes::DEFAULT };
const DEFERRED: Axes = Axes { hint: Hint::SyncFileRange, sync: SyncWhen::After, ..IMMEDIATE };
const PG_8_4: Axes = Axes { r#type: Type::Lstat, dirs: Dirs::None, scope: Scope::Directory, ..IMMEDIATE };
const PG_9_3: Axes = Axes {
    hint: Hint::SyncFileRange,
    every: Every::Bytes(64 << 10),
    sync: SyncWhen::After,
    dirs: Dirs::Own,
    ..PG_8_4
};
const PG_9_6: Axes = Axes { every: Every::Bytes(1 << 20), ..PG_9_3 };
const PG_16: Axes = Axes { r#type: Type::DType, ..PG_9_6 };

/// Every named policy, the baseline first.
pub const ROWS: &[Row] = &[
    Row {
        name: "immediate",
        summary: "each file is fsynced before the next is copied (the baseline)",
        servers: None,
        axes: IMMEDIATE,
    },
    Row {
        name: "deferred",
        summary: "writeback is started while copying, all files are fsynced at the end",
        servers: None,
        axes: DEFERRED,
    },
    Row {
        name: "pg-8.4",
        summary: "immediate, and no directory is synced",
        servers: Some("8.1 to 8.4"),
        axes: PG_8_4,
    },
    Row {
        name: "pg-9.0",
        summary: "deferred, with fadvise after every write",
        servers: Some("9.0 to 9.2"),
        axes: Axes { hint: Hint::Fadvise, ..PG_9_3 },
    },
    Row {
        name: "pg-9.3",
        summary: "deferred, with sync_file_range after every write",
        servers: Some("9.3 to 9.6.5, 10.0"),
        axes: PG_9_3,
    },
    Row {
        name: "pg-9.6",
        summary: "deferred, with sync_file_range every 1MiB",
        servers: Some("9.6.6 to 15 without 10.0"),
        axes: PG_9_6,
    },
    Row {
        name: "pg-16",
        summary: "as pg-9.6, file types from readdir",
        servers: Some("16 and later"),
        axes: PG_16,
    },
    Row {
        name: "pg-18-clone",
        summary: "copy_file_range, no hints (file_copy_method = clone)",
        servers: Some("18 and later, clone"),
        axes: Axes { copy: CopyBy::CopyFileRange, hint: Hint::None, ..PG_16 },
    },
    Row { name: "never", summary: "nothing is synced: the floor", servers: None, axes: Axes::DEFAULT },
    Row {
        name: "reflink",
        summary: "files share the source's blocks (FICLONE), then are fsynced",
        servers: None,
        axes: Axes { copy: CopyBy::Reflink, hint: Hint::None, ..DEFERRED },
    },
    Row {
        name: "direct",
        summary: "files are written with O_DIRECT, then fsynced",
        servers: None,
        axes: Axes { copy: CopyBy::Direct, hint: Hint::None, ..DEFERRED },
    },
    Row {
        name: "aio",
        summary: "all files are written with O_DIRECT in one io_submit, then fsynced",
        servers: None,
        axes: Axes { copy: CopyBy::Aio, every: Every::File, sync: SyncWhen::Held, ..DEFERRED },
    },
    Row {
        name: "o-dsync",
        summary: "files are opened with O_DSYNC: every write waits",
        servers: None,
        axes: Axes { open: Open::ODsync, dirs: Dirs::OwnAndParent, ..Axes::DEFAULT },
    },
    Row {
        name: "dpkg",
        summary: "writeback is started per file, waited for, then all are fsynced",
        servers: None,
        axes: Axes { every: Every::File, settle: Settle::Wait, dirs: Dirs::None, ..DEFERRED },
    },
    Row {
        name: "initdb-sync",
        summary: "copy all, start writeback of all, fsync all, as initdb does",
        servers: None,
        axes: Axes { every: Every::Pass, dirs: Dirs::Own, ..DEFERRED },
    },
    Row {
        name: "git-batch",
        summary: "each file is written out and waited for, one extra file is fsynced",
        servers: None,
        axes: Axes { hint: Hint::WriteAndWait, every: Every::File, sync: SyncWhen::Dummy, ..Axes::DEFAULT },
    },
    Row {
        name: "syncfs",
        summary: "copy all, then one syncfs: others' data too",
        servers: None,
        axes: Axes { sync: SyncWhen::Syncfs, ..Axes::DEFAULT },
    },
    Row {
        name: "uring",
        summary: "deferred, 64 fsyncs in flight through io_uring",
        servers: None,
        axes: Axes { jobs: 64, via: Via::IoUring, ..DEFERRED },
    },
    Row {
        name: "threads",
        summary: "deferred, 32 threads fsync",
        servers: None,
        axes: Axes { jobs: 32, ..DEFERRED },
    },
    Row {
        name: "reverse",
        summary: "deferred, the last file is fsynced first",
        servers: None,
        axes: Axes { order: Order::Reverse, ..DEFERRED },
    },
];

/// Branch and minor release: 9.6.5 is (9, 6, 5), 15.18 is (15, 0, 18), a branch alone its newest minor.
type Version = (u32, u32, u32);

/// From which release on a server behaves like which row. The distance between hints grew in 9.6.6 and 10.1, both of
/// 2017-11-09.
const SERVERS: &[(Version, &str)] = &[
    ((8, 1, 0), "pg-8.4"),
    ((9, 0, 0), "pg-9.0"),
    ((9, 3, 0), "pg-9.3"),
    ((9, 6, 6), "pg-9.6"),
    ((10, 0, 0), "pg-9.3"),
    ((10, 0, 1), "pg-9.6"),
    ((16, 0, 0), "pg-16"),
];
/// The last branch whose source was read.
const LAST_BRANCH: u32 = 20;
/// The first branch with `file_copy_method`.
const FIRST_CLONE: Version = (18, 0, 0);

/// The row of that name, or the one that replays that server version.
pub(super) fn find(name: &str) -> Option<&'static Row> {
    let named = |name: &str| ROWS.iter().find(|row| row.name == name);
    named(name).or_else(|| {
        let text = name.strip_prefix("pg-")?;
        if let Some(text) = text.strip_suffix("-clone") {
            return named("pg-18-clone").filter(|_| version(text).is_some_and(|it| it >= FIRST_CLONE));
        }
        let version = version(text)?;
        let (_, name) = SERVERS.iter().rfind(|(first, _)| *first <= version)?;
        named(name)
    })
}

/// `8.4`, `9.6.5`, `15`, `15.18`; nothing that was never released.
fn version(text: &str) -> Option<Version> {
    let parts: Vec<u32> = text.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    match *parts.as_slice() {
        [8, branch @ 0..=4] => Some((8, branch, u32::MAX)),
        [8, branch @ 0..=4, minor] => Some((8, branch, minor)),
        [9, branch @ 0..=6] => Some((9, branch, u32::MAX)),
        [9, branch @ 0..=6, minor] => Some((9, branch, minor)),
        [branch @ 10..=LAST_BRANCH] => Some((branch, 0, u32::MAX)),
        [branch @ 10..=LAST_BRANCH, minor] => Some((branch, 0, minor)),
        _ => None,
    }
}

/// One line of `--list-policies`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// As the command line names it.
    pub name: &'static str,
    /// What it claims.
    pub promise: Promise,
    /// Axes that are not at their default: `hint=sync-file-range sync=after dirs=own`.
    pub axes: String,
    /// The server versions that it replays.
    pub servers: Option<&'static str>,
    /// What it is.
    pub summary: &'static str,
}

/// Every named policy in the order of the table.
pub fn list() -> Vec<Listed> {
    ROWS.iter()
        .map(|row| Listed {
            name: row.name,
            promise: Policy { row, axes: row.axes }.promise(),
            axes: turned(&row.axes),
            servers: row.servers,
            summary: row.summary,
        })
        .collect()
}

fn turned(axes: &Axes) -> String {
    let turned = |axis: &Axis| {
        let hinted = *axis == Axis::Every && axes.hint != Hint::None;
        hinted || axes.value(*axis) != Axes::DEFAULT.value(*axis)
    };
    let words = Axis::ALL.iter().filter(|axis| turned(axis));
    words.map(|axis| format!("{axis}={}", axes.value(*axis))).collect::<Vec<_>>().join(" ")
}
