//! `plug verify`: the witness's ledger compared with what is found after the reboot, and the run so far as a document.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{PulledError, below_mount, boot};
use crate::lab::head::begun;
use crate::powercut::WitnessError;
use crate::powercut::judge::Verdict;
use crate::powercut::witness::check::check;
use crate::powercut::witness::error::Attempt as _;
use crate::powercut::witness::event::{Example, Judgement, Reply, Request, Session};
use crate::powercut::witness::history::{Cut, Ledger};
use crate::powercut::witness::link::Address;
use crate::powercut::witness::sector::session_number;
use crate::results::{
    Arm, CutExample, Document, InFact, Kind, Labels, Note, NoteCode, Place, PowerCuts, Pulled, PulledCut,
    Stack,
};
use crate::stats::bound_95;
use crate::storage;
use crate::sys::clock::utc_now;
use crate::sys::error::shown;
use crate::sys::journal::{self, Journal};
use crate::sys::run_directory::RunDirectory;
use crate::sys::undo::Undo;
use crate::sys::watch::Watch;

/// The arm that stands for all methods together.
pub const ALL: &str = "all";

/// What is verified.
pub struct VerifyRequest {
    /// The witness.
    pub address: Address,
    /// What was given to the writer.
    pub into: PathBuf,
    /// The run; else the one with the newest writer there.
    pub run: Option<String>,
    /// The cut; else the last.
    pub cut: Option<u32>,
    /// Only the storage lost its power: the machine ran on.
    pub storage_only: bool,
    /// The file system cannot be mounted any more: that is the result.
    pub does_not_mount: bool,
    /// The command line.
    pub argv: Vec<String>,
}

impl VerifyRequest {
    /// Compares, tells the witness, and makes a document of the run so far.
    pub fn run(&self, watch: &dyn Watch) -> Result<Document, PulledError> {
        let into =
            if self.does_not_mount { std::path::absolute(&self.into) } else { self.into.canonicalize() };
        let into = into.attempt("find directory", &self.into)?;
        let stopping = || watch.stop();
        let request = Request::Find { run: self.run.clone(), into: shown(&into) };
        let no_session = || WitnessError::NoSession { into: into.clone(), run: self.run.clone() };
        let Reply::Found { run: Some(run) } = self.address.ask(&request, &stopping)? else {
            return Err(no_session().into());
        };
        let mut ledger = Ledger::read(&self.address.ledger(&run, &stopping)?, &run)?;
        let number = self.choose(&ledger, &into).ok_or_else(no_session)?;
        let cut = &ledger.cuts[&number];
        let root = into.join(&cut.session.directory);
        let judgement = if self.does_not_mount {
            does_not_mount(&cut.session.into)
        } else {
            self.check_place(number, cut, &into)?;
            let kept = |(_, judgement): &(String, Judgement)| judgement.verdict == Verdict::Kept.name();
            if !root.exists() && cut.judged.as_ref().is_some_and(kept) {
                return Err(PulledError::Verified { cut: number });
            }
            check(&root, session_number(&cut.session.id), &ledger.histories(number)).judgement()
        };
        let request = Request::Judged { run: run.clone(), cut: number, judgement: judgement.clone() };
        // What was found is found, whether the witness can keep it or not.
        let forgotten = match self.address.ask(&request, &stopping) {
            Err(WitnessError::Refused { why }) => {
                let text = format!("the witness could not keep this judgement: {why}");
                Some(Note::warning(NoteCode::NotMeasured, text))
            }
            kept => kept.map(|_| None)?,
        };
        let broken = judgement.verdict != Verdict::Kept.name();
        ledger.cuts.entry(number).and_modify(|cut| cut.judged = Some((utc_now(), judgement)));
        let mut document = self.document(&run, number, &ledger);
        document.notes.extend(forgotten);
        if !broken {
            document.notes.extend(remove(&root)?);
        } else if !root.exists() && !self.does_not_mount {
            let text = format!(
                "\"{}\" is not there at all: the cut took it, or somebody removed it (fsynclab clean does)",
                shown(&root)
            );
            document.notes.push(Note::warning(NoteCode::LeftBehind, text));
        }
        Ok(document)
    }

