//! Removes a directory tree of ours: names of any bytes, any depth, directories that nobody may read. Follows no symbolic
//! link and enters no other mount. Holds three descriptors at most, however deep the tree.
#![cfg_attr(test, expect(unsafe_code, reason = "a test drops its thread's privileges"))]

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmodat, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::error::SysError;
use super::kernel::{Call, Fault};

/// What a name in a directory stands for.
pub(super) struct Named {
    pub(super) name: CString,
    pub(super) is_directory: bool,
}

/// Opens a directory by name, reading allowed, even if its mode forbids it to its owner; the name must be a directory of
/// the same mount, not a symbolic link to one.
pub(super) fn enter(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let resolve = ResolveFlag::RESOLVE_NO_XDEV | ResolveFlag::RESOLVE_NO_SYMLINKS;
    let found = match openat2(parent, name, OpenHow::new().flags(flags).resolve(resolve)) {
        // Kernels before 5.6, and sandboxes: other file systems are told by their number then.
        Err(Errno::ENOSYS | Errno::EPERM) => {
            let found = openat(parent, name, flags, Mode::empty())?;
            if fstat(&found)?.st_dev != fstat(parent)?.st_dev {
                return Err(Errno::EXDEV);
            }
            found
        }
        found => found?,
    };
    let mode = Mode::from_bits_truncate(fstat(&found)?.st_mode);
    if !mode.contains(Mode::S_IRWXU) {
        // A descriptor of O_PATH has no fchmod; its name in /proc does, and cannot be exchanged.
        let path = format!("/proc/self/fd/{}", found.as_raw_fd());
        match fchmodat(AT_FDCWD, path.as_str(), mode | Mode::S_IRWXU, FchmodatFlags::FollowSymlink) {
            // Not its owner: reading is allowed by other bits, or the open says that it is not.
            Ok(()) | Err(Errno::EPERM) => {}
            Err(errno) => return Err(errno),
        }
    }
    openat(&found, c".", OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
}

/// What a directory holds, `.` and `..` apart.
pub(super) fn list(directory: BorrowedFd<'_>) -> Result<Vec<Named>, Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut listed = Vec::new();
    for entry in Dir::openat(directory, c".", flags, Mode::empty())?.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let is_directory = match entry.file_type() {
            Some(kind) => kind == Type::Directory,
            None => is_directory(&fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)?),
        };
        listed.push(Named { name: name.to_owned(), is_directory });
    }
    Ok(listed)
}

fn is_directory(found: &FileStat) -> bool {
    found.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFDIR.bits()
}

/// A directory that is being emptied.
struct Level {
    name: CString,
    device: u64,
    inode: u64,
    /// Its directories that are still there.
    pending: Vec<CString>,
}

/// Removes what a name in `parent` stands for, a directory with all that is in it. `path` is what messages call it.
pub(super) fn remove(parent: BorrowedFd<'_>, named: Named, path: &Path) -> Result<(), SysError> {
    if !named.is_directory {
        return Ok(unlink(parent, &named.name).map_err(Fault::of(Call::Unlink, path))?);
    }
    let (mut here, level) = descend(parent, named.name, path)?;
    let mut levels = vec![level];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.pending.pop() {
            let path = path_of(path, &levels).join(OsStr::from_bytes(name.as_bytes()));
            let (below, level) = descend(borrowed(&here), name, &path)?;
            here = below;
            levels.push(level);
            continue;
        }
        let emptied_path = path_of(path, &levels);
        let at = Fault::of(Call::Rmdir, &emptied_path);
        let Some(emptied) = levels.pop() else { break };
        match levels.last() {
            None => unlinkat(parent, emptied.name.as_c_str(), UnlinkatFlags::RemoveDir).map_err(at)?,
            Some(level) => {
                here = ascend(borrowed(&here), level).map_err(&at)?;
                unlinkat(&here, emptied.name.as_c_str(), UnlinkatFlags::RemoveDir).map_err(at)?;
            }
        }
    }
    Ok(())
}

fn borrowed(file: &OwnedFd) -> BorrowedFd<'_> {
    std::os::fd::AsFd::as_fd(file)
}

/// Opens a directory and removes all that is no directory from it.
fn descend(parent: BorrowedFd<'_>, name: CString, path: &Path) -> Result<(OwnedFd, Level), SysError> {
    let directory = match enter(parent, &name) {
        Err(Errno::EXDEV) => {
            let foreign = PathBuf::from(path.file_name().unwrap_or_default());
            return Err(SysError::Foreign {
                directory: super::files::directory_of(path).to_path_buf(),
                foreign,
            });
        }
        entered => entered.map_err(Fault::of(Call::Openat, path))?,
    };
    let found = fstat(&directory).map_err(Fault::of(Call::Newfstatat, path))?;
    let mut pending = Vec::new();
    for named in list(borrowed(&directory)).map_err(Fault::of(Call::Getdents64, path))? {
        if named.is_directory {
            pending.push(named.name);
        } else {
            let at =
                |errno| Fault::of(Call::Unlink, &path.join(OsStr::from_bytes(named.name.as_bytes())))(errno);
            unlink(borrowed(&directory), &named.name).map_err(at)?;
        }
    }
    Ok((directory, Level { name, device: found.st_dev, inode: found.st_ino, pending }))
}

