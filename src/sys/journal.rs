//! The journal of what must be undone: an entry is written and synced before the deed and marked done after its undoing,
//! so a run that is killed at any moment leaves a list of all it may have left behind.
//!
//! One file a run, locked by flock(2) as long as the run lives: whoever gets the lock knows that the run is dead. Its
//! lines are JSON: `{"n":1,"kind":"…","data":…}` for an entry, `{"done":1}` for its end. A last line without its line
//! end was being written when the run died, unless somebody cut it short: its deed had not begun, or its undoing is done
//! once more. What is damaged is read as far as it goes and never removed.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::Uid;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::SysError;
use super::files;
use super::kernel::{Call, Fault};
use super::random::fresh_id;
use super::undo::{Undo, UndoError, UndoKind, UndoTable, Undone};

/// An entry of a journal: what was done, or was about to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Counts from 1 within the journal.
    pub n: u64,
    /// [`Undo::KIND`].
    pub kind: String,
    /// The [`Undo`] itself.
    pub data: Value,
}

impl Entry {
    /// What there is to be undone, in words.
    pub fn describe(&self, tables: &UndoTable) -> Result<String, UndoError> {
        (self.row(tables)?.describe)(&self.data)
    }

    fn row<'a>(&self, tables: &'a UndoTable) -> Result<&'a UndoKind, SysError> {
        let unknown = || SysError::UnknownKind { kind: self.kind.clone() };
        tables.iter().find(|row| row.kind == self.kind).ok_or_else(unknown)
    }
}

/// What became of one entry.
#[derive(Debug)]
pub struct Outcome {
    /// The entry.
    pub entry: Entry,
    /// How it was undone, or why it still is to be.
    pub result: Result<Undone, UndoError>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Done { done: u64 },
    Entry(Entry),
}

/// A run's journal, locked as long as it is held.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    open: Mutex<Known>,
    damage: Option<SysError>,
}

#[derive(Debug, Default)]
struct Known {
    /// Not yet undone, in the order in which they were made.
    entries: Vec<Entry>,
    last_n: u64,
    /// The file ends within a line.
    torn: bool,
}

impl Known {
    /// Begins a line of its own; a torn one before it is closed as one that cannot be read, complete or not.
    fn line(&mut self, line: &str) -> Vec<u8> {
        let end = if std::mem::take(&mut self.torn) { " cut off\n" } else { "" };
        format!("{end}{line}\n").into_bytes()
    }
}

impl Journal {
    /// A new, empty journal in a state directory, which is made where it is missing.
    pub fn create(state: &Path) -> Result<Self, SysError> {
        make_state_directory(state).map_err(not_kept)?;
        loop {
            let path = state.join(format!("{}{SUFFIX}", fresh_id()));
            let file = OpenOptions::new()
                .read(true)
                .append(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)
                .map_err(|error| not_kept(Fault::of_io(Call::Openat, &path)(error)))?;
            // Between its making and its locking another process may have taken it for a leftover.
            if try_lock(&file, &path)? {
                files::sync_directory(state)?;
                return Ok(Self { path, file, open: Mutex::default(), damage: None });
            }
            fs::remove_file(&path).ok();
        }
    }

    /// Journals what is about to be done. It may be done when this returns, not before.
    pub fn push<U: Undo>(&self, undo: &U) -> Result<u64, SysError> {
        let data =
            serde_json::to_value(undo).map_err(|source| SysError::EntryData { kind: U::KIND, source })?;
        let mut open = self.lock();
        let entry = Entry { n: open.last_n + 1, kind: U::KIND.to_owned(), data };
        // Taken even where the write fails: a torn line may hold the number.
        open.last_n = entry.n;
        let line =
            serde_json::to_string(&entry).map_err(|source| SysError::EntryData { kind: U::KIND, source })?;
        self.append(&mut open, &line).map_err(not_kept)?;
        let n = entry.n;
        open.entries.push(entry);
        Ok(n)
    }

    /// Marks an entry as undone.
    pub fn done(&self, n: u64) -> Result<(), SysError> {
        let mut open = self.lock();
        self.append(&mut open, &format!("{{\"done\":{n}}}"))?;
        open.entries.retain(|entry| entry.n != n);
        Ok(())
    }

