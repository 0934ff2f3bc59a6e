//! Power cuts under a server, as a document: every drive, build and setting is an arm of its own, recorded and judged
//! before the next begins.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::head::begun;
use super::plug::{Limited, PlugError};
use crate::powercut::cuts::Image;
use crate::powercut::error::Error;
use crate::powercut::planted::Wanted;
use crate::powercut::postgres::check::Checked;
use crate::powercut::postgres::ledger::Promised;
use crate::powercut::postgres::proof::Proof;
use crate::powercut::postgres::tally::Example;
use crate::powercut::postgres::{Judging, Plan, Recording, Tally, Verdict, Workload};
use crate::results::plug::Verdicts;
use crate::results::{
    Arm, CutExample, Document, Failed, InFact, Kind, Labels, Note, NoteCode, Place, PlantedFault, PowerCuts,
    Recoveries, Server, Stack, labels,
};
use crate::server::cluster::{Binaries, user_at};
use crate::server::settings::{self, Setting};
use crate::simdrive::mount::model_of;
use crate::simdrive::spec::Spec;
use crate::stats::bound_95;
use crate::sys::SysError;
use crate::sys::journal::Journal;
use crate::sys::kernel::{Call, Fault};
use crate::sys::run_directory::RunDirectory;
use crate::sys::watch::{Event, Stop, Watch};

/// Servers pass through our directories and see nothing in them.
const PASSABLE: u32 = 0o711;

/// Which servers on which drives, and how they are cut.
pub struct PostgresRequest {
    /// The drives.
    pub specs: Vec<Spec>,
    /// `[NAME=]DIR` of the servers' programs.
    pub binaries: Vec<String>,
    /// For all of them.
    pub settings: Vec<Setting>,
    /// Each list a label, each value an arm.
    pub varied: Vec<Vec<Setting>>,
    /// What they do.
    pub workload: Workload,
    /// The cuts.
    pub plan: Plan,
    /// No image is judged after this.
    pub time_limit: Option<Duration>,
    /// Where the drives' contents lie while they live.
    pub scratch: PathBuf,
    /// Keep the write log here; further arms' with their numbers behind the name.
    pub write_log: Option<PathBuf>,
    /// Judge this write log in place of a new one.
    pub from_log: Option<PathBuf>,
    /// The command line.
    pub argv: Vec<String>,
}

/// A server on a drive.
struct Subject {
    place: usize,
    binaries: Binaries,
    settings: Vec<Setting>,
    arm: Arm,
}

/// A request whose builds are there.
pub struct PostgresRun {
    request: PostgresRequest,
    subjects: Vec<Subject>,
}

/// Where everything is done.
struct Room<'a> {
    directory: RunDirectory,
    sockets: RunDirectory,
    entries: [u64; 2],
    journal: &'a Journal,
}

