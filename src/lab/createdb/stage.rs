//! A server with its template and what hangs on it.

use std::collections::BTreeMap;

use super::{CreatedbRequest, CreatedbRun};
use crate::lab::servers::{Server, Source, refuse_if_others_are_active};
use crate::results::{self, Labels, Note, NoteCode};
use crate::server::cluster::Standby;
use crate::server::createdb::Strategy;
use crate::server::createdb::database::system_identifier;
use crate::server::createdb::dirt::Dirt;
use crate::server::createdb::fairness::Facts;
use crate::server::createdb::template::{self, Contents, Recipe};
use crate::server::createdb::trial::{Live, Subject};
use crate::server::error::ServerError;
use crate::server::settings::Setting;
use crate::server::sql::identifier;
use crate::sys::journal::Journal;
use crate::sys::watch::Watch;

/// Numbers of databases that outlive a trial; those of trials begin at 0.
const DIRT: usize = 100_000;
const TEMPLATE: usize = 100_001;

/// A server, ready.
pub(super) struct Stage<'a> {
    pub(super) server: Server<'a>,
    pub(super) template: String,
    pub(super) contents: Option<Contents>,
    pub(super) facts: Facts,
    pub(super) standby: Option<Standby>,
    pub(super) dirt: Option<Dirt>,
    pub(super) live: Option<Live<'a>>,
    /// Files and bytes that each strategy copied.
    pub(super) copied: BTreeMap<Strategy, Contents>,
}

impl<'a> Stage<'a> {
    /// Makes or reaches it, and everything on it that all its arms need.
    pub(super) fn ready(
        source: &Source,
        run: &CreatedbRun,
        journal: &'a Journal,
        watch: &dyn Watch,
    ) -> Result<Self, ServerError> {
        let CreatedbRun { request, places, .. } = run;
        let mut server = Server::ready(source, &request.servers, places, journal, watch)?;
        let live = match &server.cluster {
            Some(_) => None,
            None => Some(Live {
                journal,
                conninfo: server.session.conninfo(),
                system_identifier: system_identifier(&mut server.session)?,
            }),
        };
        let facts = Facts::read(&mut server.session, &server.name, &server.features, None)?;
        let mut stage = Self {
            server,
            template: request.template.clone(),
            contents: None,
            facts,
            standby: None,
            dirt: None,
            live,
            copied: BTreeMap::new(),
        };
        stage.furnish(request, watch)?;
        Ok(stage)
    }

    fn furnish(&mut self, request: &CreatedbRequest, watch: &dyn Watch) -> Result<(), ServerError> {
        if !self.server.is_ours() && !request.servers.others_may_be_active {
            refuse_if_others_are_active(&mut self.server.session, &self.server.name)?;
        }
        if let Some(recipe) = request.recipe {
            self.make_template(recipe, watch)?;
        }
        let Server { session, features, names, .. } = &mut self.server;
        template::check(session, features, &self.template)?;
        self.contents = template::contents(session, features, &self.template)?;
        self.facts.template = self.contents;
        if let Some(size_bytes) = request.dirty_bytes {
            let (strategy, template, live) = (Strategy::FileCopy, &self.template, self.live.as_ref());
            let subject = Subject { features, strategy, template, names, live, watch };
            self.dirt = Some(Dirt::make(session, subject, DIRT, size_bytes)?);
        }
        if let Some(cluster) = self.server.cluster.as_ref().filter(|_| request.standby) {
            self.standby = Some(Standby::make(cluster, watch)?);
        }
        Ok(())
    }

    fn make_template(&mut self, recipe: Recipe, watch: &dyn Watch) -> Result<(), ServerError> {
        let Server { session, features, names, .. } = &mut self.server;
        self.template = names.name(TEMPLATE);
        let (strategy, live) = (Strategy::FileCopy, self.live.as_ref());
        let subject = Subject { features, strategy, template: "template0", names, live, watch };
        subject.announce(std::slice::from_ref(&self.template))?;
        recipe.make(session, &self.template, watch)?;
        names.mark(session, &self.template)
    }

    /// Puts an arm's settings in force.
    pub(super) fn set(&mut self, settings: &[Setting], watch: &dyn Watch) -> Result<(), ServerError> {
        let is_new = self.server.set(settings, watch)?;
        match &mut self.dirt {
            Some(dirt) if is_new => dirt.reconnect(&self.server.session),
            _ => Ok(()),
        }
    }

    /// What the run costs somebody's server, in words.
    pub(super) fn costs(&mut self, creates: u64, settings: &[&str]) -> Result<String, ServerError> {
        let followers = self.server.followers(settings)?;
        Ok(format!(
            "{}: {creates} databases copied from {} and dropped; every FILE_COPY forces two checkpoints of the whole \
             cluster and every DROP one; WAL_LOG writes the template into the WAL each time; {followers}",
            self.server.name,
            identifier(&self.template)
        ))
    }

    /// As a document records it.
    pub(super) fn record(&self, settings: &[Setting]) -> results::Server {
        let settings = settings.iter();
        results::Server {
            settings: settings
                .fold(Labels::new(), |labels, setting| labels.with(&setting.name, setting.value.clone())),
            ..self.server.described(&self.facts)
        }
    }

    /// What a reader must know of it before any number.
    pub(super) fn notes(&mut self, request: &CreatedbRequest) -> Result<Vec<Note>, ServerError> {
        let mut notes = self.server.notes("CREATE and CHECKPOINT together needs the right to CHECKPOINT")?;
        let name = self.server.name.clone();
        if request.standby && !self.server.is_ours() {
            let text = format!("{name}: replay is measured on a standby of a scratch cluster only");
            notes.push(Note::info(NoteCode::NotMeasured, text));
        }
        if let (Some(dirt), Some(asked_bytes)) = (self.dirt.as_mut(), request.dirty_bytes) {
            let buffers = self.server.session.value(
                "SELECT setting::bigint * current_setting('block_size')::bigint FROM pg_catalog.pg_settings \
                 WHERE name = 'shared_buffers'",
            )?;
            let buffers_bytes: u64 = buffers.parse().unwrap_or(0);
            if dirt.size_bytes()?.max(asked_bytes) > buffers_bytes {
                let text = format!(
                    "{name}: not all of what was dirtied stays in shared_buffers ({buffers_bytes} bytes): the checkpoint \
                     has less to write"
                );
                notes.push(Note::warning(NoteCode::NoEffect, text));
            }
        }
        Ok(notes)
    }
}
