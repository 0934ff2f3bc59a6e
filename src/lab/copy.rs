//! The adapter for template copies: one way of copying, at one place, is one arm. What every trial has stands here once:
//! a quiet disk before it, counters around it, somebody else beside it, verification and removal after it. How the copy
//! itself is made is a [`Copier`]'s: a policy's or a command's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufWriter, ErrorKind, Read};
use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use nix::errno::Errno;

use super::arm::{AA, Arm, CONTROL, Halt, Trial};
use super::bystander::Bystander;
use super::copy_bench::{Bench, COPY, DIRT, Workshop, settle};
use super::copy_notes;
use super::failed::{failed_call, failed_io, failed_otherwise};
use super::source_cache::SourceCache;
use crate::replay::verify::{Verify, VerifyError, verify};
use crate::results::{self, DeviceCounters, Labels, Note, NoteCode, Promise, Refused, Sample};
use crate::simdrive::mount::REST;
use crate::stats::{self, Percentiles};
use crate::sys::kernel::{Call, Kernel};
use crate::sys::real::Real;
use crate::sys::tallied::{SYNCS, Tally};
use crate::sys::watch::{Event, Phase};

/// A neighbour writes so much at a time.
const DIRT_WRITE_BYTES: usize = 1 << 20;

/// What makes one copy, and times it.
pub(super) trait Copier {
    /// Copies the tree at `source` to `destination`, which does not exist.
    fn copy(&mut self, source: &Path, destination: &Path) -> Result<Made, Halt>;
}

/// A copy that was made.
pub(super) struct Made {
    /// When it took how long, and what for.
    pub sample: Sample,
    /// The calls in it that are ours.
    pub tally: Tally,
    /// What it claims after what was met.
    pub promise: Promise,
    /// Source files that changed meanwhile.
    pub changed: Vec<PathBuf>,
    /// What was met.
    pub notes: Vec<Note>,
}

/// A way of copying: what tells an arm from the others, and what it needs.
pub(super) struct Way<'a> {
    /// Name and value of the arm's first label.
    pub label: (&'static str, String),
    /// What it claims on a file system that refuses nothing.
    pub promise: Promise,
    /// It works on a private copy of the source.
    pub staged_source: bool,
    /// What does it, or why it cannot be here.
    pub copier: Result<Box<dyn Copier + 'a>, Refused>,
    /// Known before the first trial.
    pub notes: Vec<Note>,
}

/// A way of copying at a place.
pub(super) struct CopyArm<'a, K> {
    bench: &'a Bench<'a, K>,
    shop: &'a Workshop<'a>,
    labels: Labels,
    copier: Result<Box<dyn Copier + 'a>, Refused>,
    staged_source: bool,
    source_cache: Option<SourceCache>,
    bystander: Option<Bystander<'a, K>>,
    promise: Promise,
    latency: BTreeMap<Call, Histogram<u64>>,
    /// Source files that changed during any copy.
    changed: BTreeSet<PathBuf>,
    notes: Vec<Note>,
}

impl<'a, K: Kernel> CopyArm<'a, K> {
    pub(super) fn new(bench: &'a Bench<'a, K>, shop: &'a Workshop<'a>, way: Way<'a>) -> Self {
        let (name, value) = way.label;
        Self {
            bench,
            shop,
            labels: Labels::new().with(name, value).with("place", shop.place.id()),
            copier: way.copier,
            staged_source: way.staged_source,
            source_cache: None,
            bystander: Bystander::of(bench, shop),
            promise: shop.place.promises_at_most().map_or(way.promise, |most| most.min(way.promise)),
            latency: BTreeMap::new(),
            changed: BTreeSet::new(),
            notes: way.notes,
        }
    }

    /// The same arm as the baseline's second copy.
    #[must_use]
    pub(super) fn into_control(mut self) -> Self {
        self.labels = self.labels.with(CONTROL, AA);
        self
    }

