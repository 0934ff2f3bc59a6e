//! A whole run: everything is recorded on one drive, the checker proves itself, then every policy is cut.

use std::fs::File;
use std::io::BufReader;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::mount::MntFlags;

use super::blocks::Blocks;
use super::crew::Crew;
use super::cuts::{Certain, Cuts, Image};
use super::error::{Attempt, Error};
use super::planted::{self, Bench, PLANTED, Planted, Wanted};
use super::record::{Deed, Recorder};
use super::stage::{Judged, Stage};
use super::tape::{Section, Tape};
use super::tree::Tree;
use super::trial::{Tally, Trial};
use crate::replay::means::Unavailable;
use crate::replay::policy::{Policy, PolicyError};
use crate::replay::shape::Shape;
use crate::results::Promise;
use crate::simdrive::model::{Flush, Model, Options};
use crate::simdrive::mount::{self, ImageDevice, SimulatedDrive, model_of};
use crate::simdrive::spec::{FileSystem, Spec};
use crate::sys::journal::Journal;
use crate::sys::mounts;
use crate::sys::watch::{Event, Watch};

/// For the mount points of a drive that is gone.
const UNMOUNT_LIMIT: Duration = Duration::from_secs(10);

/// How cuts are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Random cuts during the copy, and as many after its end.
    pub cuts: usize,
    /// About so many images at aimed cuts.
    pub aimed: usize,
    /// Decides everything.
    pub seed: u64,
    /// Takes every write for certain, on purpose: the checker must notice that it is blind.
    pub emptied: bool,
    /// Images shown at once, 0 for one a core. What comes of them does not depend on it.
    pub jobs: usize,
}

/// What is recorded and judged.
pub struct Campaign<'a> {
    /// The drive.
    pub spec: &'a Spec,
    /// Names and sizes of what is copied.
    pub shape: &'a Shape,
    /// How.
    pub policies: &'a [Policy],
    /// The cuts.
    pub plan: Plan,
    /// Scratch space on real storage, empty.
    pub directory: &'a Path,
}

/// A planted fault and what came of it.
#[derive(Debug)]
pub struct Proof {
    /// Which.
    pub planted: Planted,
    /// What.
    pub tally: Tally,
}

impl Proof {
    /// Did the checker do what it must?
    pub fn valid(&self) -> bool {
        self.planted.wanted.is_met(self.tally.broken())
    }
}

/// The log of everything.
#[derive(Debug)]
pub struct Recorded {
    /// Where it lies.
    pub log: PathBuf,
    /// Why a policy could not be here, by its position.
    pub refused: Vec<Option<Unavailable>>,
}

