//! Our own files: replaced atomically, made durable step by step, every result checked.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, fchmod};
use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, Gid, Uid, eaccess, fchown};
use serde::{Deserialize, Serialize};

use super::error::SysError;
use super::kernel::{Call, Fault, Kernel};
use super::random::fresh_id;
use super::real::Real;
use super::undo::{Undo, Undone};
use super::watch::{Deadline, Watch};

/// A file that holds a result, rewritten as a run goes on.
///
/// A regular file, or one that is not there yet, is replaced atomically each time: a reader, and a reader after a power
/// cut, finds the old content or the new one. What is a symbolic link or no regular file (a pipe, `/dev/stdout`) is
/// opened and written once, at the end.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// By a file of this name in the same directory.
    Replaced { temporary: PathBuf },
    /// Once.
    AtTheEnd,
}

impl OutputFile {
    /// Looks at the path and touches nothing; an error where its directory takes no file.
    pub fn new(path: &Path) -> Result<Self, SysError> {
        let way = match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => return Err(Fault::of(Call::Openat, path)(Errno::EISDIR).into()),
            Ok(found) if !found.is_file() => Way::AtTheEnd,
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Fault::of_io(Call::Newfstatat, path)(error).into());
            }
            Ok(_) | Err(_) => {
                let directory =
                    std::path::absolute(directory_of(path)).map_err(Fault::of_io(Call::Newfstatat, path))?;
                let writable = AccessFlags::W_OK | AccessFlags::X_OK;
                eaccess(&directory, writable).map_err(Fault::of(Call::Openat, path))?;
                Way::Replaced { temporary: directory.join(format!(".fsynclab-{}.tmp", fresh_id())) }
            }
        };
        Ok(Self { path: path.to_path_buf(), way })
    }

    /// What to journal before the first [`keep`](Self::keep): a kill may leave it behind.
    pub fn temporary(&self) -> Option<TemporaryFile> {
        match &self.way {
            Way::Replaced { temporary } => Some(TemporaryFile { path: temporary.clone() }),
            Way::AtTheEnd => None,
        }
    }

    /// Replaces the content by what is known so far; nothing happens to a file that is written once.
    pub fn keep(&self, bytes: &[u8]) -> Result<(), SysError> {
        match &self.way {
            Way::Replaced { temporary } => replace(&self.path, temporary, bytes),
            Way::AtTheEnd => Ok(()),
        }
    }

    /// Writes the last content. For a pipe's reader it waits a minute, or until it is asked to stop.
    pub fn finish(self, bytes: &[u8], watch: &dyn Watch) -> Result<(), SysError> {
        match &self.way {
            Way::Replaced { temporary } => replace(&self.path, temporary, bytes),
            Way::AtTheEnd => {
                let patience = Patience { path: &self.path, end: Deadline::after(FOR_A_READER), watch };
                let file = open_at_the_end(&patience)?;
                write_at_the_end(file.as_fd(), bytes, &patience)?;
                // A pipe and a terminal have no sync and say so.
                sync_if_possible(file.as_fd()).map_err(Fault::of(Call::Fsync, &self.path))?;
                Ok(Real.close(file).map_err(Fault::of(Call::Close, &self.path))?)
            }
        }
    }
}

/// How long a pipe may have no reader, or one that does not read.
const FOR_A_READER: Duration = Duration::from_mins(1);
const ASKED_EVERY: Duration = Duration::from_millis(20);

/// Waiting for a pipe's reader.
struct Patience<'a> {
    path: &'a Path,
    end: Deadline,
    watch: &'a dyn Watch,
}

impl Patience<'_> {
    /// A moment; an error once it has been long enough.
    fn wait(&self) -> Result<(), SysError> {
        let stop = self.watch.stop();
        if stop.is_some() || self.end.reached() {
            return Err(SysError::Unread { path: self.path.to_path_buf(), stop });
        }
        thread::sleep(ASKED_EVERY);
        Ok(())
    }
}

/// Opens what is written once, a pipe without waiting in the kernel.
fn open_at_the_end(patience: &Patience<'_>) -> Result<OwnedFd, SysError> {
    let at = Fault::of(Call::Openat, patience.path);
    let flags = OFlag::O_WRONLY | OFlag::O_TRUNC | OFlag::O_CREAT | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let path = text(patience.path).map_err(&at)?;
    let is_pipe = || fs::metadata(patience.path).is_ok_and(|found| found.file_type().is_fifo());
    loop {
        match Real.open(&path, flags, new_file()) {
            Err(Errno::ENXIO) if is_pipe() => patience.wait()?,
            opened => return Ok(opened.map_err(at)?),
        }
    }
}

fn write_at_the_end(file: BorrowedFd<'_>, mut bytes: &[u8], patience: &Patience<'_>) -> Result<(), SysError> {
    while !bytes.is_empty() {
        match Real.write(file, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => patience.wait()?,
            Err(errno) => return Err(Fault::of(Call::Write, patience.path)(errno).into()),
        }
    }
    Ok(())
}

