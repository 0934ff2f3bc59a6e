//! The adapter for probes: one case at a place is one arm, one slice of it a trial.

use std::cell::Cell;
use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use nix::errno::Errno;

use super::arm::{Arm, Halt, Trial};
use super::failed::failed_call;
use crate::probe::bench::{Bench, latencies};
use crate::probe::cases::{Case, Sync, Work};
use crate::results::{Labels, Note, Promise, Refused, Sample};
use crate::stats::{self, Percentiles};
use crate::sys::error::reason;
use crate::sys::kernel::{Call, Fault, Kernel};
use crate::sys::watch::Watch;

/// A warm-up is this part of a slice that counts: the try-out of every case has warmed up most.
pub const WARM_UP_PART: u64 = 10;
/// The name of a case's operations among the latencies.
pub const OPERATION: &str = "operation";

/// What all arms of a run have in common.
pub struct Slices<'a, K> {
    /// Where they run.
    pub bench: &'a Bench<'a, K>,
    /// Says when to stop.
    pub watch: &'a dyn Watch,
    /// The id of the place.
    pub place: &'a str,
    /// How long a slice takes; set once all cases have been tried.
    pub slice_ns: Cell<u64>,
    /// A running cluster shares the file system or a disk, and nobody allowed to sync all of it.
    pub spare_file_system: bool,
}

/// A case at a place.
pub struct ProbeArm<'a, K> {
    slices: &'a Slices<'a, K>,
    case: &'static Case,
    refused: Option<Refused>,
    latency_ns: Histogram<u64>,
}

impl<'a, K: Kernel> ProbeArm<'a, K> {
    /// Tries one operation: a case that cannot be here is refused. What fails otherwise fails again in the first round
    /// and is told there.
    pub fn try_out(slices: &'a Slices<'a, K>, case: &'static Case) -> Result<Self, Fault> {
        let mut arm = Self { slices, case, refused: None, latency_ns: latencies() };
        if slices.spare_file_system && syncs_all(case) {
            let text = "it would stall the running cluster on this file system; --beside-server allows it";
            arm.refused = Some(Refused { code: "beside-server".to_owned(), text: text.to_owned() });
            return Ok(arm);
        }
        if let Err(fault) = slices.bench.slice(case, 0) {
            slices.bench.clear()?;
            arm.refused = slices.cannot_be_here(&fault).then(|| refused(&fault));
        }
        Ok(arm)
    }

    /// The same case once more, to be measured in another state.
    #[must_use]
    pub fn another(&self) -> Self {
        Self { slices: self.slices, case: self.case, refused: self.refused.clone(), latency_ns: latencies() }
    }
}

impl<K: Kernel> Slices<'_, K> {
    /// Whether an error says that there is no such thing here. A sync of a regular file that fails is a failure.
    fn cannot_be_here(&self, fault: &Fault) -> bool {
        let no_such_thing = matches!(
            fault.errno,
            Errno::EINVAL | Errno::ENOTSUP | Errno::ENOSYS | Errno::EPERM | Errno::ESPIPE
        );
        let of_file = !self.bench.is_of_directory(fault);
        no_such_thing && !(of_file && matches!(fault.call, Call::Fsync | Call::Fdatasync))
    }
}

fn syncs_all(case: &Case) -> bool {
    matches!(case.work, Work::Writes { sync: Sync::Syncfs, .. })
}

fn refused(fault: &Fault) -> Refused {
    let Fault { call, errno, .. } = fault;
    let code = if *errno == Errno::EINVAL { "invalid-argument" } else { "not-supported" };
    Refused { code: code.to_owned(), text: format!("{}: {} ({errno:?})", call.name(), reason(*errno)) }
}

