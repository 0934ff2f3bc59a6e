//! The journal of what must be undone: an entry is written and synced before the deed and marked done after its undoing,
//! so a run that is killed at any moment leaves a list of all it may have left behind.
//!
//! One file a run, locked by flock(2) as long as the run lives: whoever gets the lock knows that the run is dead. Its
//! lines are JSON: `{"n":1,"kind":"…","data":…}` for an entry, `{"done":1}` for its end. A last line without its line
//! end was being written when the run died: its deed had not begun, or its undoing is done once more, so it is cut off.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
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
    open: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    /// Not yet undone, in the order in which they were made.
    entries: Vec<Entry>,
    last_n: u64,
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
            // Between its making and its locking another process may have taken it for a leftover and removed it.
            if try_lock(&file, &path)? {
                files::sync_directory(state)?;
                return Ok(Self { path, file, open: Mutex::default() });
            }
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
        let mut line =
            serde_json::to_vec(&entry).map_err(|source| SysError::EntryData { kind: U::KIND, source })?;
        line.push(b'\n');
        files::append(&self.file, &self.path, &line).map_err(not_kept)?;
        let n = entry.n;
        open.entries.push(entry);
        Ok(n)
    }

    /// Marks an entry as undone.
    pub fn done(&self, n: u64) -> Result<(), SysError> {
        let mut open = self.lock();
        files::append(&self.file, &self.path, format!("{{\"done\":{n}}}\n").as_bytes())?;
        open.entries.retain(|entry| entry.n != n);
        Ok(())
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

    /// Removes the journal if nothing is left to be undone, else leaves it to `clean`; true if it was removed.
    pub fn close(self) -> Result<bool, SysError> {
        if !self.lock().entries.is_empty() {
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

    fn lock(&self) -> MutexGuard<'_, Entries> {
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
    /// Their journals, the oldest first, each with something to be undone.
    pub journals: Vec<Journal>,
    /// Why others could not be read.
    pub unreadable: Vec<SysError>,
}

/// The journals of runs that are dead, locked so that nobody else undoes the same.
///
/// A state directory that is not there has none. Journals without entries, of runs that were killed before they did
/// anything, are removed on the way.
pub fn leftovers(state: &Path) -> Result<Leftovers, SysError> {
    let at = Fault::of_io(Call::Getdents64, state);
    let listed = match fs::read_dir(state) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Leftovers::default()),
        listed => listed.map_err(&at)?,
    };
    let mut paths = Vec::new();
    for entry in listed {
        let entry = entry.map_err(&at)?;
        if entry.file_name().as_encoded_bytes().ends_with(SUFFIX.as_bytes()) {
            let modified = entry.metadata().and_then(|found| found.modified()).ok();
            paths.push((modified, entry.path()));
        }
    }
    paths.sort();
    let mut left = Leftovers::default();
    for (_, path) in paths {
        match reopen(path) {
            Ok(None) => {}
            Ok(Some(journal)) if journal.entries().is_empty() => {
                journal.close()?;
            }
            Ok(Some(journal)) => left.journals.push(journal),
            Err(error) => left.unreadable.push(error),
        }
    }
    Ok(left)
}

/// A journal whose run is dead; nothing if it lives, or if somebody else has just removed it.
fn reopen(path: PathBuf) -> Result<Option<Journal>, SysError> {
    let file = match OpenOptions::new().read(true).append(true).custom_flags(libc::O_NOFOLLOW).open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(Fault::of_io(Call::Openat, &path))?,
    };
    if !try_lock(&file, &path)? {
        return Ok(None);
    }
    let content = fs::read(&path).map_err(Fault::of_io(Call::Read, &path))?;
    let whole = content.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if whole < content.len() {
        file.set_len(whole as u64).map_err(Fault::of_io(Call::Ftruncate, &path))?;
    }
    let entries = read_lines(&content[..whole], &path)?;
    Ok(Some(Journal { path, file, open: Mutex::new(entries) }))
}

fn read_lines(content: &[u8], path: &Path) -> Result<Entries, SysError> {
    let mut open = Entries::default();
    for (index, line) in content.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let at = |source| SysError::JournalLine { path: path.to_path_buf(), line: index + 1, source };
        match serde_json::from_slice(line).map_err(at)? {
            Line::Done { done } => open.entries.retain(|entry| entry.n != done),
            Line::Entry(entry) => {
                open.last_n = open.last_n.max(entry.n);
                open.entries.push(entry);
            }
        }
    }
    Ok(open)
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
mod tests {
    use super::*;

    /// Its undoing adds a line to a file, or fails if the file is not there.
    #[derive(Serialize, Deserialize)]
    struct Deed {
        log: PathBuf,
        name: String,
    }

    impl Undo for Deed {
        const KIND: &'static str = "deed";
        type Error = Fault;

        fn describe(&self) -> String {
            self.name.clone()
        }

        fn undo(&self) -> Result<Undone, Fault> {
            let log = OpenOptions::new().append(true).open(&self.log);
            let log = log.map_err(Fault::of_io(Call::Openat, &self.log))?;
            files::append(&log, &self.log, format!("{} ", self.name).as_bytes())?;
            Ok(Undone::Now)
        }
    }

    const TABLE: &UndoTable = &[UndoKind::of::<Deed>()];

    fn deed(log: &Path, name: &str) -> Deed {
        Deed { log: log.to_path_buf(), name: name.to_owned() }
    }