impl<'a> Room<'a> {
    fn enter(scratch: &Path, journal: &'a Journal) -> Result<Room<'a>, SysError> {
        let names = ["sim", "judge", "write", "drive", "dump"];
        let (directory, one) = RunDirectory::make(scratch, &names, journal)?;
        let (sockets, other) = RunDirectory::make(Path::new("/tmp"), &["socket"], journal)?;
        for path in [directory.path(), sockets.path()] {
            set_permissions(path, Permissions::from_mode(PASSABLE))
                .map_err(Fault::of_io(Call::Openat, path))?;
        }
        Ok(Room { directory, sockets, entries: [one, other], journal })
    }

    fn leave(self) {
        // What cannot be removed stays in the journal, which is undone and told of at the end.
        self.journal.undo(self.entries[1], &self.sockets).ok();
        self.journal.undo(self.entries[0], &self.directory).ok();
    }
}

impl PostgresRequest {
    /// Looks for every model and build.
    pub fn survey(self, watch: &dyn Watch) -> Result<PostgresRun, PlugError> {
        settings::check_scratch(&self.settings).map_err(Error::from)?;
        let user = user_at(Path::new("/")).map_err(Error::from)?;
        let mut subjects = Vec::new();
        for (place, spec) in self.specs.iter().enumerate() {
            let model = model_of(spec).map_err(Error::from)?;
            spec.options(&model, self.plan.seed).map_err(Error::from)?;
            for argument in &self.binaries {
                let binaries = Binaries::find(argument, user.as_ref(), watch).map_err(Error::from)?;
                for varied in settings::product(&self.varied) {
                    settings::check_scratch(&varied).map_err(Error::from)?;
                    let labels =
                        Labels::new().with("server", &binaries.name).with("place", format!("p{}", place + 1));
                    let set = |labels: Labels, setting: &Setting| labels.with(&setting.name, &setting.value);
                    let arm = Arm {
                        labels: varied.iter().fold(labels, set),
                        title: Some(self.title(spec, &binaries, &varied)),
                        ..Arm::default()
                    };
                    let settings = self.settings.iter().chain(&varied).cloned().collect();
                    subjects.push(Subject { place, binaries: binaries.clone(), settings, arm });
                }
            }
        }
        let all: Vec<&Labels> = subjects.iter().map(|subject| &subject.arm.labels).collect();
        let names = labels::names(&all);
        for (subject, name) in subjects.iter_mut().zip(names) {
            subject.arm.name = name;
        }
        Ok(PostgresRun { request: self, subjects })
    }

    /// What tells an arm from the others, in words.
    fn title(&self, spec: &Spec, binaries: &Binaries, varied: &[Setting]) -> String {
        let several = |many: usize, text: String| (many > 1).then_some(text);
        let spec = several(self.specs.len(), spec.to_string());
        let build = several(self.binaries.len(), binaries.name.clone());
        let words: Vec<String> =
            spec.into_iter().chain(build).chain(varied.iter().map(Setting::to_string)).collect();
        if words.is_empty() { format!("PostgreSQL {}", binaries.name) } else { words.join(" ") }
    }
}

impl PostgresRun {
    /// What is known before the run.
    pub fn head(&self) -> Document {
        let PostgresRequest { specs, settings, plan, argv, .. } = &self.request;
        let place = |(number, spec): (usize, &Spec)| Place {
            id: format!("p{}", number + 1),
            path: format!("sim:{spec}"),
            simulated: true,
            model: Some(spec.model.clone()),
            stack: Stack { file_system: spec.file_system.name().to_owned(), ..Stack::default() },
        };
        let server = |subject: &Subject| Server {
            name: subject.binaries.name.clone(),
            version: subject.binaries.version.to_string(),
            scratch: true,
            place: Some(format!("p{}", subject.place + 1)),
            wal_place: None,
            built: String::new(),
            settings: settings
                .iter()
                .fold(Labels::new(), |all, setting| all.with(&setting.name, &setting.value)),
        };
        let mut servers: Vec<Server> = Vec::new();
        for server in self.subjects.iter().map(server) {
            if !servers.contains(&server) {
                servers.push(server);
            }
        }
        Document {
            seed: plan.seed,
            simulated: true,
            places: specs.iter().enumerate().map(place).collect(),
            arms: self.subjects.iter().map(|subject| subject.arm.clone()).collect(),
            servers,
            ..begun(Kind::Plug, argv)
        }
    }

    /// Records, proves the checker and judges, arm by arm; the document is kept after each. An invalid injector is a
    /// document that says so.
    pub fn run(
        &self,
        journal: &Journal,
        watch: &dyn Watch,
        keep: &mut dyn FnMut(&Document) -> Result<(), SysError>,
    ) -> Result<Document, PlugError> {
        let room = Room::enter(&self.request.scratch, journal)?;
        let watch = Limited::new(watch, self.request.time_limit, "server");
        let mut document = self.head();
        let mut done = Ok(());
        for number in 0..self.subjects.len() {
            if watch.stop().is_some() || done.is_err() || document.injector_valid == Some(false) {
                break;
            }
            done = self.arm(number, &room, &watch, &mut document);
            done = done.and(keep(&document).map_err(PlugError::from));
        }
        room.leave();
        done?;
        let stopped = watch.stop();
        document.complete = stopped.is_none() && document.injector_valid != Some(false);
        if stopped == Some(Stop::TimeLimit) {
            let text = "the time limit ended the run; what was judged by then is kept";
            document.notes.push(Note::warning(NoteCode::TimeLimit, text));
        }
        Ok(document)
    }

