//! Where the facts are read: the running system, or a captured tree of the same files.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::error::Error;

/// The top of a file tree that holds `proc/` and `sys/`: `/`, or a directory with copies of just the files needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    base: PathBuf,
}

impl Root {
    /// The system we run on.
    pub fn live() -> Self {
        Self { base: PathBuf::from("/") }
    }

    /// A captured tree. Links in it must be relative, as those of sysfs are.
    pub fn captured(base: impl Into<PathBuf>) -> Self {
        Self { base: base.into() }
    }

    /// Whether this is the system we run on, whose devices can be opened.
    pub fn is_live(&self) -> bool {
        self.base == Path::new("/")
    }

    /// The place of `path` (absolute or not) in this tree.
    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.base.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The text of a file without the white space around it; none where it is not there or not readable: attributes
    /// come and go with kernels, drivers and privileges.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let bytes = fs::read(self.at(path)).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        Some(text.trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned())
    }

    /// The path that a file holds, as the kernel writes it; of a removed file, where it lay.
    pub fn path(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        let bytes = self.bytes(path)?;
        let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let name = line.strip_suffix(b" (deleted)").unwrap_or(line);
        Some(PathBuf::from(OsStr::from_bytes(name)))
    }

    /// The bytes of a file.
    pub fn bytes(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        fs::read(self.at(path)).ok()
    }

    /// Names in a directory, sorted; none where it is not there.
    pub fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let entries = fs::read_dir(self.at(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Whether something is there.
    pub fn has(&self, path: impl AsRef<Path>) -> bool {
        self.at(path).exists()
    }

    /// Follows the links of a sysfs path and gives the path within this tree.
    pub fn follow(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        let real = fs::canonicalize(self.at(path)).ok()?;
        let base = fs::canonicalize(&self.base).ok()?;
        Some(Path::new("/").join(real.strip_prefix(base).ok()?))
    }

    /// The path as the mount table knows it: absolute, no links. In a captured tree only `.` and `..` are resolved.
    pub fn resolve(&self, path: &Path) -> Result<PathBuf, Error> {
        if self.is_live() {
            return fs::canonicalize(path)
                .map_err(|source| Error::Path { path: path.to_owned(), source: source.into() });
        }
        let mut parts: Vec<OsString> = Vec::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => parts.push(name.to_owned()),
                Component::ParentDir => {
                    parts.pop();
                }
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        Ok(parts.iter().fold(PathBuf::from("/"), |path, name| path.join(name)))
    }
}
