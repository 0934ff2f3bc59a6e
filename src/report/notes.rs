//! A note as one paragraph.

use super::layout::{paragraph, together, warning};
use crate::results::{Note, Severity};

/// The note, marked by its severity.
pub(super) fn line(note: &Note) -> String {
    let words = note.text.replace(" %", &together(" %"));
    match note.severity {
        Severity::Info => paragraph(&format!("note: {words}"), 2),
        Severity::Warning => warning(&format!("WARNING: {words}")),
        Severity::Error => warning(&format!("ERROR: {words}")),
    }
}
