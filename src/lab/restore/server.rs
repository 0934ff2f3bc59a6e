//! A scratch cluster as a run of restores uses it.

use std::path::Path;

use super::Scratch;
use crate::results::{self, Labels, Note, NoteCode};
use crate::server::cluster::Cluster;
use crate::server::connect::Session;
use crate::server::createdb::database::Names;
use crate::server::createdb::fairness::Facts;
use crate::server::dump::Contents;
use crate::server::error::ServerError;
use crate::server::features::Features;
use crate::server::restore::Programs;
use crate::server::settings::change::apply;
use crate::server::settings::{self, Setting};
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

/// A scratch cluster, ready.
pub(super) struct Server {
    /// The label.
    pub(super) name: String,
    /// Index of its place.
    pub(super) place: usize,
    pub(super) session: Session,
    pub(super) names: Names,
    pub(super) programs: Option<Programs>,
    cluster: Cluster,
    features: Features,
    in_force: Vec<Setting>,
}

impl Server {
    pub(super) fn make(
        scratch: &Scratch,
        directory: &Path,
        settings: &[Setting],
        journal: &Journal,
        watch: &dyn Watch,
    ) -> Result<Self, ServerError> {
        let cluster = Cluster::make(directory, &scratch.binaries, settings, journal, watch)?;
        let mut session = cluster.session("postgres")?;
        Ok(Self {
            name: scratch.name.clone(),
            place: scratch.place,
            features: Features::read(&mut session)?,
            session,
            names: Names::new(),
            programs: None,
            cluster,
            in_force: Vec::new(),
        })
    }

    /// A plain dump gives its tables to their owners: in a cluster made for the run they are made too, without rights.
    pub(super) fn make_roles(&mut self, contents: &Contents) -> Result<(), ServerError> {
        for role in &contents.roles {
            let name = role.trim_matches('"').replace("\"\"", "\"");
            let known = self.session.value(&format!(
                "SELECT count(*) FROM pg_catalog.pg_roles WHERE rolname = {}",
                crate::server::sql::literal(&if role.starts_with('"') { name } else { name.to_lowercase() })
            ))?;
            if known == "0" {
                self.session.run(&format!("CREATE ROLE {role}"))?;
            }
        }
        Ok(())
    }

    /// Puts an arm's settings in force.
    pub(super) fn set(&mut self, settings: &[Setting], watch: &dyn Watch) -> Result<(), ServerError> {
        if self.in_force != settings {
            apply(&self.cluster, settings, watch)?;
            self.in_force = settings.to_vec();
        }
        // A restart or a crash may have sent away what was connected before.
        self.session = self.cluster.session("postgres")?;
        Ok(())
    }

    /// An error with what the server said last, if it is down.
    pub(super) fn explained(&mut self, error: ServerError) -> ServerError {
        if matches!(error, ServerError::Stopped(_)) || self.session.value("SELECT 1").is_ok() {
            return error;
        }
        self.cluster.keep_log(error)
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
            scratch: true,
            place: Some(format!("p{}", self.place + 1)),
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
        Ok(told.collect())
    }
}
