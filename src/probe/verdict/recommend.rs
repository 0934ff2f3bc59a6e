//! Which `wal_sync_method` the figures speak for: a name that is valid here, or "keep the default".

use std::fmt;

use super::SyncMethod;
use super::reason::figure;

/// Methods within 5 % are alike: one run differs from the next by more.
pub const ALIKE: f64 = 1.05;
/// More work that is faster by more than 10 % is an inversion; what is less is noise.
pub const INVERSION: f64 = 1.10;
/// Rounds of one method that differ by more than this part of their median are too far apart to rank.
pub const MOST_SPREAD: f64 = 0.40;
/// Two synchronous writes at more than this part of the rate of one are not two syncs.
pub const NOT_HALF: f64 = 0.75;

/// The rate of one method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// The method.
    pub method: SyncMethod,
    /// Operations a second.
    pub ops_per_sec: f64,
    /// (max - min) / median over the rounds, if there were several.
    pub spread: Option<f64>,
}

/// All rates that bear on the choice. A method that is `n/a` is left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    /// One 8 kB write and its sync.
    pub one: Vec<Rate>,
    /// Two 8 kB writes and their sync.
    pub two: Vec<Rate>,
    /// Writes that make up 16 kB, and operations a second.
    pub sizes: Vec<(u32, f64)>,
    /// What a server here uses by itself, if that is known.
    pub default: Option<SyncMethod>,
}

impl Rates {
    /// Operations a second of one write.
    pub fn of_one(&self, method: SyncMethod) -> Option<f64> {
        rate_of(&self.one, method)
    }

    /// Operations a second of two writes.
    pub fn of_two(&self, method: SyncMethod) -> Option<f64> {
        rate_of(&self.two, method)
    }
}

fn rate_of(rates: &[Rate], method: SyncMethod) -> Option<f64> {
    rates.iter().find(|rate| rate.method == method).map(|rate| rate.ops_per_sec).filter(|ops| *ops > 0.0)
}

/// What to set.
#[derive(Clone, Debug, PartialEq)]
pub enum Recommendation {
    /// Clearly the fastest of those that are available and durable.
    Use(SyncMethod),
    /// The only durable one.
    OnlyDurable(SyncMethod),
    /// Nothing is more than 5 % better than what the server does by itself.
    KeepDefault,
    /// The table contradicts itself; no ranking can rest on it.
    Unstable(Vec<Instability>),
    /// No method makes this storage safe.
    NoneIsSafe,
    /// No durable method was measured.
    NotMeasured,
}

/// A contradiction in a table.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "each variant is documented; its fields are rates in ops/s")]
pub enum Instability {
    /// Two writes and a sync were faster than one.
    TwoFasterThanOne { method: SyncMethod, one: f64, two: f64 },
    /// `fsync` does all that `fdatasync` does, and was faster.
    FsyncFasterThanFdatasync { fsync: f64, fdatasync: f64 },
    /// The same 16 kB in more writes were faster.
    MoreWritesFaster { fewer: u32, fewer_ops_per_sec: f64, more: u32, more_ops_per_sec: f64 },
    /// The rounds of one method lie too far apart.
    Spread { method: SyncMethod, spread: f64 },
}

impl Recommendation {
    /// The method named, if one is.
    pub fn method(&self) -> Option<SyncMethod> {
        match self {
            Self::Use(method) | Self::OnlyDurable(method) => Some(*method),
            _ => None,
        }
    }

    /// For results: a valid name of `wal_sync_method`, or words that can be none.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Use(method) | Self::OnlyDurable(method) => method.name(),
            Self::KeepDefault => "keep the default",
            Self::Unstable(_) => "unstable",
            Self::NoneIsSafe => "none makes this safe",
            Self::NotMeasured => "not measured",
        }
    }
}

