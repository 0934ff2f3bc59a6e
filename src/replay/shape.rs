//! A shape: names and sizes of a tree without its contents; read from a tree, from a file, or generated.

pub mod text;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::{AccessFlags, eaccess};
use walkdir::WalkDir;

use super::engine::{Kind, Skipped};
use crate::sys::error::shown;
use crate::sys::kernel::{Call, Fault};

/// A block of a file system: smaller holes than this are none.
const BLOCK_BYTES: u64 = 4096;

/// A regular file of a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileShape {
    /// Relative to the top.
    pub path: PathBuf,
    /// Apparent size.
    pub size_bytes: u64,
    /// What the file system had allocated for it.
    pub allocated_bytes: u64,
}

impl FileShape {
    /// A file without holes.
    pub fn dense(path: PathBuf, size_bytes: u64) -> Self {
        Self { path, size_bytes, allocated_bytes: size_bytes.next_multiple_of(BLOCK_BYTES) }
    }

    /// True where whole blocks of it are holes. A file system that stores a small file in its inode allocates nothing.
    pub fn is_sparse(&self) -> bool {
        self.size_bytes >= BLOCK_BYTES && self.allocated_bytes < self.size_bytes.next_multiple_of(BLOCK_BYTES)
    }
}

/// Names and sizes of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Directories below the top, each after the one that holds it.
    pub directories: Vec<PathBuf>,
    /// Regular files.
    pub files: Vec<FileShape>,
}

/// What was found in a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Its names and sizes.
    pub shape: Shape,
    /// What is neither a file nor a directory; never opened.
    pub skipped: Vec<Skipped>,
}

/// Why there is no shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// Something in the tree could not be looked at.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// Files or directories that cannot be read, all of them.
    #[error("could not read {}: Permission denied", quoted(.0))]
    Unreadable(Vec<PathBuf>),
    /// The top of a tree is none.
    #[error("\"{}\" is not a directory", shown(.0))]
    NotADirectory(PathBuf),
    /// A name that cannot be in a tree: absolute, empty, with `..`, or with a NUL byte.
    #[error("\"{}\" is no name of a file below a directory", shown(.0))]
    Name(PathBuf),
    /// A name that stands there twice.
    #[error("\"{}\" is there twice", shown(.0))]
    Twice(PathBuf),
    /// A name in a directory that is not in the shape.
    #[error("the directory of \"{}\" is missing", shown(.0))]
    NoDirectory(PathBuf),
    /// Too large to be counted.
    #[error("the sizes of all files do not fit in 64 bits")]
    TooLarge,
}

/// So many unreadable paths are named before the rest is counted.
const MOST_UNREADABLE: usize = 100;
/// So many paths are named as examples.
const EXAMPLES: usize = 3;

fn quoted(paths: &[PathBuf]) -> String {
    named(paths, MOST_UNREADABLE)
}

/// A few of these paths in quotes, and how many more there are.
pub fn examples(paths: &[PathBuf]) -> String {
    named(paths, EXAMPLES)
}

/// What was left out of a tree, one sentence a kind: `left out "a": a FIFO`.
pub fn left_out(skipped: &[Skipped]) -> Vec<String> {
    let mut kinds: Vec<(Kind, Vec<PathBuf>)> = Vec::new();
    for Skipped { path, kind } in skipped {
        match kinds.iter_mut().find(|(known, _)| known == kind) {
            Some((_, paths)) => paths.push(path.clone()),
            None => kinds.push((*kind, vec![path.clone()])),
        }
    }
    let sentence = |(kind, paths): (Kind, Vec<PathBuf>)| {
        let each = if paths.len() > 1 { "each " } else { "" };
        format!("left out {}: {each}a {kind}", examples(&paths))
    };
    kinds.into_iter().map(sentence).collect()
}

