//! Floor 5: a document rendered; it never measures, and it reads nothing but the document. Text for the terminal is at
//! most 79 columns wide, so that it survives a mail; colour marks what the words already say and may be stripped.

mod arms;
mod bystander;
mod cached;
mod compare;
mod copy;
mod createdb;
mod drive;
mod finding;
mod fit;
mod layout;
mod notes;
mod pg_layout;
mod pgbench;
mod plug;
mod plug_postgres;
mod price;
mod probe;
mod published;
mod pulled;
mod rates;
mod restore;
mod servers;
mod stack_words;
mod states;
mod units;

pub use compare::pairs;
pub use copy::closing;
pub use createdb::recommendation;
pub use drive::drive;
pub use fit::fit;
pub use pg_layout::pg_test_fsync;
pub use units::{duration, size};

use crate::results::{Document, Kind, SyncVerdict};

/// Columns a terminal report keeps to.
pub const WIDTH: usize = 79;

/// Words in lines of at most [`WIDTH`] columns, further lines indented.
pub fn wrapped(text: &str, indent: usize) -> String {
    layout::paragraph(text, indent)
}

/// A text beside a head that is kept as it is; further lines stand below the text.
pub fn hanging(head: &str, text: &str) -> String {
    layout::hanging(head, text)
}

/// What of a run is known before it: what is done, and where.
pub fn header(document: &Document) -> String {
    match document.kind {
        Kind::Probe => probe::header(document),
        Kind::Published => String::new(),
        Kind::Price => price::header(document),
        Kind::Createdb => createdb::header(document),
        Kind::Plug if !document.servers.is_empty() => plug_postgres::header(document),
        Kind::Plug if document.pulled.is_some() => pulled::header(document),
        Kind::Plug => plug::header(document),
        Kind::Restore => restore::header(document),
        Kind::Pgbench => pgbench::header(document),
        _ => copy::header(document),
    }
}

/// What a probe proves, in words, freed of colour.
pub fn verdict(verdict: &SyncVerdict) -> String {
    anstream::adapter::strip_str(&probe::verdict_words(verdict)).to_string()
}

/// What a run has found.
pub fn results(document: &Document) -> String {
    match document.kind {
        Kind::Probe => probe::results(document),
        Kind::Published => published::results(document),
        Kind::Price => price::results(document),
        Kind::Createdb => createdb::results(document),
        Kind::Plug if !document.servers.is_empty() => plug_postgres::results(document),
        Kind::Plug if document.pulled.is_some() => pulled::results(document),
        Kind::Plug => plug::results(document),
        Kind::Restore => restore::results(document),
        Kind::Pgbench => pgbench::results(document),
        _ => copy::results(document),
    }
}

/// The whole report of a run, as it is read back from a results file.
pub fn terminal(document: &Document) -> String {
    format!("{}\n{}", header(document), results(document))
}
