//! Probes and published sets side by side, every two of them: like with like only.

use std::ops::RangeInclusive;

use super::cached::WRITE_CACHE;
use crate::probe::cases::{CASES, PG_BLOCKS};
use crate::probe::published::{
    Block, DirectIo, Finding, Method, Origin, Platform, Row, Set, Versions, compare,
};
use crate::results::{Arm, Document, Kind, Pair, PairLine, PublishedSet};

/// Operations a second that somebody could have measured: from one in a day to one in less than a clock cycle.
const RATES: RangeInclusive<f64> = 1e-5..=1e10;
/// Flushes for one operation that could have been counted.
const FLUSHES: RangeInclusive<f64> = 0.0..=1e6;

/// One side of a comparison.
#[derive(Clone, Debug)]
pub struct Side {
    set: Set,
    arms: Vec<Arm>,
}

impl Side {
    /// A set that was read from a text.
    pub fn of_set(set: Set) -> Self {
        Self { set, arms: Vec::new() }
    }

    /// What a results file holds that can be compared here; none where it is of another kind.
    pub fn of_document(name: &str, document: Document) -> Option<Vec<Self>> {
        match document.kind {
            Kind::Probe => Some(by_state(name, document)),
            Kind::Published => Some(document.sets.iter().map(of_published).map(Self::of_set).collect()),
            _ => None,
        }
    }

    /// Its lines as pg_test_fsync has them.
    pub fn set(&self) -> &Set {
        &self.set
    }

    /// A line with a figure that no storage shows, with its figure; such a file was edited.
    pub fn unusable(&self) -> Option<String> {
        let rates = self.set.rows.iter().filter_map(|row| {
            Some((format!("{} {}", row.block.key(), row.method), "operations a second", row.rate()?))
        });
        let ours = self.arms.iter().filter_map(|arm| {
            Some((keys(arm).0.to_owned() + " " + keys(arm).1, "operations a second", ops_per_sec(arm)?))
        });
        let mut rates = rates.chain(ours).filter(|(_, _, rate)| !RATES.contains(rate));
        let mut flushes = self.arms.iter().filter_map(|arm| {
            let figure = arm.device?.flushes_per_op;
            let (block, method) = keys(arm);
            (!FLUSHES.contains(&figure))
                .then(|| (format!("{block} {method}"), "flushes an operation", figure))
        });
        let (line, of, figure) = rates.next().or_else(|| flushes.next())?;
        Some(format!("{line} with {figure:e} {of}"))
    }

    fn arm(&self, block: &str, method: &str) -> Option<&Arm> {
        let of =
            |arm: &&Arm| arm.labels.get("block") == Some(block) && arm.labels.get("method") == Some(method);
        self.arms.iter().find(of)
    }
}

/// Every two sides, in order.
pub fn pairs(sides: &[Side]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (at, a) in sides.iter().enumerate() {
        pairs.extend(sides[at + 1..].iter().map(|b| pair(a, b)));
    }
    pairs
}

fn pair(a: &Side, b: &Side) -> Pair {
    let mut rates: Vec<((String, String), [f64; 2])> = Vec::new();
    let mut findings = Vec::new();
    for difference in compare(&[a.set.clone(), b.set.clone()]) {
        match difference.finding {
            Finding::Alike { line: (block, method), a: of_a, b: of_b } => {
                rates.push(((block.key().to_owned(), method.to_string()), [of_a, of_b]));
            }
            Finding::Flushing { a: (method, of_a), b: (same, of_b) } if method == same => {
                rates.push(((Block::One8.key().to_owned(), method.name().to_owned()), [of_a, of_b]));
            }
            _ => findings.push(difference.to_string()),
        }
    }
    rates.extend(ours_alone(a, b));
    let place = |keys: &(String, String)| {
        CASES.iter().position(|case| (case.block, case.method) == (keys.0.as_str(), keys.1.as_str()))
    };
    rates.sort_by_key(|(keys, _)| place(keys).unwrap_or(CASES.len()));
    Pair {
        names: [a.set.source.clone(), b.set.source.clone()],
        lines: rates.into_iter().map(|(keys, rates)| line(a, b, (&keys.0, &keys.1), rates)).collect(),
        findings,
    }
}

/// The lines that only this program measures.
fn ours_alone(a: &Side, b: &Side) -> Vec<((String, String), [f64; 2])> {
    let both = |arm: &Arm| {
        let (block, method) = keys(arm);
        let rates = [ops_per_sec(arm)?, ops_per_sec(b.arm(block, method)?)?];
        (!PG_BLOCKS.contains(&block)).then(|| ((block.to_owned(), method.to_owned()), rates))
    };
    a.arms.iter().filter_map(both).collect()
}

fn line(a: &Side, b: &Side, (block, method): (&str, &str), ops_per_sec: [f64; 2]) -> PairLine {
    let arms = [a.arm(block, method), b.arm(block, method)];
    PairLine {
        title: format!("{block} {method}"),
        ops_per_sec,
        flushes_per_op: arms.map(|arm| Some(arm?.device?.flushes_per_op)),
        differs: differs(arms, ops_per_sec),
    }
}

