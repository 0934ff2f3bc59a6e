//! What a server acknowledged, as marks in a write log: `commit CONNECTION NUMBER on|off`, `database NAME`,
//! `restore NUMBER`. Each is written after the client had its answer.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::powercut::tape::Section;

/// One acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acknowledged {
    /// A commit; each connection numbers its own from 1.
    Commit {
        /// Which connection.
        connection: u32,
        /// Its number.
        number: u32,
        /// With `synchronous_commit=on`.
        synchronous: bool,
    },
    /// A database of this name was created.
    Database(String),
    /// The restore of this number was fed in whole.
    Restore(u32),
}

impl fmt::Display for Acknowledged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Commit { connection, number, synchronous } => {
                write!(f, "commit {connection} {number} {}", if *synchronous { "on" } else { "off" })
            }
            Self::Database(name) => write!(f, "database {name}"),
            Self::Restore(number) => write!(f, "restore {number}"),
        }
    }
}

/// A mark of something else.
#[derive(Debug)]
pub struct NotAcknowledged;

impl FromStr for Acknowledged {
    type Err = NotAcknowledged;

    fn from_str(text: &str) -> Result<Self, NotAcknowledged> {
        let number = |text: &str| text.parse().map_err(|_| NotAcknowledged);
        let words: Vec<&str> = text.split(' ').collect();
        match words[..] {
            ["commit", connection, count, mode @ ("on" | "off")] => Ok(Self::Commit {
                connection: number(connection)?,
                number: number(count)?,
                synchronous: mode == "on",
            }),
            ["database", name] => Ok(Self::Database(name.to_owned())),
            ["restore", count] => Ok(Self::Restore(number(count)?)),
            _ => Err(NotAcknowledged),
        }
    }
}

/// The commits of one connection that were acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commits {
    /// The last.
    pub last: u32,
    /// The last with `synchronous_commit=on`: up to here all must be there.
    pub synchronous: u32,
}

/// Everything that had been acknowledged by a cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Promised {
    /// By connection.
    pub commits: BTreeMap<u32, Commits>,
    /// In the order of their creation.
    pub databases: Vec<String>,
    /// In the order of their ends.
    pub restores: Vec<u32>,
    /// Commits with `synchronous_commit=on`, and those with off.
    pub counted: (u64, u64),
}

impl Promised {
    /// By a cut of a section.
    pub fn by(section: &Section, cut: usize) -> Self {
        let mut promised = Self::default();
        for (_, text) in section.marks.iter().take_while(|(position, _)| *position < cut) {
            match text.parse() {
                Ok(Acknowledged::Commit { connection, number, synchronous }) => {
                    let commits = promised.commits.entry(connection).or_default();
                    commits.last = number;
                    if synchronous {
                        commits.synchronous = number;
                        promised.counted.0 += 1;
                    } else {
                        promised.counted.1 += 1;
                    }
                }
                Ok(Acknowledged::Database(name)) => promised.databases.push(name),
                Ok(Acknowledged::Restore(number)) => promised.restores.push(number),
                Err(NotAcknowledged) => {}
            }
        }
        promised
    }
}

/// What a section's name says: `postgres DATA PAGES`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    /// The data directory, from the root of the drive's file system.
    pub data: PathBuf,
    /// A file of a table that nobody writes to any more, from the data directory.
    pub untouched: PathBuf,
}

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "postgres {} {}", self.data.display(), self.untouched.display())
    }
}

impl FromStr for Scene {
    type Err = NotAcknowledged;

    fn from_str(text: &str) -> Result<Self, NotAcknowledged> {
        match text.split(' ').collect::<Vec<_>>()[..] {
            ["postgres", data, untouched] => Ok(Self { data: data.into(), untouched: untouched.into() }),
            _ => Err(NotAcknowledged),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_as_they_were_written_and_others_are_none() {
        for text in ["commit 3 17 on", "commit 0 1 off", "database plug_1", "restore 4"] {
            assert_eq!(text.parse::<Acknowledged>().expect(text).to_string(), text);
        }
        for text in ["", "commit 3 17", "commit 3 x on", "commit 3 17 maybe", "made", "file 3", "database"] {
            assert!(text.parse::<Acknowledged>().is_err(), "{text}");
        }
        let text = "postgres .fsynclab-1/data base/5/16384";
        assert_eq!(text.parse::<Scene>().expect(text).to_string(), text);
    }

    #[test]
    fn a_synchronous_commit_covers_the_asynchronous_ones_before_it_and_a_later_mark_does_not_count() {
        let marks = ["commit 1 1 off", "commit 1 2 on", "commit 1 3 off", "database d", "restore 1"];
        let marks = marks.iter().enumerate().map(|(number, text)| (number * 2, (*text).to_owned())).collect();
        let section = Section { marks, length: 20, ..Section::default() };
        let commits = |last, synchronous| BTreeMap::from([(1, Commits { last, synchronous })]);
        let promised = |cut| Promised::by(&section, cut);
        assert_eq!(promised(2).commits, commits(1, 0));
        assert_eq!((promised(5).commits, promised(5).counted), (commits(3, 2), (1, 2)));
        assert_eq!((promised(6).databases.len(), promised(7).databases.len()), (0, 1));
        assert_eq!(promised(20).restores, [1]);
    }
}
