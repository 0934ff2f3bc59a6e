//! `fsynclab restore` from outside: what it prints and keeps, what it refuses, what it says when something dies, and that
//! nothing is left of it.

mod common;
#[path = "common/postgres.rs"]
mod postgres;
#[path = "common/runs.rs"]
mod runs;

use std::path::{Path, PathBuf};
use std::process::Command;

use fsynclab::server::cluster::Cluster;
use postgres::{Bench, directory};
use runs::{databases_and_settings, document, finished, nothing_left, place, under_way};

fn restore(bench: &Bench, place: &Path, arguments: &[&str]) -> Command {
    let mut command = common::fsynclab(bench.state.path());
    command.args(["restore", "--rounds", "1", "--bin"]).arg(directory(15)).arg("--scratch").arg(place);
    command.args(arguments);
    command
}

/// A dump in the bench's state directory.
fn dump(bench: &Bench, text: &str) -> PathBuf {
    let path = bench.state.path().join("dump.sql");
    std::fs::write(&path, text).expect("a dump");
    path
}

/// Tables of so many rows, owned by a role that no cluster has.
fn tables(number: usize, rows: usize) -> String {
    (0..number).fold(String::new(), |text, n| {
        let data: String = (0..rows).map(|row| format!("{row}\trow\n")).collect();
        text + &format!(
            "CREATE TABLE public.t{n} (a integer, b text);\nALTER TABLE public.t{n} OWNER TO \"The Owner\";\n\
             COPY public.t{n} (a, b) FROM stdin;\n{data}\\.\nCREATE INDEX i{n} ON public.t{n} (a);\n"
        )
    })
}

fn source(bench: &Bench) -> Cluster {
    let cluster = bench.cluster(15, &["fsync=off"]);
    let mut session = cluster.session("postgres").expect("session");
    session.run("CREATE DATABASE shop").expect("shop");
    let mut shop = cluster.session("shop").expect("session");
    shop.run("CREATE TABLE t AS SELECT i, repeat('x', 100) s FROM generate_series(1, 200000) i").expect("t");
    cluster
}

fn from(cluster: &Cluster) -> String {
    format!("host={}/socket user=postgres dbname=shop", cluster.run_directory().display())
}

#[test]
fn a_dump_is_restored_under_each_setting_and_the_table_says_what_it_took() {
    if !common::root_or_skip("a_dump_is_restored_under_each_setting_and_the_table_says_what_it_took") {
        return;
    }
    let bench = Bench::new("restore");
    let place = place("600M");
    let path = dump(&bench, &tables(30, 20)).to_string_lossy().into_owned();
    let json = bench.state.path().join("results.json");
    let methods = ["fdatasync", "open_datasync", "fsync", "open_sync"];
    let varied = format!("wal_sync_method={}", methods.join(","));
    let arguments = ["--dump", &path, "--vary", &varied, "--json"];
    let output = finished(restore(&bench, &place.path(), &arguments).arg(&json));
    let said = common::text(&output).replace('\n', " ");
    assert!(output.status.success(), "{said}");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.lines().all(|line| line.chars().count() <= 79), "{shown}");
    for words in [
        "wal_sync_method",
        "too few rounds for a verdict (1; 6 are needed)",
        "Rows: as dumped in all of 30 tables (600 rows)",
        "last CHECKPOINT",
        "an observation, not a bound",
        "fsync=on",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(said.contains("4 trials = about") && said.contains("needed at the peak"), "{said}");
    let found = document(&json);
    let labels: Vec<_> = found.arms.iter().filter_map(|arm| arm.labels.get("wal_sync_method")).collect();
    assert_eq!((labels.as_slice(), found.complete), (&methods[..], true));
    for arm in &found.arms {
        for sample in &arm.samples {
            let made = sample.restored.as_ref().expect("restored");
            assert_eq!((made.tables, made.rows, made.errors_ignored), (30, 600, 0));
            assert!(made.wal_bytes > 0 && made.commits >= 120 && made.checkpoints >= 1, "{made:?}");
            assert_eq!(sample.phases.values().sum::<u64>(), sample.elapsed_ns);
            assert_eq!(
                sample.position as usize,
                1 + methods
                    .iter()
                    .position(|m| arm.labels.get("wal_sync_method") == Some(*m))
                    .expect("a method")
            );
        }
    }
    std::fs::remove_file(json).expect("results");
    std::fs::remove_file(path).expect("dump");
    bench.close([]);
}

