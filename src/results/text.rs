//! The text form of a document: JSON in, JSON out, with a clear refusal of what this program cannot read.

use serde::Deserialize;

use super::Document;
use super::document::SCHEMA;

/// Why a text is not a results document.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// Not JSON, or cut short.
    #[error("not a results file: {0}")]
    Malformed(#[source] serde_json::Error),
    /// JSON without our schema field.
    #[error("not a results file of fsynclab: it has no \"schema\" field")]
    NoSchema,
    /// A schema this program does not know.
    #[error("results file has schema \"{0}\"; this program reads {SCHEMA}")]
    UnknownSchema(String),
}

/// The document as text, with a line end.
///
/// # Panics
/// Never: a document has only string keys and finite numbers.
pub fn write(document: &Document) -> String {
    let mut text = serde_json::to_string_pretty(document).expect("a document has only string keys");
    text.push('\n');
    text
}

/// The document in a text.
pub fn read(text: &[u8]) -> Result<Document, TextError> {
    #[derive(Deserialize)]
    struct Head {
        schema: Option<String>,
    }
    let head: Head = serde_json::from_slice(text).map_err(TextError::Malformed)?;
    match head.schema {
        None => Err(TextError::NoSchema),
        Some(schema) if schema == SCHEMA => serde_json::from_slice(text).map_err(TextError::Malformed),
        Some(schema) => Err(TextError::UnknownSchema(schema)),
    }
}
