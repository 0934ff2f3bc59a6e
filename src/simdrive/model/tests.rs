//! Times computed by hand, and what must hold of every drive.

use super::*;

const MS: u64 = 1_000_000;
const US: u64 = 1_000;
/// Four thousand tracks of the disk below.
const SIZE_BYTES: u64 = 4_000_000_000;

/// A revolution is 10 ms, a track 1,000,000 bytes, a seek 1 ms + 12 ms · √distance, a command 100 us.
fn disk(queue_depth: u32, write_cache: Option<WriteCache>) -> Model {
    Model {
        queue_depth,
        command_overhead_us: 100.0,
        mechanism: Mechanism::Rotating(Rotating {
            rpm: 6000,
            seek_track_to_track_ms: 1.0,
            seek_average_ms: 7.4,
            stroke_part: 1.0,
            transfer_mb_per_s: 100.0,
        }),
        write_cache,
        ..Model::zero()
    }
}

fn cache() -> WriteCache {
    WriteCache {
        on: true,
        size_kib: 1024,
        volatile: true,
        flush: Flush::Honest,
        transfer_mb_per_s: 1000.0,
        destage_after_ms: 50.0,
    }
}

fn flash(write_cache: Option<WriteCache>) -> Model {
    Model {
        queue_depth: 32,
        command_overhead_us: 10.0,
        mechanism: Mechanism::Flash(Flash {
            channels: 2,
            read_us: 50.0,
            program_us: 100.0,
            commit_us: 30.0,
            read_mb_per_s: 1000.0,
            write_mb_per_s: 1000.0,
        }),
        write_cache,
        ..Model::zero()
    }
}

fn network(network: Network) -> Model {
    Model { mechanism: Mechanism::Network(network), ..Model::zero() }
}

/// A drive with a clock of its own: every call goes on from where the last one ended.
struct Session {
    drive: Drive,
    now_ns: u64,
    next_id: u64,
}

impl Session {
    fn new(model: &Model) -> Session {
        Session { drive: Drive::new(model, &model.options(SIZE_BYTES, 1)), now_ns: 0, next_id: 0 }
    }

    fn submit(&mut self, operation: Operation, offset_bytes: u64, length_bytes: u64) {
        self.drive.submit(Request { id: self.next_id, operation, offset_bytes, length_bytes }, self.now_ns);
        self.next_id += 1;
    }

    /// The completion times of the next `count` requests to complete.
    fn wait(&mut self, count: usize) -> Vec<u64> {
        let mut completions = Vec::new();
        while completions.len() < count {
            let due_ns = self.drive.next_due_ns().expect("something is under way");
            self.now_ns = self.now_ns.max(due_ns);
            self.drive.advance(self.now_ns, &mut completions);
        }
        completions.iter().map(|completion| completion.at_ns).collect()
    }

    /// How long one request takes.
    fn time(&mut self, operation: Operation, offset_bytes: u64, length_bytes: u64) -> u64 {
        let from_ns = self.now_ns;
        self.submit(operation, offset_bytes, length_bytes);
        self.wait(1)[0] - from_ns
    }

    fn write(&mut self, offset_bytes: u64, length_bytes: u64) -> u64 {
        self.time(Operation::Write, offset_bytes, length_bytes)
    }

    fn flush(&mut self) -> u64 {
        self.time(Operation::Flush, 0, 0)
    }
}

#[test]
fn one_place_is_overwritten_once_a_revolution() {
    let mut session = Session::new(&disk(1, None));
    session.write(0, 1000);
    assert_eq!([session.write(0, 1000), session.write(0, 1000)], [10 * MS, 10 * MS]);
}

#[test]
fn at_depth_one_a_contiguous_write_misses_its_revolution() {
    let mut session = Session::new(&disk(1, None));
    session.submit(Operation::Write, 0, 1000);
    session.submit(Operation::Write, 1000, 1000);
    let ends_ns = session.wait(2);
    assert_eq!(ends_ns[1] - ends_ns[0], 10 * MS + 10 * US);
}

#[test]
fn with_queueing_a_contiguous_write_does_not_miss_it() {
    let mut session = Session::new(&disk(4, None));
    session.submit(Operation::Write, 0, 1000);
    session.submit(Operation::Write, 1000, 1000);
    let ends_ns = session.wait(2);
    assert_eq!(ends_ns[1] - ends_ns[0], 10 * US);
}

