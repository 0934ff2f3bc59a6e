//! fsynclab: what it costs, on this storage, to be sure that data is on disk, and whether it is really there.
//!
//! Fourteen wings on six floors, each importing only from lower floors: see `docs/ARCHITECTURE.md`.

pub mod cli;
pub mod forecast;
pub mod lab;
pub mod place;
pub mod powercut;
pub mod probe;
pub mod replay;
pub mod report;
pub mod results;
pub mod server;
pub mod simdrive;
pub mod stats;
pub mod storage;
pub mod sys;
