//! Write logs: recorded by a run, priced by `sim price` as they were measured; the ready ones, priced by anybody.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use common::{fsynclab, root_or_skip, scratch, text};
use fsynclab::replay::policy::list;
use fsynclab::results::{Document, Kind, NoteCode, text as form};
use fsynclab::sys::clock::now_ns;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Drives whose own time is most of all time, on a loaded machine too.
const DRIVES: [&str; 2] = ["sata-2009,write-cache=off", "sata-2009"];

fn price(state: &Path, log: &Path, drives: &[&str]) -> (Output, Document) {
    let output = fsynclab(state)
        .args(["sim", "price", "--json", "-"])
        .arg(log)
        .args(drives)
        .output()
        .expect("the program");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let document = form::read(&output.stdout).expect("a document");
    (output, document)
}

fn median_ns(document: &Document, name: &str) -> u64 {
    let arm = document.arms.iter().find(|arm| arm.name == name);
    let arm = arm.unwrap_or_else(|| panic!("{name} is none of {:?}", names(document)));
    arm.summary.as_ref().unwrap_or_else(|| panic!("{name}: {:?}", arm.failed)).median_ns
}

/// The trials that count, in their order.
fn times_ns(document: &Document, name: &str) -> Vec<u64> {
    let arm = document.arms.iter().find(|arm| arm.name == name);
    let arm = arm.unwrap_or_else(|| panic!("{name} is none of {:?}", names(document)));
    arm.samples.iter().filter(|sample| !sample.ignored).map(|sample| sample.elapsed_ns).collect()
}

fn names(document: &Document) -> Vec<&str> {
    document.arms.iter().map(|arm| arm.name.as_str()).collect()
}

fn ready_logs() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/writelogs");
    let entries = std::fs::read_dir(directory).expect("fixtures/writelogs").flatten();
    let mut logs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.sort();
    logs
}

/// Every named policy that can be on ext4.
fn policies() -> Vec<&'static str> {
    list().into_iter().map(|policy| policy.name).filter(|name| *name != "reflink").collect()
}

/// Copies under every policy and holds the price of each against the time it took: in one of the rounds, for a drive that
/// is served late on a loaded machine takes longer than its model.
fn check(drive: &str, rounds: &str) {
    let work = scratch("price");
    let (state, log, results) =
        (work.path().join("state"), work.path().join("log"), work.path().join("r.json"));
    let output = fsynclab(&state)
        .args(["copy", "pg15", "--sim", drive, "--rounds", rounds, "--warmup", "0"])
        .args(["--policy", &policies().join(","), "--time-limit", "10min", "--no-data", "--write-log"])
        .arg(&log)
        .arg("--json")
        .arg(&results)
        .output()
        .expect("the program");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let measured = form::read(&std::fs::read(&results).expect("results")).expect("a document");
    let (_, priced) = price(&state, &log, &[drive]);
    assert_eq!((priced.kind, priced.simulated), (Kind::Price, true));
    // What syncs nothing sends nothing to the drive, and its time is the host's.
    for policy in policies().into_iter().filter(|policy| *policy != "never") {
        let (measured, priced) =
            (times_ns(&measured, policy), times_ns(&priced, &format!("{drive} / {policy}")));
        assert_eq!(measured.len(), priced.len(), "{policy}");
        let pairs = measured.iter().zip(&priced);
        let off: Vec<f64> = pairs.map(|(measured, priced)| *priced as f64 / *measured as f64 - 1.0).collect();
        assert!(
            off.iter().any(|off| off.abs() <= 0.15),
            "{drive}: {policy}: {measured:?} ns, {priced:?} priced"
        );
    }
}

#[test]
fn a_copy_costs_by_the_log_what_it_took_on_the_drive_with_its_cache_off() {
    if root_or_skip("a_copy_costs_by_the_log_what_it_took_on_the_drive_with_its_cache_off") {
        check(DRIVES[0], "1");
    }
}

#[test]
fn a_copy_costs_by_the_log_what_it_took_on_the_drive_with_its_cache_on() {
    if root_or_skip("a_copy_costs_by_the_log_what_it_took_on_the_drive_with_its_cache_on") {
        check(DRIVES[1], "2");
    }
}

/// Processes of the run whose journals lie in `state`, the one that serves its drive among them.
fn processes(state: &Path) -> Vec<Pid> {
    let variable = format!("FSYNCLAB_STATE_DIR={}", state.display());
    let of_run = |process: &Path| {
        let environment = std::fs::read(process.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    };
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path());
    let numbers =
        entries.filter(|path| of_run(path)).filter_map(|path| path.file_name()?.to_str()?.parse().ok());
    numbers.map(Pid::from_raw).collect()
}

