//! What is copied under strace.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tempfile::TempDir;

use crate::common::scratch;

/// A tree to copy, and the sizes of its files by their path from its root, escaped as strace does.
pub struct Source {
    _directory: TempDir,
    path: PathBuf,
    pub sizes: BTreeMap<String, u64>,
}

impl Source {
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn new(directory: TempDir, path: PathBuf) -> Self {
        let files = walkdir::WalkDir::new(&path).into_iter().map(|entry| entry.expect("an entry"));
        let sizes = files.filter(|entry| entry.file_type().is_file()).map(|entry| {
            let below = entry.path().strip_prefix(&path).expect("below the root");
            let size = entry.metadata().expect("a file").len();
            (format!("/{}", escaped(below.as_os_str().as_bytes())), size)
        });
        let sizes = sizes.collect();
        Self { _directory: directory, path, sizes }
    }

    /// Sizes at every edge, names of every kind, one directory below, and what no copy may open.
    pub fn of_all_sizes() -> Self {
        let directory = scratch("sizes");
        let path = directory.path().join("tree");
        fs::create_dir_all(path.join("sub dir")).expect("directories");
        let edges = [
            0, 3, 8192, 8193, 65_535, 65_536, 65_537, 1_048_575, 1_048_576, 1_048_577, 3_670_016, 34_603_008,
        ];
        for size in edges {
            write(&path.join(size.to_string()), size);
        }
        let longest = [b'n'; 255];
        let names: [&[u8]; 9] = [
            b"-rf",
            b"a b",
            b"new\nline",
            b"tab\t",
            b"q'\"\\",
            "\u{fc}".as_bytes(),
            b"\xff\xfe",
            b"<x, {y}>",
            &longest,
        ];
        for (size, name) in names.into_iter().enumerate() {
            write(&path.join(OsStr::from_bytes(name)), size);
        }
        write(&path.join("sub dir/empty"), 0);
        write(&path.join("sub dir/one page"), 4096);
        mkfifo(&path.join("fifo"), Mode::S_IRWXU).expect("a FIFO");
        drop(UnixListener::bind(path.join("socket")).expect("a socket"));
        std::os::unix::fs::symlink("3", path.join("link")).expect("a link");
        Self::new(directory, path)
    }
}

fn write(path: &Path, size: usize) {
    let content: Vec<u8> = (0..size).map(|at| u8::try_from(at % 251).expect("a byte")).collect();
    let mut file = fs::File::create(path).expect("a file");
    file.write_all(&content).expect("content");
}

/// As strace writes a name, blanks as `\40`.
fn escaped(name: &[u8]) -> String {
    let mut text = String::new();
    for (at, byte) in name.iter().enumerate() {
        match byte {
            b'\n' => text += "\\n",
            b'\t' => text += "\\t",
            b'\\' => text += "\\\\",
            b' ' => text += "\\40",
            0x20..=0x7e => text.push(char::from(*byte)),
            // As short as the next letter allows.
            _ => {
                let width = if name.get(at + 1).is_some_and(u8::is_ascii_digit) { 3 } else { 1 };
                write!(text, "\\{byte:0width$o}").expect("a string takes all");
            }
        }
    }
    text
}
