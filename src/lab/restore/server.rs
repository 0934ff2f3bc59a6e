//! A server as a run of restores uses it: made for the run, or somebody's.

use super::{RestoreRun, Source};
use crate::results::{self, Labels, Note, NoteCode};
use crate::server::cluster::Cluster;
use crate::server::connect::{Session, connect};
use crate::server::conninfo::Target;
use crate::server::createdb::database::{Names, ScratchDatabase, drop_ours, system_identifier};
use crate::server::createdb::fairness::Facts;
use crate::server::dump::Contents;
use crate::server::error::ServerError;
use crate::server::features::Features;
use crate::server::restore::{Programs, RestoreError, end_sessions};
use crate::server::settings::change::{ChangedSetting, apply, apply_live};
use crate::server::settings::{self, Setting};
use crate::server::sql::{identifier, literal};
use crate::sys::journal::Journal;
use crate::sys::watch::Watch;

/// What a restore's time depends on most; recorded with every result.
const TELLING: [&str; 9] = [
    "shared_buffers",
    "maintenance_work_mem",
    "max_wal_size",
    "checkpoint_timeout",
    "wal_level",
    "wal_sync_method",
    "synchronous_commit",
    "full_page_writes",
    "fsync",
];

/// A server, ready.
pub(super) struct Server<'a> {
    /// The label.
    pub(super) name: String,
    /// Index of a scratch cluster's place.
    pub(super) place: Option<usize>,
    pub(super) session: Session,
    pub(super) names: Names,
    pub(super) programs: Programs,
    pub(super) features: Features,
    cluster: Option<Cluster>,
    in_force: Vec<Setting>,
    changed: Vec<(u64, ChangedSetting)>,
    /// The journal's number of the database on a server that is not ours.
    announced: Option<u64>,
    journal: &'a Journal,
}

impl<'a> Server<'a> {
    /// Makes or reaches it.
    pub(super) fn ready(
        source: &Source,
        programs: Programs,
        run: &RestoreRun,
        journal: &'a Journal,
        watch: &dyn Watch,
    ) -> Result<Self, ServerError> {
        let RestoreRun { request, places, .. } = run;
        // `clean` waits for the sessions of a killed run, which it knows by this name.
        let names = Names::new();
        let (name, place, cluster, mut session) = match source {
            Source::Scratch { name, place, binaries } => {
                let directory = places[*place].directory();
                let cluster = Cluster::make(directory, binaries, &request.settings, journal, watch)?;
                let session = cluster.session("postgres")?;
                (name.clone(), Some(*place), Some(cluster), session)
            }
            Source::Live { name, target } => {
                let target = Target { application_name: names.session(), ..(**target).clone() };
                (name.clone(), None, None, connect(&target)?)
            }
        };
        Ok(Self {
            name,
            place,
            features: Features::read(&mut session)?,
            session,
            names,
            programs,
            cluster,
            in_force: Vec::new(),
            changed: Vec::new(),
            announced: None,
            journal,
        })
    }

    /// Made for the run.
    pub(super) fn is_ours(&self) -> bool {
        self.cluster.is_some()
    }

    /// A plain dump gives its tables to their owners: in a cluster made for the run they are made too, without rights.
    pub(super) fn make_roles(&mut self, contents: &Contents) -> Result<(), RestoreError> {
        let mut missing = missing_roles(&mut self.session, contents)?;
        if self.is_ours() {
            for role in missing.drain(..) {
                self.session.run(&format!("CREATE ROLE {role}"))?;
            }
        }
        if missing.is_empty() { Ok(()) } else { Err(RestoreError::NoRoles { roles: missing }) }
    }

    /// Creates the database of a trial; on a server that is not ours it is journalled first.
    pub(super) fn create(&mut self) -> Result<(), ServerError> {
        let name = self.names.name(0);
        self.session.run(&format!("CREATE DATABASE {} TEMPLATE template0", identifier(&name)))
    }

    /// Writes down what `create` will make on a server that is not ours.
    pub(super) fn announce(&mut self) -> Result<(), ServerError> {
        if self.cluster.is_none() && self.announced.is_none() {
            let database = ScratchDatabase {
                conninfo: self.session.conninfo(),
                system_identifier: system_identifier(&mut self.session)?,
                name: self.names.name(0),
            };
            self.announced = Some(self.journal.push(&database)?);
        }
        Ok(())
    }

    /// Drops the database of a trial, with whatever is still connected to it.
    pub(super) fn drop_database(&mut self) -> Result<(), ServerError> {
        let name = self.names.name(0);
        end_sessions(&mut self.session, &name)?;
        drop_ours(&mut self.session, &name)?;
        match self.announced.take() {
            Some(n) => Ok(self.journal.done(n)?),
            None => Ok(()),
        }
    }

