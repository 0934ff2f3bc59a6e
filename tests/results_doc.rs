//! docs/RESULTS.md names every field and every code that a results file can have.

use std::fs;
use std::path::Path;

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect(path)
}

/// The names of public fields in a source file, of what is serialised.
fn fields(source: &str) -> Vec<String> {
    let mut serialised = false;
    let mut names = Vec::new();
    for line in source.lines() {
        if line.starts_with("#[derive(") {
            serialised = line.contains("Serialize");
        }
        let field = line.strip_prefix("    pub ").and_then(|field| field.split_once(": "));
        if let Some((name, _)) = field.filter(|(name, _)| serialised && !name.contains([' ', '('])) {
            names.push(name.trim_start_matches("r#").to_owned());
        }
    }
    names
}

/// `VirtualDisk` as `virtual-disk`.
fn kebab(name: &str) -> String {
    name.char_indices().fold(String::new(), |mut kebab, (at, letter)| {
        if letter.is_uppercase() && at > 0 {
            kebab.push('-');
        }
        kebab.push(letter.to_ascii_lowercase());
        kebab
    })
}

#[test]
fn every_field_is_described() {
    let page = read("docs/RESULTS.md");
    let wing =
        ["document", "sample", "stack", "note", "probe"].map(|file| read(&format!("src/results/{file}.rs")));
    let names: Vec<String> = wing.iter().flat_map(|source| fields(source)).collect();
    assert!(names.len() > 60, "the fields were not found");
    let missing: Vec<&String> = names.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/RESULTS.md does not describe {missing:?}");
}

#[test]
fn every_note_has_its_code_described() {
    let page = read("docs/RESULTS.md");
    let source = read("src/results/note.rs");
    let codes = source
        .split_once("pub enum NoteCode")
        .and_then(|(_, rest)| rest.split_once("\n}"))
        .expect("the enum")
        .0;
    let variants = codes.lines().filter_map(|line| line.trim().strip_suffix(','));
    let missing: Vec<String> =
        variants.map(kebab).filter(|code| !page.contains(&format!("`{code}`"))).collect();
    assert!(missing.is_empty(), "docs/RESULTS.md does not describe {missing:?}");
}