/// Back to the directory above, if it still is the one that was left.
fn ascend(here: BorrowedFd<'_>, level: &Level) -> Result<OwnedFd, Errno> {
    let above = openat(here, c"..", OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    let found = fstat(&above)?;
    if (found.st_dev, found.st_ino) == (level.device, level.inode) { Ok(above) } else { Err(Errno::ESTALE) }
}

fn unlink(parent: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    match unlinkat(parent, name, UnlinkatFlags::NoRemoveDir) {
        Err(Errno::ENOENT) => Ok(()),
        unlinked => unlinked,
    }
}

fn path_of(top: &Path, levels: &[Level]) -> PathBuf {
    let mut path = top.to_path_buf();
    path.extend(levels.iter().skip(1).map(|level| OsStr::from_bytes(level.name.as_bytes())));
    path
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn remove_at(path: &Path) -> Result<(), SysError> {
        let parent = fs::File::open(path.parent().expect("parent")).expect("parent");
        let name = CString::new(path.file_name().expect("name").as_bytes()).expect("name");
        remove(parent.as_fd(), Named { name, is_directory: true }, path)
    }

    /// Linux keeps credentials per thread, and the bare call changes this one's only.
    fn as_nobody<R: Send>(act: impl FnOnce() -> R + Send) -> R {
        let dropped = || {
            let (keep, nobody) = (-1_i32, 65534_i32);
            // SAFETY: plain numbers; nothing else runs on this thread.
            let result = unsafe { libc::syscall(libc::SYS_setresuid, keep, nobody, keep) };
            assert_eq!(result, 0, "could not become nobody: run this test as root");
            act()
        };
        std::thread::scope(|scope| scope.spawn(dropped).join().expect("the thread"))
    }

    fn hard_tree(top: &Path, outside: &Path) {
        for name in [&b"new\nline"[..], b"-rf", b"\xff\xfe", b" "] {
            let directory = top.join(OsStr::from_bytes(name));
            fs::create_dir(&directory).expect("directory");
            fs::write(directory.join(OsStr::from_bytes(&[b'n'; 255])), "x").expect("file");
            symlink(outside, directory.join("link")).expect("link");
        }
        for mode in [0o000, 0o400, 0o300, 0o111] {
            let directory = top.join(format!("mode-{mode:o}"));
            fs::create_dir(&directory).expect("directory");
            fs::write(directory.join("file"), "x").expect("file");
            fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).expect("mode");
        }
        symlink(outside, top.join("link")).expect("link");
    }

    #[test]
    fn a_tree_goes_whole_whatever_its_names_and_modes_for_root_and_for_others() {
        for privileged in [true, false] {
            let directory = tempfile::tempdir().expect("directory");
            fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).expect("mode");
            let (top, outside) = (directory.path().join("top"), directory.path().join("outside"));
            fs::create_dir(&outside).expect("outside");
            fs::write(outside.join("kept"), "x").expect("kept");
            let act = || {
                fs::create_dir(&top).expect("top");
                hard_tree(&top, &outside);
                remove_at(&top)
            };
            let removed = if privileged { act() } else { as_nobody(act) };
            removed.expect("removed");
            assert!(!top.exists(), "privileged: {privileged}");
            assert!(outside.join("kept").exists());
        }
    }

    #[test]
    fn a_tree_deeper_than_descriptors_and_paths_reach_goes() {
        let directory = tempfile::tempdir().expect("directory");
        let top = directory.path().join("top");
        fs::create_dir(&top).expect("top");
        let mut here = OwnedFd::from(fs::File::open(&top).expect("top"));
        let name = CString::new(vec![b'd'; 200]).expect("name");
        for _ in 0..2000 {
            nix::sys::stat::mkdirat(&here, name.as_c_str(), Mode::S_IRWXU).expect("mkdir");
            here = enter(here.as_fd(), &name).expect("enter");
        }
        remove_at(&top).expect("removed");
        assert!(!top.exists());
    }

    #[test]
    fn what_a_stranger_mounted_in_a_tree_is_not_entered() {
        use nix::mount::{MsFlags, mount};
        let directory = tempfile::tempdir().expect("directory");
        let (top, outside) = (directory.path().join("top"), directory.path().join("outside"));
        fs::create_dir_all(top.join("below/mounted")).expect("directories");
        fs::create_dir(&outside).expect("outside");
        fs::write(outside.join("kept"), "x").expect("kept");
        // A mount namespace of one thread: the mount ends with it.
        let act = || {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).expect("run this test as root");
            let none = None::<&str>;
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("private");
            mount(Some(&outside), &top.join("below/mounted"), none, MsFlags::MS_BIND, none).expect("bind");
            remove_at(&top)
        };
        let error = std::thread::scope(|scope| scope.spawn(act).join().expect("the thread"));
        assert!(matches!(error, Err(SysError::Foreign { .. })), "{error:?}");
        assert!(outside.join("kept").exists());
    }

    #[test]
    fn what_cannot_be_removed_is_told_by_its_path() {
        let directory = tempfile::tempdir().expect("directory");
        fs::create_dir_all(directory.path().join("top/below")).expect("directories");
        fs::write(directory.path().join("top/below/file"), "x").expect("file");
        let error = as_nobody(|| remove_at(&directory.path().join("top"))).expect_err("not ours");
        assert!(error.to_string().ends_with("Permission denied"), "{error}");
    }
}
