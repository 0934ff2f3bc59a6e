//! Where the servers of a run come from: builds at places, and servers that are there.

use super::super::scratch::user_of;
use super::RestoreRequest;
use super::server::{missing_roles, refuse_if_others_are_active};
use crate::server::cluster::{Binaries, installed};
use crate::server::connect::connect;
use crate::server::conninfo::Target;
use crate::server::dump::Contents;
use crate::server::error::ServerError;
use crate::server::features::Features;
use crate::server::restore::{Clients, RestoreError};
use crate::sys::watch::Watch;

/// Where a server comes from.
pub(super) enum Source {
    Scratch { name: String, place: usize, binaries: Box<Binaries> },
    Live { name: String, target: Box<Target> },
}

impl Source {
    /// Every build at every place, then the servers that are there.
    pub(super) fn all(request: &RestoreRequest, watch: &dyn Watch) -> Result<Vec<Self>, ServerError> {
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
        for (name, target) in &request.servers {
            found.push(Self::Live { name: name.clone(), target: Box::new(target.clone()) });
        }
        Ok(found)
    }

    /// A cluster at the place with this index.
    pub(super) fn is_at(&self, index: usize) -> bool {
        matches!(self, Self::Scratch { place, .. } if *place == index)
    }

    /// The programs beside the server's, or those installed here, and the major version they must not be older than.
    pub(super) fn clients(&self) -> Result<(Clients, u32), ServerError> {
        match self {
            Self::Scratch { binaries, .. } => {
                Ok((Clients::beside(&binaries.directory), binaries.version.major))
            }
            Self::Live { target, .. } => {
                let features = Features::read(&mut connect(target)?)?;
                let directory = installed().unwrap_or_default();
                Ok((Clients::beside(&directory), features.version_num / 10_000))
            }
        }
    }

    /// A server that is not ours is looked at before anything is done to it; a plain dump's roles must be there.
    pub(super) fn check(
        &self,
        request: &RestoreRequest,
        plain: Option<&Contents>,
    ) -> Result<(), RestoreError> {
        let Self::Live { name, target } = self else { return Ok(()) };
        let mut session = connect(target)?;
        if Features::read(&mut session)?.standby {
            return Err(ServerError::Standby.into());
        }
        if !request.others_may_be_active {
            refuse_if_others_are_active(&mut session, name)?;
        }
        let missing = plain.map_or(Ok(Vec::new()), |contents| missing_roles(&mut session, contents))?;
        if missing.is_empty() { Ok(()) } else { Err(RestoreError::NoRoles { roles: missing }) }
    }
}
