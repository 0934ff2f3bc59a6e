//! Floor 1: the only place with `unsafe`, syncs, clocks, child processes and randomness: `kernel` (the calls inside a
//! clock), `tools` (child processes), `watch` (progress and stop), `undo` (the journal of what must be undone), `files`
//! (atomic replacement).

pub mod direct;
pub mod kernel;
pub mod real;
pub mod tallied;
pub mod uring;

pub mod failing;

pub mod watch;

pub mod signals;

pub mod clock;

pub mod random;

pub mod error;

pub mod path_text;

pub use error::SysError;
