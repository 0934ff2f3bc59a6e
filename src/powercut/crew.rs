//! Workers, each with a stage of its own: most of an image's time is waiting for the kernel to mount and unmount. What
//! comes of the jobs is taken in their order, so that nothing depends on how many workers there are.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::error::Error;
use super::stage::Stage;

/// Jobs given out per worker ahead of the first whose result is not taken yet.
const AHEAD: usize = 8;

/// All workers of a run.
#[derive(Debug)]
pub struct Crew {
    stages: Vec<Stage>,
}

/// A job's number, the job, what came of it.
type Finished<J, D> = (usize, J, Result<D, Error>);

impl Crew {
    /// A worker for each stage.
    pub fn new(stages: Vec<Stage>) -> Crew {
        Crew { stages }
    }

    /// How many workers.
    pub fn len(&self) -> usize {
        self.stages.len()
    }

    /// Nobody?
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Takes every device apart.
    pub fn close(self) -> Result<(), Error> {
        let mut closed = Ok(());
        for stage in self.stages {
            closed = closed.and(stage.close());
        }
        closed
    }

    /// Does every job, each worker with a state of its own from `start`, and hands the results to `take` in the order of
    /// the jobs until it breaks off. The first error ends it.
    pub fn work<J: Send, D: Send, S>(
        &mut self,
        jobs: impl Iterator<Item = J>,
        start: impl Fn() -> S + Sync,
        work: impl Fn(&J, &mut S, &mut Stage) -> Result<D, Error> + Sync,
        mut take: impl FnMut(J, D) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let most = AHEAD * self.stages.len();
        let (give, given) = channel::<(usize, J)>();
        let (done, finished) = channel::<Finished<J, D>>();
        let given = Mutex::new(given);
        thread::scope(|scope| {
            for stage in &mut self.stages {
                let (given, done, start, work) = (&given, done.clone(), &start, &work);
                scope.spawn(move || labour(given, &done, start(), |job, state| work(job, state, stage)));
            }
            drop(done);
            // Dropped at the end, which ends the workers.
            let give = give;
            let mut jobs = jobs.enumerate();
            let mut early = BTreeMap::new();
            let (mut handed, mut taken) = (0, 0);
            loop {
                while handed < taken + most {
                    let Some(job) = jobs.next() else { break };
                    handed += 1;
                    // A worker ends before the channel does only when it panics, which the scope passes on.
                    give.send(job).ok();
                }
                if handed == taken {
                    return Ok(());
                }
                let Ok((number, job, result)) = finished.recv() else { return Ok(()) };
                early.insert(number, (job, result));
                while let Some((job, result)) = early.remove(&taken) {
                    taken += 1;
                    if take(job, result?).is_break() {
                        return Ok(());
                    }
                }
            }
        })
    }
}

/// One worker: a job after the other, until there are no more or nobody wants to know.
fn labour<J, D, S>(
    given: &Mutex<Receiver<(usize, J)>>,
    done: &Sender<Finished<J, D>>,
    mut state: S,
    mut work: impl FnMut(&J, &mut S) -> Result<D, Error>,
) {
    loop {
        let next = given.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, job)) = next else { return };
        let result = work(&job, &mut state);
        if done.send((number, job, result)).is_err() {
            return;
        }
    }
}
