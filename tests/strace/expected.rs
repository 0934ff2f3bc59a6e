//! What the servers do, written down from the description of their calls and of no code of this program: profiles by
//! their columns (types, hints, syncs, directories), and the sequence of calls that follows for a tree.

use std::collections::BTreeMap;

use super::trace::{Listed, Window};

/// How bytes are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// read and write of 64 KiB.
    Buffer,
    /// copy_file_range of 1 MiB.
    Range,
    /// FICLONE.
    Clone,
    /// As Buffer; the last block is filled up, written whole and cut off.
    Direct,
    /// Whole blocks are allocated and written many files at once, anything else as Buffer.
    Aio,
}

/// When writeback is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    None,
    /// After each write.
    EachWrite(&'static str),
    /// When so many bytes are behind the last hint, before the next read; and at the end of the file.
    Distance(&'static str, u64),
    /// In a pass of its own, over files and (true) directories.
    Pass(bool),
}

/// When files are synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    Never,
    /// Before the close; only files without data (true).
    Each(bool),
    After,
    /// After all copies, on the descriptors of the copies.
    Held,
    Syncfs,
    Dummy,
}

/// The order of syncing (of copying where each file is synced by itself).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Readdir,
    Reverse,
    Inode,
    Size,
}

/// A policy in columns.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "columns of a table: each is there or not")]
pub struct Profile {
    pub policy: &'static str,
    pub bytes: Bytes,
    /// Beside O_CREAT and O_EXCL.
    pub access: &'static str,
    pub flags: &'static str,
    pub lstat: bool,
    pub hint: Hint,
    pub settle: bool,
    pub sync: Sync,
    pub call: &'static str,
    pub order: Order,
    /// Syncs at the same time: their order is not fixed.
    pub together: bool,
    pub own: bool,
    pub parent: bool,
    /// Every directory is a copydir of its own.
    pub each_directory: bool,
}

pub const WRITE: &str = "SYNC_FILE_RANGE_WRITE";
pub const WRITE_AND_WAIT: &str =
    "SYNC_FILE_RANGE_WAIT_BEFORE|SYNC_FILE_RANGE_WRITE|SYNC_FILE_RANGE_WAIT_AFTER";
pub const DONT_NEED: &str = "POSIX_FADV_DONTNEED";
const LISTING: &str = "O_RDONLY|O_NONBLOCK|O_CLOEXEC|O_DIRECTORY";
const BUFFER: u64 = 64 << 10;
const CHUNK: u64 = 1 << 20;
const BLOCK: u64 = 4096;
/// What is written at once.
const BATCH: u64 = 16 << 20;

/// The tree that is copied, as the test made it and as readdir gives it.
pub struct Tree<'a> {
    /// Sizes of the source's files by their path from the root (`/2619`), escaped as in lines.
    pub sizes: &'a BTreeMap<String, u64>,
    /// The trace, for the order of readdir at both ends.
    pub seen: &'a Window,
}

/// The calls of one copy.
pub fn calls(profile: &Profile, tree: &Tree<'_>) -> Vec<String> {
    let mut script = Script { p: *profile, tree, lines: Vec::new(), held: Vec::new(), batch: Vec::new() };
    let mut directories = vec![String::new()];
    let mut done = 0;
    while done < directories.len() {
        let first = done;
        while done < directories.len() && (done == first || !profile.each_directory) {
            let below = script.copy_directory(&directories[done].clone());
            directories.extend(below);
            done += 1;
        }
        script.passes(&directories[first..done]);
    }
    script.lines
}

struct Script<'a> {
    p: Profile,
    tree: &'a Tree<'a>,
    lines: Vec<String>,
    held: Vec<String>,
    /// Files and bytes not written yet.
    batch: Vec<(String, u64)>,
}

