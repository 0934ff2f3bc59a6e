//! `fsynclab pgbench` from outside: what it prints and keeps, what it passes on, what it refuses, and that nothing is left
//! of it.

mod common;
#[path = "common/postgres.rs"]
mod postgres;
#[path = "common/runs.rs"]
mod runs;

use std::path::Path;
use std::process::Command;

use fsynclab::server::cluster::Cluster;
use postgres::{Bench, directory};
use runs::{databases_and_settings, document, finished, nothing_left, place, under_way};

fn pgbench(bench: &Bench, arguments: &[&str]) -> Command {
    let mut command = common::fsynclab(bench.state.path());
    // pgbench's log lies where temporary files do.
    command.env("TMPDIR", bench.state.path()).arg("pgbench").args(arguments);
    command
}

fn scratch(bench: &Bench, major: u32, place: &Path, arguments: &[&str]) -> Command {
    let mut command = pgbench(bench, &["--rounds", "1", "--warmup", "0", "-s", "1", "--bin"]);
    command.arg(directory(major)).arg("--scratch").arg(place).args(arguments);
    command
}

#[test]
fn a_run_keeps_what_its_kind_promises_and_judges_each_arm() {
    if !common::root_or_skip("a_run_keeps_what_its_kind_promises_and_judges_each_arm") {
        return;
    }
    for major in [15, 16, 17, 18] {
        let bench = Bench::new("pgbench");
        let place = place("500M");
        let json = bench.state.path().join("results.json");
        let arguments = ["-c", "2", "-T", "2", "-P", "1", "--vary", "synchronous_commit=on,off"];
        let output = finished(scratch(&bench, major, &place.path(), &arguments).arg("--json").arg(&json));
        let said = common::text(&output).replace('\n', " ");
        assert!(output.status.success(), "{major}: {said}");
        assert!(said.contains("progress: 1.0 s, "), "{major}: {said}");
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(shown.lines().all(|line| line.chars().count() <= 79), "{shown}");
        let found = document(&json);
        assert!(found.complete && found.wal_places[0].syncs_per_sec.len() == 4, "{:?}", found.wal_places);
        let codes: Vec<&str> =
            found.arms.iter().filter_map(|arm| Some(arm.plausibility.as_ref()?.code.as_str())).collect();
        assert_eq!(codes[1], "not-waited-for", "{major}: {codes:?}");
        let explained = found.arms[1].plausibility.as_ref().and_then(|found| found.explained_by.as_deref());
        assert_eq!(explained, Some("synchronous_commit=off"));
        for arm in &found.arms {
            let sample = &arm.samples[0];
            let benched = sample.benched.as_ref().expect("benched");
            let commits = sample.operations.expect("transactions");
            assert!(commits > 0 && benched.wal_written_bytes > 100 * commits, "{major}: {benched:?}");
            assert_eq!(arm.latency["transaction"].n, commits, "each transaction is in the log");
            assert!(sample.device.is_some_and(|device| device.writes > 0));
            assert!(benched.wal_syncs.is_some_and(|syncs| syncs > 0), "{major}: {benched:?}");
            let tps = arm.summary.as_ref().and_then(|summary| summary.median_tps).expect("a rate");
            assert!((tps - benched.tps).abs() < 1e-6);
        }
        let syncs_of = |arm: usize| found.arms[arm].samples[0].benched.as_ref().and_then(|b| b.wal_syncs);
        assert!(syncs_of(0) > syncs_of(1), "{major}: {:?}, {:?}", syncs_of(0), syncs_of(1));
        nothing_left(&place.path(), "a whole run");
        std::fs::remove_file(json).expect("results");
        bench.close([]);
    }
}

#[test]
fn its_own_options_reach_pgbench() {
    if !common::root_or_skip("its_own_options_reach_pgbench") {
        return;
    }
    let bench = Bench::new("pgbench");
    let place = place("500M");
    let json = bench.state.path().join("results.json");
    for (arguments, transactions) in [
        (&["-c", "3", "-j", "2", "-t", "7", "--set", "fsync=off"][..], 21),
        (&["-t", "20", "-R", "40", "--set", "fsync=off", "--wal-into"], 20),
    ] {
        let wal = runs::place("500M");
        let mut command = scratch(&bench, 15, &place.path(), arguments);
        let elsewhere = arguments.last() == Some(&"--wal-into");
        if elsewhere {
            command.arg(wal.path());
        }
        let output = finished(command.arg("--json").arg(&json));
        let said = common::text(&output).replace('\n', " ");
        assert!(output.status.success(), "{said}");
        let found = document(&json);
        let sample = &found.arms[0].samples[0];
        assert_eq!(sample.operations, Some(transactions), "{arguments:?}");
        assert!(said.contains(&format!("pgbench {}", arguments[..2].join(" "))) || elsewhere, "{said}");
        if elsewhere {
            // 20 transactions at 40 a second.
            assert!(sample.elapsed_ns > 200_000_000, "{sample:?}");
            assert_eq!(found.servers[0].wal_place.as_deref(), Some("p2"));
            assert!(said.contains("WAL: ") && sample.wal_device.is_some(), "{said}");
            nothing_left(&wal.path(), "the WAL's place");
        }
        assert!(said.contains("runs with fsync=off"), "{said}");
        let found = found.arms[0].plausibility.as_ref().and_then(|found| found.explained_by.as_deref());
        assert_eq!(found, Some("fsync=off"));
        nothing_left(&place.path(), "a whole run");
    }
    std::fs::remove_file(json).expect("results");
    bench.close([]);
}

