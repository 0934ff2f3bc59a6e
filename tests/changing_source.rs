//! A source that somebody changes while it is copied: said by name, the result marked as not comparable, no failure.

mod common;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{fsynclab, text};
use fsynclab::results::{Document, NoteCode, text as form};
use tempfile::TempDir;

const SIZE: usize = 1 << 20;
/// How long strace holds the program back; a machine that needs longer to change a file fails the test.
const HOLD: &str = "1500ms";
const PATIENCE: Duration = Duration::from_secs(30);

struct Bed {
    work: TempDir,
}

impl Bed {
    fn new() -> Self {
        // In memory: elsewhere a running cluster could want the room, and the run would be refused.
        let work = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
        for directory in ["tree", "place"] {
            fs::create_dir(work.path().join(directory)).expect("a directory");
        }
        fs::write(work.path().join("tree/changing"), vec![1; SIZE]).expect("a file");
        fs::write(work.path().join("tree/constant"), "as it was").expect("a file");
        // A source that was modified just before would be taken for one that changed.
        std::thread::sleep(Duration::from_millis(20));
        Self { work }
    }

    fn changing(&self) -> PathBuf {
        self.work.path().join("tree/changing")
    }

    /// The copy that is being made of it, once it has so many bytes.
    fn wait_for_copy(&self, of: &str, bytes: u64) {
        let began = Instant::now();
        let place = self.work.path().join("place");
        let found = || {
            let run = fs::read_dir(&place).ok()?.next()?.ok()?.path();
            let found = fs::metadata(run.join("copy").join(of)).ok()?;
            (found.is_dir() || found.len() >= bytes).then_some(())
        };
        while found().is_none() {
            assert!(began.elapsed() < PATIENCE, "no copy with {bytes} bytes in {}", place.display());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Holds the program back at a call on the file (`openat` or `read`), changes the file meanwhile; the document.
fn check(call: &str, tamper: &str, wait_for: (&str, u64), change: impl Fn(&Path)) -> Document {
    let bed = Bed::new();
    let json = bed.work.path().join("r.json");
    let mut program = fsynclab(&bed.work.path().join("state"));
    program.arg("copy").arg(bed.work.path().join("tree")).arg("--into").arg(bed.work.path().join("place"));
    program.args(["--policy", "pg-16", "--rounds", "1", "--warmup", "0", "--json"]).arg(&json);
    let mut strace = Command::new("strace");
    strace.arg("-qq").arg("-o").arg("/dev/null").arg("-P").arg(bed.changing());
    strace.arg(format!("--trace={call}")).arg(format!("--inject={call}:{tamper}"));
    strace.arg(program.get_program()).args(program.get_args());
    strace.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let running = strace.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("strace");
    bed.wait_for_copy(wait_for.0, wait_for.1);
    // Within one tick of the file system's clock nobody can tell which came first.
    std::thread::sleep(Duration::from_millis(20));
    change(&bed.changing());
    let output = running.wait_with_output().expect("the program");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(fs::read_dir(bed.work.path().join("place")).expect("the place").count(), 0);
    let document = form::read(&fs::read(json).expect("results")).expect("a document");
    let notes = document.notes.iter().filter(|note| note.code == NoteCode::ChangedDuringCopy);
    let told = notes.map(|note| note.text.as_str()).collect::<Vec<_>>().join("\n");
    assert!(told.contains("changing\"") && told.contains("not comparable"), "{told}");
    assert!(!told.contains("constant"), "{told}");
    assert!(document.arms[0].not_comparable, "{document:?}");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("Not comparable: ") && !shown.contains("MB/s"), "{shown}");
    document
}

#[test]
fn a_file_that_grows_while_it_is_copied_is_told() {
    check("read", &format!("delay_enter={HOLD}:when=2"), ("changing", 65_536), |file| {
        let mut file = OpenOptions::new().append(true).open(file).expect("the file");
        file.write_all(&vec![2; SIZE]).expect("more bytes");
    });
}

#[test]
fn a_file_that_shrinks_while_it_is_copied_is_told_and_nobody_waits_for_its_end() {
    check("read", &format!("delay_enter={HOLD}:when=2"), ("changing", 65_536), |file| {
        OpenOptions::new().write(true).open(file).and_then(|file| file.set_len(10)).expect("less bytes");
    });
}

#[test]
fn a_file_that_is_overwritten_where_it_was_copied_already_is_told() {
    check("read", &format!("delay_enter={HOLD}:when=2"), ("changing", 65_536), |file| {
        let file = OpenOptions::new().write(true).open(file).expect("the file");
        file.write_all_at(b"new", 0).expect("other bytes");
    });
}

#[test]
fn a_file_that_is_gone_before_it_is_opened_is_told_and_the_others_are_copied() {
    let document = check("openat", &format!("delay_enter={HOLD}:when=1"), ("", 0), |file| {
        fs::remove_file(file).expect("the file");
    });
    assert_eq!(document.arms[0].samples.len(), 1);
}
