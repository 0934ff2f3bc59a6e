//! How the library tells what it is doing, and learns that it should stop. The command line implements [`Watch`]; the
//! library reports to it and asks it between files.

use std::fmt;
use std::time::Duration;

use super::clock::now_ns;

/// Who looks on.
pub trait Watch: Sync {
    /// Something happened. Must be cheap: it is called between files, though outside the clock only.
    fn event(&self, event: Event<'_>);
    /// Whether to stop, asked between files: what was begun is then undone, what was measured is kept.
    fn stop(&self) -> Option<Stop>;
}

/// Why a run stops before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A signal asked for it.
    Signal(i32),
    /// `--time-limit` was reached.
    TimeLimit,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal(signal) => match nix::sys::signal::Signal::try_from(*signal) {
                Ok(known) => f.pad(known.as_str()),
                Err(_) => write!(f, "signal {signal}"),
            },
            Self::TimeLimit => f.pad("time limit reached"),
        }
    }
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// A source is made from a shape, or staged.
    Making,
    /// The device is not idle yet.
    Settling,
    /// A copy is made.
    Copying,
    /// pgbench or a restore is at work.
    Running,
    /// Writeback of all files is started, in a pass of its own.
    Hinting,
    /// Files and directories are synced.
    Syncing,
    /// A copy is compared with its source.
    Verifying,
    /// A copy is removed.
    Removing,
    /// The results file is replaced.
    WritingResults,
    /// What the run made is undone.
    Undoing,
}

impl Phase {
    /// Every phase.
    pub const ALL: [Self; 10] = [
        Self::Making,
        Self::Settling,
        Self::Copying,
        Self::Running,
        Self::Hinting,
        Self::Syncing,
        Self::Verifying,
        Self::Removing,
        Self::WritingResults,
        Self::Undoing,
    ];

    /// In kebab-case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Making => "making",
            Self::Settling => "settling",
            Self::Copying => "copying",
            Self::Running => "running",
            Self::Hinting => "hinting",
            Self::Syncing => "syncing",
            Self::Verifying => "verifying",
            Self::Removing => "removing",
            Self::WritingResults => "writing-results",
            Self::Undoing => "undoing",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What is counted in a [`Event::Progress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Regular files.
    Files,
    /// Bytes.
    Bytes,
}

/// What the library tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A round begins; rounds count from 1, warm-ups included.
    Round {
        /// This one.
        round: u32,
        /// How many there will be.
        rounds: u32,
    },
    /// A trial begins.
    Trial {
        /// The arm's name.
        arm: &'a str,
        /// Its position within the round, from 1.
        position: u32,
        /// How many arms this round has.
        positions: u32,
    },
    /// The trial is over.
    TrialDone {
        /// The arm's name.
        arm: &'a str,
        /// What it took, in nanoseconds; absent where it failed.
        elapsed_ns: Option<u64>,
    },
    /// A phase begins.
    Phase(Phase),
    /// How far the phase has come.
    Progress {
        /// Of `total`.
        done: u64,
        /// When the phase is over.
        total: u64,
        /// What is counted.
        unit: Unit,
    },
    /// A line for the reader.
    Note(&'a str),
}

/// Nobody looks on, and nobody says stop.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Watch for Quiet {
    fn event(&self, _event: Event<'_>) {}

    fn stop(&self) -> Option<Stop> {
        None
    }
}

/// A point in time after which something stops, by the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    end_ns: u64,
}

impl Deadline {
    /// So long from now; one beyond 580 years is never reached.
    pub fn after(limit: Duration) -> Self {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Self { end_ns: now_ns().saturating_add(limit_ns) }
    }

    /// Whether it has passed.
    pub fn reached(self) -> bool {
        now_ns() >= self.end_ns
    }

    /// What is left; zero once it has passed.
    pub fn left(self) -> Duration {
        Duration::from_nanos(self.end_ns.saturating_sub(now_ns()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_reached_when_its_time_is_over_and_never_if_that_is_for_ever() {
        let now = Deadline::after(Duration::ZERO);
        assert!(now.reached());
        assert_eq!(now.left(), Duration::ZERO);
        assert!(!Deadline::after(Duration::MAX).reached());
        assert!(Deadline::after(Duration::from_mins(1)).left() > Duration::from_secs(50));
    }

    #[test]
    fn a_stop_says_who_asked() {
        assert_eq!(Stop::Signal(libc::SIGTERM).to_string(), "SIGTERM");
        assert_eq!(Stop::TimeLimit.to_string(), "time limit reached");
    }
}
