//! A server as a run uses it: made for the run or somebody's, with its template, its settings in force, and what hangs on
//! it.

use std::collections::BTreeMap;

use super::{CreatedbError, CreatedbRequest, CreatedbRun, Refusal, Source};
use crate::results::{self, Labels, Note, NoteCode};
use crate::server::cluster::{Cluster, Standby};
use crate::server::connect::{Session, connect};
use crate::server::conninfo::Target;
use crate::server::createdb::Strategy;
use crate::server::createdb::database::{Names, system_identifier};
use crate::server::createdb::dirt::Dirt;
use crate::server::createdb::fairness::Facts;
use crate::server::createdb::template::{self, Contents, Recipe};
use crate::server::createdb::trial::{Live, Subject};
use crate::server::error::ServerError;
use crate::server::features::Features;
use crate::server::settings::change::{ChangedSetting, apply, apply_live};
use crate::server::settings::{self, Setting};
use crate::server::sql::identifier;
use crate::sys::journal::Journal;
use crate::sys::watch::Watch;

/// Numbers of databases that outlive a trial; those of trials begin at 0.
const DIRT: usize = 100_000;
const TEMPLATE: usize = 100_001;

/// A server, ready.
pub struct Server<'a> {
    /// The label.
    pub name: String,
    /// Index of a scratch cluster's place.
    pub place: Option<usize>,
    pub(super) cluster: Option<Cluster>,
    pub(super) session: Session,
    pub(super) features: Features,
    pub(super) template: String,
    pub(super) contents: Option<Contents>,
    pub(super) facts: Facts,
    pub(super) standby: Option<Standby>,
    pub(super) dirt: Option<Dirt>,
    pub(super) names: Names,
    pub(super) live: Option<Live<'a>>,
    /// Files and bytes that each strategy copied.
    pub(super) copied: BTreeMap<Strategy, Contents>,
    in_force: Vec<Setting>,
    changed: Vec<(u64, ChangedSetting)>,
    journal: &'a Journal,
}

impl<'a> Server<'a> {
    /// Makes or reaches it, and everything on it that all its arms need.
    pub(super) fn ready(
        source: &Source,
        run: &CreatedbRun,
        journal: &'a Journal,
        watch: &dyn Watch,
    ) -> Result<Self, CreatedbError> {
        let CreatedbRun { request, places, .. } = run;
        let names = Names::new();
        let (cluster, mut session) = match source {
            Source::Scratch { place, binaries, .. } => {
                let directory = places[*place].directory();
                let cluster = Cluster::make(directory, binaries, &request.settings, journal, watch)?;
                let session = cluster.session("postgres")?;
                (Some(cluster), session)
            }
            Source::Live { target, .. } => {
                (None, connect(&Target { application_name: names.session(), ..(**target).clone() })?)
            }
        };
        let features = Features::read(&mut session)?;
        let live = match &cluster {
            Some(_) => None,
            None => Some(Live {
                journal,
                conninfo: session.conninfo(),
                system_identifier: system_identifier(&mut session)?,
            }),
        };
        let name = source.name();
        let facts = Facts::read(&mut session, &name, &features, None)?;
        let mut server = Self {
            name,
            place: source.place(),
            cluster,
            session,
            features,
            template: request.template.clone(),
            contents: None,
            facts,
            standby: None,
            dirt: None,
            names,
            live,
            copied: BTreeMap::new(),
            in_force: Vec::new(),
            changed: Vec::new(),
            journal,
        };
        server.furnish(request, watch)?;
        Ok(server)
    }

    fn furnish(&mut self, request: &CreatedbRequest, watch: &dyn Watch) -> Result<(), CreatedbError> {
        if self.cluster.is_none() && !request.others_may_be_active {
            self.refuse_if_others_are_active()?;
        }
        if let Some(recipe) = request.recipe {
            self.make_template(recipe, watch)?;
        }
        template::check(&mut self.session, &self.features, &self.template)?;
        self.contents = template::contents(&mut self.session, &self.features, &self.template)?;
        self.facts.template = self.contents;
        if let Some(size_bytes) = request.dirty_bytes {
            let subject = Subject {
                features: &self.features,
                strategy: Strategy::FileCopy,
                template: &self.template,
                names: &self.names,
                live: self.live.as_ref(),
                watch,
            };
            self.dirt = Some(Dirt::make(&mut self.session, subject, DIRT, size_bytes)?);
        }
        if let Some(cluster) = self.cluster.as_ref().filter(|_| request.standby) {
            self.standby = Some(Standby::make(cluster, watch)?);
        }
        Ok(())
    }

