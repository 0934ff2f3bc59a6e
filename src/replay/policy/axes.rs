//! The axes: one enum each, the words that stand for its values, and all of them together.

use std::fmt;

/// 64 KiB: PostgreSQL's copy buffer, 8 blocks, never changed since 8.1.
pub const WRITE_BYTES: u64 = 64 << 10;
/// 1 MiB: what PostgreSQL 18 asks of one copy_file_range.
pub const RANGE_BYTES: u64 = 1 << 20;
/// The most syncs that may be asked for at the same time.
pub const MOST_JOBS: u32 = 1024;

/// An axis whose values are words, the default first.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$value_doc])* $value),+ }

        impl $name {
            /// Every value, the default first.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];
            /// Their words, in the same order.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word for it.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$value => $word),+ }
            }

            fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$value),)+ _ => None }
            }
        }
    };
}

words! {
    /// How bytes are moved.
    CopyBy {
        /// read and write through a buffer of 64 KiB.
        ReadWrite = "read-write",
        /// copy_file_range in chunks of 1 MiB.
        CopyFileRange = "copy-file-range",
        /// FICLONE: the copy shares the source's blocks.
        Reflink = "reflink",
        /// The copy is written with O_DIRECT, the source read through the page cache.
        Direct = "direct",
        /// Files are allocated, then written with O_DIRECT, many of them in one io_submit and in the order of their places on
        /// the disk; those that do not end on a block go through a buffer.
        Aio = "aio",
    }
}

words! {
    /// Flags with which the copy of a file is opened.
    Open {
        /// None.
        Plain = "plain",
        /// O_DSYNC.
        ODsync = "o-dsync",
        /// O_SYNC.
        OSync = "o-sync",
    }
}

words! {
    /// How an entry is known to be a file.
    Type {
        /// By what readdir says; lstat where it says nothing.
        DType = "d-type",
        /// By lstat, before the copy and again before the sync of a second pass.
        Lstat = "lstat",
    }
}

words! {
    /// What starts writeback before a sync.
    Hint {
        /// Nothing.
        None = "none",
        /// POSIX_FADV_DONTNEED.
        Fadvise = "fadvise",
        /// SYNC_FILE_RANGE_WRITE.
        SyncFileRange = "sync-file-range",
        /// SYNC_FILE_RANGE_WRITE with both WAIT flags.
        WriteAndWait = "write-and-wait",
    }
}

words! {
    /// Whether started writeback is waited for before any sync.
    Settle {
        /// No.
        None = "none",
        /// SYNC_FILE_RANGE_WAIT_BEFORE of every file.
        Wait = "wait",
    }
}

words! {
    /// When files are synced.
    SyncWhen {
        /// Not at all.
        Never = "never",
        /// Each before its close.
        Each = "each",
        /// In a second pass: reopened by name, synced, closed.
        After = "after",
        /// In a second pass on descriptors kept open; a full hand is synced and let go.
        Held = "held",
        /// One syncfs.
        Syncfs = "syncfs",
        /// One fsync of one extra file, as git's batch mode.
        Dummy = "dummy",
    }
}

words! {
    /// The call that syncs a file; directories are always fsynced.
    SyncCall {
        /// fsync.
        Fsync = "fsync",
        /// fdatasync.
        Fdatasync = "fdatasync",
    }
}

words! {
    /// The order of syncing; of copying within a directory with `sync=each` and `sync=syncfs`.
    Order {
        /// As readdir gives them.
        Readdir = "readdir",
        /// The other way round.
        Reverse = "reverse",
        /// By inode number.
        Inode = "inode",
        /// By size, small first; costs an lstat of each file.
        Size = "size",
    }
}

words! {
    /// What carries several syncs at the same time.
    Via {
        /// That many threads.
        Threads = "threads",
        /// One io_uring with that many in flight; opens and closes are plain calls.
        IoUring = "io-uring",
    }
}

words! {
    /// Which directories are fsynced.
    Dirs {
        /// None.
        None = "none",
        /// Every new one.
        Own = "own",
        /// And the one that holds the copy.
        OwnAndParent = "own+parent",
    }
}

words! {
    /// What one pass goes over.
    Scope {
        /// The whole tree.
        Tree = "tree",
        /// One directory, copied and synced before the next, top first, as servers do.
        Directory = "directory",
    }
}

/// How often a hint is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Every {
    /// When this many bytes were written since the last; 64 KiB: after every write.
    Bytes(u64),
    /// Once a file, before its close.
    File,
    /// After all copies: every file and directory reopened, hinted, closed.
    Pass,
}

impl Every {
    /// `file`, `pass`, or a size of at least one write.
    fn parse(text: &str) -> Option<Self> {
        match text {
            "file" => Some(Self::File),
            "pass" => Some(Self::Pass),
            _ => size_bytes(text).filter(|bytes| *bytes >= WRITE_BYTES).map(Self::Bytes),
        }
    }
}

impl fmt::Display for Every {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => f.pad("file"),
            Self::Pass => f.pad("pass"),
            Self::Bytes(bytes) => {
                let (shift, unit) = match bytes.trailing_zeros() {
                    30.. => (30, "GiB"),
                    20.. => (20, "MiB"),
                    10.. => (10, "KiB"),
                    _ => (0, ""),
                };
                f.pad(&format!("{}{unit}", bytes >> shift))
            }
        }
    }
}

