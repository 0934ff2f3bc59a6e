//! Situations of real servers that a run must survive: odd names, roles without rights, weak settings, programs that are
//! missing or wrapped, a pg_restore that goes on after errors, what an interrupted run has left.

mod common;
#[path = "common/postgres.rs"]
mod postgres;
#[path = "common/runs.rs"]
#[expect(dead_code, reason = "a part of it is used here")]
mod runs;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use fsynclab::results::NoteCode;
use fsynclab::server::clients::Clients;
use fsynclab::server::cluster::Cluster;
use fsynclab::server::createdb::database::{Found, Names, ScratchDatabase, find, system_identifier};
use fsynclab::server::restore::{Dump, Load, check_rows};
use fsynclab::server::sql::identifier;
use fsynclab::sys::undo::{Undo, Undone};
use fsynclab::sys::watch::Quiet;
use postgres::{Bench, directory};
use runs::{databases_and_settings, document, finished, nothing_left, place};

fn restore(bench: &Bench, arguments: &[&str]) -> Command {
    let mut command = common::fsynclab(bench.state.path());
    command.args(["restore", "--rounds", "1"]).args(arguments);
    command
}

fn done(command: &mut Command) {
    let output = finished(command);
    assert!(output.status.success(), "{command:?}: {}", common::text(&output));
}

#[test]
fn databases_of_any_name_are_dumped_and_restored() {
    let bench = Bench::new("names");
    let cluster = bench.cluster(16, &["fsync=off"]);
    let mut session = cluster.session("postgres").expect("session");
    let long = "ü".repeat(31);
    for name in ["a-b", "A B", "select", "x\"y", "42db", "-x", "new\nline", "dbname=other", &long] {
        session.run(&format!("CREATE DATABASE {}", identifier(name))).expect(name);
        let mut inside = cluster.session(name).expect(name);
        inside.run("CREATE TABLE \"odd \"\"table\" AS SELECT i FROM generate_series(1, 7) i").expect(name);
        let dump = Dump::Database(Box::new(inside));
        let programs = dump.programs(&Clients::beside(&directory(16)), 16, &Quiet).expect("programs");
        session.run("CREATE DATABASE \"co\"\"py\"").expect("copy");
        let load = Load { dump: &dump, contents: None, programs: &programs, jobs: 1, total_bytes: 0 };
        let loaded =
            load.run(&mut session, "co\"py", &Quiet).unwrap_or_else(|error| panic!("{name:?}: {error}"));
        assert_eq!(loaded.contents.rows(), 7, "{name:?}");
        check_rows(&mut cluster.session("co\"py").expect("session"), &loaded.contents).expect(name);
        session.run("DROP DATABASE \"co\"\"py\"").expect("copy");
    }
    drop(session);
    bench.close([cluster]);
}

/// A role that may create databases and nothing else, whom the kernel takes us for too.
fn limited(cluster: &Cluster) {
    let mut session = cluster.session("postgres").expect("session");
    session.run("CREATE ROLE limited LOGIN CREATEDB").expect("a role");
    let map = cluster.data_directory().join("pg_ident.conf");
    let text = fs::read_to_string(&map).expect("a map");
    let who = text.split_whitespace().nth(1).expect("us").to_owned();
    fs::write(&map, format!("{text}ours {who} limited\n")).expect("a map");
    session.run("SELECT pg_reload_conf()").expect("reload");
}

#[test]
fn without_superuser_it_measures_what_it_can_and_says_what_is_missing() {
    if !common::root_or_skip("without_superuser_it_measures_what_it_can_and_says_what_is_missing") {
        return;
    }
    for major in [15, 18] {
        let bench = Bench::new("limited");
        let cluster = bench.cluster(major, &[]);
        limited(&cluster);
        let before = databases_and_settings(&cluster);
        let dump = bench.state.path().join("dump.sql");
        let text = "CREATE TABLE public.t (a int);\nCOPY public.t (a) FROM stdin;\n1\n2\n\\.\n";
        fs::write(&dump, text).expect("a dump");
        let socket = cluster.run_directory().join("socket").to_string_lossy().into_owned();
        let reach = ["--live", "-U", "limited", "-d", "postgres", "-h", &socket];
        let dump_option = ["--dump", dump.to_str().expect("text")];
        for (command, arguments, missing) in [
            ("createdb", &["--creates", "1"][..], "needs the right to CHECKPOINT"),
            ("restore", &dump_option, "the last CHECKPOINT needs the right to it"),
            ("pgbench", &["-T", "1", "-s", "1"], "its data directory is not seen from here"),
        ] {
            let mut run = common::fsynclab(bench.state.path());
            // Where the installed programs are too old, one in PATH is new enough.
            run.env("PATH", directory(major));
            let output = finished(run.arg(command).args(reach).args(arguments));
            let said = common::text(&output).split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(output.status.success(), "{major} {command}: {said}");
            assert!(said.contains(missing), "{major} {command}: {said}");
            assert_eq!(databases_and_settings(&cluster), before, "{major} {command}");
        }
        fs::remove_file(dump).expect("dump");
        bench.close([cluster]);
    }
}

