//! The text form of a shape, so that a tree can be replayed elsewhere without its data:
//!
//! ```text
//! fsynclab shape 1
//! # size and allocated size in bytes, then the name; a directory ends in /; \xNN is a byte
//! - - base/
//! 8192 8192 base/1259
//! end 2
//! ```
//!
//! The first line names the form and its version. Then one line an entry; empty lines and lines that begin with `#` say
//! nothing. The last line counts the entries: a text without it was cut short. A name is what follows the second space,
//! to the end of the line. A backslash, a byte that is no visible text and a space at either end stand as `\xNN`, so that every name that a file system can hold survives.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::{FileShape, Shape, ShapeError};

/// The first line.
pub const HEADER: &str = "fsynclab shape 1";
/// What the last line begins with; the number of entries follows.
const END: &str = "end ";
const EXPLANATION: &str =
    "# size and allocated size in bytes, then the name; a directory ends in /; \\xNN is a byte";

/// Why a text is no shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// The first line is another one.
    #[error("this is no shape file: its first line is not \"{HEADER}\"")]
    NotAShape,
    /// A later version wrote it.
    #[error("this shape file is of version {0}; this program reads version 1")]
    Version(u32),
    /// A line that is not `SIZE ALLOCATED NAME`.
    #[error("line {line} is not SIZE ALLOCATED NAME")]
    Line {
        /// Counts from 1.
        line: usize,
    },
    /// A backslash that does not begin `\xNN`.
    #[error("line {line} has a backslash that does not begin \\xNN")]
    Escape {
        /// Counts from 1.
        line: usize,
    },
    /// The last line is missing, or was cut itself.
    #[error("this shape file was cut short: its last line is not \"end\" and the number of entries")]
    CutShort,
    /// The last line counts other entries than there are.
    #[error("this shape file has {found} entries, its last line says {said}")]
    Count {
        /// Entries that stand there.
        found: usize,
        /// Entries that should.
        said: usize,
    },
    /// The entries do not make a tree.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

impl Shape {
    /// The text form; [`Shape::from_text`] reads it back to an equal shape.
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEADER}\n{EXPLANATION}\n");
        for directory in &self.directories {
            text.push_str("- - ");
            escape(directory, &mut text);
            text.push_str("/\n");
        }
        for file in &self.files {
            write!(text, "{} {} ", file.size_bytes, file.allocated_bytes).expect("a String takes everything");
            escape(&file.path, &mut text);
            text.push('\n');
        }
        writeln!(text, "{END}{}", self.directories.len() + self.files.len())
            .expect("a String takes everything");
        text
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// A text that was cut anywhere is none.
    pub fn from_text(text: &str) -> Result<Self, TextError> {
        header(text.lines().next().unwrap_or_default())?;
        let (text, last) = text.trim_end().rsplit_once('\n').unwrap_or((text, ""));
        let said = last.strip_prefix(END).and_then(|count| count.parse().ok()).ok_or(TextError::CutShort)?;
        let mut shape = Self::default();
        let entries = text.lines().zip(1..).skip(1);
        for (text, line) in entries.filter(|(line, _)| !line.is_empty() && !line.starts_with('#')) {
            let mut fields = text.splitn(3, ' ');
            let (Some(size), Some(allocated), Some(name)) = (fields.next(), fields.next(), fields.next())
            else {
                return Err(TextError::Line { line });
            };
            let directory = size == "-" && allocated == "-";
            let name = name.strip_suffix('/').filter(|_| directory).unwrap_or(name);
            let path = unescape(name).ok_or(TextError::Escape { line })?;
            if directory {
                shape.directories.push(path);
            } else {
                let number = |field: &str| field.parse().map_err(|_| TextError::Line { line });
                let (size_bytes, allocated_bytes) = (number(size)?, number(allocated)?);
                shape.files.push(FileShape { path, size_bytes, allocated_bytes });
            }
        }
        let found = shape.directories.len() + shape.files.len();
        if said != found {
            return Err(TextError::Count { found, said });
        }
        shape.directories.sort();
        Ok(shape.checked()?)
    }
}

fn header(first: &str) -> Result<(), TextError> {
    let stem = HEADER.trim_end_matches('1');
    match first.strip_prefix(stem).map(str::parse::<u32>) {
        Some(Ok(1)) => Ok(()),
        Some(Ok(version)) => Err(TextError::Version(version)),
        _ => Err(TextError::NotAShape),
    }
}

fn escape(path: &Path, text: &mut String) {
    let bytes = path.as_os_str().as_bytes();
    let mut at = 0;
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            let inner_space = character == ' ' && at > 0 && at + 1 < bytes.len();
            let visible =
                character.is_ascii_graphic() || (!character.is_ascii() && character.is_alphanumeric());
            if inner_space || (visible && character != '\\') {
                text.push(character);
            } else {
                hex(character.encode_utf8(&mut [0; 4]).as_bytes(), text);
            }
            at += character.len_utf8();
        }
        hex(chunk.invalid(), text);
        at += chunk.invalid().len();
    }
}

fn hex(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        write!(text, "\\x{byte:02x}").expect("a String takes everything");
    }
}

fn unescape(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        if *first == b'\\' {
            let digits = std::str::from_utf8(behind.get(1..3).filter(|_| behind[0] == b'x')?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &behind[3..];
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    Some(OsString::from_vec(bytes).into())
}
