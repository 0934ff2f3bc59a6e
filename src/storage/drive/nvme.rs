//! NVMe: Identify Controller and the feature Volatile Write Cache (06h), as the NVM Express base specification has them.

use crate::sys::drive_ioctl::NvmeCommand;

use super::{Cache, Told};

/// Length of the Identify data.
pub(super) const IDENTIFY_BYTES: usize = 4096;
/// The VWC field of Identify Controller; bit 0: a volatile write cache is present.
const VWC: usize = 525;
const VOLATILE_WRITE_CACHE: u32 = 0x06;

/// Identify Controller: CNS 01h.
pub(super) const IDENTIFY: NvmeCommand = NvmeCommand { opcode: 0x06, namespace: 0, cdw10: 1, cdw11: 0 };
/// Get Features of the write cache, the current value.
pub(super) const GET: NvmeCommand =
    NvmeCommand { opcode: 0x0A, namespace: 0, cdw10: VOLATILE_WRITE_CACHE, cdw11: 0 };

/// Set Features of the write cache, not saved: the drive's own default returns with its reset.
pub(super) const fn set(to: Cache) -> NvmeCommand {
    let enabled = matches!(to, Cache::On);
    NvmeCommand { opcode: 0x09, namespace: 0, cdw10: VOLATILE_WRITE_CACHE, cdw11: enabled as u32 }
}

/// Flush of one namespace.
pub(super) const fn flush(namespace: u32) -> NvmeCommand {
    NvmeCommand { opcode: 0x00, namespace, cdw10: 0, cdw11: 0 }
}

/// Whether the controller has a volatile write cache; none where the data are too short.
pub(super) fn has_cache(identity: &[u8]) -> Option<bool> {
    identity.get(VWC).map(|vwc| vwc & 1 != 0)
}

/// Names of Identify Controller: serial at 4, model at 24, firmware at 64.
pub(super) fn told(identity: &[u8], cache: Option<Cache>) -> Told {
    let text = |range| {
        let bytes: &[u8] = identity.get::<std::ops::Range<usize>>(range)?;
        let text = String::from_utf8_lossy(bytes).trim_matches([' ', '\0']).to_owned();
        (!text.is_empty()).then_some(text)
    };
    Told { cache, model: text(24..64), firmware: text(64..72), serial: text(4..24), claimed_rpm: None }
}

/// The write cache of the feature's current value: bit 0.
pub(super) fn cache(result: u32) -> Cache {
    if result & 1 == 0 { Cache::Off } else { Cache::On }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_stands_in_byte_525_and_in_bit_0_of_the_feature() {
        let mut identity = vec![0; IDENTIFY_BYTES];
        assert_eq!(has_cache(&identity), Some(false));
        identity[VWC] = 0x07;
        assert_eq!(has_cache(&identity), Some(true));
        assert_eq!(has_cache(&identity[..100]), None);
        assert_eq!((cache(0), cache(1)), (Cache::Off, Cache::On));
    }

    #[test]
    fn names_are_trimmed() {
        let mut identity = vec![b' '; IDENTIFY_BYTES];
        identity[4..14].copy_from_slice(b"S7HENJ0W01");
        identity[24..38].copy_from_slice(b"QEMU NVMe Ctrl");
        let told = told(&identity, None);
        assert_eq!(told.serial.as_deref(), Some("S7HENJ0W01"));
        assert_eq!((told.model.as_deref(), told.firmware), (Some("QEMU NVMe Ctrl"), None));
    }

    #[test]
    fn setting_names_the_feature_and_the_value() {
        assert_eq!((set(Cache::Off).cdw10, set(Cache::Off).cdw11), (6, 0));
        assert_eq!((set(Cache::On).opcode, set(Cache::On).cdw11), (0x09, 1));
    }
}
