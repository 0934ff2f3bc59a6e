//! What a power cut may leave: the fault model, in words and in code. Pure; the same seed gives the same images.
//!
//! A cut is a position in the write log: what stands before it has happened. Then
//! - with a volatile cache and flushes honoured, every write that completed before the last completed flush **arrived**
//!   is there; each later one, complete or under way, may be there, absent or torn;
//! - without a volatile cache (off, or backed by a battery) every completed write is there; each that is under way may be
//!   there, absent or torn;
//! - with flushes ignored a completed write is certain only once the model has destaged it. (One that a newer write has
//!   replaced in the cache counts as destaged.)
//!
//! A discard is a write of zeros. A torn write leaves one contiguous part of it, in whole atomic units of the drive.
//! Writes that are there were applied in the order of their arrival. An acknowledgement counts if it came before the first
//! request that is not part of the cut had arrived. What came before the section is there: the file system was synced then.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use rand::seq::IteratorRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::tape::Section;
use crate::simdrive::model::{Drive, Flush, Model, Operation, Options};

/// Epochs of so many volatile writes are tried in all combinations.
pub const EXHAUSTIVE_WRITES: usize = 12;
/// Most images of one cut: all combinations of such an epoch, and as many tears.
const MOST_OF_ONE: usize = 2 << EXHAUSTIVE_WRITES;
/// Above that, at most so many writes are each left out alone, …
const ALONE: usize = 48;
/// … and so many combinations and tears are drawn.
const DRAWN: usize = 16;

/// What makes a write certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certain {
    /// A flush that arrived after it completed.
    Flushed,
    /// Its completion.
    Completed,
    /// The mechanism.
    Destaged,
    /// Nothing: as with a drive that ignores flushes and has not destaged anything.
    Nothing,
    /// Its arrival: the volatile set is always empty. No drive is so; a checker that notices nothing then is blind.
    Arrived,
}

/// A section with what is needed to say what is certain at a cut.
#[derive(Debug)]
pub struct Cuts<'a> {
    section: &'a Section,
    certain: Certain,
    unit_bytes: u64,
    /// For each request the position from which on it is certain, whatever flushes say.
    settled: Vec<Option<usize>>,
}

/// A torn request: what is left of it, in bytes from its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Torn {
    /// Its number within the section.
    pub request: usize,
    /// First byte that is there.
    pub start_bytes: u64,
    /// First byte after those.
    pub end_bytes: u64,
}

/// What may be left after a cut.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Image {
    /// Position of the cut.
    pub cut: usize,
    /// Requests that are not there, by number within the section, ascending.
    pub missing: Vec<usize>,
    /// A request of which only a part is there.
    pub torn: Option<Torn>,
    /// Drawn at random, in place of aimed at a flush.
    pub random: bool,
}

