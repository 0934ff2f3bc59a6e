//! One writer: it makes files and directories, appends, writes over, renames and removes without end, every method in
//! turn, and tells the witness before each deed what it is about to do, and after each sync what is durable.
//!
//! It has a directory of its own, so that its order is the order of everything there. At most one deed is under way when
//! the power goes.

use std::path::PathBuf;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::error::WitnessError;
use super::event::{Event, Number};
use super::files::{self, Span};
use super::link::Link;
use super::method::{After, METHODS, Method};
use super::sector::Sector;
use crate::sys::kernel::Kernel;

/// The most files that a writer keeps, and the most directories beside its own.
const MOST_FILES: usize = 48;
const MOST_DIRECTORIES: usize = 8;
/// A file grows to so many sectors.
const MOST_SECTORS: u32 = 256;
/// What one writer has on the disk at the most, in bytes.
pub const MOST_BYTES: u64 = MOST_FILES as u64 * MOST_SECTORS as u64 * 512;
/// Overwrites under one sync.
const BATCH: u32 = 3;

/// The name of a writer's directory.
pub fn directory_name(writer: u32) -> String {
    format!("w-{writer}")
}

/// The number of a writer's directory.
pub fn directory_number(writer: u32) -> Number {
    u64::from(writer) << 32
}

/// What a writer is given.
pub struct Task<'a> {
    /// The directory of the session; the writer's own is in it.
    pub root: PathBuf,
    /// Which writer.
    pub writer: u32,
    /// As it stands in every sector.
    pub session: u64,
    /// Decides what it does, together with its number.
    pub seed: u64,
    /// syncfs would stall somebody.
    pub spare_file_system: bool,
    /// Whether to stop.
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

struct Live {
    file: Number,
    method: &'static Method,
    /// Its place among the directories.
    directory: usize,
    name: String,
    sectors: u32,
    generation: u32,
}

struct Directory {
    number: Number,
    path: PathBuf,
}

/// A writer at work.
pub struct Writer<'a, K> {
    kernel: &'a K,
    link: Link<'a>,
    task: Task<'a>,
    random: ChaCha8Rng,
    methods: Vec<&'static Method>,
    files: Vec<Live>,
    directories: Vec<Directory>,
    next: Number,
    told: &'a (dyn Fn() + Sync),
}

impl<'a, K: Kernel> Writer<'a, K> {
    /// A writer whose directory has been made. `told` hears of every acknowledgement.
    pub fn new(kernel: &'a K, link: Link<'a>, task: Task<'a>, told: &'a (dyn Fn() + Sync)) -> Self {
        let random = ChaCha8Rng::seed_from_u64(task.seed ^ u64::from(task.writer) << 48);
        let number = directory_number(task.writer);
        let path = task.root.join(directory_name(task.writer));
        let spared = |method: &&Method| !task.spare_file_system || method.after != After::Syncfs;
        Writer {
            kernel,
            link,
            random,
            methods: METHODS.iter().filter(spared).collect(),
            files: Vec::new(),
            directories: vec![Directory { number, path }],
            next: number + 1,
            told,
            task,
        }
    }

    /// Works until told to stop, or until something fails.
    pub fn run(mut self) -> Result<(), WitnessError> {
        while !(self.task.stop)() {
            self.step()?;
        }
        self.link.settle()
    }

    fn step(&mut self) -> Result<(), WitnessError> {
        if self.files.is_empty() {
            return self.create();
        }
        let full = self.files.len() >= MOST_FILES;
        let file = self.random.random_range(0..self.files.len());
        match self.random.random_range(0..100) {
            0..30 if !full => self.create(),
            0..36 => self.remove(file),
            36..54 => self.append(file),
            54..72 => self.overwrite(file, 1),
            72..80 => self.overwrite(file, BATCH),
            80..90 => self.replace(file),
            90..97 => self.rename(file),
            _ => self.make_directory(),
        }
    }

    fn number(&mut self) -> Number {
        self.next += 1;
        self.next - 1
    }

    fn path(&self, directory: usize, name: &str) -> PathBuf {
        self.directories[directory].path.join(name)
    }

    fn durable(&mut self, event: Event) -> Result<(), WitnessError> {
        self.link.tell(event)?;
        (self.told)();
        Ok(())
    }

    fn names_durable(&mut self, directory: usize, method: &Method) -> Result<(), WitnessError> {
        let Directory { number, path } = &self.directories[directory];
        let number = *number;
        if files::sync_names(self.kernel, path, method)? {
            self.durable(Event::Entries { directory: number })?;
        }
        Ok(())
    }

    /// Announces what is about to be written to a file; its generation is new.
    fn span(&mut self, file: &mut Live, first: u32, sectors: u32) -> Result<Span, WitnessError> {
        file.generation += 1;
        let (number, generation) = (file.file, file.generation);
        let seq = self.link.tell(Event::Write { file: number, generation, first, sectors })?;
        file.sectors = file.sectors.max(first + sectors);
        let session = self.task.session;
        Ok(Span { first: Sector { session, file: number, generation, place: first, seq }, sectors })
    }

