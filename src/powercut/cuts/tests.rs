//! The fault model on a log made by hand.

use super::*;
use crate::powercut::ledger::Ack;
use crate::powercut::tape::Logged;
use crate::simdrive::model::Request;

/// Write 0, a flush, write 2, write 3 that is under way while the last flush arrives.
fn section() -> Section {
    use Operation::{Flush, Write};
    let request = |id: u64, operation, length_bytes, arrived, completed| Logged {
        request: Request { id, operation, offset_bytes: id << 16, length_bytes },
        data: None,
        arrived,
        arrived_ns: arrived as u64,
        completed: Some(completed),
    };
    Section {
        name: "by hand".to_owned(),
        requests: vec![
            request(0, Write, 4096, 0, 1),
            request(1, Flush, 0, 2, 3),
            request(2, Write, 12_288, 5, 6),
            request(3, Write, 4096, 7, 9),
            request(4, Flush, 0, 8, 10),
        ],
        acks: vec![(4, Ack::Done)],
        marks: Vec::new(),
        length: 11,
        times_ns: (0..11).collect(),
    }
}

fn volatile(certain: Certain) -> Vec<Vec<usize>> {
    let (section, model) = (section(), Model::zero());
    let options = model.options(1 << 30, 1);
    let cuts = Cuts::new(&section, certain, (&model, &options));
    [3, 4, 6, 8, 10, 11].into_iter().map(|cut| cuts.volatile(cut)).collect()
}

#[test]
fn with_flushes_what_completed_before_one_arrived_is_there() {
    let wanted: [&[usize]; 6] = [&[0], &[], &[2], &[2, 3], &[2, 3], &[3]];
    assert_eq!(volatile(Certain::Flushed), wanted, "write 3 was under way when the flush arrived");
}

#[test]
fn without_a_cache_what_is_under_way_may_be_lost_and_nothing_else() {
    let wanted: [&[usize]; 6] = [&[], &[], &[2], &[3], &[], &[]];
    assert_eq!(volatile(Certain::Completed), wanted);
}

#[test]
fn nothing_is_certain_on_a_drive_that_lies_and_everything_on_none() {
    let wanted: [&[usize]; 6] = [&[0], &[0], &[0, 2], &[0, 2, 3], &[0, 2, 3], &[0, 2, 3]];
    assert_eq!(volatile(Certain::Nothing), wanted);
    assert!(volatile(Certain::Arrived).iter().all(Vec::is_empty));
}

#[test]
fn a_lying_drive_loses_what_it_has_not_destaged() {
    let model = crate::simdrive::models::built_in("liar").expect("it is built in");
    let options = model.options(1 << 30, 1);
    let mut section = section();
    let cuts = Cuts::new(&section, Certain::Destaged, (&model, &options));
    assert_eq!(cuts.volatile(11), [0, 2, 3], "nothing is destaged within 11 ns");
    section.times_ns.push(60_000_000_000);
    section.length += 1;
    let cuts = Cuts::new(&section, Certain::Destaged, (&model, &options));
    assert_eq!(cuts.volatile(12), [0_usize; 0], "a minute later everything is");
}

#[test]
fn a_small_epoch_is_tried_in_all_combinations_and_every_tear() {
    let (section, model) = (section(), Model::zero());
    let options = model.options(1 << 30, 1);
    let cuts = Cuts::new(&section, Certain::Flushed, (&model, &options));
    let all: Vec<Image> = cuts.aimed(usize::MAX, 1).flatten().filter(|image| image.cut == 10).collect();
    let whole: Vec<&Vec<usize>> =
        all.iter().filter(|image| image.torn.is_none()).map(|image| &image.missing).collect();
    assert_eq!(whole, [&vec![2, 3], &vec![3], &vec![2], &vec![]]);
    // One contiguous part of three units: 1, 2, 3, 12, 23.
    assert_eq!(all.len() - whole.len(), 5);
}

#[test]
fn an_acknowledgement_counts_until_the_next_request_arrives() {
    let section = section();
    assert_eq!((section.settled(4), section.settled(5), section.settled(3)), (5, 5, 3));
}

#[test]
fn the_same_seed_gives_the_same_images_and_another_seed_others() {
    let (section, model) = (section(), Model::zero());
    let options = model.options(1 << 30, 1);
    let cuts = Cuts::new(&section, Certain::Nothing, (&model, &options));
    assert_eq!(cuts.random(0..11, 50, 7), cuts.random(0..11, 50, 7));
    assert_ne!(cuts.random(0..11, 50, 7), cuts.random(0..11, 50, 8));
}
