//! What all runs on scratch clusters know of their places before these are there.

use std::path::Path;

use crate::place::Asked;
use crate::server::cluster::user_at;
use crate::server::error::ServerError;
use crate::sys::user::User;

/// The user under whom a cluster at this place will run; nobody else than ourselves unless we are root.
pub(super) fn user_of(place: &Asked) -> Result<Option<User>, ServerError> {
    match place {
        Asked::Directory(directory) => user_at(directory),
        // A new file system belongs to root, as this directory does.
        Asked::Drive(_) => user_at(Path::new("/")),
    }
}
