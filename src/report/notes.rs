//! A note as one paragraph.

use super::layout::{paragraph, warning};
use crate::results::{Note, Severity};

/// The note, marked by its severity.
pub(super) fn line(note: &Note) -> String {
    match note.severity {
        Severity::Info => paragraph(&format!("note: {}", note.text), 2),
        Severity::Warning => warning(&format!("WARNING: {}", note.text)),
        Severity::Error => warning(&format!("ERROR: {}", note.text)),
    }
}