    fn append(&self, open: &mut Known, line: &str) -> Result<(), Fault> {
        let appended = files::append(&self.file, &self.path, &open.line(line));
        open.torn = appended.is_err();
        appended
    }

    /// Undoes one entry and marks it.
    pub fn undo<U: Undo>(&self, n: u64, undo: &U) -> Result<Undone, UndoError> {
        let undone = undo.undo()?;
        self.done(n)?;
        Ok(undone)
    }

    /// What is still to be undone, in the order in which it was done.
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().entries.clone()
    }

    /// Undoes everything, last made first; what fails stays in the journal and does not hold up the rest.
    pub fn undo_all(&self, tables: &UndoTable) -> Result<Vec<Outcome>, SysError> {
        self.undo_those(tables, |_| true)
    }

    /// The same for some of the entries; the others stay.
    pub fn undo_those(
        &self,
        tables: &UndoTable,
        wanted: impl Fn(&Entry) -> bool,
    ) -> Result<Vec<Outcome>, SysError> {
        let mut outcomes = Vec::new();
        for entry in self.entries().into_iter().rev().filter(wanted) {
            let result = entry.row(tables).map_err(UndoError::from).and_then(|row| (row.undo)(&entry.data));
            if result.is_ok() {
                self.done(entry.n)?;
            }
            outcomes.push(Outcome { entry, result });
        }
        Ok(outcomes)
    }

    /// What is wrong with the journal of a dead run; it may have named more than its entries.
    pub fn damage(&self) -> Option<&SysError> {
        self.damage.as_ref()
    }

    /// Removes the journal if nothing is left to be undone and nothing is wrong with it, else leaves it to `clean`; true
    /// if it was removed.
    pub fn close(self) -> Result<bool, SysError> {
        if self.damage.is_some() || !self.lock().entries.is_empty() {
            return Ok(false);
        }
        fs::remove_file(&self.path).map_err(Fault::of_io(Call::Unlink, &self.path))?;
        files::sync_directory(files::directory_of(&self.path))?;
        Ok(true)
    }

    /// The journal's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // The list changes in one step, after the file: a panic elsewhere leaves it whole.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const SUFFIX: &str = ".journal";

/// Of the state directory. Others may pass, no more: simulated drives are mounted below, and a scratch cluster on one runs
/// as another user. The journals in it have modes of their own.
const MODE: Mode = Mode::S_IRWXU.union(Mode::S_IXGRP).union(Mode::S_IXOTH);

/// Where journals lie: `$FSYNCLAB_STATE_DIR`, else /var/lib/fsynclab for root, else `$XDG_STATE_HOME/fsynclab`, else
/// ~/.local/state/fsynclab. Empty variables count as unset.
pub fn state_directory() -> Result<PathBuf, SysError> {
    state_directory_of(Uid::effective().is_root(), |name| std::env::var_os(name).map(PathBuf::from))
}

