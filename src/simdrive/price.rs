//! What a recorded workload costs on another drive, in invented time.
//!
//! The log is replayed as a closed loop. A clock goes through it entry by entry:
//! - at a completion it waits until the same request has completed on the new drive (it does not go back if that was
//!   long ago);
//! - at a request or a mark it goes on by the time that passed in the recording since the entry before: the time the
//!   host thought, whatever the drive; then the request is submitted.
//!
//! So a request starts when everything that had completed before it in the recording has completed, plus the recorded
//! thinking time; what was under way together is under way together; and the drive's own time is replaced. A host that
//! computed while the drive worked is taken to have computed nothing: a price is low by what a faster drive would
//! uncover.
//!
//! A drive that says `write through` is sent no flushes, so none are replayed on one.

use std::collections::HashMap;
use std::io::Read;

use super::Error;
use super::model::{Completion, Drive, Model, Operation, Options, Request};
use super::writelog::{Ending, Entry, Reader};

/// What a log costs on a drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Priced {
    /// From the start to the first mark, and from each mark to the next or the end.
    pub spans: Vec<Span>,
    /// From the first entry until everything has completed.
    pub elapsed_ns: u64,
    /// How long that took in the recording.
    pub recorded_ns: u64,
    /// How the log ended.
    pub ending: Ending,
    /// The drive would have been sent flushes, but the one recorded was not: the price is too low.
    pub flushes_missing: bool,
}

/// What happened between two marks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Span {
    /// The mark it begins with; empty before the first.
    pub mark: String,
    /// How long it takes on the drive.
    pub elapsed_ns: u64,
    /// How long it took in the recording.
    pub recorded_ns: u64,
    /// Requests to write, and their bytes.
    pub writes: u64,
    /// Bytes of `writes`.
    pub bytes_written: u64,
    /// Requests to read.
    pub reads: u64,
    /// Bytes of `reads`.
    pub bytes_read: u64,
    /// Flushes sent to this drive.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
}

impl Span {
    fn count(&mut self, request: &Request) {
        match request.operation {
            Operation::Write => {
                self.writes += 1;
                self.bytes_written += request.length_bytes;
            }
            Operation::Read => {
                self.reads += 1;
                self.bytes_read += request.length_bytes;
            }
            Operation::Flush => self.flushes += 1,
            Operation::Discard => self.discards += 1,
        }
    }
}

/// Replays a log on a drive. Time is about proportional to the entries, memory to what is under way and the marks.
pub fn price<R: Read>(log: &mut Reader<R>, model: &Model, options: &Options) -> Result<Priced, Error> {
    let flushes = model.write_back(options);
    let flushes_missing = flushes && !log.header().write_back;
    let mut replay = Replay::new(Drive::new(model, options));
    let mut spans = Spans::default();
    let mut first_ns = None;
    while let Some(entry) = log.next()? {
        let recorded_ns = entry.at_ns() - *first_ns.get_or_insert(entry.at_ns());
        let thought_ns = recorded_ns - spans.recorded_ns;
        spans.recorded_ns = recorded_ns;
        match entry {
            Entry::Completed { id, .. } => replay.wait_for(id),
            Entry::Issued { request, .. } => {
                replay.now_ns += thought_ns;
                if flushes || request.operation != Operation::Flush {
                    spans.open.count(&request);
                    replay.submit(request);
                }
            }
            Entry::Mark { text, .. } => {
                replay.now_ns += thought_ns;
                spans.close(replay.now_ns, text);
            }
        }
    }
    replay.wait_for_all();
    spans.close(replay.now_ns, "");
    let Spans { recorded_ns, closed: spans, .. } = spans;
    Ok(Priced { spans, elapsed_ns: replay.now_ns, recorded_ns, ending: log.ending(), flushes_missing })
}

/// The spans so far, and the recording's clock.
#[derive(Default)]
struct Spans {
    closed: Vec<Span>,
    open: Span,
    /// When the open one began, on the drive and in the recording.
    open_from_ns: (u64, u64),
    recorded_ns: u64,
}

impl Spans {
    /// Closes the open one at `now_ns` and opens the next.
    fn close(&mut self, now_ns: u64, next_mark: &str) {
        let next = Span { mark: next_mark.to_owned(), ..Span::default() };
        let mut span = std::mem::replace(&mut self.open, next);
        span.elapsed_ns = now_ns - self.open_from_ns.0;
        span.recorded_ns = self.recorded_ns - self.open_from_ns.1;
        self.open_from_ns = (now_ns, self.recorded_ns);
        self.closed.push(span);
    }
}

