//! `fsynclab drive [PATH]`: what lies under a path, and switching the write cache there.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anstream::ColorChoice;

use super::paper::Paper;
use super::problem::{Problem, Status};
use super::{output, redact};
use crate::lab::head::begun;
use crate::report;
use crate::results::{Document, Kind, Place};
use crate::storage::{self, Attached, Cache, Care, Root, Switch, SwitchError, Switched};
use crate::sys::error::{SysError, shown};
use crate::sys::journal::{self, Journal};
use crate::sys::signals::Signals;
use crate::sys::tools::{End, Tool};
use crate::sys::undo::{Undo, Undone};
use crate::sys::watch::{Event, Quiet, Stop, Watch};

/// A command that runs while the cache is switched has no limit of ours: ten years.
const NO_LIMIT: Duration = Duration::from_hours(10 * 365 * 24);

/// What a write cache is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Wanted {
    /// Switched on
    On,
    /// Switched off
    Off,
    /// As it was before this program switched it
    Restore,
}

/// Show what lies under a path, who caches and who flushes; switch the write cache
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A directory, a file or a disk
    #[arg(default_value = ".")]
    path: PathBuf,
    /// Write what was found to this file; `-` is stdout
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Switch the write cache of every disk there; with a command, only as long as it runs
    #[arg(long, value_name = "STATE")]
    write_cache: Option<Wanted>,
    /// Switch it though others rely on the disk, or though it was found off
    #[arg(long, requires = "write_cache")]
    force: bool,
    /// What to run meanwhile
    #[arg(last = true, value_name = "COMMAND", requires = "write_cache")]
    command: Vec<OsString>,
}

/// A state of the write cache, for the commands that compare them.
pub fn state(text: &str) -> Result<Cache, String> {
    let found = [Cache::On, Cache::Off].into_iter().find(|state| state.name() == text);
    found.ok_or_else(|| "one of on, off".to_owned())
}

/// Shows or switches; the exit status.
pub fn run(args: &Args, color: ColorChoice) -> anyhow::Result<ExitCode> {
    match args.write_cache {
        None => show(args, color),
        Some(Wanted::Restore) if args.command.is_empty() => restore(color),
        Some(Wanted::Restore) => Err(Problem::usage("--write-cache restore runs no command").into()),
        Some(Wanted::On) => switch(args, Cache::On, color),
        Some(Wanted::Off) => switch(args, Cache::Off, color),
    }
}

fn show(args: &Args, color: ColorChoice) -> anyhow::Result<ExitCode> {
    let paper = Paper::new(args.json.as_deref(), color)?;
    let document = document(&args.path)?;
    paper.finish_as(&document, &report::drive(&document), &Quiet)?;
    Ok(ExitCode::SUCCESS)
}

fn document(path: &Path) -> anyhow::Result<Document> {
    let stack = storage::survey(path).map_err(failed)?;
    let notes = storage::preloaded().into_iter().chain(storage::notes(&stack)).collect();
    let path = shown(path);
    Ok(Document {
        complete: true,
        places: vec![Place { id: "p1".to_owned(), path, simulated: false, model: None, stack }],
        notes,
        ..begun(Kind::Drive, &redact::arguments(std::env::args_os()))
    })
}

fn switch(args: &Args, to: Cache, color: ColorChoice) -> anyhow::Result<ExitCode> {
    let signals = Signals::install()?;
    let paper = Paper::new(args.json.as_deref(), color)?;
    let stack = storage::survey(&args.path).map_err(failed)?;
    let care = if args.force {
        Care::Force
    } else {
        Care::Heed(storage::hazards(&args.path, &stack, &Root::live()).map_err(failed)?)
    };
    let journal = Journal::create(&journal::state_directory()?)?;
    let switched = storage::write_cache(&stack, to, care, &journal, &Attached);
    let switched = match switched {
        Ok(switched) => switched,
        Err(error) => {
            journal.close()?;
            return Err(refused(&error).into());
        }
    };
    let changes: String = switched.disks.iter().map(changed).collect();
    let finish = |report: &str| {
        let document = document(&args.path)?;
        paper.finish_as(&document, report, &Looking(&signals))
    };
    if args.command.is_empty() {
        finish(&changes)?;
        return leave(journal);
    }
    say(&changes);
    let ran = finish("").and_then(|()| run_command(&args.command, &signals));
    back(switched, &journal)?;
    journal.close()?;
    ran
}

