//! The directory in which a run does all its work at a place, recognised by a marker with a random id. Only what the run
//! made is ever removed: nothing where the marker is not this run's, and no name in it that the run does not use.

use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};
use serde::{Deserialize, Serialize};

use super::error::{SysError, shown};
use super::files::{directory_of, make_directory, sync_directory, text};
use super::journal::Journal;
use super::kernel::{Call, Fault, Kernel};
use super::random::fresh_id;
use super::real::Real;
use super::remove;
use super::undo::{Undo, Undone};

/// The marker's name in the directory.
const MARKER: &CStr = c".fsynclab-marker";

/// A run's directory at a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunDirectory {
    #[serde(with = "super::path_text")]
    path: PathBuf,
    id: String,
    names: Vec<String>,
}

impl RunDirectory {
    /// Journals and makes `.fsynclab-XXXX` in `parent`, durable with its marker; the number is the journal's. In it the
    /// run will use the given names, and names that begin with one of them and a `-`.
    pub fn make(parent: &Path, names: &[&str], journal: &Journal) -> Result<(Self, u64), SysError> {
        let parent = fs::canonicalize(parent).map_err(Fault::of_io(Call::Openat, parent))?;
        loop {
            let id = fresh_id();
            let path = parent.join(format!(".fsynclab-{}", &id[..4]));
            let names = names.iter().map(|&name| name.to_owned()).collect();
            let directory = Self { path, id, names };
            let n = journal.push(&directory)?;
            match directory.put() {
                Ok(()) => return Ok((directory, n)),
                // Another run's, by chance.
                Err(SysError::Fault(Fault { call: Call::Mkdir, errno: Errno::EEXIST, .. })) => {
                    journal.done(n)?;
                }
                // Nothing was made.
                Err(error @ SysError::Fault(Fault { call: Call::Mkdir, .. })) => {
                    journal.done(n)?;
                    return Err(error);
                }
                Err(error) => {
                    // The first error is the one to tell; where even this fails, the journal keeps the entry.
                    journal.undo(n, &directory).ok();
                    return Err(error);
                }
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn put(&self) -> Result<(), SysError> {
        make_directory(&self.path, Mode::S_IRWXU)?;
        let path = self.path.join(OsStr::from_bytes(MARKER.to_bytes()));
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let at = Fault::of(Call::Openat, &path);
        let file = Real.open(&text(&path).map_err(&at)?, flags, Mode::S_IRUSR | Mode::S_IWUSR).map_err(at)?;
        super::files::append(&fs::File::from(file), &path, self.id.as_bytes())?;
        sync_directory(&self.path).map(|_| ())
    }

    /// Whether the directory is this run's: by its marker, or because the run died before the marker was whole.
    fn is_ours(&self, directory: BorrowedFd<'_>) -> Result<bool, Errno> {
        let found = match openat(
            directory,
            MARKER,
            OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC,
            Mode::empty(),
        ) {
            Ok(file) => {
                let mut found = String::new();
                let whole = fs::File::from(file).take(100).read_to_string(&mut found);
                if whole.is_err() {
                    return Ok(false);
                }
                found
            }
            Err(Errno::ENOENT) => String::new(),
            Err(Errno::ELOOP) => return Ok(false),
            Err(errno) => return Err(errno),
        };
        if found == self.id {
            return Ok(true);
        }
        let nothing_else =
            || Ok(remove::list(directory)?.iter().all(|named| named.name.as_c_str() == MARKER));
        if self.id.starts_with(&found) { nothing_else() } else { Ok(false) }
    }

    fn uses(&self, name: &CStr) -> bool {
        let name = name.to_bytes();
        self.names.iter().any(|used| {
            name.strip_prefix(used.as_bytes()).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"-"))
        })
    }

    /// Removes what the run made in it; returns a name that it does not use, if there is one.
    fn empty(&self, directory: BorrowedFd<'_>) -> Result<Option<CString>, SysError> {
        let mut foreign = None;
        for named in remove::list(directory).map_err(Fault::of(Call::Getdents64, &self.path))? {
            if named.name.as_c_str() == MARKER {
                continue;
            }
            if self.uses(&named.name) {
                let path = self.path.join(OsStr::from_bytes(named.name.as_bytes()));
                remove::remove(directory, named, &path)?;
            } else {
                foreign = Some(named.name);
            }
        }
        Ok(foreign)
    }
}

impl Undo for RunDirectory {
    const KIND: &'static str = "run-directory";
    type Error = SysError;

    fn describe(&self) -> String {
        format!("run directory \"{}\"", shown(&self.path))
    }

