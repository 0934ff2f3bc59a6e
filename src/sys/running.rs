//! A program while it runs, and what is known once it has ended.
#![expect(unsafe_code, reason = "wait4 and pidfd_open, which no safe wrapper makes with what is needed here")]

use std::fmt;
use std::io::{self, Read};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, ExitStatus};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::clock::now_ns;
use super::error::SysError;
use super::watch::{Deadline, Watch};

/// How long a program has between the request to end and its killing, and between that and our giving up.
const GRACE: Duration = Duration::from_secs(5);
/// How often a wait asks its watch whether to stop.
const ASKED_EVERY: Duration = Duration::from_millis(100);

/// A program that was started. Dropped, it runs on.
#[derive(Debug)]
#[must_use = "a program that nobody waits for runs on"]
pub struct Running {
    program: PathBuf,
    pid: Pid,
    end_seen: Option<OwnedFd>,
    stdout: Captured<ChildStdout>,
    stderr: Captured<ChildStderr>,
    started_ns: u64,
    limit: Duration,
    ended: Option<Ended>,
}

#[derive(Clone, Copy, Debug)]
struct Ended {
    end: End,
    at_ns: u64,
    usage: Usage,
}

impl Running {
    pub(super) fn of(
        mut child: Child,
        program: PathBuf,
        started_ns: u64,
        limit: Duration,
        kept_bytes: usize,
    ) -> Result<Self, Errno> {
        let pid = Pid::from_raw(child.id().cast_signed());
        let stdout = Captured::first(child.stdout.take(), kept_bytes)?;
        let stderr = Captured::last(child.stderr.take(), kept_bytes)?;
        Ok(Self { program, pid, end_seen: open_pid(pid), stdout, stderr, started_ns, limit, ended: None })
    }

    /// Its process id, which is its group's too; not given to another process before this value has seen its end.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// How it ended, if it did; takes in what it wrote meanwhile.
    pub fn ended(&mut self) -> Result<Option<End>, SysError> {
        self.look(Duration::ZERO)?;
        Ok(self.ended.map(|ended| ended.end))
    }

    /// What it has written to stdout so far, as far as [`ended`](Self::ended) took it in; stderr the same.
    pub fn stdout(&self) -> &[u8] {
        &self.stdout.kept
    }

    /// The end of what it has written to stderr so far.
    pub fn stderr(&self) -> &[u8] {
        &self.stderr.kept
    }

    /// Sends a signal to it and its group.
    pub fn signal(&self, signal: Signal) -> Result<(), SysError> {
        if self.ended.is_some() {
            return Ok(());
        }
        match killpg(self.pid, signal) {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(errno) => Err(SysError::Execute { program: self.program.clone(), errno }),
        }
    }

    /// Waits for its end, at most the time it has; kills it when that is over or the watch says stop.
    ///
    /// What processes it left behind still write is not waited for.
    pub fn wait(mut self, watch: &dyn Watch) -> Result<Finished, SysError> {
        let deadline = Deadline::after(self.limit);
        while self.ended.is_none() {
            if let Some(stop) = watch.stop() {
                self.kill()?;
                return Err(SysError::Stopped { program: self.program, stop });
            }
            if deadline.reached() {
                self.kill()?;
                let stderr = last_lines(&self.stderr.kept);
                return Err(SysError::Overdue { program: self.program, limit: self.limit, stderr });
            }
            self.look(deadline.left().min(ASKED_EVERY))?;
        }
        self.finished()
    }

    /// Asks it to end by a signal, and kills it with its group if it does not within its time.
    pub fn end(self, signal: Signal) -> Result<Finished, SysError> {
        let limit = self.limit;
        self.end_within(signal, limit)
    }

    /// The same with a time of its own.
    pub fn end_within(mut self, signal: Signal, limit: Duration) -> Result<Finished, SysError> {
        self.signal(signal)?;
        self.wait_at_most(limit)?;
        if self.ended.is_none() {
            self.force()?;
        }
        self.finished()
    }

    /// Ends it and its group: SIGTERM, then SIGKILL.
    fn kill(&mut self) -> Result<(), SysError> {
        self.signal(Signal::SIGTERM)?;
        if let Some(end_seen) = &self.end_seen {
            // Seen, not taken: so long its number, which is its group's, is nobody else's.
            let mut polled = [PollFd::new(end_seen.as_fd(), PollFlags::POLLIN)];
            poll(&mut polled, PollTimeout::try_from(GRACE).unwrap_or(PollTimeout::MAX)).ok();
        }
        self.force()
    }

    /// SIGKILL to the group, even if its leader has ended. One that not even this ends hangs in the kernel and is left.
    fn force(&mut self) -> Result<(), SysError> {
        self.signal(Signal::SIGKILL)?;
        self.wait_at_most(GRACE)
    }

    fn wait_at_most(&mut self, limit: Duration) -> Result<(), SysError> {
        let deadline = Deadline::after(limit);
        while self.ended.is_none() && !deadline.reached() {
            self.look(deadline.left().min(ASKED_EVERY))?;
        }
        Ok(())
    }

    fn finished(self) -> Result<Finished, SysError> {
        let Some(ended) = self.ended else {
            let stderr = last_lines(&self.stderr.kept);
            return Err(SysError::Overdue { program: self.program, limit: self.limit, stderr });
        };
        Ok(Finished {
            program: self.program,
            end: ended.end,
            elapsed_ns: ended.at_ns - self.started_ns,
            usage: ended.usage,
            stdout_cut: self.stdout.cut,
            stdout: self.stdout.kept,
            stderr: self.stderr.kept,
        })
    }

