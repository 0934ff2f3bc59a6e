//! Floor 3: What lies under a path, and the write cache of the disks there. [`stack()`] walks from a path to its
//! disks, [`survey`] asks them too; [`counters`](disk_counters) says what they did; [`weakest`] and [`notes`] put a
//! stack into words.

pub mod clusters;
mod counters;
mod disk;
pub mod drive;
pub mod error;
mod file_systems;
mod hazard;
pub mod mounts;
pub mod root;
mod stack;
mod switch;
mod words;

use std::path::Path;

use crate::results::Stack;
use crate::sys::undo::{UndoKind, UndoTable};

pub use counters::{Activity, activity, disk_counters};
pub use drive::{Attached, Cache, Commands, DriveError, Told, ask_drives};
pub use error::Error;
pub use hazard::{Hazard, hazards};
pub use root::Root;
pub use stack::stack;
pub use switch::{Care, Switch, SwitchError, Switched, SwitchedCache, write_cache};
pub use words::{flushes_end_at, in_memory, notes, overlay_volatile, preloaded, weakest};

/// All there is to be known of the storage under a path of this machine: the stack, the drives' own view where they can
/// be asked, the weakest link.
pub fn survey(path: &Path) -> Result<Stack, Error> {
    let mut found = stack(path, &Root::live())?;
    ask_drives(&mut found, &Attached);
    found.weakest_link = Some(weakest(&found));
    Ok(found)
}

/// What this wing knows to undo.
pub const UNDO: &UndoTable = &[UndoKind::of::<SwitchedCache>()];
