//! One section's images, judged one after the other.

use std::collections::{BTreeMap, HashMap};

use super::blocks::{Blocks, View};
use super::cuts::{Cuts, Image, Torn};
use super::error::Error;
use super::judge::{Finding, Scene, Verdict};
use super::ledger::Promised;
use super::stage::{Judged, Stage, lay};
use super::tape::Section;
use crate::results::Promise;
use crate::sys::watch::{Event, Phase, Unit, Watch};

/// A section ready to be cut.
#[derive(Debug)]
pub struct Trial<'a> {
    /// What happened.
    pub section: &'a Section,
    /// What was on the drive before.
    pub base: Blocks,
    /// What its cuts may leave.
    pub cuts: &'a Cuts<'a>,
    /// What should be there.
    pub scene: Scene<'a>,
    /// What a finished copy claims.
    pub claim: Promise,
    /// Requests that are in the base.
    laid: usize,
}

/// How a thing that is not as promised, or not as written, can be seen again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// What is wrong.
    pub finding: Finding,
    /// On which image; nothing more can be left out of what it lacks.
    pub image: Image,
}

/// What came of a section's images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Images judged by whether what was promised is there; the worst of each counts.
    pub verdicts: BTreeMap<Verdict, u64>,
    /// Images at random cuts after the end of the copy, by whether the whole copy is there, whatever was promised.
    pub in_fact: BTreeMap<Verdict, u64>,
    /// Of these, images on which all data that are found are right.
    pub data_kept: u64,
    /// Of these, images on which every name is found.
    pub names_kept: u64,
    /// Images at random cuts.
    pub random: u64,
    /// Images at aimed cuts.
    pub aimed: u64,
    /// The smallest example of each verdict: of a broken promise, else of what was not promised.
    pub examples: BTreeMap<(bool, Verdict), Example>,
    /// False where time was up.
    pub complete: bool,
}

impl Tally {
    /// Images on which something promised is not there.
    pub fn broken(&self) -> u64 {
        let kept = [Verdict::Kept, Verdict::NeedsFsck];
        self.verdicts.iter().filter(|(verdict, _)| !kept.contains(verdict)).map(|(_, count)| count).sum()
    }

    /// Adds what came of other images.
    pub fn absorb(&mut self, other: Tally) {
        for (into, from) in [(&mut self.verdicts, other.verdicts), (&mut self.in_fact, other.in_fact)] {
            for (verdict, count) in from {
                *into.entry(verdict).or_default() += count;
            }
        }
        self.data_kept += other.data_kept;
        self.names_kept += other.names_kept;
        self.random += other.random;
        self.aimed += other.aimed;
        self.complete &= other.complete;
        for (key, example) in other.examples {
            self.examples.entry(key).or_insert(example);
        }
    }

    /// Images judged.
    pub fn images(&self) -> u64 {
        self.random + self.aimed
    }
}

/// Images between two requests are alike where they lack the same: each is mounted once.
#[derive(Debug, Default)]
struct Seen {
    /// Requests and acknowledgements before the cut.
    before: (usize, usize),
    judged: HashMap<(Vec<usize>, Option<Torn>), Judged>,
}

impl Seen {
    fn find(&mut self, section: &Section, image: &Image) -> Option<Judged> {
        let arrived = section.requests.partition_point(|logged| logged.arrived < image.cut);
        let acknowledged = section.acks.partition_point(|(position, _)| *position < image.cut);
        if self.before != (arrived, acknowledged) {
            self.before = (arrived, acknowledged);
            self.judged.clear();
        }
        self.judged.get(&(image.missing.clone(), image.torn)).cloned()
    }

    fn keep(&mut self, image: &Image, judged: Judged) -> Judged {
        self.judged.insert((image.missing.clone(), image.torn), judged.clone());
        judged
    }
}

/// Most images tried to make an example smaller.
const SHRINKING: usize = 40;