    fn undo(&self) -> Result<Undone, SysError> {
        let above_path = directory_of(&self.path);
        let not_ours = || SysError::NotOurs { directory: self.path.clone() };
        let at = Fault::of(Call::Openat, above_path);
        // It may be one to pass through only.
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let above = match Real.open(&text(above_path).map_err(&at)?, flags, Mode::empty()) {
            Err(Errno::ENOENT) => return Ok(Undone::Before),
            opened => opened.map_err(at)?,
        };
        let name = text(Path::new(self.path.file_name().unwrap_or_default()))
            .map_err(Fault::of(Call::Openat, &self.path))?;
        let directory = match remove::enter(above.as_fd(), &name) {
            Err(Errno::ENOENT) => return Ok(Undone::Before),
            Err(Errno::ENOTDIR | Errno::ELOOP | Errno::EXDEV) => return Err(not_ours()),
            entered => entered.map_err(Fault::of(Call::Openat, &self.path))?,
        };
        if !self.is_ours(directory.as_fd()).map_err(Fault::of(Call::Read, &self.path))? {
            return Err(not_ours());
        }
        if let Some(foreign) = self.empty(directory.as_fd())? {
            let foreign = PathBuf::from(OsStr::from_bytes(foreign.as_bytes()));
            return Err(SysError::Foreign { directory: self.path.clone(), foreign });
        }
        // The marker last: a kill before leaves a directory that is still known for ours, one after an empty one.
        match unlinkat(&directory, MARKER, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(Fault::of(Call::Unlink, &self.path)(errno).into()),
        }
        unlinkat(&above, name.as_c_str(), UnlinkatFlags::RemoveDir)
            .map_err(Fault::of(Call::Rmdir, &self.path))?;
        // Before the journal forgets it, or a power cut would bring it back unknown.
        sync_directory(above_path)?;
        Ok(Undone::Now)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::sys::undo::UNDO;

    fn scene() -> (tempfile::TempDir, PathBuf, Journal) {
        let directory = tempfile::tempdir().expect("directory");
        let place = directory.path().join("place");
        fs::create_dir(&place).expect("place");
        let journal = Journal::create(&directory.path().join("state")).expect("journal");
        (directory, place, journal)
    }

    fn made(place: &Path, journal: &Journal) -> RunDirectory {
        RunDirectory::make(place, &["source", "copy"], journal).expect("make").0
    }

    #[test]
    fn a_run_directory_goes_with_all_it_made_and_a_strangers_file_beside_it_stays() {
        let (_directory, place, journal) = scene();
        let run = made(&place, &journal);
        fs::create_dir_all(run.path().join("source/base")).expect("source");
        fs::create_dir(run.path().join("copy-2")).expect("copy");
        fs::write(place.join("stranger"), "x").expect("stranger");
        let outcomes = journal.undo_all(UNDO).expect("undo");
        assert!(matches!(outcomes[0].result, Ok(Undone::Now)), "{outcomes:?}");
        assert!(!run.path().exists() && place.join("stranger").exists());
        assert_eq!(run.undo().expect("again"), Undone::Before);
    }

    #[test]
    fn a_strangers_file_in_it_stays_with_the_directory_until_it_is_moved_away() {
        let (_directory, place, journal) = scene();
        let run = made(&place, &journal);
        fs::create_dir(run.path().join("copy")).expect("copy");
        fs::write(run.path().join("copyright"), "x").expect("stranger");
        let error = run.undo().expect_err("foreign");
        assert!(error.to_string().ends_with("\"copyright\" is not of this program"), "{error}");
        assert!(run.path().join("copyright").exists() && !run.path().join("copy").exists());
        fs::remove_file(run.path().join("copyright")).expect("moved");
        assert_eq!(run.undo().expect("undo"), Undone::Now);
    }

    #[test]
    fn what_does_not_carry_the_marker_is_not_touched() {
        let (_directory, place, journal) = scene();
        let run = made(&place, &journal);
        let marker = run.path().join(".fsynclab-marker");
        fs::create_dir(run.path().join("copy")).expect("copy");
        for content in ["", "other", "0123456789abcdef0123456789abcdef"] {
            fs::write(&marker, content).expect("marker");
            assert!(matches!(run.undo(), Err(SysError::NotOurs { .. })), "{content}");
        }
        fs::remove_file(&marker).expect("marker");
        assert!(matches!(run.undo(), Err(SysError::NotOurs { .. })));
        assert!(run.path().join("copy").exists());

        fs::remove_dir_all(run.path()).expect("remove");
        symlink(&place, run.path()).expect("link");
        assert!(matches!(run.undo(), Err(SysError::NotOurs { .. })));
    }

    #[test]
    fn a_run_that_died_while_it_made_its_directory_leaves_nothing() {
        let (_directory, place, journal) = scene();
        for length in [None, Some(0), Some(5)] {
            let run = made(&place, &journal);
            let marker = run.path().join(".fsynclab-marker");
            match length {
                None => fs::remove_file(&marker).expect("marker"),
                Some(length) => fs::write(&marker, &run.id[..length]).expect("marker"),
            }
            assert_eq!(run.undo().expect("undo"), Undone::Now);
        }
        assert_eq!(fs::read_dir(&place).expect("place").count(), 0);
    }
}
