//! What reports of runs on real servers have in common: the servers, their places, the findings, the closing line.

use super::layout::{Align, Row, Table, paragraph};
use super::stack_words::{cache_line, storage_line};
use super::units;
use crate::results::{Arm, Comparison, Document, Server};
use crate::stats::Verdict;

/// Servers that are built alike share what is said of that.
pub(super) fn servers(servers: &[Server]) -> String {
    let names = |servers: &[Server]| -> Vec<String> {
        servers.iter().map(|server| format!("{} {}", server.name, words_of_version(server))).collect()
    };
    let alike = servers.windows(2).all(|pair| pair[0].built == pair[1].built);
    let settings = servers.first().map_or_else(String::new, |server| {
        server.settings.iter().map(|(name, value)| format!(", {name}={value}")).collect::<Vec<_>>().concat()
    });
    match servers.first() {
        Some(first) if alike => {
            let all = match servers.len() {
                1 => "",
                2 => " in both",
                _ => " in all",
            };
            format!("{}; {}{all}{settings}.", names(servers).join(", "), first.built)
        }
        _ => {
            let each: Vec<String> = servers
                .iter()
                .map(|server| format!("{} {}: {}", server.name, server.version, server.built))
                .collect();
            format!("{}{settings}.", each.join("; "))
        }
    }
}

/// A server that is called by its version is not told it twice.
fn words_of_version(server: &Server) -> &str {
    if server.version.starts_with(&server.name) { "(PostgreSQL)" } else { &server.version }
}

/// Where the data of scratch clusters lie, and their WAL where that is elsewhere.
pub(super) fn places(document: &Document) -> String {
    let is_of_wal = |id: &String| document.servers.iter().any(|server| server.wal_place.as_ref() == Some(id));
    document.places.iter().fold(String::new(), |text, place| {
        let what = if is_of_wal(&place.id) { "WAL" } else { "Data" };
        let simulated = if place.simulated { "SIMULATED: " } else { "" };
        let line = format!("{what}: {simulated}{} ({}).", place.path, storage_line(&place.stack));
        text + &paragraph(&line, 0) + &paragraph(&cache_line(&place.stack), 0)
    })
}

/// Arms by these labels, then by numbers; why an arm has none stands in their place.
pub(super) fn table<'a>(
    arms: impl IntoIterator<Item = &'a Arm>,
    labels: &[String],
    numbers: &[&str],
    row: impl Fn(&Arm) -> Option<Vec<String>>,
) -> Table {
    let columns = labels.iter().map(|name| (name.clone(), Align::Left));
    let columns = columns.chain(numbers.iter().map(|name| ((*name).to_owned(), Align::Right)));
    let rows = arms.into_iter().map(|arm| {
        let start: Vec<String> =
            labels.iter().map(|name| arm.labels.get(name).unwrap_or_default().to_owned()).collect();
        match (&arm.refused, &arm.failed, row(arm)) {
            (Some(refused), ..) => Row::Sentence(start, format!("refused: {}", refused.text)),
            (_, Some(failed), _) => Row::Sentence(start, format!("FAILED: {}", failed.text)),
            (.., Some(numbers)) => Row::Cells(start.into_iter().chain(numbers).collect()),
            (.., None) => Row::Sentence(start, "no round finished".to_owned()),
        }
    });
    Table { columns: columns.collect(), rows: rows.collect() }
}

/// Columns that are labels: those that differ, the server's where none does.
pub(super) fn label_columns(arms: &[&Arm]) -> Vec<String> {
    let names = differing_labels(arms);
    if names.is_empty() { vec!["server".to_owned()] } else { names }
}

