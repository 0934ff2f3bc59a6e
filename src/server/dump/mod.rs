//! A plain dump as it streams by: what it holds, and whether it would reach beyond the database it is loaded into.
//!
//! A file of `pg_dump -C -c`, given to psql in a scratch database, drops the original and makes it anew. So every byte is
//! read as psql's lexer reads it (`psqlscan.l`) before psql gets it, and what is not a plain dump's own is refused: any
//! backslash command but `\restrict` and `\unrestrict`; CREATE, DROP and ALTER of a database, role, tablespace or the
//! system, what is granted or said of them, and what roles own elsewhere; every COPY but `FROM stdin`. Where psql could
//! read the text otherwise than we do, it is refused too. What a function of the dump does when it is called is not looked
//! into.

mod statement;

use std::collections::BTreeSet;

use memchr::{memchr, memchr_iter, memmem, memrchr};
use statement::{Meaning, Statement};

/// Why a dump is not loaded; lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Danger {
    /// A command to psql itself.
    #[error("line {line}: \"\\{command}\" is a command to psql: a dump is loaded without any")]
    Backslash {
        /// Where.
        line: u64,
        /// Its beginning.
        command: String,
    },
    /// A statement that reaches beyond the database.
    #[error("line {line}: {words} reaches beyond the database that is loaded")]
    Reaches {
        /// Where it begins.
        line: u64,
        /// `DROP DATABASE`.
        words: String,
    },
    /// COPY with a program or a file of the server.
    #[error("line {line}: COPY other than FROM stdin reaches beyond the database that is loaded")]
    Copy {
        /// Where it begins.
        line: u64,
    },
    /// psql and we might read on differently.
    #[error("line {line}: cannot be read safely: {}", .why.words())]
    Unreadable {
        /// Where.
        line: u64,
        /// What is there.
        why: Unreadable,
    },
}

/// What could be read in two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// `standard_conforming_strings = off`: a backslash hides a quote.
    Strings,
    /// A client encoding in which a byte of a letter may look like a backslash.
    Encoding,
    /// `$` that begins neither a quote nor a parameter.
    Dollar,
    /// More on the line after COPY FROM stdin.
    AfterCopy,
    /// A string with escapes and something after it that may continue it.
    AfterEscape,
    /// A byte that psql reads as the end of a line, or as nothing at all.
    Control,
    /// The end of the dump within data, a quote or a comment.
    Cut,
}

impl Unreadable {
    const fn words(self) -> &'static str {
        match self {
            Self::Strings => "standard_conforming_strings is not on",
            Self::Encoding => "in this client_encoding a letter may hold a backslash",
            Self::Dollar => "a dollar sign that begins no quote",
            Self::AfterCopy => "something stands between COPY FROM stdin and its data",
            Self::AfterEscape => "something that may continue an escape string",
            Self::Control => "a zero byte, a byte-order mark or a control character",
            Self::Cut => "the dump ends within data, a quote or a comment: it was cut off",
        }
    }
}

/// What a dump holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Bytes of text.
    pub bytes: u64,
    /// Tables with data, as SQL names them, and the rows of their COPY, in the order of the dump.
    pub tables: Vec<(String, u64)>,
    /// Roles that own something or are granted something, as SQL names them.
    pub roles: BTreeSet<String>,
}

impl Contents {
    /// Of all tables.
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|(_, rows)| rows).sum()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Between,
    Word,
    Minus,
    Slash,
    LineComment,
    BlockComment {
        depth: u32,
        last: u8,
    },
    String,
    Escape {
        after_backslash: bool,
    },
    /// Behind the end of an escape string, which another quote may continue.
    EscapeEnd {
        blank: bool,
        newline: bool,
    },
    Quoted,
    QuotedEnd,
    Tag,
    Dollar {
        since: Option<Vec<u8>>,
    },
    Command,
    CopyStart,
    Copy(CopyLine),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyLine {
    Start,
    Within,
    Backslash,
    Period,
    Return,
}

