//! Floor 4: how fast and how honest a sync is: `cases` (what is timed), `bench` (the timed loop), the verdict, published
//! outputs.

pub mod bench;
pub mod cases;
