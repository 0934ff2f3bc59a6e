//! Clocks that step, stand still or run backwards: a library in front of the C library's clock_gettime, compiled here.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{fsynclab, run, scratch, text};
use fsynclab::results::{Document, NoteCode, text as form};

/// The wall clock is two hours back and one ahead in turn; the monotonic clock is as the variable says.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
	static long calls;
	const char *how = getenv("CLOCK");
	int failed = syscall(SYS_clock_gettime, clock, now);

	calls++;
	if (clock == CLOCK_REALTIME)
		now->tv_sec += calls % 2 ? -7200 : 3600;
	if (clock == CLOCK_MONOTONIC && how && *how == 'z')
		*now = (struct timespec) {1000, 0};
	if (clock == CLOCK_MONOTONIC && how && *how == 'b')
		*now = (struct timespec) {1000000 - calls, 0};
	return failed;
}
"#;

/// A run of three rounds in memory, where nobody waits for a disk, under that clock.
fn check(work: &Path, clock: &str, status: i32) -> Document {
    let shim = work.join("clock.so");
    if !shim.exists() {
        let source = work.join("clock.c");
        fs::write(&source, SHIM).expect("the source");
        let [source, shim] = [&source, &shim].map(|path| path.to_str().expect("UTF-8"));
        run("cc", &["-shared", "-fPIC", "-O1", "-o", shim, source]);
    }
    let place = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let json = work.join("r.json");
    let mut command: Command = fsynclab(&work.join("state"));
    command.env("LD_PRELOAD", &shim).env("CLOCK", clock).arg("copy").arg("--into").arg(place.path());
    command.args(["--policy", "immediate,never", "--rounds", "3", "--warmup", "0", "--json"]);
    let output = command.arg(&json).output().expect("the program");
    assert_eq!(output.status.code(), Some(status), "{clock}: {}", text(&output));
    assert_eq!(fs::read_dir(place.path()).expect("the place").count(), 0, "{clock}");
    form::read(&fs::read(&json).expect("results")).expect("a document")
}

#[test]
fn a_wall_clock_that_steps_changes_no_result() {
    let work = scratch("clock");
    let document = check(work.path(), "right", 0);
    let samples: Vec<_> = document.arms.iter().flat_map(|arm| &arm.samples).collect();
    assert_eq!(samples.len(), 6);
    for sample in samples {
        assert!((1..60_000_000_000).contains(&sample.elapsed_ns), "{sample:?}");
        let phases: u64 = sample.phases.values().sum();
        assert!(phases <= sample.elapsed_ns && phases * 100 >= sample.elapsed_ns * 97, "{sample:?}");
    }
    assert!(document.complete);
    let started: jiff::Timestamp = document.started_at.parse().expect("a date");
    let off_seconds = started.duration_since(jiff::Timestamp::now()).as_secs().abs();
    assert!(off_seconds > 3000, "the wall clock was not in our hands: {off_seconds} s");
}

#[test]
fn an_interval_of_zero_or_less_is_discarded_and_counted() {
    let work = scratch("clock");
    for clock in ["zero", "back"] {
        let document = check(work.path(), clock, 3);
        assert!(document.arms.iter().all(|arm| arm.samples.is_empty() && arm.failed.is_none()), "{clock}");
        let note = document.notes.iter().find(|note| note.code == NoteCode::DiscardedSample);
        let told = note.unwrap_or_else(|| panic!("{clock}: {:?}", document.notes));
        assert!(
            told.text.starts_with("6 samples with an interval of zero or less"),
            "{clock}: {}",
            told.text
        );
    }
}
