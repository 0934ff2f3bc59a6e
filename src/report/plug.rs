//! Power cuts for the terminal: whether the checker can be trusted, what was promised beside what was kept, the smallest
//! examples. Nothing is ever called safe.

use super::layout::{Align, Row, Table, hanging, paragraph, together, warning};
use super::{notes, units};
use crate::results::{Arm, CutExample, Document, PlantedFault, PowerCuts, Promise};

/// What is copied, and onto which drive.
pub(super) fn header(document: &Document) -> String {
    let input = document.input.as_ref().map_or_else(String::new, |input| {
        format!("{}: {}, {}", input.template, units::count(input.files, "file"), units::size(input.bytes))
    });
    let drive = document.places.first().map_or("", |place| place.path.as_str());
    paragraph(&format!("SIMULATED: {input} -> {drive}"), 2)
}

/// The checker, the table, what it means.
pub(super) fn results(document: &Document) -> String {
    let mut text = checker(document);
    if document.arms.iter().any(|arm| arm.power_cuts.is_some() || arm.refused.is_some()) {
        text += &table(document);
        text.push('\n');
    }
    for arm in &document.arms {
        text += &arm.power_cuts.as_ref().map_or_else(String::new, |cuts| meaning(arm, cuts));
    }
    for note in &document.notes {
        text += &notes::line(note);
    }
    let complete = if document.complete { "" } else { "INCOMPLETE, " };
    text + &paragraph(&format!("{complete}seed {}, kernel {}.", document.seed, document.host.kernel), 0)
}

pub(super) fn checker(document: &Document) -> String {
    let right = |fault: &&PlantedFault| match fault.wanted.as_str() {
        "caught" => fault.caught > 0,
        "passes" => fault.caught == 0,
        _ => true,
    };
    let (good, bad): (Vec<&PlantedFault>, Vec<&PlantedFault>) = document.planted.iter().partition(right);
    if document.injector_valid == Some(false) {
        let names: Vec<&str> = bad.iter().map(|fault| fault.name.as_str()).collect();
        return warning(&format!(
            "INJECTOR INVALID: the checker does not judge rightly here, and nothing it says counts: {}.",
            names.join(", ")
        ));
    }
    let caught: Vec<&str> =
        good.iter().filter(|fault| fault.wanted == "caught").map(|fault| fault.name.as_str()).collect();
    if caught.is_empty() {
        return String::new();
    }
    let mut text = paragraph(&format!("The checker finds here: {}.", caught.join(", ")), 0);
    for fault in good.iter().filter(|fault| fault.wanted == "either" && fault.images > 0) {
        let images = units::count(fault.images, "image");
        let found = match fault.caught {
            0 => format!("cannot bite here: nothing missing on {images}"),
            caught => format!("found on {caught} of {images}"),
        };
        text += &paragraph(&format!("Planted besides: {}: {found}.", fault.name), 2);
    }
    text + "\n"
}

fn table(document: &Document) -> String {
    let file_system = document.places.first().map_or("", |place| place.stack.file_system.as_str());
    let columns = vec![
        ("policy".to_owned(), Align::Left),
        ("promise".to_owned(), Align::Left),
        ("promise kept".to_owned(), Align::Right),
        (format!("all kept on {file_system}"), Align::Right),
        ("data".to_owned(), Align::Right),
        ("names".to_owned(), Align::Right),
    ];
    let row = |arm: &Arm| {
        let head =
            vec![arm.name.clone(), arm.promise.map_or_else(String::new, |promise| promise.to_string())];
        match (&arm.power_cuts, &arm.refused) {
            (Some(cuts), _) => Row::Cells([head, cells(cuts)].concat()),
            (None, Some(refused)) => Row::Sentence(head, format!("refused: {}", refused.text)),
            (None, None) => Row::Sentence(head, "not judged".to_owned()),
        }
    };
    Table { columns, rows: document.arms.iter().map(row).collect() }.render()
}

fn cells(cuts: &PowerCuts) -> Vec<String> {
    let all = cuts.cuts + cuts.aimed;
    let fact = &cuts.in_fact;
    let kept = |verdicts: &crate::results::plug::Verdicts| -> u64 {
        ["kept", "needs-fsck"].iter().filter_map(|verdict| verdicts.get(*verdict)).sum()
    };
    vec![
        format!("{} of {all}", kept(&cuts.verdicts)),
        format!("{} of {}", kept(&fact.verdicts), fact.cuts),
        fact.data_kept.to_string(),
        fact.names_kept.to_string(),
    ]
}

/// Whether the promise held, in a sentence, and the examples.
fn meaning(arm: &Arm, cuts: &PowerCuts) -> String {
    let (name, fact) = (&arm.name, &cuts.in_fact);
    let mut text = if arm.promise == Some(Promise::Nothing) {
        let kept: u64 = fact.verdicts.get("kept").copied().unwrap_or(0);
        let words =
            format!("{name}: promises nothing. Kept on {}: {kept} of {}.", fact.file_system, fact.cuts);
        paragraph(&words, 2)
    } else if cuts.promise_kept {
        let bound = cuts.bound_95.map_or_else(String::new, |bound| {
            format!("; at 95 % confidence at most {:.1} % of such cuts break it", bound * 100.0)
        });
        let (random, aimed) = (units::count(cuts.cuts, "random cut"), cuts.aimed);
        let seen = format!("{name}: no broken promise seen at {random} and {aimed} aimed ones{bound}.");
        let kept: u64 = fact.verdicts.get("kept").copied().unwrap_or(0);
        let beyond = format!(" Kept on {}: {kept} of {}.", fact.file_system, fact.cuts);
        paragraph(&(seen + &beyond).replace(" %", &together(" %")), 2)
    } else {
        warning(&format!("{name}: PROMISE BROKEN: {}", counted(cuts)))
    };
    if let Some(count) = cuts.verdicts.get("needs-fsck") {
        text += &paragraph(&format!("{} had to be repaired first.", units::count(*count, "image")), 2);
    }
    for example in cuts.examples.iter().filter(|example| example.promised || cuts.promise_kept) {
        text += &shown(example);
    }
    text
}

pub(super) fn counted(cuts: &PowerCuts) -> String {
    let all = cuts.cuts + cuts.aimed;
    let bad = cuts.verdicts.iter().filter(|(verdict, _)| !["kept", "needs-fsck"].contains(&verdict.as_str()));
    let bad: Vec<String> = bad.map(|(verdict, count)| format!("{verdict} {count}")).collect();
    format!("of {}: {}.", units::count(all, "image"), bad.join(", "))
}

pub(super) fn shown(example: &CutExample) -> String {
    let lacking = match example.missing {
        0 => "with nothing missing of what had been sent".to_owned(),
        count => format!("with {} missing or torn", units::count(count, "write")),
    };
    let promised = if example.promised { "" } else { ", not promised" };
    let head = format!("  {}{promised}: ", example.verdict);
    hanging(&head, &format!("{} {}, {lacking}", example.path, example.detail))
        + &hanging("    ", &example.command)
}
