//! Floor 1: the only place with `unsafe`, syncs, clocks, child processes and randomness. In groups: the calls inside a
//! clock (`kernel`) and their decorators; progress and stop; our own files and the journal of what must be undone; child
//! processes and commands to drives; forked processes, namespaces, mounts and loop devices; clock, chance, machine.
//! Stops at facts and deeds: what is measured, and why, is the business of others.

pub mod aio;
pub mod direct;
pub mod failing;
pub mod kernel;
pub mod real;
pub mod standard;
pub mod tallied;
pub mod uring;

pub mod signals;
pub mod watch;

pub mod files;
pub mod journal;
mod remove;
pub mod run_directory;
pub mod undo;

mod running;
pub mod tools;
pub mod user;

pub mod drive_ioctl;

pub mod fork;
pub mod loop_device;
pub mod memory;
pub mod mounts;
pub mod namespace;

pub mod clock;
pub mod host;
pub mod random;

pub mod error;
pub mod path_text;

pub use error::SysError;
