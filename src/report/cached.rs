//! A copy with the write cache on and off, in the form in which such figures were published: a row a policy, a group of
//! columns a state, and what the cache buys.

use super::arms::{POLICY, arms_at, flushes, gain, is_alone, row_name};
use super::finding;
use super::layout::{Align, Row, Table, paragraph};
use super::states::{none_ran, state_of, states, why_not};
use super::units::{self, Scale};
use crate::results::{Arm, Comparison, Document, Place};
use crate::stats::Verdict;

/// The table, why something in it is missing, and what the cache buys.
pub(super) fn table(document: &Document, place: &Place) -> String {
    let arms = arms_at(document, place);
    let text = grouped(document, &arms).render() + "\n" + &missing(document, &arms);
    match bought(document) {
        told if told.is_empty() => text,
        told => text + &paragraph(&format!("With the cache on: {}.", told.join("; ")), 0),
    }
}

/// What the arms of each state show.
pub(super) fn findings(document: &Document, place: &Place) -> Vec<String> {
    let arms = arms_at(document, place);
    let finding = |state| {
        let found = finding::at_place(document, &of_state(&arms, state))?;
        Some(format!("Write cache {state}: {found}"))
    };
    states(document).into_iter().filter_map(finding).collect()
}

fn of_state<'a>(arms: &[&'a Arm], state: &str) -> Vec<&'a Arm> {
    arms.iter().copied().filter(|arm| state_of(arm) == Some(state) && !is_alone(arm)).collect()
}

fn grouped(document: &Document, arms: &[&Arm]) -> Table {
    let states = states(document);
    let largest_ns = arms.iter().filter_map(|arm| arm.summary.as_ref()).map(|summary| summary.max_ns).max();
    let scale = Scale::for_largest(largest_ns.unwrap_or(0));
    let mut columns = vec![(POLICY.to_owned(), Align::Left), ("promise".to_owned(), Align::Left)];
    for state in &states {
        let titles = [state_title(state), "min-max".to_owned(), "flush".to_owned()];
        columns.extend(titles.map(|title| (title, Align::Right)));
    }
    columns.push(("buys".to_owned(), Align::Right));
    let mut rows: Vec<Row> = Vec::new();
    let mut done: Vec<String> = Vec::new();
    for arm in arms {
        let name = row_name(arm, document);
        if done.contains(&name) {
            continue;
        }
        let promise = arm.promise.map_or_else(|| "-".to_owned(), |promise| promise.to_string());
        let mut cells = vec![name.clone(), promise];
        let in_state = |state: &str| {
            arms.iter().copied().find(|arm| state_of(arm) == Some(state) && row_name(arm, document) == name)
        };
        cells.extend(states.iter().flat_map(|state| group(in_state(state), scale)));
        cells.push(in_state(states[1]).map_or_else(|| "-".to_owned(), |arm| factor(document, arm)));
        rows.push(Row::Cells(cells));
        done.push(name);
    }
    Table { columns, rows }
}

fn state_title(state: &str) -> String {
    format!("cache {state}")
}

/// Median, smallest and largest, flushes of one arm.
fn group(arm: Option<&Arm>, scale: Scale) -> [String; 3] {
    let dash = || "-".to_owned();
    let Some(arm) = arm else { return [dash(), dash(), dash()] };
    match &arm.summary {
        _ if arm.refused.is_some() => ["refused".to_owned(), dash(), dash()],
        _ if arm.failed.is_some() => ["FAILED".to_owned(), dash(), dash()],
        None => [dash(), dash(), dash()],
        Some(summary) => [
            scale.with_unit(summary.median_ns),
            format!("{}-{}", scale.bare(summary.min_ns), scale.bare(summary.max_ns)),
            flushes(arm),
        ],
    }
}

/// Why figures are missing: once for a whole state, and once for an arm that has none in either.
fn missing(document: &Document, arms: &[&Arm]) -> String {
    let (mut text, mut told) = (String::new(), Vec::new());
    for state in states(document) {
        let here = of_state(arms, state);
        let title = state_title(state);
        if let Some(why) = none_ran(&here) {
            text += &paragraph(&format!("{title}: {why}"), 2);
            continue;
        }
        told.extend(
            here.into_iter().filter_map(|arm| Some((row_name(arm, document), title.clone(), why_not(arm)?))),
        );
    }
    for (at, (name, title, why)) in told.iter().enumerate() {
        let same = |others: &[(String, String, String)]| {
            others.iter().any(|(other, _, because)| (other, because) == (name, why))
        };
        if same(&told[..at]) {
            continue;
        }
        let who = if same(&told[at + 1..]) { name.clone() } else { format!("{name}, {title}") };
        text += &paragraph(&format!("{who}: {why}"), 2);
    }
    text
}

/// The comparison of an arm with the same one in the first state.
fn across<'a>(document: &'a Document, arm: &Arm) -> Option<&'a Comparison> {
    let first = |name: &str| {
        let baseline = document.arms.iter().find(|other| other.name == name)?;
        (state_of(baseline) != state_of(arm)).then_some(())
    };
    let here = document.comparisons.iter().filter(|found| found.arm == arm.name);
    here.into_iter().find(|found| first(&found.baseline).is_some())
}

/// How many times as fast the cache makes it, where a difference is shown; below 1 where it makes it slower.
fn factor(document: &Document, arm: &Arm) -> String {
    across(document, arm)
        .and_then(|found| bought_by(arm, found))
        .map_or_else(|| "-".to_owned(), |[factor, _, _]| format!("{factor} x"))
}

/// The factor and its interval by which the arm with the cache on is ahead of that with it off.
fn bought_by(arm: &Arm, found: &Comparison) -> Option<[String; 3]> {
    let helps = match found.verdict {
        Verdict::Faster => state_of(arm) == Some("on"),
        Verdict::Slower => state_of(arm) != Some("on"),
        _ => return None,
    };
    let [factor, low, high] = gain(found);
    Some(units::ratios(if helps { [factor, low, high] } else { [1.0 / factor, 1.0 / high, 1.0 / low] }))
}

/// What the cache does for each policy, in words.
fn bought(document: &Document) -> Vec<String> {
    let states = states(document);
    let arms = document.arms.iter().filter(|arm| state_of(arm) == states.get(1).copied() && !is_alone(arm));
    let sentence = |arm: &Arm| {
        let found = across(document, arm)?;
        let name = row_name(arm, document);
        let rounds = found.rounds;
        Some(match (bought_by(arm, found), found.verdict) {
            (Some([factor, low, high]), _) => {
                format!("{name} {factor} times as fast ({low} to {high}; {rounds} rounds)")
            }
            (None, Verdict::NoDifferenceShown) => format!("no difference shown for {name} ({rounds} rounds)"),
            (None, Verdict::Drifting) => format!("no verdict on {name} (drifting)"),
            (None, _) => format!("too few rounds for a verdict on {name} ({rounds})"),
        })
    };
    arms.filter_map(sentence).collect()
}