/// Says how to come back, where nothing will come back by itself.
fn leave(journal: Journal) -> anyhow::Result<ExitCode> {
    if !journal.close()? {
        say("fsynclab drive --write-cache restore brings back the old state\n");
    }
    Ok(ExitCode::SUCCESS)
}

fn back(switched: Switch, journal: &Journal) -> Result<(), Problem> {
    let restored = switched.restore(journal, &Attached).map_err(|error| refused(&error))?;
    say(&restored.iter().map(changed).collect::<String>());
    Ok(())
}

/// Runs the user's command on our own streams; its exit status is ours.
fn run_command(command: &[OsString], signals: &Signals) -> anyhow::Result<ExitCode> {
    let [program, arguments @ ..] = command else { return Ok(ExitCode::SUCCESS) };
    let tool = Tool::new(program)
        .args(arguments)
        .inherit_env()
        .limit(NO_LIMIT)
        .stdin(io::stdin().as_fd().try_clone_to_owned()?)
        .stdout(io::stdout().as_fd().try_clone_to_owned()?)
        .stderr(io::stderr().as_fd().try_clone_to_owned()?);
    match tool.run(&Looking(signals)) {
        Ok(finished) => Ok(match finished.end {
            End::Exit(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
            End::Signal(signal) => Status::Signal(signal).into(),
        }),
        Err(SysError::Stopped { stop: Stop::Signal(signal), .. }) => Ok(Status::Signal(signal).into()),
        Err(error) => Err(error.into()),
    }
}

/// Only the signals are asked: the command speaks for itself.
struct Looking<'a>(&'a Signals);

impl Watch for Looking<'_> {
    fn event(&self, _: Event<'_>) {}

    fn stop(&self) -> Option<Stop> {
        self.0.stop()
    }
}

/// Brings back what runs switched and did not bring back themselves.
fn restore(color: ColorChoice) -> anyhow::Result<ExitCode> {
    let left = journal::leftovers(&journal::state_directory()?)?;
    let damaged = left.unreadable.iter().chain(left.journals.iter().filter_map(Journal::damage));
    let (mut found, mut failed) = (0, 0);
    for error in damaged {
        failed += 1;
        say(&format!("error: {error}\n"));
    }
    // Newest first: what was switched twice comes back to what it was before the first time.
    for journal in left.journals.into_iter().rev() {
        for entry in journal.entries().iter().rev() {
            if entry.kind != storage::SwitchedCache::KIND {
                continue;
            }
            found += 1;
            let old: storage::SwitchedCache = serde_json::from_value(entry.data.clone())?;
            match journal.undo(entry.n, &old) {
                Ok(Undone::Now) => output::print(&format!("restored: {}\n", old.describe()), color)?,
                Ok(Undone::Before) => {
                    output::print(&format!("was restored before: {}\n", old.describe()), color)?;
                }
                Err(error) => {
                    failed += 1;
                    say(&format!("NOT restored: {}: {error}\n", old.describe()));
                }
            }
        }
        journal.close()?;
    }
    if found == 0 {
        output::print("no write cache was left switched\n", color)?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { Status::Failed.into() })
}

fn changed(disk: &Switched) -> String {
    let view = |view: &crate::results::CacheView| {
        let drive = view.drive.as_deref().unwrap_or("unknown");
        format!("drive {drive}, kernel \"{}\"", view.kernel.as_deref().unwrap_or("unknown"))
    };
    let name = &disk.disk.name;
    if disk.before == disk.after {
        format!("write cache of {name}: {}\n", view(&disk.after))
    } else {
        format!("write cache of {name}: {} (before: {})\n", view(&disk.after), view(&disk.before))
    }
}

/// What a drive would not do leaves nothing changed; what could not be brought back is a failure.
fn refused(error: &SwitchError) -> Problem {
    let message = error.to_string();
    let problem = match error {
        SwitchError::AndBack { .. } | SwitchError::Journal(_) => Problem::failed(message),
        _ => Problem::refused(message),
    };
    problem.hint(error.hint())
}

/// The message of an error, which names its cause itself.
#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
fn failed(error: storage::Error) -> Problem {
    Problem::failed(error.to_string())
}

/// On stderr: what was done is no result.
fn say(text: &str) {
    write!(io::stderr(), "{text}").ok();
}