    /// The cut that was asked for, else the newest in this directory that is one.
    fn choose(&self, ledger: &Ledger, into: &Path) -> Option<u32> {
        let here = |cut: &Cut| cut.session.into == shown(into) && !cut.left;
        match self.cut {
            Some(cut) => ledger.cuts.contains_key(&cut).then_some(cut),
            None => ledger.cuts.iter().rev().find(|(_, cut)| here(cut)).map(|(number, _)| *number),
        }
    }

    /// Refuses what would be no answer.
    fn check_place(&self, number: u32, cut: &Cut, into: &Path) -> Result<(), PulledError> {
        if cut.left {
            return Err(PulledError::NoCut { cut: number });
        }
        let session = &cut.session;
        if session.boot == boot() && !self.storage_only {
            return Err(PulledError::SameBoot { cut: number });
        }
        let stack = storage::survey(into).map_err(crate::place::PlaceError::from)?;
        let (then, now) = (
            where_it_lies(&session.below_mount, &session.stack),
            where_it_lies(&below_mount(into, &stack), &stack),
        );
        if then != now {
            return Err(PulledError::Elsewhere { into: into.to_owned(), then, now });
        }
        Ok(())
    }

    fn document(&self, run: &str, number: u32, ledger: &Ledger) -> Document {
        let session = &ledger.cuts[&number].session;
        let notes = with_reach(storage::notes(&session.stack), &session.stack);
        let probe = session.probe.as_ref();
        Document {
            seed: session.seed,
            complete: true,
            places: vec![Place {
                id: "p1".to_owned(),
                path: session.into.clone(),
                simulated: false,
                model: None,
                stack: session.stack.clone(),
            }],
            arms: arms(ledger, session),
            verdict: probe.map(|probe| probe.verdict.clone()),
            pulled: Some(Pulled {
                run: run.to_owned(),
                cut: number,
                cuts: ledger
                    .cuts
                    .iter()
                    .filter(|(_, cut)| !cut.left)
                    .map(|(number, cut)| record(*number, cut))
                    .collect(),
                overwrites_per_sec: probe.and_then(|probe| probe.overwrites_per_sec),
                flushes_per_op: probe.and_then(|probe| probe.flushes_per_op),
            }),
            notes,
            ..begun(Kind::Plug, &self.argv)
        }
    }
}

/// Everything that was acknowledged is out of reach, whatever its method.
fn does_not_mount(into: &str) -> Judgement {
    let verdict = Verdict::DoesNotMount.to_string();
    let (method, detail) = (ALL.to_owned(), "the file system cannot be mounted".to_owned());
    let example = Example { verdict: verdict.clone(), method, path: into.to_owned(), detail };
    Judgement { verdict, examples: vec![example], ..Judgement::default() }
}

fn where_it_lies(below_mount: &str, stack: &Stack) -> String {
    match below_mount {
        "" => format!("{}, at its top", stack.file_system),
        below => format!("{}, there \"{below}\"", stack.file_system),
    }
}

fn record(number: u32, cut: &Cut) -> PulledCut {
    let judged = cut.judged.as_ref();
    let mut record = PulledCut {
        cut: number,
        begun_at: cut.at.clone(),
        verified_at: judged.map(|(at, _)| at.clone()),
        verdict: judged.map(|(_, judgement)| judgement.verdict.clone()),
        unpromised: judged.map_or(0, |(_, judgement)| judgement.unpromised),
        unsynced: judged.map_or(0, |(_, judgement)| judgement.unsynced.written),
        unsynced_found: judged.map_or(0, |(_, judgement)| judgement.unsynced.found),
        ..PulledCut::default()
    };
    for method in judged.iter().flat_map(|(_, judgement)| judgement.methods.values()) {
        record.acknowledged += method.acknowledged;
        for (verdict, count) in &method.broken {
            *record.broken.entry(verdict.clone()).or_default() += count;
        }
    }
    record
}

