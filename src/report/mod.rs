//! Floor 5: a document rendered; it never measures, and it reads nothing but the document. Text for the terminal is at
//! most 79 columns wide, so that it survives a mail; colour marks what the words already say and may be stripped.

mod copy;
mod finding;
mod layout;
mod units;

pub use copy::{closing, header, results};
pub use units::size;

use crate::results::Document;

/// Columns a terminal report keeps to.
pub const WIDTH: usize = 79;

/// The whole report of a copy run, as it is read back from a results file.
pub fn terminal(document: &Document) -> String {
    format!("{}\n{}", header(document), results(document))
}