fn named(paths: &[PathBuf], most: usize) -> String {
    let named = paths.iter().take(most).map(|path| format!("\"{}\"", shown(path)));
    let named = named.collect::<Vec<_>>().join(", ");
    match paths.len().saturating_sub(most) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

impl Shape {
    /// Sum of the apparent sizes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size_bytes).sum()
    }

    /// Sum of the allocated sizes.
    pub fn allocated_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.allocated_bytes).sum()
    }

    /// True where any file has holes.
    pub fn is_sparse(&self) -> bool {
        self.files.iter().any(FileShape::is_sparse)
    }

    /// So many times the files, in the same directories: each further file is called as its model with `~2`, `~3`, ….
    pub fn scaled(&self, factor: u32) -> Result<Self, ShapeError> {
        let mut shape = self.clone();
        for copy in 2..=factor {
            let further = self.files.iter().map(|file| {
                let mut path = file.path.clone().into_os_string();
                path.push(format!("~{copy}"));
                FileShape { path: path.into(), ..file.clone() }
            });
            shape.files.extend(further);
        }
        shape.checked()
    }

    /// The shape, if a file system could hold it.
    pub fn checked(self) -> Result<Self, ShapeError> {
        let mut directories: Vec<&[u8]> =
            self.directories.iter().map(|path| path.as_os_str().as_bytes()).collect();
        let files = self.files.iter().map(|file| file.path.as_os_str().as_bytes());
        let mut names: Vec<&[u8]> = directories.iter().copied().chain(files).collect();
        if let Some(odd) = names.iter().find(|name| !is_name(name)) {
            return Err(ShapeError::Name(path_of(odd)));
        }
        // Long runs are in order already, which only the stable sort makes use of.
        names.sort();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(ShapeError::Twice(path_of(twice[0])));
        }
        directories.sort_unstable();
        let homeless = |name: &&&[u8]| {
            let end = name.iter().rposition(|byte| *byte == b'/');
            end.is_some_and(|end| directories.binary_search(&&name[..end]).is_err())
        };
        if let Some(homeless) = names.iter().find(homeless) {
            return Err(ShapeError::NoDirectory(path_of(homeless)));
        }
        let sizes = self.files.iter().map(|file| file.size_bytes.max(file.allocated_bytes));
        let sum = sizes.into_iter().try_fold(0, u64::checked_add).ok_or(ShapeError::TooLarge)?;
        if i64::try_from(sum).is_err() {
            return Err(ShapeError::TooLarge);
        }
        Ok(self)
    }

    /// Names and sizes of the tree at `top`, sorted by name. Nothing is opened but directories.
    pub fn scan(top: &Path) -> Result<Scan, ShapeError> {
        let facts = fs::metadata(top).map_err(Fault::of_io(Call::Getdents64, top))?;
        if !facts.is_dir() {
            return Err(ShapeError::NotADirectory(top.to_path_buf()));
        }
        let mut scan = Scan::default();
        let mut unreadable = Vec::new();
        for entry in WalkDir::new(top).sort_by_file_name().min_depth(1) {
            match entry {
                Ok(entry) => scan.add(top, entry.path(), &mut unreadable)?,
                Err(error) => {
                    let path = error.path().unwrap_or(top).to_path_buf();
                    match error.into_io_error() {
                        Some(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                            unreadable.push(path);
                        }
                        // Gone since its directory was read.
                        Some(error) if error.kind() == std::io::ErrorKind::NotFound && path != top => {}
                        Some(error) => return Err(Fault::of_io(Call::Getdents64, &path)(error).into()),
                        None => return Err(ShapeError::Name(path)),
                    }
                }
            }
        }
        if unreadable.is_empty() { Ok(scan) } else { Err(ShapeError::Unreadable(unreadable)) }
    }
}

impl Scan {
    fn add(&mut self, top: &Path, path: &Path, unreadable: &mut Vec<PathBuf>) -> Result<(), Fault> {
        let facts = match fs::symlink_metadata(path) {
            Ok(facts) => facts,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Fault::of_io(Call::Newfstatat, path)(error)),
        };
        let name = path.strip_prefix(top).unwrap_or(path).to_path_buf();
        match kind(facts.file_type()) {
            Kind::Directory => self.shape.directories.push(name),
            Kind::File => {
                match eaccess(path, AccessFlags::R_OK) {
                    // Gone since its facts were read.
                    Err(Errno::ENOENT) => return Ok(()),
                    Err(_) => unreadable.push(path.to_path_buf()),
                    Ok(()) => {}
                }
                let (size_bytes, allocated_bytes) = (facts.size(), facts.blocks() * 512);
                self.shape.files.push(FileShape { path: name, size_bytes, allocated_bytes });
            }
            kind => self.skipped.push(Skipped { path: path.to_path_buf(), kind }),
        }
        Ok(())
    }
}

fn kind(of: fs::FileType) -> Kind {
    if of.is_file() {
        Kind::File
    } else if of.is_dir() {
        Kind::Directory
    } else if of.is_symlink() {
        Kind::Symlink
    } else if of.is_fifo() {
        Kind::Fifo
    } else if of.is_socket() {
        Kind::Socket
    } else {
        Kind::Device
    }
}

/// One or more plain names joined by single slashes.
fn is_name(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/')
        .all(|name| !matches!(name, b"" | b"." | b"..") && name.len() <= 255 && !name.contains(&0))
}

fn path_of(bytes: &[u8]) -> PathBuf {
    OsStr::from_bytes(bytes).into()
}

#[cfg(test)]
mod tests;
