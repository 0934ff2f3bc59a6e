//! What is found on an image, compared with the ledger and the source; data and entries are judged apart.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::contents::{Wrong, compare};
use super::ledger::Promised;
use super::tree::Tree;

/// What came of one image, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Everything that was promised is there.
    Kept,
    /// The file system had to be repaired before it could be mounted; what was promised is there.
    NeedsFsck,
    /// A name that was removed durably is back.
    Resurrected,
    /// A name is not there.
    NameLost,
    /// Data are not there: the file is empty or short, its bytes are zeros or nobody's.
    Lost,
    /// A part of a page is right.
    Torn,
    /// Data of an older copy.
    Stale,
    /// Data of another file or place.
    Misplaced,
    /// The file system cannot be mounted, not even after repair.
    DoesNotMount,
}

impl Verdict {
    /// All of them, the worst last.
    pub const ALL: [Self; 9] = [
        Self::Kept,
        Self::NeedsFsck,
        Self::Resurrected,
        Self::NameLost,
        Self::Lost,
        Self::Torn,
        Self::Stale,
        Self::Misplaced,
        Self::DoesNotMount,
    ];

    /// In kebab-case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::NeedsFsck => "needs-fsck",
            Self::Resurrected => "resurrected",
            Self::NameLost => "name-lost",
            Self::Lost => "lost",
            Self::Torn => "torn",
            Self::Stale => "stale",
            Self::Misplaced => "misplaced",
            Self::DoesNotMount => "does-not-mount",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One thing that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Its kind.
    pub verdict: Verdict,
    /// More exactly: `size 0`, `zeros at byte 8192`.
    pub detail: String,
    /// Relative to the directory that holds the copy.
    pub path: PathBuf,
    /// Was it promised otherwise?
    pub promised: bool,
}

impl Finding {
    /// A finding at a path.
    pub fn new(verdict: Verdict, detail: impl Into<String>, path: &Path, promised: bool) -> Finding {
        Finding { verdict, detail: detail.into(), path: path.to_path_buf(), promised }
    }
}

/// Where the copy under test is, and what must not be there.
#[derive(Clone, Debug)]
pub struct Scene<'a> {
    /// What was copied.
    pub tree: &'a Tree,
    /// Name of the copy.
    pub copy: &'a Path,
    /// Names that were removed durably before, and names that a rename took away.
    pub gone: &'a [&'a str],
}

/// Everything on the mounted file system at `root` that is not as the finished copy is; before its end, files of which
/// nothing was acknowledged are not looked at.
pub fn judge(root: &Path, scene: &Scene<'_>, promised: &Promised) -> Vec<Finding> {
    let mut findings = Vec::new();
    let top = root.join(scene.copy);
    for gone in scene.gone.iter().filter(|gone| root.join(gone).symlink_metadata().is_ok()) {
        let detail = "removed and synced, and there again".to_owned();
        findings.push(Finding { verdict: Verdict::Resurrected, detail, path: gone.into(), promised: true });
    }
    let mut there = BTreeMap::new();
    for (number, directory) in scene.tree.directories.iter().enumerate() {
        let (path, parent) = (top.join(directory), directory.parent());
        let found = path.is_dir();
        there.insert(directory.as_path(), found);
        let parent_there = parent.is_none_or(|parent| there.get(parent).copied().unwrap_or(false));
        if found || !parent_there {
            continue;
        }
        let holder = parent.and_then(|parent| scene.tree.directories.iter().position(|one| one == parent));
        let must =
            if number == 0 { promised.top() } else { holder.is_some_and(|holder| promised.entries(holder)) };
        let path = if number == 0 { scene.copy.to_path_buf() } else { scene.copy.join(directory) };
        findings.push(lost_name(path, must));
    }
    for (number, file) in scene.tree.files.iter().enumerate() {
        let directory = scene.tree.directories[file.directory].as_path();
        let entry = promised.entries(file.directory);
        // Before the end of the copy, what is not promised is not done yet either.
        let read = promised.done || promised.data(number);
        if there.get(directory) != Some(&true) || !(read || entry) {
            continue;
        }
        let path = scene.copy.join(&file.path);
        let found = root.join(&path);
        let found =
            if read { std::fs::read(found).map(Some) } else { found.symlink_metadata().map(|_| None) };
        match found {
            Err(error) if error.kind() == ErrorKind::NotFound => findings.push(lost_name(path, entry)),
            Err(error) => {
                let detail = format!("cannot be read: {error}");
                let promised = promised.data(number);
                findings.push(Finding { verdict: Verdict::Lost, detail, path, promised });
            }
            Ok(found) => {
                findings.extend(found.and_then(|found| data(scene.tree, number, &found, path, promised)));
            }
        }
    }
    findings
}

