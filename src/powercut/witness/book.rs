//! The witness's ledgers: a directory a run, in it one file, appended to and synced before anything is acknowledged.
//!
//! A line is the CRC-32 of its JSON as eight hexadecimal digits, a blank, and the JSON of one
//! [`Record`]. A last line that is not whole was being written when the witness ended: it was
//! acknowledged to nobody, and is cut off before the next is written. Anything else that is not whole is damage.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::sys::stat::Mode;

use super::error::{Attempt, WitnessError};
use super::event::{Event, FORMAT, Record, Session};
use crate::sys::clock::utc_now;
use crate::sys::files;
use crate::sys::random::fresh_id;

/// The file in a run's directory.
const LEDGER: &str = "ledger";
/// Digits of a run's name.
const RUN_DIGITS: usize = 8;

/// A record as its line.
pub fn line(record: &Record) -> Result<String, serde_json::Error> {
    let text = serde_json::to_string(record)?;
    Ok(format!("{:08x} {text}\n", crc32fast::hash(text.as_bytes())))
}

/// One line without its end; `None` where it is not whole.
fn parse(line: &[u8]) -> Option<Record> {
    let (sum, text) = (line.get(..8)?, line.get(8..)?.strip_prefix(b" ")?);
    let sum = u32::from_str_radix(std::str::from_utf8(sum).ok()?, 16).ok()?;
    (sum == crc32fast::hash(text)).then(|| serde_json::from_slice(text).ok())?
}

/// The records of a ledger and the length of its whole lines. `name` is for the error.
pub fn read(bytes: &[u8], name: &str) -> Result<(Vec<Record>, usize), WitnessError> {
    let (mut records, mut whole) = (Vec::new(), 0);
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        match line.strip_suffix(b"\n").and_then(parse) {
            Some(record) => records.push(record),
            None if lines.peek().is_none() => break,
            None => return Err(WitnessError::Damaged { ledger: name.to_owned(), line: number + 1 }),
        }
        whole += line.len();
    }
    Ok((records, whole))
}

/// All ledgers of a witness. One process has them.
#[derive(Debug)]
pub struct Shelf {
    directory: PathBuf,
    /// Locked as long as the shelf is held.
    _lock: File,
    books: Mutex<BTreeMap<String, Arc<Mutex<Book>>>>,
}

impl Shelf {
    /// Opens a directory of ledgers, made where it is missing.
    pub fn open(directory: &Path) -> Result<Shelf, WitnessError> {
        if !directory.exists() {
            files::make_directory(directory, Mode::S_IRWXU)?;
        }
        let path = directory.join("lock");
        let mut how = OpenOptions::new();
        let how = how.create(true).truncate(false).write(true).mode(0o600);
        let lock = how.open(&path).attempt("open file", &path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(WitnessError::Locked { directory: directory.to_owned() });
            }
            Err(TryLockError::Error(error)) => return Err(error).attempt("lock file", &path),
        }
        Ok(Shelf { directory: directory.to_owned(), _lock: lock, books: Mutex::default() })
    }

    /// The book of a run, read from its file where it is not open yet; `None` where there is no such run.
    pub fn book(&self, run: &str) -> Result<Option<Arc<Mutex<Book>>>, WitnessError> {
        // It becomes a path: nothing but what names are made of.
        if run.len() != RUN_DIGITS || !run.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let mut books = lock(&self.books);
        if let Some(book) = books.get(run) {
            return Ok(Some(Arc::clone(book)));
        }
        let path = self.directory.join(run).join(LEDGER);
        if !path.exists() {
            return Ok(None);
        }
        let book = Arc::new(Mutex::new(Book::open(run, path)?));
        books.insert(run.to_owned(), Arc::clone(&book));
        Ok(Some(book))
    }

    /// Begins a new run.
    pub fn begin(&self) -> Result<Arc<Mutex<Book>>, WitnessError> {
        let run = fresh_id()[..RUN_DIGITS].to_owned();
        let directory = self.directory.join(&run);
        let made = std::fs::DirBuilder::new().mode(0o700).create(&directory);
        made.attempt("create directory", &directory)?;
        let begun = Book::create(&run, &directory.join(LEDGER)).and_then(|book| {
            files::sync_directory(&directory)?;
            files::sync_directory(&self.directory)?;
            Ok(book)
        });
        if begun.is_err() {
            // Nobody was told of it.
            std::fs::remove_dir_all(&directory).ok();
        }
        let book = Arc::new(Mutex::new(begun?));
        lock(&self.books).insert(run, Arc::clone(&book));
        Ok(book)
    }

    /// The run with the newest writer in a directory.
    pub fn find(&self, into: &str) -> Result<Option<String>, WitnessError> {
        let listed = std::fs::read_dir(&self.directory).attempt("read directory", &self.directory)?;
        let mut newest: Option<((String, bool), String)> = None;
        for entry in listed {
            let name = entry.attempt("read directory", &self.directory)?.file_name();
            let Some(run) = name.to_str() else { continue };
            // What is damaged is told to whoever asks for it by name.
            let Ok(Some(book)) = self.book(run) else { continue };
            let book = lock(&book);
            let cuts = book.cuts.values().filter(|cut| cut.session.into == into && !cut.left);
            // Within a second the one that nobody has verified.
            let last = cuts.map(|cut| (cut.at.clone(), !cut.judged)).max();
            if let Some(last) = last
                && newest.as_ref().is_none_or(|(known, _)| *known < last)
            {
                newest = Some((last, run.to_owned()));
            }
        }
        Ok(newest.map(|(_, run)| run))
    }
}