    fn scene() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let directory = tempfile::tempdir().expect("directory");
        let (state, log) = (directory.path().join("a/state"), directory.path().join("log"));
        fs::write(&log, "").expect("log");
        (directory, state, log)
    }

    fn left(state: &Path) -> Vec<Journal> {
        let left = leftovers(state).expect("leftovers");
        assert!(left.unreadable.is_empty(), "{left:?}");
        left.journals
    }

    fn only(mut journals: Vec<Journal>) -> Journal {
        assert_eq!(journals.len(), 1);
        journals.remove(0)
    }

    #[test]
    fn what_was_done_is_undone_last_made_first_and_the_empty_journal_goes() {
        let (_directory, state, log) = scene();
        let journal = Journal::create(&state).expect("create");
        journal.push(&deed(&log, "one")).expect("push");
        let two = journal.push(&deed(&log, "two")).expect("push");
        journal.push(&deed(&log, "three")).expect("push");
        journal.undo(two, &deed(&log, "two")).expect("undo");
        let outcomes = journal.undo_all(TABLE).expect("undo");
        assert!(outcomes.iter().all(|outcome| matches!(outcome.result, Ok(Undone::Now))));
        assert_eq!(fs::read_to_string(&log).expect("log"), "two three one ");
        assert!(journal.close().expect("close"));
        assert_eq!(fs::read_dir(&state).expect("state").count(), 0);
    }

    #[test]
    fn a_dead_runs_journal_is_found_whole_and_a_living_ones_is_not() {
        let (_directory, state, log) = scene();
        assert!(left(&state).is_empty());
        let journal = Journal::create(&state).expect("create");
        let one = journal.push(&deed(&log, "one")).expect("push");
        journal.push(&deed(&log, "two")).expect("push");
        journal.done(one).expect("done");
        assert!(left(&state).is_empty());
        drop(journal);

        let found = only(left(&state));
        assert_eq!(found.entries()[0].describe(TABLE).expect("known"), "two");
        assert!(left(&state).is_empty());
        assert_eq!(found.push(&deed(&log, "three")).expect("push"), 3);
    }

    #[test]
    fn what_fails_stays_and_does_not_hold_up_the_rest() {
        let (directory, state, log) = scene();
        let journal = Journal::create(&state).expect("create");
        journal.push(&deed(&log, "one")).expect("push");
        journal.push(&deed(&directory.path().join("gone"), "two")).expect("push");
        let outcomes = journal.undo_all(TABLE).expect("undo");
        let error = outcomes[0].result.as_ref().expect_err("gone").to_string();
        assert!(error.ends_with("gone\": No such file or directory"), "{error}");
        assert!(outcomes[1].result.is_ok());
        let unknown = journal.undo_all(&[]).expect("undo").remove(0).result.expect_err("unknown");
        assert_eq!(unknown.to_string(), "could not undo \"deed\": this version does not know it");
        assert!(!journal.close().expect("close"));
        assert_eq!(only(left(&state)).entries().len(), 1);
    }

    #[test]
    fn a_journal_torn_at_any_byte_is_read_as_far_as_it_goes() {
        let (_directory, state, log) = scene();
        let journal = Journal::create(&state).expect("create");
        journal.push(&deed(&log, "one")).expect("push");
        journal.push(&deed(&log, "two")).expect("push");
        journal.done(2).expect("done");
        let path = journal.path().to_path_buf();
        drop(journal);
        let whole = fs::read(&path).expect("journal");
        for length in 0..=whole.len() {
            fs::write(&path, &whole[..length]).expect("torn");
            let lines = whole[..length].split(|byte| *byte == b'\n').count() - 1;
            let found = left(&state);
            let entries = found.first().map_or(0, |journal| journal.entries().len());
            assert_eq!(entries, [0, 1, 2, 1][lines], "{length} bytes");
            if let Some(journal) = found.first() {
                journal.push(&deed(&log, "later")).expect("what follows a torn line is whole");
            }
            drop(found);
            assert_eq!(left(&state).len(), usize::from(lines > 0));
        }
    }

    #[test]
    fn a_damaged_journal_is_told_by_its_line_and_hides_no_other() {
        let (_directory, state, log) = scene();
        let journal = Journal::create(&state).expect("create");
        journal.push(&deed(&log, "one")).expect("push");
        files::append(&journal.file, &journal.path, b"{\"do\n").expect("damage");
        drop(journal);
        let whole = Journal::create(&state).expect("create");
        whole.push(&deed(&log, "two")).expect("push");
        drop(whole);
        let left = leftovers(&state).expect("leftovers");
        assert_eq!(left.journals[0].entries()[0].describe(TABLE).expect("known"), "two");
        let error = left.unreadable[0].to_string();
        assert!(error.contains(".journal\", line 2: "), "{error}");
    }

    #[test]
    fn a_state_directory_that_cannot_be_is_told_with_what_to_do() {
        let error = Journal::create(Path::new("/proc/fsynclab")).expect_err("proc");
        assert_eq!(
            error.to_string(),
            "could not keep a journal of what must be undone: could not create directory \"/proc/fsynclab\": \
             No such file or directory"
        );
        assert!(error.hint().expect("hint").contains("FSYNCLAB_STATE_DIR"));
    }

    #[test]
    fn the_state_directory_is_the_first_that_applies() {
        let of = |root, set: &[(&str, &str)]| {
            let found = state_directory_of(root, |name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| PathBuf::from(value))
            });
            found.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let home = ("HOME", "/home/me");
        assert_eq!(of(true, &[("FSYNCLAB_STATE_DIR", "/x"), home]), "/x");
        assert_eq!(of(true, &[("FSYNCLAB_STATE_DIR", ""), home]), "/var/lib/fsynclab");
        assert_eq!(of(false, &[("XDG_STATE_HOME", "/s"), home]), "/s/fsynclab");
        assert_eq!(of(false, &[("XDG_STATE_HOME", "s"), home]), "/home/me/.local/state/fsynclab");
        assert_eq!(of(false, &[]), "");
    }
}
