//! Samples that are slices of many operations: the rate, and what the disk did for each operation.

use crate::results::{Arm, DeviceCounters, PerOperation, Sample};
use crate::stats;

/// Fills in what follows from an arm's slices; nothing where its samples are single operations.
pub(super) fn fill_in(arm: &mut Arm) {
    let slices = || arm.samples.iter().filter(|sample| !sample.ignored && sample.operations.is_some());
    let (rate, device) = (rate(slices()), per_operation(slices()));
    let counted = arm.samples.iter().filter(|sample| !sample.ignored);
    let tps: Vec<f64> = counted.filter_map(|sample| Some(sample.benched.as_ref()?.tps)).collect();
    let tps = stats::rate_summary(&tps);
    if let Some(summary) = &mut arm.summary {
        summary.ops_per_sec = rate;
        summary.median_tps = tps.as_ref().map(|tps| tps.median);
        summary.median_tps_ci95 = tps.and_then(|tps| tps.median_ci95);
    }
    arm.device = device;
}

fn rate<'a>(slices: impl Iterator<Item = &'a Sample>) -> Option<f64> {
    let (operations, elapsed_ns) = slices.fold((0, 0), |(operations, elapsed_ns), slice| {
        (operations + slice.operations.unwrap_or(0), elapsed_ns + slice.elapsed_ns)
    });
    (elapsed_ns > 0).then(|| operations as f64 * 1e9 / elapsed_ns as f64)
}

fn per_operation<'a>(slices: impl Iterator<Item = &'a Sample>) -> Option<PerOperation> {
    let mut operations = 0;
    let mut sum = DeviceCounters::default();
    for slice in slices {
        let done = slice.device?;
        operations += slice.operations?;
        sum.writes += done.writes;
        sum.bytes_written += done.bytes_written;
        sum.flushes += done.flushes;
    }
    let each = |count: u64| count as f64 / operations as f64;
    (operations > 0).then(|| PerOperation {
        flushes_per_op: each(sum.flushes),
        writes_per_op: each(sum.writes),
        bytes_written_per_op: each(sum.bytes_written),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(operations: u64, elapsed_ns: u64, flushes: u64) -> Sample {
        let device = DeviceCounters { writes: 2 * operations, bytes_written: 8192 * operations, flushes };
        Sample { operations: Some(operations), elapsed_ns, device: Some(device), ..Sample::default() }
    }

    fn arm(samples: Vec<Sample>) -> Arm {
        let elapsed_ns: Vec<u64> = samples.iter().map(Sample::operation_ns).collect();
        let mut arm = Arm { samples, summary: stats::summary(&elapsed_ns), ..Arm::default() };
        fill_in(&mut arm);
        arm
    }

    #[test]
    fn a_rate_is_operations_over_time_and_a_warm_up_is_in_nothing() {
        let warm_up = Sample { ignored: true, ..slice(1000, 1, 77) };
        let arm = arm(vec![warm_up, slice(10, 1_000_000, 10), slice(30, 1_000_000, 31)]);
        let rate = arm.summary.and_then(|summary| summary.ops_per_sec).expect("slices have a rate");
        assert!((rate - 20_000.0).abs() < 1e-6, "{rate}");
        let device = arm.device.expect("the disk was counted");
        assert!((device.flushes_per_op - 41.0 / 40.0).abs() < 1e-9, "{device:?}");
        assert!((device.writes_per_op - 2.0).abs() < 1e-9, "{device:?}");
    }

    #[test]
    fn where_one_slice_was_not_counted_nothing_is_said_of_the_disk() {
        let uncounted = Sample { device: None, ..slice(10, 1_000_000, 0) };
        assert_eq!(arm(vec![slice(10, 1_000_000, 10), uncounted]).device, None);
    }

    #[test]
    fn single_operations_have_neither() {
        let arm = arm(vec![Sample { elapsed_ns: 5, ..Sample::default() }]);
        assert_eq!((arm.summary.and_then(|summary| summary.ops_per_sec), arm.device), (None, None));
    }
}
