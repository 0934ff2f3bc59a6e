//! Where the servers of a run come from: builds at places, and servers that are there.

use std::path::Path;

use super::ServersRequest;
use crate::place::Asked;
use crate::server::clients::Clients;
use crate::server::cluster::{Binaries, installed, user_at};
use crate::server::connect::{Session, connect};
use crate::server::conninfo::Target;
use crate::server::error::ServerError;
use crate::server::features::Features;
use crate::sys::user::User;
use crate::sys::watch::Watch;

/// Where a server comes from.
#[derive(Clone, Debug)]
pub(in crate::lab) enum Source {
    Scratch { name: String, place: usize, binaries: Box<Binaries> },
    Live { name: String, target: Box<Target> },
}

impl Source {
    /// Every build at every place, then the servers that are there.
    pub(in crate::lab) fn all(request: &ServersRequest, watch: &dyn Watch) -> Result<Vec<Self>, ServerError> {
        let mut found = Vec::new();
        for (place, asked) in request.scratch.iter().enumerate() {
            let user = user_of(asked)?;
            for argument in &request.binaries {
                let binaries = Box::new(Binaries::find(argument, user.as_ref(), watch)?);
                let name = match request.scratch.len() {
                    1 => binaries.name.clone(),
                    _ => format!("{}@p{}", binaries.name, place + 1),
                };
                found.push(Self::Scratch { name, place, binaries });
            }
        }
        let live = request
            .servers
            .iter()
            .map(|(name, target)| Self::Live { name: name.clone(), target: Box::new(target.clone()) });
        Ok(found.into_iter().chain(live).collect())
    }

    /// The index of the place where a cluster is made.
    pub(in crate::lab) fn place(&self) -> Option<usize> {
        match self {
            Self::Scratch { place, .. } => Some(*place),
            Self::Live { .. } => None,
        }
    }

    /// What will be made, where something is.
    pub(in crate::lab) fn intent(&self, request: &ServersRequest) -> Option<String> {
        let Self::Scratch { name, place, binaries } = self else { return None };
        let wal = request.wal_into.as_ref().map(|wal| format!(", its WAL in {wal}")).unwrap_or_default();
        let place = &request.scratch[*place];
        Some(format!(
            "will make a cluster of PostgreSQL {} ({name}) in {place}{wal}, and remove it",
            binaries.version
        ))
    }

    /// The programs beside the server's, or those installed here, and the server's major version.
    pub(in crate::lab) fn clients(&self) -> Result<(Clients, u32), ServerError> {
        match self {
            Self::Scratch { binaries, .. } => {
                Ok((Clients::beside(&binaries.directory), binaries.version.major))
            }
            Self::Live { target, .. } => {
                let features = Features::read(&mut connect(target)?)?;
                Ok((Clients::beside(&installed().unwrap_or_default()), features.version_num / 10_000))
            }
        }
    }

    /// A server that is not ours is looked at before anything is done to it; a session to look further.
    pub(in crate::lab) fn look(&self, request: &ServersRequest) -> Result<Option<Session>, ServerError> {
        let Self::Live { name, target } = self else { return Ok(None) };
        let mut session = connect(target)?;
        if Features::read(&mut session)?.standby {
            return Err(ServerError::Standby);
        }
        if !request.others_may_be_active {
            refuse_if_others_are_active(&mut session, name)?;
        }
        Ok(Some(session))
    }
}

/// The user under whom a cluster at this place will run; nobody else than ourselves unless we are root.
fn user_of(place: &Asked) -> Result<Option<User>, ServerError> {
    match place {
        Asked::Directory(directory) => user_at(directory),
        // A new file system belongs to root, as this directory does.
        Asked::Drive(_) => user_at(Path::new("/")),
    }
}

/// A server that is not ours is not measured beside its other clients unless that was asked for.
pub(in crate::lab) fn refuse_if_others_are_active(
    session: &mut Session,
    server: &str,
) -> Result<(), ServerError> {
    let active = session.value(
        "SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()",
    )?;
    match active.parse() {
        Ok(0) | Err(_) => Ok(()),
        Ok(active) => Err(ServerError::OthersActive { server: server.to_owned(), active }),
    }
}
