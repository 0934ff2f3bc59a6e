//! Settings changed, read back and restored; a standby that replays what its primary copies.

mod common;
#[path = "common/postgres.rs"]
mod postgres;

use fsynclab::server::cluster::Standby;
use fsynclab::server::createdb::Strategy;
use fsynclab::server::createdb::database::{Names, drop_ours};
use fsynclab::server::error::ServerError;
use fsynclab::server::features::Features;
use fsynclab::server::settings::change::{When, apply, apply_live, when};
use fsynclab::server::settings::{Setting, current};
use fsynclab::sys::undo::Undone;
use fsynclab::sys::watch::Quiet;
use postgres::Bench;

fn setting(text: &str) -> Setting {
    Setting::parse(text).expect(text)
}

#[test]
fn a_scratch_cluster_takes_settings_of_every_kind() {
    let bench = Bench::new("settings");
    let cluster = bench.cluster(16, &["fsync=off"]);
    let mut session = cluster.session("postgres").expect("session");
    for (name, expected) in
        [("work_mem", When::Session), ("wal_sync_method", When::Reload), ("shared_buffers", When::Start)]
    {
        assert_eq!(when(&mut session, name).expect(name), expected);
    }
    assert!(matches!(when(&mut session, "block_size"), Err(ServerError::FixedSetting { .. })));
    assert!(matches!(when(&mut session, "no_such"), Err(ServerError::UnknownSetting { .. })));
    for (text, shown) in [
        ("work_mem=8192kB", "8MB"),
        ("wal_sync_method=open_datasync", "open_datasync"),
        ("shared_buffers=16384kB", "16MB"),
    ] {
        let setting = setting(text);
        apply(&cluster, std::slice::from_ref(&setting), &Quiet).expect(text);
        let mut session = cluster.session("postgres").expect("session");
        assert_eq!(current(&mut session, &setting.name).expect(text).as_deref(), Some(shown));
    }
    let error = apply(&cluster, &[setting("wal_sync_method=sometimes")], &Quiet).expect_err("no such value");
    assert!(error.to_string().contains("invalid value for parameter \"wal_sync_method\""), "{error}");
    drop(session);
    bench.close([cluster]);
}

#[test]
fn a_server_that_is_not_ours_is_set_back_to_what_its_file_said() {
    let bench = Bench::new("settings");
    let cluster = bench.cluster(15, &["fsync=off"]);
    let mut session = cluster.session("postgres").expect("session");
    session.run("ALTER SYSTEM SET checkpoint_completion_target = '0.5'").expect("a setting of theirs");
    session.run("SELECT pg_reload_conf()").expect("reload");
    let wanted = [setting("checkpoint_completion_target=0.7"), setting("wal_sync_method=fsync")];
    let changed = apply_live(&mut session, &wanted, &bench.journal, &Quiet).expect("changed");
    let value = |name: &str| {
        let mut fresh = cluster.session("postgres").expect("session");
        current(&mut fresh, name).expect(name).expect("a value")
    };
    assert_eq!(
        (value("checkpoint_completion_target"), value("wal_sync_method")),
        ("0.7".into(), "fsync".into())
    );
    // What undoes a dead run's setting waits until its sessions are gone.
    drop(session);
    for (n, change) in changed.iter().rev() {
        assert_eq!(bench.journal.undo(*n, change).expect("undone"), Undone::Now);
    }
    for (_, change) in &changed {
        assert_eq!(fsynclab::sys::undo::Undo::undo(change).expect("twice"), Undone::Before);
    }
    let mut session = cluster.session("postgres").expect("session");
    let told = session
        .rows("SELECT name, setting FROM pg_file_settings WHERE sourcefile LIKE '%auto.conf'")
        .expect("file");
    assert_eq!(told, [["checkpoint_completion_target", "0.5"]]);
    for text in
        ["fsync=off", "full_page_writes=off", "data_sync_retry=on", "wal_level=minimal", "shared_buffers=1GB"]
    {
        let error = apply_live(&mut session, &[setting(text)], &bench.journal, &Quiet).expect_err(text);
        assert!(matches!(error, ServerError::ScratchOnly { .. }), "{error}");
    }
    drop(session);
    bench.close([cluster]);
}

#[test]
fn a_standby_replays_each_strategy() {
    let bench = Bench::new("standby");
    let cluster = bench.cluster(17, &[]);
    let mut primary = cluster.session("postgres").expect("session");
    let features = Features::read(&mut primary).expect("features");
    let mut standby = Standby::make(&cluster, &Quiet).expect("standby");
    let names = Names::new();
    for strategy in [Strategy::FileCopy, Strategy::WalLog] {
        let name = names.name(0);
        let sql = strategy.create(&features, &name, "template0");
        let replay_ns =
            standby.replay_ns(&mut primary, &Quiet, |primary| primary.run(&sql)).expect("replayed");
        assert!(replay_ns > 1_000_000, "{strategy} was replayed in {replay_ns} ns");
        drop_ours(&mut primary, &name).expect("dropped");
    }
    drop((primary, standby));
    bench.close([cluster]);
}
