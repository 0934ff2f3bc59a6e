//! What all runs on real servers share: where servers come from, a server as a run uses it, what their arms do alike.

mod server;
mod source;

use std::time::Duration;

pub(super) use server::Server;
pub(super) use source::{Source, refuse_if_others_are_active};

use super::arm::{Arm, Halt};
use super::cached::{Caches, in_state};
use crate::place::{Asked, Place, PlaceError, Settled};
use crate::results::{DeviceCounters, Failed, Note, NoteCode};
use crate::server::conninfo::Target;
use crate::server::error::ServerError;
use crate::server::settings::{self, Setting};
use crate::storage::{Attached, Cache};
use crate::sys::SysError;
use crate::sys::clock::now_ns;
use crate::sys::journal::Journal;
use crate::sys::watch::{Event, Phase, Watch};

/// How long a trial waits for an idle disk.
const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// A state of the write cache with the disks that are turned to it, if any, and settings.
type Way<'c, 'a> = (Option<(Cache, &'c Caches<'a, Attached>)>, Vec<Setting>);

/// The servers of a run, as they were asked for.
#[derive(Clone, Debug, Default)]
pub struct ServersRequest {
    /// Where scratch clusters are made.
    pub scratch: Vec<Asked>,
    /// Where their WAL lies, if not with the data.
    pub wal_into: Option<Asked>,
    /// `[NAME=]DIR` of their programs.
    pub binaries: Vec<String>,
    /// Servers that are not ours, by name.
    pub servers: Vec<(String, Target)>,
    /// Other clients of a server that is not ours may be active.
    pub others_may_be_active: bool,
    /// For all scratch clusters.
    pub settings: Vec<Setting>,
    /// Each list a label, each value an arm.
    pub varied: Vec<Vec<Setting>>,
    /// The states of the write cache below scratch clusters to compare; none leaves it as it is.
    pub write_caches: Vec<Cache>,
    /// Switch it though others rely on the disk.
    pub force: bool,
}

impl ServersRequest {
    /// Refuses settings that would open a scratch cluster to others or move it.
    pub(super) fn check(&self) -> Result<(), ServerError> {
        settings::check_scratch(&self.settings)?;
        self.varied.iter().try_for_each(|values| settings::check_scratch(values))
    }

    /// Every place, that of the WAL last.
    pub(super) fn places(&self) -> Vec<Asked> {
        self.scratch.iter().chain(&self.wal_into).cloned().collect()
    }

    /// The names of the settings that are varied.
    pub(super) fn varied_names(&self) -> Vec<&str> {
        self.varied.iter().filter_map(|values| Some(values.first()?.name.as_str())).collect()
    }

    /// The disks of each place, taken before a cluster of ours is there to rely on them; none where no cache is switched.
    pub(super) fn caches<'a>(&self, places: &[Place], journal: &'a Journal) -> Vec<Caches<'a, Attached>> {
        if self.write_caches.is_empty() {
            return Vec::new();
        }
        let below = |place| Caches::below(place, &self.write_caches, self.force, journal, &Attached);
        places.iter().map(below).collect()
    }

    /// Every combination of what is varied at a place: the state of the write cache, unless it is left as it is or the
    /// server is not ours, and the settings.
    pub(super) fn ways<'c, 'a>(
        &self,
        place: Option<usize>,
        caches: &'c [Caches<'a, Attached>],
    ) -> Vec<Way<'c, 'a>> {
        let states = match place.and_then(|index| caches.get(index)) {
            Some(caches) => self.write_caches.iter().map(|to| Some((*to, caches))).collect(),
            None => vec![None],
        };
        let settings = settings::product(&self.varied);
        states
            .into_iter()
            .flat_map(|state| settings.iter().map(move |settings| (state, settings.clone())))
            .collect()
    }

    /// How many ways there are at a place.
    pub(super) fn ways_at(&self, place: Option<usize>) -> usize {
        let states = place.map_or(1, |_| self.write_caches.len().max(1));
        states * settings::product(&self.varied).len()
    }
}

/// Why a run on servers did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum ServersError {
    /// A place takes no cluster.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// A server failed.
    #[error(transparent)]
    Server(#[from] ServerError),
}

/// Waits for an idle disk before a trial, unless a running cluster would feel it; what a reader must know of that.
pub(super) fn settle(place: Option<&Place>, watch: &dyn Watch) -> Result<Option<Note>, Halt> {
    let Some(place) = place.filter(|place| !place.is_gentle()) else { return Ok(None) };
    watch.event(Event::Phase(Phase::Settling));
    match place.wait_until_idle(IDLE_LIMIT, watch) {
        Settled::Idle | Settled::Unknown => Ok(None),
        Settled::Stopped => Err(Halt::Stopped),
        Settled::StillBusy => {
            let text = format!("the disk was not idle after {} s: others use it", IDLE_LIMIT.as_secs());
            Ok(Some(Note::warning(NoteCode::NotIdle, text)))
        }
    }
}

/// Adds an arm, and a second copy of it where it is the first and that is asked for.
pub(super) fn add<'a, A: Arm + 'a>(
    arms: &mut Vec<Box<dyn Arm + 'a>>,
    state: Option<(Cache, &'a Caches<'a, Attached>)>,
    aa: bool,
    arm: impl Fn() -> A,
    into_control: impl FnOnce(A) -> A,
) {
    let is_baseline = arms.is_empty();
    arms.push(in_state(Box::new(arm()), state));
    if is_baseline && aa {
        arms.push(in_state(Box::new(into_control(arm())), state));
    }
}

/// An error as a failed trial, its hint with it.
pub(super) fn halt(error: &ServerError) -> Halt {
    match error {
        ServerError::Stopped(_) | ServerError::Sys(SysError::Stopped { .. }) => Halt::Stopped,
        error => failed(error, error.hint().as_deref()),
    }
}

/// A trial that failed, in words.
pub(super) fn failed(error: &dyn std::error::Error, hint: Option<&str>) -> Halt {
    let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
    Halt::Failed(Failed { text: format!("{error}{hint}"), errno: None, call: None, path: None })
}

/// What the disks of these places have done since then.
pub(super) fn counted<const N: usize>(
    places: [Option<&Place>; N],
    before: [Option<DeviceCounters>; N],
) -> [Option<DeviceCounters>; N] {
    let mut before = before.into_iter();
    places.map(|place| {
        let (before, after) = before.next().flatten().zip(place.and_then(Place::counters))?;
        Some(after.since(before))
    })
}

/// A note that is told once.
pub(super) fn add_note(notes: &mut Vec<Note>, note: Note) {
    if !notes.contains(&note) {
        notes.push(note);
    }
}

/// How long something took, in nanoseconds.
pub(super) fn timed(deed: impl FnOnce() -> Result<(), ServerError>) -> Result<u64, ServerError> {
    let began_ns = now_ns();
    deed()?;
    Ok(now_ns() - began_ns)
}
