//! Floor 1: the only place with `unsafe`, syncs, clocks, child processes and randomness: `kernel` (the calls inside a
//! clock), `tools` (child processes), `watch` (progress and stop), `undo` (the journal of what must be undone), `files`
//! (atomic replacement).

pub mod clock;
pub mod fork;
pub mod kernel;
pub mod loop_device;
pub mod memory;
pub mod mounts;
pub mod namespace;
pub mod real;