/// Reads a dump in pieces of any size.
#[derive(Debug)]
pub struct Scanner {
    state: State,
    line: u64,
    at_line_start: bool,
    /// The word, tag or command that is being read.
    text: Vec<u8>,
    statement: Statement,
    schema: Option<String>,
    contents: Contents,
}

impl Default for Scanner {
    fn default() -> Self {
        Self {
            state: State::Between,
            line: 1,
            at_line_start: true,
            text: Vec::new(),
            statement: Statement::default(),
            schema: None,
            contents: Contents::default(),
        }
    }
}

/// More of a word than this tells nothing new.
const LONGEST_WORD_BYTES: usize = 256;

impl Scanner {
    /// The next piece. Until it returned well, nothing of the piece may be sent.
    pub fn scan(&mut self, piece: &[u8]) -> Result<(), Danger> {
        self.contents.bytes += piece.len() as u64;
        let zero = memchr(0, piece);
        let mut rest = &piece[..zero.unwrap_or(piece.len())];
        while let Some((&byte, after)) = rest.split_first() {
            if self.state == State::Copy(CopyLine::Within) {
                rest = self.skip_rows(rest);
                continue;
            }
            self.byte(byte)?;
            self.at_line_start = byte == b'\n';
            self.line += u64::from(byte == b'\n');
            rest = after;
        }
        // psql takes what stands behind it, with the end of the line, for nothing.
        zero.map_or(Ok(()), |_| Err(self.unreadable(Unreadable::Control)))
    }

    /// The end of the dump; psql also runs a last statement without a semicolon.
    pub fn finish(mut self) -> Result<Contents, Danger> {
        self.byte(b'\n')?;
        match self.state {
            State::Between | State::EscapeEnd { .. } | State::CopyStart => {}
            _ => return Err(self.unreadable(Unreadable::Cut)),
        }
        self.end_statement()?;
        Ok(self.contents)
    }

