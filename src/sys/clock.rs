//! CLOCK_MONOTONIC, and the date for a document's head.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC: never steps, not even when somebody sets the wall clock.
///
/// # Panics
/// Never on Linux: the clock always exists.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("CLOCK_MONOTONIC always exists");
    u64::try_from(Duration::from(now).as_nanos()).unwrap_or(u64::MAX)
}

/// The wall clock as UTC, RFC 3339, whole seconds.
pub fn utc_now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
