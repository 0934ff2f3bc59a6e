//! What is found after a cut, compared with what the witness knows.
//!
//! For every name: it leads to what it must lead to, or to what it was announced to lead to since; for every sector of a
//! file that is found: it has the generation that it must have, or a later one that was announced. All else is a finding,
//! promised where it was acknowledged. Parts of one writing that are right and parts that are not are torn.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::event::{Example, Judgement, Methodical, Number, Unsynced};
use super::history::{File, History, Ledger, Name, Occupant};
use super::method::METHODS;
use super::sector::{Sector, Seen};
use super::write::directory_name;
use crate::powercut::contents::SECTOR_BYTES;
use crate::powercut::judge::{Finding, Verdict};
use crate::sys::error::shown;

/// All that came of a cut.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Files and names that were acknowledged and looked for, by method.
    pub acknowledged: BTreeMap<String, u64>,
    /// What is not as it was last written, with the method.
    pub findings: Vec<(String, Finding)>,
    /// What was never synced.
    pub unsynced: Unsynced,
}

/// Compares everything below the session's directory.
pub fn check(root: &Path, session: u64, histories: &BTreeMap<u32, History>) -> Checked {
    let mut checked = Checked::default();
    for (writer, history) in histories {
        let top = PathBuf::from(directory_name(*writer));
        Look { root, session, history, checked: &mut checked, seen: HashSet::new() }
            .walk(Ledger::top(*writer), &top);
    }
    checked
}

impl Checked {
    /// As the witness keeps it.
    pub fn judgement(&self) -> Judgement {
        let mut judgement = Judgement { verdict: Verdict::Kept.to_string(), ..Judgement::default() };
        for (method, acknowledged) in &self.acknowledged {
            let (acknowledged, broken) = (*acknowledged, BTreeMap::new());
            judgement.methods.insert(method.clone(), Methodical { acknowledged, broken });
        }
        judgement.unsynced = self.unsynced;
        let mut worst = Verdict::Kept;
        let mut shown_already = BTreeSet::new();
        for (method, finding) in &self.findings {
            if !finding.promised {
                judgement.unpromised += 1;
                continue;
            }
            let verdict = finding.verdict.to_string();
            worst = worst.max(finding.verdict);
            let of_method = judgement.methods.entry(method.clone()).or_default();
            *of_method.broken.entry(verdict.clone()).or_default() += 1;
            if shown_already.insert((method, finding.verdict)) {
                judgement.examples.push(Example {
                    verdict,
                    method: method.clone(),
                    path: shown(&finding.path),
                    detail: finding.detail.clone(),
                });
            }
        }
        judgement.verdict = worst.to_string();
        judgement
    }
}

/// One writer's part.
struct Look<'a> {
    root: &'a Path,
    session: u64,
    history: &'a History,
    checked: &'a mut Checked,
    /// Files that some name leads to.
    seen: HashSet<Number>,
}

impl Look<'_> {
    fn walk(&mut self, top: Number, path: &Path) {
        let mut directories = vec![(top, path.to_path_buf())];
        if !self.root.join(path).is_dir() {
            let finding = Finding::new(Verdict::NameLost, "not there", path, true);
            self.checked.findings.push(("fsync".to_owned(), finding));
            return;
        }
        let mut moving = Vec::new();
        while let Some((directory, path)) = directories.pop() {
            for (name, entry) in self.history.names_in(directory) {
                let path = path.join(name);
                if let Some(found) = self.name(entry, &path) {
                    directories.push((found, path));
                } else if let (Some(Occupant::File(file)), false) = (entry.must, entry.may.is_empty()) {
                    moving.push((file, path));
                }
            }
        }
        for (number, path) in moving {
            let file = &self.history.files[&number];
            if !file.going && !self.seen.contains(&number) {
                let finding = Finding::new(
                    Verdict::NameLost,
                    "there neither as this nor under its new name",
                    &path,
                    true,
                );
                self.checked.findings.push((file.method.clone(), finding));
            }
        }
    }

    fn find(&mut self, method: &str, finding: Finding) {
        self.checked.findings.push((method.to_owned(), finding));
    }

    fn count(&mut self, method: &str) {
        *self.checked.acknowledged.entry(method.to_owned()).or_default() += 1;
    }

    /// Looks at one name; the directory that it leads to, if it does.
    fn name(&mut self, name: &Name, path: &Path) -> Option<Number> {
        let acknowledged = name.must.is_some() || !name.before.is_empty();
        if acknowledged {
            self.count(&name.method);
        }
        let found = self.root.join(path).symlink_metadata();
        match found {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if name.allowed().all(|occupant| occupant.is_some()) {
                    self.find(&name.method, Finding::new(Verdict::NameLost, "not there", path, true));
                }
                None
            }
            Err(error) => {
                let detail = format!("cannot be looked at: {error}");
                self.find(&name.method, Finding::new(Verdict::Lost, detail, path, acknowledged));
                None
            }
            Ok(_) if name.allowed().all(|occupant| occupant.is_none()) => {
                let detail = "removed and synced, and there again";
                self.find(&name.method, Finding::new(Verdict::Resurrected, detail, path, acknowledged));
                None
            }
            Ok(found) if found.is_dir() => {
                let directory = name.allowed().find_map(|occupant| match occupant {
                    Some(Occupant::Directory(number)) => Some(number),
                    _ => None,
                });
                if directory.is_none() {
                    let detail = "a directory in place of a file";
                    self.find(&name.method, Finding::new(Verdict::Misplaced, detail, path, acknowledged));
                }
                directory
            }
            Ok(_) => {
                self.file(name, path);
                None
            }
        }
    }

    /// Counts what was written by a method that never syncs, but not where the writing may not have begun.
    fn unsynced(&mut self, file: &File, number: Number, sectors: &[Seen]) {
        let never = METHODS.iter().any(|method| method.name == file.method && !method.data);
        let counts = never && self.history.under_way != Some(number);
        for (at, place) in file.places.iter().enumerate().filter(|_| counts) {
            let Some(last) = place.may.last() else { continue };
            let of_last = |sector: &Sector| sector.file == number && sector.generation == *last;
            let found = matches!(sectors.get(at), Some(Seen::Whole(sector)) if of_last(sector));
            self.checked.unsynced.written += 1;
            self.checked.unsynced.found += u64::from(found);
        }
    }

    /// Compares the contents with whatever file the name may lead to; the best match counts.
    fn file(&mut self, name: &Name, path: &Path) {
        let candidates: Vec<Number> = name
            .allowed()
            .filter_map(|occupant| match occupant {
                Some(Occupant::File(number)) => Some(number),
                _ => None,
            })
            .collect();
        let bytes = match std::fs::read(self.root.join(path)) {
            Ok(bytes) => bytes,
            Err(error) => {
                let promised = candidates.iter().any(|file| is_promised(&self.history.files[file]));
                let detail = format!("cannot be read: {error}");
                self.find(&name.method, Finding::new(Verdict::Lost, detail, path, promised));
                return;
            }
        };
        let sectors: Vec<Seen> = bytes.chunks(SECTOR_BYTES).map(Sector::read).collect();
        let own = |number: &Number| {
            let is_own = |seen: &Seen| matches!(seen, Seen::Whole(sector) if sector.file == *number);
            sectors.iter().any(is_own)
        };
        // The file that it says it is, else the one that it must be.
        let Some(number) = candidates.iter().find(|number| own(number)).or(candidates.first()).copied()
        else {
            let finding =
                Finding::new(Verdict::Misplaced, "a file in place of a directory", path, name.must.is_some());
            self.find(&name.method, finding);
            return;
        };
        self.seen.insert(number);
        let history = self.history;
        let file = &history.files[&number];
        if is_promised(file) {
            self.count(&file.method);
        }
        self.unsynced(file, number, &sectors);
        let before = |other: Number| name.before.contains(&Occupant::File(other));
        if let Some(wrong) = compare(&sectors, file, number, self.session, &before) {
            let detail = match wrong.sector {
                Some(place) => format!("{} at byte {}", wrong.words, place * SECTOR_BYTES),
                None => wrong.words.to_owned(),
            };
            self.find(&file.method, Finding::new(wrong.verdict, detail, path, wrong.promised));
        }
    }
}