/// Locks what no panic leaves half done.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One stay of a writer.
#[derive(Debug)]
struct Cut {
    at: String,
    session: Box<Session>,
    /// The last number of each writer.
    last: HashMap<u32, u64>,
    /// The writer ended by itself.
    left: bool,
    /// Somebody has verified it.
    judged: bool,
}

/// A run's ledger.
#[derive(Debug)]
pub struct Book {
    run: String,
    path: PathBuf,
    file: File,
    /// Of its whole lines.
    length: u64,
    cuts: BTreeMap<u32, Cut>,
    /// A sync has failed: what is in the file is not known any more.
    broken: Option<String>,
}

impl Book {
    fn create(run: &str, path: &Path) -> Result<Book, WitnessError> {
        let mut how = OpenOptions::new();
        let file = how.read(true).append(true).create_new(true).mode(0o600).open(path);
        let file = file.attempt("create file", path)?;
        let (run, path) = (run.to_owned(), path.to_owned());
        let mut book = Book { run, path, file, length: 0, cuts: BTreeMap::new(), broken: None };
        book.append(&[Record::Run { format: FORMAT, run: book.run.clone(), at: utc_now() }])?;
        Ok(book)
    }

    fn open(run: &str, path: PathBuf) -> Result<Book, WitnessError> {
        let file = OpenOptions::new().read(true).append(true).open(&path).attempt("open file", &path)?;
        let bytes = std::fs::read(&path).attempt("read file", &path)?;
        let (records, whole) = read(&bytes, &path.to_string_lossy())?;
        if whole < bytes.len() {
            file.set_len(whole as u64).attempt("truncate file", &path)?;
        }
        let (run, length) = (run.to_owned(), whole as u64);
        let mut book = Book { run, path, file, length, cuts: BTreeMap::new(), broken: None };
        for record in records {
            book.learn(record);
        }
        Ok(book)
    }

    /// Its name.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// A writer begins: its cut. One that has begun already has the same.
    pub fn begin(&mut self, session: Box<Session>) -> Result<u32, WitnessError> {
        if let Some((cut, _)) = self.cuts.iter().find(|(_, cut)| cut.session.id == session.id) {
            return Ok(*cut);
        }
        let cut = self.cuts.last_key_value().map_or(1, |(cut, _)| cut + 1);
        self.append(&[Record::Begin { cut, at: utc_now(), session }])?;
        Ok(cut)
    }

    /// The last number that a writer has told; `None` where no such cut has begun.
    pub fn last(&self, cut: u32, writer: u32) -> Option<u64> {
        self.cuts.get(&cut).map(|cut| cut.last.get(&writer).copied().unwrap_or(0))
    }

    /// Keeps what a writer tells, numbered from `first`; what is known already is not kept again. The number up to which
    /// all is durable; `None` where something between is missing.
    pub fn tell(
        &mut self,
        (cut, writer): (u32, u32),
        first: u64,
        events: Vec<Event>,
    ) -> Result<Option<u64>, WitnessError> {
        let last = self.last(cut, writer).unwrap_or(0);
        if first > last + 1 {
            return Ok(None);
        }
        let new = (first..).zip(events).filter(|(seq, _)| *seq > last);
        let new: Vec<Record> = new.map(|(seq, event)| Record::Told { cut, writer, seq, event }).collect();
        self.append(&new)?;
        Ok(self.last(cut, writer))
    }

    /// Appends records; they are durable when this returns. What could not be written leaves nothing behind.
    pub fn append(&mut self, records: &[Record]) -> Result<(), WitnessError> {
        if records.is_empty() {
            return Ok(());
        }
        if let Some(why) = &self.broken {
            return Err(WitnessError::Refused { why: why.clone() });
        }
        let lines = records.iter().map(line).collect::<Result<String, _>>();
        let lines = lines.map_err(|error| WitnessError::Refused { why: error.to_string() })?;
        if let Err(fault) = files::append(&self.file, &self.path, lines.as_bytes()) {
            let full = matches!(fault.errno, Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG);
            // A sync that failed is final, and so is half a line that cannot be taken back.
            if !full || self.file.set_len(self.length).is_err() {
                self.broken = Some(fault.to_string());
            }
            return Err(fault.into());
        }
        self.length += lines.len() as u64;
        for record in records {
            self.learn(record.clone());
        }
        Ok(())
    }

