//! `fsynclab createdb` from outside: what it prints and keeps, what it refuses, and that nothing is left of it whenever it
//! is killed.

mod common;
#[path = "common/postgres.rs"]
mod postgres;

use std::path::Path;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{FileSystem, Image};
use fsynclab::results::{Document, text};
use fsynclab::server::cluster::{Cluster, inside};
use postgres::{Bench, directory};

fn createdb(bench: &Bench, arguments: &[&str]) -> Command {
    let mut command = common::fsynclab(bench.state.path());
    command.arg("createdb").args(arguments);
    command
}

fn scratch(bench: &Bench, arguments: &[&str]) -> Command {
    let mut command = createdb(bench, &["--scratch"]);
    command.arg(bench.place.path()).args(arguments);
    command
}

fn bin(major: u32) -> String {
    directory(major).to_string_lossy().into_owned()
}

fn finished(command: &mut Command) -> Output {
    command.output().expect("the program")
}

fn document(path: &Path) -> Document {
    text::read(&std::fs::read(path).expect("results")).expect("a document")
}

/// One run to its end; its document.
fn measured(bench: &Bench, arguments: &[&str]) -> Document {
    let json = bench.state.path().join("results.json");
    let output = finished(scratch(bench, arguments).arg("--json").arg(&json));
    assert!(output.status.success(), "{}", common::text(&output));
    let wide: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|line| line.chars().count() > 79)
        .map(str::to_owned)
        .collect();
    assert_eq!(wide, Vec::<String>::new());
    let found = document(&json);
    std::fs::remove_file(json).expect("results");
    found
}

#[test]
fn a_run_keeps_what_its_kind_promises() {
    let bench = Bench::new("run");
    let arguments = [
        "--bin",
        &format!("new={}", bin(18)),
        "--rounds",
        "1",
        "--warmup",
        "1",
        "--creates",
        "2",
        "--standby",
    ];
    let found = measured(&bench, &arguments);
    let names: Vec<&str> = found.arms.iter().map(|arm| arm.name.as_str()).collect();
    assert_eq!(names, ["file_copy", "file_copy+clone", "wal_log"]);
    assert_eq!((found.complete, found.servers[0].scratch), (true, true));
    assert_eq!((found.servers[0].name.as_str(), found.servers[0].version.as_str()), ("new", "18.4"));
    assert_eq!(found.input.as_ref().map(|input| input.files), Some(300));
    for arm in &found.arms {
        assert_eq!((arm.labels.get("server"), arm.samples.len()), (Some("new"), 2));
        let made = arm.samples[1].databases.as_ref().expect("databases");
        assert_eq!((made.create_ns.len(), made.drop_ns.len()), (2, 2));
        assert!(made.create_and_checkpoint_ns.is_some() && made.wal_bytes > 0 && made.replay_ns.is_some());
        if common::root_or_skip("a_run_keeps_what_its_kind_promises") {
            let fsyncs = if arm.name == "wal_log" { 5 } else { 301 };
            assert_eq!(arm.samples[1].calls.get("fsync"), Some(&fsyncs), "{}", arm.name);
        }
    }
    bench.close([]);
}

/// Disks that others rely on, and those of a virtual machine, keep their cache as it is.
#[test]
fn each_state_of_the_write_cache_is_an_arm_or_refused_in_words() {
    let bench = Bench::new("caches");
    let (bin, json) = (bin(15), bench.state.path().join("results.json"));
    let arguments =
        ["--bin", &bin, "--strategy", "file_copy", "--creates", "1", "--rounds", "1", "--warmup", "0"];
    let mut command = scratch(&bench, &arguments);
    let output = finished(command.args(["--write-cache", "on,off", "--json"]).arg(&json));
    let found = document(&json);
    std::fs::remove_file(json).expect("results");
    let expected = if found.arms.iter().all(|arm| arm.refused.is_some()) { 3 } else { 0 };
    assert_eq!(output.status.code(), Some(expected), "{}", common::text(&output));
    let states: Vec<_> = found.arms.iter().map(|arm| arm.labels.get("write_cache")).collect();
    assert_eq!(states, [Some("on"), Some("off")]);
    for arm in &found.arms {
        match &arm.refused {
            Some(refused) => assert_eq!((refused.code.as_str(), arm.samples.len()), ("write-cache", 0)),
            None => assert_eq!(arm.samples.len(), 1, "{}", arm.name),
        }
    }
    bench.close([]);
}