impl<'a> Cuts<'a> {
    /// Looks at a section of a drive's log.
    pub fn new(section: &'a Section, certain: Certain, drive: (&Model, &Options)) -> Cuts<'a> {
        let requests = section.requests.iter();
        let settled = match certain {
            Certain::Arrived => requests.map(|request| Some(request.arrived)).collect(),
            Certain::Completed => requests.map(|request| request.completed).collect(),
            Certain::Flushed | Certain::Nothing => vec![None; section.requests.len()],
            Certain::Destaged => destaged(section, drive.0, drive.1),
        };
        let unit_bytes = u64::from(drive.0.atomic_unit_bytes);
        Cuts { section, certain, unit_bytes, settled }
    }

    /// What a drive of this model, set up so, makes certain.
    pub fn certain_on(model: &Model, options: &Options) -> Certain {
        match options.flush {
            _ if !model.write_back(options) => Certain::Completed,
            Flush::Honest => Certain::Flushed,
            Flush::Ignored => Certain::Destaged,
        }
    }

    /// The requests that a cut may take, in order of arrival.
    pub fn volatile(&self, cut: usize) -> Vec<usize> {
        let flush = self.last_flush(cut);
        let requests = self.section.requests.iter().enumerate();
        let before = requests.take_while(|(_, request)| request.arrived < cut);
        let taken = before.filter(|(number, request)| {
            let settled = self.settled[*number].is_some_and(|position| position < cut);
            let flushed = request.completed.is_some_and(|completed| Some(completed) < flush);
            request.changes() && !settled && !flushed
        });
        taken.map(|(number, _)| number).collect()
    }

    /// Arrival of the last flush that counts and completed before the cut.
    fn last_flush(&self, cut: usize) -> Option<usize> {
        let flushes = self.section.requests.iter().filter(|request| {
            request.request.operation == Operation::Flush && request.completed.is_some_and(|done| done < cut)
        });
        let counts = self.certain == Certain::Flushed;
        flushes.filter(|_| counts).map(|request| request.arrived).max()
    }

    /// Cuts worth aiming at: directly before and after each flush completes, and at each acknowledgement.
    pub fn boundaries(&self) -> Vec<usize> {
        let flushes = self.section.requests.iter().filter(|one| one.request.operation == Operation::Flush);
        let flushes = flushes.filter_map(|flush| flush.completed).flat_map(|done| [done, done + 1]);
        let acks = self.section.acks.iter().map(|(position, _)| position + 1);
        let all: BTreeSet<usize> = flushes.chain(acks).map(|cut| self.section.settled(cut)).collect();
        all.into_iter().collect()
    }

    /// Images at every boundary in order, those of one boundary together, about `most` of them in all: where an epoch is
    /// small enough all combinations, and what these leave is for the others.
    pub fn aimed(&self, most: usize, seed: u64) -> impl Iterator<Item = Vec<Image>> + '_ {
        let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0xA1ED);
        let boundaries = self.boundaries();
        let share = self.share(&boundaries, most);
        boundaries.into_iter().map(move |cut| self.at(cut, share, &mut random))
    }

    /// How many images [`Cuts::aimed`] makes: not more than this, and hardly fewer.
    pub fn aimed_images(&self, most: usize) -> usize {
        let boundaries = self.boundaries();
        let share = self.share(&boundaries, most);
        boundaries.iter().map(|cut| share.min(self.wanted(*cut))).sum()
    }

    /// The most images of one boundary with which all have at most `most`; at least two.
    fn share(&self, boundaries: &[usize], most: usize) -> usize {
        let wanted: Vec<usize> = boundaries.iter().map(|cut| self.wanted(*cut)).collect();
        let (mut fits, mut too_many) = (2, MOST_OF_ONE + 1);
        while fits + 1 < too_many {
            let share = usize::midpoint(fits, too_many);
            if wanted.iter().map(|wanted| share.min(*wanted)).sum::<usize>() <= most {
                fits = share;
            } else {
                too_many = share;
            }
        }
        fits
    }

    /// All combinations and tears of a small epoch; of a large one as many as are drawn at most.
    fn wanted(&self, cut: usize) -> usize {
        let volatile = self.volatile(cut);
        if volatile.len() > EXHAUSTIVE_WRITES {
            return 2 + ALONE + 2 * DRAWN;
        }
        let tears = volatile.iter().map(|number| self.tears(*number).count());
        (1 << volatile.len()) + tears.sum::<usize>()
    }

    /// Images directly after the copy was acknowledged.
    pub fn at_done(&self, most: usize, seed: u64) -> Vec<Image> {
        let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0xD07E);
        let done = self.section.done().map(|position| self.section.settled(position + 1));
        done.map_or_else(Vec::new, |cut| self.at(cut, most, &mut random))
    }

    /// Every image of one cut if its epoch is small enough for that and for `most`, else a selection.
    fn at(&self, cut: usize, most: usize, random: &mut ChaCha8Rng) -> Vec<Image> {
        let volatile = self.volatile(cut);
        let image = |missing: Vec<usize>| Image { cut, missing, torn: None, random: false };
        let small = volatile.len() <= EXHAUSTIVE_WRITES;
        if small && 1 << volatile.len() <= most {
            let mut images: Vec<Image> = subsets(&volatile).map(image).collect();
            let tears = volatile.iter().flat_map(|number| self.tears(*number));
            let tears = tears.map(|torn| Image { torn: Some(torn), ..image(Vec::new()) });
            let room = most - images.len();
            images.extend(tears.sample(random, room));
            return images;
        }
        let mut images = vec![image(volatile.clone()), image(Vec::new())];
        let room = most.saturating_sub(2);
        let alone = volatile.iter().copied().sample(random, ALONE.min(room / 2));
        images.extend(alone.into_iter().map(|number| image(vec![number])));
        for _ in 0..DRAWN.min(room / 4) {
            images.push(image(half(&volatile, random)));
            images.extend(self.torn(cut, Vec::new(), &volatile, random));
        }
        images
    }

    /// `count` images at cuts drawn from `range`, each with a lot of its own.
    pub fn random(&self, range: Range<usize>, count: usize, seed: u64) -> Vec<Vec<Image>> {
        let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0xD1CE ^ (range.start as u64) << 20);
        let draw = |_| {
            let cut = self.section.settled(random.random_range(range.start..=range.end.max(range.start)));
            let volatile = self.volatile(cut);
            let image = |missing| Image { cut, missing, torn: None, random: true };
            match random.random_range(0..8) {
                0 => image(volatile),
                1 => image(Vec::new()),
                2 | 3 => image(volatile.iter().copied().choose(&mut random).into_iter().collect()),
                4 | 5 => image(half(&volatile, &mut random)),
                _ => {
                    let missing = half(&volatile, &mut random);
                    let torn = self.torn(cut, missing.clone(), &volatile, &mut random);
                    torn.map_or_else(|| image(missing), |torn| Image { random: true, ..torn })
                }
            }
        };
        let mut images: Vec<Image> = (0..count).map(draw).collect();
        images.sort();
        images.chunk_by(|one, next| one.cut == next.cut).map(<[Image]>::to_vec).collect()
    }

    /// One volatile write of several units torn at random; `None` where there is none.
    fn torn(
        &self,
        cut: usize,
        missing: Vec<usize>,
        volatile: &[usize],
        random: &mut impl Rng,
    ) -> Option<Image> {
        let long = volatile.iter().copied().filter(|number| self.units(*number) > 1);
        let number = long.choose(random)?;
        let units = self.units(number);
        let start = random.random_range(0..units);
        let end = random.random_range(start + 1..=units);
        let (start, end) = if (start, end) == (0, units) { (1, units) } else { (start, end) };
        let missing = missing.into_iter().filter(|other| *other != number).collect();
        let torn = Some(self.part(number, start..end));
        Some(Image { cut, missing, torn, random: false })
    }

    /// Every way to tear a write.
    fn tears(&self, number: usize) -> impl Iterator<Item = Torn> + '_ {
        let units = self.units(number);
        let parts = (0..units).flat_map(move |start| (start + 1..=units).map(move |end| start..end));
        parts.filter(move |part| *part != (0..units)).map(move |part| self.part(number, part))
    }

    fn part(&self, request: usize, units: Range<u64>) -> Torn {
        let (start_bytes, end_bytes) = (units.start * self.unit_bytes, units.end * self.unit_bytes);
        Torn { request, start_bytes, end_bytes }
    }

    fn units(&self, number: usize) -> u64 {
        let request = &self.section.requests[number];
        if request.request.operation == Operation::Write {
            request.request.length_bytes.div_ceil(self.unit_bytes)
        } else {
            1
        }
    }
}

