//! One program's output into another one, through us: bytes are counted and read on their way, and none is passed on that
//! was not read. No shell is between them, so both ends are known, and which failed first.

use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SpliceFFlags, fcntl, splice, tee};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::server::dump::{Contents, Danger, Scanner};
use crate::sys::SysError;
use crate::sys::tools::{Finished, Tool, Usage};
use crate::sys::watch::{Deadline, Event, Stop, Unit, Watch};

/// Looked through at once: so little that it stays in a processor's cache meanwhile.
const PIECE_BYTES: usize = 128 << 10;
/// What a pipe of ours holds: half of what any user may ask for (pipe(7)). With all of it, what goes through has left the
/// processors' caches by the time it is read, and a restore takes a percent or two longer.
const PIPE_BYTES: usize = 512 << 10;
/// pg_dump writes and psql reads 4 kB at a time. So that we do not wake up for each, we wait a moment where less than a
/// piece is there, or no room for it, and pass on what gathers meanwhile: for most of it psql finds enough in its pipe.
const MOMENT: Duration = Duration::from_millis(1);
/// How long a producer has to end once nobody reads what it writes.
const GRACE: Duration = Duration::from_secs(2);
const ASKED_EVERY: Duration = Duration::from_millis(2);

/// Where a dump's text comes from.
pub enum Text {
    /// What a program prints.
    Program(Box<Tool>),
    /// A file.
    File(std::fs::File),
}

/// What came through.
#[derive(Debug, Default)]
pub struct Piped {
    /// What the text was.
    pub contents: Contents,
    /// What both programs used.
    pub usage: Usage,
}

/// Why a text did not come through.
#[derive(Debug)]
pub enum Trouble {
    /// The run was told to stop.
    Stopped(Stop),
    /// Something must not be passed on.
    Danger(Danger),
    /// A program failed.
    Sys(SysError),
    /// Our own reading or writing failed.
    Pipe(io::Error),
}

impl From<SysError> for Trouble {
    fn from(error: SysError) -> Self {
        Self::Sys(error)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Pipe(error)
    }
}

/// How far the pump came.
enum Pumped {
    /// To the end of the text.
    End(Result<Contents, Danger>),
    /// To something that must not be passed on.
    Danger(Danger),
    /// Until nobody took it any more.
    Unread,
    /// Until our own reading or writing failed.
    Failed(io::Error),
}

/// Ends a program when the run is stopped, and when its other end is of no use any more.
struct Guard<'a> {
    watch: &'a dyn Watch,
    useless: &'a AtomicBool,
}

impl Watch for Guard<'_> {
    fn event(&self, event: Event<'_>) {
        self.watch.event(event);
    }

    fn stop(&self) -> Option<Stop> {
        let useless = self.useless.load(Ordering::Relaxed);
        useless.then_some(Stop::Signal(libc::SIGPIPE)).or_else(|| self.watch.stop())
    }
}

