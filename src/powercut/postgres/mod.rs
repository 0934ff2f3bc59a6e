//! Power cuts under a server. A scratch cluster works on a simulated drive ([`workload`]), its acknowledgements are marks in
//! the drive's write log ([`ledger`], [`record`]); what a cut may leave is mounted, a real server recovers on it, and what it
//! then has is compared with the ledger ([`check`]). Images are drawn in [`images`] and judged several at a time in
//! [`judging`]; in every run the checker first proves itself ([`proof`]).
//!
//! What must hold after a cut:
//! - the server starts;
//! - a commit that was acknowledged is there with all it did; one with `synchronous_commit=off` may be lost, but of one
//!   connection only the last ones: no holes, nothing before a synchronous commit that was acknowledged;
//! - a database or a restore that was acknowledged is there, whole;
//! - pg_amcheck with heapallindexed finds nothing in any database, and every page has its checksum.

pub mod check;
pub mod images;
pub mod judging;
pub mod ledger;
pub mod proof;
pub mod record;
pub mod tally;
pub mod workload;

pub use judging::{Judging, Plan};
pub use record::{Recorded, Recording};
pub use tally::{Tally, Verdict};
pub use workload::Workload;