#[test]
fn with_queueing_odd_sizes_across_tracks_do_not_miss_it_either() {
    let odd = Rotating {
        rpm: 7200,
        seek_track_to_track_ms: 1.0,
        seek_average_ms: 9.0,
        stroke_part: 1.0,
        transfer_mb_per_s: 97.0,
    };
    let mut session = Session::new(&Model { mechanism: Mechanism::Rotating(odd), ..disk(8, None) });
    for at in 0..300 {
        session.submit(Operation::Write, 12_345 + at * 33_331, 33_331);
    }
    let ends_ns = session.wait(300);
    let transfer_ns = 299 * 33_331 * 1000 / 97;
    let more_ns = (ends_ns[299] - ends_ns[0]).abs_diff(transfer_ns);
    assert!(more_ns < 100 * US, "{more_ns}: less than a revolution");
}

#[test]
fn a_far_write_takes_its_seek_its_wait_and_its_transfer() {
    let mut session = Session::new(&disk(1, None));
    session.write(0, 1000);
    // A quarter of the stroke: 0.1 ms command, 7 ms seek, then the same angle comes round at 10 ms.
    assert_eq!(session.write(SIZE_BYTES / 4 + 1000, 1000), 10 * MS + 10 * US);
    // Back, and half a turn further on: the byte passes 5 ms - 10 us later, too early; once more.
    assert_eq!(session.write(501_000, 1000), 15 * MS - 10 * US + 10 * US);
}

