//! The checker proves itself: faults of every kind are planted, each with the claim of a whole tree, and must be caught on
//! this very file system; what is right must pass. A fault that file systems may make good is tried and reported.

use std::path::Path;

use super::blocks::Blocks;
use super::contents::{Identity, SECTOR_BYTES};
use super::crew::Crew;
use super::cuts::{Certain, Cuts, Image};
use super::error::Error;
use super::judge::Scene;
use super::record::{COPY, Deed, OLD};
use super::tape::Section;
use super::tree::Tree;
use super::trial::{Tally, Trial};
use crate::replay::policy::PolicyError;
use crate::replay::shape::{FileShape, Shape};
use crate::results::Promise;
use crate::simdrive::model::{Model, Options};
use crate::sys::watch::Watch;

/// What must come of a planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It must be caught, or the checker is blind here.
    Caught,
    /// Nothing may be found, or the checker sees things.
    Passes,
    /// Whatever comes of it is a finding.
    Either,
}

impl Wanted {
    /// Did the checker do what it must, with something missing on so many images?
    pub fn is_met(self, broken: u64) -> bool {
        match self {
            Self::Caught => broken > 0,
            Self::Passes => broken == 0,
            Self::Either => true,
        }
    }
}

/// How the cut is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injection {
    /// As on an honest drive.
    Honest,
    /// As on a drive that ignores flushes.
    FlushIgnored,
    /// Everything is there but one write that had been flushed.
    Dropped,
    /// Everything is there but one write that went to the place of another.
    Misdirected,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    /// Its name in reports.
    pub name: &'static str,
    /// Name of its section of the log.
    pub section: &'static str,
    /// How it is cut.
    pub injection: Injection,
    /// What must come of it.
    pub wanted: Wanted,
}

/// Names of sections and the policies copied in them; the others are deeds of their own.
const COPIES: [(&str, &str); 5] = [
    ("immediate", "immediate"),
    ("never", "never"),
    ("hint", "never+hint=sync-file-range"),
    ("no-directory", "immediate+dirs=none"),
    ("git-batch", "git-batch"),
];

const fn planted(name: &'static str, section: &'static str, injection: Injection, wanted: Wanted) -> Planted {
    Planted { name, section, injection, wanted }
}

/// All of them.
pub const PLANTED: [Planted; 11] = [
    planted("immediate, which is right", "immediate", Injection::Honest, Wanted::Passes),
    planted("never synced", "never", Injection::Honest, Wanted::Caught),
    planted("sync_file_range alone", "hint", Injection::Honest, Wanted::Caught),
    planted("acknowledged before synced", "before", Injection::Honest, Wanted::Caught),
    planted("rename without directory sync", "rename", Injection::Honest, Wanted::Caught),
    planted("empty files not synced", "empty", Injection::Honest, Wanted::Caught),
    planted("a drive that ignores flushes", "immediate", Injection::FlushIgnored, Wanted::Caught),
    planted("files synced, directory not", "no-directory", Injection::Honest, Wanted::Either),
    planted("git-batch", "git-batch", Injection::Honest, Wanted::Either),
    planted("a flushed write dropped", "over", Injection::Dropped, Wanted::Either),
    planted("a write misdirected", "immediate", Injection::Misdirected, Wanted::Either),
];

/// What is recorded for them, by section.
pub fn deeds() -> Result<Vec<(&'static str, Deed)>, PolicyError> {
    let mut deeds = vec![
        ("over", Deed::WrittenOver),
        ("before", Deed::AcknowledgedBeforeSynced),
        ("rename", Deed::RenamedWithoutDirectory),
        ("empty", Deed::EmptyFilesUnsynced),
    ];
    for (section, policy) in COPIES {
        deeds.push((section, Deed::Copy(Box::new(policy.parse()?))));
    }
    Ok(deeds)
}

/// A small tree with everything in it: empty files, parts of a page, several pages, a directory.
pub fn tree(generation: u32) -> Result<Tree, Error> {
    let sizes = [8192, 0, 100, 40_960, 5000, 0, 8192, 65_536, 512, 24_576];
    let file = |(number, size): (usize, u64)| {
        let directory = if number % 3 == 2 { "d/" } else { "" };
        FileShape::dense(format!("{directory}{number}").into(), size)
    };
    let files = sizes.into_iter().enumerate().map(file).collect();
    Tree::new(&Shape { directories: vec!["d".into()], files }, generation)
}

