//! What must be there after a cut and what may be, from what a writer told. A thing must be as it was when it was last
//! acknowledged, or as any later announcement would leave it.

use std::collections::{BTreeMap, HashMap};

use super::book;
use super::error::WitnessError;
use super::event::{Event, Judgement, Number, Record, Session};
use super::write::directory_number;

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occupant {
    /// A file.
    File(Number),
    /// A directory.
    Directory(Number),
}

/// A sector of a file: generations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Durable; absent where nothing was there yet.
    pub must: Option<u32>,
    /// Announced since.
    pub may: Vec<u32>,
}

/// A file.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// How it is written.
    pub method: String,
    /// By sector.
    pub places: Vec<Place>,
    /// Its removal, or its replacement, was announced.
    pub going: bool,
}

/// A name in a directory.
#[derive(Clone, Debug, Default)]
pub struct Name {
    /// What it durably leads to: nothing where it is not there.
    pub must: Option<Occupant>,
    /// What it was announced to lead to since.
    pub may: Vec<Option<Occupant>>,
    /// What it led to before that.
    pub before: Vec<Occupant>,
    /// How that which it leads to, or led to, is written.
    pub method: String,
}

impl Name {
    /// Everything that may be found.
    pub fn allowed(&self) -> impl Iterator<Item = Option<Occupant>> + '_ {
        std::iter::once(self.must).chain(self.may.iter().copied())
    }

    fn now(&self) -> Option<Occupant> {
        self.may.last().copied().unwrap_or(self.must)
    }
}

/// All of one writer.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Its files, removed ones too.
    pub files: BTreeMap<Number, File>,
    /// Its names, by directory.
    pub names: BTreeMap<(Number, String), Name>,
    /// The file whose writing was announced last, if nothing was told since: perhaps nothing of it was written yet.
    pub under_way: Option<Number>,
    /// Names of a directory that were changed since its last sync.
    changed: HashMap<Number, Vec<String>>,
}

impl History {
    /// One event more.
    pub fn add(&mut self, event: Event) {
        self.under_way = match event {
            Event::Write { file, .. } => Some(file),
            _ => None,
        };
        match event {
            Event::Create { file, method, directory, name } => {
                self.files.insert(file, File { method, ..File::default() });
                self.lead(directory, name, Some(Occupant::File(file)));
            }
            Event::Write { file, generation, first, sectors } => {
                let file = self.files.entry(file).or_default();
                let (first, end) = (first as usize, first as usize + sectors as usize);
                if file.places.len() < end {
                    file.places.resize(end, Place::default());
                }
                file.places[first..end].iter_mut().for_each(|place| place.may.push(generation));
            }
            Event::Rename { file, from, to } => {
                self.leave(&to);
                self.lead(to.0, to.1, Some(Occupant::File(file)));
                self.lead(from.0, from.1, None);
            }
            Event::Remove { directory, name } => {
                let name = (directory, name);
                self.leave(&name);
                self.lead(name.0, name.1, None);
            }
            Event::MakeDirectory { made, directory, name } => {
                self.lead(directory, name, Some(Occupant::Directory(made)));
            }
            Event::Data { file } => {
                for place in &mut self.files.entry(file).or_default().places {
                    place.must = place.may.pop().or(place.must);
                    place.may.clear();
                }
            }
            Event::Entries { directory } => {
                for name in self.changed.remove(&directory).unwrap_or_default() {
                    let name = self.names.entry((directory, name)).or_default();
                    let Some(now) = name.may.pop() else { continue };
                    name.before.extend(std::mem::replace(&mut name.must, now));
                    name.before.extend(name.may.drain(..).flatten());
                }
            }
        }
    }

    /// Whatever has this name is about to lose it for good.
    fn leave(&mut self, name: &(Number, String)) {
        if let Some(Occupant::File(file)) = self.names.get(name).and_then(Name::now)
            && let Some(file) = self.files.get_mut(&file)
        {
            file.going = true;
        }
    }

    fn lead(&mut self, directory: Number, name: String, to: Option<Occupant>) {
        let method = match to {
            Some(Occupant::File(file)) => self.files.get(&file).map(|file| file.method.clone()),
            // Directories are made durable by fsync.
            Some(Occupant::Directory(_)) => Some("fsync".to_owned()),
            None => None,
        };
        self.changed.entry(directory).or_default().push(name.clone());
        let entry = self.names.entry((directory, name)).or_default();
        entry.may.push(to);
        if let Some(method) = method {
            entry.method = method;
        }
    }

    /// The names of a directory.
    pub fn names_in(&self, directory: Number) -> impl Iterator<Item = (&str, &Name)> {
        let range = (directory, String::new())..(directory + 1, String::new());
        self.names.range(range).map(|((_, name), entry)| (name.as_str(), entry))
    }
}

/// One cut of a run.
#[derive(Clone, Debug)]
pub struct Cut {
    /// When its writer began, UTC.
    pub at: String,
    /// The writer.
    pub session: Session,
    /// It ended by itself.
    pub left: bool,
    /// The last judgement and when it was made.
    pub judged: Option<(String, Judgement)>,
}

/// A run's ledger.
#[derive(Clone, Debug)]
pub struct Ledger {
    records: Vec<Record>,
    /// Its cuts by number.
    pub cuts: BTreeMap<u32, Cut>,
}

impl Ledger {
    /// Reads the text of a run's ledger.
    pub fn read(text: &str, run: &str) -> Result<Ledger, WitnessError> {
        let (records, _) = book::read(text.as_bytes(), run)?;
        let mut cuts = BTreeMap::new();
        for record in &records {
            match record {
                Record::Begin { cut, at, session } => {
                    let (at, session) = (at.clone(), (**session).clone());
                    cuts.insert(*cut, Cut { at, session, left: false, judged: None });
                }
                Record::Left { cut, .. } => {
                    cuts.entry(*cut).and_modify(|cut| cut.left = true);
                }
                Record::Judged { cut, at, judgement } => {
                    let judged = Some((at.clone(), judgement.clone()));
                    cuts.entry(*cut).and_modify(|cut| cut.judged = judged);
                }
                Record::Run { .. } | Record::Told { .. } => {}
            }
        }
        Ok(Ledger { records, cuts })
    }

    /// What each writer of a cut told.
    pub fn histories(&self, cut: u32) -> BTreeMap<u32, History> {
        let mut histories: BTreeMap<u32, History> = BTreeMap::new();
        for record in &self.records {
            if let Record::Told { cut: of, writer, event, .. } = record
                && *of == cut
            {
                histories.entry(*writer).or_default().add(event.clone());
            }
        }
        histories
    }

    /// The directory in which each writer works.
    pub fn top(writer: u32) -> Number {
        directory_number(writer)
    }
}
