//! Waiting for a place's disks to become idle, with a limit.

use std::thread;
use std::time::Duration;

use super::Place;
use crate::results::DeviceCounters;
use crate::storage::{self, Root};
use crate::sys::watch::{Deadline, Watch};

/// How often the disks are looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Looks in a row that must show a quiet disk.
const QUIET_LOOKS: u32 = 3;

/// How the waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Nothing in flight and nothing completed for a while.
    Idle,
    /// The limit was reached first: somebody goes on writing.
    StillBusy,
    /// No disk is known that could be waited for.
    Unknown,
    /// The run was told to stop meanwhile.
    Stopped,
}

impl Place {
    /// Waits until the disks under this place have nothing in flight and complete no writes, or until the limit.
    pub fn wait_until_idle(&self, limit: Duration, watch: &dyn Watch) -> Settled {
        let deadline = Deadline::after(limit);
        let mut quiet = 0;
        let Some(mut before) = self.activity() else { return Settled::Unknown };
        while quiet < QUIET_LOOKS {
            if watch.stop().is_some() {
                return Settled::Stopped;
            }
            if deadline.reached() {
                return Settled::StillBusy;
            }
            thread::sleep(LOOK.min(deadline.left()));
            let Some(now) = self.activity() else { return Settled::Unknown };
            quiet = if now == before && now.1 == 0 { quiet + 1 } else { 0 };
            before = now;
        }
        Settled::Idle
    }

    /// What was completed so far, and what is in flight.
    fn activity(&self) -> Option<(DeviceCounters, u64)> {
        let root = Root::live();
        let mut in_flight = 0;
        for device in &self.stack().counted {
            in_flight += storage::activity(device, &root).ok()?.in_flight;
        }
        Some((self.counters()?, in_flight))
    }
}
