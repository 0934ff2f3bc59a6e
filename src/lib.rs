//! fsynclab: what it costs, on this storage, to be sure that data is on disk, and whether it is really there.
//!
//! Fourteen wings on six floors, each importing only from lower floors: see `docs/ARCHITECTURE.md`.

pub mod stats;
pub mod sys;
pub mod results;
pub mod replay;
pub mod storage;
pub mod server;
pub mod simdrive;
pub mod forecast;
pub mod place;
pub mod probe;
pub mod powercut;
pub mod lab;
pub mod report;
pub mod cli;
