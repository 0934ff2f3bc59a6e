//! A network volume: two meters (requests, bytes) that hold a request back, then the latency.

use super::Network;
use super::mechanism::Transfer;
use super::numbers::{round, us_to_ns};

/// The link to the volume.
#[derive(Debug)]
pub(super) struct Link {
    latency_ns: u64,
    io_unit_bytes: Option<u64>,
    requests: Meter,
    bytes: Meter,
}

impl Link {
    pub(super) fn new(numbers: &Network) -> Link {
        Link {
            latency_ns: us_to_ns(numbers.latency_us),
            io_unit_bytes: numbers.io_unit_kib.map(|kib| u64::from(kib) * 1024),
            requests: Meter::new(numbers.iops, numbers.burst_iops.zip(numbers.burst_requests)),
            bytes: Meter::new(numbers.transfer_mb_per_s.map(|mb| mb * 1e6), None),
        }
    }

    pub(super) fn serve(&mut self, transfer: &Transfer, now_ns: u64) -> u64 {
        let units = self.io_unit_bytes.map_or(1, |unit| transfer.length_bytes.div_ceil(unit).max(1));
        let allowed_ns = self.requests.take(units, now_ns);
        allowed_ns.max(self.bytes.take(transfer.length_bytes, now_ns)) + self.latency_ns
    }
}

/// Lets units pass at a steady rate, or at a faster one as long as its bucket holds credits. The bucket starts full
/// and fills at the steady rate.
#[derive(Debug)]
struct Meter {
    /// Nanoseconds a unit while there are credits; 0 without a cap.
    unit_ns: f64,
    bucket: Option<Bucket>,
    /// When the units let through so far have passed.
    passed_ns: f64,
}

#[derive(Debug)]
struct Bucket {
    fill_per_ns: f64,
    size: f64,
    credits: f64,
    at_ns: f64,
}

impl Meter {
    fn new(rate: Option<f64>, burst: Option<(f64, f64)>) -> Meter {
        let bucket = rate.zip(burst).map(|(rate, (_, size))| Bucket {
            fill_per_ns: rate / 1e9,
            size,
            credits: size,
            at_ns: 0.0,
        });
        let pass_rate = burst.map(|(rate, _)| rate).or(rate);
        Meter { unit_ns: pass_rate.map_or(0.0, |rate| 1e9 / rate), bucket, passed_ns: 0.0 }
    }

    /// When `units` that come at `now_ns` may go on: at once after a pause, else in turn.
    fn take(&mut self, units: u64, now_ns: u64) -> u64 {
        let now = now_ns as f64;
        let in_turn_ns = self.passed_ns.max(now);
        let start_ns = match &mut self.bucket {
            Some(bucket) => in_turn_ns.max(bucket.take(units as f64, in_turn_ns)),
            None => in_turn_ns,
        };
        self.passed_ns = start_ns + units as f64 * self.unit_ns;
        round(start_ns)
    }
}

impl Bucket {
    /// When the credits for `units` are there.
    fn take(&mut self, units: f64, now_ns: f64) -> f64 {
        self.credits = (self.credits + (now_ns - self.at_ns).max(0.0) * self.fill_per_ns).min(self.size);
        self.at_ns = now_ns;
        self.credits -= units;
        if self.credits >= 0.0 { now_ns } else { now_ns - self.credits / self.fill_per_ns }
    }
}