#[test]
fn a_database_is_dumped_for_every_trial_or_once() {
    if !common::root_or_skip("a_database_is_dumped_for_every_trial_or_once") {
        return;
    }
    let bench = Bench::new("restore");
    let cluster = source(&bench);
    let place = place("1500M");
    let from = from(&cluster);
    for (arguments, times) in [
        (&["--vary", "fsync=on,off"][..], "2 times"),
        (&["--vary", "fsync=on,off", "--dump-once"], "1 times"),
        (&["--dump-once", "-j", "2"], "1 times"),
    ] {
        let output = finished(restore(&bench, &place.path(), &["--from", &from]).args(arguments));
        let said = common::text(&output).replace('\n', " ");
        assert!(output.status.success(), "{said}");
        assert!(said.contains("Rows: as dumped in all of 1 table (200000 rows)"), "{said}");
        assert!(said.contains(times) && said.contains("will dump database \"shop\""), "{said}");
        nothing_left(&place.path(), times);
    }
    let mut session = cluster.session("shop").expect("session");
    assert_eq!(session.value("SELECT count(*) FROM t").expect("t"), "200000");
    drop(session);
    bench.close([cluster]);
}

#[test]
fn what_is_not_safe_or_not_understood_is_refused_with_its_status() {
    if !common::root_or_skip("what_is_not_safe_or_not_understood_is_refused_with_its_status") {
        return;
    }
    let bench = Bench::new("restore");
    let place = place("600M");
    let good = dump(&bench, "SELECT 1;\n").to_string_lossy().into_owned();
    let bad = bench.state.path().join("bad.sql");
    std::fs::write(&bad, "SELECT 1;\n\\connect shop\nDROP TABLE t;\n").expect("a dump");
    let bad = bad.to_string_lossy().into_owned();
    for (arguments, status, message) in [
        (vec!["--dump", &bad], 3, "line 2: \"\\c\" is a command to psql"),
        (vec!["--dump", "/nowhere/x"], 1, "could not read file \"/nowhere/x\": No such file or directory"),
        (vec!["--dump", &good, "-j", "2"], 2, "a plain dump is loaded by one session"),
        (vec!["--dump", &good, "--from", "x"], 2, "cannot be used with"),
        (vec!["--dump", &good, "db"], 2, "required"),
        (vec!["--dump", &good, "--dump-once"], 2, "cannot be used with"),
        (vec!["--dump", &good, "--set", "port=1"], 2, "port of a scratch cluster cannot be set"),
        (
            vec!["--from", "host=/nowhere"],
            3,
            "connection to server on socket \"/nowhere/.s.PGSQL.5432\" failed",
        ),
        (vec![], 2, "required"),
    ] {
        let output = finished(&mut restore(&bench, &place.path(), &arguments));
        let said = common::text(&output).replace('\n', " ");
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(message), "{arguments:?}: {said}");
        nothing_left(&place.path(), message);
    }
    for path in [good, bad] {
        std::fs::remove_file(path).expect("dump");
    }
    bench.close([]);
}

