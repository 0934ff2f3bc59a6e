//! The probe on real file systems: what it counts, what it concludes, what it leaves.

mod common;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use common::{FileSystem, Image, as_nobody, fsynclab, root_or_skip, scratch, text};
use fsynclab::results::{Document, text as document_text};

/// Long enough for some dozens of syncs a line on a busy machine.
const SHORT: [&str; 4] = ["--time", "2s", "--only", "one8,others"];

struct Probed {
    output: Output,
    document: Document,
}

impl Probed {
    fn run(path: &Path, arguments: &[&str]) -> Self {
        Self::with(path, arguments, None)
    }

    fn with(path: &Path, arguments: &[&str], preload: Option<&Path>) -> Self {
        let state = scratch("state");
        let mut command = fsynclab(state.path());
        command.envs(preload.map(|library| ("LD_PRELOAD", library)));
        command.arg("probe").arg(path).args(["--json", "-", "--seed", "42"]).args(arguments);
        let output = command.output().expect("the program runs");
        let document =
            document_text::read(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
        Self { output, document }
    }

    fn code(&self) -> Option<i32> {
        self.output.status.code()
    }

    fn verdict(&self) -> &str {
        &self.document.verdict.as_ref().expect("a verdict").code
    }

    fn arm(&self, block: &str, method: &str) -> &fsynclab::results::Arm {
        let is = |arm: &&fsynclab::results::Arm| {
            arm.labels.get("block") == Some(block) && arm.labels.get("method") == Some(method)
        };
        self.document.arms.iter().find(is).expect("this line")
    }

    fn flushes(&self, block: &str, method: &str) -> f64 {
        let arm = self.arm(block, method);
        arm.device.unwrap_or_else(|| panic!("{block} {method} was not counted: {arm:?}")).flushes_per_op
    }

    #[track_caller]
    fn assert_flushes(&self, block: &str, method: &str, expected: f64) {
        let found = self.flushes(block, method);
        // A commit of the file's times every five seconds is all that a file system of ours does beside.
        assert!((found - expected).abs() < 0.2, "{block} {method}: {found} flushes, not {expected}");
    }
}

/// A directory on a file system of its own, for beside other tests' clusters a nearly full one is refused; without root,
/// on the disk.
fn ground(name: &str) -> (Option<Image>, tempfile::TempDir) {
    if !nix::unistd::geteuid().is_root() {
        return (None, scratch(name));
    }
    let image = Image::new(FileSystem::Ext4, "600M", "");
    std::os::unix::fs::chown(image.path(), Some(65534), Some(65534)).expect("chown");
    let directory = tempfile::tempdir_in(image.path()).expect("a directory in the image");
    (Some(image), directory)
}

#[test]
fn flushes_are_counted_for_each_operation() {
    if !root_or_skip("flushes_are_counted_for_each_operation") {
        return;
    }
    for (file_system, expected) in [(FileSystem::Ext4, 1.0), (FileSystem::Xfs, 1.0), (FileSystem::Btrfs, 2.0)]
    {
        let image = Image::new(file_system, "600M", "");
        let probed = Probed::run(&image.path(), &SHORT);
        assert_eq!((probed.verdict(), probed.code()), ("plausible", Some(0)), "{file_system:?}");
        probed.assert_flushes("one8", "fdatasync", expected);
        probed.assert_flushes("others", "sync_file_range", 0.0);
        assert!(probed.document.complete);
    }
}

#[test]
fn without_barriers_no_flush_arrives_and_the_answer_is_no() {
    if !root_or_skip("without_barriers_no_flush_arrives_and_the_answer_is_no") {
        return;
    }
    for file_system in [FileSystem::Ext4, FileSystem::Btrfs] {
        let image = Image::new(file_system, "600M", "nobarrier");
        assert_not_asked(&Probed::run(&image.path(), &SHORT), "without barriers");
    }
}

#[test]
fn where_write_through_is_forced_no_flush_arrives_and_the_answer_is_no() {
    if !root_or_skip("where_write_through_is_forced_no_flush_arrives_and_the_answer_is_no") {
        return;
    }
    for file_system in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs] {
        let image = Image::new(file_system, "600M", "");
        image.set_write_cache("write through");
        assert_not_asked(&Probed::run(&image.path(), &SHORT), "was set to \"write through\"");
    }
}

/// As eatmydata does: it says yes and asks nobody.
const SHIM: &str = "int fsync(int f) { return 0 * f; } int fdatasync(int f) { return 0 * f; }";