    /// Judges one image of the log that is given.
    pub fn show(&self, image: &Image, journal: &Journal, watch: &dyn Watch) -> Result<Checked, PlugError> {
        let room = Room::enter(&self.request.scratch, journal)?;
        let log = self.request.from_log.clone().unwrap_or_default();
        let checked = self.judging(&self.subjects[0], &log, &room, watch).judge_one(image);
        room.leave();
        Ok(checked?)
    }

    /// One arm; where it fails the others go on, unless no drive can be here at all.
    fn arm(
        &self,
        number: usize,
        room: &Room<'_>,
        watch: &Limited<'_>,
        document: &mut Document,
    ) -> Result<(), PlugError> {
        let subject = &self.subjects[number];
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let (position, positions) = (count(number + 1), count(self.subjects.len()));
        let title = subject.arm.title.as_deref().unwrap_or_default();
        watch.event(Event::Trial { arm: &subject.arm.name, position, positions });
        watch.event(Event::Note(&format!("{title}: recording")));
        let judged = self.log_of(number, room, watch, document).and_then(|log| {
            let mut proofs = Vec::new();
            let judged = self.judging(subject, &log, room, watch).judge(&mut |all| proofs = all.to_vec());
            proved(document, &proofs, watch.stop().is_some());
            if self.request.from_log.is_none() {
                std::fs::remove_file(&log).map_err(Fault::of_io(Call::Unlink, &log))?;
            }
            Ok(judged?)
        });
        match judged {
            Ok((promised, tally)) => {
                let arm = &mut document.arms[number];
                arm.recoveries = Some(recoveries(&promised, &tally));
                arm.power_cuts = Some(self.power_cuts(number, &tally));
                Ok(())
            }
            Err(PlugError::Cut(Error::InjectorInvalid { fault })) => {
                document.injector_valid = Some(false);
                document.notes.push(Note::warning(NoteCode::NotMeasured, format!("{title}: {fault}")));
                Ok(())
            }
            Err(PlugError::Cut(error)) if !error.is_unavailable() && watch.stop().is_none() => {
                document.arms[number].failed =
                    Some(Failed { text: error.to_string(), errno: None, call: None, path: None });
                Ok(())
            }
            // What was begun when it was stopped is not judged; the arms before it are.
            Err(_) if watch.stop().is_some() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The log of an arm: the one that is given, or a new one.
    fn log_of(
        &self,
        number: usize,
        room: &Room<'_>,
        watch: &Limited<'_>,
        document: &mut Document,
    ) -> Result<PathBuf, PlugError> {
        if let Some(log) = &self.request.from_log {
            return Ok(log.clone());
        }
        let subject = &self.subjects[number];
        let log = room.directory.path().join(format!("write-{number}"));
        let recording = Recording {
            spec: &self.request.specs[subject.place],
            binaries: &subject.binaries,
            settings: &subject.settings,
            workload: self.request.workload,
            seed: self.request.plan.seed,
            directory: room.directory.path(),
        };
        let recorded = recording.record(&log, room.journal, watch)?;
        for server in document.servers.iter_mut().filter(|server| server.name == subject.binaries.name) {
            server.version.clone_from(&recorded.facts.version);
            server.built = recorded.facts.in_words();
        }
        if let Some(path) = self.kept_log(number) {
            std::fs::copy(&log, &path).map_err(Fault::of_io(Call::Write, &path))?;
        }
        Ok(log)
    }

    /// Where the log of an arm can be found after the run.
    fn kept_log(&self, number: usize) -> Option<PathBuf> {
        let numbered = |path: &PathBuf| {
            let mut name = path.clone().into_os_string();
            name.push(format!("-{}", number + 1));
            if number == 0 { path.clone() } else { PathBuf::from(name) }
        };
        self.request.from_log.clone().or_else(|| self.request.write_log.as_ref().map(numbered))
    }

    fn judging<'a>(
        &'a self,
        subject: &'a Subject,
        log: &'a Path,
        room: &'a Room<'_>,
        watch: &'a dyn Watch,
    ) -> Judging<'a> {
        Judging {
            spec: &self.request.specs[subject.place],
            binaries: &subject.binaries,
            plan: self.request.plan,
            log,
            directory: room.directory.path(),
            sockets: room.sockets.path(),
            journal: room.journal,
            watch,
        }
    }

