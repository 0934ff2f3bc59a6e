//! The numbers of a drive, as a model's text gives them. MB is 10^6 bytes as on data sheets, KiB is 1024 bytes.

use serde::{Deserialize, Serialize};

use super::{Flush, Options};

/// The numbers of a drive.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Its name: `sata-2009`, or the path of its file.
    pub name: String,
    /// What it stands for, in one line.
    pub summary: String,
    /// Logical block, 512 or 4096.
    pub block_bytes: u32,
    /// The unit that a power cut does not tear, 512 or 4096.
    pub atomic_unit_bytes: u32,
    /// Requests the drive looks at together. At 1 the overhead of a command lies between a completion and the next
    /// start; above 1 it is hidden behind the work before it.
    pub queue_depth: u32,
    /// What a command costs before any work on it, in microseconds; also the least distance between two commands.
    pub command_overhead_us: f64,
    /// How it keeps its bytes.
    pub mechanism: Mechanism,
    /// The cache in front of that, if it has one.
    pub write_cache: Option<WriteCache>,
}

/// How a drive keeps its bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum Mechanism {
    /// Disks and an arm.
    Rotating(Rotating),
    /// Flash memory.
    Flash(Flash),
    /// A volume at the other end of a network.
    Network(Network),
}

/// Disks and an arm: one track after the other, all of one length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotating {
    /// Revolutions a minute.
    pub rpm: u32,
    /// Seek to the next track, in milliseconds.
    pub seek_track_to_track_ms: f64,
    /// Mean of all seeks, as data sheets give it, in milliseconds. A seek over the part d of the stroke takes
    /// track-to-track + c·√d; the mean of √d over all pairs is 8/15, which gives c.
    pub seek_average_ms: f64,
    /// The part of the stroke that the drive's size spans, for a file system need not fill a disk.
    pub stroke_part: f64,
    /// Sustained transfer, in MB/s; with the revolution it gives the length of a track.
    pub transfer_mb_per_s: f64,
}

/// Flash memory: channels that work side by side behind one bus.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// Requests that are read or programmed side by side.
    pub channels: u32,
    /// Time to read one, in microseconds.
    pub read_us: f64,
    /// Time to program one, in microseconds.
    pub program_us: f64,
    /// Time to make what was programmed findable after a power cut (the mapping table), in microseconds: once a
    /// flush with the cache on, once a write with it off.
    pub commit_us: f64,
    /// Transfer of all channels together when reading, in MB/s.
    pub read_mb_per_s: f64,
    /// Transfer of all channels together when writing, in MB/s.
    pub write_mb_per_s: f64,
}

/// A volume at the other end of a network. What it acknowledges is durable.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// From request to acknowledgement when nothing is capped, in microseconds.
    pub latency_us: f64,
    /// Cap in requests a second; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<f64>,
    /// A request counts once for each of these it begins, in KiB; once if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_unit_kib: Option<u32>,
    /// Cap while the burst bucket is not empty, in requests a second; needs `iops` and `burst_requests`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_iops: Option<f64>,
    /// Size of the burst bucket in requests; it starts full and fills at `iops`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_requests: Option<f64>,
    /// Cap in MB/s; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer_mb_per_s: Option<f64>,
}

/// A cache that acknowledges writes before the mechanism has them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteCache {
    /// Is it on when the drive is unpacked?
    pub on: bool,
    /// How large, in KiB.
    pub size_kib: u64,
    /// Does a power cut empty it?
    pub volatile: bool,
    /// What the drive does with a flush when it is unpacked.
    pub flush: Flush,
    /// How fast it takes bytes in, in MB/s.
    pub transfer_mb_per_s: f64,
    /// How long it stays non-empty before it is written to the mechanism in the background, in milliseconds.
    pub destage_after_ms: f64,
}

impl Model {
    /// The model that costs nothing: everything completes when it arrives. It measures what is around the model.
    #[must_use]
    pub fn zero() -> Model {
        Model {
            name: "zero".to_owned(),
            summary: "costs nothing: what is left is the cost of the simulation itself".to_owned(),
            block_bytes: 512,
            atomic_unit_bytes: 4096,
            queue_depth: 1024,
            command_overhead_us: 0.0,
            mechanism: Mechanism::Network(Network {
                latency_us: 0.0,
                iops: None,
                io_unit_kib: None,
                burst_iops: None,
                burst_requests: None,
                transfer_mb_per_s: None,
            }),
            write_cache: None,
        }
    }

    /// The options it ships with.
    #[must_use]
    pub fn options(&self, size_bytes: u64, seed: u64) -> Options {
        let (write_cache, flush) = match &self.write_cache {
            Some(cache) => (cache.on, cache.flush),
            None => (false, Flush::Honest),
        };
        Options { write_cache, flush, size_bytes, seed }
    }

    /// Does the kernel count it as rotating? File systems act on it.
    #[must_use]
    pub fn rotational(&self) -> bool {
        matches!(self.mechanism, Mechanism::Rotating(_))
    }

    /// Does a drive so set up tell the kernel `write back`, so that it is sent flushes? True while a volatile cache
    /// is on; a liar says so too.
    #[must_use]
    pub fn write_back(&self, options: &Options) -> bool {
        options.write_cache && self.write_cache.is_some_and(|cache| cache.volatile)
    }
}

/// Microseconds as nanoseconds, rounded.
pub(super) fn us_to_ns(us: f64) -> u64 {
    round(us * 1e3)
}

/// Milliseconds as nanoseconds, rounded.
pub(super) fn ms_to_ns(ms: f64) -> u64 {
    round(ms * 1e6)
}

/// The time that `bytes` take at `mb_per_s`, in nanoseconds.
pub(super) fn transfer_ns(bytes: u64, mb_per_s: f64) -> u64 {
    round(bytes as f64 * 1e3 / mb_per_s)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates: times are never negative"
)]
pub(super) fn round(value: f64) -> u64 {
    value.round() as u64
}
