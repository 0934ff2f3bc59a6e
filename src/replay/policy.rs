//! A policy: how bytes are moved and when they are synced. A value with orthogonal axes, so that one knob can be turned
//! at a time; the named ones are rows of [`table::ROWS`].

pub mod axes;
pub mod error;
pub mod rules;
pub mod table;

use std::fmt;
use std::str::FromStr;

use crate::results::Promise;

pub use axes::{
    Axes, Axis, CopyBy, Dirs, Every, Hint, Open, Order, Scope, Settle, SyncCall, SyncWhen, Type, Via,
};
pub use error::PolicyError;
pub use table::{Listed, Row, list};

/// A named policy with any of its axes turned. Its text is the name of an arm: `deferred`, `deferred+hint=none`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    row: &'static Row,
    axes: Axes,
}

/// What a policy needs of a place; asked for instead of the policy's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a set of needs: each is there or not")]
pub struct Needs {
    /// syncfs: stalls everybody else on the same file system.
    pub whole_file_system_sync: bool,
    /// FICLONE: btrfs, XFS with reflink.
    pub reflink: bool,
    /// Files that can be opened with O_DIRECT.
    pub direct_io: bool,
    /// Linux AIO, and space that is allocated before it is written.
    pub aio: bool,
    /// io_uring, not switched off by sysctl or seccomp.
    pub io_uring: bool,
    /// A private copy of the source on the same file system: the original could be left with shared extents.
    pub staged_source: bool,
}

impl Policy {
    /// Every axis.
    pub fn axes(&self) -> &Axes {
        &self.axes
    }

    /// The row it starts from.
    pub fn row(&self) -> &'static Row {
        self.row
    }

    /// What a finished copy claims under this policy, on a file system that refuses nothing.
    pub fn promise(&self) -> Promise {
        let axes = &self.axes;
        let data = match axes.sync {
            SyncWhen::Syncfs => return Promise::Tree,
            SyncWhen::Each | SyncWhen::After | SyncWhen::Held => true,
            SyncWhen::Never | SyncWhen::Dummy => axes.open != Open::Plain,
        };
        match (data, axes.dirs) {
            (false, _) => Promise::Nothing,
            (true, Dirs::None) => Promise::Data,
            (true, Dirs::Own) => Promise::Entries,
            (true, Dirs::OwnAndParent) => Promise::Tree,
        }
    }

    /// What it claims on ext4 without a journal: there syncfs may write inode tables after its flush (docs/CUTS.md), so that
    /// nothing can be claimed for it.
    pub fn promise_without_journal(&self) -> Promise {
        if self.axes.sync == SyncWhen::Syncfs { Promise::Nothing } else { self.promise() }
    }

    /// What it needs of a place.
    pub fn needs(&self) -> Needs {
        let axes = &self.axes;
        Needs {
            whole_file_system_sync: axes.sync == SyncWhen::Syncfs,
            reflink: axes.copy == CopyBy::Reflink,
            direct_io: matches!(axes.copy, CopyBy::Direct | CopyBy::Aio),
            aio: axes.copy == CopyBy::Aio,
            io_uring: axes.via == Via::IoUring,
            staged_source: !matches!(axes.copy, CopyBy::ReadWrite | CopyBy::Aio),
        }
    }

    /// True where another way of moving bytes would be a different policy: a server reports the error.
    pub fn replays_server(&self) -> bool {
        self.row.servers.is_some()
    }
}

impl FromStr for Policy {
    type Err = PolicyError;

    /// `NAME[+AXIS=VALUE]…`; the name of a row or of any server version (`pg-15`).
    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let mut parts = text.split('+').peekable();
        let name = parts.next().unwrap_or_default();
        if name.is_empty() {
            return Err(PolicyError::NoName { given: text.to_owned() });
        }
        let row = table::find(name).ok_or_else(|| PolicyError::policy(name))?;
        let mut axes = row.axes;
        let mut given: Vec<Axis> = Vec::new();
        while let Some(part) = parts.next() {
            let (name, value) =
                part.split_once('=').ok_or_else(|| PolicyError::NoValue { given: part.to_owned() })?;
            let turned = Axis::find(name).ok_or_else(|| PolicyError::axis(name))?;
            if given.contains(&turned) {
                return Err(PolicyError::AxisTwice { axis: turned });
            }
            given.push(turned);
            // `own+parent` is one value: what has no `=` belongs to the value before it.
            let mut value = value.to_owned();
            while let Some(rest) = parts.next_if(|part| !part.contains('=')) {
                value.extend(["+", rest]);
            }
            axes.set(turned, &value).ok_or_else(|| PolicyError::value(turned, &value))?;
        }
        match rules::broken(&axes, &given) {
            Some(rule) => Err(PolicyError::Meaningless { rule: rule.why }),
            None => Ok(Self { row, axes }),
        }
    }
}

impl fmt::Display for Policy {
    /// The canonical text: aliases resolved, axes that equal the base's dropped, the others in the order of [`Axis::ALL`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.row.name.to_owned();
        for axis in Axis::ALL {
            let value = self.axes.value(axis);
            if value != self.row.axes.value(axis) {
                text.extend(["+", axis.name(), "=", &value]);
            }
        }
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests;
