//! Floor 4: how fast and how honest a sync is: `cases` (what is timed), `bench` (the timed loop), `verdict` (what the
//! figures prove), `published` (other people's `pg_test_fsync` output, read, judged, compared).

pub mod bench;
pub mod cases;
pub mod published;
pub mod verdict;
