//! Where the time of a CREATE DATABASE goes, seen from outside: what the backend waits for, by `/proc/PID/syscall`.
//!
//! FILE_COPY asks the checkpointer for a checkpoint and sleeps until it is done, twice: before the copy and after it. A
//! sleeping backend is in epoll_wait (or, before 13, in a timed sleep), a copying one is not. So the two longest sleeps are
//! the checkpoints and what lies between them is the copy. It costs the server nothing: a look is one small file of /proc
//! every `EVERY`, and no answer is more precise than that. It needs the right to read that file: root, or the server's
//! own user. A copy under WAL_LOG waits for no checkpoint and has no such parts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use crate::results::Phases;
use crate::sys::clock::now_ns;

/// How often the backend is looked at.
const EVERY: Duration = Duration::from_micros(200);

/// Sleeps below this are no checkpoints: the shortest seen, with nothing dirty and a cached drive, took 2 ms.
const SHORTEST_NS: u64 = 800_000;

/// A stretch of time in nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    from_ns: u64,
    to_ns: u64,
}

impl Stretch {
    fn length_ns(self) -> u64 {
        self.to_ns - self.from_ns
    }
}

/// Whether a backend can be looked at from here: it is on this machine, a postgres, and readable.
pub fn is_visible(backend: i32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{backend}/comm")).unwrap_or_default();
    name.trim().starts_with("postgres") && is_asleep(backend).is_some()
}

/// Does something while the backend is looked at; the parts of the time it took, where they could be told apart.
pub fn watched<T>(backend: i32, deed: impl FnOnce() -> T) -> (T, Option<Phases>) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let looker = scope.spawn(|| sleeps(backend, &done));
        let from_ns = now_ns();
        let result = deed();
        let whole = Stretch { from_ns, to_ns: now_ns() };
        done.store(true, Ordering::Relaxed);
        let sleeps = looker.join().unwrap_or_default();
        (result, parts(whole, &sleeps))
    })
}

/// When the backend slept, until `done`.
fn sleeps(backend: i32, done: &AtomicBool) -> Vec<Stretch> {
    let mut found = Vec::new();
    let mut since = None;
    while !done.load(Ordering::Relaxed) {
        let asleep = is_asleep(backend).unwrap_or(false);
        let now = now_ns();
        match (asleep, since) {
            (true, None) => since = Some(now),
            (false, Some(from_ns)) => {
                found.push(Stretch { from_ns, to_ns: now });
                since = None;
            }
            _ => {}
        }
        sleep(EVERY);
    }
    found
}

/// Whether a process waits for somebody else; nothing where it may not be looked at. The first word of the file is the
/// number of the call it is in, or `running`.
fn is_asleep(pid: i32) -> Option<bool> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?;
    let number = text.split_whitespace().next().and_then(|word| word.parse::<i64>().ok());
    Some(number.is_some_and(|number| SLEEPING.contains(&number)))
}

#[cfg(target_arch = "x86_64")]
const SLEEPING: &[i64] = &[
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
];

#[cfg(not(target_arch = "x86_64"))]
const SLEEPING: &[i64] = &[
    libc::SYS_epoll_pwait,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
];

/// The parts of a FILE_COPY; nothing where there were not two sleeps long enough.
fn parts(whole: Stretch, sleeps: &[Stretch]) -> Option<Phases> {
    let mut longest: Vec<Stretch> = sleeps
        .iter()
        .copied()
        .filter(|sleep| sleep.length_ns() >= SHORTEST_NS && sleep.from_ns >= whole.from_ns)
        .collect();
    longest.sort_by_key(|sleep| std::cmp::Reverse(sleep.length_ns()));
    longest.truncate(2);
    longest.sort_by_key(|sleep| sleep.from_ns);
    let [before, after] = longest[..] else { return None };
    let copy_ns = after.from_ns - before.to_ns;
    let known = before.length_ns() + copy_ns + after.length_ns();
    Some(Phases::from([
        ("checkpoint_before_ns".to_owned(), before.length_ns()),
        ("copy_ns".to_owned(), copy_ns),
        ("checkpoint_after_ns".to_owned(), after.length_ns()),
        ("rest_ns".to_owned(), whole.length_ns().saturating_sub(known)),
    ]))
}

/// The mean of each part over the copies whose parts could be told, in proportion to the mean of all copies; nothing where
/// those are fewer than half. On a busy machine a look may come so late that a short sleep is missed.
pub fn mean(all: &[Option<Phases>], mean_ns: u64) -> Option<Phases> {
    let told: Vec<&Phases> = all.iter().flatten().collect();
    let first = told.first()?;
    if told.len() * 2 < all.len() {
        return None;
    }
    let whole: u64 = told.iter().flat_map(|phases| phases.values()).sum();
    let mean = |name: &String| {
        let sum: u64 = told.iter().filter_map(|phases| phases.get(name)).sum();
        u64::try_from(u128::from(sum) * u128::from(mean_ns) / u128::from(whole.max(1))).unwrap_or(u64::MAX)
    };
    Some(first.keys().map(|name| (name.clone(), mean(name))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(from_ms: u64, to_ms: u64) -> Stretch {
        Stretch { from_ns: from_ms * 1_000_000, to_ns: to_ms * 1_000_000 }
    }

    #[test]
    fn the_two_longest_sleeps_are_the_checkpoints() {
        let sleeps = [stretch(0, 1), stretch(11, 21), stretch(60, 61), stretch(121, 140)];
        let parts = parts(stretch(10, 145), &sleeps).expect("two sleeps");
        let values: Vec<u64> = ["checkpoint_before_ns", "copy_ns", "checkpoint_after_ns", "rest_ns"]
            .iter()
            .map(|name| parts[*name] / 1_000_000)
            .collect();
        assert_eq!(values, [10, 100, 19, 6]);
        assert_eq!(values.iter().sum::<u64>(), 135);
    }

    #[test]
    fn with_fewer_than_two_sleeps_nothing_is_said() {
        assert_eq!(parts(stretch(10, 145), &[stretch(11, 21)]), None);
        assert_eq!(parts(stretch(10, 145), &[stretch(0, 9), stretch(11, 21)]), None, "one was before");
    }

    #[test]
    fn a_mean_is_of_those_that_were_told_in_proportion_to_all() {
        let phases =
            |copy, rest| Some(Phases::from([("copy_ns".to_owned(), copy), ("rest_ns".to_owned(), rest)]));
        assert_eq!(mean(&[phases(30, 10), phases(50, 10)], 50), phases(40, 10));
        assert_eq!(mean(&[phases(30, 10), None], 80), phases(60, 20));
        assert_eq!(mean(&[phases(30, 10), None, None], 80), None);
        assert_eq!(mean(&[], 80), None);
    }
}
