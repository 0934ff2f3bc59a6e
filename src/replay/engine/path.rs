//! Paths as the kernel takes them, built in place: no allocation per call.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A path that grows and shrinks at its end.
#[derive(Clone, Debug)]
pub(super) struct PathBuffer {
    /// Always ends in the only NUL.
    bytes: Vec<u8>,
}

impl PathBuffer {
    /// A path with a NUL byte, which no file system knows, ends before it.
    pub(super) fn new(path: &Path) -> Self {
        let mut bytes = Vec::with_capacity(512);
        bytes.extend(path.as_os_str().as_bytes().iter().take_while(|byte| **byte != 0));
        bytes.push(0);
        Self { bytes }
    }

    /// Adds `/name`; an empty name adds nothing. Returns what [`PathBuffer::cut`] takes to undo it.
    pub(super) fn push(&mut self, name: &[u8]) -> usize {
        let length = self.len();
        if !name.is_empty() {
            self.bytes.truncate(length);
            if self.bytes.last() != Some(&b'/') && length > 0 {
                self.bytes.push(b'/');
            }
            self.bytes.extend_from_slice(name);
            self.bytes.push(0);
        }
        length
    }

    /// Back to an earlier length.
    pub(super) fn cut(&mut self, length: usize) {
        self.bytes.truncate(length);
        self.bytes.push(0);
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() - 1
    }

    pub(super) fn as_cstr(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).expect("a path buffer ends in NUL")
    }

    /// What was added since this length.
    pub(super) fn below(&self, length: usize) -> &CStr {
        let start = length + usize::from(self.bytes[length] == b'/');
        CStr::from_bytes_until_nul(&self.bytes[start..]).expect("a path buffer ends in NUL")
    }

    pub(super) fn to_path(&self) -> PathBuf {
        path_of(self.as_cstr()).to_path_buf()
    }

    /// The directory that holds this one: `.` where the path is a bare name.
    pub(super) fn parent(&self) -> Self {
        let path = path_of(self.as_cstr());
        match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => Self::new(parent),
            Some(_) => Self::new(Path::new(".")),
            None => self.clone(),
        }
    }
}

/// The same path for std.
pub(super) fn path_of(path: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(path.to_bytes()))
}

/// Many paths in one allocation.
#[derive(Debug, Default)]
pub(super) struct Names {
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

impl Names {
    /// Adds a path.
    pub(super) fn push(&mut self, path: &CStr) {
        self.starts.push(self.bytes.len());
        self.bytes.extend_from_slice(path.to_bytes_with_nul());
    }

    pub(super) fn get(&self, position: usize) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes[self.starts[position]..]).expect("every name ends in NUL")
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.starts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_added_and_cut_again_and_the_parent_is_found() {
        let mut path = PathBuffer::new(Path::new("run/copy"));
        let length = path.push(b"a \xff");
        assert_eq!(path.as_cstr().to_bytes(), b"run/copy/a \xff");
        path.cut(length);
        path.push(b"");
        assert_eq!(path.to_path(), Path::new("run/copy"));
        for (path, parent) in [("run/copy", "run"), ("copy", "."), ("/copy", "/"), ("/", "/")] {
            assert_eq!(PathBuffer::new(Path::new(path)).parent().to_path(), Path::new(parent));
        }
        let mut root = PathBuffer::new(Path::new("/"));
        root.push(b"copy");
        assert_eq!(root.to_path(), Path::new("/copy"));
    }
}
