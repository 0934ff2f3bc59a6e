//! SCSI: the caching mode page (08h) by MODE SENSE and MODE SELECT, as SPC-5 and SBC-4 lay them out.

use super::Cache;

/// Room for a mode header, a block descriptor and the page.
pub(super) const ROOM: usize = 64;
/// SYNCHRONIZE CACHE(10) of the whole disk.
pub(super) const SYNCHRONIZE_CACHE: [u8; 10] = [0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const CACHING: u8 = 0x08;
/// Write cache enabled: byte 2 of the page, bit 2.
const WCE: u8 = 1 << 2;

/// The two forms of the mode commands: some bridges know only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Six,
    Ten,
}

impl Form {
    /// Length of the mode parameter header, and where in it the length of the block descriptors stands.
    const fn header(self) -> usize {
        match self {
            Self::Six => 4,
            Self::Ten => 8,
        }
    }

    fn descriptors(self, answer: &[u8]) -> Option<usize> {
        match self {
            Self::Six => answer.get(3).map(|length| usize::from(*length)),
            Self::Ten => Some(usize::from(u16::from_be_bytes([*answer.get(6)?, *answer.get(7)?]))),
        }
    }

    /// MODE SENSE of the current caching page, block descriptors disabled.
    pub(super) fn sense(self) -> Vec<u8> {
        match self {
            Self::Six => vec![0x1A, 0x08, CACHING, 0, 64, 0],
            Self::Ten => vec![0x5A, 0x08, CACHING, 0, 0, 0, 0, 0, 64, 0],
        }
    }

    /// MODE SELECT of so many bytes in page format, not saved: the drive's own default returns with its power.
    pub(super) fn select(self, length: usize) -> Vec<u8> {
        let low = u8::try_from(length).unwrap_or(u8::MAX);
        match self {
            Self::Six => vec![0x15, 0x10, 0, 0, low, 0],
            Self::Ten => vec![0x55, 0x10, 0, 0, 0, 0, 0, 0, low, 0],
        }
    }

    /// The caching page within an answer to MODE SENSE; none where the drive sent another page or cut it short.
    pub(super) fn page(self, answer: &[u8]) -> Option<&[u8]> {
        let start = self.header() + self.descriptors(answer)?;
        let page = answer.get(start..)?;
        let length = usize::from(*page.get(1)?) + 2;
        let page = page.get(..length)?;
        (page[0] & 0x3f == CACHING && length > 2).then_some(page)
    }

    /// The parameters for MODE SELECT that set the write cache and leave the rest of the page as it is. Lengths in the
    /// header and the page's saveable bit are reserved there and must be 0.
    pub(super) fn selected(self, page: &[u8], to: Cache) -> Vec<u8> {
        let mut bytes = vec![0; self.header()];
        bytes.extend_from_slice(page);
        let page = &mut bytes[self.header()..];
        page[0] &= 0x3f;
        page[2] = match to {
            Cache::On => page[2] | WCE,
            Cache::Off => page[2] & !WCE,
        };
        bytes
    }
}

/// The write cache as the page tells it.
pub(super) fn cache(page: &[u8]) -> Option<Cache> {
    let flags = *page.get(2)?;
    Some(if flags & WCE == 0 { Cache::Off } else { Cache::On })
}

/// Sense key and additional sense code, from fixed or descriptor format.
pub(super) fn sense_codes(sense: &[u8]) -> Option<(u8, u8, u8)> {
    match sense.first()? & 0x7f {
        0x70 | 0x71 => Some((sense.get(2)? & 0x0f, *sense.get(12)?, *sense.get(13)?)),
        0x72 | 0x73 => Some((sense.get(1)? & 0x0f, *sense.get(2)?, *sense.get(3)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page with WCE, read-ahead fields and the saveable bit.
    const PAGE: [u8; 20] =
        [0x88, 18, 0x04, 0, 0xff, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];

    fn answer(form: Form, descriptor: u8) -> Vec<u8> {
        let mut bytes = match form {
            Form::Six => vec![23 + descriptor, 0, 0x10, descriptor],
            Form::Ten => vec![0, 26 + descriptor, 0, 0x10, 0, 0, 0, descriptor],
        };
        bytes.extend(vec![0; usize::from(descriptor)]);
        bytes.extend(PAGE);
        bytes.resize(ROOM, 0);
        bytes
    }

    #[test]
    fn the_page_is_found_behind_header_and_block_descriptor() {
        for form in [Form::Six, Form::Ten] {
            for descriptor in [0, 8] {
                let bytes = answer(form, descriptor);
                assert_eq!(form.page(&bytes), Some(&PAGE[..]), "{form:?} {descriptor}");
            }
        }
        assert_eq!(cache(&PAGE), Some(Cache::On));
    }

    #[test]
    fn another_page_or_a_cut_one_is_none() {
        let mut bytes = answer(Form::Ten, 0);
        assert_eq!(Form::Ten.page(&bytes[..20]), None);
        bytes[8] = 0x0a;
        assert_eq!(Form::Ten.page(&bytes), None);
        assert_eq!(Form::Six.page(&[0; 64]), None);
    }

    #[test]
    fn selecting_changes_one_bit_and_clears_what_is_reserved() {
        let off = Form::Ten.selected(&PAGE, Cache::Off);
        assert_eq!(off[..8], [0; 8]);
        assert_eq!((off[8], off[9], off[10]), (0x08, 18, 0));
        assert_eq!(off[11..], PAGE[3..]);
        assert_eq!(Form::Six.selected(&PAGE, Cache::On)[4..7], [0x08, 18, 0x04]);
        assert_eq!(Form::Ten.select(28), [0x55, 0x10, 0, 0, 0, 0, 0, 0, 28, 0]);
    }

    #[test]
    fn sense_is_read_in_both_formats() {
        let mut fixed = [0u8; 18];
        (fixed[0], fixed[2], fixed[12], fixed[13]) = (0x70, 5, 0x24, 1);
        assert_eq!(sense_codes(&fixed), Some((5, 0x24, 1)));
        assert_eq!(sense_codes(&[0x72, 5, 0x20, 0]), Some((5, 0x20, 0)));
        assert_eq!(sense_codes(&[]), None);
    }
}
