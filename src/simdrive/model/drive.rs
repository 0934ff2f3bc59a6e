//! The drive: a queue, a command processor, a cache, a mechanism.
//!
//! A request waits until the drive takes it in (at most `queue_depth` are inside), passes the command processor (one
//! at a time, the overhead each; a cached write's bytes too), and then
//! - a write with the cache on is put there and done, or waits for room;
//! - a read whose bytes are all dirty in the cache is done;
//! - any other read or write waits for the mechanism, which takes the one it can reach first;
//! - a discard is done;
//! - a flush, which came in alone, waits until the cache is empty if it is honoured and the cache volatile.
//!
//! The mechanism serves requests before it destages.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::cache::{Cache, Run};
use super::mechanism::{Direction, Machine, Transfer};
use super::numbers::us_to_ns;
use super::{Completion, Extent, Flush, Model, Operation, Options, Request};

/// One simulated drive.
#[derive(Debug)]
pub struct Drive {
    overhead_ns: u64,
    queue_depth: u32,
    honest: bool,
    machine: Machine,
    cache: Option<Cache>,
    /// Of the last event: an arrival or a step.
    now_ns: u64,
    /// Not taken in yet, in order of arrival.
    arrived: VecDeque<Request>,
    /// Taken in and not done.
    inside: u32,
    /// In the command processor, and until when.
    processed: Option<(u64, Request)>,
    /// Waiting for the mechanism, in order of arrival.
    ready: Vec<Request>,
    /// How often in a row another was taken before the first of them.
    passed_over: u32,
    /// Waiting for room in the cache, in order of arrival.
    held: VecDeque<Request>,
    /// Waiting for the cache to be empty.
    flushing: Option<Request>,
    /// Is a flush inside?
    barrier: bool,
    /// What the mechanism is at: end, order of start, what.
    under_way: BinaryHeap<Reverse<(u64, u64, Work)>>,
    started: u64,
    done: VecDeque<Completion>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    Request { id: u64, flush: bool },
    Run { number: u64, offset_bytes: u64, length_bytes: u64 },
}

impl Drive {
    /// A drive at rest, its cache empty, at time 0.
    #[must_use]
    pub fn new(model: &Model, options: &Options) -> Drive {
        Drive {
            overhead_ns: us_to_ns(model.command_overhead_us),
            queue_depth: model.queue_depth.max(1),
            honest: options.flush == Flush::Honest,
            machine: Machine::new(model, options),
            cache: model.write_cache.as_ref().filter(|_| options.write_cache).map(Cache::new),
            now_ns: 0,
            arrived: VecDeque::new(),
            inside: 0,
            processed: None,
            ready: Vec::new(),
            passed_over: 0,
            held: VecDeque::new(),
            flushing: None,
            barrier: false,
            under_way: BinaryHeap::new(),
            started: 0,
            done: VecDeque::new(),
        }
    }

    /// A request arrives at `now_ns`.
    pub fn submit(&mut self, request: Request, now_ns: u64) {
        self.run(now_ns);
        self.now_ns = self.now_ns.max(now_ns);
        self.arrived.push_back(request);
        self.step();
        self.run(now_ns);
    }

    /// When the next event (a completion, a step of background destaging) is due; `None` when the drive is idle.
    /// May lie in the past when [`Drive::advance`] is owed.
    #[must_use]
    pub fn next_due_ns(&self) -> Option<u64> {
        let done_ns = self.done.front().map(|completion| completion.at_ns);
        done_ns.or_else(|| self.next_event_ns())
    }

    /// Goes on to `now_ns` and appends what has completed by then to `completions`, in order of completion.
    pub fn advance(&mut self, now_ns: u64, completions: &mut Vec<Completion>) {
        self.run(now_ns);
        completions.extend(self.done.drain(..));
    }

