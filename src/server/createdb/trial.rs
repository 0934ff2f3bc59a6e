//! One trial: databases created in a row, dropped in a row, and one created with the checkpoint that pays for it.

use std::sync::Barrier;
use std::thread;

use super::attribution;
use super::database::{Names, ScratchDatabase, drop_ours};
use super::dirt::Dirt;
use super::strategy::Strategy;
use super::template;
use crate::results::Phases;
use crate::server::connect::Session;
use crate::server::error::ServerError;
use crate::server::features::Features;
use crate::server::sql::identifier;
use crate::sys::clock::now_ns;
use crate::sys::journal::Journal;
use crate::sys::watch::Watch;

/// What is copied, and how.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// What the server can.
    pub features: &'a Features,
    /// The arm.
    pub strategy: Strategy,
    /// The template's name.
    pub template: &'a str,
    /// The run's names.
    pub names: &'a Names,
    /// On a server that is not ours every database is journalled.
    pub live: Option<&'a Live<'a>>,
    /// Says when to stop.
    pub watch: &'a dyn Watch,
}

/// Where databases on a server that is not ours are written down.
pub struct Live<'a> {
    /// The run's.
    pub journal: &'a Journal,
    /// How `clean` connects.
    pub conninfo: String,
    /// The server's.
    pub system_identifier: String,
}

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Databases in a row.
    pub creates: usize,
    /// Sessions that create at once; each makes that many.
    pub jobs: usize,
}

/// What a trial found; all times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Each CREATE DATABASE.
    pub create_ns: Vec<u64>,
    /// Each DROP DATABASE.
    pub drop_ns: Vec<u64>,
    /// From the first CREATE to the last one's end, divided by their number.
    pub elapsed_ns: u64,
    /// The same for DROP.
    pub drop_elapsed_ns: u64,
    /// CREATE DATABASE and CHECKPOINT together; absent without the right to CHECKPOINT.
    pub create_and_checkpoint_ns: Option<u64>,
    /// WAL written by one CREATE: the median, with several jobs the mean.
    pub wal_bytes: u64,
    /// Where the mean CREATE spent its time, where the backend can be seen and there is one job.
    pub phases: Option<Phases>,
}

/// Runs a trial. Whatever happens, what it made is dropped; what cannot be is in the journal of a live run.
pub fn run(
    session: &mut Session,
    subject: Subject<'_>,
    work: Work,
    dirt: Option<&mut Dirt>,
) -> Result<Measured, ServerError> {
    let names: Vec<String> = (0..=work.creates * work.jobs).map(|n| subject.names.name(n)).collect();
    let entries = subject.announce(&names)?;
    let measured = measure(session, subject, work, dirt, &names);
    let dropped = names.iter().try_for_each(|name| drop_ours(session, name).map(|_| ()));
    if dropped.is_ok() {
        subject.forget(&entries)?;
    }
    let measured = measured.map_err(|error| explained(session, subject.template, error))?;
    dropped?;
    Ok(measured)
}

/// An error about a held template, with who holds it.
fn explained(session: &mut Session, template: &str, error: ServerError) -> ServerError {
    if error.sql_state() != Some(&postgres::error::SqlState::OBJECT_IN_USE) {
        return error;
    }
    match template::holders(session, template) {
        Ok(holders) if !holders.is_empty() => {
            ServerError::TemplateHeld { name: template.to_owned(), holders, limit: std::time::Duration::ZERO }
        }
        _ => error,
    }
}

fn measure(
    session: &mut Session,
    subject: Subject<'_>,
    work: Work,
    mut dirt: Option<&mut Dirt>,
    names: &[String],
) -> Result<Measured, ServerError> {
    let (last, row) = names.split_last().ok_or(ServerError::MayNotCreate)?;
    subject.prepare(session)?;
    let mut measured = if work.jobs == 1 {
        in_a_row(session, subject, dirt.as_deref_mut(), row)?
    } else {
        at_once(session, subject, work, row)?
    };
    if subject.features.may_checkpoint {
        subject.go_on()?;
        if let Some(dirt) = dirt {
            dirt.spread()?;
        }
        let began_ns = now_ns();
        session.run(&subject.create(last))?;
        session.run("CHECKPOINT")?;
        measured.create_and_checkpoint_ns = Some(now_ns() - began_ns);
    }
    Ok(measured)
}

/// One after the other by one session.
fn in_a_row(
    session: &mut Session,
    subject: Subject<'_>,
    mut dirt: Option<&mut Dirt>,
    names: &[String],
) -> Result<Measured, ServerError> {
    let backend: i32 = session.value("SELECT pg_backend_pid()")?.parse().unwrap_or(0);
    let visible =
        subject.strategy != Strategy::WalLog && session.is_local() && attribution::is_visible(backend);
    let position = format!("SELECT {}", subject.features.wal_position());
    let (mut measured, mut parts, mut wal) = (Measured::default(), Vec::new(), Vec::new());
    for name in names {
        subject.go_on()?;
        if let Some(dirt) = dirt.as_deref_mut() {
            dirt.spread()?;
        }
        let before = session.value(&position)?;
        let sql = subject.create(name);
        let mut create = || timed(|| session.run(&sql));
        let (elapsed_ns, phases) = if visible {
            let (elapsed_ns, phases) = attribution::watched(backend, create);
            (elapsed_ns?, phases)
        } else {
            (create()?, None)
        };
        measured.create_ns.push(elapsed_ns);
        parts.push(phases);
        let distance = format!(
            "SELECT {}({}, '{before}')",
            subject.features.wal_distance(),
            subject.features.wal_position()
        );
        wal.push(session.value(&distance)?.parse().unwrap_or(0));
        subject.names.mark(session, name)?;
    }
    for name in names {
        let sql = format!("DROP DATABASE {}", identifier(name));
        measured.drop_ns.push(timed(|| session.run(&sql))?);
    }
    wal.sort_unstable();
    measured.wal_bytes = wal.get(wal.len() / 2).copied().unwrap_or(0);
    measured.elapsed_ns = mean(&measured.create_ns);
    measured.drop_elapsed_ns = mean(&measured.drop_ns);
    measured.phases = attribution::mean(&parts, measured.elapsed_ns);
    Ok(measured)
}

