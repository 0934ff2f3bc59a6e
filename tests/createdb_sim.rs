//! `fsynclab createdb --scratch sim:SPEC` from outside: the cluster lies on a drive that only the program and what it starts
//! can see, and nothing is left of either, whenever the program is killed.

mod common;
#[path = "common/postgres.rs"]
#[expect(dead_code, reason = "the program makes the clusters here, not the test")]
mod postgres;

use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fsynclab::results::text;
use fsynclab::server::cluster::inside;
use fsynclab::simdrive::mount::leftovers;
use tempfile::TempDir;

/// A state directory through which a cluster's user gets to the drives mounted below it.
fn state(name: &str) -> TempDir {
    let state = common::scratch(name);
    std::fs::set_permissions(state.path(), std::fs::Permissions::from_mode(0o711)).expect("mode");
    state
}

fn createdb(state: &TempDir, spec: &str, creates: &str) -> Command {
    let mut command = common::fsynclab(state.path());
    command.args([
        "createdb",
        "--strategy",
        "file_copy",
        "--rounds",
        "1",
        "--warmup",
        "0",
        "--creates",
        creates,
    ]);
    command.args(["--scratch", &format!("sim:{spec}"), "--bin"]).arg(postgres::directory(15));
    command
}

fn started(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a run")
}

/// Neither processes, nor mounts and loop devices of the drives that a process made, nor journals.
fn nothing_is_left(state: &TempDir, pid: u32, when: &str) {
    assert_eq!(inside(state.path()), [], "{when}");
    let theirs = format!("fsynclab-sim-{pid:x}-");
    let drives: Vec<_> = leftovers().0.into_iter().filter(|drive| drive.tag.starts_with(&theirs)).collect();
    assert_eq!(drives, [], "{when}");
    let kept = std::fs::read_dir(state.path()).expect("state").map(|entry| entry.expect("entry").file_name());
    assert!(kept.into_iter().all(|name| name == "sim" || name == "results.json"), "{when}");
    let sim = state.path().join("sim");
    assert_eq!(std::fs::read_dir(sim).map_or(0, Iterator::count), 0, "{when}");
}

#[test]
fn a_cluster_on_a_simulated_drive_says_so_and_leaves_nothing() {
    if !common::root_or_skip("a_cluster_on_a_simulated_drive_says_so_and_leaves_nothing") {
        return;
    }
    let state = state("createdb-sim");
    let json = state.path().join("results.json");
    let mut command = createdb(&state, "nvme-plp,fs=xfs", "2");
    let child = command.arg("--json").arg(&json).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.expect("a run");
    let pid = child.id();
    let output = child.wait_with_output().expect("its end");
    assert!(output.status.success(), "{}", common::text(&output));
    let said = common::text(&output);
    assert!(said.contains("Data: SIMULATED: sim:nvme-plp,fs=xfs (xfs"), "{said}");
    let found = text::read(&std::fs::read(&json).expect("results")).expect("a document");
    let place = &found.places[0];
    assert_eq!((found.simulated, place.simulated, place.model.as_deref()), (true, true, Some("nvme-plp")));
    let sample = &found.arms[0].samples[0];
    assert_eq!(sample.calls.get("fsync"), Some(&299));
    assert!(sample.device.as_ref().is_some_and(|device| device.writes > 300), "{:?}", sample.device);
    nothing_is_left(&state, pid, "a whole run");
}

#[test]
fn killed_at_six_moments_clean_leaves_neither_cluster_nor_drive() {
    if !common::root_or_skip("killed_at_six_moments_clean_leaves_neither_cluster_nor_drive") {
        return;
    }
    let state = state("createdb-sim");
    let began = Instant::now();
    let mut whole = started(&mut createdb(&state, "zero", "3"));
    assert!(whole.wait().expect("its end").success());
    let (took, moments) = (began.elapsed(), 6);
    for moment in 0..moments {
        let mut child = started(&mut createdb(&state, "zero", "3"));
        sleep(took * moment / moments + took / (2 * moments));
        child.kill().expect("SIGKILL");
        child.wait().expect("its end");
        // A process that the program was just starting gets to its directory, or ends.
        sleep(Duration::from_millis(50));
        let output = common::fsynclab(state.path()).args(["clean", "--yes"]).output().expect("clean");
        let when = format!("moment {moment} of {took:?}: {}", common::text(&output));
        assert!(output.status.success(), "{when}");
        nothing_is_left(&state, child.id(), &when);
    }
}