    /// What a power cut may take of that which has completed, as of the last event: empty without a volatile
    /// cache. First what is being written to the mechanism, then the rest; of the rest no two overlap, but they may
    /// overlap with the first and are then newer.
    pub fn volatile(&self) -> impl Iterator<Item = Extent> + '_ {
        self.cache.iter().filter(|cache| cache.volatile()).flat_map(Cache::extents)
    }

    /// Takes every step that is due by `until_ns`.
    fn run(&mut self, until_ns: u64) {
        while let Some(event_ns) = self.next_event_ns().filter(|&event_ns| event_ns <= until_ns) {
            self.now_ns = self.now_ns.max(event_ns);
            self.step();
        }
    }

    fn next_event_ns(&self) -> Option<u64> {
        let processed_ns = self.processed.map(|(end_ns, _)| end_ns);
        let work_ns = self.under_way.peek().map(|Reverse((end_ns, ..))| *end_ns);
        let destage_ns = self.cache.as_ref().and_then(Cache::due_ns).filter(|&due_ns| due_ns > self.now_ns);
        [processed_ns, work_ns, destage_ns].into_iter().flatten().min()
    }

    /// Everything that happens at `now_ns`.
    fn step(&mut self) {
        while let Some(&Reverse((end_ns, _, work))) = self.under_way.peek()
            && end_ns <= self.now_ns
        {
            self.under_way.pop();
            self.finish(work);
        }
        if let Some((end_ns, request)) = self.processed
            && end_ns <= self.now_ns
        {
            self.processed = None;
            self.route(request);
        }
        self.fill_cache();
        self.dispatch();
        self.finish_flush();
        self.take_in();
    }

    fn finish(&mut self, work: Work) {
        match work {
            Work::Request { id, flush } => {
                self.barrier &= !flush;
                self.complete(id);
            }
            Work::Run { number, offset_bytes, length_bytes } => {
                if let Some(cache) = &mut self.cache {
                    cache.arrived(Run { number, offset_bytes, length_bytes });
                }
            }
        }
    }

    /// From the command processor to where the request belongs.
    fn route(&mut self, request: Request) {
        match (request.operation, &mut self.cache) {
            (Operation::Write, Some(_)) => self.held.push_back(request),
            (Operation::Read, Some(cache)) if cache.holds(request.offset_bytes, request.length_bytes) => {
                self.complete(request.id);
            }
            (Operation::Read | Operation::Write, _) => self.ready.push(request),
            (Operation::Discard, cache) => {
                if let Some(cache) = cache {
                    cache.put(extent_of(&request), true, self.now_ns);
                }
                self.complete(request.id);
            }
            (Operation::Flush, _) => self.flushing = Some(request),
        }
    }

    /// Puts held writes into the cache while there is room.
    fn fill_cache(&mut self) {
        while let (Some(cache), Some(request)) = (&mut self.cache, self.held.front().copied())
            && cache.has_room(request.length_bytes)
        {
            self.held.pop_front();
            cache.put(extent_of(&request), false, self.now_ns);
            self.complete(request.id);
        }
    }

    /// Gives the mechanism what it takes: requests first, then what is to be destaged.
    fn dispatch(&mut self) {
        while self.machine.takes(self.now_ns)
            && let Some(request) = self.take_nearest()
        {
            let durable_ns = if request.operation == Operation::Write { self.machine.commit_ns() } else { 0 };
            let end_ns = self.machine.serve(&transfer_of(&request), self.now_ns) + durable_ns;
            self.start(end_ns, Work::Request { id: request.id, flush: false });
        }
        while self.machine.takes(self.now_ns)
            && self.wants_to_destage()
            && let Some(run) =
                self.cache.as_mut().and_then(|cache| cache.take_run(self.machine.place_bytes()))
        {
            let Run { number, offset_bytes, length_bytes } = run;
            let transfer = Transfer { direction: Direction::Write, offset_bytes, length_bytes };
            let end_ns =
                if length_bytes == 0 { self.now_ns } else { self.machine.serve(&transfer, self.now_ns) };
            self.start(end_ns, Work::Run { number, offset_bytes, length_bytes });
        }
    }

    fn wants_to_destage(&self) -> bool {
        let Some(cache) = &self.cache else { return false };
        let due = cache.due_ns().is_some_and(|due_ns| due_ns <= self.now_ns);
        let asked = !self.held.is_empty() || (self.flushing.is_some() && self.flush_empties_cache());
        (due || asked) && cache.runs_under_way() < self.machine.width()
    }

    /// The waiting request that the mechanism reaches first; of equals, the first that came. Who has been passed over
    /// as often as two full queues is next.
    fn take_nearest(&mut self) -> Option<Request> {
        let access_ns = |at: &usize| self.machine.access_ns(&transfer_of(&self.ready[*at]), self.now_ns);
        let starving = self.passed_over >= 2 * self.queue_depth;
        let at = if starving { 0 } else { (0..self.ready.len()).min_by_key(access_ns)? };
        self.passed_over = if at == 0 { 0 } else { self.passed_over + 1 };
        (at < self.ready.len()).then(|| self.ready.remove(at))
    }

    fn finish_flush(&mut self) {
        let waits_for_cache = self.flush_empties_cache();
        let clean = self.cache.as_ref().is_none_or(Cache::is_clean);
        if let Some(request) = self.flushing
            && (!waits_for_cache || clean)
        {
            self.flushing = None;
            let commit_ns = if waits_for_cache { self.machine.commit_ns() } else { 0 };
            self.start(self.now_ns + commit_ns, Work::Request { id: request.id, flush: true });
        }
    }

    fn flush_empties_cache(&self) -> bool {
        self.honest && self.cache.as_ref().is_some_and(Cache::volatile)
    }

    /// Takes in the next request, if the command processor is free and the queue lets it: a flush only alone.
    fn take_in(&mut self) {
        let Some(&request) = self.arrived.front() else { return };
        let flush = request.operation == Operation::Flush;
        if self.processed.is_some()
            || self.barrier
            || self.inside >= self.queue_depth
            || (flush && self.inside > 0)
        {
            return;
        }
        self.arrived.pop_front();
        self.inside += 1;
        self.barrier = flush;
        let bytes_ns = match (&self.cache, request.operation) {
            (Some(cache), Operation::Write) => cache.transfer_ns(request.length_bytes),
            _ => 0,
        };
        // A flush that is ignored costs as little as none.
        let overhead_ns = if flush && !self.honest { 0 } else { self.overhead_ns };
        self.processed = Some((self.now_ns + overhead_ns + bytes_ns, request));
    }

    fn start(&mut self, end_ns: u64, work: Work) {
        self.started += 1;
        self.under_way.push(Reverse((end_ns, self.started, work)));
    }

    fn complete(&mut self, id: u64) {
        self.inside -= 1;
        self.done.push_back(Completion { id, at_ns: self.now_ns });
    }
}

fn extent_of(request: &Request) -> Extent {
    Extent { offset_bytes: request.offset_bytes, length_bytes: request.length_bytes, id: request.id }
}

fn transfer_of(request: &Request) -> Transfer {
    let direction = if request.operation == Operation::Read { Direction::Read } else { Direction::Write };
    Transfer { direction, offset_bytes: request.offset_bytes, length_bytes: request.length_bytes }
}
