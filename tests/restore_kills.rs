//! A restore ended in each of its phases: by Ctrl-C it leaves nothing, by SIGKILL nothing after `clean --yes`, and the
//! source is untouched.

mod common;
#[path = "common/postgres.rs"]
mod postgres;
#[path = "common/runs.rs"]
#[expect(dead_code, reason = "a part of it is used here")]
mod runs;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fsynclab::server::cluster::Cluster;
use fsynclab::server::connect::{Session, connect_to};
use fsynclab::server::conninfo::{Address, Host};
use postgres::{Bench, directory};
use runs::{finished, nothing_left, place};

/// How statements of each phase begin. The checkpoint before a trial is told from the last by the database that is there.
const PHASES: [(&str, &str); 6] = [
    ("create", "CREATE DATABASE"),
    ("restore", "COPY"),
    ("indexes", "CREATE INDEX"),
    ("analyze", "ANALYZE"),
    ("checkpoint", "CHECKPOINT"),
    ("drop", "DROP DATABASE"),
];

/// Large enough for each phase to last.
fn source(bench: &Bench) -> Cluster {
    let cluster = bench.cluster(15, &["fsync=off"]);
    cluster.session("postgres").expect("session").run("CREATE DATABASE shop").expect("shop");
    let mut shop = cluster.session("shop").expect("session");
    shop.run("CREATE TABLE t AS SELECT i, md5(i::text) s FROM generate_series(1, 400000) i").expect("t");
    shop.run("CREATE INDEX t_s ON t (s); CREATE INDEX t_i ON t (i)").expect("indexes");
    cluster
}

fn contents(cluster: &Cluster) -> Vec<Vec<String>> {
    let mut shop = cluster.session("shop").expect("session");
    let sql = "SELECT (SELECT md5(string_agg(t::text, ',' ORDER BY i)) FROM t), \
               (SELECT string_agg(datname || oid, ',' ORDER BY oid) FROM pg_database), \
               (SELECT string_agg(relname || relfilenode, ',' ORDER BY oid) FROM pg_class)";
    shop.rows(sql).expect("contents")
}

/// A session on the cluster that a run has made here.
fn reached(cluster: &Cluster, place: &Path) -> Option<Session> {
    let runs = std::fs::read_dir(place).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let socket: PathBuf =
        runs.map(|run| run.join("socket")).find(|socket| socket.join(".s.PGSQL.5432").exists())?;
    let mut target = cluster.target().expect("a target");
    target.hosts = vec![Host { address: Address::Socket(socket), port: 5432, password: None }];
    connect_to(&target, "postgres").ok()
}

/// What the server of a run is at, for which it was told by that run.
fn at_work(session: &mut Session) -> Vec<String> {
    let sql = "SELECT query FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid() \
               AND backend_type = 'client backend' AND query NOT LIKE 'SELECT%' AND (query <> 'CHECKPOINT' \
               OR EXISTS (SELECT FROM pg_database WHERE datname LIKE 'fsynclab%'))";
    session.rows(sql).map_or_else(|_| Vec::new(), |rows| rows.into_iter().flatten().collect())
}

/// Signals a run once its server executes such a statement; what the server was at right after that.
fn signalled_in(
    run: &mut Child,
    signal: &str,
    statement: &str,
    cluster: &Cluster,
    place: &Path,
) -> Option<String> {
    let end = Instant::now() + Duration::from_mins(1);
    let mut session = None;
    while Instant::now() < end && run.try_wait().expect("its state").is_none() {
        let Some(session) = session.as_mut() else {
            session = reached(cluster, place);
            sleep(Duration::from_millis(5));
            continue;
        };
        if at_work(session).iter().any(|query| query.starts_with(statement)) {
            common::run("kill", &[signal, &run.id().to_string()]);
            return Some(at_work(session).join("; "));
        }
    }
    None
}

#[test]
fn ended_in_each_phase_it_leaves_nothing_and_the_source_is_untouched() {
    if !common::root_or_skip("ended_in_each_phase_it_leaves_nothing_and_the_source_is_untouched") {
        return;
    }
    let bench = Bench::new("restore-kills");
    let cluster = source(&bench);
    let before = contents(&cluster);
    let place = place("1500M");
    let from = format!("host={}/socket user=postgres dbname=shop", cluster.run_directory().display());
    for (phase, statement) in PHASES {
        for (signal, status) in [("-KILL", None), ("-INT", Some(130))] {
            let mut command: Command = common::fsynclab(bench.state.path());
            command.args(["restore", "--rounds", "1", "--from", &from, "--bin"]).arg(directory(15));
            command.arg("--scratch").arg(place.path()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut run = command.spawn().expect("a run");
            let at = signalled_in(&mut run, signal, statement, &cluster, &place.path());
            let at = at.unwrap_or_else(|| panic!("no {statement} was seen"));
            println!("{phase}: {signal} in {statement}; the server was at: {at:.60}");
            let ended = run.wait().expect("its end");
            // Who is told to stop when all is measured has nothing left to stop.
            let status = status.map(|status| if phase == "drop" { 0 } else { status });
            assert_eq!(ended.code(), status, "{phase}");
            if signal == "-KILL" {
                let output = finished(common::fsynclab(bench.state.path()).args(["clean", "--yes"]));
                assert!(output.status.success(), "{phase}: {}", common::text(&output));
            }
            nothing_left(&place.path(), phase);
            assert_eq!(contents(&cluster), before, "{phase}");
        }
    }
    bench.close([cluster]);
}
