use std::thread::sleep;
use std::time::Duration;

use super::*;
use crate::sys::real::Real;
use crate::sys::watch::Quiet;

/// Two equal trees, the source well older than the copy.
struct Pair {
    top: tempfile::TempDir,
}

impl Pair {
    fn new() -> Self {
        let pair = Self { top: tempfile::tempdir_in("/var/tmp").expect("directory") };
        pair.fill("source");
        // Longer than a tick of the clock that file systems stamp with.
        sleep(Duration::from_millis(30));
        pair.fill("copy");
        pair
    }

    fn fill(&self, tree: &str) {
        fs::create_dir_all(self.path(tree).join("sub")).expect("directory");
        fs::write(self.path(tree).join("empty"), "").expect("file");
        fs::write(self.path(tree).join("sub/large"), vec![7; 600_000]).expect("file");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    fn verify(&self, how: Verify) -> Result<Verified, VerifyError> {
        verify(&Real, &self.path("source"), &self.path("copy"), how, &Quiet)
    }

    fn difference(&self, how: Verify) -> String {
        self.verify(how).expect_err("a difference").to_string()
    }
}

#[test]
fn equal_trees_are_equal_and_their_sizes_known() {
    let verified = Pair::new().verify(Verify::Full).expect("equal");
    assert_eq!((verified.files, verified.bytes), (2, 600_000));
    assert_eq!(verified.source_allocated_bytes, verified.copy_allocated_bytes);
}

#[test]
fn the_first_difference_is_named_with_its_offset() {
    let pair = Pair::new();
    let mut bytes = vec![7; 600_000];
    bytes[400_001] = 8;
    fs::write(pair.path("copy/sub/large"), &bytes).expect("file");
    let told = "the copy is not equal to its source: \"sub/large\" differs from its source at byte 400001";
    assert_eq!(pair.difference(Verify::Full), told);
    assert!(pair.verify(Verify::Sizes).is_ok() && pair.verify(Verify::Off).is_ok());
    fs::write(pair.path("copy/sub/large"), &bytes[..5]).expect("file");
    assert!(pair.difference(Verify::Sizes).ends_with("\"sub/large\" has 5 bytes, its source 600000"));
}

#[test]
fn missing_and_extra_names_and_other_types_are_differences() {
    let pair = Pair::new();
    fs::write(pair.path("copy/more\n"), "").expect("file");
    assert!(pair.difference(Verify::Sizes).ends_with("\"more\\n\" is in the copy only"));
    fs::remove_file(pair.path("copy/more\n")).expect("file");
    fs::remove_file(pair.path("copy/empty")).expect("file");
    assert!(pair.difference(Verify::Sizes).ends_with("\"empty\" is missing in the copy"));
    fs::create_dir(pair.path("copy/empty")).expect("directory");
    assert!(pair.difference(Verify::Sizes).ends_with("\"empty\" is of another type than its source"));
}

#[test]
fn a_source_that_changed_during_the_copy_is_told_as_such() {
    let pair = Pair::new();
    sleep(Duration::from_millis(30));
    fs::write(pair.path("source/sub/large"), vec![7; 700_000]).expect("file");
    fs::write(pair.path("source/empty"), "no more").expect("file");
    fs::write(pair.path("source/new"), "").expect("file");
    let mut changed = pair.verify(Verify::Full).expect("changed").changed;
    changed.sort();
    assert_eq!(changed, ["source/empty", "source/new", "source/sub/large"].map(|name| pair.path(name)));
}

#[test]
fn the_words_are_read_and_written() {
    for (value, word) in Verify::ALL {
        assert_eq!((word.parse(), value.to_string().as_str()), (Ok(value), word));
    }
    let error = "no".parse::<Verify>().expect_err("unknown");
    assert_eq!(error.to_string(), "\"no\" is none of full, sizes and off");
}

/// Removes something of the source when the comparison first asks whether to stop: its name was read by then.
struct Remover {
    path: PathBuf,
}

impl Watch for Remover {
    fn event(&self, _: Event<'_>) {}

    fn stop(&self) -> Option<Stop> {
        let removed =
            if self.path.is_dir() { fs::remove_dir_all(&self.path) } else { fs::remove_file(&self.path) };
        assert!(removed.is_ok() || !self.path.exists());
        None
    }
}

#[test]
fn what_is_deleted_from_the_source_while_it_is_compared_changed() {
    for gone in ["empty", "sub", "sub/large"] {
        let pair = Pair::new();
        let remover = Remover { path: pair.path("source").join(gone) };
        let compared = verify(&Real, &pair.path("source"), &pair.path("copy"), Verify::Full, &remover);
        let changed = compared.expect("no fault of the copy").changed;
        assert!(changed.iter().any(|path| path.starts_with(&remover.path)), "{gone}: {changed:?}");
        let remover = Remover { path: pair.path("copy").join("empty") };
        fs::write(pair.path("source/empty"), "").expect("file");
        fs::write(pair.path("copy/empty"), "").expect("file");
        verify(&Real, &pair.path("source"), &pair.path("copy"), Verify::Full, &remover).expect_err("lost");
    }
}
