//! What can be wrong with the text of a policy.

use super::axes::{Axis, MOST_JOBS};
use super::table;

/// A text that is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No row and no server version of that name.
    #[error("unknown policy \"{given}\"")]
    UnknownPolicy {
        /// As typed.
        given: String,
        /// What may have been meant.
        nearest: Option<&'static str>,
    },
    /// Nothing where a name should stand.
    #[error("no policy is named in \"{given}\"")]
    NoName {
        /// As typed.
        given: String,
    },
    /// No such axis.
    #[error("unknown axis \"{given}\"")]
    UnknownAxis {
        /// As typed.
        given: String,
        /// What may have been meant.
        nearest: Option<&'static str>,
    },
    /// The axis does not take that value.
    #[error("unknown value \"{given}\" of axis \"{axis}\"")]
    UnknownValue {
        /// The axis.
        axis: Axis,
        /// As typed.
        given: String,
        /// What may have been meant.
        nearest: Option<&'static str>,
    },
    /// An axis without `=VALUE`.
    #[error("\"{given}\" is not AXIS=VALUE")]
    NoValue {
        /// As typed.
        given: String,
    },
    /// An axis given more than once.
    #[error("axis \"{axis}\" is given twice")]
    AxisTwice {
        /// The axis.
        axis: Axis,
    },
    /// A combination that means nothing.
    #[error("{rule}")]
    Meaningless {
        /// The rule that it breaks.
        rule: &'static str,
    },
}

impl PolicyError {
    pub(super) fn policy(given: &str) -> Self {
        let names = table::ROWS.iter().map(|row| row.name);
        Self::UnknownPolicy { given: given.to_owned(), nearest: nearest(given, names) }
    }

    pub(super) fn axis(given: &str) -> Self {
        let names = Axis::ALL.into_iter().map(Axis::name);
        Self::UnknownAxis { given: given.to_owned(), nearest: nearest(given, names) }
    }

    pub(super) fn value(axis: Axis, given: &str) -> Self {
        let nearest = nearest(given, axis.values().iter().copied());
        Self::UnknownValue { axis, given: given.to_owned(), nearest }
    }

    /// What to do about it, where something can be said.
    pub fn hint(&self) -> Option<String> {
        let (nearest, known) = match self {
            Self::UnknownPolicy { nearest, .. } => {
                (nearest, "fsynclab copy --list-policies prints all".to_owned())
            }
            Self::UnknownAxis { nearest, .. } => {
                (nearest, format!("axes: {}", Axis::ALL.map(Axis::name).join(", ")))
            }
            Self::UnknownValue { axis, nearest, .. } => (nearest, format!("{axis} takes {}", values(*axis))),
            Self::NoName { .. } => {
                return Some("a policy is NAME[+AXIS=VALUE]..., with a comma between two".to_owned());
            }
            Self::NoValue { .. } => return Some("a policy is NAME[+AXIS=VALUE]...".to_owned()),
            Self::AxisTwice { .. } | Self::Meaningless { .. } => return None,
        };
        Some(match nearest {
            Some(nearest) => format!("did you mean \"{nearest}\"? {known}"),
            None => known,
        })
    }
}

/// What an axis takes, the default marked.
fn values(axis: Axis) -> String {
    match axis {
        Axis::Every => "a size from 64KiB (default: 1MiB), file or pass".to_owned(),
        Axis::Jobs => format!("a number from 1 (the default) to {MOST_JOBS}"),
        _ => axis.values().join(", ").replacen(',', " (the default),", 1),
    }
}

/// The candidate that a few slips of the finger turn into `given`; none where that takes more than a third of it.
fn nearest(given: &str, candidates: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    candidates
        .map(|candidate| (slips(given.as_bytes(), candidate.as_bytes()), candidate))
        .filter(|(slips, candidate)| *slips * 3 <= candidate.len())
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance.
fn slips(from: &[u8], to: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}