/// Passes a text through the scanner into a program, or into nothing. `total_bytes` is for progress; 0 if not known.
///
/// The first error is told: what the reader said if it left before the text was over, else what the writer said, else
/// what the reader said at the end.
pub fn run(text: Text, reader: Option<Tool>, total_bytes: u64, watch: &dyn Watch) -> Result<Piped, Trouble> {
    let (no_writer, no_reader) = (AtomicBool::new(false), AtomicBool::new(false));
    let (no_writer, no_reader) = (&no_writer, &no_reader);
    thread::scope(|scope| {
        // The reader first: where it cannot start, there is no writer to end.
        let (target, reader, takes_much) = match reader {
            None => (None, None, true),
            Some(tool) => {
                let (from, to, is_wide) = wide_pipe()?;
                (Some(to), Some(tool.stdin(from.into()).start()?), is_wide)
            }
        };
        let reader =
            reader.map(|running| scope.spawn(move || running.wait(&Guard { watch, useless: no_reader })));
        let (passage, writer, gathers) = match text {
            Text::File(file) => (Passage::Read { source: Box::new(file), target }, None, false),
            Text::Program(tool) => {
                let (from, to, is_wide) = wide_pipe()?;
                let (passage, copies_much) = Passage::between(from, target)?;
                let running = tool.stdout(to.into()).start()?;
                let guard = Guard { watch, useless: no_writer };
                (passage, Some(scope.spawn(move || running.wait(&guard))), is_wide && copies_much)
            }
        };
        let moment = if gathers && takes_much { MOMENT } else { Duration::ZERO };
        let pump = scope.spawn(move || {
            let (pumped, target) = pump(passage, moment, total_bytes, watch);
            let is_broken = matches!(pumped, Pumped::Danger(_) | Pumped::Failed(_));
            no_writer.store(is_broken, Ordering::Relaxed);
            // A reader that must not go on is ended while its pipe is open: psql would run what it has at the end.
            no_reader.store(is_broken || matches!(pumped, Pumped::End(Err(_))), Ordering::Relaxed);
            (pumped, target)
        });
        let reader = reader.map(joined);
        if reader.is_some() {
            // A pump whose reader is gone ends by itself, unless its writer has nothing more to say for a while.
            let deadline = Deadline::after(GRACE);
            while !pump.is_finished() && !deadline.reached() {
                thread::sleep(ASKED_EVERY);
            }
        }
        let is_stuck = !pump.is_finished();
        no_writer.fetch_or(is_stuck && reader.is_some(), Ordering::Relaxed);
        let (pumped, target) = pump.join().unwrap_or((Pumped::Unread, None));
        drop(target);
        // The end that a stuck pump saw was made by us.
        let pumped = match pumped {
            Pumped::End(_) if is_stuck && reader.is_some() => Pumped::Unread,
            pumped => pumped,
        };
        no_writer.fetch_or(matches!(pumped, Pumped::Unread), Ordering::Relaxed);
        let writer = writer.map(joined);
        match watch.stop() {
            Some(stop) => Err(Trouble::Stopped(stop)),
            None => judged(pumped, writer, reader),
        }
    })
}

/// A pipe, and whether it is wide: one of a user who has many of them is not.
fn wide_pipe() -> io::Result<(PipeReader, PipeWriter, bool)> {
    let (from, to) = pipe()?;
    let is_wide = fcntl(to.as_fd(), FcntlArg::F_SETPIPE_SZ(PIPE_BYTES.try_into().unwrap_or(0))).is_ok();
    Ok((from, to, is_wide))
}

type Ended = Result<Finished, SysError>;

