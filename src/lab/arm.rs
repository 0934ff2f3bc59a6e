//! The seam between what is measured and how often, in what order.

use std::collections::BTreeMap;

use crate::results::{Bystander, Failed, Labels, Note, Promise, Refused, Sample};
use crate::stats::Percentiles;

/// The label of a second copy of the baseline (`--aa`). It shows what the run calls a difference where there is none.
pub const CONTROL: &str = "control";

/// The value of [`CONTROL`].
pub const AA: &str = "A/A";

/// One timed execution of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// From 1, warm-ups included.
    pub round: u32,
    /// Within the round, from 1.
    pub position: u32,
    /// A warm-up: kept in the document, never used.
    pub ignored: bool,
    /// For the arm's own random choices; follows from the run's seed and the round, equal for all arms of a round.
    pub seed: u64,
}

impl Trial {
    /// A sample that carries this trial's place in the run and nothing else yet.
    pub fn sample(&self) -> Sample {
        Sample { round: self.round, position: self.position, ignored: self.ignored, ..Sample::default() }
    }
}

/// Why a trial did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The arm failed: its rounds end, the others go on.
    Failed(Failed),
    /// The run was told to stop while the trial went on: the trial is void, and so is the rest of the run.
    Stopped,
}

impl From<Failed> for Halt {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

/// One thing compared in a run. The conductor calls `prepare`, `run`, `check`, `clear` in this order; `clear` also after
/// any of the three has failed, so that nothing of a trial outlives it.
pub trait Arm {
    /// What tells this arm from the others; the kind's first label first.
    fn labels(&self) -> Labels;
    /// The words for its line in a table, where its labels are keys.
    fn title(&self) -> Option<String> {
        None
    }
    /// What a finished trial claims, as far as is known by now; a trial may have lowered it.
    fn promise(&self) -> Option<Promise>;
    /// Why this arm cannot be here; such an arm is shown and never run.
    fn refused(&self) -> Option<Refused>;
    /// What must be so before the clock starts.
    fn prepare(&mut self, trial: &Trial) -> Result<(), Halt>;
    /// What is timed.
    fn run(&mut self, trial: &Trial) -> Result<Sample, Halt>;
    /// Whether the result is right; outside the clock.
    fn check(&mut self, trial: &Trial) -> Result<(), Halt>;
    /// Removes what the trial made; outside the clock.
    fn clear(&mut self, trial: &Trial) -> Result<(), Halt>;
    /// Latency of each kind of sync over the trials that are not ignored.
    fn latency(&self) -> BTreeMap<String, Percentiles>;
    /// What somebody else felt beside the trials that are not ignored, where there was somebody.
    fn bystander(&self) -> Option<Bystander> {
        None
    }
    /// Whether its trials did the same work as those of other arms, as far as is known by now.
    fn comparable(&self) -> bool {
        true
    }
    /// What a reader must know of this arm's trials.
    fn notes(&self) -> Vec<Note>;
}
