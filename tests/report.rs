//! What the terminal says of a results file, byte for byte: `fixtures/results/NAME.json` and the text beside it.

use std::fs;
use std::path::{Path, PathBuf};

use fsynclab::report;
use fsynclab::results::text;

fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/results");
    let entries = fs::read_dir(folder).expect("fixtures/results");
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.with_extension("txt").exists())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no fixture was found");
    found
}

fn rendered(path: &Path) -> String {
    let document = text::read(&fs::read(path).expect("a fixture")).expect("a document");
    anstream::adapter::strip_str(&report::terminal(&document)).to_string()
}

#[test]
fn a_document_is_rendered_as_expected() {
    for path in fixtures() {
        let expected = fs::read_to_string(path.with_extension("txt")).expect("the text beside it");
        assert_eq!(rendered(&path), expected, "{}", path.display());
    }
}

#[test]
fn no_line_is_wider_than_79_columns() {
    for path in fixtures() {
        for line in rendered(&path).lines() {
            assert!(line.chars().count() <= report::WIDTH, "{}: {line}", path.display());
        }
    }
}
