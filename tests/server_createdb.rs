//! CREATE DATABASE on real servers: the calls and the WAL of each strategy as they were traced by hand, and every way in
//! which a template cannot be copied.

mod common;
#[path = "common/postgres.rs"]
mod postgres;

use std::time::Duration;

use fsynclab::server::Session;
use fsynclab::server::cluster::Cluster;
use fsynclab::server::createdb::calls::counted;
use fsynclab::server::createdb::database::{Found, Names, drop_ours, find};
use fsynclab::server::createdb::template::{self, Recipe};
use fsynclab::server::createdb::trial::{Measured, Subject, Work, run};
use fsynclab::server::createdb::{Strategy, fairness::Facts};
use fsynclab::server::error::ServerError;
use fsynclab::server::features::Features;
use fsynclab::server::sql::identifier;
use fsynclab::sys::watch::Quiet;
use postgres::Bench;

const VERSIONS: [u32; 4] = [15, 16, 17, 18];

struct Stage {
    session: Session,
    features: Features,
    names: Names,
}

impl Stage {
    fn new(cluster: &Cluster) -> Self {
        let mut session = cluster.session("postgres").expect("session");
        let features = Features::read(&mut session).expect("features");
        Self { session, features, names: Names::new() }
    }

    fn trial(&mut self, strategy: Strategy, template: &str, work: Work) -> Result<Measured, ServerError> {
        let subject = Subject {
            features: &self.features,
            strategy,
            template,
            names: &self.names,
            live: None,
            watch: &Quiet,
        };
        run(&mut self.session, subject, work, None)
    }

    fn databases(&mut self) -> Vec<String> {
        let rows = self.session.rows("SELECT datname FROM pg_database ORDER BY 1").expect("databases");
        rows.into_iter().flatten().collect()
    }

    fn strategies(&self) -> Vec<Strategy> {
        Strategy::ALL.into_iter().filter(|strategy| strategy.missing(&self.features).is_none()).collect()
    }
}

const FIVE: Work = Work { creates: 5, jobs: 1 };
const ONE: Work = Work { creates: 1, jobs: 1 };

#[test]
fn each_strategy_calls_what_was_traced_and_writes_as_much_wal() {
    if !common::root_or_skip("each_strategy_calls_what_was_traced_and_writes_as_much_wal") {
        return;
    }
    // Version, strategy: fsync, sync_file_range, copy_file_range of the backend; the WAL of one CREATE.
    let kb = 1024;
    let traced = [
        (15, Strategy::FileCopy, [299, 247, 0], 0..8 * kb),
        (15, Strategy::WalLog, [3, 0, 0], 3900 * kb..4500 * kb),
        (16, Strategy::FileCopy, [299, 247, 0], 0..8 * kb),
        (16, Strategy::WalLog, [5, 0, 0], 3900 * kb..4500 * kb),
        (17, Strategy::FileCopy, [299, 247, 0], 0..8 * kb),
        (17, Strategy::WalLog, [5, 0, 0], 3900 * kb..4500 * kb),
        (18, Strategy::FileCopy, [301, 248, 0], 0..8 * kb),
        (18, Strategy::FileCopyClone, [301, 0, 548], 0..8 * kb),
        (18, Strategy::WalLog, [5, 0, 0], 3900 * kb..4500 * kb),
    ];
    for major in VERSIONS {
        let bench = Bench::new("createdb");
        let cluster = bench.cluster(major, &[]);
        let mut stage = Stage::new(&cluster);
        let expected: Vec<_> = traced.iter().filter(|row| row.0 == major).collect();
        assert_eq!(stage.strategies(), {
            let mut known: Vec<Strategy> = expected.iter().map(|row| row.1).collect();
            known.sort();
            known
        });
        for (_, strategy, [fsync, hint, clone], wal) in expected {
            let calls = calls_of_one(&cluster, &mut stage, *strategy);
            let count = |name: &str| calls.get(name).copied().unwrap_or(0);
            let found = [count("fsync"), count("sync_file_range"), count("copy_file_range")];
            assert_eq!(found, [*fsync, *hint, *clone], "{major} {strategy}: {calls:?}");
            let measured = attributed(&mut stage, *strategy);
            assert!(
                wal.contains(&measured.wal_bytes),
                "{major} {strategy}: {} bytes of WAL",
                measured.wal_bytes
            );
            assert_eq!((measured.create_ns.len(), measured.drop_ns.len()), (5, 5));
            let together_ns = measured.create_and_checkpoint_ns.expect("a superuser may CHECKPOINT");
            assert!(together_ns > 0);
            assert_eq!(measured.phases.is_some(), *strategy != Strategy::WalLog, "{major} {strategy}");
            if let Some(phases) = measured.phases {
                let sum: u64 = phases.values().sum();
                assert!(sum.abs_diff(measured.elapsed_ns) * 100 <= measured.elapsed_ns * 3, "{phases:?}");
            }
        }
        assert_eq!(stage.databases(), ["postgres", "template0", "template1"]);
        drop(stage);
        bench.close([cluster]);
    }
}

