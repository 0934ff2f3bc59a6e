//! Real power cuts. A witness on another machine ([`listen`]) keeps a ledger ([`book`]) of what a writer ([`mod@write`]) on
//! the machine under test is about to write and of what it was told is durable ([`event`]); after the reboot the ledger
//! ([`history`]) is compared with what is found ([`check`]). Every sector that is written says what it is ([`sector`]).
//! The wire ([`wire`]) and the ledger are described in docs/WITNESS.md. It stops at judgements: what they mean in a
//! document is the conductor's business.

pub mod event;
pub mod method;
pub mod sector;

pub mod token;
pub mod wire;

pub mod book;
pub mod listen;

mod files;
pub mod link;
pub mod write;

pub mod check;
pub mod history;

pub mod error;

pub use error::WitnessError;