/// Several sessions, each its share, all beginning together.
fn at_once(
    session: &mut Session,
    subject: Subject<'_>,
    work: Work,
    names: &[String],
) -> Result<Measured, ServerError> {
    let mut sessions = Vec::new();
    for _ in 0..work.jobs {
        let mut worker = session.another(&session.database)?;
        subject.prepare(&mut worker)?;
        sessions.push(worker);
    }
    let position = format!("SELECT {}", subject.features.wal_position());
    let before = session.value(&position)?;
    let create = |worker: &mut Session, name: &str| worker.run(&subject.create(name));
    let (create_ns, elapsed_ns) = share(&mut sessions, names, &create, subject.watch)?;
    let distance = format!(
        "SELECT {}({}, '{before}')",
        subject.features.wal_distance(),
        subject.features.wal_position()
    );
    let wal_bytes: u64 = session.value(&distance)?.parse().unwrap_or(0);
    for name in names {
        subject.names.mark(session, name)?;
    }
    let drop = |worker: &mut Session, name: &str| worker.run(&format!("DROP DATABASE {}", identifier(name)));
    let (drop_ns, drop_elapsed_ns) = share(&mut sessions, names, &drop, subject.watch)?;
    let count = names.len().max(1) as u64;
    Ok(Measured {
        create_ns,
        drop_ns,
        elapsed_ns: elapsed_ns / count,
        drop_elapsed_ns: drop_elapsed_ns / count,
        wal_bytes: wal_bytes / count,
        ..Measured::default()
    })
}

/// Each session does its share; each deed's time, and the time from the common start to the last one's end.
fn share(
    sessions: &mut [Session],
    names: &[String],
    deed: &(dyn Fn(&mut Session, &str) -> Result<(), ServerError> + Sync),
    watch: &dyn Watch,
) -> Result<(Vec<u64>, u64), ServerError> {
    let start = Barrier::new(sessions.len() + 1);
    let each = names.len() / sessions.len().max(1);
    thread::scope(|scope| {
        let workers: Vec<_> = sessions
            .iter_mut()
            .zip(names.chunks(each.max(1)))
            .map(|(session, names)| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    let mut times = Vec::new();
                    for name in names {
                        if let Some(stop) = watch.stop() {
                            return Err(ServerError::Stopped(stop));
                        }
                        times.push(timed(|| deed(session, name))?);
                    }
                    Ok(times)
                })
            })
            .collect();
        start.wait();
        let began_ns = now_ns();
        let joined: Vec<Result<Vec<u64>, ServerError>> =
            workers.into_iter().map(|worker| worker.join().unwrap_or(Err(ServerError::WorkerDied))).collect();
        let elapsed_ns = now_ns() - began_ns;
        let times = joined.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok((times.into_iter().flatten().collect(), elapsed_ns))
    })
}

fn timed(deed: impl FnOnce() -> Result<(), ServerError>) -> Result<u64, ServerError> {
    let began_ns = now_ns();
    deed()?;
    Ok(now_ns() - began_ns)
}

fn mean(values: &[u64]) -> u64 {
    values.iter().sum::<u64>() / values.len().max(1) as u64
}

impl Subject<'_> {
    /// The statement that creates a database.
    pub fn create(&self, name: &str) -> String {
        self.strategy.create(self.features, name, self.template)
    }

    /// What a session needs before.
    pub fn prepare(&self, session: &mut Session) -> Result<(), ServerError> {
        self.strategy.session_setting(self.features).map_or(Ok(()), |sql| session.run(sql))
    }

    fn go_on(&self) -> Result<(), ServerError> {
        self.watch.stop().map_or(Ok(()), |stop| Err(ServerError::Stopped(stop)))
    }

    /// Journals what will be made on a server that is not ours.
    pub fn announce(&self, names: &[String]) -> Result<Vec<u64>, ServerError> {
        let Some(live) = self.live else { return Ok(Vec::new()) };
        let entry = |name: &String| {
            let (conninfo, system_identifier) = (live.conninfo.clone(), live.system_identifier.clone());
            live.journal.push(&ScratchDatabase { conninfo, system_identifier, name: name.clone() })
        };
        Ok(names.iter().map(entry).collect::<Result<_, _>>()?)
    }

    /// All of it is gone.
    pub fn forget(&self, entries: &[u64]) -> Result<(), ServerError> {
        let Some(live) = self.live else { return Ok(()) };
        Ok(entries.iter().try_for_each(|n| live.journal.done(*n))?)
    }
}
