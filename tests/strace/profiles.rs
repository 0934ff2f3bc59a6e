//! The policies in columns, by what is known of the servers and tools that they replay; none of it from the program.

use super::expected::{Bytes, DONT_NEED, Hint, Order, Profile, Sync, WRITE, WRITE_AND_WAIT};

const NEVER: Profile = Profile {
    policy: "never",
    bytes: Bytes::Buffer,
    access: "O_RDWR",
    flags: "",
    lstat: false,
    hint: Hint::None,
    settle: false,
    sync: Sync::Never,
    call: "fsync",
    order: Order::Readdir,
    together: false,
    own: false,
    parent: false,
    each_directory: false,
};
const IMMEDIATE: Profile =
    Profile { policy: "immediate", sync: Sync::Each(false), own: true, parent: true, ..NEVER };
const MIB: Hint = Hint::Distance(WRITE, 1 << 20);
const WHOLE: Hint = Hint::Distance(WRITE, u64::MAX);
const DEFERRED: Profile = Profile { policy: "deferred", hint: MIB, sync: Sync::After, ..IMMEDIATE };
const PG_9_6: Profile =
    Profile { policy: "pg-9.6", lstat: true, parent: false, each_directory: true, ..DEFERRED };
const REFLINK: Profile =
    Profile { policy: "reflink", bytes: Bytes::Clone, access: "O_WRONLY", hint: Hint::None, ..DEFERRED };
const DIRECT: Profile =
    Profile { policy: "direct", bytes: Bytes::Direct, flags: "|O_DIRECT", hint: Hint::None, ..DEFERRED };
const AIO: Profile = Profile {
    policy: "aio",
    bytes: Bytes::Aio,
    flags: "|O_DIRECT",
    hint: WHOLE,
    sync: Sync::Held,
    ..DEFERRED
};
const O_DSYNC: Profile =
    Profile { policy: "o-dsync", flags: "|O_DSYNC", sync: Sync::Each(true), ..IMMEDIATE };
const DPKG: Profile =
    Profile { policy: "dpkg", hint: WHOLE, settle: true, own: false, parent: false, ..DEFERRED };
const INITDB: Profile = Profile { policy: "initdb-sync", hint: Hint::Pass(true), parent: false, ..DEFERRED };
const SYNCFS: Profile = Profile { policy: "syncfs", sync: Sync::Syncfs, ..NEVER };
const THREADS: Profile = Profile { policy: "threads", together: true, ..DEFERRED };

/// Every named policy.
pub const NAMED: &[Profile] = &[
    IMMEDIATE,
    DEFERRED,
    Profile { policy: "pg-8.4", lstat: true, own: false, parent: false, each_directory: true, ..IMMEDIATE },
    Profile { policy: "pg-9.0", hint: Hint::EachWrite(DONT_NEED), ..PG_9_6 },
    Profile { policy: "pg-9.3", hint: Hint::EachWrite(WRITE), ..PG_9_6 },
    PG_9_6,
    Profile { policy: "pg-16", lstat: false, ..PG_9_6 },
    Profile {
        policy: "pg-18-clone",
        lstat: false,
        bytes: Bytes::Range,
        access: "O_WRONLY",
        hint: Hint::None,
        ..PG_9_6
    },
    NEVER,
    REFLINK,
    DIRECT,
    AIO,
    O_DSYNC,
    DPKG,
    INITDB,
    Profile {
        policy: "git-batch",
        hint: Hint::Distance(WRITE_AND_WAIT, u64::MAX),
        sync: Sync::Dummy,
        ..NEVER
    },
    SYNCFS,
    Profile { policy: "uring", ..THREADS },
    THREADS,
    Profile { policy: "reverse", order: Order::Reverse, ..DEFERRED },
];