    /// The same arm with a source whose pages are in memory, or are not, before each trial.
    #[must_use]
    pub(super) fn with_source(mut self, cache: Option<SourceCache>) -> Self {
        if let Some(cache) = cache {
            self.labels = self.labels.with(SourceCache::LABEL, cache.to_string());
        }
        self.source_cache = cache;
        self
    }

    fn source(&self) -> &'a Path {
        match &self.shop.private {
            Some(private) if self.staged_source || self.source_cache.is_some() => private,
            _ => &self.shop.source,
        }
    }

    fn destination(&self) -> PathBuf {
        self.shop.directory.join(COPY)
    }

    /// Has a neighbour write: long before the trial as writeback goes, so that nothing of it is on its way yet.
    fn dirty(&mut self) -> Result<(), Halt> {
        if let Some(bytes) = self.bench.dirty_bytes {
            let path = self.shop.directory.join(DIRT);
            dirty(&path, bytes).map_err(|error| failed_io(Call::Write, &path, error))?;
            self.note(copy_notes::dirty(bytes));
        }
        Ok(())
    }

    fn note(&mut self, note: Note) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// What tells this arm from the others at its place.
    fn title(&self) -> String {
        let labels = self.labels.iter().filter(|(name, _)| *name != "place");
        labels.map(|(_, value)| value).collect::<Vec<_>>().join(" / ")
    }

    /// Says in the write log of a simulated drive what follows.
    fn mark(&self, text: &str) -> Result<(), Halt> {
        self.shop.place.mark(text).map_err(|error| failed_otherwise(&error).into())
    }

    fn add_latency(&mut self, tally: Tally) {
        for (call, latency) in tally.latency {
            match self.latency.get_mut(&call) {
                Some(sum) => sum.add(latency).expect("histograms of equal bounds and precision"),
                None => drop(self.latency.insert(call, latency)),
            }
        }
    }

    /// With what the reader needs where the disk is full. After a failed sync nobody knows what is on disk: nothing is
    /// promised.
    fn explained(&mut self, halt: Halt) -> Halt {
        let full = [Errno::ENOSPC as i32, Errno::EDQUOT as i32];
        match halt {
            Halt::Failed(mut failed) => {
                if SYNCS.iter().any(|sync| failed.call.as_deref() == Some(sync.name())) {
                    self.promise = Promise::Nothing;
                }
                if failed.errno.is_some_and(|errno| full.contains(&errno)) {
                    failed.text += &copy_notes::full(self.shop.place, &self.destination());
                }
                Halt::Failed(failed)
            }
            Halt::Stopped => Halt::Stopped,
        }
    }
}

/// Writes a file anew and syncs nothing.
fn dirty(path: &Path, bytes: u64) -> io::Result<()> {
    io::copy(
        &mut io::repeat(1).take(bytes),
        &mut BufWriter::with_capacity(DIRT_WRITE_BYTES, fs::File::create(path)?),
    )?;
    Ok(())
}