impl Script<'_> {
    fn say(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    fn opens_listing(&mut self, path: &str) {
        self.say(format!("openat {path} {LISTING}"));
        self.say(format!("getdents64 {path}"));
    }

    /// Ends a listing: less than 32 KiB of entries, so one more getdents64 finds nothing.
    fn ends_listing(&mut self, path: &str) {
        self.say(format!("getdents64 {path}"));
        self.say(format!("close {path}"));
    }

    fn listing(&self, path: &str) -> &[Listed] {
        let seen = self.tree.seen;
        let found = seen.listings.get(path);
        found.unwrap_or_else(|| {
            panic!("{}: {path} was not listed in\n{}", self.p.policy, seen.lines.join("\n"))
        })
    }

    fn size(&self, file: &str) -> u64 {
        *self.tree.sizes.get(file).unwrap_or_else(|| panic!("{file} is not in the tree"))
    }

    /// mkdir, then every file as readdir gives it; the directories found.
    fn copy_directory(&mut self, at: &str) -> Vec<String> {
        self.say(format!("mkdir C{at} 0700"));
        let source = format!("S{at}");
        self.opens_listing(&source);
        let sorted =
            matches!(self.p.sync, Sync::Each(false) | Sync::Syncfs) && self.p.order != Order::Readdir;
        let mut entries = self.listing(&source).to_vec();
        let path = |name: &str| format!("{at}/{name}");
        if sorted {
            if self.p.lstat || self.p.order == Order::Size {
                for entry in &entries {
                    self.lstats(&format!("S{}", path(&entry.name)));
                }
            }
            self.say(format!("getdents64 {source}"));
            match self.p.order {
                Order::Readdir => {}
                Order::Reverse => entries.reverse(),
                Order::Inode => entries.sort_by_key(|entry| entry.inode),
                Order::Size => entries.sort_by_key(|entry| self.tree.sizes.get(&path(&entry.name)).copied()),
            }
        }
        let mut below = Vec::new();
        for entry in entries {
            let file = path(&entry.name);
            if (self.p.lstat || self.p.bytes == Bytes::Aio) && !sorted {
                self.lstats(&format!("S{file}"));
            }
            match entry.kind.as_str() {
                "DT_REG" => self.copy_file(&file),
                "DT_DIR" => below.push(file),
                _ => {}
            }
        }
        if sorted {
            self.say(format!("close {source}"));
        } else {
            self.ends_listing(&source);
        }
        below
    }

    fn lstats(&mut self, path: &str) {
        self.say(format!("newfstatat {path} AT_SYMLINK_NOFOLLOW"));
    }

    fn copy_file(&mut self, file: &str) {
        let size = self.size(file);
        let together = self.p.bytes == Bytes::Aio && size.is_multiple_of(BLOCK);
        let flags = if self.p.bytes == Bytes::Aio && !together { "" } else { self.p.flags };
        let access = self.p.access;
        self.say(format!("openat S{file} O_RDONLY"));
        self.say(format!("openat C{file} {access}|O_CREAT|O_EXCL{flags} 0600"));
        match self.p.bytes {
            Bytes::Clone => self.say(format!("ioctl C{file} BTRFS_IOC_CLONE or FICLONE")),
            Bytes::Range => self.moves(file, size, CHUNK),
            Bytes::Aio if together => self.gathers(file, size),
            Bytes::Buffer | Bytes::Direct | Bytes::Aio => self.moves(file, size, BUFFER),
        }
        if self.p.sync == Sync::Each(false) || (self.p.sync == Sync::Each(true) && size == 0) {
            self.say(format!("{} C{file}", self.p.call));
        }
        if self.p.sync == Sync::Held {
            if matches!(self.p.order, Order::Inode | Order::Size) {
                self.lstats(&format!("C{file}"));
            }
            self.held.push(file.to_owned());
        } else {
            self.say(format!("close C{file}"));
        }
        self.say(format!("close S{file}"));
    }

    /// Allocates a file and reads it into what is written at once.
    fn gathers(&mut self, file: &str, size: u64) {
        if size > 0 {
            self.say(format!("fallocate C{file} 0 {size}"));
        }
        let mut at = 0;
        loop {
            let used: u64 = self.batch.iter().map(|(_, bytes)| bytes).sum();
            if used + BUFFER > BATCH {
                self.writes_batch();
            }
            let moved = BUFFER.min(size - at);
            self.say(format!("read S{file} {BUFFER} = {moved}"));
            if moved == 0 {
                break;
            }
            at += moved;
            match self.batch.last_mut() {
                Some((last, bytes)) if last == file => *bytes += moved,
                _ => {
                    self.say(format!("ioctl C{file} FS_IOC_FIEMAP"));
                    self.batch.push((file.to_owned(), moved));
                }
            }
        }
    }

    fn writes_batch(&mut self) {
        let writes = std::mem::take(&mut self.batch).len();
        if writes > 0 {
            self.say(format!("io_submit {writes}"));
            self.say(format!("io_getevents {writes}"));
        }
    }

    /// The loop over a file: a hint that is due stands before the read, the rest after the end of the file.
    fn moves(&mut self, file: &str, size: u64, step: u64) {
        let (mut at, mut hinted) = (0, 0);
        loop {
            if let Hint::Distance(flags, distance) = self.p.hint
                && at - hinted >= distance
            {
                self.hint(file, hinted, at - hinted, flags);
                hinted = at;
            }
            let moved = step.min(size - at);
            if self.p.bytes == Bytes::Range {
                self.say(format!("copy_file_range S{file} C{file} {step} = {moved}"));
            } else {
                self.say(format!("read S{file} {step} = {moved}"));
            }
            if moved == 0 {
                break;
            }
            at += moved;
            match self.p.bytes {
                Bytes::Buffer | Bytes::Aio => self.say(format!("write C{file} {moved}")),
                Bytes::Direct => self.say(format!("write C{file} {}", moved.next_multiple_of(BLOCK))),
                Bytes::Range | Bytes::Clone => {}
            }
            if self.p.bytes == Bytes::Direct && !moved.is_multiple_of(BLOCK) {
                self.say(format!("ftruncate C{file} {size}"));
            }
            if let Hint::EachWrite(flags) = self.p.hint {
                self.hint(file, at - moved, moved, flags);
            }
        }
        if let Hint::Distance(flags, _) = self.p.hint
            && at > hinted
        {
            self.hint(file, hinted, at - hinted, flags);
        }
    }

    fn hint(&mut self, file: &str, offset: u64, length: u64, flags: &str) {
        let call = if flags == DONT_NEED { "fadvise64" } else { "sync_file_range" };
        self.say(format!("{call} C{file} {offset} {length} {flags}"));
    }

    /// What follows when the directories are copied: hints, waiting, files, directories from below.
    fn passes(&mut self, directories: &[String]) {
        if self.p.sync == Sync::Held {
            self.held_pass();
        } else {
            if let Hint::Pass(of_directories) = self.p.hint {
                for at in directories {
                    self.touch_pass(at, WRITE, of_directories);
                }
            }
            if self.p.settle {
                for at in directories {
                    self.touch_pass(at, "SYNC_FILE_RANGE_WAIT_BEFORE", false);
                }
            }
        }
        match self.p.sync {
            Sync::After => self.sync_pass(directories),
            Sync::Syncfs => self.on("C", "O_RDONLY", "syncfs C"),
            Sync::Dummy => {
                self.on(
                    "C/.fsynclab-dummy",
                    "O_RDWR|O_CREAT|O_EXCL 0600",
                    &format!("{} C/.fsynclab-dummy", self.p.call),
                );
                self.say("unlink C/.fsynclab-dummy");
            }
            Sync::Never | Sync::Each(_) | Sync::Held => {}
        }
        if self.p.own {
            for at in directories.iter().rev() {
                self.on(&format!("C{at}"), "O_RDONLY", &format!("fsync C{at}"));
            }
        }
        if self.p.parent {
            self.on("P", "O_RDONLY", "fsync P");
        }
    }

    /// Opens, does one thing, closes.
    fn on(&mut self, path: &str, flags: &str, line: &str) {
        self.say(format!("openat {path} {flags}"));
        self.say(line);
        self.say(format!("close {path}"));
    }

    /// Entries of a copied directory as every pass lists them: path, inode, whether it is a file.
    fn listed(&self, at: &str) -> Vec<(String, u64, bool)> {
        let listed = self.listing(&format!("C{at}")).iter();
        let passes = [self.p.settle, matches!(self.p.hint, Hint::Pass(_)), self.p.sync == Sync::After];
        let times = passes.iter().filter(|pass| **pass).count();
        let all: Vec<_> = listed.map(|entry| (entry, format!("{at}/{}", entry.name))).collect();
        assert_eq!(all.len() % times, 0, "every pass lists the same");
        let once = all[..all.len() / times].iter();
        once.map(|(entry, file)| (file.clone(), entry.inode, entry.kind == "DT_REG")).collect()
    }

    fn touch_pass(&mut self, at: &str, flags: &str, itself: bool) {
        self.opens_listing(&format!("C{at}"));
        for (file, _, _) in self.listed(at).into_iter().filter(|(_, _, is_file)| *is_file) {
            let line = format!("sync_file_range C{file} 0 0 {flags}");
            self.on(&format!("C{file}"), "O_RDONLY", &line);
        }
        self.ends_listing(&format!("C{at}"));
        if itself {
            self.on(&format!("C{at}"), "O_RDONLY", &format!("sync_file_range C{at} 0 0 {flags}"));
        }
    }

    fn sync_pass(&mut self, directories: &[String]) {
        let at_once = self.p.order == Order::Readdir && !self.p.together;
        let mut all = Vec::new();
        for at in directories {
            self.opens_listing(&format!("C{at}"));
            for (file, inode, is_file) in self.listed(at) {
                if self.p.lstat || (is_file && self.p.order == Order::Size) {
                    self.lstats(&format!("C{file}"));
                }
                if !is_file {
                    continue;
                }
                if at_once {
                    self.sync(&file);
                } else {
                    all.push((file, inode));
                }
            }
            self.ends_listing(&format!("C{at}"));
        }
        match self.p.order {
            Order::Readdir => {}
            Order::Reverse => all.reverse(),
            Order::Inode => all.sort_by_key(|(_, inode)| *inode),
            Order::Size => all.sort_by_key(|(file, _)| self.size(file)),
        }
        for (file, _) in &all {
            self.sync(file);
        }
    }

    fn sync(&mut self, file: &str) {
        self.on(&format!("C{file}"), "O_RDWR", &format!("{} C{file}", self.p.call));
    }

    fn held_pass(&mut self) {
        self.writes_batch();
        let held = std::mem::take(&mut self.held);
        if let Hint::Pass(_) = self.p.hint {
            for file in &held {
                self.hint(file, 0, 0, WRITE);
            }
        }
        if self.p.settle {
            for file in &held {
                self.hint(file, 0, 0, "SYNC_FILE_RANGE_WAIT_BEFORE");
            }
        }
        let mut order = held.clone();
        match self.p.order {
            Order::Readdir => {}
            Order::Reverse => order.reverse(),
            Order::Inode => panic!("no inode numbers of files that are never listed"),
            Order::Size => order.sort_by_key(|file| self.size(file)),
        }
        for file in &order {
            self.say(format!("{} C{file}", self.p.call));
        }
        for file in &held {
            self.say(format!("close C{file}"));
        }
    }
}
