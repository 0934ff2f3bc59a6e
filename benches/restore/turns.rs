//! A restore, from CREATE DATABASE to the last CHECKPOINT, by this program and by a shell's `pg_dump | psql`, in turn.
//! Read by `benches/restore.rs` and, tiny, by `tests/restore_overhead.rs`.

use std::fmt;
use std::path::Path;
use std::process::Command;

use fsynclab::lab::servers::ServersError;
use fsynclab::place::{Place, at_full_speed};
use fsynclab::server::clients::Clients;
use fsynclab::server::cluster::{Binaries, Cluster, user_at};
use fsynclab::server::restore::{Dump, Load, Programs};
use fsynclab::server::settings::Setting;
use fsynclab::stats::{Better, Paired, Verdict, judge, paired};
use fsynclab::sys::clock::now_ns;
use fsynclab::sys::journal::Journal;
use fsynclab::sys::watch::Quiet;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// Both in each round, and what this program's own processor time was.
#[derive(Default)]
pub struct Turns {
    shell_ns: Vec<f64>,
    ours_ns: Vec<f64>,
    own_cpu_ns: Vec<f64>,
    bytes: u64,
}

impl Turns {
    fn paired(&self) -> Paired {
        paired(&self.shell_ns, &self.ours_ns, Better::Lower).expect("rounds")
    }

    /// On ours against the shell's.
    pub fn verdict(&self) -> Verdict {
        judge(&self.paired(), None)
    }

    /// The part of the restores' time that this program computed.
    pub fn own_cpu(&self) -> f64 {
        self.own_cpu_ns.iter().sum::<f64>() / self.ours_ns.iter().sum::<f64>()
    }
}

impl fmt::Display for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ns: &[f64]| ns.iter().map(|ns| format!(" {:.2}", ns / 1e9)).collect::<String>();
        let found = self.paired();
        writeln!(f, "{} MB of text, {} rounds, s", self.bytes >> 20, self.ours_ns.len())?;
        writeln!(f, "sh -c 'pg_dump | psql':{}", seconds(&self.shell_ns))?;
        writeln!(f, "through this program:  {}", seconds(&self.ours_ns))?;
        let [low, high] = found.ratio_ci95.unwrap_or([f64::NAN; 2]);
        writeln!(f, "shell / ours: {:.3} ({low:.3} to {high:.3}): {}", found.ratio, self.verdict())?;
        let cpu = 100.0 * self.own_cpu();
        write!(
            f,
            "its own processor time: {cpu:.2} % of the time of the restore,{} s",
            seconds(&self.own_cpu_ns)
        )
    }
}

/// Fills a database of pgbench's tables at a place and restores it so often both ways.
pub fn turns(place: &Place, bin: &Path, scale: u32, rounds: usize, journal: &Journal) -> Turns {
    let cluster = at_full_speed(std::slice::from_ref(place), || {
        Ok::<_, ServersError>(filled(place, bin, scale, journal))
    });
    let cluster = cluster.expect("a cluster");
    let dump = Dump::Database(Box::new(cluster.session("shop").expect("session")));
    let programs = dump.programs(&Clients::beside(bin), 15, &Quiet).expect("programs");
    let mut turns = Turns::default();
    for round in 0..rounds {
        let shell_first = round % 2 == 0;
        if shell_first {
            turns.shell_ns.push(by_shell(&cluster, bin));
        }
        turns.by_us(&cluster, &dump, &programs);
        if !shell_first {
            turns.shell_ns.push(by_shell(&cluster, bin));
        }
    }
    drop(dump);
    cluster.close(journal).expect("nothing is left of it");
    turns
}

fn filled(place: &Place, bin: &Path, scale: u32, journal: &Journal) -> Cluster {
    let user = user_at(place.directory()).expect("a user");
    let binaries = Binaries::find(&bin.to_string_lossy(), user.as_ref(), &Quiet).expect("PostgreSQL 15");
    let settings =
        ["checkpoint_timeout=1h", "max_wal_size=4GB"].map(|text| Setting::parse(text).expect(text));
    let cluster = Cluster::make(place.directory(), &binaries, &settings, journal, &Quiet).expect("a cluster");
    cluster.session("postgres").expect("session").run("CREATE DATABASE shop").expect("shop");
    let mut pgbench = Command::new(bin.join("pgbench"));
    done(reaching(&mut pgbench, &cluster).args(["-q", "-i", "-s", &scale.to_string(), "shop"]));
    cluster
}

impl Turns {
    fn by_us(&mut self, cluster: &Cluster, dump: &Dump, programs: &Programs) {
        let load = Load { dump, contents: None, programs, jobs: 1, total_bytes: 0 };
        let mut session = cluster.session("postgres").expect("session");
        let own_ns = own_cpu_ns();
        let mut loaded = None;
        self.ours_ns.push(restored(cluster, || {
            loaded = Some(load.run(&mut session, "copy", &Quiet).expect("loaded"));
        }));
        self.own_cpu_ns.push(own_cpu_ns() - own_ns);
        let loaded = loaded.expect("loaded");
        self.bytes = loaded.contents.bytes;
    }
}

fn by_shell(cluster: &Cluster, bin: &Path) -> f64 {
    let pipe = format!(
        "{0}/pg_dump --no-owner --no-privileges shop | {0}/psql -X -q -v ON_ERROR_STOP=1 -o /dev/null -f - copy",
        bin.display()
    );
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &pipe]);
    restored(cluster, || {
        done(reaching(&mut shell, cluster));
    })
}

/// How long a whole restore takes, in nanoseconds, from CREATE DATABASE to the checkpoint that pays for all of it.
fn restored(cluster: &Cluster, load: impl FnOnce()) -> f64 {
    let mut session = cluster.session("postgres").expect("session");
    let mut run = |sql: &str| session.run(sql).expect(sql);
    run("DROP DATABASE IF EXISTS copy");
    run("CHECKPOINT");
    let began_ns = now_ns();
    run("CREATE DATABASE copy TEMPLATE template0");
    load();
    cluster.session("copy").expect("session").run("ANALYZE").expect("ANALYZE");
    run("CHECKPOINT");
    (now_ns() - began_ns) as f64
}

fn reaching<'a>(command: &'a mut Command, cluster: &Cluster) -> &'a mut Command {
    command.env("PGHOST", cluster.run_directory().join("socket")).env("PGUSER", "postgres")
}

fn done(command: &mut Command) {
    let output = command.output().expect("a program");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Of all threads of this process, its children apart.
fn own_cpu_ns() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("getrusage");
    (usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 * 1e3
}
