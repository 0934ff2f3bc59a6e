//! Floor 4: How fast and how honest a sync is: cases, verdict, published outputs.

pub mod published;
pub mod verdict;
