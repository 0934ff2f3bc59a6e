//! Restores on real servers: the syncs of the backend as they were traced by hand, every form of a dump, and what a dump
//! may not do.

mod common;
#[path = "common/postgres.rs"]
mod postgres;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fsynclab::server::clients::Clients;
use fsynclab::server::cluster::Cluster;
use fsynclab::server::dump::Contents;
use fsynclab::server::restore::{Dump, Load, Loaded, RestoreError, check_rows};
use fsynclab::server::settings::Setting;
use fsynclab::server::settings::change::apply;
use fsynclab::sys::watch::Quiet;
use postgres::{Bench, directory};

fn client(major: u32, name: &str, cluster: &Cluster) -> Command {
    let mut command = Command::new(directory(major).join(name));
    command.arg("-h").arg(cluster.run_directory().join("socket")).args(["-U", "postgres"]);
    command
}

fn done(command: &mut Command) {
    let output = command.output().expect("a client");
    assert!(output.status.success(), "{command:?}: {}", common::text(&output));
}

/// Thirty small tables with a sequence, a primary key, a unique one and text, beside those of pgbench.
fn fill(major: u32, cluster: &Cluster, scale: &str) {
    let mut session = cluster.session("postgres").expect("session");
    session.run("CREATE DATABASE shop").expect("shop");
    let mut inside = cluster.session("shop").expect("session");
    for n in 0..30 {
        let sql = format!(
            "CREATE TABLE small{n} (id serial PRIMARY KEY, u int UNIQUE, t text); \
             INSERT INTO small{n} (u, t) SELECT i, 'row ' || i FROM generate_series(1, 50) i"
        );
        inside.run(&sql).expect("small tables");
    }
    done(client(major, "pgbench", cluster).args(["-q", "-i", "-s", scale, "shop"]));
}

fn dumped(major: u32, cluster: &Cluster, to: &Path, arguments: &[&str]) -> Dump {
    done(client(major, "pg_dump", cluster).args(arguments).arg("-f").arg(to).arg("shop"));
    Dump::at(to).expect("a dump")
}

fn load(
    major: u32,
    cluster: &Cluster,
    dump: &Dump,
    database: &str,
    jobs: usize,
) -> Result<(Loaded, Option<Contents>), RestoreError> {
    let clients = Clients::beside(&directory(major));
    let contents = dump.survey(&clients, &Quiet)?;
    let programs = dump.programs(&clients, major, &Quiet)?;
    let mut session = cluster.session("postgres")?;
    session.run(&format!("CREATE DATABASE {database} TEMPLATE template0"))?;
    let load = Load { dump, contents: contents.as_ref(), programs: &programs, jobs, total_bytes: 0 };
    let loaded = load.run(&mut session, database, &Quiet)?;
    Ok((loaded, contents))
}

/// The calls of every process of a cluster while something is done, a file a process.
fn traced(cluster: &Cluster, deed: impl FnOnce()) -> Vec<String> {
    let pidfile =
        fs::read_to_string(cluster.data_directory().join("postmaster.pid")).expect("postmaster.pid");
    let postmaster = pidfile.lines().next().expect("a pid").to_owned();
    let directory = common::scratch("strace");
    let mut strace = Command::new("strace")
        .args(["-qq", "-ff", "-y", "-e", "trace=fsync,fdatasync,pwrite64", "-p", &postmaster, "-o"])
        .arg(directory.path().join("calls"))
        .spawn()
        .expect("strace");
    let began = Instant::now();
    let is_traced = || {
        let status = fs::read_to_string(format!("/proc/{postmaster}/status")).expect("status");
        !status.contains("TracerPid:\t0")
    };
    while !is_traced() {
        assert!(began.elapsed() < Duration::from_secs(20), "strace did not attach");
        sleep(Duration::from_millis(10));
    }
    deed();
    common::run("kill", &["-INT", &strace.id().to_string()]);
    strace.wait().expect("strace");
    let files = fs::read_dir(directory.path()).expect("calls");
    files.map(|file| fs::read_to_string(file.expect("a file").path()).expect("calls")).collect()
}

