//! A copy run for the terminal: what was copied and where, the table, the finding, notes, what is needed to repeat it.

use super::arms::{POLICY, arms_at, compared_in_table, flushes, gain, is_alone, is_floor, row_name};
use super::bystander;
use super::cached;
use super::finding;
use super::layout::{Align, Row, Table, paragraph, together};
use super::notes;
use super::states::in_columns;
use super::units::{self, Scale};
use crate::results::{Arm, Document, Place, Stack};
use crate::stats::Verdict;

/// What is copied, and to where: known before the run.
pub fn header(document: &Document) -> String {
    let input = document.input.as_ref().map_or_else(String::new, |input| {
        let directories = match input.directories {
            0 | 1 => String::new(),
            several => format!(" in {}", units::count(several, "directory")),
        };
        let allocated = match input.allocated_bytes {
            Some(allocated) if allocated < input.bytes => format!(", {} allocated", units::size(allocated)),
            _ => String::new(),
        };
        let files = units::count(input.files, "file");
        format!("{}: {files}{directories}, {}{allocated}", input.template, units::size(input.bytes))
    });
    let simulated = if document.simulated { "SIMULATED: " } else { "" };
    match document.places.as_slice() {
        [place] => paragraph(&format!("{simulated}{input} -> {}", describe(place)), 2),
        places => places.iter().fold(paragraph(&format!("{simulated}{input}"), 2), |text, place| {
            text + &paragraph(&format!("{} -> {}", place.id, describe(place)), 2)
        }),
    }
}

/// The tables, one a place, the finding, the notes and the closing line.
pub fn results(document: &Document) -> String {
    let by_state = in_columns(document);
    let mut text = String::new();
    for place in &document.places {
        if by_state {
            text += &cached::table(document, place);
            continue;
        }
        let arms = arms_at(document, place);
        if document.places.len() > 1 {
            text += &paragraph(&format!("{} {}", place.id, place.path), 2);
        }
        text += &table(document, &arms).render();
        text.push('\n');
        text.extend(bystander::table(document, &arms).map(|table| table + "\n"));
    }
    let findings: Vec<String> = if by_state {
        document.places.iter().flat_map(|place| cached::findings(document, place)).collect()
    } else {
        document.places.iter().filter_map(|place| place_finding(document, place)).collect()
    };
    for finding in findings.iter().chain(&finding::between_places(document)) {
        text += &paragraph(finding, 0);
    }
    for note in &document.notes {
        text += &notes::line(note);
    }
    text + &closing(document)
}

/// What is needed to repeat the run.
pub fn closing(document: &Document) -> String {
    let done = document
        .arms
        .iter()
        .filter_map(|arm| arm.summary.as_ref())
        .map(|summary| summary.n)
        .max()
        .unwrap_or(0);
    let planned = document.plan.as_ref().map_or(done as u64, |plan| u64::from(plan.rounds));
    let rounds = if document.complete {
        units::count(planned, "round")
    } else {
        format!("INCOMPLETE, {done} of {}", units::count(planned, "round"))
    };
    let mut systems: Vec<String> = Vec::new();
    for Place { stack, .. } in &document.places {
        let system = format!("{} {}", stack.file_system, stack.mount_options.join(","));
        if !systems.contains(&system) {
            systems.push(system);
        }
    }
    let seed = document.seed;
    let kernel = &document.host.kernel;
    let more = together("copy --list-policies");
    paragraph(&format!("{rounds}, seed {seed}, kernel {kernel}, {}. More: {more}", systems.join("; ")), 0)
}

fn describe(place: &Place) -> String {
    format!("{} ({})", place.path, disks(&place.stack))
}

fn disks(stack: &Stack) -> String {
    let mut parts = vec![stack.file_system.clone()];
    for disk in &stack.disks {
        parts.push(format!("/dev/{}", disk.name));
        parts.extend(disk.model.clone());
        parts.push(match (disk.write_cache.drive.as_deref(), disk.write_cache.kernel.as_deref()) {
            (Some(drive), _) => format!("cache {drive}"),
            (None, Some(kernel)) => format!("kernel: {kernel}"),
            (None, None) => "cache unknown".to_owned(),
        });
    }
    if stack.disks.is_empty() {
        parts.push("no known disk".to_owned());
    }
    parts.join(", ")
}

fn place_finding(document: &Document, place: &Place) -> Option<String> {
    let text = finding::at_place(document, &arms_at(document, place))?;
    Some(if document.places.len() > 1 { format!("{}: {text}", place.id) } else { text })
}

fn table(document: &Document, arms: &[&Arm]) -> Table {
    let copies = arms.iter().filter(|arm| !is_alone(arm));
    let largest_ns = copies.filter_map(|arm| arm.summary.as_ref()).map(|summary| summary.max_ns).max();
    let scale = Scale::for_largest(largest_ns.unwrap_or(0));
    let digits = scale.bare(largest_ns.unwrap_or(0)).len().max(3);
    let baseline = arms.first().map_or_else(String::new, |arm| row_name(arm, document));
    let columns = [
        (POLICY.to_owned(), Align::Left),
        ("promise".to_owned(), Align::Left),
        ("median".to_owned(), Align::Right),
        (format!("min - {:>digits$}", "max"), Align::Right),
        (format!("vs {baseline}"), Align::Left),
        ("flushes".to_owned(), Align::Right),
    ];
    let shown = arms.iter().filter(|arm| !is_alone(arm) || arm.failed.is_some());
    let rows = shown.map(|arm| row(document, arms, arm, (scale, digits))).collect();
    Table { columns: columns.to_vec(), rows }
}

fn row(document: &Document, arms: &[&Arm], arm: &Arm, (scale, digits): (Scale, usize)) -> Row {
    let promise = arm.promise.map_or_else(|| "-".to_owned(), |promise| promise.to_string());
    let start = vec![row_name(arm, document), promise];
    if let Some(refused) = &arm.refused {
        return Row::Sentence(start, format!("refused: {}", refused.text));
    }
    if let Some(failed) = &arm.failed {
        return Row::Sentence(start, format!("FAILED: {}", failed.text));
    }
    let Some(summary) = &arm.summary else { return Row::Sentence(start, "no round finished".to_owned()) };
    let range = format!("{} - {:>digits$}", scale.bare(summary.min_ns), scale.bare(summary.max_ns));
    let cells = [scale.with_unit(summary.median_ns), range, versus(document, arms, arm), flushes(arm)];
    Row::Cells(start.into_iter().chain(cells).collect())
}

/// What the comparison with the baseline shows, in a few words; the whole interval stands in the finding.
fn versus(document: &Document, arms: &[&Arm], arm: &Arm) -> String {
    if arm.not_comparable {
        return "not comparable".to_owned();
    }
    let Some(comparison) = compared_in_table(document, arms, arm) else {
        let is_baseline = arms.first().is_some_and(|first| first.name == arm.name);
        return if is_baseline { "1" } else { "-" }.to_owned();
    };
    if is_floor(arm) {
        return "(floor)".to_owned();
    }
    match comparison.verdict {
        Verdict::Faster | Verdict::Slower => {
            let [factor, low, high] = units::ratios(gain(comparison));
            format!("{factor} x {} ({low} - {high})", comparison.verdict)
        }
        Verdict::NoDifferenceShown => "no difference shown".to_owned(),
        Verdict::TooFewRounds => "too few rounds".to_owned(),
        Verdict::Drifting => "drifting".to_owned(),
    }
}
