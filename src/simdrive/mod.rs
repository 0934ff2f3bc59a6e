//! Floor 3: Drives nobody has at hand. Pure: the model, its fit to published rates, the write log, the price. Acting:
//! the host that serves a drive and mounts a file system on it.

pub mod error;
pub mod fit;
pub mod host;
pub mod imply;
pub mod model;
pub mod models;
pub mod mount;
pub mod price;
pub mod spec;
pub mod writelog;

pub use error::Error;
