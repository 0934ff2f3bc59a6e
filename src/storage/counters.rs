//! What whole disks did, from `/sys/block/DISK/stat` (Documentation/block/stat.rst): world-readable, not kept for
//! partitions, and not counted for flushes by device mapper and md, which only pass them on.

use std::fs;

use crate::results::DeviceCounters;

use super::error::Error;
use super::root::Root;

/// What a disk has done so far, and what it is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Writes and flushes since the disk appeared.
    pub counters: DeviceCounters,
    /// Requests sent and not yet completed.
    pub in_flight: u64,
    /// Milliseconds with at least one request in flight.
    pub busy_ms: u64,
}

/// Writes and flushes of one whole disk. Kernels before 5.5 count no flushes: 0.
pub fn disk_counters(disk: &str, root: &Root) -> Result<DeviceCounters, Error> {
    Ok(activity(disk, root)?.counters)
}

/// Counters, requests in flight and busy time of one whole disk.
pub fn activity(disk: &str, root: &Root) -> Result<Activity, Error> {
    let path = root.at(format!("sys/class/block/{disk}/stat"));
    let text = fs::read_to_string(&path)
        .map_err(|source| Error::Read { path: path.clone(), source: source.into() })?;
    parse(&text).ok_or(Error::Malformed { path, line: 1 })
}

/// Fields counted from 1: 5 writes, 7 sectors of 512 bytes written, 9 in flight, 10 busy ms, 16 flushes.
fn parse(text: &str) -> Option<Activity> {
    let fields: Vec<u64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let at = |field: usize| fields.get(field - 1).copied();
    Some(Activity {
        counters: DeviceCounters {
            writes: at(5)?,
            bytes_written: at(7)?.wrapping_mul(512),
            flushes: at(16).unwrap_or(0),
        },
        in_flight: at(9)?,
        busy_ms: at(10)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_those_of_stat_rst() {
        let text = "   56571     8514  6032782    61812    25190    70970 26428416    87348        3    10356   \
                    150415    12421       28  3330176     1206     1539       48\n";
        let found = parse(text).expect("seventeen fields");
        let counters = DeviceCounters { writes: 25190, bytes_written: 26_428_416 * 512, flushes: 1539 };
        assert_eq!(found, Activity { counters, in_flight: 3, busy_ms: 10356 });
    }

    #[test]
    fn an_old_kernel_counts_no_flushes() {
        let found = parse("1 2 3 4 5 6 7 8 9 10 11").expect("eleven fields");
        assert_eq!((found.counters.writes, found.counters.flushes), (5, 0));
        assert_eq!(parse("1 2 x"), None);
    }
}
