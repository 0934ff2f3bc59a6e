//! What of a statement tells its meaning: its first words and its last ones. Keywords count in any case.

use std::collections::VecDeque;

use super::Unreadable;

/// Words kept from the beginning: those of `COPY schema.table (`.
const FIRST: usize = 8;
/// Words kept from the end: those of `OWNER TO role`, `= 'value'`.
const LAST: usize = 3;

/// Encodings in which the second byte of a letter may be that of a backslash or a quote: those that the server takes from
/// a client only. Source: the documentation of PostgreSQL, "Character Set Support".
const UNSAFE_ENCODINGS: &[&str] =
    &["sjis", "shift", "mskanji", "win932", "big5", "gbk", "win936", "uhc", "win949", "gb18030", "johab"];

/// A statement as far as it is read. A quoted name keeps its quotes.
#[derive(Debug, Default)]
pub(super) struct Statement {
    /// On which it begins.
    pub(super) line: u64,
    first: Vec<String>,
    last: VecDeque<String>,
    words: usize,
    /// Words before the first FROM, and before the first ON.
    from: Option<usize>,
    on: Option<usize>,
    /// It sets something by a function, the search path apart.
    configures: bool,
}

/// What a statement means to whoever loads a dump.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Rows of this table follow.
    CopyFrom(String),
    /// Any other COPY.
    OtherCopy,
    /// Names without a schema are in this one.
    Schema(String),
    /// A role must be there.
    Role(String),
    /// It reaches beyond the database, as only its end shows.
    Reaches(&'static str),
    /// From here on psql reads otherwise than we do.
    Unreadable(Unreadable),
    /// Nothing of interest.
    Other,
}

impl Statement {
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    pub(super) fn push(&mut self, line: u64, word: String) {
        if self.first.is_empty() {
            self.line = line;
        }
        let first = |seen: Option<usize>, known: &str| {
            seen.or_else(|| word.eq_ignore_ascii_case(known).then_some(self.words))
        };
        (self.from, self.on) = (first(self.from, "FROM"), first(self.on, "ON"));
        self.words += 1;
        self.configures |= self.ends(&["set_config", "("]) && word != "'search_path'";
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        if self.first.len() < FIRST {
            self.first.push(word.clone());
        }
        self.last.push_back(word);
    }

    fn is(&self, index: usize, words: &[&str]) -> bool {
        self.first.get(index).is_some_and(|word| words.iter().any(|known| word.eq_ignore_ascii_case(known)))
    }

    /// The two words by which a statement reaches beyond its database, as soon as both are there.
    pub(super) fn reach(&self) -> Option<String> {
        let shared = ["DATABASE", "ROLE", "TABLESPACE", "PARAMETER"];
        let on = shared.iter().find(|kind| self.ends(&["ON", kind]));
        if let Some(kind) = on.filter(|_| self.is(0, &["GRANT", "REVOKE", "COMMENT", "SECURITY"])) {
            return Some(format!("{} ON {kind}", self.first[0].to_uppercase()));
        }
        if self.first.len() == 2 && self.is(0, &["DROP", "REASSIGN"]) && self.is(1, &["OWNED"]) {
            return Some(self.first.join(" ").to_uppercase());
        }
        let beyond = ["DATABASE", "ROLE", "USER", "GROUP", "SYSTEM", "TABLESPACE"];
        let reaches = self.is(0, &["CREATE", "DROP", "ALTER"]) && self.is(1, &beyond);
        // CREATE USER MAPPING belongs to a foreign server of the database: the third word decides.
        let is_user = self.is(1, &["USER"]);
        let decided =
            if is_user { self.first.len() == 3 && !self.is(2, &["MAPPING"]) } else { self.first.len() == 2 };
        (reaches && decided).then(|| self.first[..2].join(" ").to_uppercase())
    }

    fn ends(&self, words: &[&str]) -> bool {
        let from = self.last.len().checked_sub(words.len());
        from.is_some_and(|from| {
            self.last
                .iter()
                .skip(from)
                .zip(words)
                .all(|(word, known)| known.is_empty() || unquoted(word).eq_ignore_ascii_case(known))
        })
    }

    pub(super) fn meaning(&self) -> Meaning {
        let last = || self.last.back().cloned().unwrap_or_default();
        if self.is(0, &["COPY"]) {
            // The first FROM of all: behind a second one, a condition may end in the same words.
            return if self.ends(&["FROM", "STDIN"]) && self.from == self.words.checked_sub(2) {
                Meaning::CopyFrom(self.table())
            } else {
                Meaning::OtherCopy
            };
        }
        if self.is(0, &["SET"]) {
            return self.setting();
        }
        if self.configures {
            return Meaning::Unreadable(Unreadable::Strings);
        }
        if self.is(0, &["GRANT", "REVOKE"]) && self.on.is_none() {
            return Meaning::Reaches("membership in a role");
        }
        let is_grant = self.is(0, &["GRANT"]) && self.ends(&["TO", ""]);
        let is_revoke = self.is(0, &["REVOKE"]) && self.ends(&["FROM", ""]);
        let is_owner = self.is(0, &["ALTER"]) && self.ends(&["OWNER", "TO", ""]);
        if (is_grant || is_revoke || is_owner) && !last().eq_ignore_ascii_case("public") {
            return Meaning::Role(last());
        }
        Meaning::Other
    }

    /// The name behind COPY: all words up to the columns.
    fn table(&self) -> String {
        let name = self.first.iter().skip(1);
        name.take_while(|word| *word != "(" && !word.eq_ignore_ascii_case("FROM"))
            .map(String::as_str)
            .collect()
    }

    fn setting(&self) -> Meaning {
        let at = 1 + usize::from(self.is(1, &["SESSION", "LOCAL"]));
        let name = self.first.get(at).map(|word| unquoted(word)).unwrap_or_default();
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        let value = self.first.get(at + 2).map(String::as_str).unwrap_or_default();
        let is_escaped = is("u") && self.is(at + 1, &["&"]);
        if is_escaped || (is("standard_conforming_strings") && !value.eq_ignore_ascii_case("on")) {
            return Meaning::Unreadable(Unreadable::Strings);
        }
        let is_unsafe = |word: &String| {
            let word = word.trim_matches(['\'', '"']).to_lowercase();
            word == "e" || UNSAFE_ENCODINGS.iter().any(|name| word.starts_with(name))
        };
        if (is("client_encoding") || is("names")) && self.first.iter().skip(at + 1).any(is_unsafe) {
            return Meaning::Unreadable(Unreadable::Encoding);
        }
        // Old dumps name a schema and pg_catalog; new ones set the path empty and qualify every name.
        if is("search_path") && !value.trim_matches('\'').is_empty() {
            return Meaning::Schema(value.to_owned());
        }
        Meaning::Other
    }
}

/// A name without the quotes that it may be written in.
fn unquoted(word: &str) -> &str {
    word.strip_prefix('"').and_then(|word| word.strip_suffix('"')).unwrap_or(word)
}