    /// Text from a byte on, `most_bytes` at most, up to the last whole line.
    pub fn part(&self, from: u64, most_bytes: usize) -> Result<String, WitnessError> {
        let left = usize::try_from(self.length.saturating_sub(from)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; left.min(most_bytes)];
        self.file.read_exact_at(&mut bytes, from).attempt("read file", &self.path)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        bytes.truncate(whole);
        let damaged = |_| WitnessError::Damaged { ledger: self.run.clone(), line: 0 };
        String::from_utf8(bytes).map_err(damaged)
    }

    fn learn(&mut self, record: Record) {
        match record {
            Record::Begin { cut, at, session } => {
                let (last, left, judged) = (HashMap::new(), false, false);
                self.cuts.insert(cut, Cut { at, session, last, left, judged });
            }
            Record::Told { cut, writer, seq, .. } => {
                if let Some(cut) = self.cuts.get_mut(&cut) {
                    cut.last.insert(writer, seq);
                }
            }
            Record::Left { cut, .. } => {
                self.cuts.entry(cut).and_modify(|cut| cut.left = true);
            }
            Record::Judged { cut, .. } => {
                self.cuts.entry(cut).and_modify(|cut| cut.judged = true);
            }
            Record::Run { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(file: u64) -> Event {
        Event::Data { file }
    }

    fn session(id: &str) -> Box<Session> {
        Box::new(Session { id: id.to_owned(), into: "/mnt".to_owned(), ..Session::default() })
    }

    #[test]
    fn what_was_kept_is_known_after_a_restart_and_told_twice_it_is_kept_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let shelf = Shelf::open(&directory.path().join("ledgers")).expect("a shelf");
        let book = shelf.begin().expect("a run");
        let run = lock(&book).run().to_owned();
        let cut = lock(&book).begin(session("a")).expect("begun");
        assert_eq!(cut, 1);
        assert_eq!(lock(&book).begin(session("a")).expect("begun before"), 1);
        let told = |book: &Mutex<Book>, first, events| lock(book).tell((1, 0), first, events).expect("kept");
        assert_eq!(told(&book, 1, vec![data(1), data(2)]), Some(2));
        assert_eq!(told(&book, 2, vec![data(2), data(3)]), Some(3));
        assert_eq!(told(&book, 5, vec![data(5)]), None, "the fourth is missing");
        drop((book, shelf));
        let shelf = Shelf::open(&directory.path().join("ledgers")).expect("it can be opened again");
        let again = shelf.book(&run).expect("whole").expect("there");
        let last = |cut| lock(&again).last(cut, 0);
        assert_eq!((last(1), last(2)), (Some(3), None));
        assert_eq!(lock(&again).begin(session("b")).expect("another"), 2);
        assert_eq!(shelf.find("/mnt").expect("found"), Some(run.clone()));
        assert_eq!(shelf.find("/").expect("nothing"), None);
        assert!(shelf.book("../../etc").expect("no run").is_none());
        let text = lock(&again).part(0, 1 << 20).expect("text");
        let (records, whole) = read(text.as_bytes(), "x").expect("whole");
        assert_eq!((records.len(), whole), (6, text.len()));
        assert!(matches!(Shelf::open(&directory.path().join("ledgers")), Err(WitnessError::Locked { .. })));
    }

    #[test]
    fn a_torn_last_line_is_cut_off_and_any_other_damage_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let shelf = Shelf::open(directory.path()).expect("a shelf");
        let run = lock(&shelf.begin().expect("a run")).run().to_owned();
        let path = directory.path().join(&run).join(LEDGER);
        drop(shelf);
        let whole = std::fs::read(&path).expect("it is there");
        let next = line(&Record::Left { cut: 1, at: String::new() }).expect("a line");
        for length in 1..next.len() {
            std::fs::write(&path, [&whole, &next.as_bytes()[..length]].concat()).expect("torn");
            let shelf = Shelf::open(directory.path()).expect("a shelf");
            assert!(shelf.book(&run).expect("read up to the last whole line").is_some());
            assert_eq!(std::fs::read(&path).expect("it is there"), whole, "{length}");
        }
        let mut damaged = [whole, next.into_bytes()].concat();
        damaged[20] ^= 1;
        std::fs::write(&path, damaged).expect("damaged");
        let error = Shelf::open(directory.path()).expect("a shelf").book(&run).expect_err("damage");
        assert!(error.to_string().ends_with("is damaged at line 1"), "{error}");
    }
}
