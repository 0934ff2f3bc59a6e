//! Other people's pg_test_fsync output as a document: read, judged, and what could not be read named.

use super::probe_verdict::record;
use crate::probe::published::{DirectIo, Medium, Reading, Set, Unread, judge};
use crate::results::{Document, Kind, Note, NoteCode, PublishedRow, PublishedSet};
use crate::sys::clock;

/// A text that was read, and what to call it.
#[derive(Clone, Debug)]
pub struct Text {
    /// Its file.
    pub name: String,
    /// What it holds.
    pub reading: Reading,
}

impl Text {
    /// Its sets, each under a name of its own.
    pub fn sets(&self) -> Vec<Set> {
        let sets = &self.reading.sets;
        let named = sets.iter().enumerate().map(|(at, set)| {
            let name = if sets.len() > 1 { format!("{} ({})", self.name, at + 1) } else { self.name.clone() };
            set.clone().named(&name)
        });
        named.collect()
    }
}

/// The document of several texts.
pub fn document(texts: &[Text], medium: Medium, argv: Vec<String>) -> Document {
    let sets = texts.iter().flat_map(Text::sets);
    Document {
        started_at: clock::utc_now(),
        argv,
        complete: true,
        sets: sets.map(|set| published(&set, medium)).collect(),
        notes: texts.iter().flat_map(unread).collect(),
        ..Document::new(Kind::Published)
    }
}

fn published(set: &Set, medium: Medium) -> PublishedSet {
    let origin = set.origin;
    PublishedSet {
        source: set.source.clone(),
        lines: [set.lines.0, set.lines.1],
        platform: origin.platform.key().map(str::to_owned),
        direct_io: origin.direct_io.map(|direct_io| direct_io != DirectIo::Unsupported),
        write_kb: origin.write_kb,
        versions: origin.versions.to_string(),
        complete: set.complete,
        rows: set
            .rows
            .iter()
            .map(|row| PublishedRow {
                block: row.block.key().to_owned(),
                method: row.method.to_string(),
                ops_per_sec: row.rate(),
                usecs_per_op: row.usecs_per_op,
            })
            .collect(),
        verdict: record(&judge(set, medium)),
    }
}

fn unread(text: &Text) -> Vec<Note> {
    let Text { name, reading } = text;
    let note = |said: String| Note::warning(NoteCode::UnreadLine, format!("{name}: {said}"));
    let lines = reading.unread.iter().map(Unread::to_string);
    let more =
        (reading.unread_more > 0).then(|| format!("{} more lines that cannot be read", reading.unread_more));
    let stopped =
        reading.stopped_at_line.map(|line| format!("reading stopped at line {line}: too many runs"));
    lines.chain(more).chain(stopped).map(note).collect()
}
