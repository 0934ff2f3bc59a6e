//! Power cuts under a server for the terminal: whether the checker can be trusted, what recovered and what did not, the
//! smallest examples. Nothing is ever called safe.

use super::layout::{Align, Row, Table, paragraph, together, warning};
use super::plug::{checker, counted, shown};
use super::{notes, units};
use crate::results::{Arm, Document, PowerCuts, Recoveries};

/// Which servers, on which drives.
pub(super) fn header(document: &Document) -> String {
    let mut servers: Vec<&str> = document.servers.iter().map(|server| server.name.as_str()).collect();
    servers.sort_unstable();
    servers.dedup();
    let drives: Vec<&str> = document.places.iter().map(|place| place.path.as_str()).collect();
    paragraph(&format!("SIMULATED: PostgreSQL {} at work -> {}", servers.join(", "), drives.join(", ")), 2)
}

/// The checker, the table, what it means.
pub(super) fn results(document: &Document) -> String {
    let mut text = checker(document);
    if document.arms.iter().any(|arm| arm.power_cuts.is_some() || arm.failed.is_some()) {
        text += &table(document);
        text.push('\n');
    }
    for arm in &document.arms {
        if let (Some(cuts), Some(recoveries)) = (&arm.power_cuts, &arm.recoveries) {
            text += &meaning(arm, cuts, recoveries);
        }
    }
    for note in &document.notes {
        text += &notes::line(note);
    }
    let complete = if document.complete { "" } else { "INCOMPLETE, " };
    let built =
        document.servers.first().map(|server| server.built.as_str()).filter(|built| !built.is_empty());
    let built = built.map_or_else(String::new, |built| format!(", {built}"));
    text + &paragraph(
        &format!("{complete}seed {}, kernel {}{built}.", document.seed, document.host.kernel),
        0,
    )
}

fn title(arm: &Arm) -> &str {
    arm.title.as_deref().unwrap_or(&arm.name)
}

fn table(document: &Document) -> String {
    let columns = [
        ("server", Align::Left),
        ("whole", Align::Right),
        ("lost", Align::Right),
        ("corrupt", Align::Right),
        ("down", Align::Right),
        ("recovery", Align::Right),
        ("longest", Align::Right),
    ];
    let row = |arm: &Arm| {
        let head = vec![title(arm).to_owned()];
        match (&arm.power_cuts, &arm.recoveries, &arm.failed) {
            (Some(cuts), Some(recoveries), _) => Row::Cells([head, cells(cuts, recoveries)].concat()),
            (_, _, Some(failed)) => Row::Sentence(head, format!("failed: {}", failed.text)),
            _ => Row::Sentence(head, "not judged".to_owned()),
        }
    };
    let columns = columns.map(|(name, align)| (name.to_owned(), align)).to_vec();
    Table { columns, rows: document.arms.iter().map(row).collect() }.render()
}

fn cells(cuts: &PowerCuts, recoveries: &Recoveries) -> Vec<String> {
    let count = |verdicts: &[&str]| -> u64 {
        verdicts.iter().filter_map(|verdict| cuts.verdicts.get(*verdict)).sum()
    };
    let time = |time: Option<u64>| time.map_or_else(|| "-".to_owned(), units::duration);
    vec![
        format!("{} of {}", count(&["kept", "needs-fsck"]), cuts.cuts + cuts.aimed),
        count(&["lost"]).to_string(),
        count(&["corrupt"]).to_string(),
        count(&["does-not-start", "does-not-mount"]).to_string(),
        time(recoveries.recovery_median_ns),
        time(recoveries.recovery_max_ns),
    ]
}

/// What was at stake, what became of it, and the examples.
fn meaning(arm: &Arm, cuts: &PowerCuts, recoveries: &Recoveries) -> String {
    let name = title(arm);
    let mut text = if !cuts.promise_kept {
        warning(&format!("{name}: LOST OR DAMAGED: {}", counted(cuts)))
    } else if cuts.cuts + cuts.aimed == 0 {
        paragraph(&format!("{name}: no image was judged."), 2)
    } else {
        let bound = cuts.bound_95.map_or_else(String::new, |bound| {
            format!("; at 95 % confidence at most {:.1} % of such cuts lose anything", bound * 100.0)
        });
        let (random, aimed) = (units::count(cuts.cuts, "random cut"), cuts.aimed);
        let words = format!("{name}: no loss seen at {random} and {aimed} aimed ones{bound}.");
        paragraph(&words.replace(" %", &together(" %")), 2)
    };
    let Recoveries { commits_synchronous, commits_asynchronous, databases, restores, .. } = *recoveries;
    let at_stake = format!(
        "  Acknowledged in all: {}, {commits_asynchronous} more with synchronous_commit=off, {}, {}.",
        units::count(commits_synchronous, "commit"),
        units::count(databases, "database"),
        units::count(restores, "restore"),
    );
    text += &paragraph(&at_stake, 2);
    if cuts.promise_kept && recoveries.asynchronous_lost_cuts > 0 {
        let words = format!(
            "  With synchronous_commit=off commits were lost at {}, at most {} of them, and none before one that is there: \
             that is permitted.",
            units::count(recoveries.asynchronous_lost_cuts, "cut"),
            recoveries.asynchronous_lost_most
        );
        text += &paragraph(&words, 2);
    }
    if let Some(count) = cuts.verdicts.get("needs-fsck") {
        text += &paragraph(&format!("  {} had to be repaired first.", units::count(*count, "image")), 2);
    }
    cuts.examples.iter().fold(text, |text, example| text + &shown(example))
}
