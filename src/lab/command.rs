//! Anybody's copier as a way of copying: a command with `{src}` and `{dst}`, with and without a syncfs after it. Its time
//! runs from before it is started, so it holds what starting a program costs.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use super::arm::Halt;
use super::copy::{Copier, Made, Way, tallied};
use super::copy_bench::{Bench, Workshop, beside_server};
use super::failed::{failed_call, failed_otherwise};
use crate::replay::engine::Part;
use crate::results::{Phases, Promise, Sample};
use crate::sys::SysError;
use crate::sys::clock::now_ns;
use crate::sys::kernel::{Call, Fault, Kernel};
use crate::sys::tallied::Tallied;
use crate::sys::tools::Tool;
use crate::sys::watch::{Event, Phase, Watch};

/// The label of these arms, where others have `policy`.
pub const COMMAND: &str = "command";

const SOURCE_WORD: &str = "{src}";
const DESTINATION_WORD: &str = "{dst}";

/// `NAME=ARGV`: words as a shell splits them, nothing expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    name: String,
    words: Vec<String>,
}

/// Why a text is no command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// No `=`, or what stands before it.
    #[error("\"{given}\" has no name: NAME=ARGV, the name of letters, digits, \".\", \"_\" and \"-\"")]
    Name {
        /// As typed.
        given: String,
    },
    /// Quotes that do not end.
    #[error("the words of command \"{name}\" cannot be told apart: a quote is not closed")]
    Words {
        /// Of the command.
        name: String,
    },
    /// It could not make this copy.
    #[error("command \"{name}\" has no {word}")]
    Missing {
        /// Of the command.
        name: String,
        /// What must stand in it.
        word: &'static str,
    },
}

impl CommandError {
    /// What a right one looks like.
    pub fn hint() -> &'static str {
        "for example --command 'cp-a=cp -a {src} {dst}'"
    }
}

impl Command {
    /// The arm's name; with a syncfs after it `NAME+syncfs`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The words, `{src}` and `{dst}` replaced.
    fn words(&self, source: &Path, destination: &Path) -> Vec<OsString> {
        self.words.iter().map(|word| filled(word, source, destination)).collect()
    }
}

impl FromStr for Command {
    type Err = CommandError;

    fn from_str(text: &str) -> Result<Self, CommandError> {
        let named = text.split_once('=').filter(|(name, _)| is_name(name));
        let (name, argv) = named.ok_or_else(|| CommandError::Name { given: text.to_owned() })?;
        let name = name.to_owned();
        let Ok(words) = shell_words::split(argv) else { return Err(CommandError::Words { name }) };
        for word in [SOURCE_WORD, DESTINATION_WORD] {
            // The first word is the program: it cannot be either.
            if !words.iter().skip(1).any(|given| given.contains(word)) {
                return Err(CommandError::Missing { name, word });
            }
        }
        Ok(Self { name, words })
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, shell_words::join(&self.words))
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// A word with the paths in it, byte for byte; what they hold is not looked at again.
fn filled(word: &str, source: &Path, destination: &Path) -> OsString {
    let mut bytes = Vec::new();
    let mut rest = word;
    while let Some(at) = rest.find('{') {
        bytes.extend(&rest.as_bytes()[..at]);
        rest = &rest[at..];
        let known = [(SOURCE_WORD, source), (DESTINATION_WORD, destination)];
        let (length, put) = known
            .into_iter()
            .find(|(known, _)| rest.starts_with(known))
            .map_or((1, b"{".as_slice()), |(known, path)| (known.len(), path.as_os_str().as_bytes()));
        bytes.extend(put);
        rest = &rest[length..];
    }
    bytes.extend(rest.as_bytes());
    OsString::from_vec(bytes)
}

/// The command by itself, which promises nothing, and with a syncfs after it, which promises the tree.
pub(super) fn ways<'a, K: Kernel>(
    bench: &'a Bench<'a, K>,
    shop: &Workshop<'_>,
    command: &Command,
) -> [Way<'a>; 2] {
    [(None, Promise::Nothing), (Some("+syncfs"), Promise::Tree)].map(|(syncfs, promise)| {
        let copier: Box<dyn Copier + 'a> = Box::new(Started {
            kernel: bench.kernel,
            watch: bench.watch,
            limit: bench.command_limit,
            command: command.clone(),
            syncfs: syncfs.is_some(),
            promise,
        });
        Way {
            label: (COMMAND, command.name.clone() + syncfs.unwrap_or_default()),
            promise,
            staged_source: true,
            copier: syncfs.and_then(|_| beside_server(bench, shop)).map_or(Ok(copier), Err),
            notes: Vec::new(),
        }
    })
}