#[test]
fn settings_that_weaken_a_server_are_printed_first_and_flag_the_results() {
    if !common::root_or_skip("settings_that_weaken_a_server_are_printed_first_and_flag_the_results") {
        return;
    }
    let bench = Bench::new("weak");
    let place = place("600M");
    let (dump, json) = (bench.state.path().join("dump.sql"), bench.state.path().join("r.json"));
    fs::write(&dump, "CREATE TABLE public.t (a int);\n").expect("a dump");
    let weak = ["fsync=off", "full_page_writes=off", "synchronous_commit=off", "data_sync_retry=on"];
    let odd = ["wal_level=minimal", "max_wal_senders=0", "wal_sync_method=open_sync"];
    let mut command = restore(&bench, &["--bin"]);
    command.arg(directory(17)).arg("--scratch").arg(place.path()).arg("--dump").arg(&dump);
    command.args(weak.iter().chain(&odd).flat_map(|setting| ["--set", setting]));
    let output = finished(command.arg("--json").arg(&json));
    let shown = String::from_utf8_lossy(&output.stdout).replace('\n', " ");
    assert!(output.status.success(), "{}", common::text(&output));
    let table = shown.find("real median").expect("a table");
    for setting in ["fsync=off", "full_page_writes=off", "synchronous_commit=off", odd[0], odd[2]] {
        assert!(shown.find(setting).is_some_and(|at| at < table), "{setting}: {shown}");
    }
    let notes = document(&json).notes;
    for setting in weak {
        let told = |note: &&fsynclab::results::Note| {
            note.code == NoteCode::FsyncOff && note.text.contains(&format!("runs with {setting}"))
        };
        assert!(notes.iter().find(told).is_some(), "{setting}: {notes:?}");
    }
    nothing_left(&place.path(), "weak");
    for file in [dump, json] {
        fs::remove_file(file).expect("a file of the test");
    }
    bench.close([]);
}

/// A directory that holds these programs of a version, by links.
fn programs(major: u32, names: &[&str]) -> tempfile::TempDir {
    let found = common::scratch("bin");
    fs::set_permissions(found.path(), fs::Permissions::from_mode(0o755)).expect("mode");
    for name in names {
        symlink(directory(major).join(name), found.path().join(name)).expect("a link");
    }
    found
}

#[test]
fn programs_that_are_missing_are_told_before_anything_is_made() {
    let bench = Bench::new("programs");
    let empty = programs(15, &[]);
    let path = bench.state.path().join("custom");
    fs::write(&path, "PGDMP").expect("a dump");
    let servers = programs(15, &["postgres", "initdb", "pg_ctl"]);
    let mut command = restore(&bench, &["--dump"]);
    command.arg(&path).arg("--bin").arg(servers.path()).arg("--scratch").arg(bench.place.path());
    let output = finished(command.env("PATH", empty.path()));
    let said = common::told(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("could not find pg_restore: neither in"), "{said}");
    fs::remove_file(path).expect("dump");
    bench.close([]);
}

#[test]
fn a_wrapper_is_asked_for_its_version_like_any_program() {
    let directory_of_scripts = programs(18, &[]);
    let wrapper = directory_of_scripts.path().join("pg_dump");
    fs::write(&wrapper, format!("#!/bin/sh\nexec {}/pg_dump \"$@\"\n", directory(18).display()))
        .expect("a script");
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).expect("mode");
    let clients = Clients::beside(directory_of_scripts.path());
    assert_eq!(clients.find("pg_dump", 18, &Quiet).expect("new enough"), wrapper);
    assert_eq!(clients.find("pg_dump", 15, &Quiet).expect("newer than the server"), wrapper);
    let error = clients.find("pg_dump", 19, &Quiet).expect_err("older");
    assert_eq!(error.to_string(), "pg_dump is of version 18, older than the server (19)");
}