/// One arm for all, and one a method.
fn arms(ledger: &Ledger, session: &Session) -> Vec<Arm> {
    let judged: Vec<(u32, &Judgement)> = ledger
        .cuts
        .iter()
        .filter(|(_, cut)| !cut.left)
        .filter_map(|(number, cut)| Some((*number, &cut.judged.as_ref()?.1)))
        .collect();
    let mut verdicts: BTreeMap<&str, Vec<(u32, String)>> = BTreeMap::new();
    for (number, judgement) in judged.iter().filter(|(_, judgement)| judgement.tells_something()) {
        verdicts.entry(ALL).or_default().push((*number, judgement.verdict.clone()));
        for (method, of_method) in &judgement.methods {
            let broken = |verdict: &&Verdict| of_method.broken.contains_key(verdict.name());
            let worst = Verdict::ALL.iter().rev().find(broken).unwrap_or(&Verdict::Kept);
            verdicts.entry(method).or_default().push((*number, worst.to_string()));
        }
    }
    let arm = |(method, verdicts): (&str, Vec<(u32, String)>)| {
        let examples = |(number, judgement): &(u32, &Judgement)| -> Vec<CutExample> {
            let of_method = judgement.examples.iter().filter(|one| method == ALL || one.method == method);
            of_method.map(|one| example(*number, one)).collect()
        };
        let examples = judged.iter().flat_map(examples).collect();
        Arm {
            name: method.to_owned(),
            labels: Labels::new().with("method", method).with("place", "p1"),
            power_cuts: Some(power_cuts(&verdicts, examples, session)),
            ..Arm::default()
        }
    };
    verdicts.into_iter().map(arm).collect()
}

fn power_cuts(cuts: &[(u32, String)], examples: Vec<CutExample>, session: &Session) -> PowerCuts {
    let mut verdicts = BTreeMap::new();
    for (_, verdict) in cuts {
        *verdicts.entry(verdict.clone()).or_default() += 1;
    }
    let count = cuts.len() as u64;
    let promise_kept = cuts.iter().all(|(_, verdict)| verdict == Verdict::Kept.name());
    PowerCuts {
        cuts: count,
        aimed: 0,
        verdicts,
        promise_kept,
        bound_95: (promise_kept && count > 0).then(|| bound_95(count)),
        in_fact: InFact { file_system: session.stack.file_system.clone(), ..InFact::default() },
        examples,
    }
}

fn example(cut: u32, Example { verdict, method, path, detail }: &Example) -> CutExample {
    CutExample {
        verdict: verdict.clone(),
        promised: true,
        path: path.clone(),
        detail: format!("{detail} ({method})"),
        image: format!("cut {cut}"),
        missing: 0,
        command: format!("fsynclab plug verify --cut {cut}"),
    }
}

/// The notes on a stack, and how far down a cut reaches there: that says more than that a disk is virtual.
pub(super) fn with_reach(mut notes: Vec<Note>, stack: &Stack) -> Vec<Note> {
    notes.retain(|note| note.code != NoteCode::VirtualDisk);
    notes.push(reach(stack));
    notes
}

fn reach(stack: &Stack) -> Note {
    let of_host = stack.disks.iter().find(|disk| disk.r#virtual);
    let text = match of_host {
        Some(disk) => format!(
            "{} is virtual: a reset or kill of this machine tests its own kernel and file system, and no more: what the \
             host had taken, its memory and the drive's cache, stays; only a cut of the host's power tests those",
            disk.name
        ),
        None => "a reset (a button, reboot -f) leaves the drive powered: it tests kernel and file system; the drive's \
                 cache is tested only where the drive itself loses its power"
            .to_owned(),
    };
    Note::info(NoteCode::CutReach, text)
}

/// Removes the directory of a writer that lost its power, as the journal of that run has it; a note where none has.
fn remove(root: &Path) -> Result<Option<Note>, PulledError> {
    let state = journal::state_directory()?;
    for journal in journal::leftovers(&state)?.journals {
        if undo(root, &journal) {
            journal.close()?;
            return Ok(None);
        }
    }
    let text = format!("\"{}\" stays: no journal knows it any more", shown(root));
    Ok(root.exists().then(|| Note::warning(NoteCode::LeftBehind, text)))
}

fn undo(root: &Path, journal: &Journal) -> bool {
    let entries = journal.entries().into_iter().filter(|entry| entry.kind == RunDirectory::KIND);
    entries
        .filter_map(|entry| Some((entry.n, serde_json::from_value::<RunDirectory>(entry.data).ok()?)))
        .filter(|(_, directory)| directory.path() == root)
        .any(|(number, directory)| journal.undo(number, &directory).is_ok())
}