/// The checkpoint before the copy writes what another database left dirty.
#[test]
fn the_first_checkpoint_pays_for_anothers_dirty_buffers() {
    if !common::root_or_skip("the_first_checkpoint_pays_for_anothers_dirty_buffers") {
        return;
    }
    let bench = Bench::new("dirty");
    let image = Image::new(FileSystem::Ext4, "1G", "");
    let (place, bin, json) = (image.path(), bin(15), bench.state.path().join("results.json"));
    let written = |more: &[&str]| {
        let mut command = createdb(&bench, &["--bin", &bin, "--strategy", "file_copy", "--creates", "1"]);
        command.args(["--rounds", "1", "--warmup", "0", "--scratch"]).arg(&place).arg("--json").arg(&json);
        let output = finished(command.args(more));
        assert!(output.status.success(), "{}", common::text(&output));
        let found = document(&json);
        std::fs::remove_file(&json).expect("results");
        found.arms[0].samples[0].device.expect("a disk").bytes_written
    };
    let (clean, dirty) = (written(&[]), written(&["--dirty", "48MB"]));
    assert!(dirty > clean + (40 << 20), "{dirty} bytes, {clean} without");
    bench.close([]);
}

#[test]
fn what_is_not_safe_or_not_understood_is_refused_with_its_status() {
    let bench = Bench::new("refused");
    let place = bench.place.path().to_string_lossy().into_owned();
    let bin = bin(17);
    for (arguments, status, message) in [
        (vec![], 3, "hint: --scratch DIR makes a cluster there; --live uses the server"),
        (vec!["--scratch", &place, "--strategy", "quick"], 2, "one of file_copy, file_copy+clone, wal_log"),
        (vec!["--scratch", &place, "-h", "there"], 2, "--live"),
        (vec!["--scratch", &place, "--bin", "/nowhere"], 3, "holds no PostgreSQL server"),
        (
            vec!["--scratch", &place, "--bin", &bin, "--set", "port=1"],
            2,
            "port of a scratch cluster cannot be set",
        ),
        (vec!["--scratch", &place, "--bin", &bin, "--vary", "a=1,1"], 2, "invalid setting"),
        (
            vec!["--scratch", &place, "--bin", &bin, "-T", "gone"],
            1,
            "template database \"gone\" does not exist",
        ),
        (
            vec!["--scratch", &place, "--bin", &bin, "--strategy", "file_copy+clone"],
            3,
            "servers below 18 have no file_copy_method",
        ),
        (vec!["--scratch", "sim:7200rpm", "--bin", &bin], 2, "no simulated drive is called \"7200rpm\""),
        (vec!["--scratch", &place, "--scratch", &place, "--bin", &bin], 2, "is given twice"),
        (
            vec!["--scratch", &place, "--bin", &bin, "--dirty", "8MB", "--jobs", "1,4"],
            2,
            "hint: --jobs 1, without --recommend",
        ),
        (
            vec!["--live", "-h", "/nowhere"],
            3,
            "connection to server on socket \"/nowhere/.s.PGSQL.5432\" failed",
        ),
    ] {
        let output = finished(&mut createdb(&bench, &arguments));
        let said = common::text(&output).replace('\n', " ");
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(message), "{arguments:?}: {said}");
    }
    bench.close([]);
}

/// How a live run reaches a cluster of the test.
fn live(bench: &Bench, cluster: &Cluster, arguments: &[&str]) -> Command {
    let mut command = createdb(bench, &["--live", "-U", "postgres", "-h"]);
    command.arg(cluster.run_directory().join("socket")).args(arguments);
    command
}

