//! The ledger: what was acknowledged as durable, and when. It lies outside the drive, in the drive's write log: each
//! acknowledgement is a mark there, put after every answer that has left the drive and before every request to come.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use crate::replay::engine::Observer;
use crate::results::Promise;
use crate::simdrive;
use crate::simdrive::mount::SimulatedDrive;

/// One acknowledgement; numbers are those of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ack {
    /// A file's data are durable.
    File(usize),
    /// A directory's entries are durable.
    Directory(usize),
    /// The entries of the directory that holds the top are durable.
    Parent,
    /// The copy is finished: what its policy promises holds from here on.
    Done,
}

impl fmt::Display for Ack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ack::File(number) => write!(f, "file {number}"),
            Ack::Directory(number) => write!(f, "directory {number}"),
            Ack::Parent => f.write_str("parent"),
            Ack::Done => f.write_str("done"),
        }
    }
}

/// A mark that is no acknowledgement.
#[derive(Debug)]
pub struct NoAck;

impl FromStr for Ack {
    type Err = NoAck;

    fn from_str(text: &str) -> Result<Ack, NoAck> {
        let number = |text: &str| text.parse().map_err(|_| NoAck);
        match text.split_once(' ') {
            Some(("file", rest)) => Ok(Ack::File(number(rest)?)),
            Some(("directory", rest)) => Ok(Ack::Directory(number(rest)?)),
            None if text == "parent" => Ok(Ack::Parent),
            None if text == "done" => Ok(Ack::Done),
            _ => Err(NoAck),
        }
    }
}

/// Writes acknowledgements as they come, from whatever thread.
pub struct Ledger<'a> {
    drive: Mutex<&'a SimulatedDrive>,
    names: HashMap<PathBuf, Ack>,
    failed: Mutex<Option<simdrive::Error>>,
}

impl<'a> Ledger<'a> {
    /// A ledger for what the names stand for.
    pub fn new(drive: &'a SimulatedDrive, names: HashMap<PathBuf, Ack>) -> Ledger<'a> {
        Ledger { drive: Mutex::new(drive), names, failed: Mutex::new(None) }
    }

    /// Something is acknowledged now.
    pub fn acknowledge(&self, ack: Ack) {
        self.mark(&ack.to_string());
    }

    /// The same in the words of another ledger.
    pub fn mark(&self, text: &str) {
        let drive = self.drive.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = drive.mark(text) {
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    /// The first acknowledgement that could not be written, if there is one: the ledger is void then.
    pub fn close(self) -> Result<(), simdrive::Error> {
        self.failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    fn acknowledge_path(&self, path: &Path) {
        if let Some(ack) = self.names.get(path) {
            self.acknowledge(*ack);
        }
    }
}

impl Observer for Ledger<'_> {
    fn synced(&self, path: &Path) {
        self.acknowledge_path(path);
    }

    fn directory_synced(&self, path: &Path) {
        self.acknowledge_path(path);
    }

    fn done(&self) {
        self.acknowledge(Ack::Done);
    }
}

/// What had been acknowledged by a cut, under a claim.
#[derive(Clone, Debug)]
pub struct Promised {
    /// What a finished copy claims.
    pub claim: Promise,
    /// Is it finished?
    pub done: bool,
    /// Files whose data were acknowledged one by one.
    pub files: Vec<bool>,
    /// Directories whose entries were.
    pub directories: Vec<bool>,
    /// And those of the directory that holds the top.
    pub parent: bool,
}

impl Promised {
    /// Nothing yet, for a tree of so many files and directories.
    pub fn nothing(claim: Promise, files: usize, directories: usize) -> Promised {
        let (files, directories) = (vec![false; files], vec![false; directories]);
        Promised { claim, done: false, files, directories, parent: false }
    }

    /// One acknowledgement more.
    pub fn add(&mut self, ack: Ack) {
        match ack {
            Ack::File(number) => self.files.iter_mut().skip(number).take(1).for_each(|file| *file = true),
            Ack::Directory(number) => {
                self.directories.iter_mut().skip(number).take(1).for_each(|directory| *directory = true);
            }
            Ack::Parent => self.parent = true,
            Ack::Done => self.done = true,
        }
    }

    /// Must this file be whole where it is found?
    pub fn data(&self, file: usize) -> bool {
        self.files[file] || self.claims(Promise::Data)
    }

    /// Must every name in this directory be found where the directory itself is?
    pub fn entries(&self, directory: usize) -> bool {
        self.directories[directory] || self.claims(Promise::Entries)
    }

    /// Must the top be found?
    pub fn top(&self) -> bool {
        self.parent || self.claims(Promise::Tree)
    }

    fn claims(&self, promise: Promise) -> bool {
        self.done && self.claim >= promise
    }
}