/// The labels whose values differ between arms, in the order in which they are told.
pub(super) fn differing_labels(arms: &[&Arm]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, value) in arms.iter().flat_map(|arm| arm.labels.iter()) {
        let differs = arms.iter().any(|arm| arm.labels.get(name) != Some(value));
        if differs && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// One sentence a comparison; where no arm has rounds enough, one in all.
pub(super) fn findings(document: &Document) -> Vec<String> {
    let rounds = document.comparisons.iter().map(|comparison| comparison.rounds).max().unwrap_or(0);
    if document.comparisons.iter().all(|comparison| comparison.verdict == Verdict::TooFewRounds) {
        let few = format!("too few rounds for a verdict ({rounds}; 6 are needed).");
        return if document.comparisons.is_empty() { Vec::new() } else { vec![few] };
    }
    document.comparisons.iter().map(|comparison| finding(document, comparison)).collect()
}

fn finding(document: &Document, comparison: &Comparison) -> String {
    let shown = |name: &str| document.arms.iter().find(|arm| arm.name == name);
    let (Some(baseline), Some(arm)) = (shown(&comparison.baseline), shown(&comparison.arm)) else {
        return String::new();
    };
    let [ratio, low, high] = units::ratios(super::arms::gain(comparison));
    if arm.labels.get("control").is_some() {
        return format!("A/A control: {low} to {high}.");
    }
    let (common, mine, theirs) = (common(baseline, arm), own(arm, baseline), own(baseline, arm));
    let rounds = comparison.rounds;
    let said = match comparison.verdict {
        Verdict::Faster => format!(
            "{mine} is {ratio} times as fast as {theirs} ({low} to {high}), {} of {rounds} rounds",
            comparison.wins
        ),
        Verdict::Slower => format!(
            "{mine} takes {ratio} times as long as {theirs} ({low} to {high}), {} of {rounds} rounds",
            rounds - comparison.wins.min(rounds)
        ),
        Verdict::NoDifferenceShown => {
            format!("{mine} against {theirs}: no difference shown ({low} to {high})")
        }
        Verdict::TooFewRounds => format!("{mine} against {theirs}: too few rounds for a verdict ({rounds})"),
        Verdict::Drifting => {
            format!("{mine} against {theirs}: drifting, two copies of the baseline differ as much")
        }
    };
    if common.is_empty() { format!("{said}.") } else { format!("{common}: {said}.") }
}

/// What an arm has that the other has not.
fn own(arm: &Arm, other: &Arm) -> String {
    let values: Vec<&str> = arm
        .labels
        .iter()
        .filter(|(name, value)| other.labels.get(name) != Some(*value))
        .map(|(_, value)| value)
        .collect();
    values.join(", ")
}

/// What two arms have in common, as far as their names tell it.
fn common(one: &Arm, other: &Arm) -> String {
    let parts: Vec<&str> = one.name.split(" / ").collect();
    other.name.split(" / ").filter(|part| parts.contains(part)).collect::<Vec<_>>().join(", ")
}

/// What is needed to repeat the run.
pub(super) fn closing(document: &Document) -> String {
    let (rounds, seed, kernel) = (rounds(document) as u64, document.seed, &document.host.kernel);
    let planned = document.plan.as_ref().map_or(rounds, |plan| u64::from(plan.rounds));
    let done = if document.complete {
        units::count(planned, "round")
    } else {
        format!("INCOMPLETE, {rounds} of {}", units::count(planned, "round"))
    };
    paragraph(&format!("{done}, seed {seed}, kernel {kernel}."), 0)
}

/// Rounds that count, of the arm that has most.
pub(super) fn rounds(document: &Document) -> usize {
    document.arms.iter().filter_map(|arm| arm.summary.as_ref()).map(|summary| summary.n).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Failed, Labels, Refused};

    #[test]
    fn an_arm_without_numbers_says_why_in_its_row() {
        let refused = Refused { code: "write-cache".to_owned(), text: "a container lacks it".to_owned() };
        let failed = Failed { text: "the disk is full".to_owned(), errno: None, call: None, path: None };
        let state = |state: &str| Labels::new().with("write_cache", state);
        let arms = [
            Arm { labels: state("on"), ..Arm::default() },
            Arm { labels: state("off"), refused: Some(refused), ..Arm::default() },
            Arm { labels: state("other"), failed: Some(failed), ..Arm::default() },
        ];
        let labels = differing_labels(&arms.iter().collect::<Vec<_>>());
        let printed = table(&arms, &labels, &["n"], |_| None).render();
        for row in
            ["on no round finished", "off refused: a container lacks it", "other FAILED: the disk is full"]
        {
            let words: Vec<&str> = printed.split_whitespace().collect();
            assert!(words.join(" ").contains(row), "{row}: {printed}");
        }
    }
}