fn state_directory_of(root: bool, variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, SysError> {
    let set = |name| variable(name).filter(|value| !value.as_os_str().is_empty());
    if let Some(asked) = set("FSYNCLAB_STATE_DIR") {
        return Ok(asked);
    }
    if root {
        return Ok(PathBuf::from("/var/lib/fsynclab"));
    }
    // The XDG specification: a relative path is invalid and to be ignored.
    if let Some(state) = set("XDG_STATE_HOME").filter(|state| state.is_absolute()) {
        return Ok(state.join("fsynclab"));
    }
    Ok(set("HOME").ok_or(SysError::NoHome)?.join(".local/state/fsynclab"))
}

fn make_state_directory(state: &Path) -> Result<(), SysError> {
    if state.is_dir() {
        return Ok(());
    }
    make_state_directory(files::directory_of(state))?;
    match files::make_directory(state, MODE) {
        // Another run was faster.
        Err(SysError::Fault(Fault { errno: Errno::EEXIST, .. })) => Ok(()),
        made => made.map(|_| ()),
    }
}

fn not_kept(error: impl Into<SysError>) -> SysError {
    match error.into() {
        SysError::Fault(fault) => SysError::StateDirectory(fault),
        other => other,
    }
}

/// What dead runs left.
#[derive(Debug, Default)]
pub struct Leftovers {
    /// Their journals, the oldest first, each with something to be undone or damaged.
    pub journals: Vec<Journal>,
    /// Whole journals without anything to be undone: their runs were killed before they did anything, or after all of it
    /// was undone.
    pub idle: Vec<Journal>,
    /// Why others could not be read.
    pub unreadable: Vec<SysError>,
}

/// The journals of runs that are dead, locked so that nobody else undoes the same.
///
/// A state directory that is not there has none. Nothing is changed.
pub fn leftovers(state: &Path) -> Result<Leftovers, SysError> {
    let at = Fault::of_io(Call::Getdents64, state);
    let listed = match fs::read_dir(state) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Leftovers::default()),
        listed => listed.map_err(&at)?,
    };
    let mut paths = Vec::new();
    for entry in listed {
        let entry = entry.map_err(&at)?;
        let regular = entry.file_type().is_ok_and(|kind| kind.is_file());
        if regular && entry.file_name().as_encoded_bytes().ends_with(SUFFIX.as_bytes()) {
            let modified = entry.metadata().and_then(|found| found.modified()).ok();
            paths.push((modified, entry.path()));
        }
    }
    paths.sort();
    let mut left = Leftovers::default();
    for (_, path) in paths {
        match reopen(path) {
            Ok(None) => {}
            Ok(Some(journal)) if journal.damage.is_none() && journal.entries().is_empty() => {
                left.idle.push(journal);
            }
            Ok(Some(journal)) => left.journals.push(journal),
            Err(error) => left.unreadable.push(error),
        }
    }
    Ok(left)
}

/// A journal whose run is dead; nothing if it lives, if somebody else has just removed it, or if it is no regular file.
fn reopen(path: PathBuf) -> Result<Option<Journal>, SysError> {
    // A pipe put there meanwhile would wait for its other end.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).append(true).custom_flags(flags.bits()).open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(Fault::of_io(Call::Openat, &path))?,
    };
    let found = file.metadata().map_err(Fault::of_io(Call::Newfstatat, &path))?;
    if !found.is_file() || !try_lock(&file, &path)? {
        return Ok(None);
    }
    let mut content = Vec::new();
    (&file).read_to_end(&mut content).map_err(Fault::of_io(Call::Read, &path))?;
    let (entries, wrong_line) = read_lines(&content, &path);
    let damage = match wrong_line {
        None if entries.torn => Some(SysError::JournalCut { path: path.clone() }),
        None if content.is_empty() && !never_written(&found) => {
            Some(SysError::JournalEmptied { path: path.clone() })
        }
        wrong_line => wrong_line,
    };
    Ok(Some(Journal { path, file, open: Mutex::new(entries), damage }))
}

/// Whether a file is as it was made; false where its file system does not keep when that was.
fn never_written(file: &fs::Metadata) -> bool {
    matches!((file.created(), file.modified()), (Ok(created), Ok(modified)) if created == modified)
}

/// The entries of all lines that can be read, and why the first of the others cannot.
fn read_lines(content: &[u8], path: &Path) -> (Known, Option<SysError>) {
    let (mut open, mut wrong) = (Known::default(), None);
    for (index, line) in content.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if !line.ends_with(b"\n") {
            open.torn = true;
            break;
        }
        match serde_json::from_slice(line) {
            Ok(Line::Done { done }) => open.entries.retain(|entry| entry.n != done),
            Ok(Line::Entry(entry)) => {
                open.last_n = open.last_n.max(entry.n);
                open.entries.push(entry);
            }
            Err(source) => {
                wrong.get_or_insert(SysError::JournalLine {
                    path: path.to_path_buf(),
                    line: index + 1,
                    source,
                });
            }
        }
    }
    (open, wrong)
}

/// Locks a journal; false if its run lives, or if the path names another file by now or none.
fn try_lock(file: &File, path: &Path) -> Result<bool, SysError> {
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(false),
        Err(TryLockError::Error(error)) => return Err(Fault::of_io(Call::Openat, path)(error).into()),
    }
    let locked = file.metadata().map_err(Fault::of_io(Call::Newfstatat, path))?;
    Ok(fs::symlink_metadata(path)
        .is_ok_and(|found| (found.dev(), found.ino()) == (locked.dev(), locked.ino())))
}

#[cfg(test)]
mod tests;