    /// Waits until it wrote something or ended, at most so long, and takes that in.
    fn look(&mut self, limit: Duration) -> Result<(), SysError> {
        if self.ended.is_some() {
            return Ok(());
        }
        // Without a descriptor for its end, that is found by asking again.
        let limit = if self.end_seen.is_some() { limit } else { limit.min(Duration::from_millis(5)) };
        let at = |errno| SysError::Execute { program: self.program.clone(), errno };
        let files = [
            self.end_seen.as_ref().map(AsFd::as_fd),
            self.stdout.source.as_ref().map(AsFd::as_fd),
            self.stderr.source.as_ref().map(AsFd::as_fd),
        ];
        let mut polled: Vec<PollFd<'_>> =
            files.into_iter().flatten().map(|file| PollFd::new(file, PollFlags::POLLIN)).collect();
        let timeout = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
        match poll(&mut polled, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(at(errno)),
        }
        // Its end is asked for before its output is read, so that nothing it wrote is missed.
        self.ended = take_end(self.pid).map_err(at)?;
        self.stdout.take_in().map_err(at)?;
        self.stderr.take_in().map_err(at)
    }
}

fn take_end(pid: Pid) -> Result<Option<Ended>, Errno> {
    let mut status = 0;
    // SAFETY: both pointers are to values of ours; all zeros is a value of rusage.
    let (result, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(pid.as_raw(), &raw mut status, libc::WNOHANG, &raw mut usage), usage)
    };
    match result {
        0 => Ok(None),
        result if result < 0 => Err(Errno::last()),
        _ => Ok(Some(Ended {
            end: End::of(ExitStatus::from_raw(status)),
            at_ns: now_ns(),
            usage: usage.into(),
        })),
    }
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself.
    Exit(i32),
    /// By a signal.
    Signal(i32),
}

impl End {
    fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exit(code),
            (None, signal) => Self::Signal(signal.unwrap_or_default()),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exited with exit code {code}"),
            Self::Signal(signal) => write!(f, "was terminated by signal {signal}"),
        }
    }
}

/// What a program and those it waited for used, as wait4(2) tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// In nanoseconds.
    pub user_ns: u64,
    /// In nanoseconds.
    pub sys_ns: u64,
    /// The most memory any of them had, in bytes.
    pub max_rss_bytes: u64,
}

impl From<libc::rusage> for Usage {
    fn from(usage: libc::rusage) -> Self {
        let ns = |time: libc::timeval| {
            time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_usec.cast_unsigned() * 1000
        };
        Self {
            user_ns: ns(usage.ru_utime),
            sys_ns: ns(usage.ru_stime),
            max_rss_bytes: usage.ru_maxrss.cast_unsigned() * 1024,
        }
    }
}

/// A program that has ended.
#[derive(Clone, Debug)]
pub struct Finished {
    program: PathBuf,
    /// How.
    pub end: End,
    /// From its start to the moment its end was seen, in nanoseconds.
    pub elapsed_ns: u64,
    /// What it used.
    pub usage: Usage,
    /// The beginning of what it wrote to stdout, whole unless `stdout_cut`.
    pub stdout: Vec<u8>,
    /// It wrote more than is kept.
    pub stdout_cut: bool,
    /// The end of what it wrote to stderr.
    pub stderr: Vec<u8>,
}

impl Finished {
    /// Itself if it exited with 0, else the error with what it said last.
    pub fn success(self) -> Result<Self, SysError> {
        match self.end {
            End::Exit(0) => Ok(self),
            end => Err(SysError::Failed { program: self.program, end, stderr: last_lines(&self.stderr) }),
        }
    }

    /// Stdout as text, bytes that are none replaced, the last line end cut off.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim_end_matches('\n').to_owned()
    }
}

/// One stream of a program, read without blocking.
#[derive(Debug)]
struct Captured<R> {
    source: Option<R>,
    kept: Vec<u8>,
    limit: usize,
    keeps_last: bool,
    cut: bool,
}

impl<R: Read + AsFd> Captured<R> {
    fn first(source: Option<R>, limit: usize) -> Result<Self, Errno> {
        if let Some(source) = &source {
            fcntl(source.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        Ok(Self { source, kept: Vec::new(), limit, keeps_last: false, cut: false })
    }

    fn last(source: Option<R>, limit: usize) -> Result<Self, Errno> {
        Ok(Self { keeps_last: true, ..Self::first(source, limit)? })
    }

    /// Takes in what there is, at most a few buffers of it: a program that never stops writing must not keep us here.
    fn take_in(&mut self) -> Result<(), Errno> {
        let mut buffer = [0; 16384];
        for _ in 0..64 {
            let Some(source) = &mut self.source else { return Ok(()) };
            match source.read(&mut buffer) {
                Ok(0) => self.source = None,
                Ok(length) => self.keep(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)),
            }
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
        let Some(excess) = self.kept.len().checked_sub(self.limit).filter(|excess| *excess > 0) else {
            return;
        };
        self.cut = true;
        if self.keeps_last {
            self.kept.drain(..excess);
        } else {
            self.kept.truncate(self.limit);
        }
    }
}

/// The last three lines that say something, in one.
fn last_lines(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join("; ")
}

/// A descriptor that is readable when the process has ended; none on kernels before 5.3.
fn open_pid(pid: Pid) -> Option<OwnedFd> {
    // SAFETY: plain numbers; what is returned is a new descriptor of ours.
    unsafe {
        let result = libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0);
        i32::try_from(result).ok().filter(|&file| file >= 0).map(|file| OwnedFd::from_raw_fd(file))
    }
}
