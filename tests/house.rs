//! The house rules as tests: the table of docs/ARCHITECTURE.md against the code, banned calls, lengths. Every complaint
//! names the way out; every rule is shown to bite on a planted fault.

#[path = "house/rules.rs"]
mod rules;

use std::fs;
use std::path::{Path, PathBuf};

use rules::{Source, Table, complaints};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn table() -> Table {
    let text = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).expect("docs/ARCHITECTURE.md");
    Table::read(&text)
}

fn rust_files(below: &str) -> Vec<(String, String)> {
    walkdir::WalkDir::new(root().join(below))
        .sort_by_file_name()
        .into_iter()
        .map(|entry| entry.expect("a readable tree").into_path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| {
            let text = fs::read_to_string(&path).expect("a source file");
            (relative(&path), text)
        })
        .collect()
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned()
}

fn check(path: &str, text: &str) -> Vec<String> {
    complaints(&Source { path, text }, &table())
}

#[test]
fn the_code_keeps_the_rules_of_the_house() {
    let files = rust_files("src");
    assert!(files.len() > 20, "the sources were not found");
    let all: Vec<String> = files.iter().flat_map(|(path, text)| check(path, text)).collect();
    assert!(all.is_empty(), "\n{}", all.join("\n"));
}

#[test]
fn tests_and_benches_are_no_longer_than_the_house_allows() {
    for (path, text) in rust_files("tests").into_iter().chain(rust_files("benches")) {
        let lines = text.lines().count();
        assert!(lines <= rules::LONGEST_FILE, "{path} has {lines} lines: split it by topic");
    }
}

#[test]
fn every_wing_has_its_row_and_its_folder() {
    let table = table();
    let rows: Vec<&str> = table.wings().collect();
    let folders: Vec<String> = fs::read_dir(root().join("src"))
        .expect("src")
        .map(|entry| entry.expect("an entry"))
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(rows.len(), 14);
    for folder in &folders {
        assert!(rows.contains(&folder.as_str()), "src/{folder} has no row in docs/ARCHITECTURE.md");
    }
    for row in rows {
        assert!(folders.iter().any(|folder| folder == row), "{row} has a row but no folder");
    }
}

#[test]
fn the_table_only_looks_down() {
    assert_eq!(table().upward(), Vec::<String>::new());
    let bad = "| 1 | stats | x | results |\n| 2 | results | y | stats |\n";
    assert_eq!(Table::read(bad).upward(), ["stats (floor 1) may not import results (floor 2)"]);
}

#[test]
fn a_planted_import_is_refused() {
    for planted in [
        "use crate::cli::Args;",
        "use crate::{results::Note, lab};",
        "fn f() { crate::lab::conduct(); }",
        "use super::super::lab::arm;",
        "use crate::{\n    results::{Note, Labels},\n    report::text,\n};",
    ] {
        let found = check("src/storage/stack.rs", planted);
        assert_eq!(found.len(), 1, "{planted}: {found:?}");
        assert!(found[0].contains("storage may import only sys, results"), "{found:?}");
    }
    assert_eq!(check("src/storage/stack.rs", "use crate::{results::Note, sys};"), Vec::<String>::new());
    assert_eq!(check("src/storage/stack.rs", "use super::mounts; // not crate::lab"), Vec::<String>::new());
}

#[test]
fn planted_calls_are_refused_with_their_replacement() {
    for (planted, replacement) in [
        ("let x = y.unwrap();", "expect"),
        ("let t = Instant::now();", "sys::clock"),
        ("let t = std::time::SystemTime::now();", "sys::clock"),
        ("file.sync_all()?;", "sys::kernel"),
        ("nix::unistd::fsync(file)?;", "sys::kernel"),
        ("Command::new(\"ls\")", "sys::tools"),
        ("unsafe { f() }", "sys"),
        ("println!(\"x\");", "cli"),
        ("todo!()", "build it"),
        ("#[allow(dead_code)]", "expect"),
    ] {
        let found = check("src/storage/stack.rs", planted);
        assert_eq!(found.len(), 1, "{planted}: {found:?}");
        assert!(found[0].contains(replacement), "{found:?}");
    }
    assert_eq!(check("src/sys/real.rs", "unsafe { f() }"), Vec::<String>::new());
    assert_eq!(check("src/cli/copy.rs", "println!(\"x\");"), Vec::<String>::new());
}

#[test]
fn pure_wings_touch_no_file_and_no_thread() {
    for path in
        ["src/stats/mod.rs", "src/results/text.rs", "src/forecast/laws.rs", "src/simdrive/model/flash.rs"]
    {
        for planted in ["std::fs::read(path)?;", "use std::thread;", "let f = File::open(path)?;"] {
            let found = check(path, planted);
            assert_eq!(found.len(), 1, "{path}: {planted}: {found:?}");
            assert!(found[0].contains("pure"), "{found:?}");
        }
    }
    assert_eq!(check("src/simdrive/mount/ext4.rs", "std::fs::read(path)?;"), Vec::<String>::new());
}

#[test]
fn a_file_of_501_lines_is_refused() {
    assert_eq!(check("src/stats/mod.rs", &"\n".repeat(500)), Vec::<String>::new());
    assert_eq!(check("src/stats/mod.rs", &"\n".repeat(501)).len(), 1);
}