/// Most images at aimed cuts, and at random cuts, of a fault.
const AIMED: usize = 60;
const RANDOM: usize = 20;
/// Most writes that are dropped or misdirected.
const WRITES: usize = 12;

/// What planted faults are judged with.
pub struct Bench<'a> {
    /// Shows images.
    pub crew: &'a mut Crew,
    /// The drive of the log.
    pub drive: (&'a Model, &'a Options),
    /// What an honest drive of that kind makes certain.
    pub honest: Certain,
    /// What was copied.
    pub tree: &'a Tree,
    /// Asked whether to stop.
    pub watch: &'a dyn Watch,
    /// Decides the images.
    pub seed: u64,
}

/// Judges one planted fault.
pub fn inject(
    row: &Planted,
    section: &Section,
    base: &Blocks,
    bench: &mut Bench<'_>,
) -> Result<Tally, Error> {
    match row.injection {
        Injection::Honest => cut(row, section, base, bench.honest, bench),
        // A volatile set that is empty on purpose is empty here too.
        Injection::FlushIgnored if bench.honest == Certain::Arrived => {
            cut(row, section, base, Certain::Arrived, bench)
        }
        Injection::FlushIgnored => cut(row, section, base, Certain::Nothing, bench),
        Injection::Dropped => {
            let writes = data_writes(section);
            let images = writes.into_iter().map(|number| lacking(section, vec![number])).collect();
            images_of(section, base, images, bench)
        }
        Injection::Misdirected => {
            let mut all = Tally { complete: true, ..Tally::default() };
            let writes = data_writes(section);
            for (one, other) in writes.iter().zip(writes.iter().skip(1)) {
                let mut changed = section.clone();
                let target = changed.requests[*one].request.offset_bytes;
                changed.requests[*other].request.offset_bytes = target;
                let tally = images_of(&changed, base, vec![lacking(section, Vec::new())], bench)?;
                all.absorb(tally);
            }
            Ok(all)
        }
    }
}

fn cut(
    row: &Planted,
    section: &Section,
    base: &Blocks,
    certain: Certain,
    bench: &mut Bench<'_>,
) -> Result<Tally, Error> {
    let cuts = Cuts::new(section, certain, bench.drive);
    let random = cuts.random(0..section.length, RANDOM, bench.seed).into_iter().flatten();
    let mut images: Vec<Image> = cuts.aimed(AIMED, bench.seed).flatten().chain(random).collect();
    images.extend(cuts.at_done(AIMED, bench.seed));
    images.sort();
    let by_cut: Vec<Vec<Image>> =
        images.chunk_by(|one, next| one.cut == next.cut).map(<[Image]>::to_vec).collect();
    let trial = Trial::new(section, base.clone(), &cuts, scene(bench.tree), Promise::Tree);
    let caught = |tally: &Tally| row.wanted == Wanted::Caught && tally.broken() > 0;
    let total = by_cut.iter().map(Vec::len).sum();
    trial.run(by_cut, total, bench.crew, bench.watch, caught)
}

/// Images on which nothing is taken for certain but what they say.
fn images_of(
    section: &Section,
    base: &Blocks,
    images: Vec<Image>,
    bench: &mut Bench<'_>,
) -> Result<Tally, Error> {
    let cuts = Cuts::new(section, Certain::Nothing, bench.drive);
    let trial = Trial::new(section, base.clone(), &cuts, scene(bench.tree), Promise::Tree);
    trial.run([images], 1, bench.crew, bench.watch, |_| false)
}

fn lacking(section: &Section, missing: Vec<usize>) -> Image {
    Image { cut: section.length, missing, torn: None, random: false }
}

/// The first writes that carry contents of ours.
fn data_writes(section: &Section) -> Vec<usize> {
    let requests = section.requests.iter().enumerate();
    let ours = requests.filter(|(_, logged)| {
        let data = logged.data.as_deref().and_then(|data| data.get(..SECTOR_BYTES));
        data.is_some_and(|sector| Identity::read(sector).is_some())
    });
    ours.map(|(number, _)| number).take(WRITES).collect()
}

/// The usual scene: a copy, and an older one that must not come back.
pub fn scene(tree: &Tree) -> Scene<'_> {
    Scene { tree, copy: Path::new(COPY), gone: &[OLD] }
}