impl<K: Kernel> Arm for CopyArm<'_, K> {
    fn labels(&self) -> Labels {
        self.labels.clone()
    }

    fn promise(&self) -> Option<Promise> {
        Some(self.promise)
    }

    fn refused(&self) -> Option<Refused> {
        self.copier.as_ref().err().cloned()
    }

    fn prepare(&mut self, trial: &Trial) -> Result<(), Halt> {
        if let Some(cache) = self.source_cache {
            cache.bring_about(self.source(), self.bench.watch)?;
        }
        if let Some(note) = settle(self.bench, self.shop)? {
            self.note(note);
        }
        self.dirty()?;
        if trial.ignored { Ok(()) } else { self.mark(&self.title()) }
    }

    fn run(&mut self, trial: &Trial) -> Result<Sample, Halt> {
        let (destination, source, place) = (self.destination(), self.source(), self.shop.place);
        let copier = self.copier.as_mut().expect("a refused arm is never run");
        let mut copy = || {
            let before = place.counters();
            let made = copier.copy(source, &destination);
            made.map(|made| (made, before.zip(place.counters())))
        };
        let result = match &mut self.bystander {
            Some(bystander) => bystander.beside(trial, copy),
            None => copy().map(|made| (made, 0)),
        };
        let ((made, counters), appends) = result.map_err(|halt| self.explained(halt))?;
        let device: Option<DeviceCounters> = counters.map(|(before, after)| after.since(before));
        self.promise = self.promise.min(made.promise);
        self.changed.extend(made.changed);
        let others = device.and_then(|device| {
            copy_notes::others(device, &self.shop.input, appends, self.bench.dirty_bytes.unwrap_or(0))
        });
        for note in made.notes.into_iter().chain(others) {
            self.note(note);
        }
        if !trial.ignored {
            self.add_latency(made.tally);
        }
        Ok(Sample {
            round: trial.round,
            position: trial.position,
            ignored: trial.ignored,
            device,
            ..made.sample
        })
    }

    fn check(&mut self, _trial: &Trial) -> Result<(), Halt> {
        self.mark(REST)?;
        let Bench { verify: how, watch, .. } = self.bench;
        let verified =
            verify(&Real, self.source(), &self.destination(), *how, *watch).map_err(|error| match error {
                VerifyError::Stopped(_) => Halt::Stopped,
                VerifyError::Fault(fault) => Halt::Failed(failed_call(&fault)),
                VerifyError::Differs(_) => Halt::Failed(failed_otherwise(&error)),
            })?;
        self.changed.extend(verified.changed.iter().cloned());
        let told = *how == Verify::Off || !self.changed.is_empty();
        let other = (!told).then(|| copy_notes::other_source(&verified, &self.shop.input)).flatten();
        for note in copy_notes::verified(&verified).into_iter().chain(other) {
            self.note(note);
        }
        Ok(())
    }

    fn clear(&mut self, _trial: &Trial) -> Result<(), Halt> {
        self.bench.watch.event(Event::Phase(Phase::Removing));
        let destination = self.destination();
        let removed = match fs::symlink_metadata(&destination) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&destination),
            // Whatever a command made there.
            Ok(_) => fs::remove_file(&destination),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        removed.map_err(|error| failed_io(Call::Unlink, &destination, error))?;
        if self.bench.dirty_bytes.is_some() {
            let dirt = self.shop.directory.join(DIRT);
            fs::remove_file(&dirt).map_err(|error| failed_io(Call::Unlink, &dirt, error))?;
        }
        self.bystander.as_ref().map_or(Ok(()), Bystander::leave)
    }

    fn latency(&self) -> BTreeMap<String, Percentiles> {
        let named = self
            .latency
            .iter()
            .filter_map(|(call, latency)| Some((call.name().to_owned(), stats::percentiles(latency)?)));
        named.collect()
    }

    fn bystander(&self) -> Option<results::Bystander> {
        self.bystander.as_ref().and_then(Bystander::felt)
    }

    fn comparable(&self) -> bool {
        self.changed.is_empty() && !self.notes.iter().any(|note| note.code == NoteCode::ChangedDuringCopy)
    }

    fn notes(&self) -> Vec<Note> {
        self.notes.iter().cloned().chain(copy_notes::changed(&self.changed)).collect()
    }
}

/// The calls of a trial as a sample names them.
pub(super) fn tallied(tally: &Tally) -> Sample {
    let calls = || tally.calls.iter().map(|(call, spent)| (call.name().to_owned(), spent));
    Sample {
        calls: calls().map(|(name, spent)| (name, spent.count)).collect(),
        calls_ns: calls().map(|(name, spent)| (name, spent.elapsed_ns)).collect(),
        first_sync_ns: [Call::Fsync, Call::Fdatasync]
            .iter()
            .find_map(|call| tally.first_ns.get(call))
            .copied(),
        ..Sample::default()
    }
}
