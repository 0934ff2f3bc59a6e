//! A run of CREATE DATABASE for the terminal: the servers, the table, the finding by strategy, calls and replay.

use std::collections::HashSet;

use super::arms::median_of;
use super::layout::{Table, paragraph};
use super::servers::{self, closing, differing_labels, findings, places, rounds};
use super::{notes, units};
use crate::results::{Arm, Databases, Document, Sample};

const STRATEGY: &str = "strategy";

/// The calls that tell strategies apart, in the order in which they are told.
const TELLING_CALLS: [&str; 5] = ["fsync", "fdatasync", "sync_file_range", "syncfs", "copy_file_range"];

/// The servers and the template: known once the servers are ready.
pub(super) fn header(document: &Document) -> String {
    let mut text = paragraph(&servers::servers(&document.servers), 0);
    if let Some(input) = &document.input {
        let counted = if input.files == 0 {
            String::new()
        } else {
            format!(", {}, {}", units::count(input.files, "file"), units::size(input.bytes))
        };
        text += &paragraph(&format!("Template: {}{counted}.", input.template), 0);
    }
    text + &places(document)
}

/// The table, what it shows, notes, and what is needed to repeat it.
pub(super) fn results(document: &Document) -> String {
    let arms: Vec<&Arm> = document.arms.iter().collect();
    let creates =
        arms.iter().filter_map(|arm| first(arm)).map(|made| made.create_ns.len()).max().unwrap_or(0);
    let times = units::count(rounds(document) as u64, "round");
    let mut text = format!("CREATE DATABASE, ms ({creates} in a row x {times})\n");
    text += &table(document, &arms).render();
    text.push('\n');
    for finding in findings(document) {
        text += &paragraph(&finding, 0);
    }
    for sentence in [calls(&arms), replay(&arms), drops(&arms)].into_iter().flatten() {
        text += &paragraph(&sentence, 0);
    }
    for note in &document.notes {
        text += &notes::line(note);
    }
    text + &closing(document)
}

fn first(arm: &Arm) -> Option<&Databases> {
    arm.samples.first().and_then(|sample| sample.databases.as_ref())
}

/// Columns of the table that are labels: the strategy last, what else differs before it.
fn label_columns(arms: &[&Arm]) -> Vec<String> {
    let mut names = differing_labels(arms);
    names.retain(|name| name != STRATEGY);
    names.push(STRATEGY.to_owned());
    names
}

fn table(document: &Document, arms: &[&Arm]) -> Table {
    let labels = label_columns(arms);
    let numbers = ["median", "min", "max", "ckpt1", "copy", "ckpt2", "+CHECKPT", "WAL"];
    servers::table(&document.arms, &labels, &numbers, row)
}

fn row(arm: &Arm) -> Option<Vec<String>> {
    let summary = arm.summary.as_ref()?;
    let part = |name: &str| median_of(arm, |sample| sample.phases.get(name).copied());
    let together = of_databases(arm, |made| made.create_and_checkpoint_ns);
    let wal = of_databases(arm, |made| Some(made.wal_bytes));
    Some(vec![
        ms(Some(summary.median_ns)),
        ms(Some(summary.min_ns)),
        ms(Some(summary.max_ns)),
        ms(part("checkpoint_before_ns")),
        ms(part("copy_ns")),
        ms(part("checkpoint_after_ns")),
        ms(together),
        wal.map_or_else(|| "-".to_owned(), wal_size),
    ])
}

/// Milliseconds with as many decimals as fit; `-` where there is nothing to say.
fn ms(ns: Option<u64>) -> String {
    let Some(ns) = ns else { return "-".to_owned() };
    let value = ns as f64 / 1e6;
    if value < 1000.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn wal_size(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} B"),
        10_240..1_048_576 => format!("{} kB", bytes / 1024),
        _ => format!("{:.1} MB", bytes as f64 / 1_048_576.0),
    }
}

fn of_databases(arm: &Arm, value: impl Fn(&Databases) -> Option<u64>) -> Option<u64> {
    median_of(arm, |sample: &Sample| sample.databases.as_ref().and_then(&value))
}

