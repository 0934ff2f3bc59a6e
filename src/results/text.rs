//! The text form of a document: JSON in, JSON out, with a clear refusal of what this program cannot read.

use serde::Deserialize;

use super::Document;
use super::document::SCHEMA;

/// Why a text is not a results document.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// Not JSON, or of other fields.
    #[error("not a results file: {0}")]
    Malformed(#[source] serde_json::Error),
    /// JSON that ends in its midst.
    #[error("this results file was cut short: it ends in its line {0}")]
    CutShort(usize),
    /// JSON without our schema field.
    #[error("not a results file of fsynclab: it has no \"schema\" field")]
    NoSchema,
    /// A schema this program does not know.
    #[error("results file has schema \"{0}\"; this program reads {SCHEMA}")]
    UnknownSchema(String),
}

impl TextError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        matches!(self, Self::CutShort(_)).then_some("copy it again in full, or measure again with --json")
    }
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
    let head: Head = serde_json::from_slice(text).map_err(|error| malformed(text, error))?;
    match head.schema {
        None => Err(TextError::NoSchema),
        Some(schema) if schema == SCHEMA => {
            serde_json::from_slice(text).map_err(|error| malformed(text, error))
        }
        Some(schema) => Err(TextError::UnknownSchema(schema)),
    }
}

/// What began as an object and does not end as one was cut, even where it was cut in a number.
fn malformed(text: &[u8], error: serde_json::Error) -> TextError {
    let (first, last) = (text.trim_ascii().first(), text.trim_ascii().last());
    let is_cut = error.is_eof() || (first == Some(&b'{') && last != Some(&b'}'));
    if is_cut { TextError::CutShort(error.line()) } else { TextError::Malformed(error) }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    #[test]
    fn a_document_that_was_cut_anywhere_is_told_as_such() {
        let text = write(&Document::new(Kind::Probe));
        for length in 0..text.trim_end().len() {
            let error = read(&text.as_bytes()[..length]).expect_err("half a document");
            assert!(matches!(error, TextError::CutShort(_)), "{length}: {error}");
        }
        let error = read(b"{\"schema\": yes}").expect_err("no JSON").to_string();
        assert!(error.starts_with("not a results file: "), "{error}");
    }
}