    fn refuse_if_others_are_active(&mut self) -> Result<(), CreatedbError> {
        let active = self.session.value(
            "SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()",
        )?;
        match active.parse() {
            Ok(0) | Err(_) => Ok(()),
            Ok(active) => {
                Err(CreatedbError::Refused(Refusal::OthersActive { server: self.name.clone(), active }))
            }
        }
    }

    fn make_template(&mut self, recipe: Recipe, watch: &dyn Watch) -> Result<(), ServerError> {
        self.template = self.names.name(TEMPLATE);
        let subject = Subject {
            features: &self.features,
            strategy: Strategy::FileCopy,
            template: "template0",
            names: &self.names,
            live: self.live.as_ref(),
            watch,
        };
        subject.announce(std::slice::from_ref(&self.template))?;
        recipe.make(&mut self.session, &self.template, watch)?;
        self.names.mark(&mut self.session, &self.template)
    }

    /// Puts an arm's settings in force.
    pub(super) fn set(&mut self, settings: &[Setting], watch: &dyn Watch) -> Result<(), ServerError> {
        if self.in_force == settings {
            return Ok(());
        }
        if let Some(cluster) = &self.cluster {
            apply(cluster, settings, watch)?;
        } else {
            for (n, change) in self.changed.drain(..).rev() {
                change.restore(&mut self.session)?;
                self.journal.done(n)?;
            }
            self.changed = apply_live(&mut self.session, settings, self.journal, watch)?;
        }
        // What was connected before may have been sent away by a restart, and keeps what it was started with.
        self.session = match &self.cluster {
            Some(cluster) => cluster.session("postgres")?,
            None => self.session.another(&self.session.database)?,
        };
        self.dirt.as_mut().map_or(Ok(()), |dirt| dirt.reconnect(&self.session))?;
        self.in_force = settings.to_vec();
        Ok(())
    }

    /// What the run costs somebody's server, in words.
    pub(super) fn costs(&mut self, creates: u64) -> Result<String, ServerError> {
        let standbys = self.session.value("SELECT count(*) FROM pg_catalog.pg_stat_replication")?;
        let archiving = self.session.value("SHOW archive_mode")?;
        Ok(format!(
            "{}: {creates} databases copied from {} and dropped; every FILE_COPY forces two checkpoints of the whole \
             cluster and every DROP one; WAL_LOG writes the template into the WAL each time; {standbys} standbys replay \
             it; archive_mode is {archiving}",
            self.name,
            identifier(&self.template)
        ))
    }

    /// As a document records it.
    pub(super) fn record(&self, settings: &[Setting]) -> results::Server {
        results::Server {
            name: self.name.clone(),
            version: self.facts.version.clone(),
            scratch: self.cluster.is_some(),
            place: self.place.map(|index| format!("p{}", index + 1)),
            built: self.facts.in_words(),
            settings: settings
                .iter()
                .fold(Labels::new(), |labels, setting| labels.with(&setting.name, setting.value.clone())),
        }
    }

    /// What a reader must know of it before any number.
    pub(super) fn notes(&mut self, request: &CreatedbRequest) -> Result<Vec<Note>, ServerError> {
        let mut notes = Vec::new();
        for weak in settings::not_durable(&mut self.session)? {
            let text = format!("{} runs with {weak}: what it reports as done may be lost", self.name);
            notes.push(Note::warning(NoteCode::FsyncOff, text));
        }
        if !self.features.may_checkpoint {
            let text = format!("{}: CREATE and CHECKPOINT together needs the right to CHECKPOINT", self.name);
            notes.push(Note::info(NoteCode::NotMeasured, text));
        }
        if request.standby && self.cluster.is_none() {
            let text = format!("{}: replay is measured on a standby of a scratch cluster only", self.name);
            notes.push(Note::info(NoteCode::NotMeasured, text));
        }
        if let (Some(dirt), Some(asked_bytes)) = (self.dirt.as_mut(), request.dirty_bytes) {
            let buffers = self.session.value(
                "SELECT setting::bigint * current_setting('block_size')::bigint FROM pg_catalog.pg_settings \
                 WHERE name = 'shared_buffers'",
            )?;
            let buffers_bytes: u64 = buffers.parse().unwrap_or(0);
            if dirt.size_bytes()?.max(asked_bytes) > buffers_bytes {
                let text = format!(
                    "{}: not all of what was dirtied stays in shared_buffers ({} bytes): the checkpoint has less to write",
                    self.name, buffers_bytes
                );
                notes.push(Note::warning(NoteCode::NoEffect, text));
            }
        }
        Ok(notes)
    }
}
