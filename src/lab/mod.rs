//! Floor 5: the conductor, which runs arms in interleaved rounds and makes a document of what they say, and one adapter
//! for each kind of arm. The conductor knows no kind; an adapter knows nothing of rounds. Nothing here formats a table
//! or prints.

pub mod arm;
pub mod cached;
pub mod compare;
pub mod conduct;
pub mod plan;

pub mod bystander;
pub mod command;
mod copy;
mod copy_bench;
mod copy_notes;
mod copy_policy;
pub mod copy_run;
pub mod source_cache;

pub mod createdb;
mod failed;
pub mod fit;
pub mod head;
mod operations;
pub mod pgbench;
pub mod plug;
pub mod plug_postgres;
pub mod price;
pub mod probe;
mod probe_facts;
pub mod probe_pairs;
pub mod probe_run;
mod probe_verdict;
pub mod published;
pub mod rate;
pub mod restore;
pub mod servers;
pub mod witness;

#[cfg(test)]
mod scripted;

pub use arm::{Arm, Halt, Trial};
pub use conduct::{Run, conduct};
pub use plan::{Order, Plan};
