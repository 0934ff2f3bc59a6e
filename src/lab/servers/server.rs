//! A server as a run uses it: made for the run, or somebody's; its settings in force, its one database of ours.

use super::{ServersRequest, Source};
use crate::place::Place;
use crate::results::{self, Labels, Note, NoteCode};
use crate::server::cluster::{Cluster, Wanted};
use crate::server::connect::{Session, connect};
use crate::server::conninfo::Target;
use crate::server::createdb::database::{Names, ScratchDatabase, drop_ours, end_sessions, system_identifier};
use crate::server::createdb::fairness::Facts;
use crate::server::error::ServerError;
use crate::server::features::Features;
use crate::server::settings::change::{ChangedSetting, apply, apply_live};
use crate::server::settings::{self, Setting};
use crate::server::sql::identifier;
use crate::sys::journal::Journal;
use crate::sys::watch::Watch;

/// A server, ready.
pub(in crate::lab) struct Server<'a> {
    /// The label.
    pub(in crate::lab) name: String,
    /// Index of a scratch cluster's place.
    pub(in crate::lab) place: Option<usize>,
    /// Index of the place of its WAL, where that is another one.
    pub(in crate::lab) wal_place: Option<usize>,
    pub(in crate::lab) cluster: Option<Cluster>,
    pub(in crate::lab) session: Session,
    pub(in crate::lab) features: Features,
    pub(in crate::lab) names: Names,
    in_force: Vec<Setting>,
    changed: Vec<(u64, ChangedSetting)>,
    /// The journal's number of the database on a server that is not ours.
    announced: Option<u64>,
    journal: &'a Journal,
}

impl<'a> Server<'a> {
    /// Makes or reaches it.
    pub(in crate::lab) fn ready(
        source: &Source,
        request: &ServersRequest,
        places: &[Place],
        journal: &'a Journal,
        watch: &dyn Watch,
    ) -> Result<Self, ServerError> {
        // `clean` waits for the sessions of a killed run, which it knows by this name.
        let names = Names::new();
        let own_wal = request.wal_into.as_ref().and_then(|_| places.len().checked_sub(1));
        let (name, place, wal_place, cluster, mut session) = match source {
            Source::Scratch { name, place, binaries } => {
                let directory = places[*place].directory();
                let wal_place = own_wal.map(|index| places[index].directory());
                let wanted = Wanted { settings: &request.settings, wal_place, ..Wanted::default() };
                let cluster = Cluster::make_with(directory, binaries, wanted, journal, watch)?;
                let session = cluster.session("postgres")?;
                (name, Some(*place), own_wal, Some(cluster), session)
            }
            Source::Live { name, target } => {
                let target = Target { application_name: names.session(), ..(**target).clone() };
                (name, None, None, None, connect(&target)?)
            }
        };
        Ok(Self {
            name: name.clone(),
            place,
            wal_place,
            features: Features::read(&mut session)?,
            cluster,
            session,
            names,
            in_force: Vec::new(),
            changed: Vec::new(),
            announced: None,
            journal,
        })
    }

    /// Made for the run.
    pub(in crate::lab) fn is_ours(&self) -> bool {
        self.cluster.is_some()
    }

