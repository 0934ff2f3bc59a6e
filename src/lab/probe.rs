//! The adapter for probes: one case at a place is one arm, one slice of it a trial.

use std::cell::Cell;
use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use nix::errno::Errno;

use super::arm::{Arm, Halt, Trial};
use super::copy::failed_call;
use crate::probe::bench::{Bench, latencies};
use crate::probe::cases::{Case, Sync, Work};
use crate::results::{Labels, Note, Promise, Refused, Sample};
use crate::stats::{self, Percentiles};
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

    /// Whether it will run.
    pub fn runs(&self) -> bool {
        self.refused.is_none()
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
    Refused { code: code.to_owned(), text: format!("{}: {} ({errno:?})", call.name(), errno.desc()) }
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