/// A trial; of a FILE_COPY the first one whose parts could be told, for other programs may keep us from looking in time.
fn attributed(stage: &mut Stage, strategy: Strategy) -> Measured {
    let mut trials = (0..5).map(|_| stage.trial(strategy, "template0", FIVE).expect("trial"));
    if strategy == Strategy::WalLog {
        return trials.next().expect("a trial");
    }
    trials
        .find(|measured| measured.phases.is_some())
        .unwrap_or_else(|| panic!("{strategy}: no parts in five trials"))
}

fn calls_of_one(
    cluster: &Cluster,
    stage: &mut Stage,
    strategy: Strategy,
) -> std::collections::BTreeMap<String, u64> {
    let name = stage.names.name(0);
    if let Some(sql) = strategy.session_setting(&stage.features) {
        stage.session.run(sql).expect(sql);
    }
    let backend = stage.session.value("SELECT pg_backend_pid()").expect("pid").parse().expect("a number");
    let sql = strategy.create(&stage.features, &name, "template0");
    let deed = || stage.session.run(&sql);
    let ((), calls) = counted(backend, cluster.run_directory(), &Quiet, deed).expect("strace");
    assert!(drop_ours(&mut stage.session, &name).expect("drop"));
    calls
}

#[test]
fn several_at_once_make_all_they_should_and_leave_nothing() {
    let bench = Bench::new("createdb");
    let cluster = bench.cluster(17, &[]);
    let mut stage = Stage::new(&cluster);
    for strategy in stage.strategies() {
        let measured = stage.trial(strategy, "template0", Work { creates: 2, jobs: 3 }).expect("trial");
        assert_eq!((measured.create_ns.len(), measured.drop_ns.len()), (6, 6));
        assert!(measured.elapsed_ns > 0 && measured.elapsed_ns <= measured.create_ns.iter().sum());
    }
    assert_eq!(stage.databases(), ["postgres", "template0", "template1"]);
    drop(stage);
    bench.close([cluster]);
}

#[test]
fn names_that_need_quotes_are_templates_like_others() {
    let bench = Bench::new("createdb");
    let cluster = bench.cluster(15, &["fsync=off"]);
    let mut stage = Stage::new(&cluster);
    let long = "ü".repeat(31);
    for name in ["a-b", "A B", "select", "x\"y", "42db", "-x", "new\nline", "it's", long.as_str()] {
        stage.session.run(&format!("CREATE DATABASE {} TEMPLATE template0", identifier(name))).expect(name);
        template::check(&mut stage.session, &stage.features, name).expect(name);
        stage.trial(Strategy::FileCopy, name, ONE).expect(name);
        let contents =
            template::contents(&mut stage.session, &stage.features, name).expect(name).expect("superuser");
        assert_eq!(contents.files, 298, "{name}");
    }
    let error = template::check(&mut stage.session, &stage.features, &"ü".repeat(32)).expect_err("64 bytes");
    assert!(matches!(error, ServerError::NameTooLong { .. }), "{error}");
    drop(stage);
    bench.close([cluster]);
}

#[test]
fn a_template_that_cannot_be_copied_has_its_own_hint() {
    let bench = Bench::new("createdb");
    let cluster = bench.cluster(15, &["fsync=off"]);
    let mut stage = Stage::new(&cluster);
    stage.session.run("CREATE DATABASE shop").expect("shop");
    let mut check = |template: &str| {
        let error = template::check(&mut stage.session, &stage.features, template).expect_err(template);
        format!("{error}\n{}", error.hint().unwrap_or_default())
    };
    assert_eq!(check("gone"), "template database \"gone\" does not exist\n");
    let mut admin = cluster.session("postgres").expect("session");
    admin.run("UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'shop'").expect("invalid");
    assert!(check("shop").ends_with("can only be dropped: DROP DATABASE \"shop\""));
    admin
        .run("UPDATE pg_database SET datconnlimit = -1, datcollversion = '0.1' WHERE datname = 'shop'")
        .expect("odd");
    assert!(check("shop").ends_with("ALTER DATABASE \"shop\" REFRESH COLLATION VERSION"));
    admin.run("UPDATE pg_database SET datcollversion = NULL WHERE datname = 'shop'").expect("mended");
    admin.run("CREATE ROLE clerk CREATEDB; CREATE ROLE guest").expect("roles");
    for (role, template, expected) in [
        (
            "clerk",
            "shop",
            "permission denied to copy database \"shop\"\nrun as its owner, or let all copy it: ALTER DATABASE \"shop\" IS_TEMPLATE true",
        ),
        ("guest", "template1", "permission denied to create database\nthe role needs CREATEDB"),
    ] {
        stage.session.run(&format!("SET ROLE {role}")).expect(role);
        let features = Features::read(&mut stage.session).expect("features");
        assert!(!features.superuser && !features.may_checkpoint);
        let error = template::check(&mut stage.session, &features, template).expect_err(role);
        assert_eq!(format!("{error}\n{}", error.hint().unwrap_or_default()), expected);
        assert_eq!(template::contents(&mut stage.session, &features, template).expect(role), None);
        stage.session.run("RESET ROLE").expect("role");
    }
    drop(stage);
    bench.close([cluster]);
}

