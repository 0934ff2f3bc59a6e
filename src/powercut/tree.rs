//! The tree that is copied: names and sizes of a template, contents of our own.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::contents::contents;
use super::error::{Attempt, Error};
use super::ledger::Ack;
use crate::replay::shape::Shape;

/// Contents are held in memory, as are the blocks of a drive: more than this is refused.
pub const MOST_BYTES: u64 = 256 << 20;

/// A regular file.
#[derive(Clone, Debug)]
pub struct TreeFile {
    /// Relative to the top.
    pub path: PathBuf,
    /// Number of the directory it lies in.
    pub directory: usize,
    /// What belongs in it.
    pub contents: Vec<u8>,
}

/// A tree, top first.
#[derive(Clone, Debug)]
pub struct Tree {
    /// Relative to the top, which is the empty path and number 0.
    pub directories: Vec<PathBuf>,
    /// In the order of the template.
    pub files: Vec<TreeFile>,
    /// Which copy its contents say they are.
    pub generation: u32,
}

impl Tree {
    /// A tree of the template's names and sizes.
    pub fn new(shape: &Shape, generation: u32) -> Result<Tree, Error> {
        if shape.bytes() > MOST_BYTES {
            return Err(Error::TooLarge { bytes: shape.bytes(), most: MOST_BYTES });
        }
        let mut directories = vec![PathBuf::new()];
        directories.extend(shape.directories.iter().cloned());
        let number: HashMap<&Path, usize> =
            directories.iter().enumerate().map(|(number, path)| (path.as_path(), number)).collect();
        let files = shape.files.iter().zip(0..).map(|(file, name)| TreeFile {
            path: file.path.clone(),
            directory: file.path.parent().and_then(|parent| number.get(parent)).copied().unwrap_or(0),
            contents: contents(generation, name, usize::try_from(file.size_bytes).unwrap_or(usize::MAX)),
        });
        Ok(Tree { files: files.collect(), directories, generation })
    }

    /// Makes it at `top`, which must not exist.
    pub fn build(&self, top: &Path) -> Result<(), Error> {
        for directory in &self.directories {
            let path = top.join(directory);
            std::fs::create_dir(&path).attempt("create directory", &path)?;
        }
        for file in &self.files {
            let path = top.join(&file.path);
            std::fs::write(&path, &file.contents).attempt("write file", &path)?;
        }
        Ok(())
    }

    /// What is acknowledged when a path below `top`, or the directory that holds it, is synced.
    pub fn acks(&self, top: &Path) -> HashMap<PathBuf, Ack> {
        let files = self.files.iter().enumerate();
        let files = files.map(|(number, file)| (top.join(&file.path), Ack::File(number)));
        let directories = self.directories.iter().enumerate().map(|(number, path)| {
            let path = if number == 0 { top.to_path_buf() } else { top.join(path) };
            (path, Ack::Directory(number))
        });
        let parent = top.parent().map(|parent| (parent.to_path_buf(), Ack::Parent));
        files.chain(directories).chain(parent).collect()
    }
}
