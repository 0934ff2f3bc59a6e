//! Copies and planted faults, made on a simulated drive while its write log runs; each is a section of the log.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::{Attempt, Error};
use super::ledger::{Ack, Ledger};
use super::tape::{BEGIN, END};
use super::tree::Tree;
use crate::replay::engine::Engine;
use crate::replay::means::Means;
use crate::replay::policy::Policy;
use crate::simdrive::mount::SimulatedDrive;
use crate::sys::kernel::{Call, Fault, Kernel};
use crate::sys::mounts::sync_file_system;
use crate::sys::real::Real;
use crate::sys::tools::Tool;
use crate::sys::watch::{Quiet, Watch};

/// For discarding what is free, and for emptying a journal.
const TOOL_LIMIT: Duration = Duration::from_mins(1);

/// The directory on the drive that holds the copy.
pub const HOLDER: &str = "place";
/// The copy, seen from the file system's root.
pub const COPY: &str = "place/copy";
/// An older copy that was removed durably before.
pub const OLD: &str = "place/old";

/// What is done in a section. Planted faults acknowledge what is not so.
#[derive(Clone, Debug)]
pub enum Deed {
    /// A copy under a policy.
    Copy(Box<Policy>),
    /// Everything is right, but acknowledged before the first sync.
    AcknowledgedBeforeSynced,
    /// The last file is written under another name, synced and renamed; its directory is not synced.
    RenamedWithoutDirectory,
    /// Every file is written over in place, synced and acknowledged: what is lost leaves what was there before.
    WrittenOver,
    /// Empty files are made last and never synced.
    EmptyFilesUnsynced,
}

/// The drive, and where sources lie that are not on it.
pub struct Recorder<'a> {
    drive: &'a SimulatedDrive,
    outside: PathBuf,
}

