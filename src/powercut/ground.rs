//! What lies below an image: what was on the drive before the section, and of the section what is certain.

use super::blocks::Blocks;
use super::cuts::{Cuts, Image};
use super::stage::lay;
use super::tape::Section;

/// One worker's ground; it goes with the cuts, best in ascending order.
#[derive(Debug)]
pub struct Ground<'a> {
    section: &'a Section,
    base: &'a Blocks,
    blocks: Blocks,
    /// Requests that are in the blocks.
    laid: usize,
}

impl<'a> Ground<'a> {
    /// Nothing of the section is laid yet.
    pub fn new(section: &'a Section, base: &'a Blocks) -> Ground<'a> {
        Ground { section, base, blocks: base.clone(), laid: 0 }
    }

    /// Everything that is laid.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Lays every request before the first that this cut may take, and no other.
    pub fn lay_certain(&mut self, cuts: &Cuts<'_>, cut: usize) {
        let arrived = self.section.requests.partition_point(|logged| logged.arrived < cut);
        let first = cuts.volatile(cut).first().copied().unwrap_or(arrived);
        if first < self.laid {
            *self = Ground::new(self.section, self.base);
        }
        for logged in &self.section.requests[self.laid..first] {
            if logged.changes() {
                let (start, end) = logged.range();
                self.blocks.write(None, start, end - start, logged.data.as_deref());
            }
        }
        self.laid = first;
    }

    /// What of an image lies above.
    pub fn above(&self, image: &Image) -> Blocks {
        let mut changed = Blocks::default();
        lay(&mut changed, &self.blocks, self.section, image, self.laid);
        changed
    }
}