    fn power_cuts(&self, number: usize, tally: &Tally) -> PowerCuts {
        let subject = &self.subjects[number];
        let broken = tally.broken() > 0;
        let file_system = self.request.specs[subject.place].file_system.name().to_owned();
        PowerCuts {
            cuts: tally.random,
            aimed: tally.aimed,
            verdicts: words(tally),
            promise_kept: !broken,
            bound_95: (!broken && tally.random > 0).then(|| bound_95(tally.random)),
            in_fact: InFact { file_system, ..InFact::default() },
            examples: tally
                .examples
                .iter()
                .rev()
                .map(|(verdict, example)| self.example(number, *verdict, example))
                .collect(),
        }
    }

    fn example(&self, number: usize, verdict: Verdict, Example { finding, image }: &Example) -> CutExample {
        let subject = &self.subjects[number];
        let log = self.kept_log(number).map_or_else(|| "FILE".to_owned(), |log| log.display().to_string());
        let spec = self.request.specs[subject.place].to_string();
        let (bin, shown) = (subject.binaries.directory.display().to_string(), image.to_string());
        let again = ["fsynclab", "plug", "postgres", "--sim", &spec, "--bin", &bin];
        let command = shell_words::join(again.into_iter().chain(["--from-log", &log, "--image", &shown]));
        CutExample {
            verdict: verdict.to_string(),
            promised: true,
            path: finding.what.clone(),
            detail: finding.detail.clone(),
            image: shown,
            missing: image.missing.len() as u64 + u64::from(image.torn.is_some()),
            command,
        }
    }
}

fn words(tally: &Tally) -> Verdicts {
    tally.verdicts.iter().map(|(verdict, count)| (verdict.to_string(), *count)).collect()
}

/// Adds the proofs of one arm to those of the others.
fn proved(document: &mut Document, proofs: &[Proof], stopped: bool) {
    for proof in proofs {
        let name = proof.planted.name;
        if document.planted.iter().all(|fault| fault.name != name) {
            let wanted = if proof.planted.wanted == Wanted::Passes { "passes" } else { "caught" };
            let fault =
                PlantedFault { name: name.to_owned(), wanted: wanted.to_owned(), ..PlantedFault::default() };
            document.planted.push(fault);
        }
        for fault in document.planted.iter_mut().filter(|fault| fault.name == name) {
            fault.images += proof.tally.images();
            fault.caught += proof.tally.broken();
            for (verdict, count) in words(&proof.tally) {
                *fault.verdicts.entry(verdict).or_default() += count;
            }
        }
    }
    let valid = !proofs.is_empty() && proofs.iter().all(Proof::valid);
    if valid || !(stopped || proofs.is_empty()) {
        document.injector_valid = Some(valid && document.injector_valid != Some(false));
    }
}

fn recoveries(promised: &Promised, tally: &Tally) -> Recoveries {
    let times = &tally.recovery_ns;
    Recoveries {
        commits_synchronous: promised.counted.0,
        commits_asynchronous: promised.counted.1,
        databases: promised.databases.len() as u64,
        restores: promised.restores.len() as u64,
        started: times.len() as u64,
        recovery_median_ns: times.get(times.len() / 2).copied(),
        recovery_max_ns: times.last().copied(),
        asynchronous_lost_cuts: tally.unsynced_cuts,
        asynchronous_lost_most: tally.unsynced_most,
    }
}
