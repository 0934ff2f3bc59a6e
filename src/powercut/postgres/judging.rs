//! A log of a server judged: several images at a time, each on a device and under a server of its own.

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::scope;

use super::check::{Checked, Examiner};
use super::images::{Drawing, certain_on};
use super::ledger::{Promised, Scene};
use super::proof::{Proof, prove};
use super::tally::{Finding, Tally, Verdict};
use crate::powercut::blocks::{Blocks, View};
use crate::powercut::campaign::workers;
use crate::powercut::cuts::{Certain, Cuts, Image};
use crate::powercut::error::{Attempt, Error};
use crate::powercut::ground::Ground;
use crate::powercut::stage::Stage;
use crate::powercut::tape::{Section, Tape};
use crate::server::ServerError;
use crate::server::cluster::{Binaries, ClusterProcesses, user_at};
use crate::simdrive::mount::{ImageDevice, model_of};
use crate::simdrive::spec::Spec;
use crate::sys::error::reason;
use crate::sys::journal::Journal;
use crate::sys::watch::{Event, Phase, Unit, Watch};

/// Most images tried to make an example smaller.
const SHRINKING: usize = 24;

/// How cuts are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Random cuts.
    pub cuts: usize,
    /// Aimed ones.
    pub aimed: usize,
    /// Images at a time, 0 for one a core; of btrfs always one.
    pub jobs: usize,
    /// Decides everything.
    pub seed: u64,
    /// Takes every write for certain, on purpose: the checker must notice that it is blind.
    pub emptied: bool,
}

/// A log, and with what it is judged.
#[derive(Clone, Copy)]
pub struct Judging<'a> {
    /// The drive it was recorded on.
    pub spec: &'a Spec,
    /// The server that recovers.
    pub binaries: &'a Binaries,
    /// The cuts.
    pub plan: Plan,
    /// The log.
    pub log: &'a Path,
    /// Scratch space on real storage that the server's user can pass through.
    pub directory: &'a Path,
    /// For sockets, whose paths are short: passed through likewise.
    pub sockets: &'a Path,
    /// Where servers are written down before they are started.
    pub journal: &'a Journal,
    /// Asked whether to stop.
    pub watch: &'a dyn Watch,
}

/// What was read of a log.
struct Taped {
    section: Section,
    base: Blocks,
    scene: Scene,
}

impl Judging<'_> {
    /// The checker proves itself, told to `proved`; then every image is judged. An invalid injector ends it.
    pub fn judge(&self, proved: &mut dyn FnMut(&[Proof])) -> Result<(Promised, Tally), Error> {
        let read = self.read()?;
        let model = model_of(self.spec)?;
        let options = self.spec.options(&model, self.plan.seed)?;
        let promised = Promised::by(&read.section, read.section.length);
        let mut bench = Bench::new(self, &read, 0)?;
        let proofs = prove(&read.section, &read.scene, (&model, &options), self.plan.emptied, &mut bench);
        bench.close()?;
        let proofs = proofs?;
        proved(&proofs);
        if self.watch.stop().is_some() {
            return Ok((promised, Tally::default()));
        }
        if let Some(proof) = proofs.iter().find(|proof| !proof.valid()) {
            return Err(Error::InjectorInvalid { fault: proof.words() });
        }
        let certain =
            if self.plan.emptied { Certain::Arrived } else { certain_on(self.spec, &model, &options) };
        let cuts = Cuts::new(&read.section, certain, (&model, &options));
        let unit_bytes = u64::from(model.atomic_unit_bytes);
        let drawing = Drawing { section: &read.section, cuts: &cuts, unit_bytes, seed: self.plan.seed };
        let batches = drawing.batches(self.plan.cuts, self.plan.aimed);
        let mut tally = Tally::of(self.all(&read, &cuts, batches)?);
        self.shrink(&read, &cuts, &mut tally)?;
        Ok((promised, tally))
    }

    /// Judges one image again.
    pub fn judge_one(&self, image: &Image) -> Result<Checked, Error> {
        let read = self.read()?;
        let mut bench = Bench::new(self, &read, 0)?;
        let checked = bench.judge(image);
        bench.close()?;
        checked
    }

    fn read(&self) -> Result<Taped, Error> {
        let file = File::open(self.log).attempt("open file", self.log)?;
        let mut tape = Tape::new(BufReader::new(file))?;
        while let Some((section, base)) = tape.next_section()? {
            if let Ok(scene) = section.name.parse() {
                return Ok(Taped { section, base, scene });
            }
        }
        Err(Error::NoSection { name: "postgres".to_owned() })
    }

    /// Every batch, by whichever worker is free.
    fn all(
        &self,
        read: &Taped,
        cuts: &Cuts<'_>,
        batches: Vec<Vec<Image>>,
    ) -> Result<Vec<(Image, Checked)>, Error> {
        self.watch.event(Event::Phase(Phase::Verifying));
        let total = batches.iter().map(Vec::len).sum::<usize>() as u64;
        let (queue, done) = (Mutex::new(VecDeque::from(batches)), AtomicU64::new(0));
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let work = |number: usize| {
            let mut bench = Bench::new(self, read, number)?;
            let mut judged = Vec::new();
            let worked = (|| {
                while let Some(batch) = next() {
                    for image in batch {
                        if self.watch.stop().is_some() {
                            return Ok(());
                        }
                        bench.ground.lay_certain(cuts, image.cut);
                        let checked = bench.judge(&image)?;
                        judged.push((image, checked));
                        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                        self.watch.event(Event::Progress { done, total, unit: Unit::Files });
                    }
                }
                Ok(())
            })();
            bench.close()?;
            match worked {
                // What was judged before a stop counts.
                Err(_) if self.watch.stop().is_some() => Ok(judged),
                worked => worked.map(|()| judged),
            }
        };
        let jobs = workers(self.spec.file_system, self.plan.jobs);
        scope(|scope| {
            let work = &work;
            let workers: Vec<_> = (0..jobs).map(|number| scope.spawn(move || work(number))).collect();
            let joined = workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or(Err(ServerError::WorkerDied.into())));
            let parts: Vec<Result<Vec<(Image, Checked)>, Error>> = joined.collect();
            Ok(parts.into_iter().collect::<Result<Vec<_>, Error>>()?.concat())
        })
    }

    /// Puts back what need not be missing for the worst example, as long as its verdict stays.
    fn shrink(&self, read: &Taped, cuts: &Cuts<'_>, tally: &mut Tally) -> Result<(), Error> {
        let Some((verdict, example)) =
            tally.examples.last_entry().map(|entry| (*entry.key(), entry.into_mut()))
        else {
            return Ok(());
        };
        let mut bench = Bench::new(self, read, 0)?;
        bench.ground.lay_certain(cuts, example.image.cut);
        let mut shows = |image: &Image| -> Result<Option<Finding>, Error> {
            if self.watch.stop().is_some() {
                return Ok(None);
            }
            let findings = bench.judge(image)?.findings;
            Ok(findings.into_iter().find(|finding| finding.verdict == verdict))
        };
        let done = smallest(&example.image, &mut shows);
        bench.close()?;
        if let Some((image, finding)) = done? {
            example.image = image;
            example.finding = finding;
        }
        Ok(())
    }
}