    /// What the run costs somebody's server, in words.
    pub(super) fn costs(&mut self, restores: u64, settings: &[&str]) -> Result<String, ServerError> {
        let standbys = self.session.value("SELECT count(*) FROM pg_catalog.pg_stat_replication")?;
        let archiving = self.session.value("SHOW archive_mode")?;
        let changed = match settings {
            [] => String::new(),
            names => format!("; {} set by ALTER SYSTEM and set back", names.join(", ")),
        };
        Ok(format!(
            "{}: {restores} restores into a database of ours, dropped after each; each ends in a checkpoint of the whole \
             cluster and writes all rows and indexes into the WAL; {standbys} standbys replay it; archive_mode is \
             {archiving}{changed}",
            self.name
        ))
    }

    /// Puts an arm's settings in force.
    pub(super) fn set(&mut self, settings: &[Setting], watch: &dyn Watch) -> Result<(), ServerError> {
        if self.in_force != settings {
            if let Some(cluster) = &self.cluster {
                apply(cluster, settings, watch)?;
            } else {
                for (n, change) in self.changed.drain(..).rev() {
                    change.restore(&mut self.session)?;
                    self.journal.done(n)?;
                }
                self.changed = apply_live(&mut self.session, settings, self.journal, watch)?;
            }
            self.in_force = settings.to_vec();
        }
        // A restart or a crash may have sent away what was connected before.
        self.session = match &self.cluster {
            Some(cluster) => cluster.session("postgres")?,
            None => self.session.another(&self.session.database)?,
        };
        Ok(())
    }

    /// An error with what the server said last, if it is down.
    pub(super) fn explained(&mut self, error: ServerError) -> ServerError {
        match &self.cluster {
            Some(cluster)
                if !matches!(error, ServerError::Stopped(_)) && self.session.value("SELECT 1").is_err() =>
            {
                cluster.keep_log(error)
            }
            _ => error,
        }
    }

    /// How far the WAL has come.
    pub(super) fn wal_position(&mut self) -> Result<String, ServerError> {
        self.session.value(&format!("SELECT {}", self.features.wal_position()))
    }

    /// Bytes of WAL since then.
    pub(super) fn wal_since(&mut self, position: &str) -> Result<u64, ServerError> {
        let sql = format!(
            "SELECT {}({}, '{position}')",
            self.features.wal_distance(),
            self.features.wal_position()
        );
        Ok(self.session.value(&sql)?.parse().unwrap_or(0))
    }

    /// Checkpoints since the cluster was made.
    pub(super) fn checkpoints(&mut self) -> Result<u64, ServerError> {
        let sql = if self.features.version_num >= 170_000 {
            "SELECT num_timed + num_requested FROM pg_catalog.pg_stat_checkpointer"
        } else {
            "SELECT checkpoints_timed + checkpoints_req FROM pg_catalog.pg_stat_bgwriter"
        };
        Ok(self.session.value(sql)?.parse().unwrap_or(0))
    }

    /// As a document records it.
    pub(super) fn record(&mut self) -> Result<results::Server, ServerError> {
        let facts = Facts::read(&mut self.session, &self.name, &self.features, None)?;
        let mut in_force = Labels::new();
        for name in TELLING {
            if let Some(value) = settings::current(&mut self.session, name)? {
                in_force = in_force.with(name, value);
            }
        }
        Ok(results::Server {
            name: self.name.clone(),
            version: facts.version.clone(),
            scratch: self.is_ours(),
            place: self.place.map(|index| format!("p{}", index + 1)),
            built: facts.in_words(),
            settings: in_force,
        })
    }

    /// What a reader must know of it before any number.
    pub(super) fn notes(&mut self) -> Result<Vec<Note>, ServerError> {
        let weak = settings::not_durable(&mut self.session)?;
        let told = weak.into_iter().map(|weak| {
            let text = format!("{} runs with {weak}: what it reports as done may be lost", self.name);
            Note::warning(NoteCode::FsyncOff, text)
        });
        let told: Vec<Note> = told.collect();
        let no_checkpoint = (!self.features.may_checkpoint).then(|| {
            let text =
                format!("{}: the last CHECKPOINT needs the right to it: its cost is missing", self.name);
            Note::warning(NoteCode::NotMeasured, text)
        });
        Ok(told.into_iter().chain(no_checkpoint).collect())
    }
}

/// Roles of a dump that a server does not have.
pub(super) fn missing_roles(session: &mut Session, contents: &Contents) -> Result<Vec<String>, ServerError> {
    let mut missing = Vec::new();
    for role in &contents.roles {
        let name = match role.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
            Some(quoted) => quoted.replace("\"\"", "\""),
            None => role.to_lowercase(),
        };
        let sql = format!("SELECT count(*) FROM pg_catalog.pg_roles WHERE rolname = {}", literal(&name));
        if session.value(&sql)? == "0" {
            missing.push(role.clone());
        }
    }
    Ok(missing)
}

/// A server that is not ours is not measured beside its other clients unless that was asked for.
pub(super) fn refuse_if_others_are_active(session: &mut Session, server: &str) -> Result<(), RestoreError> {
    let active = session.value(
        "SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()",
    )?;
    match active.parse() {
        Ok(0) | Err(_) => Ok(()),
        Ok(active) => Err(RestoreError::OthersActive { server: server.to_owned(), active }),
    }
}