/// Every subset, the whole first.
fn subsets(of: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    (0..1_usize << of.len()).rev().map(|bits| {
        of.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, number)| *number).collect()
    })
}

fn half(of: &[usize], random: &mut impl Rng) -> Vec<usize> {
    of.iter().copied().filter(|_| random.random()).collect()
}

/// For each request the position from which on the model has it on the mechanism.
fn destaged(section: &Section, model: &Model, options: &Options) -> Vec<Option<usize>> {
    let mut drive = Drive::new(model, options);
    let begin_ns = section.times_ns.first().copied().unwrap_or(0);
    let mut settled = vec![None; section.requests.len()];
    let mut arrivals = section.requests.iter().enumerate().peekable();
    let mut waiting: HashSet<usize> = HashSet::new();
    let (mut completions, mut done) = (Vec::new(), HashSet::new());
    for (position, at_ns) in section.times_ns.iter().enumerate() {
        let at_ns = at_ns - begin_ns;
        while let Some((number, logged)) = arrivals.next_if(|(_, logged)| logged.arrived <= position) {
            drive.submit(logged.request, at_ns);
            waiting.insert(number);
        }
        drive.advance(at_ns, &mut completions);
        done.extend(completions.drain(..).map(|completion| completion.id));
        let volatile: HashSet<u64> = drive.volatile().map(|extent| extent.id).collect();
        waiting.retain(|number| {
            let logged = &section.requests[*number];
            let complete = logged.completed.is_some_and(|completed| completed <= position);
            let id = logged.request.id;
            // The log may have been recorded faster than the model goes.
            if complete && done.contains(&id) && !volatile.contains(&id) {
                settled[*number] = Some(position);
                return false;
            }
            true
        });
    }
    settled
}

#[cfg(test)]
mod tests;
