//! The model in real time: requests go in as they arrive, answers leave when the model says so.
//!
//! Times given to the model have the transport's own cost taken off: a request is taken to have arrived as much earlier
//! as the way from its issuer to here and back costs, so that what the issuer sees is the model's time alone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::errno::Errno;

use super::answer::Answer;
use super::log::Log;
use crate::simdrive::model::{Completion, Drive, Model, Operation, Options, Request};
use crate::sys::clock::now_ns;

/// The timer sleeps until this long before a deadline and spins for the rest: about what a wake-up costs.
const SPIN_NS: u64 = 50_000;
/// An answer this much behind its deadline is counted as late.
const LATE_NS: u64 = 100_000;
/// No deadline.
const NEVER: u64 = u64::MAX;

/// What the way to the server and back costs without any drive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transport {
    /// Nanoseconds for the shortest request.
    pub base_ns: u64,
    /// Nanoseconds more for each MiB carried.
    pub per_mib_ns: u64,
}

impl Transport {
    fn of(self, carried_bytes: u64) -> u64 {
        self.base_ns + ((self.per_mib_ns * carried_bytes) >> 20)
    }
}

/// What a server has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests answered.
    pub answered: u64,
    /// Answers that left over 100 us behind their deadline: the host was too busy for this model.
    pub late: u64,
}

/// A request as it arrives.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// What is asked.
    pub operation: Operation,
    /// First byte.
    pub offset_bytes: u64,
    /// Number of bytes.
    pub length_bytes: u64,
    /// When it arrived, by the clock.
    pub arrived_ns: u64,
}

/// A request that is not answered yet.
enum Waiting {
    /// Its answer waits for its time.
    Ready(Answer),
    /// Its bytes are being fetched.
    Fetching,
    /// Its bytes are being fetched, and its time has come.
    Overdue,
}

struct State {
    drive: Drive,
    /// The drive takes time; if not, everything is answered at once and the model is not asked.
    latency: bool,
    transport: Transport,
    /// Time 0 of the drive.
    base_ns: u64,
    next_id: u64,
    waiting: HashMap<u64, Waiting>,
    completions: Vec<Completion>,
    log: Option<Log>,
    tally: Tally,
    /// The power is gone: no answer leaves any more.
    dead: bool,
}

/// Holds answers back until the model lets them go.
pub struct Engine {
    model: Model,
    options: Options,
    state: Mutex<State>,
    changed: Condvar,
    next_due_ns: AtomicU64,
    closing: AtomicBool,
}

impl Engine {
    /// An engine that answers at once.
    pub fn new(model: Model, options: Options, log: Option<Log>) -> Engine {
        let state = State {
            drive: Drive::new(&model, &options),
            latency: false,
            transport: Transport::default(),
            base_ns: 0,
            next_id: 0,
            waiting: HashMap::with_capacity(2 * super::MOST_IN_FLIGHT),
            completions: Vec::with_capacity(2 * super::MOST_IN_FLIGHT),
            log,
            tally: Tally::default(),
            dead: false,
        };
        Engine {
            model,
            options,
            state: Mutex::new(state),
            changed: Condvar::new(),
            next_due_ns: AtomicU64::new(NEVER),
            closing: AtomicBool::new(false),
        }
    }

    /// Takes a request that arrived at `arrived_ns` of the clock; `data` is what a write carries, for the log. Its
    /// answer leaves when it is due, perhaps before this returns.
    pub fn submit(&self, asked: Asked, data: &[u8], answer: Answer) {
        if let Err((errno, Waiting::Ready(answer))) = self.take(asked, data, Waiting::Ready(answer)) {
            answer.refuse(errno);
        }
    }

    /// Takes a read whose bytes are still to be fetched: [`Engine::finish_read`] or [`Engine::forget`] follows.
    pub fn begin_read(&self, asked: Asked) -> Result<u64, Errno> {
        self.take(asked, &[], Waiting::Fetching).map_err(|(errno, _)| errno)
    }

    /// The bytes of a read are there: its answer leaves when it is due, or now if it was before.
    pub fn finish_read(&self, id: u64, answer: Answer) {
        let mut state = self.lock();
        if let Some(waiting @ Waiting::Fetching) = state.waiting.get_mut(&id) {
            *waiting = Waiting::Ready(answer);
            return;
        }
        state.waiting.remove(&id);
        drop(state);
        answer.send();
    }

    /// The bytes of a read could not be fetched.
    pub fn forget(&self, id: u64) {
        self.lock().waiting.remove(&id);
    }

    fn take(&self, asked: Asked, data: &[u8], waiting: Waiting) -> Result<u64, (Errno, Waiting)> {
        let Asked { operation, offset_bytes, length_bytes, arrived_ns } = asked;
        let mut state = self.lock();
        if state.dead {
            return Err((Errno::EIO, waiting));
        }
        let id = state.next_id;
        state.next_id += 1;
        let request = Request { id, operation, offset_bytes, length_bytes };
        if let Err(errno) = state.log.as_mut().map_or(Ok(()), |log| log.issued(request, data, arrived_ns)) {
            return Err((errno, waiting));
        }
        if !state.latency {
            state.note_completion(id, arrived_ns);
            let answer = state.due(id, waiting);
            drop(state);
            if let Some(answer) = answer {
                answer.send();
            }
            return Ok(id);
        }
        let carried = if operation == Operation::Discard { 0 } else { length_bytes };
        let arrival_ns = arrived_ns.saturating_sub(state.transport.of(carried) + state.base_ns);
        state.waiting.insert(id, waiting);
        state.drive.submit(request, arrival_ns);
        self.send_due(state);
        Ok(id)
    }