impl Campaign<'_> {
    /// Makes the drive, does everything on it, takes it apart.
    pub fn record(&self, journal: &Journal, watch: &dyn Watch) -> Result<Recorded, Error> {
        let log = self.directory.join("write-log");
        let options = mount::Options {
            seed: self.plan.seed,
            directory: self.directory.to_path_buf(),
            aged: true,
            write_log: Some(log.clone()),
            log_data: true,
            journal,
        };
        let drive = SimulatedDrive::create(self.spec, options)?;
        // What may be lost depends on the order of requests, not on the drive's pace.
        let recorded = drive.latency(false).map_err(Error::from).and_then(|()| self.record_on(&drive, watch));
        let closed = drive.close(journal);
        let workshop = self.directory.join("sim");
        mounts::unmount(&workshop, MntFlags::MNT_DETACH, None, UNMOUNT_LIMIT)
            .map_err(|errno| Error::Call { operation: "unmount", path: workshop, errno })?;
        let refused = recorded?;
        closed?;
        Ok(Recorded { log, refused })
    }

    fn record_on(
        &self,
        drive: &SimulatedDrive,
        watch: &dyn Watch,
    ) -> Result<Vec<Option<Unavailable>>, Error> {
        let recorder = Recorder::new(drive, self.directory)?;
        let small = (planted::tree(2)?, planted::tree(1)?);
        for (name, deed) in planted::deeds().map_err(|error| impossible(&error))? {
            recorder.record(&format!("planted {name}"), &deed, (&small.0, &small.1), watch)?;
        }
        let trees = (Tree::new(self.shape, 2)?, Tree::new(self.shape, 1)?);
        let mut refused = Vec::new();
        for policy in self.policies {
            let unavailable = recorder.means(policy).err();
            if unavailable.is_none() {
                let deed = Deed::Copy(Box::new(policy.clone()));
                recorder.record(&format!("policy {policy}"), &deed, (&trees.0, &trees.1), watch)?;
            }
            refused.push(unavailable);
        }
        Ok(refused)
    }

    /// Judges a log: first the planted faults, told to `proved` together, then each policy, told to `judged` in the order
    /// of the log. An invalid injector ends it.
    pub fn judge(
        &self,
        log: &Path,
        watch: &dyn Watch,
        proved: &mut dyn FnMut(&[Proof]),
        judged: &mut dyn FnMut(&str, Tally),
    ) -> Result<(), Error> {
        let mut run = self.start(log, workers(self.spec.file_system, self.plan.jobs))?;
        let done = run.all(watch, proved, judged);
        run.crew.close()?;
        done
    }

    /// What a finished copy under a policy claims on this drive.
    pub fn claim(&self, policy: &Policy) -> Promise {
        if self.spec.is_unjournaled() { policy.promise_without_journal() } else { policy.promise() }
    }

    /// Judges one image of one policy's section again.
    pub fn judge_one(&self, log: &Path, policy: &Policy, image: &Image) -> Result<Judged, Error> {
        let mut run = self.start(log, 0)?;
        let mut stage = self.stage(&run.model, 0)?;
        let name = format!("policy {policy}");
        let judged = loop {
            match run.tape.next_section()? {
                Some((section, base)) if section.name == name => {
                    // Nothing is laid beforehand: the image says what is missing.
                    let cuts = Cuts::new(&section, Certain::Nothing, (&run.model, &run.options));
                    let scene = planted::scene(&run.trees.1);
                    let trial = Trial::new(&section, base, &cuts, scene, self.claim(policy));
                    break trial.judge(image, &mut stage);
                }
                Some(_) => {}
                None => break Err(Error::NoSection { name }),
            }
        };
        stage.close()?;
        judged
    }

    fn stage(&self, model: &Model, worker: usize) -> Result<Stage, Error> {
        let directory = self.directory.join("images").join(worker.to_string());
        let device = ImageDevice::create(self.spec, model.block_bytes, &directory)?;
        Ok(Stage::new(device, self.spec.file_system))
    }

    fn start(&self, log: &Path, workers: usize) -> Result<Run<'_>, Error> {
        let model = model_of(self.spec)?;
        let options = self.spec.options(&model, self.plan.seed)?;
        let tape = Tape::new(BufReader::new(File::open(log).attempt("open file", log)?))?;
        let honest = Cuts::certain_on(&model, &Options { flush: Flush::Honest, ..options });
        let certain = Cuts::certain_on(&model, &options);
        let pick = |certain| if self.plan.emptied { Certain::Arrived } else { certain };
        let trees = (planted::tree(2)?, Tree::new(self.shape, 2)?);
        let (honest, certain) = (pick(honest), pick(certain));
        let stages = (0..workers).map(|worker| self.stage(&model, worker)).collect::<Result<_, Error>>()?;
        let crew = Crew::new(stages);
        Ok(Run { campaign: self, model, options, crew, tape, honest, certain, trees })
    }
}

/// Workers on a file system. btrfs refuses a second mounted device with the same identity (or gives it a temporary one, from
/// Linux 6.7 on, which is not what happens after a reboot): there is one image of it at a time.
pub(super) fn workers(file_system: FileSystem, jobs: usize) -> usize {
    match (file_system, jobs) {
        (FileSystem::Btrfs, _) => 1,
        (FileSystem::Ext4 | FileSystem::Xfs, 0) => thread::available_parallelism().map_or(1, NonZero::get),
        (FileSystem::Ext4 | FileSystem::Xfs, jobs) => jobs,
    }
}