/// The calls of one untimed CREATE by arm.
fn calls(arms: &[&Arm]) -> Option<String> {
    // However many sessions there are, a CREATE is the same.
    let name = |arm: &Arm| -> String {
        let differs =
            |name: &str, value: &str| arms.iter().any(|other| other.labels.get(name) != Some(value));
        let told = |name: &str, value: &str| name != "jobs" && (name == STRATEGY || differs(name, value));
        let values: Vec<&str> =
            arm.labels.iter().filter(|(name, value)| told(name, value)).map(|(_, value)| value).collect();
        values.join(" / ")
    };
    let mut counted: Vec<String> = arms
        .iter()
        .filter_map(|arm| {
            let calls = &arm.samples.first().filter(|sample| !sample.calls.is_empty())?.calls;
            let told: Vec<String> = TELLING_CALLS
                .iter()
                .filter_map(|name| calls.get(*name).map(|count| format!("{name} {count}")))
                .collect();
            let told = if told.is_empty() { "none that syncs".to_owned() } else { told.join(", ") };
            Some(format!("{}: {told}", name(arm)))
        })
        .collect();
    let mut seen = HashSet::new();
    counted.retain(|told| seen.insert(told.clone()));
    (!counted.is_empty())
        .then(|| format!("Calls of the backend in one untimed CREATE: {}.", counted.join("; ")))
}

fn replay(arms: &[&Arm]) -> Option<String> {
    let told: Vec<String> = arms
        .iter()
        .filter_map(|arm| {
            let replay_ns = of_databases(arm, |made| made.replay_ns)?;
            Some(format!("{} {}", arm.name, units::duration(replay_ns)))
        })
        .collect();
    (!told.is_empty()).then(|| format!("Replay of one CREATE on a standby: {}.", told.join(", ")))
}

fn drops(arms: &[&Arm]) -> Option<String> {
    let told: Vec<String> = arms
        .iter()
        .filter_map(|arm| {
            Some(format!(
                "{} {}",
                arm.name,
                units::duration(of_databases(arm, |made| Some(made.drop_elapsed_ns))?)
            ))
        })
        .collect();
    (!told.is_empty()).then(|| format!("DROP DATABASE: {}.", told.join(", ")))
}