#[test]
fn what_is_not_safe_or_not_understood_is_refused_with_its_status() {
    let bench = Bench::new("pgbench");
    let place = bench.place.path().to_string_lossy().into_owned();
    for (arguments, status, message) in [
        (vec![], 3, "pgbench needs a cluster of its own, or leave to use a server"),
        (vec!["--scratch", &place, "-c", "0"], 2, "a whole number from 1 to 10000"),
        (vec!["--scratch", &place, "-T", "1", "-t", "1"], 2, "cannot be used with"),
        (vec!["--scratch", &place, "--wal-into", &place], 2, "is given twice"),
        (vec!["--wal-into", &place], 2, "--scratch"),
        (vec!["--scratch", &place, "--bin", "/nowhere"], 3, "holds no PostgreSQL server"),
        (vec!["--live", "-h", "/nowhere"], 3, "connection to server on socket"),
    ] {
        let output = finished(&mut pgbench(&bench, &arguments));
        let said = common::text(&output).replace('\n', " ");
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(message), "{arguments:?}: {said}");
    }
    bench.close([]);
}

fn live(bench: &Bench, cluster: &Cluster, arguments: &[&str]) -> Command {
    let mut command = pgbench(bench, &["--live", "-s", "1", "-U", "postgres", "-d", "postgres", "-h"]);
    command.arg(cluster.run_directory().join("socket")).args(arguments);
    command
}

#[test]
fn a_live_server_is_told_the_cost_and_left_as_it_was() {
    let bench = Bench::new("pgbench");
    let cluster = bench.cluster(16, &[]);
    let before = databases_and_settings(&cluster);
    let vary = ["-T", "1", "--vary", "wal_sync_method=fsync,fdatasync"];
    let output = finished(&mut live(&bench, &cluster, &vary));
    let said = common::text(&output).replace('\n', " ");
    assert!(output.status.success(), "{said}");
    assert!(said.contains("2 runs of 1 s with 1 clients in a database of ours of about 16 MB"), "{said}");
    assert!(said.contains("wal_sync_method set by ALTER SYSTEM and set back"), "{said}");
    // The disk of its WAL is found by its data directory, and probed beside that.
    assert!(said.contains("Syncs a second where the WAL of server lies"), "{said}");
    assert_eq!(databases_and_settings(&cluster), before);
    let (mut run, _) = under_way(&mut live(&bench, &cluster, &["-T", "60"]), "pgbench");
    run.kill().expect("SIGKILL");
    run.wait().expect("its end");
    // The pgbench that it started goes on without it, and is sent away.
    let output = finished(common::fsynclab(bench.state.path()).args(["clean", "--yes"]));
    assert!(output.status.success(), "{}", common::text(&output));
    assert_eq!(databases_and_settings(&cluster), before);
    bench.close([cluster]);
}

#[test]
fn ended_by_a_signal_it_undoes_all_and_after_sigkill_clean_does() {
    if !common::root_or_skip("ended_by_a_signal_it_undoes_all_and_after_sigkill_clean_does") {
        return;
    }
    let bench = Bench::new("pgbench");
    let place = place("500M");
    let (run, _) = under_way(&mut scratch(&bench, 15, &place.path(), &["-T", "60"]), "pgbench");
    common::run("kill", &["-INT", &run.id().to_string()]);
    let output = run.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(130), "{}", common::text(&output));
    nothing_left(&place.path(), "SIGINT");
    let (mut run, _) = under_way(&mut scratch(&bench, 15, &place.path(), &["-T", "60"]), "pgbench");
    run.kill().expect("SIGKILL");
    run.wait().expect("its end");
    let output = finished(common::fsynclab(bench.state.path()).args(["clean", "--yes"]));
    assert!(output.status.success(), "{}", common::text(&output));
    nothing_left(&place.path(), "SIGKILL");
    bench.close([]);
}
