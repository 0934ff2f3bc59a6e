//! Floor 5: a document rendered; it never measures, and it reads nothing but the document. Text for the terminal is at
//! most 79 columns wide, so that it survives a mail; colour marks what the words already say and may be stripped.

mod copy;
mod drive;
mod finding;
mod layout;
mod units;

pub use copy::{closing, header, results};
pub use drive::drive;
pub use units::{duration, size};

use crate::results::Document;

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

/// The whole report of a copy run, as it is read back from a results file.
pub fn terminal(document: &Document) -> String {
    format!("{}\n{}", header(document), results(document))
}