/// A log being judged.
struct Run<'a> {
    campaign: &'a Campaign<'a>,
    model: Model,
    options: Options,
    crew: Crew,
    tape: Tape<BufReader<File>>,
    honest: Certain,
    certain: Certain,
    trees: (Tree, Tree),
}

impl Run<'_> {
    fn all(
        &mut self,
        watch: &dyn Watch,
        proved: &mut dyn FnMut(&[Proof]),
        judged: &mut dyn FnMut(&str, Tally),
    ) -> Result<(), Error> {
        let mut proofs = Vec::new();
        let mut told = false;
        let (mut position, positions) = (0, u32::try_from(self.campaign.policies.len()).unwrap_or(u32::MAX));
        while let Some((section, base)) = self.tape.next_section()? {
            if let Some(name) = section.name.strip_prefix("planted ") {
                let name = name.to_owned();
                self.prove(&name, &section, &base, watch, &mut proofs)?;
                continue;
            }
            if !told {
                told = true;
                tell(&proofs, watch, proved)?;
            }
            if watch.stop().is_some() {
                break;
            }
            if let Some(name) = section.name.strip_prefix("policy ") {
                position += 1;
                watch.event(Event::Trial { arm: name, position, positions });
                let tally = self.policy(name, &section, base, watch)?;
                judged(name, tally);
            }
        }
        if told { Ok(()) } else { tell(&proofs, watch, proved) }
    }

    fn prove(
        &mut self,
        name: &str,
        section: &Section,
        base: &Blocks,
        watch: &dyn Watch,
        proofs: &mut Vec<Proof>,
    ) -> Result<(), Error> {
        for planted in PLANTED.iter().filter(|planted| planted.section == name) {
            let mut bench = Bench {
                crew: &mut self.crew,
                drive: (&self.model, &self.options),
                honest: self.honest,
                tree: &self.trees.0,
                watch,
                seed: self.campaign.plan.seed,
            };
            let tally = planted::inject(planted, section, base, &mut bench)?;
            proofs.push(Proof { planted: *planted, tally });
        }
        Ok(())
    }

    fn policy(
        &mut self,
        name: &str,
        section: &Section,
        base: Blocks,
        watch: &dyn Watch,
    ) -> Result<Tally, Error> {
        let plan = self.campaign.plan;
        let policy = self.campaign.policies.iter().find(|policy| policy.to_string() == name);
        let claim = policy.map_or(Promise::Nothing, |policy| self.campaign.claim(policy));
        let cuts = Cuts::new(section, self.certain, (&self.model, &self.options));
        let done = section.done().unwrap_or(section.length);
        // Up to the last cut by which the end had not been acknowledged: a copy without a request has none.
        let last = (0..done).rev().find(|cut| section.settled(*cut) <= done);
        let during = last.map(|last| cuts.random(0..last, plan.cuts, plan.seed));
        let after = if during.is_some() { plan.cuts } else { 2 * plan.cuts };
        let mut random = during.unwrap_or_default();
        random.extend(cuts.random(done + 1..section.length, after, plan.seed));
        let scene = planted::scene(&self.trees.1);
        let total = random.iter().map(Vec::len).sum::<usize>() + cuts.aimed_images(plan.aimed);
        let images = random.into_iter().chain(cuts.aimed(plan.aimed, plan.seed));
        let trial = Trial::new(section, base, &cuts, scene, claim);
        trial.run(images, total, &mut self.crew, watch, |_| false)
    }
}

fn tell(proofs: &[Proof], watch: &dyn Watch, proved: &mut dyn FnMut(&[Proof])) -> Result<(), Error> {
    proved(proofs);
    match proofs.iter().find(|proof| !proof.valid()) {
        Some(proof) if watch.stop().is_none() => {
            let words = match proof.planted.wanted {
                Wanted::Passes => "was taken for a fault",
                Wanted::Caught | Wanted::Either => "was not caught",
            };
            Err(Error::InjectorInvalid { fault: format!("\"{}\" {words}", proof.planted.name) })
        }
        _ => Ok(()),
    }
}

/// The table of planted faults names policies of this program.
fn impossible(error: &PolicyError) -> Error {
    Error::InjectorInvalid { fault: error.to_string() }
}
