//! What can go wrong with simulated drives.

/// An error of the simulated drives.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {}
