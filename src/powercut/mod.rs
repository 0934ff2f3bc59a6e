//! Floor 4: power cuts. A copy runs on a simulated drive with a write log ([`record`]) and a ledger of what was
//! acknowledged ([`ledger`]); the log is cut ([`cuts`], the fault model in words); what may be left is put on a device and
//! mounted as after a reboot ([`stage`]), and compared with ledger and source ([`judge`]). In every run faults are planted
//! first, and must be found ([`planted`]). It stops at tallies: what they mean in a document is the conductor's business.

pub mod campaign;
pub mod planted;
pub mod postgres;
pub mod record;

pub mod ledger;
pub mod tree;

pub mod cuts;
pub mod image_text;
pub mod tape;

pub mod crew;
pub mod ground;
pub mod judge;
pub mod stage;
pub mod trial;

pub mod blocks;
pub mod contents;

pub mod witness;

pub mod error;

pub use campaign::{Campaign, Plan, Proof, Recorded};
pub use error::Error;
pub use witness::WitnessError;