/// Clones per second, DROP included, and the line for a test suite's code.
pub fn recommendation(document: &Document) -> String {
    let mut rates: Vec<(f64, &Arm)> = document
        .arms
        .iter()
        .filter_map(|arm| {
            let clone_ns =
                of_databases(arm, |made| Some(made.drop_elapsed_ns))? + arm.summary.as_ref()?.median_ns;
            Some((1e9 / clone_ns.max(1) as f64, arm))
        })
        .collect();
    rates.sort_by(|one, other| other.0.total_cmp(&one.0));
    let Some((best, arm)) = rates.first() else { return String::new() };
    let listed: Vec<String> = rates.iter().map(|(rate, arm)| format!("{} {rate:.1}", arm.name)).collect();
    let template = document.input.as_ref().map_or("template", |input| input.template.as_str());
    let (before, strategy) = match arm.labels.get(STRATEGY) {
        Some("file_copy+clone") => ("SET file_copy_method = clone; ", " STRATEGY file_copy"),
        Some("wal_log") => ("", " STRATEGY wal_log"),
        _ => ("", " STRATEGY file_copy"),
    };
    let jobs = arm.labels.get("jobs").unwrap_or("1");
    paragraph(&format!("Clones per second, DROP included: {}.", listed.join(", ")), 0)
        + &paragraph(
            &format!(
                "Recommended here ({best:.1} clones per second): {} at once, each with",
                units::count(jobs.parse().unwrap_or(1), "session")
            ),
            0,
        )
        + &format!("  {before}CREATE DATABASE \"…\" TEMPLATE \"{template}\"{strategy};\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Comparison, Kind, Labels, Phases, Server};
    use crate::stats::{self, Verdict};

    fn arm(server: &str, strategy: &str, took_ms: u64) -> Arm {
        let sample = |round: u32| {
            let elapsed_ns = took_ms * 1_000_000;
            let copied = strategy == "file_copy";
            let parts =
                [("checkpoint_before_ns", 291), ("copy_ns", took_ms - 577), ("checkpoint_after_ns", 286)];
            let phases = parts.map(|(name, ms)| (name.to_owned(), ms * 1_000_000));
            Sample {
                round,
                elapsed_ns,
                phases: if copied { Phases::from(phases) } else { Phases::new() },
                calls: [("fsync".to_owned(), 301), ("openat".to_owned(), 9)].into(),
                databases: Some(Databases {
                    create_ns: vec![elapsed_ns; 5],
                    drop_ns: vec![100_000_000; 5],
                    drop_elapsed_ns: 100_000_000,
                    create_and_checkpoint_ns: Some(elapsed_ns + 281_700_000),
                    wal_bytes: if copied { 776 } else { 4_508_877 },
                    replay_ns: copied.then_some(300_000_000),
                }),
                ..Sample::default()
            }
        };
        let samples: Vec<Sample> = (1..=7).map(sample).collect();
        let elapsed: Vec<u64> = samples.iter().map(|sample| sample.elapsed_ns).collect();
        Arm {
            name: format!("{strategy} / {server}"),
            labels: Labels::new().with(STRATEGY, strategy).with("server", server),
            summary: stats::summary(&elapsed),
            samples,
            ..Arm::default()
        }
    }

    fn document() -> Document {
        let server = |name: &str| Server {
            name: name.to_owned(),
            version: "19devel".to_owned(),
            scratch: true,
            built: "assertions off, 8 kB blocks, checksums on".to_owned(),
            ..Server::default()
        };
        Document {
            complete: true,
            seed: 42,
            servers: vec![server("master"), server("patch")],
            arms: vec![
                arm("master", "file_copy", 2611),
                arm("patch", "file_copy", 845),
                arm("master", "wal_log", 600),
            ],
            comparisons: vec![Comparison {
                baseline: "file_copy / master".to_owned(),
                arm: "file_copy / patch".to_owned(),
                ratio: Some(3.09),
                ratio_ci95: Some([2.98, 3.21]),
                ratio_seen: None,
                rounds: 7,
                wins: 7,
                verdict: Verdict::Faster,
            }],
            ..Document::new(Kind::Createdb)
        }
    }

    #[test]
    fn the_table_and_the_finding_stand_within_79_columns() {
        let text = anstream::adapter::strip_str(&results(&document())).to_string();
        let expected = "\
CREATE DATABASE, ms (5 in a row x 7 rounds)
server  strategy   median    min    max  ckpt1   copy  ckpt2  +CHECKPT     WAL
master  file_copy    2611   2611   2611  291.0   2034  286.0      2893   776 B
patch   file_copy   845.0  845.0  845.0  291.0  268.0  286.0      1127   776 B
master  wal_log     600.0  600.0  600.0      -      -      -     881.7  4.3 MB

file_copy: patch is 3.1 times as fast as master (3.0 to 3.2), 7 of 7 rounds.
Calls of the backend in one untimed CREATE: file_copy / master: fsync 301;
file_copy / patch: fsync 301; wal_log / master: fsync 301.
Replay of one CREATE on a standby: file_copy / master 300 ms, file_copy / patch
300 ms.
DROP DATABASE: file_copy / master 100 ms, file_copy / patch 100 ms, wal_log /
master 100 ms.
7 rounds, seed 42, kernel .
";
        assert_eq!(text, expected);
        assert!(header(&document()).starts_with(
            "master 19devel, patch 19devel; assertions off, 8 kB blocks, checksums on in\nboth.\n"
        ));
    }

    #[test]
    fn what_is_recommended_is_the_fastest_with_the_line_to_write() {
        let mut document = document();
        document.arms[1].labels = document.arms[1].labels.clone().with("jobs", "4");
        let text = recommendation(&document);
        assert!(text.contains("file_copy / master 0.4"), "{text}");
        assert!(text.contains("wal_log / master 1.4"), "{text}");
        assert!(text.contains("(1.4 clones per second): 1 session at once"), "{text}");
        assert!(
            text.ends_with("  CREATE DATABASE \"…\" TEMPLATE \"template\" STRATEGY wal_log;\n"),
            "{text}"
        );
    }

    #[test]
    fn calls_are_told_once_however_many_sessions_there_are() {
        let with = |server: &str, jobs: &str| {
            let arm = arm(server, "file_copy", 900);
            let name = format!("{} / {jobs}", arm.name);
            Arm { name, labels: arm.labels.clone().with("jobs", jobs), ..arm }
        };
        let arms = [with("master", "1"), with("master", "4"), with("patch", "1"), with("patch", "4")];
        let told = calls(&arms.iter().collect::<Vec<_>>()).expect("calls");
        let each = "file_copy / master: fsync 301; file_copy / patch: fsync 301";
        assert_eq!(told, format!("Calls of the backend in one untimed CREATE: {each}."));
    }
}
