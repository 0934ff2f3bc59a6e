//! Forked processes that go on running this program's code, and waiting for processes with a limit.
//!
//! A forked child has one thread and copies of everything. glibc keeps its allocator usable there; locks that another
//! thread held at that moment stay held for ever, so a body must not print, log or use anything else shared.
#![expect(unsafe_code, reason = "fork, close_range and pidfd_open have no safe wrapper")]

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::process::Command;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, kill, pthread_sigmask, signal};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{ForkResult, Pid, fork, setsid};

/// Exit status of a child whose code panicked.
pub const PANICKED: i32 = 101;

/// A child process of ours. Dropping it neither ends it nor waits for it.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    handle: OwnedFd,
}

impl Process {
    fn new(pid: Pid) -> Result<Process, Errno> {
        // SAFETY: takes numbers; the result is a descriptor of its own.
        let handle = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) })?;
        let handle = RawFd::try_from(handle).map_err(|_| Errno::EBADF)?;
        // SAFETY: pidfd_open just made it for us.
        Ok(Process { pid, handle: unsafe { OwnedFd::from_raw_fd(handle) } })
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Waits until it has ended, `limit` at the most; `None` when it still runs.
    pub fn wait(&self, limit: Duration) -> Result<Option<WaitStatus>, Errno> {
        let timeout = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(self.handle.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(0) | Err(Errno::EINTR) => Ok(None),
            Ok(_) => waitpid(self.pid, Some(WaitPidFlag::WNOHANG))
                .map(|status| (status != WaitStatus::StillAlive).then_some(status)),
            Err(errno) => Err(errno),
        }
    }

    /// How it ended, `limit` from now at the latest; it is still to be waited for. `None` when it still runs.
    pub fn ending(&self, limit: Duration) -> Option<WaitStatus> {
        let timeout = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
        poll(&mut [PollFd::new(self.handle.as_fd(), PollFlags::POLLIN)], timeout).ok()?;
        let looked = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        waitid(Id::Pid(self.pid), looked).ok().filter(|status| *status != WaitStatus::StillAlive)
    }

    /// Sends a signal; a process that has ended already is no error.
    pub fn signal(&self, signal: Signal) -> Result<(), Errno> {
        match kill(self.pid, signal) {
            Err(Errno::ESRCH) => Ok(()),
            other => other,
        }
    }

    /// Kills it and waits for its end, `limit` at the most.
    pub fn end(&self, limit: Duration) -> Result<Option<WaitStatus>, Errno> {
        self.signal(Signal::SIGKILL)?;
        self.wait(limit)
    }
}

/// When process `pid` started, in clock ticks since boot: with the pid it names one process for ever. `None` when there
/// is no such process, or it has ended and only waits for its parent to notice.
pub fn started_at(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    if state == "Z" { None } else { fields.nth(18)?.parse().ok() }
}

/// Runs `body` in a forked process in a session of its own, with no descriptor but `keep`, and its name shown as `name`; what `body` returns is its exit status, 101 when it panics.
pub fn detached(name: &str, keep: &[RawFd], body: impl FnOnce() -> i32) -> Result<Process, Errno> {
    let (all, mut before) = (SigSet::all(), SigSet::empty());
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&all), Some(&mut before))?;
    // SAFETY: the child leaves by _exit below and uses nothing that another thread may hold (see the module's head).
    let forked = unsafe { fork() };
    if let Ok(ForkResult::Child) = forked {
        let _guard = PanicEndsProcess;
        let code = match become_detached(name, keep) {
            Ok(()) => body(),
            Err(errno) => errno as i32,
        };
        leave(code);
    }
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
    match forked? {
        ForkResult::Parent { child } => Process::new(child),
        ForkResult::Child => leave(PANICKED),
    }
}

/// Runs `body` in a forked process that keeps everything it inherits: for a call that may hang. What it returns is its
/// exit status.
pub fn helper(body: impl FnOnce() -> i32) -> Result<Process, Errno> {
    // SAFETY: as in `detached`.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Process::new(child),
        ForkResult::Child => {
            let _guard = PanicEndsProcess;
            leave(body())
        }
    }
}

fn leave(code: i32) -> ! {
    // SAFETY: ends the process without running what the parent registered for its own end.
    unsafe { libc::_exit(code) }
}

/// While a thread holds it, a panic of that thread ends the whole process. (A panic hook would be set under a lock that
/// some thread of the parent may have held.)
#[derive(Debug)]
pub struct PanicEndsProcess;

impl Drop for PanicEndsProcess {
    fn drop(&mut self) {
        if std::thread::panicking() {
            leave(PANICKED);
        }
    }
}

