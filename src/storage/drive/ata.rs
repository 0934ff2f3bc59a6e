//! ATA: IDENTIFY DEVICE and SET FEATURES, and their way through SCSI (ATA PASS-THROUGH of SAT-4). Words and codes as
//! in ACS-4 and in hdparm(8).

use super::{Cache, Told};
use crate::storage::disk::{ata_text, rotation};

/// IDENTIFY DEVICE.
const IDENTIFY: u8 = 0xEC;
/// SET FEATURES; the feature says which.
const SET_FEATURES: u8 = 0xEF;
const ENABLE_WRITE_CACHE: u8 = 0x02;
const DISABLE_WRITE_CACHE: u8 = 0x82;
const FLUSH_CACHE: u8 = 0xE7;
const FLUSH_CACHE_EXT: u8 = 0xEA;

/// An ATA command as its registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ata {
    command: u8,
    feature: u8,
    /// Reads one sector of data.
    reads: bool,
}

impl Ata {
    pub(super) const IDENTIFY: Self = Self { command: IDENTIFY, feature: 0, reads: true };

    pub(super) const fn set_write_cache(to: Cache) -> Self {
        let feature = match to {
            Cache::On => ENABLE_WRITE_CACHE,
            Cache::Off => DISABLE_WRITE_CACHE,
        };
        Self { command: SET_FEATURES, feature, reads: false }
    }

    pub(super) const fn flush(extended: bool) -> Self {
        Self { command: if extended { FLUSH_CACHE_EXT } else { FLUSH_CACHE }, feature: 0, reads: false }
    }

    /// Protocol (PIO data-in or non-data) and, for data, one block, its count in the sector-count field.
    const fn protocol(self) -> (u8, u8, u8) {
        if self.reads { (4 << 1, 0x0e, 1) } else { (3 << 1, 0, 0) }
    }

    /// ATA PASS-THROUGH(16).
    pub(super) fn through_16(self) -> [u8; 16] {
        let (protocol, flags, count) = self.protocol();
        let mut bytes = [0; 16];
        (bytes[0], bytes[1], bytes[2]) = (0x85, protocol, flags);
        (bytes[4], bytes[6], bytes[14]) = (self.feature, count, self.command);
        bytes
    }

    /// ATA PASS-THROUGH(12): the same operation code means BLANK to an optical drive, so only for known ATA disks.
    pub(super) fn through_12(self) -> [u8; 12] {
        let (protocol, flags, count) = self.protocol();
        let mut bytes = [0; 12];
        (bytes[0], bytes[1], bytes[2]) = (0xA1, protocol, flags);
        (bytes[3], bytes[4], bytes[9]) = (self.feature, count, self.command);
        bytes
    }
}

fn word(identity: &[u8], number: usize) -> Option<u16> {
    let bytes = identity.get(number * 2..number * 2 + 2)?;
    Some(u16::from_le_bytes([bytes[0], bytes[1]]))
}

/// What IDENTIFY DEVICE tells; none where the words 82 to 87 are not valid (word 83 bits 15:14 must be 01).
pub(super) fn told(identity: &[u8]) -> Option<Told> {
    if word(identity, 83)? >> 14 != 0b01 {
        return None;
    }
    let supported = word(identity, 82)? & (1 << 5) != 0;
    let enabled = word(identity, 85)? & (1 << 5) != 0;
    Some(Told {
        cache: supported.then_some(if enabled { Cache::On } else { Cache::Off }),
        model: ata_text(identity, 27..47),
        firmware: ata_text(identity, 23..27),
        serial: ata_text(identity, 10..20),
        claimed_rpm: word(identity, 217).and_then(rotation),
    })
}

/// Whether FLUSH CACHE EXT is supported: word 83 bit 13.
pub(super) fn flushes_extended(identity: &[u8]) -> bool {
    word(identity, 83).is_some_and(|word| word & (1 << 13) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(words: &[(usize, u16)]) -> Vec<u8> {
        let mut bytes = vec![0u8; 512];
        for (number, value) in words {
            bytes[number * 2..number * 2 + 2].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn the_write_cache_stands_in_words_82_and_85() {
        let cache = |w82, w85| told(&identity(&[(82, w82), (83, 0x4000), (85, w85)])).map(|told| told.cache);
        assert_eq!(cache(1 << 5, 1 << 5), Some(Some(Cache::On)));
        assert_eq!(cache(1 << 5, 0), Some(Some(Cache::Off)));
        assert_eq!(cache(0, 0), Some(None));
    }

    #[test]
    fn words_without_their_mark_tell_nothing() {
        assert_eq!(told(&identity(&[(82, 1 << 5), (83, 0xffff)])), None);
        assert_eq!(told(&[0; 100]), None);
    }

    #[test]
    fn names_are_unswapped_and_the_rotation_is_read() {
        let mut bytes = identity(&[(83, 0x6000), (217, 7200)]);
        bytes[54..94].copy_from_slice(b"TS130028SA                              ");
        let told = told(&bytes).expect("valid");
        assert_eq!((told.model.as_deref(), told.claimed_rpm), (Some("ST310082AS"), Some(7200)));
        assert!(flushes_extended(&bytes));
    }

    #[test]
    fn the_pass_through_carries_command_feature_and_one_sector() {
        let bytes = Ata::IDENTIFY.through_16();
        assert_eq!(bytes, [0x85, 0x08, 0x0e, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xEC, 0]);
        let bytes = Ata::set_write_cache(Cache::Off).through_16();
        assert_eq!(bytes, [0x85, 0x06, 0, 0, 0x82, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xEF, 0]);
        let bytes = Ata::set_write_cache(Cache::On).through_12();
        assert_eq!(bytes, [0xA1, 0x06, 0, 0x02, 0, 0, 0, 0, 0, 0xEF, 0, 0]);
        assert_eq!(Ata::flush(true).through_16()[14], 0xEA);
    }
}