/// A size with the units of the command line: kB MB GB (1024, as PostgreSQL) and KiB MiB GiB, bytes without.
fn size_bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_start() {
        "" => 0,
        "kB" | "KiB" => 10,
        "MB" | "MiB" => 20,
        "GB" | "GiB" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Every axis of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Axes {
    /// How bytes are moved.
    pub copy: CopyBy,
    /// Flags of the copy's open.
    pub open: Open,
    /// How an entry is known to be a file.
    pub r#type: Type,
    /// What starts writeback before a sync.
    pub hint: Hint,
    /// How often; means nothing with `hint=none`.
    pub every: Every,
    /// Whether started writeback is waited for.
    pub settle: Settle,
    /// When files are synced.
    pub sync: SyncWhen,
    /// By which call.
    pub call: SyncCall,
    /// In which order.
    pub order: Order,
    /// How many at the same time.
    pub jobs: u32,
    /// Carried by what.
    pub via: Via,
    /// Which directories are synced.
    pub dirs: Dirs,
    /// What one pass goes over.
    pub scope: Scope,
}

impl Axes {
    /// The first value of every axis, and nothing synced.
    pub const DEFAULT: Self = Self {
        copy: CopyBy::ReadWrite,
        open: Open::Plain,
        r#type: Type::DType,
        hint: Hint::None,
        every: Every::Bytes(RANGE_BYTES),
        settle: Settle::None,
        sync: SyncWhen::Never,
        call: SyncCall::Fsync,
        order: Order::Readdir,
        jobs: 1,
        via: Via::Threads,
        dirs: Dirs::None,
        scope: Scope::Tree,
    };

    /// True where files are synced after all were copied, one by one.
    pub fn second_pass(&self) -> bool {
        matches!(self.sync, SyncWhen::After | SyncWhen::Held)
    }

    /// The text of one axis.
    pub fn value(&self, axis: Axis) -> String {
        match axis {
            Axis::Copy => self.copy.word().to_owned(),
            Axis::Open => self.open.word().to_owned(),
            Axis::Type => self.r#type.word().to_owned(),
            Axis::Hint => self.hint.word().to_owned(),
            Axis::Every => self.every.to_string(),
            Axis::Settle => self.settle.word().to_owned(),
            Axis::Sync => self.sync.word().to_owned(),
            Axis::Call => self.call.word().to_owned(),
            Axis::Order => self.order.word().to_owned(),
            Axis::Jobs => self.jobs.to_string(),
            Axis::Via => self.via.word().to_owned(),
            Axis::Dirs => self.dirs.word().to_owned(),
            Axis::Scope => self.scope.word().to_owned(),
        }
    }

    /// Turns one axis; nothing is changed where the value is unknown.
    pub(super) fn set(&mut self, axis: Axis, value: &str) -> Option<()> {
        match axis {
            Axis::Copy => self.copy = CopyBy::from_word(value)?,
            Axis::Open => self.open = Open::from_word(value)?,
            Axis::Type => self.r#type = Type::from_word(value)?,
            Axis::Hint => self.hint = Hint::from_word(value)?,
            Axis::Every => self.every = Every::parse(value)?,
            Axis::Settle => self.settle = Settle::from_word(value)?,
            Axis::Sync => self.sync = SyncWhen::from_word(value)?,
            Axis::Call => self.call = SyncCall::from_word(value)?,
            Axis::Order => self.order = Order::from_word(value)?,
            Axis::Jobs => self.jobs = value.parse().ok().filter(|jobs| (1..=MOST_JOBS).contains(jobs))?,
            Axis::Via => self.via = Via::from_word(value)?,
            Axis::Dirs => self.dirs = Dirs::from_word(value)?,
            Axis::Scope => self.scope = Scope::from_word(value)?,
        }
        Some(())
    }
}

/// The name of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    /// `copy`
    Copy,
    /// `open`
    Open,
    /// `type`
    Type,
    /// `hint`
    Hint,
    /// `every`
    Every,
    /// `settle`
    Settle,
    /// `sync`
    Sync,
    /// `call`
    Call,
    /// `order`
    Order,
    /// `jobs`
    Jobs,
    /// `via`
    Via,
    /// `dirs`
    Dirs,
    /// `scope`
    Scope,
}

impl Axis {
    /// Every axis, in the order of a canonical text.
    pub const ALL: [Self; 13] = [
        Self::Copy,
        Self::Open,
        Self::Type,
        Self::Hint,
        Self::Every,
        Self::Settle,
        Self::Sync,
        Self::Call,
        Self::Order,
        Self::Jobs,
        Self::Via,
        Self::Dirs,
        Self::Scope,
    ];

    /// As the command line names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Open => "open",
            Self::Type => "type",
            Self::Hint => "hint",
            Self::Every => "every",
            Self::Settle => "settle",
            Self::Sync => "sync",
            Self::Call => "call",
            Self::Order => "order",
            Self::Jobs => "jobs",
            Self::Via => "via",
            Self::Dirs => "dirs",
            Self::Scope => "scope",
        }
    }

    /// The values it takes, the default first.
    pub const fn values(self) -> &'static [&'static str] {
        match self {
            Self::Copy => CopyBy::WORDS,
            Self::Open => Open::WORDS,
            Self::Type => Type::WORDS,
            Self::Hint => Hint::WORDS,
            Self::Every => &["1MiB", "a size from 64KiB", "file", "pass"],
            Self::Settle => Settle::WORDS,
            Self::Sync => SyncWhen::WORDS,
            Self::Call => SyncCall::WORDS,
            Self::Order => Order::WORDS,
            Self::Jobs => &["1", "a number up to 1024"],
            Self::Via => Via::WORDS,
            Self::Dirs => Dirs::WORDS,
            Self::Scope => Scope::WORDS,
        }
    }

    /// The axis of that name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|axis| axis.name() == name)
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
