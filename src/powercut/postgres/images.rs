//! Which images are judged. Random cuts are drawn as for copies ([`Cuts::random`]). Aimed ones are the two that hurt a
//! server most: directly after an acknowledgement, everything volatile gone; and in the middle of a page of a table, the
//! page torn at 4096 bytes and everything else there.

use std::collections::HashMap;
use std::ops::Range;

use rand::seq::IteratorRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::ledger::{Acknowledged, NotAcknowledged};
use crate::powercut::cuts::{Certain, Cuts, Image, Torn};
use crate::powercut::tape::{Logged, Section};
use crate::simdrive::model::{Flush, Model, Operation, Options};
use crate::simdrive::spec::Spec;

/// A page of a server, and where it is torn.
const PAGE_BYTES: usize = 8192;
const TORN_AT_BYTES: u64 = 4096;
/// Where a page says how long it is and how it is laid out, and the bytes of all servers since 8.3
/// (`pd_pagesize_version` of `PageHeaderData`; no page of the WAL has them there).
const LAYOUT: Range<usize> = 18..20;
const LAYOUT_BYTES: [u8; 2] = [0x04, 0x20];
/// Images that a worker judges in ascending order before it takes others: what was judged by any time is a sample of the
/// whole.
const BATCH: usize = 10;

/// What a drive of this model makes certain under this spec. One whose file system asks for no flushes keeps what it has
/// destaged, as one that ignores them.
pub fn certain_on(spec: &Spec, model: &Model, options: &Options) -> Certain {
    let mount = spec.mount_options.as_deref().unwrap_or_default();
    let asked = !mount.split(',').any(|option| ["nobarrier", "barrier=0"].contains(&option));
    let flush = if asked { options.flush } else { Flush::Ignored };
    Cuts::certain_on(model, &Options { flush, ..*options })
}

/// The same cut with the marks that directly follow: what was acknowledged before the next request arrived counts.
pub fn settled(section: &Section, cut: usize) -> usize {
    let marks = section.marks.iter().map(|(position, _)| *position).filter(|position| *position >= cut);
    marks.fold(cut, |cut, position| if position == cut { cut + 1 } else { cut })
}

/// Position behind which nothing is cut: the workload was over.
pub fn done(section: &Section) -> usize {
    section.done().unwrap_or(section.length)
}

/// What is drawn from.
#[derive(Clone, Copy, Debug)]
pub struct Drawing<'a> {
    /// What happened.
    pub section: &'a Section,
    /// What cuts may take.
    pub cuts: &'a Cuts<'a>,
    /// The drive tears nothing smaller.
    pub unit_bytes: u64,
    /// Decides everything.
    pub seed: u64,
}

impl Drawing<'_> {
    /// So many random images, then so many aimed ones, in batches; each is in ascending order.
    pub fn batches(&self, random: usize, aimed: usize) -> Vec<Vec<Image>> {
        let last = done(self.section).saturating_sub(1);
        let sizes = (0..random).step_by(BATCH).map(|from| BATCH.min(random - from));
        let drawn = (0..).zip(sizes).map(|(batch, size)| {
            let images = self.cuts.random(0..last, size, self.seed.wrapping_add(batch)).into_iter().flatten();
            images.map(|image| Image { cut: settled(self.section, image.cut), ..image }).collect()
        });
        let aimed = self.aim(aimed);
        let mut batches: Vec<Vec<Image>> = drawn.chain(aimed.chunks(BATCH).map(<[Image]>::to_vec)).collect();
        for batch in &mut batches {
            batch.sort();
        }
        batches
    }

    /// Half of them at acknowledgements, half in pages; all of one kind where there are none of the other.
    fn aim(&self, most: usize) -> Vec<Image> {
        let mut chance = ChaCha8Rng::seed_from_u64(self.seed ^ 0xA1ED);
        let pages = self.changed_pages().into_iter().sample(&mut chance, most);
        let torn = pages.into_iter().filter_map(|(number, page)| self.tear(number, page, &mut chance));
        let torn: Vec<Image> = torn.collect();
        let cut = |position: usize| {
            let cut = settled(self.section, position + 1);
            Image { cut, missing: self.cuts.volatile(cut), torn: None, random: false }
        };
        // Databases and restores are few: a part is theirs.
        let (few, many) = self.acknowledged();
        let few = few.into_iter().sample(&mut chance, most.div_ceil(4));
        let many = many.into_iter().sample(&mut chance, most);
        let missing: Vec<Image> = few.into_iter().chain(many).map(cut).collect();
        let in_pages = torn.len().min((most / 2).max(most.saturating_sub(missing.len())));
        torn.into_iter().take(in_pages).chain(missing.into_iter().take(most - in_pages)).collect()
    }

    /// Positions of acknowledgements: of databases and restores, and of commits.
    fn acknowledged(&self) -> (Vec<usize>, Vec<usize>) {
        let marks = self.section.marks.iter().filter(|(position, _)| *position < done(self.section));
        let (mut few, mut many) = (Vec::new(), Vec::new());
        for (position, text) in marks {
            match text.parse() {
                Ok(Acknowledged::Commit { .. }) => many.push(*position),
                Ok(Acknowledged::Database(_) | Acknowledged::Restore(_)) => few.push(*position),
                Err(NotAcknowledged) => {}
            }
        }
        (few, many)
    }

    /// Pages that replace a page of which both halves are others, by request and offset in it: half of such a page fits to
    /// nothing.
    fn changed_pages(&self) -> Vec<(usize, u64)> {
        let mut changed = Vec::new();
        if !TORN_AT_BYTES.is_multiple_of(self.unit_bytes) {
            return changed;
        }
        let mut last: HashMap<u64, &[u8]> = HashMap::new();
        let requests = self.section.requests.iter().enumerate();
        for (number, logged) in requests.take_while(|(_, logged)| logged.arrived < done(self.section)) {
            for (offset, page) in pages(logged) {
                let differs = |old: &&[u8]| {
                    page.chunks(PAGE_BYTES / 2).zip(old.chunks(PAGE_BYTES / 2)).all(|(new, old)| new != old)
                };
                if last.insert(logged.request.offset_bytes + offset, page).is_some_and(|old| differs(&old)) {
                    changed.push((number, offset));
                }
            }
        }
        changed
    }

    /// The cut while a request is under way, with what lies before the middle of one of its pages there, or what lies
    /// behind.
    fn tear(&self, request: usize, page: u64, chance: &mut ChaCha8Rng) -> Option<Image> {
        let Logged { arrived, request: write, .. } = &self.section.requests[request];
        let (cut, middle) = (arrived + 1, page + TORN_AT_BYTES);
        let half = if chance.random() { 0..middle } else { middle..write.length_bytes };
        let torn = Some(Torn { request, start_bytes: half.start, end_bytes: half.end });
        let image = Image { cut, missing: Vec::new(), torn, random: false };
        self.cuts.volatile(cut).contains(&request).then_some(image)
    }
}

