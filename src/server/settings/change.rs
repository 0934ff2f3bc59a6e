//! Changing the settings of a running server, and changing them back.
//!
//! ALTER SYSTEM writes postgresql.auto.conf, so what has to be restored is what that file said before: a value or nothing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{SCRATCH_ONLY, Setting, is_in_force};
use crate::server::cluster::Cluster;
use crate::server::connect::{Session, connect};
use crate::server::conninfo::{Asked, Surroundings, resolve};
use crate::server::createdb::database::system_identifier;
use crate::server::error::ServerError;
use crate::server::sql::{configured, literal};
use crate::sys::journal::Journal;
use crate::sys::undo::{Undo, Undone};
use crate::sys::watch::{Deadline, Watch};

/// How long a server has to read its configuration again.
const RELOAD_LIMIT: Duration = Duration::from_secs(10);
const ASKED_EVERY: Duration = Duration::from_millis(20);

/// When a changed setting takes effect; `pg_settings.context`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// In any session at any time.
    Session,
    /// When the configuration is read again.
    Reload,
    /// When the server starts.
    Start,
}

/// When a setting takes effect; an error where nothing can change it or nobody knows it.
pub fn when(session: &mut Session, name: &str) -> Result<When, ServerError> {
    let context = session.value(&format!(
        "SELECT context FROM pg_catalog.pg_settings WHERE lower(name) = {}",
        literal(name)
    ))?;
    match context.as_str() {
        "user" | "superuser" => Ok(When::Session),
        "sighup" | "backend" | "superuser-backend" => Ok(When::Reload),
        "postmaster" => Ok(When::Start),
        "" => Err(ServerError::UnknownSetting { name: name.to_owned() }),
        _ => Err(ServerError::FixedSetting { name: name.to_owned() }),
    }
}

/// Sets a scratch cluster, by restart where that is needed, and reads every value back.
pub fn apply(cluster: &Cluster, settings: &[Setting], watch: &dyn Watch) -> Result<(), ServerError> {
    let mut session = cluster.session("postgres")?;
    let mut restart = false;
    for setting in settings {
        restart |= when(&mut session, &setting.name)? == When::Start;
        alter_system(&mut session, &setting.name, Some(&setting.value))?;
    }
    if restart {
        cluster.restart(watch)?;
    } else {
        session.run("SELECT pg_catalog.pg_reload_conf()")?;
    }
    wait_in_force(&|| cluster.session("postgres"), settings, watch)
}

/// Sets a server that is not ours, journalled; what makes data unsafe or needs a restart is refused.
pub fn apply_live(
    session: &mut Session,
    settings: &[Setting],
    journal: &Journal,
    watch: &dyn Watch,
) -> Result<Vec<(u64, ChangedSetting)>, ServerError> {
    for setting in settings {
        if SCRATCH_ONLY.contains(&setting.name.as_str()) || when(session, &setting.name)? == When::Start {
            return Err(ServerError::ScratchOnly { name: setting.name.clone() });
        }
    }
    let system_identifier = system_identifier(session)?;
    let mut changed = Vec::new();
    for setting in settings {
        let undo = ChangedSetting {
            conninfo: session.conninfo(),
            system_identifier: system_identifier.clone(),
            session: session.name().to_owned(),
            name: setting.name.clone(),
            before: in_auto_conf(session, &setting.name)?,
        };
        changed.push((journal.push(&undo)?, undo));
        alter_system(session, &setting.name, Some(&setting.value))?;
    }
    session.run("SELECT pg_catalog.pg_reload_conf()")?;
    let database = session.database.clone();
    wait_in_force(&|| session.another(&database), settings, watch)?;
    Ok(changed)
}

fn wait_in_force(
    fresh: &dyn Fn() -> Result<Session, ServerError>,
    settings: &[Setting],
    watch: &dyn Watch,
) -> Result<(), ServerError> {
    let deadline = Deadline::after(RELOAD_LIMIT);
    loop {
        // The server reads its files when it gets to it, and a session what the server knew at its start.
        let mut session = fresh()?;
        let mut missing = None;
        for setting in settings {
            if !is_in_force(&mut session, setting)? {
                missing = Some(setting);
            }
        }
        let Some(setting) = missing else { return Ok(()) };
        if let Some(stop) = watch.stop() {
            return Err(ServerError::Stopped(stop));
        }
        if deadline.reached() {
            let found = super::current(&mut session, &setting.name)?.unwrap_or_default();
            return Err(ServerError::SettingNotInForce { asked: setting.clone(), found });
        }
        std::thread::sleep(ASKED_EVERY);
    }
}

fn alter_system(session: &mut Session, name: &str, value: Option<&str>) -> Result<(), ServerError> {
    // A name of letters, digits, underscores and dots: checked when it was parsed.
    session.run(&match value {
        Some(value) => format!("ALTER SYSTEM SET {name} = {}", literal(value)),
        None => format!("ALTER SYSTEM RESET {name}"),
    })
}

/// What postgresql.auto.conf says.
fn in_auto_conf(session: &mut Session, name: &str) -> Result<Option<String>, ServerError> {
    let rows = session.rows(&format!(
        "SELECT setting FROM pg_catalog.pg_file_settings WHERE sourcefile LIKE '%/postgresql.auto.conf' \
         AND lower(name) = {} ORDER BY seqno DESC LIMIT 1",
        literal(name)
    ))?;
    Ok(rows.into_iter().flatten().next())
}

/// A setting changed on a server that is not ours, for the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedSetting {
    conninfo: String,
    system_identifier: String,
    /// What the run's sessions were called.
    session: String,
    name: String,
    before: Option<String>,
}

impl Undo for ChangedSetting {
    const KIND: &'static str = "changed-setting";
    type Error = ServerError;

    fn describe(&self) -> String {
        let before = self.before.as_deref().map_or_else(|| "its default".to_owned(), configured);
        format!("setting {} of server \"{}\", before: {before}", self.name, self.conninfo)
    }

    fn undo(&self) -> Result<Undone, ServerError> {
        let mut session = connect(&resolve(&Asked::conninfo(&self.conninfo), &Surroundings::here()?)?)?;
        if system_identifier(&mut session)? != self.system_identifier {
            return Err(ServerError::AnotherServer { conninfo: self.conninfo.clone() });
        }
        session.wait_until_gone(&self.session)?;
        self.restore(&mut session)
    }
}

impl ChangedSetting {
    /// Sets it back by a session of the same server, and reads the file back.
    pub fn restore(&self, session: &mut Session) -> Result<Undone, ServerError> {
        if in_auto_conf(session, &self.name)? == self.before {
            return Ok(Undone::Before);
        }
        alter_system(session, &self.name, self.before.as_deref())?;
        session.run("SELECT pg_catalog.pg_reload_conf()")?;
        match in_auto_conf(session, &self.name)? {
            after if after == self.before => Ok(Undone::Now),
            after => Err(ServerError::SettingNotInForce {
                asked: Setting { name: self.name.clone(), value: self.before.clone().unwrap_or_default() },
                found: after.unwrap_or_default(),
            }),
        }
    }
}
