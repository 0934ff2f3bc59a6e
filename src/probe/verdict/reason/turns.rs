//! What a rate says, held against platters and devices.

use std::fmt;

use super::{figure, turns};
use crate::probe::verdict::{Attachment, CLAIM_TOLERANCE, FASTEST_RPM, FASTEST_TURNS_PER_SEC};

/// What the rate at one place says. Rates are operations a second.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    missing_docs,
    reason = "each variant is documented; its fields are rates in ops/s and what they are of"
)]
pub enum Turns {
    /// More overwrites than the fastest platter turns.
    FasterThanAnyPlatter { ops_per_sec: f64, claimed_rpm: Option<u32> },
    /// More than the claimed rate allows.
    FasterThanItsClaim { ops_per_sec: f64, rpm: u32 },
    /// More than the same drive did with its cache off.
    FasterThanItsPlateau { ops_per_sec: f64, plateau_ops_per_sec: f64 },
    /// The cache is said to be off, and yet.
    LiesOrKeeps,
    /// As with the cache off.
    AtItsPlateau { ops_per_sec: f64, plateau_ops_per_sec: f64 },
    /// No more than the claimed turns.
    WithinItsTurns { ops_per_sec: f64, rpm: u32 },
    /// More than the claim, but within what claims are off by.
    ClaimTooLow { ops_per_sec: f64, rpm: u32 },
    /// No claim, but no more than the fastest platter.
    WithinAnyTurns { ops_per_sec: f64 },
    /// No storage is so fast.
    FasterThanAnyDevice { ops_per_sec: f64 },
    /// Only pulling the plug would show it.
    OnlyAPowerCutCanTell { attachment: Attachment, ops_per_sec: f64 },
    /// The flag for rotation is only a default here.
    RotationalProvesNothing { attachment: Attachment },
    /// Flash or platter is not known.
    MediumNotKnown { ops_per_sec: f64 },
    /// The deciding line is not there.
    NotMeasured,
}

impl fmt::Display for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FasterThanAnyPlatter { ops_per_sec, claimed_rpm } => {
                over_any_platter(f, *ops_per_sec, *claimed_rpm)
            }
            Self::FasterThanItsClaim { ops_per_sec, rpm } => write!(
                f,
                "{} synced overwrites of one block a second on a disk that claims {rpm} rpm, {} turns; claims were seen to be low by a third, so {CLAIM_TOLERANCE} times would have been let pass",
                figure(*ops_per_sec),
                figure(turns(*rpm))
            ),
            Self::FasterThanItsPlateau { ops_per_sec, plateau_ops_per_sec } => write!(
                f,
                "{} synced overwrites of one block a second, where the same drive does {} with its cache off",
                figure(*ops_per_sec),
                figure(*plateau_ops_per_sec)
            ),
            Self::LiesOrKeeps => write!(
                f,
                "the drive says its cache is off: it lies, or it has a cache that it treats as durable; only a power cut can tell which"
            ),
            Self::AtItsPlateau { ops_per_sec, plateau_ops_per_sec } => write!(
                f,
                "{} synced overwrites of one block a second, no more than with the cache off ({})",
                figure(*ops_per_sec),
                figure(*plateau_ops_per_sec)
            ),
            Self::WithinItsTurns { ops_per_sec, rpm } => write!(
                f,
                "{} synced overwrites of one block a second on a disk that turns {} times ({rpm} rpm)",
                figure(*ops_per_sec),
                figure(turns(*rpm))
            ),
            Self::ClaimTooLow { ops_per_sec, rpm } => write!(
                f,
                "{} synced overwrites of one block a second: above the claimed {rpm} rpm ({} turns), as drives that turn faster than they claim show it",
                figure(*ops_per_sec),
                figure(turns(*rpm))
            ),
            Self::WithinAnyTurns { ops_per_sec } => write!(
                f,
                "{} synced overwrites of one block a second: a platter can do that (up to {FASTEST_TURNS_PER_SEC} at {FASTEST_RPM} rpm)",
                figure(*ops_per_sec)
            ),
            Self::FasterThanAnyDevice { ops_per_sec } => write!(
                f,
                "{} syncs/s, {:.1} us each: no storage answers so fast (the fastest published takes 12), so none was asked",
                figure(*ops_per_sec),
                1e6 / ops_per_sec
            ),
            Self::OnlyAPowerCutCanTell { attachment, ops_per_sec } => write!(
                f,
                "{} synced overwrites a second are possible for {}; only a power cut can tell whether they are kept",
                figure(*ops_per_sec),
                attachment.name()
            ),
            Self::RotationalProvesNothing { attachment } => write!(
                f,
                "\"rotational\" is only a default for {}: no argument from rotation",
                attachment.name()
            ),
            Self::MediumNotKnown { ops_per_sec } => write!(
                f,
                "{} synced overwrites a second, and whether this is a platter or flash is not known",
                figure(*ops_per_sec)
            ),
            Self::NotMeasured => write!(f, "the lines that the verdict needs (one8) were not measured"),
        }
    }
}

fn over_any_platter(f: &mut fmt::Formatter<'_>, ops_per_sec: f64, claimed_rpm: Option<u32>) -> fmt::Result {
    write!(f, "{} synced overwrites of one block a second on a disk", figure(ops_per_sec))?;
    match claimed_rpm {
        Some(rpm) => write!(f, " that turns {} times ({rpm} rpm); ", figure(turns(rpm)))?,
        None => write!(f, ": ")?,
    }
    write!(f, "the fastest platter ({FASTEST_RPM} rpm) turns {FASTEST_TURNS_PER_SEC} times")
}
