//! What a comparison lets us say, in one word.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{FEWEST_ROUNDS, Paired};

/// A ratio this close to 1 is 1: the rounding of logarithms, far below anything that can be measured.
const ROUNDING: f64 = 1e-9;

/// The verdict on an arm, against its baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval lies above 1: better than its baseline.
    Faster,
    /// The whole interval lies below 1.
    Slower,
    /// The interval holds 1. Not the same as equal: it may be too wide to tell.
    NoDifferenceShown,
    /// Below six rounds nothing can be shown at 95 %.
    TooFewRounds,
    /// The baseline differs from its own copy more than the arm does from it.
    Drifting,
}

impl Verdict {
    /// The word of the results file.
    pub fn code(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::NoDifferenceShown => "no-difference-shown",
            Verdict::TooFewRounds => "too-few-rounds",
            Verdict::Drifting => "drifting",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// Judges a comparison; `aa` is the baseline against its own copy in the same rounds, where there is one.
///
/// A difference smaller than that of the A/A control is not believed, whether or not chance explains the
/// control. Where no difference is shown, the control counts only if its own difference is beyond chance:
/// else every second run without an effect would be called drifting.
pub fn judge(paired: &Paired, aa: Option<&Paired>) -> Verdict {
    let seen = without_control(paired);
    let Some(aa) = aa else { return seen };
    let differs_more = aa.ratio.ln().abs() > paired.ratio.ln().abs();
    let drifting = match seen {
        Verdict::Faster | Verdict::Slower => differs_more,
        Verdict::NoDifferenceShown => {
            differs_more && matches!(without_control(aa), Verdict::Faster | Verdict::Slower)
        }
        Verdict::TooFewRounds | Verdict::Drifting => false,
    };
    if drifting { Verdict::Drifting } else { seen }
}

fn without_control(paired: &Paired) -> Verdict {
    match paired.ratio_ci95 {
        Some([low, high]) if paired.rounds >= FEWEST_ROUNDS => {
            if low > 1.0 + ROUNDING {
                Verdict::Faster
            } else if high < 1.0 - ROUNDING {
                Verdict::Slower
            } else {
                Verdict::NoDifferenceShown
            }
        }
        _ => Verdict::TooFewRounds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Better, paired};

    fn seen(ratio: f64, low: f64, high: f64) -> Paired {
        Paired { ratio, ratio_ci95: Some([low, high]), rounds: 7, wins: 4 }
    }

    #[test]
    fn the_interval_decides() {
        assert_eq!(judge(&seen(3.2, 2.9, 3.4), None), Verdict::Faster);
        assert_eq!(judge(&seen(0.9, 0.85, 0.99), None), Verdict::Slower);
        assert_eq!(judge(&seen(1.01, 0.97, 1.04), None), Verdict::NoDifferenceShown);
        assert_eq!(
            judge(&seen(1.02, 1.0, 1.04), None),
            Verdict::NoDifferenceShown,
            "1 is in the closed interval"
        );
        assert_eq!(judge(&seen(0.98, 0.95, 1.0), None), Verdict::NoDifferenceShown);
    }

    #[test]
    fn five_rounds_are_too_few_however_clear() {
        let of_rounds =
            |rounds: usize| paired(&vec![2.0; rounds], &vec![1.0; rounds], Better::Lower).expect("positive");
        assert_eq!(judge(&of_rounds(5), None), Verdict::TooFewRounds);
        assert_eq!(judge(&of_rounds(5), Some(&seen(3.0, 2.0, 4.0))), Verdict::TooFewRounds);
        assert_eq!(judge(&of_rounds(6), None), Verdict::Faster);
    }

    #[test]
    fn no_verdict_where_the_control_differs_more_than_the_effect() {
        let effect = seen(1.05, 1.02, 1.08);
        assert_eq!(judge(&effect, Some(&seen(1.01, 0.98, 1.03))), Verdict::Faster);
        assert_eq!(judge(&effect, Some(&seen(1.06, 0.95, 1.10))), Verdict::Drifting);
        assert_eq!(judge(&effect, Some(&seen(0.94, 0.90, 0.97))), Verdict::Drifting, "either way");
        assert_eq!(judge(&seen(0.95, 0.92, 0.98), Some(&seen(1.06, 1.01, 1.10))), Verdict::Drifting);
    }

    #[test]
    fn a_control_within_chance_does_not_spoil_a_null_result() {
        let null = seen(1.001, 0.97, 1.04);
        assert_eq!(judge(&null, Some(&seen(1.01, 0.99, 1.02))), Verdict::NoDifferenceShown);
        assert_eq!(judge(&null, Some(&seen(1.03, 1.01, 1.05))), Verdict::Drifting);
        let wide = seen(1.04, 0.97, 1.11);
        assert_eq!(
            judge(&wide, Some(&seen(1.03, 1.01, 1.05))),
            Verdict::NoDifferenceShown,
            "it differs less"
        );
    }

    #[test]
    fn identical_times_show_no_difference() {
        let same = paired(&[3.0; 7], &[3.0; 7], Better::Lower).expect("positive");
        assert_eq!(same.ratio_ci95, Some([1.0, 1.0]));
        assert_eq!(judge(&same, None), Verdict::NoDifferenceShown);
    }

    #[test]
    fn the_results_file_says_what_the_code_says() {
        for verdict in [
            Verdict::Faster,
            Verdict::Slower,
            Verdict::NoDifferenceShown,
            Verdict::TooFewRounds,
            Verdict::Drifting,
        ] {
            let json = serde_json::to_string(&verdict).expect("a unit variant");
            assert_eq!(json, format!("\"{verdict}\""));
        }
    }
}