    /// The rest of a row of COPY data, and all rows behind it, to one that may be the end of them.
    fn skip_rows<'a>(&mut self, rest: &'a [u8]) -> &'a [u8] {
        let end = memmem::find(rest, b"\n\\.").or_else(|| memrchr(b'\n', rest));
        let Some(end) = end else { return &[] };
        let (rows, rest) = rest.split_at(end + 1);
        let count = memchr_iter(b'\n', rows).count() as u64;
        self.line += count;
        self.count_rows(count);
        self.state = State::Copy(CopyLine::Start);
        self.at_line_start = true;
        rest
    }

    fn count_rows(&mut self, count: u64) {
        if let Some((_, rows)) = self.contents.tables.last_mut() {
            *rows += count;
        }
    }

    fn byte(&mut self, byte: u8) -> Result<(), Danger> {
        match &mut self.state {
            State::Word => return self.word(byte),
            State::Minus if byte == b'-' => self.state = State::LineComment,
            State::Slash if byte == b'*' => self.state = State::BlockComment { depth: 1, last: 0 },
            State::Between | State::Minus | State::Slash => self.begin(byte)?,
            State::LineComment if matches!(byte, b'\n' | b'\r') => self.state = State::Between,
            State::LineComment => {}
            State::BlockComment { depth, last } => match (*last, byte) {
                (b'*', b'/') if *depth == 1 => self.state = State::Between,
                (b'*', b'/') => (*depth, *last) = (*depth - 1, 0),
                (b'/', b'*') => (*depth, *last) = (*depth + 1, 0),
                _ => *last = byte,
            },
            State::String if byte == b'\'' => {
                self.state = State::Between;
                let text = format!("'{}'", String::from_utf8_lossy(&self.text));
                return self.token(text);
            }
            State::Escape { after_backslash } => match byte {
                b'\'' if !*after_backslash => {
                    self.state = State::EscapeEnd { blank: false, newline: false };
                }
                _ => *after_backslash = byte == b'\\' && !*after_backslash,
            },
            State::EscapeEnd { .. } => return self.after_escape(byte),
            State::Quoted if byte == b'"' => self.state = State::QuotedEnd,
            State::String | State::Quoted => self.keep(byte),
            State::QuotedEnd => return self.quoted_end(byte),
            State::Tag => return self.tag(byte),
            State::Dollar { since } => match since {
                Some(seen) if byte == b'$' && *seen == self.text => self.state = State::Between,
                _ if byte == b'$' => *since = Some(Vec::new()),
                Some(seen) if seen.len() < self.text.len() => seen.push(byte),
                _ => *since = None,
            },
            State::Command => return self.command(byte),
            State::CopyStart => match byte {
                b'\n' => self.state = State::Copy(CopyLine::Start),
                b' ' | b'\t' | b'\r' => {}
                _ => return Err(self.unreadable(Unreadable::AfterCopy)),
            },
            State::Copy(line) => {
                let line = *line;
                self.copy_line(line, byte);
            }
        }
        Ok(())
    }

    /// A byte at which a token begins.
    fn begin(&mut self, byte: u8) -> Result<(), Danger> {
        self.text.clear();
        self.state = match byte {
            b'-' => State::Minus,
            b'/' => State::Slash,
            b'\'' => State::String,
            b'"' => State::Quoted,
            b'$' => State::Tag,
            b'\\' if self.at_line_start && self.statement.is_empty() => State::Command,
            b'\\' => return Err(self.backslash()),
            b';' => return self.end_statement(),
            byte if is_word(byte) => {
                self.keep(byte);
                State::Word
            }
            byte => {
                self.state = State::Between;
                if byte.is_ascii_whitespace() {
                    return Ok(());
                }
                // Some versions take a vertical tab for white space.
                if byte.is_ascii_control() {
                    return Err(self.unreadable(Unreadable::Control));
                }
                return self.token(char::from(byte).to_string());
            }
        };
        Ok(())
    }

    /// A token of the statement; its first ones may already be too much.
    fn token(&mut self, word: String) -> Result<(), Danger> {
        self.statement.push(self.line, word);
        match self.statement.reach() {
            Some(words) => Err(Danger::Reaches { line: self.statement.line, words }),
            None => Ok(()),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.text.len() < LONGEST_WORD_BYTES {
            self.text.push(byte);
        }
    }

    fn word(&mut self, byte: u8) -> Result<(), Danger> {
        let is_number = self.text.first().is_some_and(u8::is_ascii_digit);
        if is_word(byte) || (byte == b'$' && !is_number) {
            self.keep(byte);
            return Ok(());
        }
        // To versions before 15 a number ends where letters begin, and those may go on with a dollar sign.
        if byte == b'$' && !self.text.iter().all(u8::is_ascii_digit) {
            return Err(self.unreadable(Unreadable::Dollar));
        }
        // At the beginning of a file psql skips one.
        if self.text.starts_with(b"\xef\xbb\xbf") {
            return Err(self.unreadable(Unreadable::Control));
        }
        if byte == b'\'' && self.text.eq_ignore_ascii_case(b"e") {
            self.state = State::Escape { after_backslash: false };
            return self.token("E'".to_owned());
        }
        let word = String::from_utf8_lossy(&self.text).into_owned();
        self.token(word)?;
        self.begin(byte)
    }

    fn after_escape(&mut self, byte: u8) -> Result<(), Danger> {
        let State::EscapeEnd { blank, newline } = &mut self.state else { return Ok(()) };
        match byte {
            b'\'' if *newline || !*blank => self.state = State::Escape { after_backslash: false },
            b'\'' | b'-' => return Err(self.unreadable(Unreadable::AfterEscape)),
            byte if byte.is_ascii_whitespace() => {
                *blank = true;
                *newline |= matches!(byte, b'\n' | b'\r');
            }
            _ => return self.begin(byte),
        }
        Ok(())
    }

    fn quoted_end(&mut self, byte: u8) -> Result<(), Danger> {
        if byte == b'"' {
            self.keep(byte);
            self.keep(byte);
            self.state = State::Quoted;
            return Ok(());
        }
        let word = format!("\"{}\"", String::from_utf8_lossy(&self.text));
        self.token(word)?;
        self.begin(byte)
    }

    /// Behind a dollar sign that may begin a quote.
    fn tag(&mut self, byte: u8) -> Result<(), Danger> {
        let is_number = self.text.first().is_some_and(u8::is_ascii_digit);
        match byte {
            b'$' if !is_number => self.state = State::Dollar { since: None },
            byte if is_word(byte) => self.text.push(byte),
            _ if is_number => return self.begin(byte),
            _ => return Err(self.unreadable(Unreadable::Dollar)),
        }
        Ok(())
    }

    /// A command to psql; what it begins with decides, for psql runs an unfinished line too.
    fn command(&mut self, byte: u8) -> Result<(), Danger> {
        if byte == b'\n' && self.text.ends_with(b"\r") {
            self.text.pop();
        }
        let allowed = [&b"restrict "[..], b"unrestrict "];
        let key = allowed.iter().find_map(|name| self.text.strip_prefix(*name));
        match (key, byte) {
            (Some(key), b'\n') if !key.is_empty() => {
                self.state = State::Between;
                return Ok(());
            }
            (Some(key), b'\r') if !key.is_empty() => self.text.push(byte),
            (Some(key), byte) if byte.is_ascii_alphanumeric() && !key.ends_with(b"\r") => {
                self.text.push(byte);
            }
            (None, byte) => {
                self.text.push(byte);
                if !allowed.iter().any(|name| name.starts_with(&self.text)) {
                    return Err(self.backslash());
                }
            }
            _ => return Err(self.backslash()),
        }
        Ok(())
    }

    fn copy_line(&mut self, line: CopyLine, byte: u8) {
        let next = match (line, byte) {
            (CopyLine::Start, b'\\') => CopyLine::Backslash,
            (CopyLine::Backslash, b'.') => CopyLine::Period,
            (CopyLine::Period, b'\r') => CopyLine::Return,
            (CopyLine::Period | CopyLine::Return, b'\n') => {
                self.state = State::Between;
                return;
            }
            (_, b'\n') => {
                self.count_rows(1);
                CopyLine::Start
            }
            _ => CopyLine::Within,
        };
        self.state = State::Copy(next);
    }

    fn end_statement(&mut self) -> Result<(), Danger> {
        let statement = std::mem::take(&mut self.statement);
        self.state = State::Between;
        match statement.meaning() {
            Meaning::Other => {}
            Meaning::OtherCopy => return Err(Danger::Copy { line: statement.line }),
            Meaning::Reaches(words) => {
                return Err(Danger::Reaches { line: statement.line, words: words.to_owned() });
            }
            Meaning::Unreadable(why) => return Err(Danger::Unreadable { line: statement.line, why }),
            Meaning::Schema(schema) => self.schema = Some(schema),
            Meaning::Role(role) => {
                self.contents.roles.insert(role);
            }
            Meaning::CopyFrom(table) => {
                self.state = State::CopyStart;
                let table = match &self.schema {
                    Some(schema) if !table.contains('.') => format!("{schema}.{table}"),
                    _ => table,
                };
                // Several partitions may come one after the other through their root: each is counted, then the sum.
                let tables = &mut self.contents.tables;
                match tables.iter().position(|(known, _)| *known == table) {
                    Some(index) => {
                        let known = tables.remove(index);
                        tables.push(known);
                    }
                    None => tables.push((table, 0)),
                }
            }
        }
        Ok(())
    }

    fn backslash(&self) -> Danger {
        let command = String::from_utf8_lossy(&self.text).trim_end().to_owned();
        Danger::Backslash { line: self.line, command }
    }

    fn unreadable(&self, why: Unreadable) -> Danger {
        Danger::Unreadable { line: self.line, why }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests;
