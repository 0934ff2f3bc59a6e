//! Scratch clusters of every version: durable, for us alone, and gone afterwards whatever happens.

mod common;
#[path = "common/postgres.rs"]
mod postgres;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fsynclab::server::cluster::{Cluster, inside};
use fsynclab::server::features::Features;
use fsynclab::server::settings::{self, Setting};
use fsynclab::server::{UNDO, error::ServerError};
use fsynclab::sys::journal;
use fsynclab::sys::watch::Quiet;
use postgres::{Bench, directory};

const VERSIONS: [u32; 4] = [15, 16, 17, 18];

#[test]
fn every_version_makes_a_durable_cluster_that_leaves_nothing() {
    for major in VERSIONS {
        let bench = Bench::new("cluster");
        let cluster = bench.cluster(major, &["shared_buffers=32768kB", "checkpoint_timeout=10min"]);
        let mut session = cluster.session("postgres").expect("session");
        let features = Features::read(&mut session).expect("features");
        assert_eq!(features.version_num / 10_000, major);
        assert!(features.has_strategy() && features.may_checkpoint && !features.standby);
        assert_eq!((features.has_clone(), major), (major >= 18, major));
        assert_eq!(session.value("SHOW fsync").expect("fsync"), "on");
        assert_eq!(session.value("SHOW shared_buffers").expect("shared_buffers"), "32MB");
        session.value(features.checkpoints_done()).expect("the view of checkpoints");
        let position = format!("SELECT {}", features.wal_position());
        assert!(session.value(&position).expect("position").contains('/'));
        bench.close([cluster]);
    }
}

#[test]
fn nobody_else_reaches_it() {
    if !common::root_or_skip("nobody_else_reaches_it") {
        return;
    }
    let bench = Bench::new("cluster");
    let cluster = bench.cluster(15, &[]);
    let socket = cluster.run_directory().join("socket");
    let mode = |path: &Path| std::fs::metadata(path).expect("metadata").permissions().mode() & 0o777;
    assert_eq!((mode(cluster.run_directory()), mode(&socket)), (0o700, 0o700));
    let mut session = cluster.session("postgres").expect("session");
    assert_eq!(session.value("SHOW listen_addresses").expect("listen_addresses"), "");
    // Even if the directory let them in, the kernel says who they are.
    for path in [cluster.run_directory(), &socket] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("mode");
    }
    std::fs::set_permissions(socket.join(".s.PGSQL.5432"), PermissionsExt::from_mode(0o777)).expect("mode");
    let mut psql = std::process::Command::new("/usr/lib/postgresql/15/bin/psql");
    psql.arg("-h").arg(&socket).args(["-U", "postgres", "-c", "SELECT 1"]);
    let output = common::as_nobody(&psql).output().expect("psql");
    assert!(common::text(&output).contains("Peer authentication failed"), "{}", common::text(&output));
    bench.close([cluster]);
}

#[test]
fn a_setting_that_a_server_does_not_know_is_told_in_its_words_and_its_log_kept() {
    let bench = Bench::new("cluster");
    let binaries = bench.binaries(&directory(17).to_string_lossy());
    let setting = Setting::parse("file_copy_method=clone").expect("setting");
    let error = Cluster::make(bench.place.path(), &binaries, &[setting], &bench.journal, &Quiet)
        .expect_err("refused");
    let text = error.to_string();
    assert!(
        text.contains("unrecognized configuration parameter \"file_copy_method\"")
            || text.contains("configuration file"),
        "{text}"
    );
    let ServerError::Cluster { log: Some(log), .. } = &error else { panic!("{error:?}") };
    let kept = std::fs::read_to_string(log).expect("the log");
    assert!(kept.contains("unrecognized configuration parameter \"file_copy_method\""), "{kept}");
    std::fs::remove_file(log).expect("the log");
    bench.close([]);
}

#[test]
fn a_weak_setting_is_in_force_only_where_it_was_asked_for() {
    let bench = Bench::new("cluster");
    let cluster = bench.cluster(16, &["fsync=off"]);
    let weak = settings::not_durable(&mut cluster.session("postgres").expect("session")).expect("settings");
    assert_eq!(weak.iter().map(ToString::to_string).collect::<Vec<_>>(), ["fsync=off"]);
    cluster.restart(&Quiet).expect("restart");
    assert_eq!(cluster.session("postgres").expect("session").value("SHOW fsync").expect("fsync"), "off");
    bench.close([cluster]);
}

#[test]
fn a_long_place_has_its_socket_elsewhere() {
    let bench = Bench::new("cluster");
    let long = bench.place.path().join("l".repeat(80));
    std::fs::create_dir(&long).expect("directory");
    let binaries = bench.binaries(&directory(15).to_string_lossy());
    let cluster = Cluster::make(&long, &binaries, &[], &bench.journal, &Quiet).expect("cluster");
    assert_eq!(cluster.session("postgres").expect("session").value("SELECT 1").expect("one"), "1");
    cluster.close(&bench.journal).expect("close");
    assert_eq!(std::fs::read_dir(&long).expect("place").count(), 0);
}

#[test]
fn what_a_dead_run_left_is_ended_and_removed_from_its_journal() {
    let bench = Bench::new("cluster");
    let cluster = bench.cluster(15, &[]);
    let run = cluster.run_directory().to_path_buf();
    assert!(inside(&run).len() > 3, "a server has several processes");
    drop(cluster);
    let Bench { place, state, journal } = bench;
    // The run is dead: its lock is gone, its journal is not.
    drop(journal);
    let found = journal::leftovers(state.path()).expect("leftovers");
    let [journal] = found.journals.as_slice() else { panic!("{found:?}") };
    let table: Vec<_> = UNDO.iter().chain(fsynclab::sys::undo::UNDO).copied().collect();
    for outcome in journal.undo_all(&table).expect("undone") {
        outcome.result.expect("undone");
    }
    assert_eq!((inside(&run).len(), std::fs::read_dir(place.path()).expect("place").count()), (0, 0));
}

#[test]
fn processes_in_a_chroot_of_another_namespace_are_found_by_where_they_work() {
    if !common::root_or_skip("processes_in_a_chroot_of_another_namespace_are_found_by_where_they_work") {
        return;
    }
    let (root, works) = (common::scratch("chroot"), common::scratch("works"));
    let script = "mount --rbind / \"$0\" && exec chroot \"$0\" sh -c 'cd \"$0\" && exec sleep 60' \"$1\"";
    let mut shell = std::process::Command::new("unshare");
    shell.args(["--mount", "sh", "-c", script]).args([root.path(), works.path()]);
    let mut sleeping = shell.spawn().expect("unshare");
    let pid = nix::unistd::Pid::from_raw(sleeping.id().cast_signed());
    let is_found = || inside(works.path()).contains(&pid);
    let found = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        is_found()
    });
    sleeping.kill().expect("SIGKILL");
    sleeping.wait().expect("its end");
    assert!(found && !is_found());
}
