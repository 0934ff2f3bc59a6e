//! Contents that say what they are: every 512 bytes begin with the generation, the file and the sector they belong to.
//! What is found after a cut is told apart by them: right, from an older copy, of another place, part of both, or nobody's.

use std::ops::Range;

/// The unit that carries a name: no drive tears less.
pub const SECTOR_BYTES: usize = 512;
/// A page of PostgreSQL: half of one is torn.
pub const PAGE_BYTES: usize = 8192;

const MAGIC: u64 = 0x66_73_79_6e_63_6c_61_62;
const HEAD_BYTES: usize = 24;

/// What a sector says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Counts copies of the same tree; the last is the one under test.
    pub generation: u32,
    /// The file's number in its tree.
    pub file: u32,
    /// Which 512 bytes of it.
    pub sector: u64,
}

impl Identity {
    /// What a sector says; `None` where it is none of ours.
    pub fn read(sector: &[u8]) -> Option<Identity> {
        let head = sector.get(..HEAD_BYTES)?;
        let word =
            |range: Range<usize>| head[range].iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
        let identity = Identity {
            generation: u32::try_from(word(8..12)).ok()?,
            file: u32::try_from(word(12..16)).ok()?,
            sector: word(16..24),
        };
        let mut whole = [0; SECTOR_BYTES];
        identity.write(&mut whole);
        (word(0..8) == MAGIC && whole[..sector.len()] == *sector).then_some(identity)
    }

    /// The sector's bytes. The filling follows from the name and does not compress.
    fn write(self, sector: &mut [u8]) {
        let head = [MAGIC, u64::from(self.generation) | u64::from(self.file) << 32, self.sector];
        let mut state = (u64::from(self.generation) << 48) ^ (u64::from(self.file) << 24) ^ self.sector;
        for (number, word) in sector.chunks_mut(8).enumerate() {
            let value = head.get(number).copied().unwrap_or_else(|| next(&mut state));
            word.copy_from_slice(&value.to_le_bytes()[..word.len()]);
        }
    }
}

/// SplitMix64: a full-period sequence, so that no two sectors are filled alike.
pub(super) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The contents of a file.
pub fn contents(generation: u32, file: u32, size_bytes: usize) -> Vec<u8> {
    let mut bytes = vec![0; size_bytes];
    for (sector, chunk) in (0..).zip(bytes.chunks_mut(SECTOR_BYTES)) {
        Identity { generation, file, sector }.write(chunk);
    }
    bytes
}

/// What is wrong with a file's contents, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wrong {
    /// Bytes of another file, or of another place in this one.
    Misplaced,
    /// Bytes of an older copy.
    Stale,
    /// A page of which a part is right.
    Torn,
    /// Bytes that nobody wrote.
    Foreign,
    /// Zeros.
    Zeroed,
    /// The file is shorter than what was written.
    Short,
    /// The file is empty.
    Empty,
}

/// Compares what was found of a file with what it should be; where they differ: the worst, and the first byte of it.
pub fn compare(found: &[u8], right: &[u8], generation: u32, file: u32) -> Option<(Wrong, u64)> {
    if found == right {
        return None;
    }
    if found.is_empty() {
        return Some((Wrong::Empty, 0));
    }
    let pages = (0..found.len()).step_by(PAGE_BYTES);
    let wrong = pages.filter_map(|start| {
        let page = start..(start + PAGE_BYTES).min(found.len()).min(right.len().max(start));
        page_wrong(found, right, page, generation, file)
    });
    let worst = wrong.min_by_key(|(wrong, at)| (*wrong, *at));
    worst.or_else(|| Some((Wrong::Short, found.len().min(right.len()) as u64)))
}

fn page_wrong(
    found: &[u8],
    right: &[u8],
    page: Range<usize>,
    generation: u32,
    file: u32,
) -> Option<(Wrong, u64)> {
    let (mut some_right, mut worst) = (false, None);
    for start in page.clone().step_by(SECTOR_BYTES) {
        let sector = start..(start + SECTOR_BYTES).min(page.end);
        if found[sector.clone()] == right[sector.clone()] {
            some_right = true;
            continue;
        }
        let place = (start / SECTOR_BYTES) as u64;
        let wrong = match Identity::read(&found[sector.clone()]) {
            Some(other) if other.file == file && other.sector == place && other.generation < generation => {
                Wrong::Stale
            }
            Some(_) => Wrong::Misplaced,
            None if found[sector].iter().all(|byte| *byte == 0) => Wrong::Zeroed,
            None => Wrong::Foreign,
        };
        if worst.is_none_or(|(other, _)| wrong < other) {
            worst = Some((wrong, start as u64));
        }
    }
    match worst {
        Some((Wrong::Zeroed | Wrong::Foreign | Wrong::Stale, at)) if some_right => Some((Wrong::Torn, at)),
        worst => worst,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wrong_content_is_its_own_class() {
        let right = contents(2, 5, 3 * PAGE_BYTES + 100);
        let old = contents(1, 5, right.len());
        let other = contents(2, 6, right.len());
        let with = |at: usize, bytes: &[u8]| {
            let mut found = right.clone();
            found[at..at + bytes.len()].copy_from_slice(bytes);
            compare(&found, &right, 2, 5)
        };
        assert_eq!(compare(&right, &right, 2, 5), None);
        assert_eq!(compare(&[], &right, 2, 5), Some((Wrong::Empty, 0)));
        assert_eq!(compare(&right[..8192], &right, 2, 5), Some((Wrong::Short, 8192)));
        assert_eq!(with(0, &[0; PAGE_BYTES]), Some((Wrong::Zeroed, 0)));
        assert_eq!(with(4096, &[0; 4096]), Some((Wrong::Torn, 4096)), "4 kB of an 8 kB page");
        assert_eq!(with(8192, &old[8192..16384]), Some((Wrong::Stale, 8192)));
        assert_eq!(with(8192, &other[8192..16384]), Some((Wrong::Misplaced, 8192)));
        assert_eq!(with(8192, &right[..8192]), Some((Wrong::Misplaced, 8192)), "of the same file");
        assert_eq!(with(0, &[7; PAGE_BYTES]), Some((Wrong::Foreign, 0)));
    }
}
