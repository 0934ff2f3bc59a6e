//! The engine on a real directory: every call it makes, in order, and what it makes of faults.

mod faults;
mod recorder;
mod sequences;
mod trees;

use std::fs;
use std::path::PathBuf;

use super::{Copied, Engine, EngineError, Observer};
use crate::replay::means::Means;
use crate::replay::policy::Policy;
use crate::sys::kernel::Kernel;
use crate::sys::watch::{Quiet, Watch};

/// A directory of its own on a file system with direct I/O, with a `source` and room for a `copy`.
struct Bench {
    top: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let top = tempfile::tempdir_in("/var/tmp").expect("directory");
        fs::create_dir(top.path().join("source")).expect("source");
        Self { top }
    }

    fn with(files: &[(&str, usize)]) -> Self {
        let bench = Self::new();
        for (name, size) in files {
            bench.file(name, *size);
        }
        bench
    }

    fn file(&self, name: &str, size: usize) {
        let path = self.source().join(name);
        fs::create_dir_all(path.parent().expect("parent")).expect("directory");
        let bytes: Vec<u8> = (0..size).map(|at| u8::try_from(at % 251).expect("a byte")).collect();
        fs::write(path, bytes).expect("file");
    }

    fn source(&self) -> PathBuf {
        self.top.path().join("source")
    }

    fn copy(&self) -> PathBuf {
        self.top.path().join("copy")
    }

    fn replay<K: Kernel>(&self, kernel: &K, policy: &str) -> Result<Copied, EngineError> {
        self.replay_watched(kernel, policy, &Quiet, &())
    }

    /// A copy in a fresh place.
    fn replay_watched<K: Kernel, O: Observer>(
        &self,
        kernel: &K,
        policy: &str,
        watch: &dyn Watch,
        observer: &O,
    ) -> Result<Copied, EngineError> {
        let policy = parse(policy);
        let means = Means { descriptors: 8, ..Means::default() };
        if self.copy().exists() {
            fs::remove_dir_all(self.copy()).expect("an earlier copy");
        }
        let mut engine = Engine::new(kernel, &policy, means)?;
        engine.replay(&self.source(), &self.copy(), watch, observer)
    }
}

fn parse(policy: &str) -> Policy {
    policy.parse().unwrap_or_else(|error| panic!("{policy}: {error}"))
}

/// Every named policy that works on any file system.
fn everywhere() -> impl Iterator<Item = &'static str> {
    let rows = crate::replay::policy::table::ROWS.iter().map(|row| row.name);
    rows.filter(|name| !parse(name).needs().reflink)
}
