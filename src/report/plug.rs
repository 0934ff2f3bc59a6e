//! Power cuts for the terminal: whether the checker can be trusted, what was promised beside what was kept, the smallest
//! examples. Nothing is ever called safe.

use super::layout::{Align, Row, Table, command, hanging, paragraph, together, warning};
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
    let examples =
        document.arms.iter().filter_map(|arm| arm.power_cuts.as_ref()).flat_map(|cuts| &cuts.examples);
    if examples.count() > 0 && lacks_log(document) {
        text += &paragraph("FILE is a write log, which this run did not keep: --write-log FILE does.", 0);
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
    hanging(&head, &format!("{} {}, {lacking}", example.path, example.detail)) + &command(&example.command, 4)
}

/// Where the write log was not kept, its commands lack it.
fn lacks_log(document: &Document) -> bool {
    let kept = |word: &String| word.starts_with("--write-log") || word.starts_with("--from-log");
    !document.argv.iter().any(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Kind;
    use crate::results::plug::InFact;

    /// A document whose one arm promised everything.
    fn document(cuts: PowerCuts) -> Document {
        let arm = Arm {
            name: "immediate".to_owned(),
            promise: Some(Promise::Tree),
            power_cuts: Some(cuts),
            ..Arm::default()
        };
        Document { arms: vec![arm], injector_valid: Some(true), complete: true, ..Document::new(Kind::Plug) }
    }

    fn verdicts(counts: &[(&str, u64)]) -> crate::results::plug::Verdicts {
        counts.iter().map(|(verdict, count)| ((*verdict).to_owned(), *count)).collect()
    }

    /// Without line breaks.
    fn told(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn no_loss_in_five_cuts_is_told_with_its_bound_and_never_as_safe() {
        let in_fact = InFact { cuts: 3, verdicts: verdicts(&[("kept", 3)]), ..InFact::default() };
        let cuts = PowerCuts {
            cuts: 5,
            verdicts: verdicts(&[("kept", 5)]),
            promise_kept: true,
            bound_95: Some(crate::stats::bound_95(5)),
            in_fact,
            ..PowerCuts::default()
        };
        let text = results(&document(cuts));
        assert!(text.contains("no broken promise seen at 5 random cuts"), "{text}");
        assert!(told(&text).contains("at 95 % confidence at most 45.1 %"), "{text}");
        assert!(!text.contains("safe"), "{text}");
    }

    #[test]
    fn each_class_of_damage_is_counted_by_its_own_name() {
        let damage = [
            "resurrected",
            "name-lost",
            "lost",
            "torn",
            "stale",
            "misplaced",
            "does-not-mount",
            "needs-fsck",
        ];
        let counts: Vec<(&str, u64)> = damage.into_iter().zip(2..).collect();
        let example = |verdict: &str| CutExample {
            verdict: verdict.to_owned(),
            promised: true,
            path: "place/copy/1".to_owned(),
            detail: "size 0".to_owned(),
            command: format!("fsynclab plug copy --image {}", "1234,".repeat(30)),
            ..CutExample::default()
        };
        let cuts = PowerCuts {
            aimed: 44,
            verdicts: verdicts(&counts),
            examples: damage.into_iter().map(example).collect(),
            ..PowerCuts::default()
        };
        let text = results(&document(cuts));
        let told = told(&text);
        for (verdict, count) in &counts[..7] {
            assert!(told.contains(&format!("{verdict} {count}")), "{verdict}: {text}");
            assert!(text.contains(&format!("  {verdict}: place/copy/1 size 0")), "{verdict}: {text}");
        }
        assert!(told.contains("9 images had to be repaired first."), "{text}");
        assert!(told.contains("--write-log FILE does"), "{text}");
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert!(plain.lines().all(|line| line.chars().count() <= 79), "{text}");
    }
}