fn is_promised(file: &File) -> bool {
    file.places.iter().any(|place| place.must.is_some())
}

/// The worst of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wrong {
    verdict: Verdict,
    words: &'static str,
    /// Where; the whole file otherwise.
    sector: Option<usize>,
    promised: bool,
}

/// Compares sectors with what a file must and may have; `before` tells the files that the name led to earlier.
fn compare(
    found: &[Seen],
    file: &File,
    number: Number,
    session: u64,
    before: &dyn Fn(Number) -> bool,
) -> Option<Wrong> {
    let (mut right, mut wrong) = (HashSet::new(), Vec::new());
    for at in 0..file.places.len().max(found.len()) {
        let place = file.places.get(at).cloned().unwrap_or_default();
        let (verdict, words) = match found.get(at) {
            None if at == 0 => (Verdict::Lost, "size 0"),
            None => (Verdict::Lost, "ends"),
            Some(Seen::Zeros) => (Verdict::Lost, "zeros"),
            Some(Seen::Foreign) => (Verdict::Lost, "bytes nobody wrote"),
            Some(Seen::Damaged) => (Verdict::Torn, "part of a sector"),
            Some(Seen::Whole(sector)) if (sector.session, sector.file) != (session, number) => {
                if sector.session == session && before(sector.file) {
                    (Verdict::Stale, "the file that had this name before")
                } else {
                    (Verdict::Misplaced, "bytes of another file")
                }
            }
            Some(Seen::Whole(sector)) if sector.place as usize != at => {
                (Verdict::Misplaced, "bytes of another place")
            }
            Some(Seen::Whole(sector)) if Some(sector.generation) == place.must => {
                right.insert(sector.generation);
                continue;
            }
            Some(Seen::Whole(sector)) if place.may.contains(&sector.generation) => continue,
            Some(Seen::Whole(sector)) if Some(sector.generation) < place.must => {
                (Verdict::Stale, "an older generation")
            }
            Some(Seen::Whole(_)) => (Verdict::Misplaced, "a generation that was never announced"),
        };
        // What was not acknowledged may be missing.
        let absent = matches!(found.get(at), None | Some(Seen::Zeros));
        if place.must.is_some() || !absent {
            wrong.push((
                Wrong { verdict, words, sector: Some(at), promised: place.must.is_some() },
                place.must,
            ));
        }
    }
    let torn = |(wrong, writing): (Wrong, Option<u32>)| {
        let parts = matches!(wrong.verdict, Verdict::Lost | Verdict::Stale);
        let torn = parts && writing.is_some_and(|writing| right.contains(&writing));
        if torn { Wrong { verdict: Verdict::Torn, words: "part of a writing", ..wrong } } else { wrong }
    };
    let wrong = wrong.into_iter().map(torn);
    // Of equals the first.
    let worst = wrong.rev().max_by_key(|wrong| (wrong.promised, wrong.verdict))?;
    let whole = worst.words == "size 0";
    Some(Wrong { sector: worst.sector.filter(|_| !whole), ..worst })
}

#[cfg(test)]
mod tests;
