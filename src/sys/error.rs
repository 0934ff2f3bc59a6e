//! What can go wrong in this wing, worded as PostgreSQL words it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;

use super::kernel::{Call, Fault};
use super::tools::End;
use super::watch::Stop;

/// Why something this wing was asked for did not happen.
#[derive(Debug, thiserror::Error)]
pub enum SysError {
    /// A call on a file failed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// Nothing may be done that must be undone, for the journal of it cannot be kept.
    #[error("could not keep a journal of what must be undone: {0}")]
    StateDirectory(#[source] Fault),
    /// No variable says where journals lie.
    #[error("could not find a directory for the journal of what must be undone: HOME is not set")]
    NoHome,
    /// A journal that no run of this program wrote as it stands.
    #[error("could not read journal \"{}\", line {line}: {source}", shown(.path))]
    JournalLine {
        /// The journal.
        path: PathBuf,
        /// Counts from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A journal that ends within a line: its run died as it wrote it, or somebody cut it short.
    #[error("journal \"{}\": its last line is cut off", shown(.path))]
    JournalCut {
        /// The journal.
        path: PathBuf,
    },
    /// A journal in which something was written once and nothing is any more.
    #[error("journal \"{}\" was emptied", shown(.path))]
    JournalEmptied {
        /// The journal.
        path: PathBuf,
    },
    /// A results file in a pipe that nobody read to its end.
    #[error("could not write to \"{}\": nobody reads it{}", shown(.path), .stop.map_or_else(String::new, |stop| format!("; {stop}")))]
    Unread {
        /// The pipe.
        path: PathBuf,
        /// Who asked not to wait any longer; nobody where the time was over.
        stop: Option<Stop>,
    },
    /// A journal names something that no table knows: another version wrote it.
    #[error("could not undo \"{kind}\": this version does not know it")]
    UnknownKind {
        /// The kind as journalled.
        kind: String,
    },
    /// A journal's entry is not what its kind says.
    #[error("could not undo \"{kind}\": {source}")]
    EntryData {
        /// The kind as journalled.
        kind: &'static str,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// Something of others lies in a directory that should be removed.
    #[error("could not remove directory \"{}\": \"{}\" is not of this program", shown(.directory), shown(.foreign))]
    Foreign {
        /// What was to be removed.
        directory: PathBuf,
        /// What lies there, relative to it.
        foreign: PathBuf,
    },
    /// A directory to be removed does not carry the marker that it was made with.
    #[error("could not remove directory \"{}\": it does not carry this run's marker", shown(.directory))]
    NotOurs {
        /// What was to be removed.
        directory: PathBuf,
    },
    /// A signal's handler could not be installed.
    #[error("could not catch signal {signal}: {source}")]
    Signal {
        /// Its number.
        signal: i32,
        /// Why.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("could not execute \"{}\": {}", shown(.program), reason(*.errno))]
    Execute {
        /// As it was asked for.
        program: PathBuf,
        /// Why.
        errno: Errno,
    },
    /// A program ended with another status than 0, or by a signal.
    #[error("\"{}\" {end}{}", shown(.program), after(.stderr))]
    Failed {
        /// As it was asked for.
        program: PathBuf,
        /// How.
        end: End,
        /// The last lines it wrote to stderr.
        stderr: String,
    },
    /// A program did not end in time and was killed.
    #[error("\"{}\" did not end within {} s{}", shown(.program), .limit.as_secs_f64(), after(.stderr))]
    Overdue {
        /// As it was asked for.
        program: PathBuf,
        /// The time it had.
        limit: Duration,
        /// The last lines it wrote to stderr.
        stderr: String,
    },
    /// A program was killed because the run was asked to stop.
    #[error("\"{}\" was stopped: {stop}", shown(.program))]
    Stopped {
        /// As it was asked for.
        program: PathBuf,
        /// Who asked.
        stop: Stop,
    },
    /// The system has no such user.
    #[error("user \"{0}\" does not exist")]
    NoSuchUser(String),
}

impl SysError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::StateDirectory(_) | Self::NoHome => {
                Some("set FSYNCLAB_STATE_DIR to a directory that can be written")
            }
            Self::Foreign { .. } => Some("move it elsewhere and run fsynclab clean"),
            Self::NotOurs { .. } => Some("if nothing in it is needed, remove it by hand"),
            Self::JournalLine { .. } | Self::JournalCut { .. } | Self::JournalEmptied { .. } => Some(
                "what else it named is not known; look for .fsynclab-* where the run worked, then remove the journal by hand",
            ),
            Self::Fault(Fault {
                call: Call::Mkdir,
                errno: Errno::EACCES | Errno::EPERM | Errno::EROFS,
                ..
            }) => Some("name a directory that can be written"),
            Self::Unread { .. } => Some("start its reader first"),
            Self::Execute { errno: Errno::ENOENT, .. } => Some("install it or add its directory to PATH"),
            _ => None,
        }
    }
}

/// What the C library says of an error number, as PostgreSQL prints it (`Input/output error`).
pub fn reason(errno: Errno) -> String {
    let text = io::Error::from(errno).to_string();
    match text.rfind(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// A path for a message: control characters, quotes and backslashes escaped, bytes that are no text as `\xNN`.
pub fn shown(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() || character == '"' || character == '\\' {
                text.extend(character.escape_default());
            } else {
                text.push(character);
            }
        }
        text.push_str(&chunk.invalid().escape_ascii().to_string());
    }
    text
}

fn after(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!(": {stderr}") }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn an_error_number_is_worded_as_the_c_library_words_it() {
        assert_eq!(reason(Errno::EIO), "Input/output error");
        assert_eq!(reason(Errno::EOPNOTSUPP), "Operation not supported");
    }

    #[test]
    fn a_path_is_shown_as_text_with_what_is_no_text_escaped() {
        let raw = |bytes| shown(Path::new(OsStr::from_bytes(bytes)));
        assert_eq!(raw(b"base/4 x"), "base/4 x");
        assert_eq!(raw("Größe".as_bytes()), "Größe");
        assert_eq!(raw(b"a\n\"b\"\\\xff.1"), r#"a\n\"b\"\\\xff.1"#);
    }
}
