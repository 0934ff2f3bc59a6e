//! What probes and published outputs of pg_test_fsync add to a document.

use serde::{Deserialize, Serialize};

use super::DeviceCounters;

/// What the whole disk did for one operation: its counters over all slices, divided by their operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PerOperation {
    /// Flush requests completed. FUA writes are none and are not counted.
    pub flushes_per_op: f64,
    /// Write requests completed.
    pub writes_per_op: f64,
    /// Bytes written.
    pub bytes_written_per_op: f64,
}

/// What the disks did while this run was still: others' doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// How long they were watched, in nanoseconds.
    pub elapsed_ns: u64,
    /// Nanoseconds of it with a request in flight, on the busiest disk.
    pub busy_ns: u64,
    /// What was written and flushed.
    pub device: DeviceCounters,
}

impl Baseline {
    /// The part of the time in which a request was in flight, in percent.
    pub fn busy_percent(&self) -> f64 {
        100.0 * self.busy_ns as f64 / self.elapsed_ns.max(1) as f64
    }
}

/// What the figures of a sync prove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncVerdict {
    /// `not-asked`, `not-needed`, `honoured`, `answered-from-memory`, `plausible`, `cannot-tell`.
    pub code: String,
    /// Sentences, the decisive one first.
    pub reasons: Vec<String>,
    /// A value that `wal_sync_method` takes here, or `keep the default`, or words for why none is named.
    pub wal_sync_method: String,
    /// The same with its reasons.
    pub advice: String,
}

/// The verdict with the write cache in one state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheVerdict {
    /// `on` or `off`, as the label.
    pub write_cache: String,
    /// What the figures of that state prove.
    #[serde(flatten)]
    pub verdict: SyncVerdict,
}

/// One run of pg_test_fsync, as it was read from a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedSet {
    /// File, and the number of the run in it where there are several.
    pub source: String,
    /// First and last line in the text, from 1.
    pub lines: [usize; 2],
    /// `macos`, `windows`, `unix`; absent where the text does not show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// Whether the `open_*` lines used direct I/O; absent where no line speaks of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct_io: Option<bool>,
    /// Size of one write, where it is not 8 kB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_kb: Option<u32>,
    /// The server versions whose layout the text has, as `9.3 to 13`.
    pub versions: String,
    /// Whether all 18 lines are there and none is cut off.
    pub complete: bool,
    /// The lines that were read; one that is missing in the text is missing here.
    pub rows: Vec<PublishedRow>,
    /// What the set proves.
    pub verdict: SyncVerdict,
}

/// One line of a published run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedRow {
    /// `one8`, `two8`, `sizes`, `fd`, `nosync`.
    pub block: String,
    /// Key within the block.
    pub method: String,
    /// Null for `n/a`.
    pub ops_per_sec: Option<f64>,
    /// As printed; null for `n/a` and before 9.3.
    pub usecs_per_op: Option<u64>,
}