fn databases_and_settings(cluster: &Cluster) -> Vec<Vec<String>> {
    let mut session = cluster.session("postgres").expect("session");
    let mut found = session.rows("SELECT datname FROM pg_database ORDER BY 1").expect("databases");
    found
        .extend(session.rows("SELECT name, setting FROM pg_file_settings ORDER BY seqno").expect("settings"));
    found
}

#[test]
fn a_live_server_is_told_the_cost_and_left_as_it_was() {
    let bench = Bench::new("live");
    let cluster = bench.cluster(16, &["fsync=off"]);
    let before = databases_and_settings(&cluster);
    let output = finished(&mut live(
        &bench,
        &cluster,
        &["--creates", "1", "--vary", "wal_sync_method=fsync,fdatasync"],
    ));
    let said = common::text(&output).replace('\n', " ");
    assert!(output.status.success(), "{said}");
    assert!(said.contains("every FILE_COPY forces two checkpoints of the whole cluster"), "{said}");
    assert!(said.contains("server runs with fsync=off"), "{said}");
    assert_eq!(databases_and_settings(&cluster), before);
    let mut other = cluster.session("postgres").expect("session");
    let busy = std::thread::spawn(move || other.run("SELECT pg_sleep(30)").is_err());
    let mut session = cluster.session("postgres").expect("session");
    while session.value("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(30)%' AND pid <> pg_backend_pid()").expect("count") == "0" {
        sleep(Duration::from_millis(20));
    }
    let output = finished(&mut live(&bench, &cluster, &["--creates", "1"]));
    assert_eq!(output.status.code(), Some(3), "{}", common::text(&output));
    assert!(common::text(&output).contains("has 1 other active clients"), "{}", common::text(&output));
    let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(30)%' AND pid <> pg_backend_pid()";
    session.value(cancel).expect("cancel");
    assert!(busy.join().expect("the sleeper"));
    drop(session);
    bench.close([cluster]);
}

/// Kills runs of a command at so many moments spread over one whole run, cleans, and looks.
fn killed(bench: &Bench, moments: u32, command: &dyn Fn() -> Command, check: &dyn Fn(&str)) {
    let began = Instant::now();
    let output = finished(&mut command());
    assert!(output.status.success(), "{}", common::text(&output));
    let whole = began.elapsed();
    check("a whole run");
    for moment in 0..moments {
        let after = whole * moment / moments + whole / (2 * moments);
        let mut child = command()
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("a run");
        sleep(after);
        child.kill().expect("SIGKILL");
        child.wait().expect("its end");
        let output = finished(common::fsynclab(bench.state.path()).args(["clean", "--yes"]));
        assert!(output.status.success(), "after {after:?}: {}", common::text(&output));
        check(&format!("killed after {after:?} of {whole:?}"));
    }
}

#[test]
fn killed_at_ten_moments_clean_leaves_no_cluster() {
    let bench = Bench::new("killed");
    let bin = bin(15);
    let command = || scratch(&bench, &["--bin", &bin, "--rounds", "1", "--warmup", "0", "--creates", "2"]);
    killed(&bench, 10, &command, &|when| {
        assert_eq!(std::fs::read_dir(bench.place.path()).expect("place").count(), 0, "{when}");
        assert_eq!(inside(bench.place.path()).len(), 0, "{when}");
    });
    bench.close([]);
}

#[test]
fn killed_at_ten_moments_clean_leaves_a_live_server_as_it_was() {
    let bench = Bench::new("killed");
    let cluster = bench.cluster(15, &[]);
    let before = databases_and_settings(&cluster);
    // A killed run's last statement may still be running when the next run looks for active clients.
    let command = || {
        live(
            &bench,
            &cluster,
            &[
                "--creates",
                "2",
                "--strategy",
                "file_copy,wal_log",
                "--vary",
                "wal_sync_method=fsync,fdatasync",
                "--yes",
            ],
        )
    };
    killed(&bench, 10, &command, &|when| assert_eq!(databases_and_settings(&cluster), before, "{when}"));
    bench.close([cluster]);
}