struct Started<'a, K> {
    kernel: &'a Tallied<K>,
    watch: &'a dyn Watch,
    limit: Duration,
    command: Command,
    syncfs: bool,
    promise: Promise,
}

impl<K: Kernel> Copier for Started<'_, K> {
    fn copy(&mut self, source: &Path, destination: &Path) -> Result<Made, Halt> {
        let words = self.command.words(source, destination);
        let tool = Tool::new(&words[0]).args(&words[1..]).inherit_env().limit(self.limit);
        self.kernel.take();
        self.watch.event(Event::Phase(Phase::Copying));
        let started_ns = now_ns();
        let ended = tool.run(self.watch).and_then(crate::sys::tools::Finished::success);
        let copied_ns = now_ns();
        ended.map_err(|error| match error {
            SysError::Stopped { .. } => Halt::Stopped,
            error => Halt::Failed(failed_otherwise(&error)),
        })?;
        if self.syncfs {
            self.watch.event(Event::Phase(Phase::Syncing));
            sync_file_system(self.kernel, destination).map_err(|fault| failed_call(&fault))?;
        }
        let done_ns = now_ns();
        let tally = self.kernel.take();
        let phases = Phases::from([
            (Part::Copy.name().to_owned(), copied_ns - started_ns),
            (Part::SyncFiles.name().to_owned(), done_ns - copied_ns),
        ]);
        let sample = Sample { elapsed_ns: done_ns - started_ns, phases, ..tallied(&tally) };
        Ok(Made { sample, tally, promise: self.promise, changed: Vec::new(), notes: Vec::new() })
    }
}

fn sync_file_system<K: Kernel>(kernel: &K, directory: &Path) -> Result<(), Fault> {
    let opened = fs::File::open(directory).map_err(Fault::of_io(Call::Openat, directory))?;
    kernel.syncfs(opened.as_fd()).map_err(Fault::of(Call::Syncfs, directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        let command: Command = text.parse().expect("a command");
        command.words(Path::new("/a b/source"), Path::new("/a b/{src}"))
    }

    #[test]
    fn words_are_split_as_a_shell_splits_them_and_nothing_is_expanded() {
        assert_eq!(
            words(r#"x.Y_1-z=cp -a "two words" 'it''s' $HOME * --to={dst} {src}"#),
            ["cp", "-a", "two words", "its", "$HOME", "*", "--to=/a b/{src}", "/a b/source"]
        );
    }

    #[test]
    fn paths_are_put_in_after_splitting_and_are_not_looked_at_again() {
        assert_eq!(
            words("n=tar -C {src}/ {dst}{src} {other {"),
            ["tar", "-C", "/a b/source/", "/a b/{src}/a b/source", "{other", "{"]
        );
    }

    #[test]
    fn the_name_ends_at_the_first_equals_sign() {
        let command: Command = "dd=dd if={src} of={dst}".parse().expect("a command");
        assert_eq!((command.name(), command.words.len()), ("dd", 3));
    }

    #[test]
    fn what_could_not_make_the_copy_is_refused() {
        for (text, says) in [
            ("cp -a {src} {dst}", "has no name"),
            ("=cp -a {src} {dst}", "has no name"),
            ("a b=cp {src} {dst}", "has no name"),
            ("a+syncfs=cp {src} {dst}", "has no name"),
            ("a=cp '{src} {dst}", "not closed"),
            ("a=cp {src}", "has no {dst}"),
            ("a=cp {dst}", "has no {src}"),
            ("a=", "has no {src}"),
            ("a={src} {dst}", "has no {src}"),
        ] {
            let refused = text.parse::<Command>().expect_err(text);
            assert!(refused.to_string().contains(says), "{text}: {refused}");
        }
    }
}