/// How a backend makes its WAL durable under each method: the call, on a segment.
const METHODS: [(&str, &str); 4] = [
    ("fdatasync", "fdatasync("),
    ("fsync", "fsync("),
    ("open_datasync", "pwrite64("),
    ("open_sync", "pwrite64("),
];

#[test]
fn under_every_method_the_backend_syncs_as_often_as_was_traced() {
    if !common::root_or_skip("under_every_method_the_backend_syncs_as_often_as_was_traced") {
        return;
    }
    // Of relations: one an index up to 16, TOAST's included; none from 17 on.
    for (major, relations) in [(15, 93), (18, 0)] {
        let bench = Bench::new("restore");
        let cluster = bench.cluster(major, &["checkpoint_timeout=1h", "max_wal_size=4GB"]);
        fill(major, &cluster, "10");
        let file = bench.state.path().join("shop.sql");
        let dump = dumped(major, &cluster, &file, &[]);
        for (method, call) in METHODS {
            let setting = Setting::parse(&format!("wal_sync_method={method}")).expect("a setting");
            apply(&cluster, &[setting], &Quiet).expect(method);
            let mut found = None;
            let calls =
                traced(&cluster, || found = Some(load(major, &cluster, &dump, "copy", 1).expect("load")));
            let (loaded, contents) = found.expect("loaded");
            let count = |text: &str, what: &str, on: &str| {
                text.lines().filter(|line| line.starts_with(what) && line.contains(on)).count()
            };
            let commits_of = |calls: &str| count(calls, call, "/pg_wal/0");
            let backend = calls.iter().max_by_key(|calls| commits_of(calls)).expect("a backend");
            let (of_relations, commits) = (count(backend, "fsync(", "/base/"), commits_of(backend));
            println!("{major} {method}: {of_relations} fsyncs of relations, {commits} syncs of the WAL");
            assert_eq!(of_relations, relations, "{major} {method}");
            // What the load writes beyond its commits fills segments and buffers, which are synced or written too.
            assert!(commits >= 312, "{major} {method}: {commits} commits");
            if method == "fdatasync" {
                assert!(commits <= 345, "{major}: {commits} commits");
            }
            assert_eq!(loaded.contents.tables.len(), 34, "{major}: {:?}", loaded.contents.tables);
            assert_eq!(Some(&loaded.contents), contents.as_ref());
            assert_eq!(loaded.contents.rows(), 30 * 50 + 1_000_000 + 100 + 10);
            let mut inside = cluster.session("copy").expect("session");
            check_rows(&mut inside, &loaded.contents).expect("all rows");
            inside.run("DELETE FROM small7 WHERE u = 1").expect("one less");
            let error = check_rows(&mut inside, &loaded.contents).expect_err("one less");
            assert_eq!(error.to_string(), "table public.small7 holds 49 rows, the dump 50");
            drop(inside);
            cluster.session("postgres").expect("session").run("DROP DATABASE copy").expect("dropped");
        }
        fs::remove_file(file).expect("the dump");
        bench.close([cluster]);
    }
}

#[test]
fn every_form_of_a_dump_is_loaded_and_known_before() {
    let bench = Bench::new("restore");
    let cluster = bench.cluster(15, &["fsync=off"]);
    fill(15, &cluster, "2");
    let files = common::scratch("dumps");
    let path = |name: &str| -> PathBuf { files.path().join(name) };
    let plain = dumped(15, &cluster, &path("plain"), &[]);
    common::run("gzip", &["-k".into(), path("plain")]);
    let forms = [
        (plain, "plain", 1),
        (Dump::at(&path("plain.gz")).expect("packed"), "plain, gzip", 1),
        (dumped(15, &cluster, &path("custom"), &["-Fc"]), "custom", 4),
        (dumped(15, &cluster, &path("tar"), &["-Ft"]), "tar", 1),
        (dumped(15, &cluster, &path("directory"), &["-Fd", "-j2"]), "directory", 4),
    ];
    for (number, (dump, form, jobs)) in forms.iter().enumerate() {
        assert_eq!(dump.form(), *form);
        let database = format!("copy{number}");
        let (loaded, _) = load(15, &cluster, dump, &database, *jobs).expect(form);
        assert_eq!((loaded.contents.tables.len(), loaded.contents.rows()), (34, 201_522), "{form}");
        assert_eq!(loaded.errors_ignored, 0, "{form}");
        check_rows(&mut cluster.session(&database).expect("session"), &loaded.contents).expect(form);
        let load_ns = 1_000_000;
        assert!(loaded.seen.phases(load_ns).values().sum::<u64>() <= load_ns, "{form}");
    }
    let error = load(15, &cluster, &forms[0].0, "copy9", 2).expect_err("one stream");
    assert!(matches!(error, RestoreError::NotParallel), "{error}");
    bench.close([cluster]);
}

