//! CREATE DATABASE … STRATEGY file_copy of a real server and the replay of its copy by a policy, in turn at one place and
//! from one template. Read by `benches/createdb.rs` and, with few rounds, by `tests/createdb_replay.rs`.

use std::path::Path;

use fsynclab::lab::servers::ServersError;
use fsynclab::place::{Place, at_full_speed};
use fsynclab::replay::engine::Engine;
use fsynclab::replay::means::Means;
use fsynclab::replay::policy::Policy;
use fsynclab::results::Phases;
use fsynclab::server::cluster::{Binaries, Cluster, user_at};
use fsynclab::server::connect::Session;
use fsynclab::server::createdb::attribution::watched;
use fsynclab::sys::journal::Journal;
use fsynclab::sys::real::Real;
use fsynclab::sys::watch::Quiet;

/// What both took in one round, in milliseconds.
#[expect(clippy::struct_field_names, reason = "a unit stands in its name")]
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The whole CREATE DATABASE.
    pub create_ms: f64,
    /// Its two checkpoints.
    pub checkpoints_ms: f64,
    /// What lies between them.
    pub copy_ms: f64,
    /// The policy's copy.
    pub replay_ms: f64,
}

/// The middle one of a figure.
pub fn median(turns: &[Turn], figure: impl Fn(&Turn) -> f64) -> f64 {
    let mut all: Vec<f64> = turns.iter().map(figure).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Makes a cluster of PostgreSQL 15 at a place, takes turns, removes it. A round before the first is not counted, nor is one
/// whose checkpoints were too short to be seen.
pub fn turns(place: &Place, bin: &Path, rounds: usize, journal: &Journal) -> Vec<Turn> {
    let user = user_at(place.directory()).expect("a user");
    let binaries = Binaries::find(&bin.to_string_lossy(), user.as_ref(), &Quiet).expect("PostgreSQL 15");
    let cluster = at_full_speed(std::slice::from_ref(place), || {
        Ok::<_, ServersError>(Cluster::make(place.directory(), &binaries, &[], journal, &Quiet)?)
    });
    let cluster = cluster.expect("a cluster");
    let mut session = cluster.session("postgres").expect("a session");
    let template = "SELECT oid FROM pg_database WHERE datname = 'template0'";
    let template = session.value(template).expect("template0");
    let source = cluster.data_directory().join("base").join(template);
    // A name that the run directory knows for its own.
    let target = cluster.run_directory().join("standby-replay");
    let mut turns = Vec::new();
    for round in 0..=rounds {
        let replay_first = round % 2 == 0;
        let before = replay_first.then(|| replayed(place, &source, &target));
        let created = created(place, &mut session);
        let replay_ms = before.unwrap_or_else(|| replayed(place, &source, &target));
        if let Some(phases) = created.filter(|_| round > 0) {
            let ms = |name: &str| phases[name] as f64 / 1e6;
            turns.push(Turn {
                create_ms: phases.values().sum::<u64>() as f64 / 1e6,
                checkpoints_ms: ms("checkpoint_before_ns") + ms("checkpoint_after_ns"),
                copy_ms: ms("copy_ns"),
                replay_ms,
            });
        }
    }
    drop(session);
    cluster.close(journal).expect("nothing is left of it");
    assert!(turns.len() * 2 > rounds, "of {rounds} rounds {} were seen", turns.len());
    turns
}

/// The parts of a CREATE DATABASE, where its checkpoints were seen.
fn created(place: &Place, session: &mut Session) -> Option<Phases> {
    session.run("CHECKPOINT").expect("a checkpoint");
    place.sync_file_system().expect("a sync");
    let backend = session.value("SELECT pg_backend_pid()").expect("a backend").parse().expect("a number");
    let create = "CREATE DATABASE turn TEMPLATE template0 STRATEGY file_copy";
    let (created, phases) = watched(backend, || session.run(create));
    created.expect("a database");
    session.run("DROP DATABASE turn").expect("no database");
    phases
}

fn replayed(place: &Place, source: &Path, target: &Path) -> f64 {
    place.sync_file_system().expect("a sync");
    let policy: Policy = "pg-15".parse().expect("a policy");
    let mut engine = Engine::new(&Real, &policy, Means::default()).expect("an engine");
    let copied = engine.replay(source, target, &Quiet, &()).expect("a copy");
    std::fs::remove_dir_all(target).expect("it can be removed");
    copied.elapsed_ns as f64 / 1e6
}
