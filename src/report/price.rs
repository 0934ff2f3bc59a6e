//! What a recorded workload costs on other drives: a row a drive, a column a part of the work.

use super::layout::{Align, Row, Table, paragraph};
use super::notes;
use super::units;
use crate::results::{Arm, Document};

/// Parts of the work side by side; further ones stand in a table of their own.
const MOST_COLUMNS: usize = 5;

/// Which log, recorded where.
pub fn header(document: &Document) -> String {
    document.places.iter().fold(String::new(), |text, place| {
        let drive = place.model.as_deref().unwrap_or("an unknown drive");
        text + &paragraph(&format!("SIMULATED: {}, recorded on {drive}", place.path), 2)
    })
}

/// The tables and the notes.
pub fn results(document: &Document) -> String {
    let works = values(document, "work");
    let mut text = String::new();
    for works in works.chunks(MOST_COLUMNS) {
        text += &table(document, works).render();
    }
    text.push('\n');
    text += &paragraph(
        "Computed in invented time: the drive's time is replaced, the host's stays as it was recorded.",
        0,
    );
    for note in &document.notes {
        text += &notes::line(note);
    }
    text
}

fn table(document: &Document, works: &[String]) -> Table {
    let columns = works.iter().map(|work| (work.clone(), Align::Right));
    let rows = values(document, "drive").into_iter().map(|drive| {
        let cells = works.iter().map(|work| cell(document, &drive, work));
        Row::Cells([drive.clone()].into_iter().chain(cells).collect())
    });
    Table {
        columns: [("drive".to_owned(), Align::Left)].into_iter().chain(columns).collect(),
        rows: rows.collect(),
    }
}

/// The values of a label in the order of the arms.
fn values(document: &Document, label: &str) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for value in document.arms.iter().filter_map(|arm| arm.labels.get(label)) {
        if !values.iter().any(|known| known == value) {
            values.push(value.to_owned());
        }
    }
    values
}

fn cell(document: &Document, drive: &str, work: &str) -> String {
    let is_it = |arm: &&Arm| arm.labels.get("drive") == Some(drive) && arm.labels.get("work") == Some(work);
    let arm = document.arms.iter().find(is_it);
    let Some((arm, summary)) = arm.and_then(|arm| Some((arm, arm.summary.as_ref()?))) else {
        return "-".to_owned();
    };
    let bound = if arm.too_low { ">" } else { "" };
    bound.to_owned() + &units::duration(summary.median_ns)
}