#[test]
fn a_restore_that_fails_says_why_and_leaves_nothing() {
    if !common::root_or_skip("a_restore_that_fails_says_why_and_leaves_nothing") {
        return;
    }
    let bench = Bench::new("restore");
    let place = place("600M");
    let trigger = "CREATE FUNCTION public.f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;\n\
                   CREATE TABLE public.t (a int);\nCREATE TRIGGER x BEFORE INSERT ON public.t FOR EACH ROW EXECUTE \
                   FUNCTION public.f();\nCOPY public.t (a) FROM stdin;\n1\n2\n\\.\n";
    for (text, message) in [
        ("SELECT 1;\nSELECT nothing;\n", "psql:<stdin>:2: ERROR:  column \"nothing\" does not exist"),
        (trigger, "table public.t holds 0 rows, the dump 2"),
    ] {
        let path = dump(&bench, text);
        let output = finished(restore(&bench, &place.path(), &["--dump"]).arg(&path));
        let said = common::text(&output).replace('\n', " ");
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.split_whitespace().collect::<Vec<_>>().join(" ").contains(&message.replace("  ", " ")),
            "{said}"
        );
        nothing_left(&place.path(), message);
        std::fs::remove_file(path).expect("dump");
    }
    bench.close([]);
}

#[test]
fn a_disk_that_is_full_is_told_and_freed() {
    if !common::root_or_skip("a_disk_that_is_full_is_told_and_freed") {
        return;
    }
    let bench = Bench::new("restore");
    let image = place("300M");
    let path = dump(
        &bench,
        "CREATE TABLE public.t AS SELECT i, repeat('x', 500) FROM generate_series(1, 2000000) i;\n",
    );
    let output = finished(restore(&bench, &image.path(), &["--dump"]).arg(&path));
    let said = common::text(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("No space left on device"), "{said}");
    nothing_left(&image.path(), "full");
    // A dump that cannot fit is not begun.
    std::fs::write(&path, "-".repeat(200 << 20)).expect("a large file");
    let output = finished(restore(&bench, &image.path(), &["--dump"]).arg(&path));
    let said = common::text(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("MB free, and the restore takes about 864 MB at its peak"), "{said}");
    std::fs::remove_file(path).expect("dump");
    bench.close([]);
}

fn live(bench: &Bench, cluster: &Cluster, arguments: &[&str]) -> Command {
    let mut command = common::fsynclab(bench.state.path());
    command.args(["restore", "--live", "-U", "postgres", "-d", "postgres", "-h"]);
    command.arg(cluster.run_directory().join("socket")).args(arguments);
    command
}

#[test]
fn a_live_server_is_told_the_cost_and_left_as_it_was() {
    let bench = Bench::new("restore");
    let cluster = bench.cluster(15, &["fsync=off"]);
    let before = databases_and_settings(&cluster);
    let path = dump(&bench, &tables(3, 20)).to_string_lossy().into_owned();
    let arguments = ["--dump", &path, "--vary", "wal_sync_method=fsync,fdatasync"];
    let output = finished(&mut live(&bench, &cluster, &arguments));
    let said = common::text(&output).replace('\n', " ");
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("roles of the dump are missing: \"The Owner\""), "{said}");
    // No session of ours stays: `clean` waits for those that a killed run may have left.
    cluster.session("postgres").expect("session").run("CREATE ROLE \"The Owner\"").expect("role");
    let output = finished(&mut live(&bench, &cluster, &arguments));
    let said = common::text(&output).replace('\n', " ");
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("2 restores into a database of ours") && said.contains("3 tables (60 rows)"),
        "{said}"
    );
    assert_eq!(databases_and_settings(&cluster), before);
    let slow = dump(&bench, &format!("{}SELECT pg_sleep(60);\n", tables(3, 20)));
    let arguments = ["--dump", &path, "--vary", "wal_sync_method=fsync,fdatasync"];
    let (mut run, _) = under_way(&mut live(&bench, &cluster, &arguments), "psql");
    run.kill().expect("SIGKILL");
    run.wait().expect("its end");
    let output = finished(common::fsynclab(bench.state.path()).args(["clean", "--yes"]));
    assert!(output.status.success(), "{}", common::text(&output));
    assert_eq!(databases_and_settings(&cluster), before);
    std::fs::remove_file(slow).expect("dump");
    bench.close([cluster]);
}

