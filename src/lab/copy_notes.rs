//! What a reader must know of template copies beside their numbers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::place::Place;
use crate::replay::engine::Copied;
use crate::replay::policy::{Policy, Scope};
use crate::replay::shape::{examples, left_out};
use crate::replay::verify::Verified;
use crate::results::{DeviceCounters, Input, Note, NoteCode};
use crate::sys::error::{reason, shown};

/// What a file system may write beside the copies without being taken for somebody else: in all …
const OWN_BYTES: u64 = 16 << 20;
/// … and for each file: its journal commits the blocks of inode, bitmaps and directory with every sync.
const OWN_BYTES_A_FILE: u64 = 64 << 10;

/// Known before the first trial.
pub(super) fn before(policy: &Policy, place: &Place, directories: u64) -> Vec<Note> {
    let many = (directories > 1 && policy.axes().scope == Scope::Directory).then(|| {
        let text = format!(
            "{policy}: a server copies no subdirectories; here each of the {directories} directories is a copy of its own, \
             top first"
        );
        Note::info(NoteCode::ManyDirectories, text)
    });
    let unflushed = policy.needs().whole_file_system_sync.then(|| syncfs_unflushed(place)).flatten();
    many.into_iter().chain(unflushed).collect()
}

/// Where syncfs promises nothing.
pub(super) fn syncfs_unflushed(place: &Place) -> Option<Note> {
    let text = "ext4 without a journal: syncfs may write inode tables after its flush, so nothing is promised here for it";
    place.is_unjournaled().then(|| Note::warning(NoteCode::SyncfsUnflushed, text))
}

/// Met by a copy.
pub(super) fn after(policy: &Policy, copied: &Copied) -> Vec<Note> {
    let mut notes = Vec::new();
    if let Some(errno) = copied.hint_unsupported {
        let text = format!("{policy}: hints are not supported here ({}) and were left out", reason(errno));
        notes.push(Note::warning(NoteCode::HintNotSupported, text));
    }
    if let Some(errno) = copied.directory_refused {
        let text = format!(
            "{policy}: directory entries are not durable: a directory takes no fsync ({})",
            reason(errno)
        );
        notes.push(Note::warning(NoteCode::DirectoryNotDurable, text));
    }
    if let Some(errno) = copied.fell_back {
        let text = format!(
            "{policy}: bytes were moved by read and write, for its own way is not here ({})",
            reason(errno)
        );
        notes.push(Note::warning(NoteCode::FellBack, text));
    }
    notes.extend(
        left_out(&copied.skipped).into_iter().map(|text| Note::warning(NoteCode::SkippedEntry, text)),
    );
    notes
}

/// Seen when a copy was compared with its source.
pub(super) fn verified(verified: &Verified) -> Option<Note> {
    (verified.source_allocated_bytes < verified.bytes).then(|| {
        let kept = if verified.copy_allocated_bytes < verified.bytes { "were kept" } else { "were filled" };
        let text = format!(
            "the source has holes ({} of {} bytes are allocated); in the copy they {kept}",
            verified.source_allocated_bytes, verified.bytes
        );
        Note::info(NoteCode::SparseSource, text)
    })
}

/// These files of the source changed while it was copied.
pub(super) fn changed(paths: &BTreeSet<PathBuf>) -> Option<Note> {
    let paths: Vec<PathBuf> = paths.iter().cloned().collect();
    (!paths.is_empty()).then(|| {
        let text = format!("changed during copy: {}; the result is not comparable", examples(&paths));
        Note::warning(NoteCode::ChangedDuringCopy, text)
    })
}

/// The source is no longer what it was when the run began, though it did not change during this copy.
pub(super) fn other_source(verified: &Verified, input: &Input) -> Option<Note> {
    let is_same = (verified.files, verified.bytes) == (input.files, input.bytes);
    (!is_same).then(|| {
        let text = format!(
            "changed during the run: the source had {} files with {} bytes, then {} with {}; the result is not comparable",
            input.files, input.bytes, verified.files, verified.bytes
        );
        Note::warning(NoteCode::ChangedDuringCopy, text)
    })
}

/// Others left so much to be written.
pub(super) fn dirty(bytes: u64) -> Note {
    let text = format!(
        "when each trial began {bytes} bytes of a neighbour's on the same file system were written and not synced"
    );
    Note::info(NoteCode::DirtyNeighbour, text)
}

/// More was written to the disk than a copy, a bystander's appends and a neighbour's data can explain, even with data
/// journalled.
pub(super) fn others(device: DeviceCounters, input: &Input, appends: u64, dirty_bytes: u64) -> Option<Note> {
    let files = input.files.saturating_add(appends);
    let own = files.saturating_mul(OWN_BYTES_A_FILE).saturating_add(OWN_BYTES);
    let explained = input.bytes.saturating_mul(2).saturating_add(own).saturating_add(dirty_bytes);
    (device.bytes_written > explained).then(|| {
        let text =
            "others wrote to the same disk during some trials: more was written than a copy has".to_owned();
        Note::warning(NoteCode::OtherWriters, text)
    })
}

/// The disk did not become idle in time.
pub(super) fn not_idle(place: &Place, limit: Duration) -> Note {
    let text = format!(
        "the disk of {} was not idle within {} s before some trials",
        shown(place.directory()),
        limit.as_secs()
    );
    Note::warning(NoteCode::NotIdle, text)
}

/// After ENOSPC: how far the copy came, and what is left.
pub(super) fn full(place: &Place, destination: &Path) -> String {
    let sizes =
        walkdir::WalkDir::new(destination).into_iter().flatten().filter_map(|entry| entry.metadata().ok());
    let written: u64 = sizes.filter(std::fs::Metadata::is_file).map(|found| found.len()).sum();
    let free = place.space().map_or(0, |space| space.available_bytes);
    format!(" ({written} bytes had been written, {free} bytes are free)")
}
