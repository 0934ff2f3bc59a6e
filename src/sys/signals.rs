//! Signals that ask a run to stop: SIGINT, SIGTERM, SIGHUP. The first is remembered and asked for by
//! [`Watch::stop`](super::watch::Watch::stop); a second changes nothing, so that it cannot skip the undoing. System
//! calls are restarted, so no call inside a clock sees EINTR from them.
//!
//! SIGPIPE stays ignored, as Rust's runtime sets it: a reader of stdout that went away is an `EPIPE` of that write, and
//! what must be undone is undone. Child processes get it back as it was.
#![expect(unsafe_code, reason = "signal handlers")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::low_level;

use super::error::SysError;
use super::watch::Stop;

/// The signals that were caught.
#[derive(Clone, Debug)]
pub struct Signals {
    first: Arc<AtomicI32>,
}

impl Signals {
    /// Catches SIGINT, SIGTERM and SIGHUP from now on, except those that are ignored, as SIGHUP is under nohup.
    pub fn install() -> Result<Self, SysError> {
        let first = Arc::new(AtomicI32::new(0));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            if is_ignored(signal) {
                continue;
            }
            let first = Arc::clone(&first);
            let remember = move || {
                // Only the first counts: the exit status is 128 and its number.
                first.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed).ok();
            };
            // SAFETY: the handler makes one atomic operation, which is async-signal-safe.
            unsafe { low_level::register(signal, remember) }
                .map_err(|source| SysError::Signal { signal, source })?;
        }
        Ok(Self { first })
    }

    /// The first signal that was caught.
    pub fn stop(&self) -> Option<Stop> {
        match self.first.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(Stop::Signal(signal)),
        }
    }
}

/// Makes a write beyond the limit on file sizes (`ulimit -f`) an EFBIG of that write instead of the end of the process.
/// SIGXFSZ is caught rather than ignored: programs that are started from here get it as it was.
pub fn outlive_file_size_limit() -> Result<(), SysError> {
    if is_ignored(SIGXFSZ) {
        return Ok(());
    }
    // SAFETY: the handler does nothing.
    unsafe { low_level::register(SIGXFSZ, || {}) }
        .map(drop)
        .map_err(|source| SysError::Signal { signal: SIGXFSZ, source })
}

fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: only reads the disposition, into a struct of ours for which all zeros is a value.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::{SigHandler, Signal, raise, signal};

    use super::*;

    // One test, for dispositions belong to the whole process.
    #[test]
    fn the_first_signal_asks_to_stop_a_second_changes_nothing_and_an_ignored_one_stays_ignored() {
        // SAFETY: no handler of Rust code is installed, the signal is ignored.
        unsafe { signal(Signal::SIGHUP, SigHandler::SigIgn) }.expect("ignore");
        let signals = Signals::install().expect("install");
        raise(Signal::SIGHUP).expect("raise");
        assert_eq!(signals.stop(), None);
        raise(Signal::SIGTERM).expect("raise");
        assert_eq!(signals.stop(), Some(Stop::Signal(libc::SIGTERM)));
        raise(Signal::SIGINT).expect("raise");
        assert_eq!(signals.stop(), Some(Stop::Signal(libc::SIGTERM)));
    }
}
