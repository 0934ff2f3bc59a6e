//! Disks and an arm.
//!
//! All tracks are alike: a byte's angle is its offset modulo the length of a track, so that bytes in a row pass under
//! the head in a row, across tracks too. The disk turns whether or not anybody asks: the angle under the head is the
//! time modulo one revolution. To serve a request: seek (nothing on the same track or to the very next byte), wait
//! until the first byte comes round, transfer. Who comes late by a moment waits for almost a revolution.
//!
//! After a read the drive goes on reading into its buffer for up to a revolution; the next bytes, if asked for in that
//! time, are there without a wait.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::mechanism::{Direction, Transfer};
use super::numbers::{ms_to_ns, round};
use super::{Options, Rotating};

/// Rounding to whole nanoseconds must not cost a revolution.
const LATE_NS: u64 = 100;

/// The mean of √d over all pairs of places, d their distance.
const MEAN_ROOT: f64 = 8.0 / 15.0;

/// One arm over one surface.
#[derive(Debug)]
pub(super) struct Disk {
    revolution_ns: u64,
    track_bytes: u64,
    track_to_track_ns: u64,
    /// What a seek over the drive's whole size takes beyond track-to-track.
    stroke_ns: f64,
    size_bytes: u64,
    /// The angle at time 0, as a time.
    start_ns: u64,
    head_bytes: u64,
    free_ns: u64,
    /// Until when the head has been reading in a row, up to the byte at `head_bytes`.
    read_until_ns: Option<u64>,
}

impl Disk {
    pub(super) fn new(numbers: &Rotating, options: &Options) -> Disk {
        let revolution_ns = 60_000_000_000 / u64::from(numbers.rpm);
        let track_bytes = round(numbers.transfer_mb_per_s * revolution_ns as f64 / 1e3).max(1);
        let beyond_ms = (numbers.seek_average_ms - numbers.seek_track_to_track_ms).max(0.0) / MEAN_ROOT;
        Disk {
            revolution_ns,
            track_bytes,
            track_to_track_ns: ms_to_ns(numbers.seek_track_to_track_ms),
            stroke_ns: beyond_ms * 1e6 * numbers.stroke_part.sqrt(),
            size_bytes: options.size_bytes.max(1),
            start_ns: start_angle_ns(options.seed, revolution_ns),
            head_bytes: 0,
            free_ns: 0,
            read_until_ns: None,
        }
    }

    pub(super) fn free_ns(&self) -> u64 {
        self.free_ns
    }

    pub(super) fn head_bytes(&self) -> u64 {
        self.head_bytes
    }

    /// Seek and wait.
    pub(super) fn access_ns(&self, transfer: &Transfer, now_ns: u64) -> u64 {
        let seek_ns = self.seek_ns(transfer.offset_bytes);
        seek_ns + self.wait_ns(transfer.offset_bytes, now_ns + seek_ns)
    }

    pub(super) fn serve(&mut self, transfer: &Transfer, now_ns: u64) -> u64 {
        let length_ns = self.length_ns(transfer.length_bytes);
        let first_ns = match self.ahead_from_ns(transfer, now_ns) {
            Some(read_until_ns) => read_until_ns,
            None => now_ns + self.access_ns(transfer, now_ns),
        };
        let passed_ns = first_ns + length_ns;
        self.head_bytes = transfer.offset_bytes + transfer.length_bytes;
        self.free_ns = passed_ns.max(now_ns);
        self.read_until_ns = (transfer.direction == Direction::Read).then_some(passed_ns);
        self.free_ns
    }

    /// Since when the head has been reading these very bytes ahead of the request, if it has.
    fn ahead_from_ns(&self, transfer: &Transfer, now_ns: u64) -> Option<u64> {
        let read_until_ns = self.read_until_ns?;
        let in_a_row = transfer.direction == Direction::Read && transfer.offset_bytes == self.head_bytes;
        (in_a_row && now_ns.saturating_sub(read_until_ns) <= self.revolution_ns).then_some(read_until_ns)
    }

    fn seek_ns(&self, to_bytes: u64) -> u64 {
        let distance_bytes = to_bytes.abs_diff(self.head_bytes);
        if distance_bytes == 0 || to_bytes / self.track_bytes == self.head_bytes / self.track_bytes {
            return 0;
        }
        let part = distance_bytes as f64 / self.size_bytes as f64;
        self.track_to_track_ns + round(self.stroke_ns * part.min(1.0).sqrt())
    }

    /// From `now_ns` until the byte comes round.
    fn wait_ns(&self, offset_bytes: u64, now_ns: u64) -> u64 {
        let angle_ns = (now_ns + self.start_ns) % self.revolution_ns;
        let target_ns = self.length_ns(offset_bytes % self.track_bytes);
        let wait_ns = (target_ns + self.revolution_ns - angle_ns) % self.revolution_ns;
        if wait_ns + LATE_NS > self.revolution_ns { 0 } else { wait_ns }
    }

    fn length_ns(&self, bytes: u64) -> u64 {
        let whole = bytes / self.track_bytes * self.revolution_ns;
        whole + round((bytes % self.track_bytes) as f64 / self.track_bytes as f64 * self.revolution_ns as f64)
    }
}

fn start_angle_ns(seed: u64, revolution_ns: u64) -> u64 {
    ChaCha8Rng::seed_from_u64(seed).next_u64() % revolution_ns
}
