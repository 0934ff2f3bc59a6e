//! A policy as a way of copying: the replay engine, ready for any number of trials.

use std::fs;
use std::path::Path;

use super::arm::Halt;
use super::copy::{Copier, Made, Way, tallied};
use super::copy_bench::{Bench, TRY, Workshop, beside_server};
use super::copy_notes;
use super::failed::{failed_call, failed_io, failed_otherwise};
use crate::replay::engine::{Engine, EngineError};
use crate::replay::means::Means;
use crate::replay::policy::Policy;
use crate::results::{Failed, Refused, Sample};
use crate::sys::kernel::{Call, Kernel};
use crate::sys::tallied::Tallied;
use crate::sys::watch::Watch;

/// The policy at a place, refused where the place cannot offer what it needs.
pub(super) fn way<'a, K: Kernel>(
    bench: &'a Bench<'a, K>,
    shop: &Workshop<'_>,
    policy: &Policy,
) -> Result<Way<'a>, Failed> {
    let (kernel, watch) = (bench.kernel, bench.watch);
    let copier = engine(bench, shop, policy)?.map(|engine| -> Box<dyn Copier + 'a> {
        Box::new(Replayed { kernel, watch, policy: policy.clone(), engine })
    });
    Ok(Way {
        label: ("policy", policy.to_string()),
        promise: policy.promise(),
        staged_source: policy.needs().staged_source,
        copier,
        notes: copy_notes::before(policy, &shop.input).into_iter().collect(),
    })
}

/// The engine, or why the arm cannot be here.
fn engine<'a, K: Kernel>(
    bench: &'a Bench<'a, K>,
    shop: &Workshop<'_>,
    policy: &Policy,
) -> Result<Result<Engine<'a, Tallied<K>>, Refused>, Failed> {
    let refused = policy.needs().whole_file_system_sync.then(|| beside_server(bench, shop)).flatten();
    if let Some(refused) = refused {
        return Ok(Err(refused));
    }
    let found = in_a_directory_of_its_own(shop, |directory| Means::at(policy, directory))?;
    Ok(match found {
        Err(unavailable) => {
            Err(Refused { code: unavailable.code().to_owned(), text: unavailable.to_string() })
        }
        Ok(means) => Ok(Engine::new(bench.kernel, policy, means).map_err(|error| failed_otherwise(&error))?),
    })
}

/// Whatever is tried there, a kill leaves nothing in the run's directory that the run does not know.
fn in_a_directory_of_its_own<T>(shop: &Workshop<'_>, try_out: impl FnOnce(&Path) -> T) -> Result<T, Failed> {
    let directory = shop.directory.join(TRY);
    fs::create_dir(&directory).map_err(|error| failed_io(Call::Mkdir, &directory, error))?;
    let found = try_out(&directory);
    fs::remove_dir_all(&directory).map_err(|error| failed_io(Call::Rmdir, &directory, error))?;
    Ok(found)
}

struct Replayed<'a, K> {
    kernel: &'a Tallied<K>,
    watch: &'a dyn Watch,
    policy: Policy,
    engine: Engine<'a, Tallied<K>>,
}

impl<K: Kernel> Copier for Replayed<'_, K> {
    fn copy(&mut self, source: &Path, destination: &Path) -> Result<Made, Halt> {
        self.kernel.take();
        let copied = self.engine.replay(source, destination, self.watch, &());
        let tally = self.kernel.take();
        let copied = copied.map_err(|error| match error {
            EngineError::Stopped(_) => Halt::Stopped,
            EngineError::Fault(fault) => Halt::Failed(failed_call(&fault)),
            EngineError::Jobs { .. } => Halt::Failed(failed_otherwise(&error)),
        })?;
        Ok(Made {
            sample: Sample {
                elapsed_ns: copied.elapsed_ns,
                phases: copied.phases.clone(),
                ..tallied(&tally)
            },
            tally,
            promise: copied.promise(&self.policy),
            changed: copied.changed.clone(),
            notes: copy_notes::after(&self.policy, &copied),
        })
    }
}
