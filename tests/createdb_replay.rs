//! Replay against reality, in small: `benches/createdb.rs` prints it with more rounds. The drive's times are the model's and
//! most of what there is, so that a busy machine does not matter.

mod common;
#[path = "common/postgres.rs"]
#[expect(dead_code, reason = "only where the servers are")]
mod postgres;
mod sim;
#[path = "../benches/createdb/turns.rs"]
mod turns;

use fsynclab::place::Place;
use turns::median;

#[test]
fn a_file_copy_takes_what_its_replay_takes_and_two_checkpoints() {
    if !common::root_or_skip("a_file_copy_takes_what_its_replay_takes_and_two_checkpoints") {
        return;
    }
    let journal = sim::journal();
    let spec = "sata-2009,write-cache=off".parse().expect("a spec");
    let place = Place::simulate("p1", &spec, sim::options(&journal)).expect("a drive");
    let turns = turns::turns(&place, &postgres::directory(15), 3, &journal);
    place.close(&journal).expect("nothing is left of the drive");
    journal.close().expect("nothing is left to undo");
    let copy = median(&turns, |turn| turn.replay_ms / turn.copy_ms);
    assert!((copy - 1.0).abs() < 0.10, "{turns:?}");
    let create = median(&turns, |turn| (turn.replay_ms + turn.checkpoints_ms) / turn.create_ms);
    assert!((create - 1.0).abs() < 0.15, "{turns:?}");
    // P1 of 2009-12 had 2183 ms.
    let create_ms = median(&turns, |turn| turn.create_ms);
    assert!((1800.0..3200.0).contains(&create_ms), "{turns:?}");
}