/// The pages of tables and indexes in what a request writes, with their offsets.
fn pages(logged: &Logged) -> impl Iterator<Item = (u64, &[u8])> {
    let written = logged.data.as_deref().filter(|_| logged.request.operation == Operation::Write);
    let whole = (0..).zip(written.unwrap_or_default().chunks_exact(PAGE_BYTES));
    whole
        .filter(|(_, page)| page[LAYOUT] == LAYOUT_BYTES)
        .map(|(number, page)| (number * PAGE_BYTES as u64, page))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simdrive::model::Request;
    use crate::simdrive::models;

    fn write(id: u64, data: Vec<u8>, arrived: usize) -> Logged {
        let request = Request {
            id,
            operation: Operation::Write,
            offset_bytes: id << 20,
            length_bytes: data.len() as u64,
        };
        let arrived_ns = arrived as u64;
        Logged { request, data: Some(data), arrived, arrived_ns, completed: Some(arrived + 1) }
    }

    #[test]
    fn a_changed_page_is_torn_in_the_middle_and_an_acknowledgement_loses_everything_volatile() {
        let page = |fill| {
            let mut page = vec![fill; PAGE_BYTES];
            page[LAYOUT].copy_from_slice(&LAYOUT_BYTES);
            page
        };
        let mut same_tail = page(4);
        same_tail[4096..].fill(2);
        let section = Section {
            requests: vec![
                write(0, vec![7; PAGE_BYTES], 0),
                write(1, [page(1), page(2)].concat(), 2),
                write(0, vec![8; PAGE_BYTES], 4),
                write(1, [page(3), same_tail].concat(), 6),
            ],
            marks: vec![(8, "commit 0 1 on".to_owned()), (9, "made".to_owned())],
            length: 12,
            times_ns: (0..12).collect(),
            ..Section::default()
        };
        let model = models::built_in("nvme-consumer").expect("a model");
        let options = model.options(1 << 30, 1);
        let cuts = Cuts::new(&section, Certain::Flushed, (&model, &options));
        let drawing = Drawing { section: &section, cuts: &cuts, unit_bytes: 4096, seed: 1 };
        let batches = drawing.batches(25, 4);
        assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [10, 10, 5, 2]);
        assert!(batches.iter().all(|batch| batch.is_sorted()));
        let aimed = &batches[3];
        let torn = aimed[0].torn.expect("a torn page");
        let wanted = "the WAL is not torn, nor a page of which one half stays as it was";
        assert_eq!((aimed[0].cut, torn.request, aimed[0].missing.len()), (7, 3, 0), "{wanted}");
        assert!([(0, 4096), (4096, 16_384)].contains(&(torn.start_bytes, torn.end_bytes)), "{torn:?}");
        assert_eq!(
            (aimed[1].cut, aimed[1].missing.clone()),
            (10, vec![0, 1, 2, 3]),
            "with the marks that follow"
        );
        let coarse = Drawing { unit_bytes: 16_384, ..drawing };
        assert!(coarse.batches(0, 4).concat().iter().all(|image| image.torn.is_none()));
    }
}
