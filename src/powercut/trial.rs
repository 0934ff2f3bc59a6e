//! One section's images, judged by all workers and counted in order.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use super::blocks::{Blocks, View};
use super::crew::Crew;
use super::cuts::{Cuts, Image, Torn};
use super::error::Error;
use super::ground::Ground;
use super::judge::{Finding, Scene, Verdict};
use super::ledger::Promised;
use super::stage::{Judged, Stage};
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

/// A verdict, and whether something promised has it.
type Key = (bool, Verdict);

/// Images that are alike: they lack the same, between the same two requests and acknowledgements. One is mounted for all.
type Alike = Vec<Image>;

/// What came of an image, as far as it is counted.
#[derive(Debug)]
struct Outcome {
    /// The worst of what was promised, and of everything.
    promised: Verdict,
    fact: Verdict,
    /// All data that are found are right; every name is found.
    data_kept: bool,
    names_kept: bool,
    /// The first finding of each kind.
    firsts: BTreeMap<Key, Finding>,
}

/// Most images tried to make an example smaller.
const SHRINKING: usize = 40;

impl<'a> Trial<'a> {
    /// Nothing is judged yet.
    pub fn new(
        section: &'a Section,
        base: Blocks,
        cuts: &'a Cuts<'a>,
        scene: Scene<'a>,
        claim: Promise,
    ) -> Trial<'a> {
        Trial { section, base, cuts, scene, claim }
    }

    /// Judges images, given cut by cut (best in order), until `enough` says so, time is up or there is no more: about
    /// `total`, as is told to `watch`.
    pub fn run(
        &self,
        cuts: impl IntoIterator<Item = Vec<Image>>,
        total: usize,
        crew: &mut Crew,
        watch: &dyn Watch,
        enough: impl Fn(&Tally) -> bool,
    ) -> Result<Tally, Error> {
        let mut tally = Tally { complete: true, ..Tally::default() };
        watch.event(Event::Phase(Phase::Verifying));
        let work = |alike: &Alike, ground: &mut Ground<'_>, stage: &mut Stage| {
            self.outcome(&alike[0], ground, stage)
        };
        crew.work(
            self.alike(cuts.into_iter()),
            || self.ground(),
            work,
            |alike, outcome| {
                if watch.stop().is_some() {
                    tally.complete = false;
                    return ControlFlow::Break(());
                }
                for image in &alike {
                    self.count(&mut tally, image, &outcome);
                    if enough(&tally) {
                        return ControlFlow::Break(());
                    }
                }
                watch.event(Event::Progress { done: tally.images(), total: total as u64, unit: Unit::Files });
                ControlFlow::Continue(())
            },
        )?;
        self.make_examples_small(&mut tally, crew, watch)?;
        Ok(tally)
    }

    /// Judges one image.
    pub fn judge(&self, image: &Image, stage: &mut Stage) -> Result<Judged, Error> {
        self.judge_on(&mut self.ground(), image, stage)
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

    /// Puts images together that are alike, in the order of the first of each.
    fn alike(&self, cuts: impl Iterator<Item = Vec<Image>>) -> impl Iterator<Item = Alike> {
        let before = |images: &Vec<Image>| {
            let cut = images.first().map_or(0, |image| image.cut);
            let arrived = self.section.requests.partition_point(|logged| logged.arrived < cut);
            (arrived, self.section.acks.partition_point(|(position, _)| *position < cut))
        };
        let mut cuts = cuts.peekable();
        let groups = std::iter::from_fn(move || {
            let first = cuts.next()?;
            let place = before(&first);
            let mut group: Vec<Alike> = Vec::new();
            let mut known: HashMap<(Vec<usize>, Option<Torn>), usize> = HashMap::new();
            let mut next = Some(first);
            while let Some(images) = next {
                for image in images {
                    let number = *known.entry((image.missing.clone(), image.torn)).or_insert(group.len());
                    match group.get_mut(number) {
                        Some(alike) => alike.push(image),
                        None => group.push(vec![image]),
                    }
                }
                next = cuts.next_if(|images| before(images) == place);
            }
            Some(group)
        });
        groups.flatten()
    }

    fn ground(&self) -> Ground<'_> {
        Ground::new(self.section, &self.base)
    }

    fn judge_on(&self, ground: &mut Ground<'_>, image: &Image, stage: &mut Stage) -> Result<Judged, Error> {
        ground.lay_certain(self.cuts, image.cut);
        let view = View { base: ground.blocks(), changed: &ground.above(image) };
        stage.judge(view, &self.scene, &self.promised(image.cut))
    }

    fn outcome(&self, image: &Image, ground: &mut Ground<'_>, stage: &mut Stage) -> Result<Outcome, Error> {
        let judged = self.judge_on(ground, image, stage)?;
        let otherwise = if judged.repaired { Verdict::NeedsFsck } else { Verdict::Kept };
        let worst = |promised: bool| {
            let findings = judged.findings.iter().filter(|finding| finding.promised || !promised);
            findings.map(|finding| finding.verdict).max().unwrap_or(otherwise)
        };
        let named = |finding: &Finding| finding.verdict == Verdict::NameLost;
        let mounted = judged.findings.iter().all(|finding| finding.verdict != Verdict::DoesNotMount);
        let (promised, fact) = (worst(true), worst(false));
        let data_kept = mounted && judged.findings.iter().all(named);
        let names_kept = mounted && !judged.findings.iter().any(named);
        let mut firsts = BTreeMap::new();
        for finding in judged.findings {
            firsts.entry((finding.promised, finding.verdict)).or_insert(finding);
        }
        Ok(Outcome { promised, fact, data_kept, names_kept, firsts })
    }

    fn count(&self, tally: &mut Tally, image: &Image, outcome: &Outcome) {
        *tally.verdicts.entry(outcome.promised).or_default() += 1;
        *(if image.random { &mut tally.random } else { &mut tally.aimed }) += 1;
        let finished = self.section.done().is_some_and(|done| done < image.cut);
        if image.random && finished {
            *tally.in_fact.entry(outcome.fact).or_default() += 1;
            tally.data_kept += u64::from(outcome.data_kept);
            tally.names_kept += u64::from(outcome.names_kept);
        }
        for (key, finding) in &outcome.firsts {
            // What is not promised is worth an example only once it was acknowledged as finished.
            if (finding.promised || finished) && !tally.examples.contains_key(key) {
                let example = Example { finding: finding.clone(), image: image.clone() };
                tally.examples.insert(*key, example);
            }
        }
    }

    fn make_examples_small(
        &self,
        tally: &mut Tally,
        crew: &mut Crew,
        watch: &dyn Watch,
    ) -> Result<(), Error> {
        let examples: Vec<(Key, Example)> =
            tally.examples.iter().map(|(key, example)| (*key, example.clone())).collect();
        crew.work(
            examples.into_iter(),
            || self.ground(),
            |(key, example), ground, stage| self.smallest(example, *key, ground, stage),
            |(key, _), smallest| {
                tally.examples.insert(key, smallest);
                if watch.stop().is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        )
    }

    /// Puts back what is missing, half, a quarter, one request at a time, as long as the verdict stays.
    fn smallest(
        &self,
        example: &Example,
        key: Key,
        ground: &mut Ground<'_>,
        stage: &mut Stage,
    ) -> Result<Example, Error> {
        let mut smallest = example.clone();
        let mut shows = |image: Image| -> Result<Option<Example>, Error> {
            let outcome = self.outcome(&image, ground, stage)?;
            Ok(outcome.firsts.get(&key).map(|finding| Example { finding: finding.clone(), image }))
        };
        let whole = Image { missing: Vec::new(), torn: None, ..smallest.image.clone() };
        if whole == smallest.image {
            return Ok(smallest);
        }
        if let Some(whole) = shows(whole)? {
            return Ok(whole);
        }
        let mut step = smallest.image.missing.len().div_ceil(2);
        let mut tried = 0;
        while step > 0 && tried < SHRINKING {
            let mut at = 0;
            while at < smallest.image.missing.len() && tried < SHRINKING {
                let mut candidate = smallest.image.clone();
                candidate.missing.drain(at..(at + step).min(candidate.missing.len()));
                tried += 1;
                match shows(candidate)? {
                    Some(smaller) => smallest = smaller,
                    None => at += step,
                }
            }
            step = if step == 1 { 0 } else { step.div_ceil(2) };
        }
        Ok(smallest)
    }
}
