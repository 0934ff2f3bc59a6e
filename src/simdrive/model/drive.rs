//! The drive: a queue, a mechanism, a cache.

use std::collections::VecDeque;

use super::{Completion, Extent, Model, Options, Request};

/// One simulated drive.
#[derive(Debug)]
pub struct Drive {
    done: VecDeque<Completion>,
}

impl Drive {
    /// A drive at rest, its cache empty, at time 0.
    #[must_use]
    pub fn new(_model: &Model, _options: &Options) -> Drive {
        Drive { done: VecDeque::new() }
    }

    /// A request arrives at `now_ns`.
    pub fn submit(&mut self, request: Request, now_ns: u64) {
        self.done.push_back(Completion { id: request.id, at_ns: now_ns });
    }

    /// When the next event (a completion, a step of background destaging) is due; `None` when the drive is idle.
    /// May lie in the past when [`Drive::advance`] is owed.
    #[must_use]
    pub fn next_due_ns(&self) -> Option<u64> {
        self.done.front().map(|completion| completion.at_ns)
    }

    /// Goes on to `now_ns` and appends what has completed by then to `completions`, in order of completion.
    pub fn advance(&mut self, now_ns: u64, completions: &mut Vec<Completion>) {
        while self.done.front().is_some_and(|completion| completion.at_ns <= now_ns) {
            completions.extend(self.done.pop_front());
        }
    }

    /// What a power cut may take of that which has completed, as of the last time given: empty without a volatile
    /// cache. In order of offset; no two overlap, but an older extent that is being written may lie under a newer.
    pub fn volatile(&self) -> impl Iterator<Item = Extent> + '_ {
        std::iter::empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Model, Operation};
    use super::*;

    #[test]
    fn the_zero_model_completes_a_request_when_it_arrives() {
        let model = Model::zero();
        let mut drive = Drive::new(&model, &model.options(1 << 30, 1));
        drive.submit(Request { id: 7, operation: Operation::Write, offset_bytes: 0, length_bytes: 4096 }, 10);
        let mut completions = Vec::new();
        assert_eq!(drive.next_due_ns(), Some(10));
        drive.advance(10, &mut completions);
        assert_eq!(completions, [Completion { id: 7, at_ns: 10 }]);
        assert_eq!(drive.next_due_ns(), None);
    }
}
