//! Sectors that say what they are: the session, the file, which writing of it, which sector, which message to the witness
//! announced it, and a checksum over all.
//!
//! ```text
//! bytes   0..8   magic
//!         8..16  the session: the first 16 digits of its id
//!        16..24  the file
//!        24..28  the generation: which writing of the file
//!        28..32  which sector of the file
//!        32..40  the sequence number of the message
//!        40..508 filling that follows from these and does not compress
//!       508..512 CRC-32 of all before; numbers have their lowest byte first
//! ```

use super::super::contents::{SECTOR_BYTES, next};
use super::event::Number;

const MAGIC: &[u8; 8] = b"fsyncplg";
const HEAD_BYTES: usize = 40;
const SUMMED_BYTES: usize = SECTOR_BYTES - 4;

/// What a sector says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sector {
    /// Of which session.
    pub session: u64,
    /// Of which file.
    pub file: Number,
    /// Which writing of it.
    pub generation: u32,
    /// Which 512 bytes of it.
    pub place: u32,
    /// The message that announced it.
    pub seq: u64,
}

/// What 512 bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A whole sector of some writer.
    Whole(Sector),
    /// It begins as one, and the rest is something else.
    Damaged,
    /// Nothing but zeros.
    Zeros,
    /// Nothing of any writer.
    Foreign,
}

impl Sector {
    /// Its bytes.
    pub fn write(self, bytes: &mut [u8]) {
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.session.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.file.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.generation.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.place.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.seq.to_le_bytes());
        let mut state = self.session ^ self.file.rotate_left(17) ^ self.seq.rotate_left(40);
        state ^= u64::from(self.generation) << 32 | u64::from(self.place);
        for word in bytes[HEAD_BYTES..SUMMED_BYTES].chunks_mut(8) {
            word.copy_from_slice(&next(&mut state).to_le_bytes()[..word.len()]);
        }
        let sum = crc32fast::hash(&bytes[..SUMMED_BYTES]);
        bytes[SUMMED_BYTES..].copy_from_slice(&sum.to_le_bytes());
    }

    /// What 512 bytes, or fewer at a file's end, say.
    pub fn read(bytes: &[u8]) -> Seen {
        if bytes.iter().all(|byte| *byte == 0) {
            return Seen::Zeros;
        }
        if !bytes.starts_with(MAGIC) {
            return Seen::Foreign;
        }
        if bytes.len() != SECTOR_BYTES
            || crc32fast::hash(&bytes[..SUMMED_BYTES]).to_le_bytes() != bytes[SUMMED_BYTES..]
        {
            return Seen::Damaged;
        }
        let long =
            |at: usize| bytes[at..at + 8].iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
        let short =
            |at: usize| bytes[at..at + 4].iter().rev().fold(0, |all, byte| all << 8 | u32::from(*byte));
        Seen::Whole(Sector {
            session: long(8),
            file: long(16),
            generation: short(24),
            place: short(28),
            seq: long(32),
        })
    }
}

/// The number that stands for a session in its sectors.
pub fn session_number(id: &str) -> u64 {
    u64::from_str_radix(id.get(..16).unwrap_or_default(), 16).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_is_read_as_it_was_written_and_any_changed_byte_is_seen() {
        let sector =
            Sector { session: u64::MAX - 7, file: 3 << 32 | 9, generation: 12, place: 4, seq: 1 << 40 };
        let mut bytes = [0; SECTOR_BYTES];
        sector.write(&mut bytes);
        assert_eq!(Sector::read(&bytes), Seen::Whole(sector));
        for at in 0..SECTOR_BYTES {
            let mut changed = bytes;
            changed[at] ^= 0x40;
            let seen = if at < 8 { Seen::Foreign } else { Seen::Damaged };
            assert_eq!(Sector::read(&changed), seen, "byte {at}");
        }
        assert_eq!(Sector::read(&bytes[..100]), Seen::Damaged);
        assert_eq!(Sector::read(&[0; 512]), Seen::Zeros);
        assert_eq!(Sector::read(&[7; 512]), Seen::Foreign);
    }
}
