//! Why a verdict is what it is, in words, with the figures.

mod asked;
mod table;
mod turns;

use std::fmt;

pub use asked::Asked;
pub use table::Table;
pub use turns::Turns;

/// One reason of a verdict.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// By what was asked of the device.
    Asked(Asked),
    /// By the rate of synced overwrites.
    Turns(Turns),
    /// By the other figures of a published table.
    Table(Table),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked(asked) => asked.fmt(f),
            Self::Turns(turns) => turns.fmt(f),
            Self::Table(table) => table.fmt(f),
        }
    }
}

fn turns(rpm: u32) -> f64 {
    f64::from(rpm) / 60.0
}

/// A rate as people say it: three digits at least, no more decimals than help.
pub(in crate::probe) fn figure(value: f64) -> String {
    let decimals = match value {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