    /// Sends every answer that is due by now and tells the timer of the next.
    fn send_due(&self, mut state: MutexGuard<'_, State>) {
        if state.dead {
            return;
        }
        let now = now_ns();
        let State { drive, completions, base_ns, .. } = &mut *state;
        drive.advance(now - *base_ns, completions);
        let mut due: [Option<Answer>; 4] = [const { None }; 4];
        let mut more = Vec::new();
        for number in 0..state.completions.len() {
            let Completion { id, at_ns } = state.completions[number];
            state.note_completion(id, now);
            state.tally.late += u64::from(now > state.base_ns + at_ns + LATE_NS);
            let waiting = state.waiting.remove(&id);
            let answer = waiting.and_then(|waiting| state.due(id, waiting));
            match due.get_mut(number) {
                Some(place) => *place = answer,
                None => more.extend(answer),
            }
        }
        state.completions.clear();
        let next = state.drive.next_due_ns().map_or(NEVER, |due_ns| state.base_ns + due_ns);
        let before = self.next_due_ns.swap(next, Ordering::SeqCst);
        drop(state);
        if next < before {
            self.changed.notify_all();
        }
        for answer in due.into_iter().flatten().chain(more) {
            answer.send();
        }
    }

    /// Sends answers when they are due, until [`Engine::close`]: the body of the timer's thread.
    pub fn keep_time(&self) {
        let mut state = self.lock();
        while !self.closing.load(Ordering::SeqCst) {
            let (now, next) = (now_ns(), self.next_due_ns.load(Ordering::SeqCst));
            if next == NEVER {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else if next > now + SPIN_NS {
                let sleep = Duration::from_nanos(next - now - SPIN_NS);
                state = self.changed.wait_timeout(state, sleep).unwrap_or_else(PoisonError::into_inner).0;
            } else {
                drop(state);
                // Also left early when something else becomes due first.
                while now_ns() < self.next_due_ns.load(Ordering::SeqCst).min(next) {
                    std::hint::spin_loop();
                }
                self.send_due(self.lock());
                state = self.lock();
            }
        }
    }

    /// From now on the drive takes the model's time: a drive at rest, its cache empty.
    pub fn start_latency(&self, transport: Transport) {
        let mut state = self.lock();
        state.drive = Drive::new(&self.model, &self.options);
        state.base_ns = now_ns() - transport.of(super::MOST_BYTES as u64);
        state.transport = transport;
        state.latency = true;
    }

    /// From now on everything is answered at once, and what waits is answered now.
    pub fn stop_latency(&self) {
        let mut state = self.lock();
        state.latency = false;
        let now = now_ns();
        let mut waiting: Vec<(u64, Waiting)> = state.waiting.drain().collect();
        waiting.sort_unstable_by_key(|(id, _)| *id);
        let mut answers = Vec::new();
        for (id, waiting) in waiting {
            if !matches!(waiting, Waiting::Overdue) {
                state.note_completion(id, now);
            }
            answers.extend(state.due(id, waiting));
        }
        state.drive = Drive::new(&self.model, &self.options);
        self.next_due_ns.store(NEVER, Ordering::SeqCst);
        drop(state);
        for answer in answers {
            answer.send();
        }
    }

    /// Puts a mark into the write log: after everything answered so far, before everything that arrives later.
    pub fn mark(&self, text: &str) -> Result<(), Errno> {
        self.lock().log.as_mut().map_or(Ok(()), |log| log.marked(text, now_ns()))
    }

    /// From now on no request is taken and no answer leaves; what happened so far is in the log, which is given back.
    pub fn lose_power(&self) -> Option<Log> {
        let mut state = self.lock();
        state.dead = true;
        self.next_due_ns.store(NEVER, Ordering::SeqCst);
        state.log.take()
    }

    /// What was done so far.
    pub fn tally(&self) -> Tally {
        self.lock().tally
    }

    /// Ends [`Engine::keep_time`] and gives the log back.
    pub fn close(&self) -> Option<Log> {
        self.closing.store(true, Ordering::SeqCst);
        let log = self.lock().log.take();
        self.changed.notify_all();
        log
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A request is due: its answer, if it is ready.
    fn due(&mut self, id: u64, waiting: Waiting) -> Option<Answer> {
        match waiting {
            Waiting::Ready(answer) => Some(answer),
            Waiting::Fetching | Waiting::Overdue => {
                self.waiting.insert(id, Waiting::Overdue);
                None
            }
        }
    }

    fn note_completion(&mut self, id: u64, at_ns: u64) {
        self.tally.answered += 1;
        if let Some(log) = &mut self.log {
            log.completed(id, at_ns);
        }
    }
}
