//! Many files, large files, many rounds: descriptors and memory stay bounded. `FSYNCLAB_SCALE=full` takes the real sizes
//! (100,000 files, 5 GiB, 500 rounds: some minutes); without it smaller ones show the same trend.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{FileSystem, Image, fsynclab, root_or_skip, scratch};
use fsynclab::results::{Document, NoteCode, text as form};

const MOST_BYTES: u64 = 128 << 20;
/// What two runs of the same program may differ by.
const NOISE_BYTES: u64 = 2 << 20;
/// A trial's sample in the document, with its text: phases, calls and their times by name.
const SAMPLE_BYTES: u64 = 4 << 10;
const ARMS: u64 = 3;

fn full() -> bool {
    std::env::var_os("FSYNCLAB_SCALE").is_some_and(|scale| scale == "full")
}

/// A run with at most 512 descriptors; its document, and the most memory it held, in bytes.
fn check(arguments: &[&str], into: &Path) -> (Document, u64) {
    let work = scratch("scale");
    let json = work.path().join("r.json");
    let program = fsynclab(&work.path().join("state"));
    let mut command = Command::new("prlimit");
    command.arg("--nofile=512:512").arg(program.get_program()).arg("copy").args(arguments);
    command.args(["--warmup", "0", "--beside-server", "--time-limit", "1h", "--into"]).arg(into);
    command
        .arg("--json")
        .arg(&json)
        .envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program");
    let status = format!("/proc/{}/status", child.id());
    let mut most_bytes = 0;
    let ended = loop {
        if let Some(ended) = child.try_wait().expect("the program") {
            break ended;
        }
        let held = fs::read_to_string(&status).ok().and_then(|text| high_water(&text));
        most_bytes = most_bytes.max(held.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(ended.success(), "{arguments:?}: {ended}");
    assert!(most_bytes > 0, "{arguments:?}: its memory was never seen");
    let document: Document = form::read(&fs::read(&json).expect("results")).expect("a document");
    for arm in &document.arms {
        assert!(
            arm.failed.is_none() && arm.refused.is_none(),
            "{}: {:?} {:?}",
            arm.name,
            arm.failed,
            arm.refused
        );
    }
    (document, most_bytes)
}

/// VmHWM, the most that was ever resident.
fn high_water(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

#[test]
fn a_hundred_thousand_files_take_512_descriptors_and_128_mib() {
    let place = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let policies = "deferred,deferred+sync=held,threads,uring,reverse,never";
    let run = |files: u64| {
        let template = format!("many-small:{files}");
        let arguments = [&template, "--policy", policies, "--rounds", "1", "--verify", "sizes"];
        let (document, held) = check(&arguments, place.path());
        assert_eq!(document.input.expect("an input").files, files);
        println!("{files} files: {} kB", held >> 10);
        held
    };
    if full() {
        assert!(run(100_000) < MOST_BYTES);
        return;
    }
    let (few, many) = (run(1000), run(5000));
    let at_100_000 = many + many.saturating_sub(few) * 95_000 / 4000;
    println!("100,000 files, by that: {} kB", at_100_000 >> 10);
    assert!(at_100_000 < MOST_BYTES, "{few} bytes for 1000 files, {many} for 5000");
}

/// In full the size and the offsets need more than 32 bits. The place compresses, so that filled holes take no room.
#[test]
fn a_large_file_with_holes_is_copied_right() {
    if !root_or_skip("a_large_file_with_holes_is_copied_right") {
        return;
    }
    let size_bytes: u64 = if full() { 5 << 30 } else { (200 << 20) + 12_345 };
    let image = Image::new(FileSystem::Btrfs, "1G", "compress=zstd:1");
    let source = image.path().join("source");
    fs::create_dir(&source).expect("a directory");
    let file = File::create(source.join("sparse")).expect("a file");
    file.set_len(size_bytes).expect("a size");
    let edges = [1 << 20, 1 << 31, 1 << 32].map(|edge: u64| edge - 3);
    for at in edges.into_iter().chain([0, size_bytes - 8]).filter(|at| *at < size_bytes) {
        file.write_all_at(b"not zero", at).expect("data");
    }
    file.sync_all().expect("a durable source");
    let path = source.to_str().expect("UTF-8").to_owned();
    let (document, held) = check(&[&path, "--policy", "never", "--rounds", "1"], &image.path());
    println!("{size_bytes} bytes: {} kB", held >> 10);
    assert!(held < MOST_BYTES, "{held}");
    let input = document.input.expect("an input");
    assert_eq!(input.bytes, size_bytes);
    assert!(input.allocated_bytes.is_some_and(|allocated| allocated < 1 << 20), "{input:?}");
    let note =
        document.notes.iter().find(|note| note.code == NoteCode::SparseSource).expect("what became of holes");
    assert!(note.text.contains("were filled"), "{}", note.text);
    let written = document.arms[0].samples[0].calls["write"];
    assert_eq!(written, size_bytes.div_ceil(64 << 10), "every byte was moved");
}

#[test]
fn of_many_rounds_nothing_is_held_but_their_results() {
    let place = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let held_by = |rounds: u64| {
        let rounds = rounds.to_string();
        let arguments = ["many-small:5", "--policy", "deferred,threads,never", "--rounds", &rounds];
        let (document, held) = check(&arguments, place.path());
        println!("{rounds} rounds: {} kB", held >> 10);
        assert!(document.complete && document.arms[0].samples.len().to_string() == rounds);
        held
    };
    let (few, many) = (10, if full() { 500 } else { 60 });
    let (by_few, by_many) = (held_by(few), held_by(many));
    let most = by_few + (many - few) * ARMS * SAMPLE_BYTES + NOISE_BYTES;
    assert!(by_many < most, "{by_few} bytes for {few} rounds, {by_many} for {many}");
}