#[test]
fn a_preloaded_library_that_swallows_syncs_is_found() {
    if !root_or_skip("a_preloaded_library_that_swallows_syncs_is_found") {
        return;
    }
    let directory = scratch("shim");
    let source = directory.path().join("shim.c");
    fs::write(&source, SHIM).expect("a source");
    let image = Image::new(FileSystem::Ext4, "600M", "");
    // A known name, and one that only the counters give away.
    for (name, why) in
        [("libeatmydata.so", "a preloaded library swallows syncs"), ("libquick.so", "no flush")]
    {
        let library = directory.path().join(name);
        common::run("gcc", &[Path::new("-shared"), Path::new("-fPIC"), Path::new("-o"), &library, &source]);
        let probed = Probed::with(&image.path(), &SHORT, Some(&library));
        assert_not_asked(&probed, why);
        assert!(probed.flushes("one8", "open_datasync") > 0.8, "{name}");
    }
}

#[track_caller]
fn assert_not_asked(probed: &Probed, why: &str) {
    assert_eq!((probed.verdict(), probed.code()), ("not-asked", Some(4)), "{}", text(&probed.output));
    probed.assert_flushes("one8", "fdatasync", 0.0);
    probed.assert_flushes("one8", "fsync", 0.0);
    let reasons = &probed.document.verdict.as_ref().expect("a verdict").reasons;
    assert!(reasons[0].contains(why), "{reasons:?}");
}

#[test]
fn sectors_of_4096_bytes_cost_some_lines_and_not_the_run() {
    if !root_or_skip("sectors_of_4096_bytes_cost_some_lines_and_not_the_run") {
        return;
    }
    let image = Image::with_sectors(FileSystem::Ext4, "600M", "", 4096);
    let probed = Probed::run(&image.path(), &["--time", "2s", "--only", "one8,sizes,nosync"]);
    assert_eq!((probed.verdict(), probed.code()), ("plausible", Some(0)), "{}", text(&probed.output));
    for method in ["8x2kB", "16x1kB"] {
        let refused =
            probed.arm("sizes", method).refused.as_ref().expect("writes below a sector are refused");
        assert_eq!(refused.text, "pwrite64: Invalid argument (EINVAL)");
    }
    for (block, method) in [("sizes", "4x4kB"), ("one8", "open_sync"), ("nosync", "write")] {
        assert!(probed.arm(block, method).summary.is_some(), "{block} {method}");
    }
    assert_eq!(
        fs::read_dir(image.path()).expect("the image").count(),
        1,
        "lost+found is left and nothing else"
    );
}

#[test]
fn memory_and_a_volatile_overlay_keep_nothing() {
    let memory = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let probed = Probed::run(memory.path(), &["--time", "1s", "--only", "one8"]);
    assert_eq!((probed.verdict(), probed.code()), ("not-asked", Some(4)), "{}", text(&probed.output));
    assert!(probed.arm("one8", "fdatasync").summary.is_some());
    if !root_or_skip("memory_and_a_volatile_overlay_keep_nothing") {
        return;
    }
    let image = Image::new(FileSystem::Ext4, "100M", "");
    let overlay = Overlay::volatile(&image.path());
    let probed = Probed::run(&overlay.point, &["--time", "1s", "--only", "one8"]);
    assert_eq!((probed.verdict(), probed.code()), ("not-asked", Some(4)), "{}", text(&probed.output));
    probed.assert_flushes("one8", "fdatasync", 0.0);
}

struct Overlay {
    point: std::path::PathBuf,
}

impl Overlay {
    fn volatile(place: &Path) -> Self {
        let [lower, upper, work, point] = ["lower", "upper", "work", "point"].map(|name| place.join(name));
        for directory in [&lower, &upper, &work, &point] {
            fs::create_dir(directory).expect("a directory");
        }
        let options = format!(
            "volatile,lowerdir={},upperdir={},workdir={}",
            lower.display(),
            upper.display(),
            work.display()
        );
        let point_text = point.display().to_string();
        common::run("mount", &["-t", "overlay", "overlay", "-o", &options, &point_text]);
        Self { point }
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        common::run("umount", &[&self.point]);
    }
}

#[test]
fn files_of_any_name_stay_as_they_are_and_nothing_is_left() {
    let (_image, place) = ground("files");
    for name in ["test", "writer-0", "growing", "name-1", "pg_test_fsync.out", ".fsynclab-marker"] {
        fs::write(place.path().join(name), name).expect("a file");
    }
    let before = listing(place.path());
    let probed = Probed::run(place.path(), &["--time", "2s"]);
    assert_eq!(probed.document.arms.len(), fsynclab::probe::cases::CASES.len());
    assert!(probed.document.arms.iter().all(|arm| arm.failed.is_none()), "{}", text(&probed.output));
    assert_eq!(listing(place.path()), before);
}

