//! How often a bystander syncs.

use std::fmt;
use std::str::FromStr;

/// A second, in nanoseconds.
pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// So many syncs a second: `50/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub(super) per_second: u32,
}

/// A text that is no rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a rate is a number from 1 to {} and its unit, as in 50/s", Rate::MOST)]
pub struct NoRate;

impl Rate {
    /// Beyond this the thread itself, not the place, would be what is measured.
    const MOST: u32 = 10_000;

    /// From one to the next.
    pub(super) fn period_ns(self) -> u64 {
        SECOND_NS / u64::from(self.per_second)
    }
}

impl FromStr for Rate {
    type Err = NoRate;

    fn from_str(text: &str) -> Result<Self, NoRate> {
        let number = text.strip_suffix("/s").and_then(|number| number.trim_end().parse().ok());
        match number {
            Some(per_second @ 1..=Self::MOST) => Ok(Self { per_second }),
            _ => Err(NoRate),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_needs_its_unit() {
        let period = |text: &str| text.parse().map(Rate::period_ns);
        assert_eq!(period("50/s"), Ok(20_000_000));
        assert_eq!(period("1 /s"), Ok(SECOND_NS));
        for wrong in ["50", "0/s", "/s", "-1/s", "50/min", "10001/s", "1.5/s"] {
            assert_eq!(period(wrong), Err(NoRate), "{wrong}");
        }
    }
}
