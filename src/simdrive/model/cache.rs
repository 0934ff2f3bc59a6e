//! The write cache: extents written and not yet destaged, each with the newest request that wrote it.
//!
//! Destaging goes up from where the arm is and round again, neighbours in one run. It begins when the cache has not
//! been empty for a while, when a flush asks for it, or when there is no room, and goes on until the cache is empty.
//! What is being destaged still counts: it takes room, and a power cut may take it.

use std::collections::BTreeMap;

use super::numbers::{ms_to_ns, transfer_ns};
use super::{Extent, WriteCache};

/// A run is cut here, so that a request does not wait long for the arm.
const RUN_BYTES: u64 = 1 << 20;

/// Extents, and the rules for when they go.
#[derive(Debug)]
pub(super) struct Cache {
    numbers: WriteCache,
    size_bytes: u64,
    destage_after_ns: u64,
    /// By offset; none overlap.
    dirty: BTreeMap<u64, Dirty>,
    /// Bytes of writes in `dirty`.
    dirty_bytes: u64,
    /// When background destaging begins; `None` while `dirty` is empty.
    due_ns: Option<u64>,
    /// Being destaged, with the run they belong to.
    leaving: Vec<(u64, Extent)>,
    leaving_bytes: u64,
    runs: u64,
    runs_under_way: usize,
}

#[derive(Debug, Clone, Copy)]
struct Dirty {
    length_bytes: u64,
    id: u64,
    discard: bool,
}

/// Neighbouring extents on their way to the mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub number: u64,
    pub offset_bytes: u64,
    /// 0 for a discard, which takes no time.
    pub length_bytes: u64,
}

impl Cache {
    pub(super) fn new(numbers: &WriteCache) -> Cache {
        Cache {
            numbers: *numbers,
            size_bytes: numbers.size_kib * 1024,
            destage_after_ns: ms_to_ns(numbers.destage_after_ms),
            dirty: BTreeMap::new(),
            dirty_bytes: 0,
            due_ns: None,
            leaving: Vec::new(),
            leaving_bytes: 0,
            runs: 0,
            runs_under_way: 0,
        }
    }

    pub(super) fn volatile(&self) -> bool {
        self.numbers.volatile
    }

    pub(super) fn transfer_ns(&self, bytes: u64) -> u64 {
        transfer_ns(bytes, self.numbers.transfer_mb_per_s)
    }

    /// Room for so many bytes? What is larger than the whole cache goes in when that is empty.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        let used_bytes = self.dirty_bytes + self.leaving_bytes;
        used_bytes == 0 || used_bytes + bytes <= self.size_bytes
    }

    /// Nothing dirty, nothing on its way.
    pub(super) fn is_clean(&self) -> bool {
        self.dirty.is_empty() && self.runs_under_way == 0
    }

    pub(super) fn runs_under_way(&self) -> usize {
        self.runs_under_way
    }

    /// When background destaging begins, or should have begun; `None` when there is nothing to destage.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }

    /// Are all these bytes here?
    pub(super) fn holds(&self, offset_bytes: u64, length_bytes: u64) -> bool {
        let end = offset_bytes + length_bytes;
        let mut at = offset_bytes;
        while at < end {
            match self.dirty.range(..=at).next_back() {
                Some((&start, dirty)) if start + dirty.length_bytes > at => at = start + dirty.length_bytes,
                _ => return false,
            }
        }
        true
    }

    /// Takes in a write or a discard at `now_ns`.
    pub(super) fn put(&mut self, extent: Extent, discard: bool, now_ns: u64) {
        let Extent { offset_bytes, length_bytes, id } = extent;
        if length_bytes == 0 {
            return;
        }
        self.clear(offset_bytes, offset_bytes + length_bytes);
        self.add(offset_bytes, Dirty { length_bytes, id, discard });
        if self.due_ns.is_none() {
            self.due_ns = Some(now_ns + self.destage_after_ns);
        }
    }

    /// Sends off the next run at or above `place_bytes`, or the first of all.
    pub(super) fn take_run(&mut self, place_bytes: u64) -> Option<Run> {
        let above = self.dirty.range(place_bytes..).next();
        let (&offset_bytes, first) = above.or_else(|| self.dirty.iter().next())?;
        let discard = first.discard;
        self.runs += 1;
        let mut end = offset_bytes;
        while let Some(dirty) = self.dirty.get(&end).copied() {
            if dirty.discard != discard
                || (end > offset_bytes && end + dirty.length_bytes > offset_bytes + RUN_BYTES)
            {
                break;
            }
            self.remove(end);
            let extent = Extent { offset_bytes: end, length_bytes: dirty.length_bytes, id: dirty.id };
            self.leaving.push((self.runs, extent));
            end += dirty.length_bytes;
        }
        let length_bytes = if discard { 0 } else { end - offset_bytes };
        self.leaving_bytes += length_bytes;
        self.runs_under_way += 1;
        if self.dirty.is_empty() {
            self.due_ns = None;
        }
        Some(Run { number: self.runs, offset_bytes, length_bytes })
    }

    /// A run has arrived.
    pub(super) fn arrived(&mut self, run: Run) {
        self.leaving.retain(|(number, _)| *number != run.number);
        self.leaving_bytes -= run.length_bytes;
        self.runs_under_way -= 1;
    }

    /// All that is not on the mechanism yet, what is on its way first.
    pub(super) fn extents(&self) -> impl Iterator<Item = Extent> + '_ {
        let dirty = self.dirty.iter().map(|(&offset_bytes, dirty)| Extent {
            offset_bytes,
            length_bytes: dirty.length_bytes,
            id: dirty.id,
        });
        self.leaving.iter().map(|(_, extent)| *extent).chain(dirty)
    }

    /// Makes a hole in `dirty`.
    fn clear(&mut self, start: u64, end: u64) {
        if let Some((&before, &dirty)) = self.dirty.range(..start).next_back() {
            let before_end = before + dirty.length_bytes;
            if before_end > start {
                self.remove(before);
                self.add(before, Dirty { length_bytes: start - before, ..dirty });
                if before_end > end {
                    self.add(end, Dirty { length_bytes: before_end - end, ..dirty });
                }
            }
        }
        while let Some((&at, &dirty)) = self.dirty.range(start..end).next() {
            self.remove(at);
            let at_end = at + dirty.length_bytes;
            if at_end > end {
                self.add(end, Dirty { length_bytes: at_end - end, ..dirty });
            }
        }
    }

    fn add(&mut self, offset_bytes: u64, dirty: Dirty) {
        if !dirty.discard {
            self.dirty_bytes += dirty.length_bytes;
        }
        self.dirty.insert(offset_bytes, dirty);
    }

    fn remove(&mut self, offset_bytes: u64) {
        if let Some(dirty) = self.dirty.remove(&offset_bytes)
            && !dirty.discard
        {
            self.dirty_bytes -= dirty.length_bytes;
        }
    }
}