#[test]
fn of_several_requests_the_arm_takes_the_one_it_reaches_first() {
    let mut session = Session::new(&disk(4, None));
    session.write(0, 1000);
    for offset_bytes in [900_000, 100_000, 500_000] {
        session.submit(Operation::Write, offset_bytes, 1000);
    }
    let mut completions = Vec::new();
    session.drive.advance(session.now_ns + 20 * MS, &mut completions);
    // The first is alone when the arm is free; of the two others, the nearer one.
    assert_eq!(completions.iter().map(|completion| completion.id).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(completions[1].at_ns - completions[0].at_ns, 2 * MS);
    assert_eq!(completions[2].at_ns - completions[1].at_ns, 4 * MS);
}

#[test]
fn a_far_request_is_not_passed_over_for_ever() {
    let mut session = Session::new(&disk(4, None));
    session.write(0, 1000);
    session.submit(Operation::Write, 0, 1000);
    session.submit(Operation::Write, SIZE_BYTES / 2, 1000);
    let mut completions = Vec::new();
    while completions.iter().all(|completion: &Completion| completion.id != 2) {
        session.drive.advance(session.now_ns, &mut completions);
        session.now_ns += 100 * US;
        session.submit(Operation::Write, session.next_id * 50_000 % 1_000_000, 1000);
        assert!(session.now_ns < 1000 * MS, "never served");
    }
}

#[test]
fn bytes_read_in_a_row_do_not_wait() {
    let mut session = Session::new(&disk(1, None));
    session.time(Operation::Read, 0, 100_000);
    assert_eq!(session.time(Operation::Read, 100_000, 100_000), MS);
    session.now_ns += 5 * MS;
    assert_eq!(session.time(Operation::Read, 200_000, 100_000), 100 * US);
}

#[test]
fn a_flush_destages_sorted_and_merged() {
    let mut session = Session::new(&disk(1, Some(cache())));
    session.write(0, 40_000);
    session.flush();
    let from_ns = session.now_ns;
    for offset_bytes in [20_000, 0, 30_000, 10_000] {
        assert_eq!(session.write(offset_bytes, 10_000), 100 * US + 10 * US);
    }
    session.flush();
    assert_eq!(session.now_ns - from_ns, 10 * MS);
    assert_eq!(session.drive.volatile().count(), 0);
}

#[test]
fn what_was_written_stays_volatile_until_it_is_destaged_in_the_background() {
    let mut session = Session::new(&disk(1, Some(cache())));
    session.write(4096, 8192);
    session.write(8192, 1024);
    let extents: Vec<_> = session
        .drive
        .volatile()
        .map(|extent| (extent.offset_bytes, extent.length_bytes, extent.id))
        .collect();
    assert_eq!(extents, [(4096, 4096, 0), (8192, 1024, 1), (9216, 3072, 0)]);
    assert_eq!(session.drive.next_due_ns(), Some(104 * US + US * 4 + 192 + 50 * MS));
    session.drive.advance(100 * MS, &mut Vec::new());
    assert_eq!(session.drive.volatile().count(), 0);
    assert_eq!(session.drive.next_due_ns(), None);
}

#[test]
fn an_ignored_flush_completes_at_once_and_leaves_the_cache_as_it_is() {
    let liar = WriteCache { flush: Flush::Ignored, ..cache() };
    let mut session = Session::new(&disk(1, Some(liar)));
    session.write(0, 8192);
    assert_eq!(session.flush(), 0);
    assert_eq!(session.drive.volatile().count(), 1);
}

#[test]
fn a_cache_that_survives_a_power_cut_flushes_at_once_and_is_not_volatile() {
    let battery = WriteCache { volatile: false, ..cache() };
    let mut session = Session::new(&disk(1, Some(battery)));
    session.write(0, 8192);
    assert_eq!(session.flush(), 100 * US);
    assert_eq!(session.drive.volatile().count(), 0);
}

#[test]
fn a_write_without_room_waits_for_the_disk() {
    let mut session = Session::new(&disk(1, Some(cache())));
    session.write(0, 1 << 20);
    let waited_ns = session.write(1 << 20, 1 << 20);
    assert!(
        (10 * MS..30 * MS).contains(&waited_ns),
        "{waited_ns}: a transfer and a revolution, no idle time"
    );
}

#[test]
fn a_look_ahead_of_an_arrival_does_not_delay_it() {
    let mut session = Session::new(&flash(None));
    session.drive.advance(MS, &mut Vec::new());
    // Command, bus, programming, commit.
    assert_eq!(session.write(0, 4000), (10 + 4 + 100 + 30) * US);
}

#[test]
fn a_flush_with_the_cache_off_costs_a_command() {
    let mut session = Session::new(&disk(1, None));
    session.write(0, 1000);
    assert_eq!(session.flush(), 100 * US);
}

#[test]
fn two_channels_program_two_writes_at_a_time_and_commit_each() {
    let mut session = Session::new(&flash(None));
    for page in 0..4 {
        session.submit(Operation::Write, page * 4000, 4000);
    }
    // Commands at 10, 20, 30, 40 us, 4 us on the bus, 100 us programming, 30 us to commit.
    let ends_us: Vec<_> = session.wait(4).iter().map(|ns| ns / US).collect();
    assert_eq!(ends_us, [144, 154, 248, 258]);
}

#[test]
fn a_flush_of_flash_programs_side_by_side_and_commits_once() {
    let mut session = Session::new(&flash(Some(cache())));
    session.write(0, 4000);
    session.write(100_000, 4000);
    // Command, two bus transfers in turn, one programming time, one commit.
    assert_eq!(session.flush(), (10 + 8 + 100 + 30) * US);
    for page in [3, 1, 0, 2] {
        session.write(page * 4000, 4000);
    }
    // Neighbours are programmed as one, so that two channels are enough.
    assert_eq!(session.flush(), (10 + 16 + 100 + 30) * US);
}

#[test]
fn a_burst_passes_fast_until_the_bucket_is_empty() {
    let mut session = Session::new(&network(Network {
        latency_us: 500.0,
        iops: Some(100.0),
        io_unit_kib: None,
        burst_iops: Some(1000.0),
        burst_requests: Some(10.0),
        transfer_mb_per_s: None,
    }));
    for page in 0..14 {
        session.submit(Operation::Write, page * 4096, 4096);
    }
    let ends_us: Vec<_> = session.wait(14).iter().map(|ns| ns / US).collect();
    // Ten credits and the one that flowed in meanwhile at 1000/s, the rest at 100/s.
    assert_eq!(ends_us[..11], [500, 1500, 2500, 3500, 4500, 5500, 6500, 7500, 8500, 9500, 10_500]);
    assert_eq!(ends_us[11..], [20_500, 30_500, 40_500]);
    // However long it fills, the bucket holds ten.
    session.now_ns = 10_000 * MS;
    for page in 0..12 {
        session.submit(Operation::Write, page * 4096, 4096);
    }
    assert_eq!(session.wait(12)[11] / US, 10_020_500);
}

#[test]
fn a_large_request_counts_for_several_and_bytes_are_metered() {
    let numbers = Network {
        latency_us: 0.0,
        iops: Some(1000.0),
        io_unit_kib: Some(256),
        burst_iops: None,
        burst_requests: None,
        transfer_mb_per_s: None,
    };
    let mut session = Session::new(&network(numbers));
    session.write(0, 1 << 20);
    assert_eq!(session.write(0, 4096), 4 * MS);
    let mut session =
        Session::new(&network(Network { iops: None, transfer_mb_per_s: Some(100.0), ..numbers }));
    session.write(0, 1_000_000);
    assert_eq!(session.write(0, 4096), 10 * MS);
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    fn models() -> impl Strategy<Value = Model> {
        let caches = prop_oneof![
            Just(None),
            (any::<bool>(), 64_u64..2048, any::<bool>()).prop_map(|(volatile, size_kib, honest)| {
                let flush = if honest { Flush::Honest } else { Flush::Ignored };
                Some(WriteCache { size_kib, volatile, flush, ..cache() })
            })
        ];
        (0..3, 1_u32..8, caches).prop_map(|(kind, queue_depth, write_cache)| match kind {
            0 => disk(queue_depth, write_cache),
            1 => flash(write_cache),
            _ => Model { queue_depth, write_cache, ..Model::zero() },
        })
    }

    fn requests() -> impl Strategy<Value = Vec<(u64, Request)>> {
        let operations = prop_oneof![
            2 => Just(Operation::Read),
            6 => Just(Operation::Write),
            2 => Just(Operation::Flush),
            1 => Just(Operation::Discard),
        ];
        prop::collection::vec((operations, 0_u64..1000, 1_u64..64, 0_u64..3000), 1..60).prop_map(|drawn| {
            let mut now_ns = 0;
            let timed = drawn.into_iter().enumerate().map(|(at, (operation, block, blocks, pause_us))| {
                now_ns += pause_us * US;
                let (offset_bytes, length_bytes) =
                    if operation == Operation::Flush { (0, 0) } else { (block * 4096, blocks * 4096) };
                (now_ns, Request { id: at as u64, operation, offset_bytes, length_bytes })
            });
            timed.collect()
        })
    }

    /// Completion times by id, looking at the drive `looks` times between two submissions.
    fn run(model: &Model, requests: &[(u64, Request)], looks: u64) -> (Drive, Vec<Completion>) {
        let mut drive = Drive::new(model, &model.options(SIZE_BYTES, 7));
        let mut completions = Vec::new();
        let mut last_ns = 0;
        for &(at_ns, request) in requests {
            for look in 0..looks {
                drive.advance(last_ns + (at_ns - last_ns) * look / looks, &mut completions);
            }
            drive.submit(request, at_ns);
            last_ns = at_ns;
        }
        while completions.len() < requests.len() {
            let due_ns = drive.next_due_ns().expect("a request is under way, so something is due");
            drive.advance(due_ns.max(last_ns), &mut completions);
            last_ns = due_ns.max(last_ns);
        }
        (drive, completions)
    }

    proptest! {
        #[test]
        fn every_request_completes_once_and_time_does_not_go_back(model in models(), requests in requests()) {
            let (_, completions) = run(&model, &requests, 0);
            let mut ids: Vec<_> = completions.iter().map(|completion| completion.id).collect();
            ids.sort_unstable();
            prop_assert_eq!(ids, (0..requests.len() as u64).collect::<Vec<_>>());
            prop_assert!(completions.is_sorted_by_key(|completion| completion.at_ns));
            for completion in &completions {
                let submitted_ns = requests.iter().find(|(_, request)| request.id == completion.id).map(|(at, _)| *at);
                prop_assert!(Some(completion.at_ns) >= submitted_ns);
            }
        }

        #[test]
        fn looking_more_often_changes_nothing(model in models(), requests in requests(), looks in 1_u64..5) {
            prop_assert_eq!(run(&model, &requests, 0).1, run(&model, &requests, looks).1);
        }

        #[test]
        fn a_flush_completes_after_everything_before_it_and_before_everything_after(
            model in models(), requests in requests()
        ) {
            let (_, completions) = run(&model, &requests, 0);
            let order = |id: u64| completions.iter().position(|completion| completion.id == id);
            for (_, flush) in requests.iter().filter(|(_, request)| request.operation == Operation::Flush) {
                for (_, other) in &requests {
                    prop_assert_eq!(order(other.id).cmp(&order(flush.id)), other.id.cmp(&flush.id));
                }
            }
        }

        #[test]
        fn nothing_is_volatile_after_an_honest_flush(model in models(), mut requests in requests()) {
            let model = Model {
                write_cache: model.write_cache.map(|cache| WriteCache { flush: Flush::Honest, ..cache }),
                ..model
            };
            let (last_ns, id) = (requests[requests.len() - 1].0, requests.len() as u64);
            let flush = Request { id, operation: Operation::Flush, offset_bytes: 0, length_bytes: 0 };
            requests.push((last_ns, flush));
            let (drive, _) = run(&model, &requests, 0);
            prop_assert_eq!(drive.volatile().count(), 0);
        }

        #[test]
        fn what_is_volatile_was_written_by_the_request_it_names(model in models(), requests in requests()) {
            let (drive, _) = run(&model, &requests, 0);
            for extent in drive.volatile() {
                let (_, by) = requests.iter().find(|(_, request)| request.id == extent.id).expect("a known id");
                prop_assert!(by.offset_bytes <= extent.offset_bytes);
                let end = extent.offset_bytes + extent.length_bytes;
                prop_assert!(end <= by.offset_bytes + by.length_bytes);
            }
        }
    }
}