#[test]
fn a_pg_restore_that_goes_on_after_errors_is_usable_and_flagged() {
    if !common::root_or_skip("a_pg_restore_that_goes_on_after_errors_is_usable_and_flagged") {
        return;
    }
    let bench = Bench::new("ignored");
    let place = place("600M");
    let cluster = bench.cluster(15, &["fsync=off", "allow_in_place_tablespaces=on"]);
    let mut session = cluster.session("postgres").expect("session");
    session.run("CREATE TABLESPACE fast LOCATION ''").expect("a tablespace");
    session.run("CREATE TABLE t (a int) TABLESPACE fast").expect("t");
    let dump = bench.state.path().join("custom");
    let socket = cluster.run_directory().join("socket");
    let mut pg_dump = Command::new(directory(15).join("pg_dump"));
    done(pg_dump.arg("-h").arg(&socket).args(["-U", "postgres", "-Fc", "-f"]).arg(&dump).arg("postgres"));
    drop(session);
    let mut command = restore(&bench, &["--bin"]);
    command.arg(directory(15)).arg("--scratch").arg(place.path()).arg("--dump").arg(&dump);
    let output = finished(&mut command);
    let said = common::text(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.status.success(), "{said}");
    for words in ["errors ignored on restore: 1", "Rows were not verified", "real median", "Parts ("] {
        assert!(said.contains(words), "{words}: {said}");
    }
    fs::remove_file(dump).expect("dump");
    bench.close([cluster]);
}

#[test]
fn a_database_of_ours_that_an_interrupted_run_left_is_dropped_with_who_is_in_it() {
    let bench = Bench::new("interrupted");
    let cluster = bench.cluster(17, &["fsync=off"]);
    let names = Names::new();
    let mut session = cluster.session("postgres").expect("session");
    for invalid in [false, true] {
        let name = names.name(0);
        session.run(&format!("CREATE DATABASE {}", identifier(&name))).expect("made");
        names.mark(&mut session, &name).expect("ours");
        let held = cluster.session(&name).expect("a session in it");
        if invalid {
            // As an interrupted DROP leaves it: nobody can connect any more.
            drop(held);
            session
                .run("UPDATE pg_database SET datconnlimit = -2 WHERE datname LIKE 'fsynclab%'")
                .expect("invalid");
        }
        assert_eq!(find(&mut session, &name).expect("found"), Found::Ours { invalid });
        let left = ScratchDatabase {
            conninfo: session.conninfo(),
            system_identifier: system_identifier(&mut session).expect("an identifier"),
            name: name.clone(),
        };
        assert_eq!(left.undo().expect("dropped"), Undone::Now, "invalid: {invalid}");
        assert_eq!(left.undo().expect("gone"), Undone::Before);
        assert_eq!(find(&mut session, &name).expect("found"), Found::Nothing);
    }
    drop(session);
    bench.close([cluster]);
}

#[test]
fn every_version_counts_its_segments_and_says_what_bounds_a_restore() {
    if !common::root_or_skip("every_version_counts_its_segments_and_says_what_bounds_a_restore") {
        return;
    }
    let rows: String = (0..300_000).map(|row| format!("{row}\t{}\n", "x".repeat(40))).collect();
    let text = format!(
        "CREATE TABLE public.t (a int, b text);\nCOPY public.t (a, b) FROM stdin;\n{rows}\\.\nCREATE INDEX t_b ON public.t (b);\n"
    );
    for major in [15, 16, 17, 18] {
        let bench = Bench::new("segments");
        let place = place("900M");
        let (dump, json) = (bench.state.path().join("dump.sql"), bench.state.path().join("r.json"));
        fs::write(&dump, &text).expect("a dump");
        let small = ["--set", "min_wal_size=32MB", "--set", "max_wal_size=64MB"];
        let output = segments_counted(&bench, major, &place.path(), &dump, &json, &small);
        assert!(output.contains("WAL segments made or recycled: ") && output.contains("Bound ("), "{output}");
        let found = document(&json);
        let made = found.arms[0].samples[0].restored.as_ref().expect("restored");
        let all = made.wal_segments.expect("a superuser looks");
        assert!(all * (16 << 20) >= made.wal_bytes.saturating_sub(32 << 20), "{major}: {made:?}");
        assert!(made.wal_segments_recycled.is_some_and(|recycled| recycled <= all), "{major}: {made:?}");
        assert!(made.waits_ns["tables"].values().sum::<u64>() > 0, "{major}: {made:?}");
        for file in [dump, json] {
            fs::remove_file(file).expect("a file of the test");
        }
        bench.close([]);
    }
}

fn segments_counted(
    bench: &Bench,
    major: u32,
    place: &Path,
    dump: &Path,
    json: &Path,
    small: &[&str],
) -> String {
    let mut command = restore(bench, &["--bin"]);
    command.arg(directory(major)).arg("--scratch").arg(place).arg("--dump").arg(dump).args(small);
    let output = finished(command.arg("--json").arg(json));
    assert!(output.status.success(), "{major}: {}", common::text(&output));
    String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}