fn joined(thread: ScopedJoinHandle<'_, Ended>) -> Ended {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// What a text goes through.
enum Passage {
    /// Read, and written if anybody takes it.
    Read { source: Box<dyn Read + Send>, target: Option<PipeWriter> },
    /// From one program's pipe into the other's without a copy: what we read is a third pipe's, of the same pages (tee(2),
    /// splice(2)). What a program has put into a pipe by write(2) it cannot change.
    Spliced { source: PipeReader, copy: (PipeReader, PipeWriter), target: PipeWriter },
}

impl Passage {
    /// And whether the third pipe is wide, if there is one.
    fn between(source: PipeReader, target: Option<PipeWriter>) -> io::Result<(Self, bool)> {
        let Some(target) = target else { return Ok((Self::Read { source: Box::new(source), target }, true)) };
        let (from, to, is_wide) = wide_pipe()?;
        Ok((Self::Spliced { source, copy: (from, to), target }, is_wide))
    }

    /// The next piece's length; 0 at the end. It waits for something to read.
    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Read { source, .. } => source.read(piece),
            Self::Spliced { source, copy: (from, to), .. } => {
                let length = tee(source, to, piece.len(), SpliceFFlags::empty())?;
                from.read_exact(&mut piece[..length])?;
                Ok(length)
            }
        }
    }

    /// Passes the piece on that was read last. Where there is no room it looks again after a moment, if one is given; where
    /// there is none even then, a moment after some is made.
    fn pass_on(&mut self, piece: &[u8], moment: Duration) -> io::Result<()> {
        let (source, target) = match self {
            Self::Read { target: None, .. } => return Ok(()),
            Self::Read { target: Some(target), .. } => return target.write_all(piece),
            Self::Spliced { source, target, .. } => (source, target),
        };
        let blocks = moment.is_zero();
        let flags = if blocks { SpliceFFlags::empty() } else { SpliceFFlags::SPLICE_F_NONBLOCK };
        let (mut left, mut stalls) = (piece.len(), false);
        while left > 0 {
            match splice(&*source, None, &*target, None, left, flags) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => (left, stalls) = (left - length, false),
                Err(Errno::EAGAIN) => {
                    if stalls {
                        // What is wrong with the pipe the next splice says.
                        poll(&mut [PollFd::new(target.as_fd(), PollFlags::POLLOUT)], PollTimeout::NONE).ok();
                    }
                    stalls = true;
                    thread::sleep(moment);
                }
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn target(self) -> Option<PipeWriter> {
        match self {
            Self::Read { target, .. } => target,
            Self::Spliced { target, .. } => Some(target),
        }
    }
}

/// Reads, scans, passes on until one end is reached; the target again where it must not be closed yet.
fn pump(
    mut passage: Passage,
    moment: Duration,
    total: u64,
    watch: &dyn Watch,
) -> (Pumped, Option<PipeWriter>) {
    let mut scanner = Scanner::default();
    let mut piece = vec![0; PIECE_BYTES];
    let mut done = 0;
    loop {
        if watch.stop().is_some() {
            return (Pumped::Unread, None);
        }
        let length = match passage.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return (Pumped::Failed(error), passage.target()),
        };
        if let Err(danger) = scanner.scan(&piece[..length]) {
            return (Pumped::Danger(danger), passage.target());
        }
        match passage.pass_on(&piece[..length], moment) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return (Pumped::Unread, None),
            Err(error) => return (Pumped::Failed(error), passage.target()),
        }
        if length < piece.len() && !moment.is_zero() {
            thread::sleep(moment);
        }
        done += length as u64;
        if total > 0 {
            watch.event(Event::Progress { done, total, unit: Unit::Bytes });
        }
    }
    match scanner.finish() {
        Ok(contents) => (Pumped::End(Ok(contents)), None),
        cut => (Pumped::End(cut), passage.target()),
    }
}