/// Names, contents and times.
fn listing(directory: &Path) -> Vec<(String, Vec<u8>, std::time::SystemTime)> {
    let mut listed: Vec<_> = fs::read_dir(directory)
        .expect("the directory")
        .map(|entry| {
            let entry = entry.expect("an entry");
            let modified = entry.metadata().and_then(|found| found.modified()).expect("a time");
            (
                entry.file_name().to_string_lossy().into_owned(),
                fs::read(entry.path()).expect("a file"),
                modified,
            )
        })
        .collect();
    listed.sort();
    listed
}

#[test]
fn an_interrupted_probe_keeps_what_it_has_and_leaves_nothing() {
    let (_image, place) = ground("interrupted");
    let (state, results) = (scratch("state"), scratch("results"));
    let file = results.path().join("results.json");
    let mut command = fsynclab(state.path());
    command
        .arg("probe")
        .arg(place.path())
        .args(["--time", "60s", "--only", "one8,nosync", "--json"])
        .arg(&file);
    let mut child = command.stdout(std::process::Stdio::null()).spawn().expect("the program runs");
    let mut looks = 0;
    while !file.exists() {
        looks += 1;
        assert!(looks < 300, "no results after 30 s");
        std::thread::sleep(Duration::from_millis(100));
    }
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("signal");
    let status = child.wait().expect("it ends");
    assert_eq!((status.code(), status.signal()), (Some(130), None));
    assert_eq!(fs::read_dir(place.path()).expect("the place").count(), 0);
    assert_eq!(fs::read_dir(state.path()).expect("the state").count(), 0, "the journal is closed");
    let document = document_text::read(&fs::read(&file).expect("results")).expect("results");
    assert!(!document.complete);
}

#[test]
fn a_data_directory_is_refused_with_the_directory_beside_it() {
    let (place, state) = (scratch("cluster"), scratch("state"));
    let data = place.path().join("15/main");
    fs::create_dir_all(data.join("pg_wal")).expect("directories");
    fs::create_dir_all(data.join("global")).expect("directories");
    fs::write(data.join("PG_VERSION"), "15\n").expect("a file");
    fs::write(data.join("global/pg_control"), "").expect("a file");
    let output =
        fsynclab(state.path()).arg("probe").arg(data.join("pg_wal")).output().expect("the program runs");
    let said = common::told(&output);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(said.contains("15/main\" is the data directory of a cluster"), "{said}");
    let beside = fs::canonicalize(place.path()).expect("a path");
    assert!(said.contains(&format!("fsynclab probe {}", beside.display())), "{said}");
    assert_eq!(fs::read_dir(data.join("pg_wal")).expect("the directory").count(), 0);
}

#[test]
fn the_report_keeps_to_79_columns_and_ends_in_words() {
    let (_image, place) = ground("report");
    let state = scratch("state");
    let mut command = fsynclab(state.path());
    command.arg("probe").arg(place.path()).args(["--time", "2s", "--color", "never"]);
    let output = command.output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    // The path alone may be longer.
    let path = place.path().display().to_string();
    for line in said.lines().filter(|line| !line.contains(&path)) {
        assert!(line.chars().count() <= 79, "{line}");
    }
    for words in ["flush/op", "wal_sync_method here: ", "\nnext: ", "16 writers", "  write  "] {
        assert!(said.contains(words), "{words} is missing in\n{said}");
    }
}

#[test]
fn anybody_may_probe_where_they_may_write() {
    if !root_or_skip("anybody_may_probe_where_they_may_write") {
        return;
    }
    let (_image, place) = ground("nobody");
    let state = scratch("state");
    for directory in [place.path(), state.path()] {
        std::os::unix::fs::chown(directory, Some(65534), Some(65534)).expect("chown");
    }
    let mut command = fsynclab(state.path());
    command.arg("probe").arg(place.path()).args(["--time", "1s", "--only", "one8", "--json", "-"]);
    let output = as_nobody(&command).output().expect("the program runs");
    let document =
        document_text::read(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
    assert!(document.verdict.is_some() && document.complete, "{}", text(&output));
}

#[test]
fn the_layout_of_pg_test_fsync_has_stdout_for_itself() {
    let (_image, place) = ground("layout");
    let state = scratch("state");
    let mut command = fsynclab(state.path());
    command.arg("probe").arg(place.path()).args(["--pg", "-s", "1", "--only", "one8"]);
    let output = command.output().expect("the program runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(stdout.starts_with("1 second per test\nO_DIRECT supported"), "{}", text(&output));
    assert!(!stdout.contains("wal_sync_method here"), "{}", text(&output));
    assert!(stderr.contains("wal_sync_method here"), "{}", text(&output));
    let reading = fsynclab::probe::published::read(&output.stdout);
    assert_eq!((reading.sets.len(), reading.unread.len()), (1, 0), "{}", text(&output));
}