/// Where both have slices: whether the intervals of their medians lie apart. Else 5 % decide, as for published figures.
fn differs(arms: [Option<&Arm>; 2], [a, b]: [f64; 2]) -> bool {
    let interval = |arm: Option<&Arm>| arm?.summary.as_ref()?.median_ci95_ns;
    match (interval(arms[0]), interval(arms[1])) {
        (Some([low_a, high_a]), Some([low_b, high_b])) => high_a < low_b || high_b < low_a,
        _ => (a / b).max(b / a) > crate::probe::verdict::ALIKE,
    }
}

fn keys(arm: &Arm) -> (&str, &str) {
    (arm.labels.get("block").unwrap_or_default(), arm.labels.get("method").unwrap_or_default())
}

fn ops_per_sec(arm: &Arm) -> Option<f64> {
    arm.summary.as_ref()?.ops_per_sec
}

/// A probe is one side; one that compared states of the write cache is one a state.
fn by_state(name: &str, document: Document) -> Vec<Side> {
    let mut sides: Vec<Vec<Arm>> = Vec::new();
    for arm in document.arms {
        let state = arm.labels.get(WRITE_CACHE);
        match sides.iter_mut().find(|arms| arms[0].labels.get(WRITE_CACHE) == state) {
            Some(arms) => arms.push(arm),
            None => sides.push(vec![arm]),
        }
    }
    let side = |arms: Vec<Arm>| {
        let state = arms[0].labels.get(WRITE_CACHE);
        let name = state.map_or_else(|| name.to_owned(), |state| format!("{name}, write cache {state}"));
        Side { set: of_probe(&name, &arms, document.complete), arms }
    };
    sides.into_iter().map(side).collect()
}

fn of_probe(name: &str, arms: &[Arm], complete: bool) -> Set {
    let row = |arm: &Arm| {
        let (block, method) = keys(arm);
        Some(Row {
            block: Block::from_key(block)?,
            method: Method::from_key(method)?,
            ops_per_sec: ops_per_sec(arm),
            usecs_per_op: None,
            direct_io_refused: arm.refused.is_some(),
        })
    };
    Set {
        source: name.to_owned(),
        lines: (0, 0),
        origin: Origin::of_probe(),
        rows: arms.iter().filter_map(row).collect(),
        complete,
    }
}

fn of_published(set: &PublishedSet) -> Set {
    let rows = set.rows.iter().filter_map(|row| {
        Some(Row {
            block: Block::from_key(&row.block)?,
            method: Method::from_key(&row.method)?,
            ops_per_sec: row.ops_per_sec,
            usecs_per_op: row.usecs_per_op,
            direct_io_refused: false,
        })
    });
    let direct_io = set.direct_io.map(|used| if used { DirectIo::Requested } else { DirectIo::Unsupported });
    Set {
        source: set.source.clone(),
        lines: (set.lines[0], set.lines[1]),
        origin: Origin {
            versions: Versions::from_text(&set.versions).unwrap_or(Versions::ANY),
            platform: Platform::from_key(set.platform.as_deref()),
            direct_io,
            write_kb: set.write_kb,
            ..Origin::of_probe()
        },
        rows: rows.collect(),
        complete: set.complete,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Labels, PerOperation};

    #[test]
    fn a_figure_that_no_storage_shows_is_found() {
        let side = |rate: f64, flushes_per_op: f64| {
            let mut summary = crate::stats::summary(&[1000]).expect("a sample");
            summary.ops_per_sec = Some(rate);
            let device = PerOperation { flushes_per_op, ..PerOperation::default() };
            let labels = Labels::new().with("block", "one8").with("method", "fsync");
            let arm = Arm { labels, summary: Some(summary), device: Some(device), ..Arm::default() };
            let probe = Document { arms: vec![arm], ..Document::new(Kind::Probe) };
            Side::of_document("a.json", probe).expect("a probe").remove(0).unusable()
        };
        assert_eq!((side(0.01, 0.0), side(9e9, 2.0)), (None, None));
        for (rate, flushes) in [(0.0, 1.0), (-1.0, 1.0), (1e300, 1.0), (100.0, -1.0), (100.0, 1e300)] {
            assert!(side(rate, flushes).is_some_and(|line| line.starts_with("one8 fsync with ")), "{rate}");
        }
    }

    #[test]
    fn a_probe_with_the_cache_on_and_off_is_two_sides() {
        let arm = |method: &str, state: &str| Arm {
            labels: Labels::new().with("block", "one8").with("method", method).with(WRITE_CACHE, state),
            ..Arm::default()
        };
        let arms =
            vec![arm("fsync", "on"), arm("fdatasync", "on"), arm("fsync", "off"), arm("fdatasync", "off")];
        let probe = Document { arms, ..Document::new(Kind::Probe) };
        let sides = Side::of_document("a.json", probe).expect("a probe");
        let named: Vec<(&str, usize)> =
            sides.iter().map(|side| (side.set.source.as_str(), side.set.rows.len())).collect();
        assert_eq!(named, [("a.json, write cache on", 2), ("a.json, write cache off", 2)]);
    }
}