impl fmt::Display for Recommendation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::OnlyDurable(_) => f.write_str(", the only one that flushes the drive"),
            Self::Unstable(why) => {
                f.write_str(", no recommendation")?;
                why.iter().try_for_each(|instability| write!(f, "; {instability}"))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Instability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoFasterThanOne { method, one, two } => {
                write!(f, "{method} did two writes {}/s and one write {}/s", figure(*two), figure(*one))
            }
            Self::FsyncFasterThanFdatasync { fsync, fdatasync } => {
                write!(
                    f,
                    "fsync did {}/s and fdatasync, which does less, {}/s",
                    figure(*fsync),
                    figure(*fdatasync)
                )
            }
            Self::MoreWritesFaster { fewer, fewer_ops_per_sec, more, more_ops_per_sec } => write!(
                f,
                "16 kB in {more} writes {}/s and in {fewer} {}/s",
                figure(*more_ops_per_sec),
                figure(*fewer_ops_per_sec)
            ),
            Self::Spread { method, spread } => {
                write!(f, "rounds of {method} differ by {:.0} %", spread * 100.0)
            }
        }
    }
}

/// Where a table contradicts itself.
pub fn instabilities(rates: &Rates) -> Vec<Instability> {
    let two_faster = rates.one.iter().filter_map(|rate| {
        let (method, one) = (rate.method, rate.ops_per_sec);
        let two = rates.of_two(method)?;
        (two > one * INVERSION).then_some(Instability::TwoFasterThanOne { method, one, two })
    });
    let spread = rates.one.iter().chain(&rates.two).filter_map(|rate| {
        let spread = rate.spread.filter(|spread| *spread > MOST_SPREAD)?;
        Some(Instability::Spread { method: rate.method, spread })
    });
    let sizes = rates.sizes.windows(2).filter_map(|pair| {
        let [(fewer, fewer_ops_per_sec), (more, more_ops_per_sec)] = [pair[0], pair[1]];
        (more > fewer && more_ops_per_sec > fewer_ops_per_sec * INVERSION)
            .then_some(Instability::MoreWritesFaster { fewer, fewer_ops_per_sec, more, more_ops_per_sec })
    });
    let syncs = (rates.of_one(SyncMethod::Fsync), rates.of_one(SyncMethod::Fdatasync));
    let more_faster = match syncs {
        (Some(fsync), Some(fdatasync)) if fsync > fdatasync * INVERSION => {
            Some(Instability::FsyncFasterThanFdatasync { fsync, fdatasync })
        }
        _ => None,
    };
    two_faster.chain(more_faster).chain(sizes).chain(spread).collect()
}

/// Chooses among the methods that were measured and are `durable` here.
///
/// A commit writes one block or several, so a method's cost is that of one write and of two; where two were
/// not measured, the `open_*` methods pay for two syncs and the others for one. More than 5 % must be saved.
pub fn recommend(rates: &Rates, durable: &[SyncMethod]) -> Recommendation {
    let candidates: Vec<SyncMethod> =
        durable.iter().copied().filter(|method| rates.of_one(*method).is_some()).collect();
    match candidates[..] {
        [] => return Recommendation::NotMeasured,
        [only] if durable.len() == 1 => return Recommendation::OnlyDurable(only),
        _ => {}
    }
    let unstable = instabilities(rates);
    if !unstable.is_empty() {
        return Recommendation::Unstable(unstable);
    }
    let cost = |method: SyncMethod| {
        let one = rates.of_one(method).map_or(f64::INFINITY, |one| 1.0 / one);
        let two_syncs = if method.is_open() { 2.0 * one } else { one };
        one + rates.of_two(method).map_or(two_syncs, |two| 1.0 / two)
    };
    let mut by_cost = candidates;
    by_cost.sort_by(|a, b| cost(*a).total_cmp(&cost(*b)));
    let best = by_cost[0];
    let rival = rates.default.filter(|method| by_cost.contains(method)).or_else(|| by_cost.get(1).copied());
    match rival {
        Some(rival) if cost(rival) > cost(best) * ALIKE => Recommendation::Use(best),
        _ => Recommendation::KeepDefault,
    }
}
