//! One program's output into another one, through us: bytes are counted and read on their way, and none is passed on that
//! was not read. No shell is between them, so both ends are known, and which failed first.

use std::io::{self, ErrorKind, PipeWriter, Read, Write, pipe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use crate::server::dump::{Contents, Danger, Scanner};
use crate::sys::SysError;
use crate::sys::tools::{Finished, Tool, Usage};
use crate::sys::watch::{Deadline, Event, Stop, Unit, Watch};

/// Read and passed on at once: as much as a pipe holds.
const PIECE_BYTES: usize = 64 << 10;
/// How long a producer has to end once nobody reads what it writes.
const GRACE: Duration = Duration::from_secs(2);
const ASKED_EVERY: Duration = Duration::from_millis(2);

/// Where a dump's text comes from.
pub enum Text {
    /// What a program prints.
    Program(Tool),
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
        let (target, reader) = match reader {
            None => (None, None),
            Some(tool) => {
                let (from, to) = pipe()?;
                (Some(to), Some(tool.stdin(from.into()).start()?))
            }
        };
        let reader =
            reader.map(|running| scope.spawn(move || running.wait(&Guard { watch, useless: no_reader })));
        let (source, writer): (Box<dyn Read + Send>, _) = match text {
            Text::File(file) => (Box::new(file), None),
            Text::Program(tool) => {
                let (from, to) = pipe()?;
                let running = tool.stdout(to.into()).start()?;
                let guard = Guard { watch, useless: no_writer };
                (Box::new(from), Some(scope.spawn(move || running.wait(&guard))))
            }
        };
        let pump = scope.spawn(move || {
            let (pumped, target) = pump(source, target, total_bytes, watch);
            let is_danger = matches!(pumped, Pumped::Danger(_));
            no_writer.store(is_danger, Ordering::Relaxed);
            // A reader that must not go on is ended while its pipe is open: psql would run what it has at the end.
            no_reader.store(is_danger || matches!(pumped, Pumped::End(Err(_))), Ordering::Relaxed);
            (pumped, target)
        });
        let reader = reader.map(joined);
        if reader.is_some() {
            // A pump whose reader is gone ends by itself, unless its writer has nothing more to say for a while.
            let deadline = Deadline::after(GRACE);
            while !pump.is_finished() && !deadline.reached() {
                thread::sleep(ASKED_EVERY);
            }
            no_writer.fetch_or(!pump.is_finished(), Ordering::Relaxed);
        }
        let (pumped, target) = pump.join().unwrap_or((Pumped::Unread, None));
        drop(target);
        let writer = writer.map(joined);
        match watch.stop() {
            Some(stop) => Err(Trouble::Stopped(stop)),
            None => judged(pumped, writer, reader),
        }
    })
}

type Ended = Result<Finished, SysError>;

fn joined(thread: ScopedJoinHandle<'_, Ended>) -> Ended {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Reads, scans, writes until one end is reached; the target again where it must not be closed yet.
fn pump(
    mut source: Box<dyn Read + Send>,
    mut target: Option<PipeWriter>,
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
        let length = match source.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return (Pumped::Failed(error), target),
        };
        if let Err(danger) = scanner.scan(&piece[..length]) {
            return (Pumped::Danger(danger), target);
        }
        match target.as_mut().map_or(Ok(()), |target| target.write_all(&piece[..length])) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return (Pumped::Unread, None),
            Err(error) => return (Pumped::Failed(error), target),
        }
        done += length as u64;
        if total > 0 {
            watch.event(Event::Progress { done, total, unit: Unit::Bytes });
        }
    }
    match scanner.finish() {
        Ok(contents) => (Pumped::End(Ok(contents)), None),
        cut => (Pumped::End(cut), target),
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