/// A temporary file with a random name of ours, left behind by a kill between its making and its renaming.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemporaryFile {
    #[serde(with = "super::path_text")]
    path: PathBuf,
}

impl Undo for TemporaryFile {
    const KIND: &'static str = "temporary-file";
    type Error = SysError;

    fn describe(&self) -> String {
        format!("temporary file \"{}\"", super::error::shown(&self.path))
    }

    fn undo(&self) -> Result<Undone, SysError> {
        match fs::remove_file(&self.path) {
            Ok(()) => Ok(Undone::Now),
            // Where nothing can be written this is said before it is looked whether the file is there.
            Err(_)
                if fs::symlink_metadata(&self.path)
                    .is_err_and(|error| error.kind() == io::ErrorKind::NotFound) =>
            {
                Ok(Undone::Before)
            }
            Err(error) => Err(Fault::of_io(Call::Unlink, &self.path)(error).into()),
        }
    }
}

/// Replaces a file atomically and durably: `temporary`, in the same directory, is written, synced and renamed, then the
/// directory is synced. An existing file's permission bits are kept, and its owner where root replaces it; a new one has
/// those the umask leaves.
fn replace(path: &Path, temporary: &Path, bytes: &[u8]) -> Result<(), SysError> {
    let replaced = write_temporary(path, temporary, bytes).and_then(|()| {
        let at = Fault::of(Call::Rename, path);
        Ok(Real.rename(&text(temporary).map_err(&at)?, &text(path).map_err(&at)?).map_err(at)?)
    });
    if let Err(error) = replaced {
        // The first error is the one to tell; the journal knows the file where even this fails.
        fs::remove_file(temporary).ok();
        return Err(error);
    }
    sync_directory(directory_of(path)).map(|_| ())
}

fn write_temporary(path: &Path, temporary: &Path, bytes: &[u8]) -> Result<(), SysError> {
    let at = Fault::of(Call::Openat, temporary);
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
    let file = Real.open(&text(temporary).map_err(&at)?, flags, new_file()).map_err(&at)?;
    if let Ok(existing) = fs::symlink_metadata(path) {
        if Uid::effective().is_root() {
            // A file system without owners refuses; it has none to keep.
            let (owner, group) = (Uid::from_raw(existing.uid()), Gid::from_raw(existing.gid()));
            fchown(&file, Some(owner), Some(group)).ok();
        }
        fchmod(&file, Mode::from_bits_truncate(existing.mode())).map_err(at)?;
    }
    write_all(file.as_fd(), temporary, bytes)?;
    Real.fsync(file.as_fd()).map_err(Fault::of(Call::Fsync, temporary))?;
    Ok(Real.close(file).map_err(Fault::of(Call::Close, temporary))?)
}

/// Writes bytes at a file's end and syncs them: they are durable when this returns.
pub fn append(file: &fs::File, path: &Path, bytes: &[u8]) -> Result<(), Fault> {
    write_all(file.as_fd(), path, bytes)?;
    Real.fsync(file.as_fd()).map_err(Fault::of(Call::Fsync, path))
}

fn write_all(file: BorrowedFd<'_>, path: &Path, mut bytes: &[u8]) -> Result<(), Fault> {
    while !bytes.is_empty() {
        match Real.write(file, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(Fault::of(Call::Write, path)(errno)),
        }
    }
    Ok(())
}

/// What became of a sync that not every file system has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synced {
    /// What was written is durable; of a directory, its entries.
    Done,
    /// There is no such sync here, said with this error: nothing is known.
    Refused(Errno),
}

/// Syncs a directory's entries.
pub fn sync_directory(directory: &Path) -> Result<Synced, SysError> {
    let at = Fault::of(Call::Openat, directory);
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let opened = match Real.open(&text(directory).map_err(&at)?, flags, Mode::empty()) {
        // One to write in and to pass through, not to be read: no sync without a descriptor.
        Err(Errno::EACCES) => return Ok(Synced::Refused(Errno::EACCES)),
        opened => opened.map_err(at)?,
    };
    let synced = sync_if_possible(opened.as_fd()).map_err(Fault::of(Call::Fsync, directory))?;
    Real.close(opened).map_err(Fault::of(Call::Close, directory))?;
    Ok(synced)
}

fn sync_if_possible(file: BorrowedFd<'_>) -> Result<Synced, Errno> {
    match Real.fsync(file) {
        Ok(()) => Ok(Synced::Done),
        // What shared folders of containers, FUSE servers, pipes and others say that have no such sync.
        Err(errno @ (Errno::EINVAL | Errno::ENOTSUP | Errno::ENOSYS | Errno::EBADF)) => {
            Ok(Synced::Refused(errno))
        }
        Err(errno) => Err(errno),
    }
}

/// Makes a directory that was not there, durable with its name in its parent.
pub fn make_directory(directory: &Path, mode: Mode) -> Result<Synced, SysError> {
    let at = Fault::of(Call::Mkdir, directory);
    Real.mkdir(&text(directory).map_err(&at)?, mode).map_err(at)?;
    match sync_directory(directory)? {
        Synced::Done => sync_directory(directory_of(directory)),
        refused @ Synced::Refused(_) => Ok(refused),
    }
}

