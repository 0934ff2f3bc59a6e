//! `sim run`, `sim mount`, `sim umount`: any command on a simulated drive.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::super::places::{Recording, drive_problem, place_problem};
use super::super::problem::Problem;
use super::super::screen::Screen;
use super::super::{clean, complain, grammar};
use crate::place::{Asked, PlaceError};
use crate::simdrive::mount::{self, MOUNT_VARIABLE, Record, SimulatedDrive, run_command};
use crate::simdrive::spec::Spec;
use crate::storage::clusters;
use crate::sys::error::shown;
use crate::sys::journal::{self, Journal};
use crate::sys::random::fresh_seed;
use crate::sys::signals::Signals;
use crate::sys::undo::Undo;

/// Run a command with a simulated drive mounted at $FSYNCLAB_MOUNT
///
/// The exit status is the command's own; 128+n where signal n ended it. What it leaves running ends with it. Only the
/// command sees the drive.
#[derive(Debug, clap::Args)]
pub struct Run {
    #[command(flatten)]
    drive: Drive,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<String>,
}

/// Mount a simulated drive on an empty directory, until sim umount
#[derive(Debug, clap::Args)]
pub struct Mount {
    #[command(flatten)]
    drive: Drive,
    /// The directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Unmount a simulated drive that sim mount has mounted; what is on it is gone
#[derive(Debug, clap::Args)]
pub struct Umount {
    /// The directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// The drive
#[derive(Debug, clap::Args)]
struct Drive {
    /// `MODEL[,write-cache=on|off][,flush=honest|ignored][,fs=ext4|xfs|btrfs][,size=4GiB][,mount=OPTIONS]`
    #[arg(value_name = "SPEC")]
    spec: String,
    /// Decides the drive's angle and what ages its file system [default: a new one]
    #[arg(long, value_name = "N", value_parser = grammar::seed)]
    seed: Option<u64>,
    #[command(flatten)]
    recording: Recording,
}

impl Drive {
    fn spec(&self) -> anyhow::Result<Spec> {
        match Asked::drive(&self.spec).map_err(|error| drive_problem(&error))? {
            Asked::Drive(spec) => Ok(spec),
            Asked::Directory(_) => unreachable!("a spec names a drive"),
        }
    }

    fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(fresh_seed)
    }
}

/// Runs the command; its exit status.
pub fn run(args: &Run, verbose: bool) -> anyhow::Result<ExitCode> {
    let spec = args.drive.spec()?;
    let screen = Screen::new(Signals::install()?, verbose);
    let state = journal::state_directory()?;
    let journal = Journal::create(&state)?;
    let options = args.drive.recording.making(args.drive.seed(), &state, &journal).options();
    let status = SimulatedDrive::create(&spec, options).and_then(|drive| {
        complain(&format!("SIMULATED: ${MOUNT_VARIABLE} is {spec}"));
        run_command(drive, &journal, &args.command, &screen)
    });
    let undone = clean::undo_own(journal);
    let status = status.map_err(|error| drive_problem(&error))?;
    undone?;
    Ok(ExitCode::from(u8::try_from(status).unwrap_or(u8::MAX)))
}

/// Mounts the drive and leaves it there.
pub fn mount(args: &Mount) -> anyhow::Result<()> {
    let spec = args.drive.spec()?;
    refuse_clusters(&args.directory, &spec)?;
    let state = journal::state_directory()?;
    let journal = Journal::create(&state)?;
    let options = args.drive.recording.making(args.drive.seed(), &state, &journal).options();
    match mount::mount(&spec, &args.directory, options) {
        // Its entry stays in the journal: once its serving process is dead, whoever cleans takes it apart.
        Ok(_) => {
            let directory = shown(&args.directory);
            complain(&format!("SIMULATED: {spec} is mounted at {directory}, until sim umount {directory}"));
            Ok(())
        }
        Err(error) => {
            clean::undo_own(journal)?;
            Err(drive_problem(&error).into())
        }
    }
}

/// What is mounted over a cluster's directory hides it, from a running server too.
fn refuse_clusters(directory: &Path, spec: &Spec) -> Result<(), Problem> {
    let claimed = match clusters::claimed(directory) {
        Ok(None) => return Ok(()),
        Ok(Some(claimed)) => PlaceError::Claimed(claimed),
        Err(error) => error.into(),
    };
    Err(place_problem(&claimed, &format!("fsynclab sim mount {spec}")))
}

/// Unmounts the drive and takes it out of the journal.
pub fn umount(args: &Umount) -> anyhow::Result<()> {
    let record = mount::umount(&args.directory).map_err(|error| drive_problem(&error))?;
    let journals = journal::leftovers(&journal::state_directory()?)?.journals;
    for journal in journals {
        let is_it = |entry: &&journal::Entry| {
            entry.kind == Record::KIND
                && serde_json::from_value(entry.data.clone()).ok().as_ref() == Some(&record)
        };
        let entries = journal.entries();
        if let Some(entry) = entries.iter().find(is_it) {
            journal.done(entry.n)?;
            journal.close()?;
        }
    }
    Ok(())
}
