//! What was published of wal_sync_method in 2003, on a drive of 2009: pgbench with the write cache off and on, and restores
//! with the WAL on a second drive. Ratios, not rates: a loaded machine slows all arms down.

mod common;
#[path = "common/postgres.rs"]
#[expect(dead_code, reason = "the program makes the clusters here, not the test")]
mod postgres;
#[path = "common/runs.rs"]
#[expect(dead_code, reason = "a part of it is used here")]
mod runs;

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use fsynclab::results::Document;
use tempfile::TempDir;

const METHODS: &str = "wal_sync_method=fdatasync,open_datasync,fsync,open_sync";
const UNCACHED: &str = "sim:sata-2009,write-cache=off";
const CACHED: &str = "sim:sata-2009,write-cache=on,flush=ignored";

/// Through this state directory a cluster's user gets to the drives mounted below it.
fn state() -> TempDir {
    let state = common::scratch("published-2003");
    std::fs::set_permissions(state.path(), std::fs::Permissions::from_mode(0o711)).expect("mode");
    state
}

fn measured(state: &TempDir, command: &str, arguments: &[&str]) -> (Document, String) {
    let json = state.path().join("results.json");
    let mut run: Command = common::fsynclab(state.path());
    run.arg(command).arg("--bin").arg(postgres::directory(15)).args(arguments).arg("--json").arg(&json);
    let output = run.output().expect("the program");
    assert!(output.status.success(), "{}", common::text(&output));
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = runs::document(&json);
    runs::nothing_left(&state.path().join("sim"), command);
    (found, shown)
}

#[test]
fn commits_by_wal_sync_method_with_the_write_cache_off_and_ignoring_flushes() {
    if !common::root_or_skip("commits_by_wal_sync_method_with_the_write_cache_off_and_ignoring_flushes") {
        return;
    }
    let state = state();
    let arguments = ["--scratch", UNCACHED, "--scratch", CACHED, "--vary", METHODS, "-c", "5", "-T", "3"];
    let (found, shown) =
        measured(&state, "pgbench", &[&arguments[..], &["--rounds", "2", "--warmup", "0"]].concat());
    println!("{shown}");
    // The fastest trial of each: a loaded machine only takes time.
    let tps = |place: &str, method: &str| {
        let arm = found.arms.iter().find(|arm| {
            arm.labels.get("server").is_some_and(|server| server.ends_with(place))
                && arm.labels.get("wal_sync_method") == Some(method)
        });
        let samples = &arm.expect(method).samples;
        samples.iter().filter_map(|sample| Some(sample.benched.as_ref()?.tps)).fold(0.0, f64::max)
    };
    let [fdatasync, open_datasync, fsync, open_sync] =
        ["fdatasync", "open_datasync", "fsync", "open_sync"].map(|method| tps("@p1", method));
    let apart = (fdatasync / open_datasync).max(open_datasync / fdatasync);
    assert!(apart <= 1.3, "fdatasync {fdatasync}, open_datasync {open_datasync}");
    for (method, tps) in [("fsync", fsync), ("open_sync", open_sync)] {
        assert!(tps * 1.3 < fdatasync, "{method} {tps}, fdatasync {fdatasync}");
    }
    // With the cache on it is the processor that bounds commits: the gain over a platter is held where that turns most often.
    for (method, uncached) in [("fsync", fsync), ("open_sync", open_sync)] {
        let cached = tps("@p2", method);
        assert!(cached > 5.0 * uncached, "{method}: {cached} with the cache on, {uncached} off");
    }
    for (method, uncached) in [("fdatasync", fdatasync), ("open_datasync", open_datasync)] {
        let cached = tps("@p2", method);
        assert!(cached > 2.0 * uncached, "{method}: {cached} with the cache on, {uncached} off");
    }
    for arm in &found.arms {
        let place =
            if arm.labels.get("server").is_some_and(|server| server.ends_with("@p1")) { 1 } else { 2 };
        let judged = arm.plausibility.as_ref().expect("judged");
        let expected = if place == 1 { "plausible" } else { "answered-from-memory" };
        assert_eq!(judged.code, expected, "{}: {}", arm.name, judged.text);
        let why = judged.explained_by.as_deref().unwrap_or_default();
        assert_eq!(why.contains("ignores flushes"), place == 2, "{}: {why}", arm.name);
    }
}

#[test]
fn restores_by_wal_sync_method_with_the_wal_on_a_second_drive() {
    if !common::root_or_skip("restores_by_wal_sync_method_with_the_wal_on_a_second_drive") {
        return;
    }
    let state = state();
    let dump = state.path().join("dump.sql");
    let tables: String = (0..40)
        .map(|n| format!("CREATE TABLE public.t{n} (a integer PRIMARY KEY, b text);\nCOPY public.t{n} FROM stdin;\n1\tx\n\\.\n"))
        .collect();
    std::fs::write(&dump, tables).expect("a dump");
    let methods = "wal_sync_method=open_sync,fsync,fdatasync";
    let dump = dump.to_string_lossy().into_owned();
    let arguments = [
        "--dump",
        &dump,
        "--scratch",
        "sim:sata-2009",
        "--wal-into",
        UNCACHED,
        "--vary",
        methods,
        "--rounds",
        "2",
    ];
    let (found, shown) = measured(&state, "restore", &arguments);
    println!("{shown}");
    assert!(shown.contains("WAL: SIMULATED: sim:sata-2009,write-cache=off"), "{shown}");
    let order: Vec<_> =
        found.arms.iter().map(|arm| arm.samples.iter().map(|s| s.position).collect::<Vec<_>>()).collect();
    assert_eq!(order, [[1, 1], [2, 2], [3, 3]], "rounds are taken in turn");
    let fastest = |arm: usize| found.arms[arm].summary.as_ref().expect("two rounds").min_ns;
    assert!(fastest(2) < fastest(0) && fastest(2) < fastest(1), "fdatasync commits no journal: {shown}");
    for sample in found.arms.iter().flat_map(|arm| &arm.samples) {
        let (made, wal) =
            (sample.restored.as_ref().expect("restored"), sample.wal_device.expect("a second drive"));
        assert!(wal.writes >= made.commits, "each commit is written there: {wal:?}, {made:?}");
        assert!(made.user_ns + made.sys_ns > 0);
    }
}