/// The size of a file system and what of it an ordinary user may still fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// In bytes.
    pub total_bytes: u64,
    /// In bytes.
    pub available_bytes: u64,
}

/// The space of the file system that holds a path.
pub fn space(path: &Path) -> Result<Space, SysError> {
    let found = statvfs(path).map_err(Fault::of(Call::Newfstatat, path))?;
    let size_bytes = found.fragment_size();
    Ok(Space {
        total_bytes: found.blocks().saturating_mul(size_bytes),
        available_bytes: found.blocks_available().saturating_mul(size_bytes),
    })
}

/// The directory that holds a path's last name.
pub fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

/// A path as the kernel takes it; EINVAL where it has a zero byte.
pub fn text(path: &Path) -> Result<CString, Errno> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::EINVAL)
}

const fn new_file() -> Mode {
    Mode::from_bits_truncate(0o666)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::super::watch::Quiet;
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("metadata").mode() & 0o7777
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(directory)
            .expect("directory")
            .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_whole_keeps_its_permissions_and_leaves_no_temporary_one() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("results.json");
        fs::write(&path, "old").expect("old");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("mode");
        let before = fs::metadata(&path).expect("metadata").ino();
        let output = OutputFile::new(&path).expect("output");
        output.keep(b"round 1").expect("keep");
        assert_ne!(fs::metadata(&path).expect("metadata").ino(), before);
        output.finish(b"round 2", &Quiet).expect("finish");
        assert_eq!(fs::read(&path).expect("content"), b"round 2");
        assert_eq!(mode(&path), 0o640);
        assert_eq!(names(directory.path()), ["results.json"]);
    }

    #[test]
    fn a_new_file_has_the_permissions_that_the_umask_leaves() {
        let directory = tempfile::tempdir().expect("directory");
        let (ours, others) = (directory.path().join("ours"), directory.path().join("others"));
        OutputFile::new(&ours).expect("output").finish(b"x", &Quiet).expect("finish");
        fs::write(&others, "x").expect("others");
        assert_eq!(mode(&ours), mode(&others));
    }

    #[test]
    fn a_symbolic_link_stays_one_and_is_written_at_the_end_only() {
        let directory = tempfile::tempdir().expect("directory");
        let (target, link) = (directory.path().join("target"), directory.path().join("link"));
        fs::write(&target, "longer than the new content").expect("target");
        symlink(&target, &link).expect("link");
        let output = OutputFile::new(&link).expect("output");
        assert_eq!(output.temporary(), None);
        output.keep(b"round 1").expect("keep");
        assert_eq!(fs::read(&target).expect("content"), b"longer than the new content");
        output.finish(b"round 2", &Quiet).expect("finish");
        assert_eq!(fs::read(&target).expect("content"), b"round 2");
        assert!(fs::symlink_metadata(&link).expect("link").is_symlink());
    }

    #[test]
    fn a_full_device_and_a_directory_are_told_in_words() {
        let output = OutputFile::new(Path::new("/dev/full")).expect("output");
        let error = output.finish(b"x", &Quiet).expect_err("full");
        assert_eq!(error.to_string(), "could not write to file \"/dev/full\": No space left on device");
        let error = OutputFile::new(Path::new("/")).expect_err("directory");
        assert_eq!(error.to_string(), "could not open file \"/\": Is a directory");
    }

    #[test]
    fn what_cannot_be_replaced_stays_as_it_was_and_no_temporary_file_is_left() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("results.json");
        let output = OutputFile::new(&path).expect("output");
        fs::create_dir(&path).expect("in the way");
        let error = output.keep(b"x").expect_err("in the way").to_string();
        assert!(error.ends_with("results.json\": Is a directory"), "{error}");
        assert_eq!(names(directory.path()), ["results.json"]);
    }

    #[test]
    fn a_temporary_file_that_a_kill_left_is_removed_once() {
        let directory = tempfile::tempdir().expect("directory");
        let output = OutputFile::new(&directory.path().join("new")).expect("output");
        let temporary = output.temporary().expect("temporary");
        fs::write(&temporary.path, "torn").expect("torn");
        assert_eq!(temporary.undo().expect("undo"), Undone::Now);
        assert_eq!(temporary.undo().expect("undo"), Undone::Before);
        assert!(names(directory.path()).is_empty());
    }

    #[test]
    fn a_directory_is_made_once_and_its_space_is_known() {
        let directory = tempfile::tempdir().expect("directory");
        let made = directory.path().join("made");
        assert_eq!(make_directory(&made, Mode::S_IRWXU).expect("make"), Synced::Done);
        let error = make_directory(&made, Mode::S_IRWXU).expect_err("exists");
        assert!(error.to_string().ends_with("File exists"), "{error}");
        let space = space(&made).expect("space");
        assert!(space.available_bytes > 0 && space.available_bytes <= space.total_bytes);
    }
}