/// Which of all that went wrong went wrong first.
fn judged(pumped: Pumped, writer: Option<Ended>, reader: Option<Ended>) -> Result<Piped, Trouble> {
    let success = |ended: Option<Ended>| -> Result<Usage, Trouble> {
        ended.map_or(Ok(Usage::default()), |ended| Ok(ended.and_then(Finished::success)?.usage))
    };
    match pumped {
        Pumped::Danger(danger) => Err(Trouble::Danger(danger)),
        Pumped::Failed(error) => Err(Trouble::Pipe(error)),
        Pumped::Unread => {
            success(reader)?;
            success(writer)?;
            Err(Trouble::Pipe(ErrorKind::BrokenPipe.into()))
        }
        Pumped::End(contents) => {
            let writer = success(writer)?;
            let contents = contents.map_err(Trouble::Danger)?;
            let reader = success(reader)?;
            let usage = Usage {
                user_ns: writer.user_ns + reader.user_ns,
                sys_ns: writer.sys_ns + reader.sys_ns,
                max_rss_bytes: writer.max_rss_bytes.max(reader.max_rss_bytes),
            };
            Ok(Piped { contents, usage })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::watch::Quiet;

    fn sh(script: &str) -> Tool {
        Tool::new("/bin/sh").args(["-c", script])
    }

    fn through(writer: &str, reader: &str) -> Result<Piped, Trouble> {
        run(Text::Program(Box::new(sh(writer))), Some(sh(reader)), 0, &Quiet)
    }

    fn told(writer: &str, reader: &str) -> String {
        match through(writer, reader).expect_err("trouble") {
            Trouble::Stopped(stop) => stop.to_string(),
            Trouble::Danger(danger) => danger.to_string(),
            Trouble::Sys(error) => error.to_string(),
            Trouble::Pipe(error) => error.to_string(),
        }
    }

    const ROWS: &str = "echo 'COPY t FROM stdin;'; seq 200000; printf '\\\\.\\n'";

    #[test]
    fn every_byte_comes_through_and_both_programs_are_accounted_for() {
        // No room is made for a while, so that more than a moment is waited for it.
        let piped = through(ROWS, "sleep 0.1; [ $(wc -c) = 1288917 ]").expect("through");
        assert_eq!(piped.contents.tables, [("t".to_owned(), 200_000)]);
        assert_eq!(piped.contents.bytes, 1_288_917);
        assert!(piped.usage.user_ns + piped.usage.sys_ns > 0);
    }

    #[test]
    fn pipes_of_any_width_pass_on_what_was_read() {
        for moment in [Duration::ZERO, MOMENT] {
            let (source, mut from) = pipe().expect("a pipe");
            let (mut to, target) = pipe().expect("a pipe");
            let text: Vec<u8> = (0..1 << 20).map(|index: u32| index.to_le_bytes()[1]).collect();
            let (mut passage, _) = Passage::between(source, Some(target)).expect("a passage");
            thread::scope(|scope| {
                scope.spawn(|| from.write_all(&text).map(|()| drop(from)).expect("written"));
                let taken = scope.spawn(|| {
                    let mut taken = Vec::new();
                    to.read_to_end(&mut taken).expect("read");
                    taken
                });
                let (mut piece, mut read) = (vec![0; PIECE_BYTES], Vec::new());
                while let length @ 1.. = passage.read(&mut piece).expect("read") {
                    read.extend_from_slice(&piece[..length]);
                    passage.pass_on(&piece[..length], moment).expect("passed on");
                }
                drop(passage);
                assert!(read == text && taken.join().expect("taken") == text);
            });
        }
    }

    #[test]
    fn the_first_error_is_the_one_told() {
        let said = told(
            "echo 'COPY t FROM stdin;'; echo 1; echo no such table >&2; exit 1",
            "cat; echo cut >&2; exit 3",
        );
        assert_eq!(said, "\"/bin/sh\" exited with exit code 1: no such table");
        let said = told(ROWS, "head -c 99 >/dev/null; echo no room >&2; exit 3");
        assert_eq!(said, "\"/bin/sh\" exited with exit code 3: no room");
        let said = told(ROWS, "sleep 0.1; echo late >&2; exit 3");
        assert_eq!(said, "\"/bin/sh\" exited with exit code 3: late");
        let said = told("echo 'SELECT 1;'", "cat >/dev/null; echo refused >&2; exit 2");
        assert_eq!(said, "\"/bin/sh\" exited with exit code 2: refused");
        assert_eq!(told("kill -9 $$", "cat"), "\"/bin/sh\" was terminated by signal 9");
    }

    #[test]
    fn a_text_that_cannot_be_read_ends_its_reader_and_is_told() {
        let directory = std::fs::File::open("/").expect("a directory");
        let trouble = run(Text::File(directory), Some(sh("cat")), 0, &Quiet).expect_err("no file");
        let Trouble::Pipe(error) = trouble else { panic!("{trouble:?}") };
        assert_eq!(error.raw_os_error(), Some(libc::EISDIR));
    }

    #[test]
    fn a_reader_that_is_gone_does_not_wait_for_a_writer_that_says_nothing() {
        let began = crate::sys::clock::now_ns();
        assert!(
            told("echo 'SELECT 1;'; sleep 60", "exit 3").contains("exited with exit code 3"),
            "the reader's"
        );
        assert!(crate::sys::clock::now_ns() - began < 30_000_000_000);
    }

    #[test]
    fn nothing_dangerous_is_passed_on_nor_run_at_the_end_of_what_was() {
        let directory = tempfile::tempdir().expect("a directory");
        let (got, ended) = (directory.path().join("got"), directory.path().join("ended"));
        let reader = format!("cat >{}; echo >{}", got.display(), ended.display());
        let said = told("echo 'SELECT 1;'; sleep 0.2; echo 'DROP DATABASE shop;'; sleep 60", &reader);
        assert_eq!(said, "line 2: DROP DATABASE reaches beyond the database that is loaded");
        assert_eq!(std::fs::read_to_string(got).expect("what came through"), "SELECT 1;\n");
        assert!(!ended.exists(), "the reader saw the end of its input");
        let said = told("echo 'COPY t FROM stdin;'", "cat >/dev/null");
        assert!(said.ends_with("it was cut off") || said.is_empty(), "{said}");
    }
}
