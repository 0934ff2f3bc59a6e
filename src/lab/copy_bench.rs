//! What all arms of a copy run have in common: a place with a source in it, the kernel, what must be so before a trial.

use std::path::PathBuf;
use std::time::Duration;

use super::arm::Halt;
use super::copy_notes;
use super::failed::failed_otherwise;
use super::rate::Rate;
use crate::place::{Place, Settled};
use crate::replay::verify::Verify;
use crate::results::{Input, Note, Refused};
use crate::sys::tallied::Tallied;
use crate::sys::watch::{Event, Phase, Watch};

/// How long a trial waits for an idle disk: on one that others keep busy, all trials together must not take minutes.
const IDLE_LIMIT: Duration = Duration::from_secs(1);

/// Names that a copy run uses in its directory.
pub const NAMES: [&str; 5] = [SOURCE, COPY, TRY, BESIDE, DIRT];
/// The staged source.
pub const SOURCE: &str = "source";
/// What a bystander appends to.
pub(super) const BESIDE: &str = "bystander";
/// What a neighbour has written and not synced.
pub(super) const DIRT: &str = "dirt";
pub(super) const TRY: &str = "try";
pub(super) const COPY: &str = "copy";

/// A place that a run has entered, and what is copied there.
#[derive(Clone, Debug)]
pub struct Workshop<'a> {
    /// The place.
    pub place: &'a Place,
    /// The run's own directory in it.
    pub directory: PathBuf,
    /// The tree to copy: only read.
    pub source: PathBuf,
    /// A tree of the run's own, where one is needed: the original could be left with shared extents, changed, or cold.
    pub private: Option<PathBuf>,
    /// What is in that tree.
    pub input: Input,
}

/// What all arms of a run have in common.
pub struct Bench<'a, K> {
    /// Makes, counts and times the calls.
    pub kernel: &'a Tallied<K>,
    /// Hears of phases and says when to stop.
    pub watch: &'a dyn Watch,
    /// After the clock.
    pub verify: Verify,
    /// Arms that sync a whole file system may run beside a cluster.
    pub beside_server: bool,
    /// How long a command may take.
    pub command_limit: Duration,
    /// How often somebody else beside each trial wants a sync.
    pub bystander: Option<Rate>,
    /// How much a neighbour has written and not synced when a trial begins.
    pub dirty_bytes: Option<u64>,
}

/// What must be so before any trial at a place: room beside a cluster, nothing left to be written, an idle disk.
pub(super) fn settle<K>(bench: &Bench<'_, K>, shop: &Workshop<'_>) -> Result<Option<Note>, Halt> {
    let place = shop.place;
    bench.watch.event(Event::Phase(Phase::Settling));
    place
        .make_room_for(shop.input.bytes.saturating_add(bench.dirty_bytes.unwrap_or(0)))
        .map_err(|error| failed_otherwise(&error))?;
    if place.is_gentle() {
        return Ok(None);
    }
    place.sync_file_system().map_err(|error| failed_otherwise(&error))?;
    match place.wait_until_idle(IDLE_LIMIT, bench.watch) {
        Settled::Idle | Settled::Unknown => Ok(None),
        Settled::Stopped => Err(Halt::Stopped),
        Settled::StillBusy => Ok(Some(copy_notes::not_idle(place, IDLE_LIMIT))),
    }
}

/// Why an arm that syncs the whole file system cannot be at a place that a running cluster shares.
pub(super) fn beside_server<K>(bench: &Bench<'_, K>, shop: &Workshop<'_>) -> Option<Refused> {
    (shop.place.is_gentle() && !bench.beside_server).then(|| Refused {
        code: "beside-server".to_owned(),
        text: "it would sync the whole file system beside a running cluster (--beside-server allows it)"
            .to_owned(),
    })
}
