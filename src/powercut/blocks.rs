//! What is on a drive: blocks that are not zero, and a few changed ones on top of them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A block of the map.
pub const BLOCK_BYTES: usize = 4096;

const ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// Blocks by number; what is not there is zero, or as below. Copies share what they have in common.
#[derive(Clone, Debug, Default)]
pub struct Blocks(BTreeMap<u64, Arc<[u8]>>);

impl Blocks {
    /// The block, if it is here.
    pub fn get(&self, block: u64) -> Option<&[u8]> {
        self.0.get(&block).map(AsRef::as_ref)
    }

    /// Numbers of the blocks that are here, in ascending order.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.keys().copied()
    }

    /// How many are here.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Is none here?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts bytes at an offset: `data`, or zeros where there are none. A block that is not here yet begins as in `below`.
    pub fn write(
        &mut self,
        below: Option<&Blocks>,
        offset_bytes: u64,
        length_bytes: u64,
        data: Option<&[u8]>,
    ) {
        for (block, within, from) in pieces(offset_bytes, length_bytes) {
            let entry = self.0.entry(block).or_insert_with(|| below_or_zeros(below, block));
            let bytes = Arc::make_mut(entry);
            match data {
                Some(data) => bytes[within].copy_from_slice(&data[from]),
                None => bytes[within].fill(0),
            }
            if below.is_none() && *bytes == ZEROS {
                self.0.remove(&block);
            }
        }
    }
}

fn below_or_zeros(below: Option<&Blocks>, block: u64) -> Arc<[u8]> {
    below.and_then(|below| below.0.get(&block)).map_or_else(|| Arc::from(&ZEROS[..]), Arc::clone)
}

/// A drive as a cut leaves it: the base, and what differs from it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// What is certain.
    pub base: &'a Blocks,
    /// What lies on top of it.
    pub changed: &'a Blocks,
}

impl View<'_> {
    /// The block's bytes.
    pub fn block(&self, block: u64) -> &[u8] {
        self.changed.get(block).or_else(|| self.base.get(block)).unwrap_or(&ZEROS)
    }

    /// Numbers of the blocks that are in either, in ascending order.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        let (mut below, mut above) = (self.base.numbers().peekable(), self.changed.numbers().peekable());
        std::iter::from_fn(move || match (below.peek(), above.peek()) {
            (Some(one), Some(other)) if one == other => {
                above.next();
                below.next()
            }
            (Some(one), Some(other)) if one > other => above.next(),
            (None, _) => above.next(),
            _ => below.next(),
        })
    }
}

/// A range of bytes by blocks: the block, the range within it, the range within the data.
fn pieces(offset_bytes: u64, length_bytes: u64) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let (unit, end) = (BLOCK_BYTES as u64, offset_bytes + length_bytes);
    let mut at = offset_bytes;
    let narrow = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let block = at / unit;
        let upto = end.min((block + 1) * unit);
        let within = narrow(at - block * unit)..narrow(upto - block * unit);
        let from = narrow(at - offset_bytes)..narrow(upto - offset_bytes);
        at = upto;
        Some((block, within, from))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_on_top_hides_what_is_below_and_nothing_else() {
        let (mut base, mut changed) = (Blocks::default(), Blocks::default());
        base.write(None, 4096, 4096, Some(&[1; 4096]));
        changed.write(Some(&base), 4096 + 512, 8192, Some(&[2; 8192]));
        let view = View { base: &base, changed: &changed };
        assert_eq!(view.block(0), [0; 4096]);
        assert_eq!((view.block(1)[511], view.block(1)[512]), (1, 2));
        assert_eq!((view.block(3)[511], view.block(3)[512]), (2, 0));
        base.write(None, 0, 4096, Some(&[3; 4096]));
        base.write(None, 9 * 4096, 4096, Some(&[3; 4096]));
        let view = View { base: &base, changed: &changed };
        assert_eq!(view.numbers().collect::<Vec<_>>(), [0, 1, 2, 3, 9]);
        base.write(None, 0, 1 << 20, None);
        assert!(base.is_empty());
    }
}