/// An image with less missing that still shows the same, and what it shows.
fn smallest(
    image: &Image,
    shows: &mut dyn FnMut(&Image) -> Result<Option<Finding>, Error>,
) -> Result<Option<(Image, Finding)>, Error> {
    let mut found = None;
    let mut smallest = image.clone();
    let whole = Image { torn: None, ..image.clone() };
    if image.torn.is_some()
        && let Some(finding) = shows(&whole)?
    {
        found = Some((whole.clone(), finding));
        smallest = whole;
    }
    let (mut step, mut tried) = (smallest.missing.len(), 0);
    while step > 0 && tried < SHRINKING {
        let mut at = 0;
        while at < smallest.missing.len() && tried < SHRINKING {
            let mut candidate = smallest.clone();
            candidate.missing.drain(at..(at + step).min(smallest.missing.len()));
            tried += 1;
            match shows(&candidate)? {
                Some(finding) => {
                    found = Some((candidate.clone(), finding));
                    smallest = candidate;
                }
                None => at += step,
            }
        }
        step /= 2;
    }
    Ok(found)
}

/// A device, a server's place, and how far the log is laid.
pub struct Bench<'a> {
    judging: &'a Judging<'a>,
    section: &'a Section,
    scene: &'a Scene,
    stage: Stage,
    ground: Ground<'a>,
    sockets: PathBuf,
    log: PathBuf,
    entry: u64,
    processes: ClusterProcesses,
}

impl<'a> Bench<'a> {
    /// The bench of a worker.
    fn new(judging: &'a Judging<'a>, read: &'a Taped, number: usize) -> Result<Bench<'a>, Error> {
        let directory = judging.directory.join(format!("judge-{number}"));
        let device = ImageDevice::create(judging.spec, model_of(judging.spec)?.block_bytes, &directory)?;
        let processes = ClusterProcesses::below(device.mount_point());
        let sockets = judging.sockets.join(format!("socket-{number}"));
        std::fs::create_dir_all(&sockets).attempt("create directory", &sockets)?;
        // A new file system belongs to root, as this directory does.
        if let Some(user) = user_at(Path::new("/"))? {
            user.give(&sockets)?;
        }
        Ok(Bench {
            judging,
            section: &read.section,
            scene: &read.scene,
            stage: Stage::new(device, judging.spec.file_system),
            ground: Ground::new(&read.section, &read.base),
            sockets,
            log: directory.join("log"),
            entry: judging.journal.push(&processes)?,
            processes,
        })
    }

    /// Examines the server on an image.
    fn judge(&mut self, image: &Image) -> Result<Checked, Error> {
        self.examine(image, &Promised::by(self.section, image.cut), &|_| Ok(()))
    }

    /// Mounts an image, does something to it, and examines the server on it.
    pub(super) fn examine(
        &mut self,
        image: &Image,
        promised: &Promised,
        tamper: &dyn Fn(&Path) -> Result<(), Error>,
    ) -> Result<Checked, Error> {
        let changed = self.ground.above(image);
        let view = View { base: self.ground.blocks(), changed: &changed };
        let Judging { binaries, watch, .. } = *self.judging;
        let examiner = Examiner { binaries, sockets: &self.sockets, log: &self.log, watch };
        let scene = self.scene;
        let look = |root: &Path| {
            tamper(root)?;
            examiner.examine(root, scene, promised)
        };
        let (seen, repaired) = self.stage.visit(view, look)?;
        let checked = match seen {
            Ok(checked) => checked?,
            Err(errno) => {
                let finding = Finding {
                    verdict: Verdict::DoesNotMount,
                    what: "file system".to_owned(),
                    detail: reason(errno),
                };
                Checked { findings: vec![finding], ..Checked::default() }
            }
        };
        Ok(Checked { repaired, ..checked })
    }

    /// Takes it apart.
    fn close(self) -> Result<(), Error> {
        self.judging.journal.undo(self.entry, &self.processes).map_err(ServerError::Undo)?;
        self.stage.close()
    }
}
