//! What it takes to undo something from a journal's entry, and the tables of what can be undone.
//!
//! An undoing must stand being done twice, or for a deed that never happened: the journal is written before the deed and
//! marked after the undoing, and a kill may fall between.

use std::error::Error;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::SysError;
use super::files::TemporaryFile;
use super::run_directory::RunDirectory;

/// Something done that must be undone, named so that it can be undone by another process.
pub trait Undo: Serialize + DeserializeOwned {
    /// Its name in the journal.
    const KIND: &'static str;
    /// The wing's error.
    type Error: Error + Send + Sync + 'static;
    /// What is there to be undone, for a list: `run directory "/mnt/.fsynclab-7f3a"`.
    fn describe(&self) -> String;
    /// Undoes it. What does not match is not touched, what is not there any more was undone before.
    fn undo(&self) -> Result<Undone, Self::Error>;
}

/// How something came to be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undone {
    /// Just now.
    Now,
    /// It was not there any more.
    Before,
}

/// Why something could not be undone.
pub type UndoError = Box<dyn Error + Send + Sync>;

/// One row of a wing's table of what it knows to undo.
#[derive(Clone, Copy, Debug)]
pub struct UndoKind {
    /// The name in the journal.
    pub kind: &'static str,
    pub(super) describe: fn(&Value) -> Result<String, UndoError>,
    pub(super) undo: fn(&Value) -> Result<Undone, UndoError>,
}

/// A wing's table.
pub type UndoTable = [UndoKind];

impl UndoKind {
    /// The row of a type.
    pub const fn of<U: Undo>() -> Self {
        Self {
            kind: U::KIND,
            describe: |data| Ok(parse::<U>(data)?.describe()),
            undo: |data| Ok(parse::<U>(data)?.undo()?),
        }
    }
}

fn parse<U: Undo>(data: &Value) -> Result<U, SysError> {
    U::deserialize(data).map_err(|source| SysError::EntryData { kind: U::KIND, source })
}

/// What this wing knows to undo.
pub const UNDO: &UndoTable = &[UndoKind::of::<RunDirectory>(), UndoKind::of::<TemporaryFile>()];