impl<'a> Trial<'a> {
    /// Nothing is laid yet.
    pub fn new(
        section: &'a Section,
        base: Blocks,
        cuts: &'a Cuts<'a>,
        scene: Scene<'a>,
        claim: Promise,
    ) -> Trial<'a> {
        Trial { section, base, cuts, scene, claim, laid: 0 }
    }

    /// Judges images, given cut by cut in order, until `enough` says so, time is up or there is no more. `total` cuts are
    /// told to `watch`.
    pub fn run(
        &mut self,
        cuts: impl IntoIterator<Item = Vec<Image>>,
        total: usize,
        stage: &mut Stage,
        watch: &dyn Watch,
        enough: impl Fn(&Tally) -> bool,
    ) -> Result<Tally, Error> {
        let mut tally = Tally::default();
        watch.event(Event::Phase(Phase::Verifying));
        let mut seen = Seen::default();
        for (done, images) in (1..).zip(cuts) {
            self.lay_certain(images.first().map_or(0, |image| image.cut));
            for image in &images {
                if watch.stop().is_some() {
                    return Ok(tally);
                }
                let judged = match seen.find(self.section, image) {
                    Some(judged) => judged,
                    None => seen.keep(image, self.judge(image, stage)?),
                };
                self.count(&mut tally, image, &judged, stage)?;
                if enough(&tally) {
                    return Ok(Tally { complete: true, ..tally });
                }
            }
            watch.event(Event::Progress { done, total: total as u64, unit: Unit::Files });
        }
        Ok(Tally { complete: true, ..tally })
    }

    /// Judges one image. Its cut is not before that of the last one.
    pub fn judge(&self, image: &Image, stage: &mut Stage) -> Result<Judged, Error> {
        let mut changed = Blocks::default();
        lay(&mut changed, &self.base, self.section, image, self.laid);
        let view = View { base: &self.base, changed: &changed };
        stage.judge(view, &self.scene, &self.promised(image.cut))
    }

    /// What had been acknowledged by a cut.
    pub fn promised(&self, cut: usize) -> Promised {
        let tree = self.scene.tree;
        let mut promised = Promised::nothing(self.claim, tree.files.len(), tree.directories.len());
        for (_, ack) in self.section.acks.iter().filter(|(position, _)| *position < cut) {
            promised.add(*ack);
        }
        promised
    }

    /// Lays every request before the first that this cut may take.
    fn lay_certain(&mut self, cut: usize) {
        let arrived = self.section.requests.partition_point(|logged| logged.arrived < cut);
        let first = self.cuts.volatile(cut).first().copied().unwrap_or(arrived);
        for logged in self.section.requests.get(self.laid..first).unwrap_or_default() {
            if logged.changes() {
                let (start, end) = logged.range();
                self.base.write(None, start, end - start, logged.data.as_deref());
            }
        }
        self.laid = self.laid.max(first);
    }

    fn count(
        &self,
        tally: &mut Tally,
        image: &Image,
        judged: &Judged,
        stage: &mut Stage,
    ) -> Result<(), Error> {
        let otherwise = if judged.repaired { Verdict::NeedsFsck } else { Verdict::Kept };
        let worst = |promised: bool| {
            let findings = judged.findings.iter().filter(|finding| finding.promised || !promised);
            findings.map(|finding| finding.verdict).max().unwrap_or(otherwise)
        };
        *tally.verdicts.entry(worst(true)).or_default() += 1;
        *(if image.random { &mut tally.random } else { &mut tally.aimed }) += 1;
        let finished = self.section.done().is_some_and(|done| done < image.cut);
        if image.random && finished {
            *tally.in_fact.entry(worst(false)).or_default() += 1;
            let named = |finding: &Finding| finding.verdict == Verdict::NameLost;
            let mounted = judged.findings.iter().all(|finding| finding.verdict != Verdict::DoesNotMount);
            tally.data_kept += u64::from(mounted && judged.findings.iter().all(named));
            tally.names_kept += u64::from(mounted && !judged.findings.iter().any(named));
        }
        for finding in &judged.findings {
            // What is not promised is worth an example only once it was acknowledged as finished.
            let key = (finding.promised, finding.verdict);
            if !tally.examples.contains_key(&key) && (finding.promised || finished) {
                let image = self.smallest(image, key, stage)?;
                tally.examples.insert(key, Example { finding: finding.clone(), image });
            }
        }
        Ok(())
    }

    /// Puts back what is missing, one request after the other, as long as the verdict stays.
    fn smallest(&self, image: &Image, key: (bool, Verdict), stage: &mut Stage) -> Result<Image, Error> {
        let mut smallest = image.clone();
        let mut shows = |candidate: &Image| -> Result<bool, Error> {
            let judged = self.judge(candidate, stage)?;
            Ok(judged.findings.iter().any(|finding| (finding.promised, finding.verdict) == key))
        };
        let whole = Image { missing: Vec::new(), torn: None, ..image.clone() };
        if whole == smallest {
            return Ok(smallest);
        }
        if shows(&whole)? {
            return Ok(whole);
        }
        let mut step = smallest.missing.len().div_ceil(2);
        let mut tried = 0;
        while step > 0 && tried < SHRINKING {
            let mut at = 0;
            while at < smallest.missing.len() && tried < SHRINKING {
                let mut candidate = smallest.clone();
                candidate.missing.drain(at..(at + step).min(candidate.missing.len()));
                tried += 1;
                if candidate.missing != smallest.missing && shows(&candidate)? {
                    smallest = candidate;
                } else {
                    at += step;
                }
            }
            step = if step == 1 { 0 } else { step.div_ceil(2) };
        }
        Ok(smallest)
    }
}
