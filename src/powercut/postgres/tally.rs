//! What is found on the images of a server, counted.

use std::collections::BTreeMap;
use std::fmt;

use super::check::Checked;
use crate::powercut::cuts::Image;

/// What came of one image, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Everything that was acknowledged is there, and nothing is damaged.
    Kept,
    /// The same, but the file system had to be repaired before it could be mounted.
    NeedsFsck,
    /// Something that was acknowledged is not there.
    Lost,
    /// Something that is there is wrong.
    Corrupt,
    /// The server does not start.
    DoesNotStart,
    /// The file system cannot be mounted, not even after repair.
    DoesNotMount,
}

impl Verdict {
    /// In kebab-case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::NeedsFsck => "needs-fsck",
            Self::Lost => "lost",
            Self::Corrupt => "corrupt",
            Self::DoesNotStart => "does-not-start",
            Self::DoesNotMount => "does-not-mount",
        }
    }

    /// Nothing that was promised is missing.
    pub const fn is_kept(self) -> bool {
        matches!(self, Self::Kept | Self::NeedsFsck)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One thing that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub verdict: Verdict,
    /// Where: `accounts`, `database plug_2`, `server`.
    pub what: String,
    /// In a sentence, the server's own where it said one.
    pub detail: String,
}

/// An image that shows something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// What.
    pub finding: Finding,
    /// The image.
    pub image: Image,
}

/// What came of the images of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All images, by the worst on each.
    pub verdicts: BTreeMap<Verdict, u64>,
    /// Images at random cuts.
    pub random: u64,
    /// Images at aimed cuts.
    pub aimed: u64,
    /// Each recovery's time, in nanoseconds, in ascending order.
    pub recovery_ns: Vec<u64>,
    /// Images on which commits with `synchronous_commit=off` that had been acknowledged are not there.
    pub unsynced_cuts: u64,
    /// The most such commits on one image.
    pub unsynced_most: u64,
    /// The first image of each verdict, those with the least missing first.
    pub examples: BTreeMap<Verdict, Example>,
}

impl Tally {
    /// Counts images, whatever their order.
    pub fn of(judged: Vec<(Image, Checked)>) -> Self {
        let mut judged = judged;
        judged.sort_by(|(one, _), (other, _)| {
            (one.missing.len(), one.torn, one).cmp(&(other.missing.len(), other.torn, other))
        });
        let mut tally = Self::default();
        for (image, checked) in judged {
            *tally.verdicts.entry(checked.verdict()).or_default() += 1;
            *(if image.random { &mut tally.random } else { &mut tally.aimed }) += 1;
            tally.recovery_ns.extend(checked.recovery_ns);
            tally.unsynced_cuts += u64::from(checked.unsynced > 0);
            tally.unsynced_most = tally.unsynced_most.max(checked.unsynced);
            for finding in checked.findings {
                let example = || Example { finding: finding.clone(), image: image.clone() };
                tally.examples.entry(finding.verdict).or_insert_with(example);
            }
        }
        tally.recovery_ns.sort_unstable();
        tally
    }

    /// Images on which something promised is missing or damaged.
    pub fn broken(&self) -> u64 {
        self.verdicts.iter().filter(|(verdict, _)| !verdict.is_kept()).map(|(_, count)| count).sum()
    }

    /// Images judged.
    pub fn images(&self) -> u64 {
        self.random + self.aimed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_an_image_counts_and_the_example_lacks_the_least() {
        let image = |cut, missing, random| Image { cut, missing, torn: None, random };
        let finding = |verdict, what: &str| Finding { verdict, what: what.to_owned(), detail: String::new() };
        let lost = finding(Verdict::Lost, "much");
        let both = vec![finding(Verdict::Lost, "little"), finding(Verdict::Corrupt, "x")];
        let checked = |findings| Checked { findings, recovery_ns: Some(7), ..Checked::default() };
        let tally = Tally::of(vec![
            (image(5, vec![1, 2], true), checked(vec![lost])),
            (image(9, vec![3], false), checked(both)),
            (image(7, vec![], true), Checked { repaired: true, unsynced: 3, ..checked(vec![]) }),
        ]);
        let counts: Vec<_> = tally.verdicts.iter().map(|(verdict, count)| (verdict.name(), *count)).collect();
        assert_eq!(counts, [("needs-fsck", 1), ("lost", 1), ("corrupt", 1)]);
        assert_eq!((tally.random, tally.aimed, tally.broken()), (2, 1, 2));
        assert_eq!(tally.examples[&Verdict::Lost].finding.what, "little");
        assert_eq!((tally.unsynced_cuts, tally.unsynced_most, tally.recovery_ns.len()), (1, 3, 3));
    }
}