/// One knob turned, or two where one alone means nothing.
pub const AXES: &[Profile] = &[
    Profile { policy: "immediate+type=lstat", lstat: true, ..IMMEDIATE },
    Profile { policy: "immediate+call=fdatasync", call: "fdatasync", ..IMMEDIATE },
    Profile { policy: "immediate+order=reverse", order: Order::Reverse, ..IMMEDIATE },
    Profile { policy: "immediate+order=inode", order: Order::Inode, ..IMMEDIATE },
    Profile { policy: "immediate+order=size", order: Order::Size, ..IMMEDIATE },
    Profile { policy: "immediate+copy=direct", bytes: Bytes::Direct, flags: "|O_DIRECT", ..IMMEDIATE },
    Profile { policy: "immediate+hint=sync-file-range", hint: MIB, ..IMMEDIATE },
    Profile { policy: "immediate+open=o-sync", flags: "|O_SYNC", ..IMMEDIATE },
    Profile { policy: "deferred+hint=none", hint: Hint::None, ..DEFERRED },
    Profile { policy: "deferred+hint=fadvise", hint: Hint::Distance(DONT_NEED, 1 << 20), ..DEFERRED },
    Profile {
        policy: "deferred+hint=write-and-wait",
        hint: Hint::Distance(WRITE_AND_WAIT, 1 << 20),
        ..DEFERRED
    },
    Profile { policy: "deferred+every=64KiB", hint: Hint::EachWrite(WRITE), ..DEFERRED },
    Profile { policy: "deferred+every=32MiB", hint: Hint::Distance(WRITE, 32 << 20), ..DEFERRED },
    Profile { policy: "deferred+every=file", hint: WHOLE, ..DEFERRED },
    Profile { policy: "deferred+every=pass", hint: Hint::Pass(true), ..DEFERRED },
    Profile { policy: "deferred+settle=wait", settle: true, ..DEFERRED },
    Profile { policy: "deferred+sync=held", sync: Sync::Held, ..DEFERRED },
    Profile { policy: "deferred+settle=wait+sync=held", settle: true, sync: Sync::Held, ..DEFERRED },
    Profile { policy: "deferred+sync=held+call=fdatasync", sync: Sync::Held, call: "fdatasync", ..DEFERRED },
    Profile {
        policy: "deferred+sync=held+order=reverse",
        sync: Sync::Held,
        order: Order::Reverse,
        ..DEFERRED
    },
    Profile { policy: "deferred+sync=held+order=size", sync: Sync::Held, order: Order::Size, ..DEFERRED },
    Profile { policy: "deferred+sync=held+jobs=4", sync: Sync::Held, together: true, ..DEFERRED },
    Profile { policy: "uring+sync=held", sync: Sync::Held, together: true, ..DEFERRED },
    Profile { policy: "uring+call=fdatasync+jobs=2", call: "fdatasync", together: true, ..DEFERRED },
    Profile { policy: "deferred+call=fdatasync", call: "fdatasync", ..DEFERRED },
    Profile { policy: "deferred+order=inode", order: Order::Inode, ..DEFERRED },
    Profile { policy: "deferred+order=size", order: Order::Size, ..DEFERRED },
    Profile { policy: "deferred+dirs=none", own: false, parent: false, ..DEFERRED },
    Profile { policy: "deferred+dirs=own", parent: false, ..DEFERRED },
    Profile { policy: "deferred+copy=copy-file-range", bytes: Bytes::Range, access: "O_WRONLY", ..DEFERRED },
    Profile { policy: "reflink+sync=each", sync: Sync::Each(false), ..REFLINK },
    Profile { policy: "aio+hint=none+order=reverse", hint: Hint::None, order: Order::Reverse, ..AIO },
    Profile { policy: "direct+open=o-dsync", flags: "|O_DSYNC|O_DIRECT", ..DIRECT },
    Profile { policy: "o-dsync+open=o-sync", flags: "|O_SYNC", ..O_DSYNC },
    Profile { policy: "dpkg+call=fdatasync", call: "fdatasync", ..DPKG },
    Profile { policy: "initdb-sync+settle=wait", settle: true, ..INITDB },
    Profile {
        policy: "git-batch+call=fdatasync",
        hint: Hint::Distance(WRITE_AND_WAIT, u64::MAX),
        sync: Sync::Dummy,
        call: "fdatasync",
        ..NEVER
    },
    Profile { policy: "syncfs+order=size", order: Order::Size, ..SYNCFS },
    Profile { policy: "syncfs+dirs=own+parent", own: true, parent: true, ..SYNCFS },
    Profile { policy: "syncfs+hint=sync-file-range+every=file", hint: WHOLE, ..SYNCFS },
    Profile { policy: "pg-9.6+scope=tree", each_directory: false, ..PG_9_6 },
    Profile { policy: "threads+order=size", order: Order::Size, ..THREADS },
];