fn lost_name(path: PathBuf, promised: bool) -> Finding {
    Finding { verdict: Verdict::NameLost, detail: "not there".to_owned(), path, promised }
}

fn data(tree: &Tree, number: usize, found: &[u8], path: PathBuf, promised: &Promised) -> Option<Finding> {
    let right = &tree.files[number].contents;
    let name = u32::try_from(number).unwrap_or(u32::MAX);
    let (wrong, at) = compare(found, right, tree.generation, name)?;
    let (verdict, words) = match wrong {
        Wrong::Misplaced => (Verdict::Misplaced, "bytes of another place"),
        Wrong::Stale => (Verdict::Stale, "bytes of an older copy"),
        Wrong::Torn => (Verdict::Torn, "part of a page"),
        Wrong::Foreign => (Verdict::Lost, "bytes nobody wrote"),
        Wrong::Zeroed => (Verdict::Lost, "zeros"),
        Wrong::Short => (Verdict::Lost, "ends"),
        Wrong::Empty => (Verdict::Lost, "size 0"),
    };
    let detail = if wrong == Wrong::Empty { words.to_owned() } else { format!("{words} at byte {at}") };
    Some(Finding { verdict, detail, path, promised: promised.data(number) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::shape::{FileShape, Shape};
    use crate::results::Promise;

    fn tree() -> Tree {
        let file = |name: &str, size| FileShape::dense(PathBuf::from(name), size);
        let shape = Shape { directories: vec!["d".into()], files: vec![file("a", 9000), file("d/b", 100)] };
        Tree::new(&shape, 2).expect("a small tree")
    }

    fn promised(claim: Promise) -> Promised {
        Promised { done: true, ..Promised::nothing(claim, 2, 2) }
    }

    #[test]
    fn data_and_entries_are_judged_apart_and_each_promise_covers_its_own() {
        let (root, tree) = (tempfile::tempdir().expect("a directory"), tree());
        let (copy, gone) = (Path::new("copy"), ["old"]);
        let scene = Scene { tree: &tree, copy, gone: &gone };
        let judged = |claim| -> Vec<(Verdict, bool)> {
            let found = judge(root.path(), &scene, &promised(claim));
            found.into_iter().map(|finding| (finding.verdict, finding.promised)).collect()
        };
        assert_eq!(judged(Promise::Tree), [(Verdict::NameLost, true)]);
        assert_eq!(judged(Promise::Entries), [(Verdict::NameLost, false)], "of a directory not found");
        tree.build(&root.path().join(copy)).expect("it can be made");
        assert_eq!(judged(Promise::Tree), []);
        std::fs::remove_file(root.path().join("copy/d/b")).expect("it is there");
        assert_eq!(judged(Promise::Entries), [(Verdict::NameLost, true)]);
        assert_eq!(judged(Promise::Data), [(Verdict::NameLost, false)]);
        std::fs::write(root.path().join("copy/a"), "").expect("it can be written");
        std::fs::create_dir(root.path().join("old")).expect("it can be made");
        assert_eq!(
            judged(Promise::Data),
            [(Verdict::Resurrected, true), (Verdict::Lost, true), (Verdict::NameLost, false)]
        );
        assert_eq!(
            judged(Promise::Nothing),
            [(Verdict::Resurrected, true), (Verdict::Lost, false), (Verdict::NameLost, false)]
        );
    }
}
