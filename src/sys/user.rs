//! Users of the system, for what must not run as root.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{self, Uid};

use super::error::SysError;
use super::kernel::{Call, Fault};

/// A user of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The login name.
    pub name: OsString,
    /// User id.
    pub uid: u32,
    /// Id of the login group.
    pub gid: u32,
    /// The home directory, which need not be there.
    pub home: PathBuf,
}

impl User {
    /// The user of a name.
    pub fn named(name: &str) -> Result<Self, SysError> {
        let found = unistd::User::from_name(name);
        found.ok().flatten().map(Self::from).ok_or_else(|| SysError::NoSuchUser(name.to_owned()))
    }

    /// Who owns a file or directory; one without a name is called by its number.
    pub fn owner_of(path: &Path) -> Result<Self, SysError> {
        let at = Fault::of_io(Call::Newfstatat, path);
        let found = path.metadata().map_err(at)?;
        let named = unistd::User::from_uid(Uid::from_raw(found.uid())).unwrap_or_default();
        Ok(named.map_or_else(
            || Self {
                name: found.uid().to_string().into(),
                uid: found.uid(),
                gid: found.gid(),
                home: PathBuf::from("/"),
            },
            Self::from,
        ))
    }

    /// Gives a file or directory to this user. Needs root.
    pub fn give(&self, path: &Path) -> Result<(), SysError> {
        let give = std::os::unix::fs::lchown(path, Some(self.uid), Some(self.gid));
        Ok(give.map_err(Fault::of_io(Call::Openat, path))?)
    }
}

impl From<unistd::User> for User {
    fn from(user: unistd::User) -> Self {
        Self { name: user.name.into(), uid: user.uid.as_raw(), gid: user.gid.as_raw(), home: user.dir }
    }
}

/// Whether this process acts as root.
pub fn is_root() -> bool {
    Uid::effective().is_root()
}
