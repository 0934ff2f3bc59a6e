//! What a finished policy claims: a contract computed from its axes, never an observation.

use std::fmt;

use serde::{Deserialize, Serialize};

/// `nothing` < `data` < `entries` < `tree`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// Nothing is claimed after a power cut.
    Nothing,
    /// Every file that is found is whole.
    Data,
    /// And every name in the new directory is found.
    Entries,
    /// And the directory's own name is found in its parent.
    Tree,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nothing => "nothing",
            Self::Data => "data",
            Self::Entries => "entries",
            Self::Tree => "tree",
        })
    }
}
