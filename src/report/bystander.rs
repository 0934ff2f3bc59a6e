//! What the neighbours felt: a table of its own, and the sentence that a faster arm owes them.

use super::arms::{compared_in_table, gain, is_alone, row_name};
use super::layout::{Align, Row, Table, paragraph, together};
use super::units::{self, duration};
use crate::results::{Arm, Bystander, Document};
use crate::stats::Verdict;

/// The arms of one place by what somebody else felt beside them; nothing where nobody was there.
pub(super) fn table(document: &Document, arms: &[&Arm]) -> Option<String> {
    let felt: Vec<(&Arm, Bystander)> = felt(arms).collect();
    let rate = felt.first()?.1.per_second;
    let columns = [
        ("beside".to_owned(), Align::Left),
        ("syncs".to_owned(), Align::Right),
        ("p50".to_owned(), Align::Right),
        ("p99".to_owned(), Align::Right),
        ("max".to_owned(), Align::Right),
    ];
    let row = |(arm, felt): &(&Arm, Bystander)| {
        let p99 = felt.p99_ns.map_or_else(|| "-".to_owned(), duration);
        Row::Cells(vec![
            row_name(arm, document),
            felt.n.to_string(),
            duration(felt.p50_ns),
            p99,
            duration(felt.max_ns),
        ])
    };
    let table = Table { columns: columns.to_vec(), rows: felt.iter().map(row).collect() };
    let what = format!(
        "what somebody else felt who appended 8 kB and called fdatasync {rate} times a second (the flushes above hold \
         theirs):"
    );
    Some(paragraph(&what, 0) + &table.render())
}

/// What the arms cost the neighbours: the best one's beside the baseline's, and the longest wait of all. An arm must not be
/// fast at its neighbours' cost, unsaid.
pub(super) fn sentences(document: &Document, arms: &[&Arm], best: Option<&Arm>) -> Vec<String> {
    let (Some(baseline), Some(best)) = (arms.first(), best) else { return Vec::new() };
    let waits = |arm: &Arm| arm.bystander.map(|felt| together(&duration(felt.max_ns)));
    let (Some(before), Some(after)) = (waits(baseline), waits(best)) else { return Vec::new() };
    let baseline_name = row_name(baseline, document);
    let alone = arms.iter().find(|arm| is_alone(arm)).and_then(|arm| waits(arm));
    let alone = alone.map_or_else(String::new, |alone| format!(", without any copy up to {alone}"));
    let mut sentences = vec![format!(
        "Beside it a neighbour waits up to {after} for a sync, beside {baseline_name} up to {before}{alone}."
    )];
    let longest =
        felt(arms).filter(|(arm, _)| arm.labels.get("control").is_none()).max_by_key(|(_, felt)| felt.max_ns);
    if let Some((longest, felt)) = longest
        && ![&best.name, &baseline.name].contains(&&longest.name)
    {
        let (name, most) = (row_name(longest, document), together(&duration(felt.max_ns)));
        let comparison = compared_in_table(document, arms, longest);
        sentences.push(match comparison.filter(|comparison| comparison.verdict == Verdict::Faster) {
            Some(comparison) => {
                let [factor, ..] = units::ratios(gain(comparison));
                format!("{name} is {factor} times as fast as {baseline_name} and its neighbour waits up to {most}.")
            }
            None => format!("The longest wait is beside {name}: up to {most}."),
        });
    }
    sentences
}

fn felt<'a>(arms: &[&'a Arm]) -> impl Iterator<Item = (&'a Arm, Bystander)> {
    arms.iter().filter_map(|arm| Some((*arm, arm.bystander?)))
}
