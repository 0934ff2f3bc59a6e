//! The place of a server's WAL: how fast it syncs, by probe's own cases, and whether a platter turns there.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::lab::servers::{Server, ServersError};
use crate::place::{Place, PlaceError};
use crate::probe::bench::{Bench, Beside, FILE_BYTES, NAMES};
use crate::probe::cases::find;
use crate::probe::verdict::SyncMethod;
use crate::results::{Disk, NoteCode, Severity, Stack, WalPlace};
use crate::server::createdb::database::system_identifier;
use crate::server::error::ServerError;
use crate::sys::error::shown;
use crate::sys::journal::Journal;
use crate::sys::real::Real;
use crate::sys::watch::Watch;

/// Each method gets slices in turn: so many, of so long.
const SLICES: u64 = 4;
const SLICE_NS: u64 = 200_000_000;
/// About how long all of them take.
pub(super) const SECONDS: u64 = SLICES * SLICE_NS * 4 / 1_000_000_000;

/// Probes the place of a server's WAL; why not, where it cannot be seen from here.
pub(super) fn place(
    server: &mut Server<'_>,
    places: &[Place],
    seed: u64,
    journal: &Journal,
    watch: &dyn Watch,
) -> Result<Result<WalPlace, String>, ServersError> {
    let name = server.name.clone();
    if let Some(index) = server.wal_place.or(server.place) {
        return Ok(Ok(probed(name, &places[index], seed, journal, watch)?));
    }
    let unseen = |why: &dyn std::fmt::Display| {
        format!(
            "{name}: the disk of its WAL was not probed: {why}; whether commits can be so fast is not known"
        )
    };
    let Some(directory) = beside_wal(server)? else {
        return Ok(Err(unseen(&"its data directory is not seen from here")));
    };
    let there = Place::survey("wal", &directory);
    let probed = |place: Place| probed(name.clone(), &place, seed, journal, watch);
    match there.map_err(ServersError::from).and_then(probed) {
        Ok(place) => Ok(Ok(place)),
        Err(error) => Ok(Err(unseen(&error))),
    }
}

/// The directory outside of a server's own that lies on the disk of its WAL, if the server is on this machine: its
/// `pg_control` begins with the identifier that the server tells.
fn beside_wal(server: &mut Server<'_>) -> Result<Option<PathBuf>, ServerError> {
    // Told only to those who may know it.
    let Ok(data) = server.session.value("SHOW data_directory") else { return Ok(None) };
    let data = PathBuf::from(data);
    let mut identifier = [0; 8];
    let read =
        File::open(data.join("global/pg_control")).and_then(|mut file| file.read_exact(&mut identifier));
    let told = system_identifier(&mut server.session)?;
    if read.is_err() || u64::from_ne_bytes(identifier).to_string() != told {
        return Ok(None);
    }
    let name = if server.features.version_num >= 100_000 { "pg_wal" } else { "pg_xlog" };
    let resolved = |path: &Path| path.canonicalize().ok();
    let (Some(data), Some(wal)) = (resolved(&data), resolved(&data.join(name))) else { return Ok(None) };
    let within = if wal.starts_with(&data) { data } else { wal };
    Ok(within.parent().map(Path::to_path_buf))
}

fn probed(
    server: String,
    place: &Place,
    seed: u64,
    journal: &Journal,
    watch: &dyn Watch,
) -> Result<WalPlace, ServersError> {
    place.make_room_for(FILE_BYTES as u64)?;
    let (directory, entry) = place.enter(&NAMES, journal)?;
    let rates = rates(directory.path(), seed, watch);
    let removed = journal.undo(entry, &directory).map_err(ServerError::Undo);
    let syncs_per_sec = rates?;
    removed?;
    Ok(WalPlace {
        server,
        path: shown(place.directory()),
        syncs_per_sec,
        turns_per_sec: turns_per_sec(place.stack()),
        volatile: volatile(place),
        cache: place.stack().disks.iter().find_map(cached),
    })
}

/// Overwrites of one block by each method, as a server opens its files.
fn rates(directory: &Path, seed: u64, watch: &dyn Watch) -> Result<BTreeMap<String, f64>, PlaceError> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let beside = Beside { watch, counters: &|| None };
    let bench = Bench::new(&Real, directory, &mut random, beside)?;
    let mut done: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for _ in 0..SLICES {
        for method in SyncMethod::ALL {
            let block = if method.is_open() { "server" } else { "one8" };
            let Some(case) = find(block, method.name()) else { continue };
            let slice = bench.slice(case, SLICE_NS)?;
            let (operations, elapsed_ns) = done.entry(method.name().to_owned()).or_default();
            *operations += slice.operations;
            *elapsed_ns += slice.elapsed_ns;
        }
    }
    let rate = |(operations, elapsed_ns): (u64, u64)| operations as f64 * 1e9 / elapsed_ns.max(1) as f64;
    Ok(done.into_iter().map(|(method, done)| (method, rate(done))).collect())
}

/// By the claim of the one disk below; a virtual one claims what it likes.
fn turns_per_sec(stack: &Stack) -> Option<f64> {
    match stack.disks.as_slice() {
        [disk] if disk.rotational && !disk.r#virtual => {
            disk.claimed_rpm.filter(|rpm| *rpm > 0).map(|rpm| f64::from(rpm) / 60.0)
        }
        _ => None,
    }
}

/// What says that no sync reaches the medium: a warning on the place.
fn volatile(place: &Place) -> Option<String> {
    let telling = [
        NoteCode::MemoryFileSystem,
        NoteCode::OverlayVolatile,
        NoteCode::BarriersOff,
        NoteCode::PreloadShim,
        NoteCode::Simulated,
    ];
    let mut notes = place.notes().into_iter();
    let told = notes.find(|note| note.severity >= Severity::Warning && telling.contains(&note.code));
    told.map(|note| note.text)
}

fn cached(disk: &Disk) -> Option<String> {
    match (disk.write_cache.drive.as_deref(), disk.write_cache.kernel.as_deref()) {
        (Some("on"), _) => Some(format!("the write cache of {} is on", disk.name)),
        (None, Some("write back")) => Some(format!("{} has a write cache, by the kernel's view", disk.name)),
        _ => None,
    }
}
