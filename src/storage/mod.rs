//! Floor 3: What lies under a path, and the write cache of the disks there. [`stack()`] walks from a path to its
//! disks; [`counters`](disk_counters) says what they did; [`weakest`] and [`notes`] put a stack into words.

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

pub use counters::{Activity, activity, disk_counters};
pub use drive::{Attached, Cache, Commands, DriveError, ask_drives};
pub use error::Error;
pub use hazard::{Hazard, hazards};
pub use root::Root;
pub use stack::stack;
pub use switch::{Care, Switch, SwitchError, Switched, SwitchedCache, write_cache};
pub use words::{in_memory, notes, overlay_volatile, preload_note, weakest};

/// What this wing knows to undo.
pub const UNDO: &crate::sys::undo::UndoTable = &[crate::sys::undo::UndoKind::of::<SwitchedCache>()];