impl<'a> Recorder<'a> {
    /// Makes the holder on the drive.
    pub fn new(drive: &'a SimulatedDrive, outside: &Path) -> Result<Recorder<'a>, Error> {
        let holder = drive.mount_point().join(HOLDER);
        std::fs::create_dir(&holder).attempt("create directory", &holder)?;
        Ok(Recorder { drive, outside: outside.to_path_buf() })
    }

    /// What a policy finds on the drive.
    pub fn means(&self, policy: &Policy) -> Result<Means, crate::replay::means::Unavailable> {
        Means::at(policy, &self.drive.mount_point().join(HOLDER))
    }

    /// Records one section. `tree` is copied, `old` is what lay there before; both are removed again.
    pub fn record(
        &self,
        name: &str,
        deed: &Deed,
        (tree, old): (&Tree, &Tree),
        watch: &dyn Watch,
    ) -> Result<(), Error> {
        let root = self.drive.mount_point();
        let (before, copy) = (root.join(OLD), root.join(COPY));
        let source = match deed {
            Deed::Copy(policy) if policy.needs().staged_source => root.join(HOLDER).join("source"),
            _ => self.outside.join("source"),
        };
        // Where it can be done nothing of earlier sections stays on the drive: images are as small as they can be.
        Tool::new("fstrim").arg(root).limit(TOOL_LIMIT).run(&Quiet)?;
        old.build(&before)?;
        sync(root)?;
        std::fs::remove_dir_all(&before).attempt("remove directory", &before)?;
        tree.build(&source)?;
        prepare(deed, (tree, old), &copy)?;
        empty_journal(root)?;
        self.drive.mark(&format!("{BEGIN}{name}"))?;
        let ledger = Ledger::new(self.drive, tree.acks(&copy));
        let done = perform(deed, tree, &source, &copy, &ledger, watch);
        ledger.close()?;
        done?;
        self.later(root)?;
        for directory in [&copy, &source] {
            std::fs::remove_dir_all(directory).attempt("remove directory", directory)?;
        }
        sync(root)
    }

    /// Life goes on after a copy: something else is written and synced, so that cuts have something to cut.
    fn later(&self, root: &Path) -> Result<(), Error> {
        let path = root.join(HOLDER).join("later");
        std::fs::write(&path, [7; 10_000]).attempt("write file", &path)?;
        sync(root)?;
        self.drive.mark(END)?;
        std::fs::remove_file(&path).attempt("remove file", &path)
    }
}

/// What a planted fault needs before its section begins.
fn prepare(deed: &Deed, (tree, old): (&Tree, &Tree), copy: &Path) -> Result<(), Error> {
    match deed {
        Deed::Copy(_) | Deed::AcknowledgedBeforeSynced => Ok(()),
        Deed::WrittenOver => old.build(copy),
        Deed::RenamedWithoutDirectory => {
            tree.build(copy)?;
            let last = copy.join(&tree.files[tree.files.len() - 1].path);
            std::fs::remove_file(&last).attempt("remove file", &last)
        }
        Deed::EmptyFilesUnsynced => {
            tree.build(copy)?;
            for file in tree.files.iter().filter(|file| file.contents.is_empty()) {
                let path = copy.join(&file.path);
                std::fs::remove_file(&path).attempt("remove file", &path)?;
            }
            Ok(())
        }
    }
}

fn perform(
    deed: &Deed,
    tree: &Tree,
    source: &Path,
    copy: &Path,
    ledger: &Ledger<'_>,
    watch: &dyn Watch,
) -> Result<(), Error> {
    match deed {
        Deed::Copy(policy) => {
            let means = Means::at(policy, copy.parent().unwrap_or(copy)).unwrap_or_default();
            Engine::new(&Real, policy, means)?.replay(source, copy, watch, ledger)?;
        }
        Deed::AcknowledgedBeforeSynced => {
            tree.build(copy)?;
            ledger.acknowledge(Ack::Done);
            let files = tree.files.iter().map(|file| copy.join(&file.path));
            let directories = tree.directories.iter().rev().map(|directory| copy.join(directory));
            for path in files.chain(directories).chain(copy.parent().map(Path::to_path_buf)) {
                fsync(&path)?;
            }
        }
        Deed::RenamedWithoutDirectory => {
            let last = &tree.files[tree.files.len() - 1];
            let (temporary, name) = (copy.join("temporary"), copy.join(&last.path));
            std::fs::write(&temporary, &last.contents).attempt("write file", &temporary)?;
            fsync(&temporary)?;
            std::fs::rename(&temporary, &name).attempt("rename file", &temporary)?;
            ledger.acknowledge(Ack::Done);
        }
        Deed::WrittenOver => {
            for file in &tree.files {
                let path = copy.join(&file.path);
                let opened = OpenOptions::new().write(true).open(&path).attempt("open file", &path)?;
                opened.write_all_at(&file.contents, 0).attempt("write file", &path)?;
                fsync(&path)?;
            }
            ledger.acknowledge(Ack::Done);
        }
        Deed::EmptyFilesUnsynced => {
            for file in tree.files.iter().filter(|file| file.contents.is_empty()) {
                let path = copy.join(&file.path);
                File::create(&path).attempt("create file", &path)?;
            }
            ledger.acknowledge(Ack::Done);
        }
    }
    Ok(())
}

/// Syncs, and leaves nothing in the file system's journal: otherwise every image recovers the history of the drive. What
/// is left of older transactions there is stale, as on a drive in use.
fn empty_journal(root: &Path) -> Result<(), Error> {
    for way in ["--freeze", "--unfreeze"] {
        Tool::new("fsfreeze").arg(way).arg(root).limit(TOOL_LIMIT).run(&Quiet)?.success()?;
    }
    Ok(())
}

fn sync(root: &Path) -> Result<(), Error> {
    sync_file_system(root).attempt("synchronize file system of", root)
}

fn fsync(path: &Path) -> Result<(), Error> {
    let file = File::open(path).attempt("open file", path)?;
    let synced = Real.fsync(file.as_fd()).map_err(Fault::of(Call::Fsync, path));
    Ok(synced.map_err(crate::replay::engine::EngineError::from)?)
}
