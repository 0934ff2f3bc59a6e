//! Floor 3: connections as psql makes them, scratch clusters, CREATE DATABASE. `conninfo` says where a server is,
//! `connect` goes there.

pub mod connect;
pub mod conninfo;
pub mod error;

pub use connect::{Session, connect};
pub use error::ServerError;