    /// Writes down the database that `create` will make on a server that is not ours.
    pub(in crate::lab) fn announce(&mut self) -> Result<(), ServerError> {
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

    /// Creates the run's database, which [`announce`](Self::announce) has written down.
    pub(in crate::lab) fn create(&mut self) -> Result<(), ServerError> {
        let name = self.names.name(0);
        self.session.run(&format!("CREATE DATABASE {} TEMPLATE template0", identifier(&name)))
    }

    /// Drops it, with whatever is still connected to it.
    pub(in crate::lab) fn drop_database(&mut self) -> Result<(), ServerError> {
        let name = self.names.name(0);
        end_sessions(&mut self.session, &name)?;
        drop_ours(&mut self.session, &name)?;
        match self.announced.take() {
            Some(n) => Ok(self.journal.done(n)?),
            None => Ok(()),
        }
    }

    /// Puts an arm's settings in force; true where the session is a new one.
    pub(in crate::lab) fn set(
        &mut self,
        settings: &[Setting],
        watch: &dyn Watch,
    ) -> Result<bool, ServerError> {
        let changes = self.in_force != settings;
        if changes {
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
        // A session keeps what it was started with; a restart or a crash sends it away.
        let is_new = changes || self.session.value("SELECT 1").is_err();
        if is_new {
            self.session = match &self.cluster {
                Some(cluster) => cluster.session("postgres")?,
                None => self.session.another(&self.session.database)?,
            };
        }
        Ok(is_new)
    }

    /// Puts an arm's settings in force before a trial. Somebody's server is measured as it is; ours begins each trial with
    /// nothing dirty.
    pub(in crate::lab) fn begin(
        &mut self,
        settings: &[Setting],
        watch: &dyn Watch,
    ) -> Result<(), ServerError> {
        self.set(settings, watch)?;
        if self.is_ours() { self.session.run("CHECKPOINT") } else { Ok(()) }
    }

    /// An error with what the server said last, if it is down.
    pub(in crate::lab) fn explained(&mut self, error: ServerError) -> ServerError {
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
    pub(in crate::lab) fn wal_position(&mut self) -> Result<String, ServerError> {
        self.session.value(&format!("SELECT {}", self.features.wal_position()))
    }

    /// Bytes of WAL since then.
    pub(in crate::lab) fn wal_since(&mut self, position: &str) -> Result<u64, ServerError> {
        let (distance, now) = (self.features.wal_distance(), self.features.wal_position());
        Ok(self.session.value(&format!("SELECT {distance}({now}, '{position}')"))?.parse().unwrap_or(0))
    }

    /// Checkpoints since the cluster was made.
    pub(in crate::lab) fn checkpoints(&mut self) -> Result<u64, ServerError> {
        Ok(self.session.value(self.features.checkpoints_done())?.parse().unwrap_or(0))
    }

    /// Who else pays for what is written here: the end of a sentence on costs.
    pub(in crate::lab) fn followers(&mut self, settings: &[&str]) -> Result<String, ServerError> {
        let standbys = self.session.value("SELECT count(*) FROM pg_catalog.pg_stat_replication")?;
        let archiving = self.session.value("SHOW archive_mode")?;
        let changed = match settings {
            [] => String::new(),
            names => format!("; {} set by ALTER SYSTEM and set back", names.join(", ")),
        };
        Ok(format!("{standbys} standbys replay it; archive_mode is {archiving}{changed}"))
    }

    /// As a document records it, with the values of these settings in force.
    pub(in crate::lab) fn record(&mut self, telling: &[&str]) -> Result<results::Server, ServerError> {
        let facts = Facts::read(&mut self.session, &self.name, &self.features, None)?;
        Ok(results::Server { settings: self.in_force(telling)?, ..self.described(&facts) })
    }

    /// The same without settings.
    pub(in crate::lab) fn described(&self, facts: &Facts) -> results::Server {
        let id = |index: Option<usize>| index.map(|index| format!("p{}", index + 1));
        results::Server {
            name: self.name.clone(),
            version: facts.version.clone(),
            scratch: self.is_ours(),
            place: id(self.place),
            wal_place: id(self.wal_place),
            built: facts.in_words(),
            settings: Labels::new(),
        }
    }

    /// The values in force of those settings that the server knows.
    pub(in crate::lab) fn in_force(&mut self, names: &[&str]) -> Result<Labels, ServerError> {
        let mut found = Labels::new();
        for name in names {
            if let Some(value) = settings::current(&mut self.session, name)? {
                found = found.with(name, value);
            }
        }
        Ok(found)
    }

    /// What a reader must know of it before any number; `without_checkpoint` is what the right to it would give.
    pub(in crate::lab) fn notes(&mut self, without_checkpoint: &str) -> Result<Vec<Note>, ServerError> {
        let weak = settings::not_durable(&mut self.session)?.into_iter().map(|weak| {
            let text = format!("{} runs with {weak}: what it reports as done may be lost", self.name);
            Note::warning(NoteCode::FsyncOff, text)
        });
        let no_checkpoint = (!self.features.may_checkpoint).then(|| {
            let text = format!("{}: {without_checkpoint}", self.name);
            Note::warning(NoteCode::NotMeasured, text)
        });
        Ok(weak.chain(no_checkpoint).collect())
    }
}
