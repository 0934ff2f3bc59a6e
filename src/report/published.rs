//! Published sets for the terminal: what was read, the verdict, what could not be read.

use super::layout::paragraph;
use super::notes;
use super::probe::verdict_words;
use super::rates;
use crate::results::{Document, PublishedRow, PublishedSet};

/// Every set, then the lines that could not be read.
pub fn results(document: &Document) -> String {
    let sets: Vec<String> = document.sets.iter().map(set).collect();
    document.notes.iter().fold(sets.join("\n"), |text, note| text + &notes::line(note))
}

fn set(set: &PublishedSet) -> String {
    let platform = match set.platform.as_deref() {
        Some("macos") => "macOS",
        Some("windows") => "Windows",
        Some("unix") => "Linux or another Unix",
        _ => "platform not shown",
    };
    let [first, last] = set.lines;
    let whole = if set.complete { "" } else { ", not complete" };
    let head = format!(
        "{}, lines {first} to {last}: pg_test_fsync of PostgreSQL {}, {platform}{whole}",
        set.source, set.versions
    );
    let mut text = paragraph(&head, 2);
    let mut blocks: Vec<&str> = Vec::new();
    for row in &set.rows {
        if !blocks.contains(&row.block.as_str()) {
            blocks.push(&row.block);
        }
    }
    for block in blocks {
        let rows: Vec<String> = set.rows.iter().filter(|row| row.block == block).map(cell).collect();
        text += &paragraph(&format!("  {block} ops/s: {}", rows.join(", ")), 4);
    }
    text + &verdict_words(&set.verdict)
}

fn cell(row: &PublishedRow) -> String {
    format!("{} {}", row.method, row.ops_per_sec.map_or_else(|| "n/a".to_owned(), rates::rate))
}