#[test]
fn a_dump_that_would_drop_the_original_leaves_it_alone() {
    let bench = Bench::new("restore");
    let cluster = bench.cluster(15, &["fsync=off"]);
    let mut session = cluster.session("postgres").expect("session");
    session.run("CREATE DATABASE shop").expect("shop");
    let mut inside = cluster.session("shop").expect("session");
    inside.run("CREATE TABLE t AS SELECT 1 AS a").expect("t");
    drop(inside);
    let oid = "SELECT oid FROM pg_database WHERE datname = 'shop'";
    let before = session.value(oid).expect("oid");
    let files = common::scratch("dumps");
    let dump = dumped(15, &cluster, &files.path().join("shop.sql"), &["-C", "-c"]);
    let error = load(15, &cluster, &dump, "copy", 1).expect_err("dangerous");
    let said = error.to_string();
    assert!(said.ends_with("DROP DATABASE reaches beyond the database that is loaded"), "{said}");
    // Also where it was not looked through before.
    session.run("CREATE DATABASE copy").expect("copy");
    let clients = Clients::beside(&directory(15));
    let programs = dump.programs(&clients, 15, &Quiet).expect("psql");
    let load = Load { dump: &dump, contents: None, programs: &programs, jobs: 1, total_bytes: 0 };
    let error = load.run(&mut session, "copy", &Quiet).expect_err("dangerous");
    assert!(matches!(error, RestoreError::Danger { .. }), "{error}");
    assert_eq!(session.value(oid).expect("oid"), before);
    assert_eq!(cluster.session("shop").expect("session").value("SELECT a FROM t").expect("t"), "1");
    drop(session);
    bench.close([cluster]);
}

#[test]
fn errors_that_pg_restore_goes_over_are_counted() {
    let bench = Bench::new("restore");
    let cluster = bench.cluster(15, &["fsync=off", "allow_in_place_tablespaces=on"]);
    let mut session = cluster.session("postgres").expect("session");
    session.run("CREATE DATABASE shop").expect("shop");
    session.run("CREATE TABLESPACE fast LOCATION ''").expect("a tablespace");
    let mut inside = cluster.session("shop").expect("session");
    inside.run("CREATE TABLE t (a int) TABLESPACE fast; INSERT INTO t VALUES (1)").expect("t");
    let files = common::scratch("dumps");
    let dump = dumped(15, &cluster, &files.path().join("custom"), &["-Fc"]);
    inside.run("DROP TABLE t").expect("t");
    session.run("DROP TABLESPACE fast").expect("a tablespace");
    let (loaded, _) = load(15, &cluster, &dump, "copy", 1).expect("usable");
    assert_eq!(loaded.errors_ignored, 1);
    check_rows(&mut cluster.session("copy").expect("session"), &loaded.contents).expect("in the default one");
    drop((session, inside));
    bench.close([cluster]);
}

#[test]
fn a_client_older_than_the_server_is_refused() {
    let bench = Bench::new("restore");
    let cluster = bench.cluster(18, &["fsync=off"]);
    let dump = Dump::Database(Box::new(cluster.session("postgres").expect("session")));
    let clients = Clients::beside(&directory(15));
    let error = dump.programs(&clients, 18, &Quiet).expect_err("older");
    assert_eq!(error.to_string(), "pg_dump is of version 15, older than the server (18)");
    drop(dump);
    bench.close([cluster]);
}