fn become_detached(name: &str, keep: &[RawFd]) -> Result<(), Errno> {
    setsid()?;
    reset_signals()?;
    let mut kept = keep.to_vec();
    kept.extend(super::namespace::outside_descriptor());
    kept.sort_unstable();
    let mut next = 0;
    for fd in kept {
        close_range(next, fd - 1)?;
        next = fd + 1;
    }
    close_range(next, RawFd::MAX)?;
    // Numbers 0 to 2 must not go to what is opened later.
    for _ in 0..3 {
        // SAFETY: opens a constant path; the descriptor is kept until the process ends.
        Errno::result(unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) })?;
    }
    let name = std::ffi::CString::new(name).map_err(|_| Errno::EINVAL)?;
    // SAFETY: the kernel copies at most 16 bytes of a string that ends in NUL.
    Errno::result(unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) }).map(drop)
}

fn close_range(first: RawFd, last: RawFd) -> Result<(), Errno> {
    if first > last {
        return Ok(());
    }
    // SAFETY: nothing in this process uses what it inherited, except what was kept.
    Errno::result(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) }).map(drop)
}

/// Handlers of the parent are code for the parent's state.
fn reset_signals() -> Result<(), Errno> {
    for number in Signal::iterator() {
        if !matches!(number, Signal::SIGKILL | Signal::SIGSTOP) {
            // SAFETY: sets the default action, which runs no code.
            unsafe { signal(number, SigHandler::SigDfl) }?;
        }
    }
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
}

/// Asks the kernel to kill this process when the thread that forked it ends.
fn die_with_parent() -> Result<(), Errno> {
    // SAFETY: takes numbers only.
    Errno::result(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) }).map(drop)
}

/// Starts a command, with one more environment variable, under the first process of the PID namespace made for it. `prepare` runs before (mounts /proc);
/// SIGTERM and SIGHUP go on to the command; orphans are reaped. The process returned ends with the command's exit
/// status, 128 + n when signal n ended it. An error when the command cannot be started.
pub fn first_process(
    program: &str,
    arguments: &[String],
    variable: (&str, &OsStr),
    prepare: impl FnOnce() -> Result<(), Errno>,
) -> Result<Process, Errno> {
    let mut command = Command::new(program);
    command.args(arguments).env(variable.0, variable.1);
    let (mut report, reporter) = std::io::pipe().map_err(|error| errno_of(&error))?;
    let process = helper(|| {
        let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGCHLD]);
        let started = die_with_parent()
            .and_then(|()| reset_signals())
            .and_then(|()| pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&signals), None))
            .and_then(|()| prepare())
            .and_then(|()| {
                unblock_in_child(&mut command);
                command.spawn().map_err(|error| errno_of(&error))
            });
        let mut reporter = reporter;
        match started {
            Ok(child) => {
                drop(reporter);
                watch_over(Pid::from_raw(child.id().cast_signed()), &signals)
            }
            // Nobody reads it only when the program is gone.
            Err(errno) => reporter.write_all(&(errno as i32).to_ne_bytes()).map_or(PANICKED, |()| PANICKED),
        }
    })?;
    let mut errno = [0; 4];
    match report.read_exact(&mut errno) {
        Ok(()) => Err(Errno::from_raw(i32::from_ne_bytes(errno))),
        Err(_) => Ok(process),
    }
}

fn errno_of(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

fn unblock_in_child(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: between fork and exec the closure makes one async-signal-safe call.
    unsafe {
        command.pre_exec(|| {
            pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None).map_err(Into::into)
        });
    }
}

fn watch_over(child: Pid, forwarded: &SigSet) -> i32 {
    loop {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == child => return code,
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => return 128 + signal as i32,
                Ok(WaitStatus::StillAlive) | Err(_) => break,
                Ok(_) => {}
            }
        }
        match forwarded.wait() {
            // A terminal sends SIGINT to the whole foreground group: the command has had it.
            Ok(Signal::SIGCHLD | Signal::SIGINT) | Err(_) => {}
            // ESRCH: the command has just ended; its status comes with the next turn.
            Ok(signal) => kill(child, signal).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::fd::AsRawFd;

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn a_detached_process_has_only_what_it_was_given() {
        let (theirs, ours) = std::io::pipe().expect("a pipe");
        let kept = ours.as_raw_fd();
        let dropped = theirs.as_raw_fd();
        let process = detached("fsynclab-test", &[kept], || {
            let open = |fd: RawFd| std::fs::exists(format!("/proc/self/fd/{fd}")).unwrap_or(false);
            i32::from(open(kept)) + 2 * i32::from(open(dropped))
        })
        .expect("it can be forked");
        let ended = process.wait(LIMIT).expect("it can be waited for");
        assert!(matches!(ended, Some(WaitStatus::Exited(_, 1))), "{ended:?}");
    }

    #[test]
    fn a_process_that_panics_ends_with_101_and_no_word() {
        let process = detached("fsynclab-test", &[], || panic!("on purpose")).expect("it can be forked");
        let ended = process.wait(LIMIT).expect("it can be waited for");
        assert!(matches!(ended, Some(WaitStatus::Exited(_, PANICKED))), "{ended:?}");
    }

    #[test]
    fn a_process_is_known_by_when_it_started() {
        let own = i32::try_from(std::process::id()).expect("a pid fits");
        assert!(started_at(own).is_some_and(|ticks| ticks > 0));
        assert_eq!(started_at(-1), None);
    }
}