#[test]
fn whichever_dies_first_is_the_one_told() {
    if !common::root_or_skip("whichever_dies_first_is_the_one_told") {
        return;
    }
    let bench = Bench::new("restore");
    let cluster = source(&bench);
    // So that it lasts: a row waits for the next one.
    let mut shop = cluster.session("shop").expect("session");
    shop.run("CREATE VIEW v AS SELECT 1; CREATE TABLE u AS SELECT i, repeat('y', 1000) s FROM generate_series(1, 300000) i").expect("u");
    drop(shop);
    let place = place("1500M");
    let from = from(&cluster);
    for victim in ["pg_dump", "psql"] {
        let (run, pid) = under_way(&mut restore(&bench, &place.path(), &["--from", &from]), victim);
        common::run("kill", &["-9", &pid]);
        let output = run.wait_with_output().expect("its end");
        let said = common::text(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(1), "{victim}: {said}");
        let told = format!("/{victim}\" was terminated by signal 9");
        assert!(said.replace(' ', "").contains(&told.replace(' ', "")), "{victim}: {said}");
        nothing_left(&place.path(), victim);
    }
    bench.close([cluster]);
}

#[test]
fn ended_by_a_signal_it_undoes_all_and_after_sigkill_clean_does() {
    if !common::root_or_skip("ended_by_a_signal_it_undoes_all_and_after_sigkill_clean_does") {
        return;
    }
    let bench = Bench::new("restore");
    let place = place("600M");
    let path =
        dump(&bench, &format!("{}SELECT pg_sleep(60);\n", tables(3, 20))).to_string_lossy().into_owned();
    let (run, _) = under_way(&mut restore(&bench, &place.path(), &["--dump", &path]), "psql");
    common::run("kill", &["-INT", &run.id().to_string()]);
    let output = run.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(130), "{}", common::text(&output));
    nothing_left(&place.path(), "SIGINT");
    let (mut run, _) = under_way(&mut restore(&bench, &place.path(), &["--dump", &path]), "psql");
    run.kill().expect("SIGKILL");
    run.wait().expect("its end");
    let output = finished(common::fsynclab(bench.state.path()).args(["clean", "--yes"]));
    assert!(output.status.success(), "{}", common::text(&output));
    nothing_left(&place.path(), "SIGKILL");
    std::fs::remove_file(path).expect("dump");
    bench.close([]);
}

#[test]
fn a_restore_on_a_simulated_drive_says_so_and_leaves_nothing() {
    if !common::root_or_skip("a_restore_on_a_simulated_drive_says_so_and_leaves_nothing") {
        return;
    }
    let bench = Bench::new("restore-sim");
    std::fs::set_permissions(bench.state.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711))
        .expect("mode");
    let (dump, json) = (dump(&bench, &tables(2, 10)), bench.state.path().join("results.json"));
    let mut command = restore(&bench, Path::new("sim:nvme-plp,fs=xfs"), &["--dump"]);
    let output = finished(command.arg(&dump).arg("--json").arg(&json));
    assert!(output.status.success(), "{}", common::text(&output));
    assert!(common::text(&output).contains("Data: SIMULATED: sim:nvme-plp,fs=xfs (xfs"), "{output:?}");
    let found = document(&json);
    assert!(found.simulated && found.places[0].simulated);
    assert!(found.arms[0].samples[0].device.is_some_and(|device| device.writes > 0));
    let sim = bench.state.path().join("sim");
    nothing_left(&sim, "a whole run");
    for path in [dump, json] {
        std::fs::remove_file(path).expect("a file of the test");
    }
    std::fs::remove_dir(sim).expect("an empty directory");
    bench.close([]);
}