#[test]
fn a_held_template_is_waited_for_and_its_holders_named_not_ended() {
    let bench = Bench::new("createdb");
    let cluster = bench.cluster(16, &["fsync=off"]);
    let mut stage = Stage::new(&cluster);
    stage.session.run("CREATE DATABASE shop").expect("shop");
    let mut holder = cluster.session("shop").expect("session");
    holder.run("SET application_name = 'monitor'").expect("name");
    let limit = Duration::from_millis(300);
    let error = template::wait_until_free(&mut stage.session, "shop", limit, &Quiet).expect_err("held");
    assert_eq!(error.to_string(), "source database \"shop\" is being accessed by other users after 0.3 s");
    let hint = error.hint().expect("hint").into_owned();
    assert!(
        hint.starts_with("monitor of \"postgres\" (process ") && hint.ends_with("nobody was disconnected"),
        "{hint}"
    );
    let error = stage.trial(Strategy::WalLog, "shop", ONE).expect_err("held");
    assert!(matches!(error, ServerError::TemplateHeld { .. }), "{error}");
    assert_eq!(holder.value("SELECT 1").expect("alive"), "1");
    drop(holder);
    template::wait_until_free(&mut stage.session, "shop", Duration::from_secs(5), &Quiet).expect("free");
    stage.trial(Strategy::WalLog, "shop", ONE).expect("free");
    drop(stage);
    bench.close([cluster]);
}

#[test]
fn only_databases_with_our_prefix_and_comment_are_dropped() {
    let bench = Bench::new("createdb");
    let cluster = bench.cluster(15, &["fsync=off"]);
    let mut stage = Stage::new(&cluster);
    let name = stage.names.name(1);
    let make = format!("CREATE DATABASE {}", identifier(&name));
    stage.session.run(&make).expect("made");
    stage.session.run(&format!("COMMENT ON DATABASE {} IS 'mine'", identifier(&name))).expect("comment");
    let error = drop_ours(&mut stage.session, &name).expect_err("somebody else's comment");
    assert_eq!(error.to_string(), format!("database \"{name}\" is not of this program: it is left alone"));
    assert_eq!(find(&mut stage.session, "template1").expect("find"), Found::Foreign);
    stage.names.mark(&mut stage.session, &name).expect("ours");
    assert!(drop_ours(&mut stage.session, &name).expect("dropped"));
    assert!(!drop_ours(&mut stage.session, &name).expect("gone"));
    drop(stage);
    bench.close([cluster]);
}

#[test]
fn a_made_template_has_its_tables_and_two_like_servers_show_no_difference_in_their_settings() {
    let bench = Bench::new("createdb");
    let clusters = [bench.cluster(18, &[]), bench.cluster(18, &[])];
    let facts: Vec<Facts> = clusters
        .iter()
        .zip(["one", "other"])
        .map(|(cluster, server)| {
            let mut stage = Stage::new(cluster);
            let name = stage.names.name(7);
            Recipe::Tables(30).make(&mut stage.session, &name, &Quiet).expect("made");
            let contents = template::contents(&mut stage.session, &stage.features, &name).expect("contents");
            // Each table has five files: itself, its visibility map, its key, its TOAST table and that one's index.
            let files = contents.expect("superuser").files;
            assert!((300 + 30 * 4..300 + 30 * 7).contains(&files), "{files} files");
            Facts::read(&mut stage.session, server, &stage.features, contents).expect("facts")
        })
        .collect();
    assert_eq!(
        fsynclab::server::createdb::fairness::differences(&facts[0], &facts[1], &[]),
        Vec::<String>::new()
    );
    assert_eq!(facts[0].in_words(), "assertions off, 8 kB blocks, checksums on");
    bench.close(clusters);
}

#[test]
fn clone_shares_blocks_on_xfs() {
    if !common::root_or_skip("clone_shares_blocks_on_xfs") {
        return;
    }
    let image = common::Image::new(common::FileSystem::Xfs, "600M", "");
    let bench = Bench::new("xfs");
    let binaries = bench.binaries(&postgres::directory(18).to_string_lossy());
    let cluster = Cluster::make(&image.path(), &binaries, &[], &bench.journal, &Quiet).expect("cluster");
    let mut stage = Stage::new(&cluster);
    for (strategy, shared) in [(Strategy::FileCopyClone, true), (Strategy::FileCopy, false)] {
        stage.trial(strategy, "template0", ONE).expect("trial");
        let name = stage.names.name(9);
        stage.session.run(&strategy.create(&stage.features, &name, "template0")).expect("created");
        let sql = format!("SELECT oid FROM pg_database WHERE datname = '{name}'");
        let oid = stage.session.value(&sql).expect("oid");
        let file = cluster.data_directory().join("base").join(oid).join("1255");
        let extents = common::run("filefrag", &["-v".as_ref(), file.as_os_str()]);
        assert_eq!(extents.contains("shared"), shared, "{strategy}: {extents}");
        assert!(drop_ours(&mut stage.session, &name).expect("dropped"));
    }
    drop(stage);
    bench.close([cluster]);
}