#[test]
fn the_log_of_a_killed_run_is_priced_up_to_its_last_whole_entry() {
    if !root_or_skip("the_log_of_a_killed_run_is_priced_up_to_its_last_whole_entry") {
        return;
    }
    let work = scratch("killed-log");
    let (state, log) = (work.path().join("state"), work.path().join("log"));
    let mut run = fsynclab(&state);
    run.args(["copy", "pg15", "--policy", "immediate", "--sim", DRIVES[0], "--write-log"]).arg(&log);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program");
    let end_ns = now_ns() + 60_000_000_000;
    while std::fs::metadata(&log).map_or(0, |found| found.len()) < 1 << 20 {
        assert!(now_ns() < end_ns && run.try_wait().expect("a child").is_none(), "no log");
        std::thread::sleep(Duration::from_millis(20));
    }
    let killed = processes(&state);
    assert!(killed.len() > 1, "the run and the process that serves its drive: {killed:?}");
    for process in killed {
        // One may be gone because another is.
        assert!([Ok(()), Err(Errno::ESRCH)].contains(&kill(process, Signal::SIGKILL)));
    }
    run.wait().expect("a child");
    let (output, document) = price(&state, &log, &[DRIVES[0]]);
    let torn = document.notes.iter().any(|note| note.code == NoteCode::LogTorn);
    assert!(torn && document.arms.iter().all(|arm| arm.summary.is_some()), "{}", text(&output));
    let cleaned = fsynclab(&state).args(["clean", "--yes"]).output().expect("the program");
    assert_eq!(cleaned.status.code(), Some(0), "{}", text(&cleaned));
}

#[test]
fn the_ready_logs_answer_at_once_and_without_root() {
    let logs = ready_logs();
    let names_of: Vec<_> = logs.iter().filter_map(|log| log.file_stem()).collect();
    assert_eq!(names_of, ["pg15-btrfs", "pg15-ext4", "pg15-xfs"]);
    let work = scratch("ready-logs");
    for log in logs {
        let (output, document) = price(&work.path().join("state"), &log, &[]);
        let log = log.display();
        assert!(document.notes.is_empty(), "{log}: {:?}", document.notes);
        for policy in ["immediate", "deferred", "syncfs"] {
            let cached_ns = median_ns(&document, &format!("nvme-plp / {policy}"));
            let uncached_ns = median_ns(&document, &format!("sata-2009,write-cache=off / {policy}"));
            assert!(cached_ns < uncached_ns, "{log}: {policy}: {}", text(&output));
        }
        let slow = |policy| median_ns(&document, &format!("sata-2009,write-cache=off / {policy}"));
        assert!(slow("immediate") > 3 * slow("syncfs"), "{log}");
    }
}

#[test]
fn a_price_without_the_flushes_is_marked_where_it_stands() {
    if !root_or_skip("a_price_without_the_flushes_is_marked_where_it_stands") {
        return;
    }
    let work = scratch("unflushed");
    let (state, log) = (work.path().join("state"), work.path().join("log"));
    let script = "echo x > $FSYNCLAB_MOUNT/file; sync";
    let mut run = fsynclab(&state);
    run.args(["sim", "run", "nvme-plp", "--write-log"]).arg(&log).args(["--", "sh", "-c", script]);
    let output = run.output().expect("the program");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let output = fsynclab(&state).args(["sim", "price"]).arg(&log).output().expect("the program");
    let printed = String::from_utf8_lossy(&output.stdout);
    for line in printed.lines().take_while(|line| !line.starts_with("Computed")) {
        let wants = line.starts_with("sata-2009 ");
        assert!(!wants || line.contains(" >"), "{printed}");
        assert!(!line.starts_with("nvme-plp ") || !line.contains('>'), "{printed}");
    }
    assert!(printed.contains("\nsata-2009 "), "{printed}");
}

#[test]
fn what_is_no_write_log_is_told() {
    let directory =
        fsynclab(Path::new("/none")).args(["sim", "price", "/var"]).output().expect("the program");
    let told = String::from_utf8_lossy(&directory.stderr).into_owned();
    assert!(told.contains("could not read file \"/var\": Is a directory\n"), "{told}");
    let work = scratch("no-log");
    let file = work.path().join("text");
    std::fs::write(&file, "a text that is long enough to be looked at").expect("a file");
    let output =
        fsynclab(&work.path().join("state")).args(["sim", "price"]).arg(&file).output().expect("the program");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(common::told(&output).contains("this is not a write log"), "{}", text(&output));
}