impl<K: Kernel> Arm for ProbeArm<'_, K> {
    fn labels(&self) -> Labels {
        let Case { block, method, .. } = *self.case;
        Labels::new().with("block", block).with("method", method).with("place", self.slices.place)
    }

    fn title(&self) -> Option<String> {
        Some(self.case.label.to_owned())
    }

    fn promise(&self) -> Option<Promise> {
        None
    }

    fn refused(&self) -> Option<Refused> {
        self.refused.clone()
    }

    fn prepare(&mut self, _trial: &Trial) -> Result<(), Halt> {
        Ok(())
    }

    fn run(&mut self, trial: &Trial) -> Result<Sample, Halt> {
        let whole_ns = self.slices.slice_ns.get();
        let slice_ns = if trial.ignored { whole_ns / WARM_UP_PART } else { whole_ns };
        let slice = self.slices.bench.slice(self.case, slice_ns).map_err(|fault| failed_call(&fault))?;
        if self.slices.watch.stop().is_some() {
            return Err(Halt::Stopped);
        }
        if !trial.ignored {
            self.latency_ns += &slice.latency_ns;
        }
        Ok(Sample {
            elapsed_ns: slice.elapsed_ns,
            operations: Some(slice.operations),
            device: slice.device,
            ..trial.sample()
        })
    }

    fn check(&mut self, _trial: &Trial) -> Result<(), Halt> {
        Ok(())
    }

    fn clear(&mut self, _trial: &Trial) -> Result<(), Halt> {
        Ok(self.slices.bench.clear().map_err(|fault| failed_call(&fault))?)
    }

    fn latency(&self) -> BTreeMap<String, Percentiles> {
        let percentiles = stats::percentiles(&self.latency_ns);
        percentiles.map(|percentiles| (OPERATION.to_owned(), percentiles)).into_iter().collect()
    }

    fn notes(&self) -> Vec<Note> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::lab::{Run, conduct, scripted};
    use crate::probe::bench::Beside;
    use crate::probe::cases::find;
    use crate::results::Document;
    use crate::sys::failing::{Effect, Failing, Planned};
    use crate::sys::real::Real;
    use crate::sys::watch::Quiet;

    /// Two rounds of these cases on a kernel with faults to come.
    fn probed(faults: &[Planned], cases: &[(&str, &str)], spare_file_system: bool) -> Document {
        let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let kernel = Failing::new(Real, faults.iter().copied());
        let beside = Beside { watch: &Quiet, counters: &|| None };
        let mut random = ChaCha8Rng::seed_from_u64(42);
        let bench = Bench::new(&kernel, directory.path(), &mut random, beside).expect("a bench");
        let slice_ns = Cell::new(1_000_000);
        let slices = Slices { bench: &bench, watch: &Quiet, place: "p1", slice_ns, spare_file_system };
        let mut arms: Vec<Box<dyn Arm + '_>> = Vec::new();
        for (block, method) in cases {
            let case = find(block, method).expect("a case");
            arms.push(Box::new(ProbeArm::try_out(&slices, case).expect("what a try-out leaves is cleared")));
        }
        let plan = scripted::plan(2, 0);
        let run = Run { plan: &plan, watch: &Quiet, now_ns: &|| 0, longer: "--time-limit" };
        let kept: Result<_, std::convert::Infallible> =
            conduct(&run, scripted::head(), &mut arms, &mut |_| Ok(()));
        match kept {
            Ok(document) => document,
        }
    }

    fn always(call: Call, errno: Errno) -> Planned {
        Planned::from_nth(call, 1, Effect::Errno(errno))
    }

    #[test]
    fn what_cannot_be_here_is_refused_with_call_and_error_and_the_others_run() {
        let cases = [
            ("others", "sync_file_range"),
            ("others", "syncfs"),
            ("wal", "allocated"),
            ("one8", "fdatasync"),
        ];
        let faults = [
            always(Call::SyncFileRange, Errno::ENOSYS),
            always(Call::Syncfs, Errno::EPERM),
            always(Call::Fallocate, Errno::EOPNOTSUPP),
        ];
        let document = probed(&faults, &cases, false);
        let refused: Vec<Option<&str>> = document
            .arms
            .iter()
            .map(|arm| arm.refused.as_ref().map(|refused| refused.text.as_str()))
            .collect();
        assert_eq!(
            refused,
            [
                Some("sync_file_range: Function not implemented (ENOSYS)"),
                Some("syncfs: Operation not permitted (EPERM)"),
                Some("fallocate: Operation not supported (EOPNOTSUPP)"),
                None
            ]
        );
        assert_eq!(document.arms[3].samples.len(), 2);
        assert!(document.complete);
    }

    #[test]
    fn a_directory_that_takes_no_fsync_is_refused_and_a_file_is_a_failure() {
        // The bench itself syncs 17 files; then come the new file and its directory.
        let of_directory = Planned::nth(Call::Fsync, 19, Effect::Errno(Errno::EINVAL));
        let document = probed(&[of_directory], &[("names", "create")], false);
        assert!(document.arms[0].refused.is_some(), "{:?}", document.arms[0]);
        let of_file = Planned::from_nth(Call::Fsync, 18, Effect::Errno(Errno::EINVAL));
        let document = probed(&[of_file], &[("one8", "fsync"), ("nosync", "write")], false);
        let failed = document.arms[0].failed.as_ref().expect("a sync of a file must not be refused");
        assert_eq!((failed.call.as_deref(), failed.errno), (Some("fsync"), Some(libc::EINVAL)));
        assert_eq!(document.arms[1].samples.len(), 2);
    }

    #[test]
    fn a_sync_that_fails_ends_its_line_and_not_the_run() {
        // The second one: the first is the try-out.
        let fault = Planned::nth(Call::Fdatasync, 2, Effect::Errno(Errno::EIO));
        let document = probed(&[fault], &[("one8", "fdatasync"), ("one8", "fsync")], false);
        let failed = document.arms[0].failed.as_ref().expect("it failed");
        assert!(failed.text.starts_with("could not fdatasync file"), "{}", failed.text);
        assert!(document.arms[0].samples.is_empty() && document.arms[1].samples.len() == 2);
    }

    #[test]
    fn beside_a_cluster_the_whole_file_system_is_not_synced() {
        let cases = [("others", "syncfs"), ("one8", "fdatasync")];
        let never = [always(Call::Syncfs, Errno::EIO)];
        let document = probed(&never, &cases, true);
        assert_eq!(
            document.arms[0].refused.as_ref().map(|refused| refused.code.as_str()),
            Some("beside-server")
        );
        assert!(document.arms.iter().all(|arm| arm.failed.is_none()));
    }

    #[test]
    fn a_line_has_its_rate_and_its_latencies_over_all_slices() {
        let document = probed(&[], &[("nosync", "write")], false);
        let arm = &document.arms[0];
        let operations: u64 = arm.samples.iter().filter_map(|sample| sample.operations).sum();
        assert_eq!(arm.latency[OPERATION].n, operations);
        assert!(arm.summary.as_ref().and_then(|summary| summary.ops_per_sec).is_some_and(|rate| rate > 0.0));
        assert_eq!(arm.name, "nosync");
    }
}
