//! One timed execution of an arm, as numbers.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::{Benched, Databases, Restored};

/// Named parts of a trial that exclude each other, in nanoseconds; each name ends in `_ns`.
pub type Phases = BTreeMap<String, u64>;

/// What the whole disk under a place did during a trial, from `/sys/block/DISK/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCounters {
    /// Write requests completed.
    pub writes: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Flush requests completed (field 16; kernels from 5.5).
    pub flushes: u64,
}

impl DeviceCounters {
    /// What happened since an earlier reading of the same counters.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            writes: self.writes.wrapping_sub(earlier.writes),
            bytes_written: self.bytes_written.wrapping_sub(earlier.bytes_written),
            flushes: self.flushes.wrapping_sub(earlier.flushes),
        }
    }
}

/// One trial of an arm. Fields of other kinds of runs are optional and left out where they do not apply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Counts from 1, warm-ups included.
    pub round: u32,
    /// Position of this trial within its round, from 1.
    pub position: u32,
    /// True for warm-ups: kept, never used.
    pub ignored: bool,
    /// From before the mkdir of the destination to the return of the last sync, in nanoseconds.
    pub elapsed_ns: u64,
    /// Operations finished in that time, where a sample is a slice of many; a sample is one operation otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<u64>,
    /// Exclusive parts of `elapsed_ns`.
    #[serde(default, skip_serializing_if = "Phases::is_empty")]
    pub phases: Phases,
    /// Calls inside the clock, counted as they were made, named as strace names them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<String, u64>,
    /// Time inside the calls of each kind, in nanoseconds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls_ns: BTreeMap<String, u64>,
    /// The first sync of a file: it pays for what the copies left undone, later ones for themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_sync_ns: Option<u64>,
    /// What the disk did; absent where no whole disk is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceCounters>,
    /// What the disk of the WAL did, where that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_device: Option<DeviceCounters>,
    /// Of a trial of a restore.
    #[serde(flatten, deserialize_with = "read_flat")]
    pub restored: Option<Restored>,
    /// Of a trial of pgbench.
    #[serde(flatten, deserialize_with = "read_flat")]
    pub benched: Option<Benched>,
    /// Of a trial of CREATE DATABASE; its `calls` are those of the backend in one untimed CREATE before the first trial.
    #[serde(flatten)]
    pub databases: Option<Databases>,
}

impl Sample {
    /// What one operation took on the average, in nanoseconds, rounded down: what samples are compared by.
    pub fn operation_ns(&self) -> u64 {
        self.elapsed_ns / self.operations.unwrap_or(1).max(1)
    }
}

/// From all fields of a sample, which stay there for others: a flattened struct that is not there would take those of its
/// fields that another kind has too.
fn read_flat<'de, D: Deserializer<'de>, T: DeserializeOwned>(fields: D) -> Result<Option<T>, D::Error> {
    Ok(serde_json::from_value(Value::Object(Map::deserialize(fields)?)).ok())
}
