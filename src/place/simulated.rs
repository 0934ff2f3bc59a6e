//! A simulated drive as a place: made, described as the drive its model is, marked, taken apart.

use super::{Place, PlaceError};
use crate::results::{CacheView, Disk, Note, NoteCode, Stack};
use crate::simdrive::model::{self, Flush, Mechanism, Model};
use crate::simdrive::mount::{Options, SimulatedDrive, model_of};
use crate::simdrive::spec::Spec;
use crate::storage::{self, Root};
use crate::sys::journal::Journal;

/// Drives on SATA take no more requests at a time.
const SATA_DEPTH: u32 = 32;

/// A mounted drive and what it was made from.
#[derive(Debug)]
pub(super) struct Simulated {
    pub(super) drive: SimulatedDrive,
    pub(super) spec: Spec,
    summary: String,
    flush: Flush,
}

impl Place {
    /// Makes a drive and looks at it. [`Place::close`] is the way out.
    pub fn simulate(id: &str, spec: &Spec, options: Options<'_>) -> Result<Self, PlaceError> {
        let model = model_of(spec)?;
        let set_up = spec.options(&model, options.seed)?;
        let journal = options.journal;
        let drive = SimulatedDrive::create(spec, options)?;
        let stack = match stack(&drive, &model, &set_up) {
            Ok(stack) => stack,
            Err(error) => {
                // What made it fail tells more than what follows from that.
                drive.close(journal).unwrap_or_default();
                return Err(error);
            }
        };
        Ok(Self {
            id: id.to_owned(),
            directory: drive.mount_point().to_owned(),
            stack,
            neighbours: Vec::new(),
            simulated: Some(Simulated {
                drive,
                spec: spec.clone(),
                summary: model.summary,
                flush: set_up.flush,
            }),
        })
    }

    /// Leaves a mark in the write log of a simulated drive: what follows is this.
    pub fn mark(&self, text: &str) -> Result<(), PlaceError> {
        self.simulated.as_ref().map_or(Ok(()), |simulated| Ok(simulated.drive.mark(text)?))
    }

    /// Whether a simulated drive takes its model's time; what it was given meanwhile is on it when that begins.
    fn latency(&self, on: bool) -> Result<(), PlaceError> {
        let Some(simulated) = &self.simulated else { return Ok(()) };
        if on {
            self.sync_file_system()?;
        }
        Ok(simulated.drive.latency(on)?)
    }

    /// Takes a drive apart; a directory stays as it is.
    pub fn close(self, journal: &Journal) -> Result<(), PlaceError> {
        self.simulated.map_or(Ok(()), |simulated| Ok(simulated.drive.close(journal)?))
    }
}

/// Does something while the simulated drives among the places take no time: for what is made before anything is measured.
/// After an error they stay so.
pub fn at_full_speed<T, E: From<PlaceError>>(
    places: &[Place],
    deed: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    places.iter().try_for_each(|place| place.latency(false))?;
    let done = deed()?;
    places.iter().try_for_each(|place| place.latency(true))?;
    Ok(done)
}

impl Simulated {
    /// What stands beside every number.
    pub(super) fn notes(&self) -> Vec<Note> {
        let Self { spec, summary, .. } = self;
        let text = format!(
            "SIMULATED: {spec} is a model ({summary}) under a real {}; while it flushes, all else on it waits",
            spec.file_system.name()
        );
        let mut notes = vec![Note::info(NoteCode::Simulated, text)];
        if self.flush == Flush::Ignored {
            let text = format!("{spec} ignores flushes: what was synced there is not safe");
            notes.push(Note::warning(NoteCode::Simulated, text));
        }
        notes
    }
}

/// The file system and, in place of loop device and server, the drive that they stand for.
fn stack(drive: &SimulatedDrive, model: &Model, options: &model::Options) -> Result<Stack, PlaceError> {
    let name = drive.device_name();
    let root = Root::live();
    let mut stack = storage::stack(drive.mount_point(), &root)?;
    stack.layers.truncate(1);
    let claimed_rpm = match model.mechanism {
        Mechanism::Rotating(rotating) => Some(rotating.rpm),
        Mechanism::Flash(_) => Some(0),
        Mechanism::Network(_) => None,
    };
    stack.disks = vec![Disk {
        name: name.clone(),
        model: Some(model.name.clone()),
        kind: kind(model).to_owned(),
        size_bytes: Some(options.size_bytes),
        logical_block_bytes: Some(model.block_bytes),
        physical_block_bytes: Some(model.atomic_unit_bytes),
        claimed_rpm,
        rotational: model.rotational(),
        write_cache: cache(model, options, root.text(format!("sys/block/{name}/queue/write_cache"))),
        ..Disk::default()
    }];
    stack.counted = vec![name];
    stack.weakest_link = Some(storage::weakest(&stack));
    Ok(stack)
}

/// How a drive of this model is attached.
fn kind(model: &Model) -> &'static str {
    let battery = model.write_cache.is_some_and(|cache| !cache.volatile);
    match model.mechanism {
        Mechanism::Network(_) => "network",
        Mechanism::Rotating(_) if battery => "scsi",
        _ if model.queue_depth <= SATA_DEPTH => "sata",
        Mechanism::Rotating(_) => "scsi",
        Mechanism::Flash(_) => "nvme",
    }
}

/// Both views; a cache that a power cut does not empty is none to the kernel.
fn cache(model: &Model, options: &model::Options, kernel: Option<String>) -> CacheView {
    let (drive, remark) = match model.write_cache {
        None => ("none", None),
        Some(_) if !options.write_cache => ("off", None),
        Some(cache) if cache.volatile => ("on", None),
        Some(_) => ("none", Some("its cache survives a power cut".to_owned())),
    };
    CacheView { kernel, drive: Some(drive.to_owned()), remark }
}