/// A drive and the clock.
struct Replay {
    drive: Drive,
    now_ns: u64,
    /// Submitted here, completion not yet met in the log: when it completed here, if it has.
    open: HashMap<u64, Option<u64>>,
    completions: Vec<Completion>,
}

impl Replay {
    fn new(drive: Drive) -> Replay {
        Replay { drive, now_ns: 0, open: HashMap::new(), completions: Vec::new() }
    }

    fn submit(&mut self, request: Request) {
        self.open.insert(request.id, None);
        self.drive.submit(request, self.now_ns);
    }

    /// A request that was not replayed is not waited for.
    fn wait_for(&mut self, id: u64) {
        while self.open.get(&id) == Some(&None) && self.advance() {}
        if let Some(Some(at_ns)) = self.open.remove(&id) {
            self.now_ns = self.now_ns.max(at_ns);
        }
    }

    fn wait_for_all(&mut self) {
        while self.open.values().any(Option::is_none) && self.advance() {}
        let last_ns = self.open.values().flatten().max().copied();
        self.now_ns = self.now_ns.max(last_ns.unwrap_or(0));
    }

    /// Goes on to the drive's next event; false if there is none.
    fn advance(&mut self) -> bool {
        let Some(due_ns) = self.drive.next_due_ns() else { return false };
        self.drive.advance(due_ns, &mut self.completions);
        for completion in self.completions.drain(..) {
            self.open.insert(completion.id, Some(completion.at_ns));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simdrive::model::{Flush, Mechanism, Network};
    use crate::simdrive::models::{BUILT_IN, built_in};
    use crate::simdrive::writelog::{Header, Writer};

    const SIZE_BYTES: u64 = 4 << 30;
    const US: u64 = 1000;

    fn request(id: u64, operation: Operation, offset_bytes: u64, length_bytes: u64) -> Request {
        Request { id, operation, offset_bytes, length_bytes }
    }

    fn log(write_back: bool, entries: &[Entry]) -> Vec<u8> {
        let header = Header {
            size_bytes: SIZE_BYTES,
            block_bytes: 512,
            atomic_unit_bytes: 4096,
            write_back,
            drive: "sata-2009".to_owned(),
        };
        let mut writer = Writer::new(Vec::new(), &header).expect("memory");
        for entry in entries {
            writer.write(entry).expect("memory");
        }
        writer.finish().expect("memory")
    }

    fn priced(log: &[u8], model: &Model) -> Priced {
        let options = model.options(SIZE_BYTES, 1);
        price(&mut Reader::new(log).expect("a log"), model, &options).expect("a whole log")
    }

    /// A drive on which everything takes 100 us, side by side.
    fn steady() -> Model {
        let Mechanism::Network(numbers) = Model::zero().mechanism else { panic!("zero is a network volume") };
        Model { mechanism: Mechanism::Network(Network { latency_us: 100.0, ..numbers }), ..Model::zero() }
    }

    fn issued<'a>(at_ns: u64, request: Request) -> Entry<'a> {
        Entry::Issued { at_ns, request, data: None }
    }

    #[test]
    fn a_request_starts_after_what_had_completed_plus_the_thinking_time() {
        let entries = [
            issued(5000 * US, request(0, Operation::Write, 0, 4096)),
            Entry::Completed { at_ns: 13_000 * US, id: 0 },
            issued(13_030 * US, request(1, Operation::Write, 4096, 4096)),
            Entry::Completed { at_ns: 21_000 * US, id: 1 },
        ];
        let priced = priced(&log(false, &entries), &steady());
        assert_eq!((priced.elapsed_ns, priced.recorded_ns), ((100 + 30 + 100) * US, 16_000 * US));
    }

    #[test]
    fn what_was_under_way_together_is_under_way_together() {
        let entries = [
            issued(0, request(0, Operation::Write, 0, 4096)),
            issued(10 * US, request(1, Operation::Write, 4096, 4096)),
            Entry::Completed { at_ns: 8000 * US, id: 1 },
            issued(8020 * US, request(2, Operation::Write, 8192, 4096)),
            Entry::Completed { at_ns: 16_000 * US, id: 0 },
            Entry::Completed { at_ns: 16_000 * US, id: 2 },
        ];
        assert_eq!(priced(&log(false, &entries), &steady()).elapsed_ns, (10 + 100 + 20 + 100) * US);
    }

    #[test]
    fn spans_go_from_mark_to_mark() {
        let entries = [
            issued(0, request(0, Operation::Read, 0, 512)),
            Entry::Completed { at_ns: US, id: 0 },
            Entry::Mark { at_ns: 2 * US, text: "copy" },
            issued(5 * US, request(1, Operation::Write, 0, 4096)),
            issued(5 * US, request(2, Operation::Discard, 0, 4096)),
            Entry::Completed { at_ns: 900 * US, id: 1 },
        ];
        let spans = priced(&log(false, &entries), &steady()).spans;
        let [before, copy] = &spans[..] else { panic!("two spans") };
        assert_eq!(
            (before.mark.as_str(), before.elapsed_ns, before.reads, before.bytes_read),
            ("", 101 * US, 1, 512)
        );
        assert_eq!((copy.mark.as_str(), copy.elapsed_ns, copy.recorded_ns), ("copy", 103 * US, 898 * US));
        assert_eq!((copy.writes, copy.bytes_written, copy.discards, copy.flushes), (1, 4096, 1, 0));
    }

    #[test]
    fn flushes_are_replayed_only_on_a_drive_that_is_sent_them() {
        let entries = [
            issued(0, request(0, Operation::Write, 0, 4096)),
            Entry::Completed { at_ns: US, id: 0 },
            issued(US, request(1, Operation::Flush, 0, 0)),
            Entry::Completed { at_ns: 8000 * US, id: 1 },
        ];
        let on = built_in("sata-2009").expect("listed");
        assert_eq!(priced(&log(true, &entries), &on).spans[0].flushes, 1);
        assert_eq!(priced(&log(true, &entries), &steady()).spans[0].flushes, 0);
        assert!(priced(&log(false, &entries[..2]), &on).flushes_missing);
        assert!(!priced(&log(false, &entries[..2]), &steady()).flushes_missing);
    }

    #[test]
    fn a_log_that_breaks_off_is_priced_up_to_there() {
        let entries =
            [issued(0, request(0, Operation::Write, 0, 4096)), Entry::Completed { at_ns: US, id: 0 }];
        let mut bytes = log(false, &entries);
        bytes.truncate(bytes.len() - 9);
        let priced = priced(&bytes, &steady());
        assert!(matches!(priced.ending, Ending::Torn { .. }));
        assert_eq!(priced.elapsed_ns, 100 * US);
    }

    /// Writes, now and then flushed, each when the one before has completed and a little later; as a log.
    fn recorded(model: &Model, options: &Options, requests: u64) -> (Vec<u8>, u64) {
        let mut drive = Drive::new(model, options);
        let (mut now_ns, mut entries, mut completions) = (0, Vec::new(), Vec::new());
        for id in 0..requests {
            let request = match id % 8 {
                7 => request(id, Operation::Flush, 0, 0),
                _ => request(id, Operation::Write, (id * 7_919_000_064) % SIZE_BYTES / 4096 * 4096, 8192),
            };
            entries.push(issued(now_ns, request));
            drive.submit(request, now_ns);
            while completions.is_empty() {
                drive.advance(drive.next_due_ns().expect("under way"), &mut completions);
            }
            now_ns = completions.drain(..).map(|completion| completion.at_ns).fold(now_ns, u64::max);
            entries.push(Entry::Completed { at_ns: now_ns, id });
            if id + 1 < requests {
                now_ns += 20 * US;
            }
        }
        (log(model.write_back(options), &entries), now_ns)
    }

    #[test]
    fn a_log_costs_on_its_own_drive_what_it_took_there() {
        for (name, _) in BUILT_IN {
            let model = built_in(name).expect("listed");
            let options = Options { flush: Flush::Honest, ..model.options(SIZE_BYTES, 1) };
            if !model.write_back(&options) {
                continue;
            }
            let (bytes, took_ns) = recorded(&model, &options, 200);
            let priced =
                price(&mut Reader::new(&bytes[..]).expect("a log"), &model, &options).expect("whole");
            assert_eq!((priced.elapsed_ns, priced.recorded_ns), (took_ns, took_ns), "{name}");
        }
    }

    #[test]
    fn a_long_log_is_priced_quickly() {
        let sata = built_in("sata-2009").expect("listed");
        let (bytes, _) = recorded(&sata, &sata.options(SIZE_BYTES, 1), 16_000);
        for (name, _) in BUILT_IN {
            let priced = priced(&bytes, &built_in(name).expect("listed"));
            assert_eq!(priced.spans[0].writes, 14_000, "{name}");
        }
    }
}