    /// A new file with contents, durable; its name is not yet.
    fn make(&mut self, directory: usize, prefix: &str) -> Result<Live, WitnessError> {
        let method = self.methods.choose(&mut self.random).copied().unwrap_or(&METHODS[0]);
        let number = self.number();
        let name = format!("{prefix}{}", number & 0xffff_ffff);
        let mut file = Live { file: number, method, directory, name, sectors: 0, generation: 0 };
        let directory_number = self.directories[directory].number;
        self.link.tell(Event::Create {
            file: number,
            method: method.name.to_owned(),
            directory: directory_number,
            name: file.name.clone(),
        })?;
        let sectors = match self.random.random_range(0..16) {
            0 => 0,
            1 => self.random.random_range(17..=MOST_SECTORS / 2),
            _ => self.random.random_range(1..=16),
        };
        let spans = if sectors > 0 { vec![self.span(&mut file, 0, sectors)?] } else { Vec::new() };
        self.link.settle()?;
        files::write(self.kernel, &self.path(directory, &file.name), method, true, &spans)?;
        self.durable(Event::Data { file: number })?;
        Ok(file)
    }

    fn create(&mut self) -> Result<(), WitnessError> {
        let directory = self.random.random_range(0..self.directories.len());
        let file = self.make(directory, "f-")?;
        self.names_durable(directory, file.method)?;
        self.files.push(file);
        Ok(())
    }

    /// Writes these ranges, then syncs once.
    fn write(&mut self, at: usize, ranges: &[(u32, u32)]) -> Result<(), WitnessError> {
        let mut file = self.files.swap_remove(at);
        let mut spans = Vec::new();
        for (first, sectors) in ranges {
            spans.push(self.span(&mut file, *first, *sectors)?);
        }
        self.link.settle()?;
        files::write(self.kernel, &self.path(file.directory, &file.name), file.method, false, &spans)?;
        if file.method.data {
            self.durable(Event::Data { file: file.file })?;
        }
        self.files.push(file);
        Ok(())
    }

    fn append(&mut self, at: usize) -> Result<(), WitnessError> {
        let end = self.files[at].sectors;
        let most = (MOST_SECTORS - end).min(16);
        if most == 0 {
            return self.overwrite(at, 1);
        }
        let sectors = self.random.random_range(1..=most);
        self.write(at, &[(end, sectors)])
    }

    fn overwrite(&mut self, at: usize, times: u32) -> Result<(), WitnessError> {
        let end = self.files[at].sectors;
        if end == 0 {
            return self.append(at);
        }
        let mut range = || {
            let first = self.random.random_range(0..end);
            (first, self.random.random_range(1..=(end - first).min(32)))
        };
        let ranges: Vec<(u32, u32)> = (0..times).map(|_| range()).collect();
        self.write(at, &ranges)
    }

    /// The classical way: a new file, synced, takes the name of the old one.
    fn replace(&mut self, at: usize) -> Result<(), WitnessError> {
        let directory = self.files[at].directory;
        let mut new = self.make(directory, "new-")?;
        let number = self.directories[directory].number;
        let old = self.files.swap_remove(at);
        let from = std::mem::replace(&mut new.name, old.name);
        let to = (number, new.name.clone());
        self.link.announce(Event::Rename { file: new.file, from: (number, from.clone()), to })?;
        files::rename(self.kernel, &self.path(directory, &from), &self.path(directory, &new.name))?;
        self.names_durable(directory, new.method)?;
        self.files.push(new);
        Ok(())
    }

    /// Another name, perhaps in another directory: the new name is made durable first.
    fn rename(&mut self, at: usize) -> Result<(), WitnessError> {
        let mut file = self.files.swap_remove(at);
        let to = self.random.random_range(0..self.directories.len());
        let new = self.number() & 0xffff_ffff;
        let name = format!("r-{new}");
        let (from_path, to_path) = (self.path(file.directory, &file.name), self.path(to, &name));
        let from = (self.directories[file.directory].number, std::mem::replace(&mut file.name, name.clone()));
        let event = Event::Rename { file: file.file, from, to: (self.directories[to].number, name) };
        self.link.announce(event)?;
        files::rename(self.kernel, &from_path, &to_path)?;
        self.names_durable(to, file.method)?;
        if file.directory != to {
            self.names_durable(file.directory, file.method)?;
        }
        file.directory = to;
        self.files.push(file);
        Ok(())
    }

    fn remove(&mut self, at: usize) -> Result<(), WitnessError> {
        let file = self.files.swap_remove(at);
        let directory = self.directories[file.directory].number;
        self.link.announce(Event::Remove { directory, name: file.name.clone() })?;
        files::remove(self.kernel, &self.path(file.directory, &file.name))?;
        self.names_durable(file.directory, file.method)
    }

    fn make_directory(&mut self) -> Result<(), WitnessError> {
        if self.directories.len() > MOST_DIRECTORIES {
            return self.create();
        }
        let above = self.random.random_range(0..self.directories.len());
        let number = self.number();
        let name = format!("d-{}", number & 0xffff_ffff);
        let directory = self.directories[above].number;
        self.link.announce(Event::MakeDirectory { made: number, directory, name: name.clone() })?;
        let path = self.path(above, &name);
        files::make_directory(self.kernel, &path)?;
        self.names_durable(above, &METHODS[0])?;
        self.directories.push(Directory { number, path });
        Ok(())
    }
}
