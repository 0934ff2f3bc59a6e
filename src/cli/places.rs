//! `--into` and `--sim`: the places of a run, in the order given, whichever option names them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, value_parser};
use nix::errno::Errno;

use super::problem::Problem;
use crate::place::{Asked, Making, PlaceError};
use crate::simdrive;
use crate::sys::SysError;
use crate::sys::journal::Journal;
use crate::sys::kernel::Call;

const INTO: &str = "into";
const SIM: &str = "sim";

/// What was given.
#[derive(Clone, Debug)]
pub struct Places {
    given: Vec<Given>,
    recording: Recording,
}

#[derive(Clone, Debug)]
enum Given {
    Place(OsString),
    Spec(String),
}

/// What a simulated drive records
#[derive(Clone, Debug, clap::Args)]
pub struct Recording {
    /// Record everything that reaches the simulated drive in FILE, for sim price
    #[arg(long, value_name = "FILE")]
    write_log: Option<PathBuf>,
    /// Leave out of the write log what is written: sim price needs only where and when
    #[arg(long, requires = "write_log")]
    no_data: bool,
}

impl Recording {
    /// How drives are made that record so.
    pub fn making<'a>(&'a self, seed: u64, directory: &'a Path, journal: &'a Journal) -> Making<'a> {
        Making { seed, directory, write_log: self.write_log.as_deref(), log_data: !self.no_data, journal }
    }
}

impl Places {
    /// The places; the current directory where there is none.
    pub fn asked(&self) -> Result<Vec<Asked>, Problem> {
        let mut places = distinct(self.given.iter().map(|given| match given {
            Given::Place(text) => Asked::read(text),
            Given::Spec(spec) => Asked::drive(spec),
        }))?;
        if places.is_empty() {
            places.push(Asked::Directory(PathBuf::from(".")));
        }
        self.recording.check(&places)?;
        Ok(places)
    }

    /// What the drives among them record.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }
}

impl Recording {
    /// One drive, one log.
    pub fn check(&self, places: &[Asked]) -> Result<(), Problem> {
        let drives = places.iter().filter(|place| matches!(place, Asked::Drive(_))).count();
        if self.write_log.is_none() || drives == 1 {
            return Ok(());
        }
        Err(Problem::usage(format!("--write-log records one simulated drive, and {drives} are given"))
            .hint(Some("--sim SPEC names one; a run for each drive records each")))
    }
}

impl clap::Args for Places {
    fn augment_args(command: Command) -> Command {
        let into = Arg::new(INTO)
            .long(INTO)
            .value_name("PLACE")
            .action(ArgAction::Append)
            .value_parser(value_parser!(OsString))
            .help("A directory to work in, or sim:SPEC; may be repeated [default: .]");
        let sim = Arg::new(SIM)
            .long(SIM)
            .value_name("SPEC")
            .action(ArgAction::Append)
            .help("A simulated drive to work on: MODEL and, after commas, write-cache=on|off, flush=honest|ignored, fs=ext4|xfs|btrfs, size=4GiB, mount=OPTIONS (last); may be repeated");
        Recording::augment_args(command.arg(into).arg(sim))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Places {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let places = matches.get_many::<OsString>(INTO).unwrap_or_default().cloned().map(Given::Place);
        let specs = matches.get_many::<String>(SIM).unwrap_or_default().cloned().map(Given::Spec);
        let at = |id| matches.indices_of(id).into_iter().flatten();
        let mut given: Vec<(usize, Given)> = at(INTO).zip(places).chain(at(SIM).zip(specs)).collect();
        given.sort_by_key(|(position, _)| *position);
        let given = given.into_iter().map(|(_, given)| given).collect();
        Ok(Self { given, recording: Recording::from_arg_matches(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The places of `--scratch`, in the order given.
pub fn scratch(given: &[OsString]) -> Result<Vec<Asked>, Problem> {
    distinct(given.iter().map(|text| Asked::read(text)))
}

fn distinct(asked: impl Iterator<Item = Result<Asked, simdrive::Error>>) -> Result<Vec<Asked>, Problem> {
    let mut places: Vec<Asked> = Vec::new();
    for asked in asked {
        let asked = asked.map_err(|error| drive_problem(&error))?;
        if asked == Asked::Directory(PathBuf::new()) {
            return Err(
                Problem::usage("a place has no name: \"\"").hint(Some("\".\" is the current directory"))
            );
        }
        if let Some(known) = places.iter().find(|known| resolved(known) == resolved(&asked)) {
            let also = if *known == asked { String::new() } else { format!(" (as \"{known}\" too)") };
            return Err(Problem::usage(format!("the place \"{asked}\" is given twice{also}")));
        }
        places.push(asked);
    }
    Ok(places)
}

/// The same for every path to a directory; what is not there is told later.
fn resolved(place: &Asked) -> Asked {
    match place {
        Asked::Directory(path) => Asked::Directory(path.canonicalize().unwrap_or_else(|_| path.clone())),
        Asked::Drive(_) => place.clone(),
    }
}

/// A place that cannot be had; `command` is what a directory is given to: `fsynclab copy --into`.
pub fn place_problem(error: &PlaceError, command: &str) -> Problem {
    if let PlaceError::Drive(error) = error {
        return drive_problem(error);
    }
    let problem = if error.is_refusal() || takes_nothing(error) { Problem::refused } else { Problem::failed };
    problem(error.to_string()).hint(error.hint(command))
}

/// Whether it is a directory in which nobody can make anything: one that is mounted read-only, of others, or of a file
/// system that only the kernel fills.
fn takes_nothing(error: &PlaceError) -> bool {
    let PlaceError::Sys(SysError::Fault(fault)) = error else { return false };
    let denied = [Errno::EROFS, Errno::EACCES, Errno::EPERM, Errno::ENOENT, Errno::EOPNOTSUPP];
    fault.call == Call::Mkdir && denied.contains(&fault.errno)
}

/// A simulated drive that cannot be had.
pub fn drive_problem(error: &simdrive::Error) -> Problem {
    let text = error.to_string();
    let problem = match error {
        _ if error.is_usage() => Problem::usage(text),
        _ if error.is_unavailable() => Problem::refused(text),
        _ => Problem::failed(text),
    };
    problem.hint(error.hint())
}

#[cfg(test)]
mod tests {
    use clap::Args;

    use super::super::problem::Status;
    use super::*;

    fn asked(arguments: &[&str]) -> Result<Vec<String>, Problem> {
        let command = Places::augment_args(Command::default().no_binary_name(true));
        let matches = command.try_get_matches_from(arguments).expect("known options");
        let places = Places::from_arg_matches(&matches).expect("known options").asked()?;
        Ok(places.iter().map(Asked::to_string).collect())
    }

    #[test]
    fn places_keep_their_order_whichever_option_names_them() {
        let given = ["--sim", "liar", "--into", "/mnt", "--into", "sim:liar,fs=xfs", "--sim=sata-2009"];
        let places = asked(&given).expect("places");
        assert_eq!(places, ["sim:liar", "/mnt", "sim:liar,fs=xfs", "sim:sata-2009"]);
        assert_eq!(asked(&[]).expect("the default"), ["."]);
    }

    #[test]
    fn what_makes_no_sense_is_wrong_usage() {
        for (arguments, words) in [
            (&["--sim", "7200rpm"][..], "no simulated drive is called \"7200rpm\""),
            (&["--sim", "liar,fs=zfs"], "expected ext4, xfs or btrfs"),
            (&["--sim", "cloud-3000,write-cache=on"], "has no write cache to switch on"),
            (&["--sim", "liar", "--into", "sim:liar"], "the place \"sim:liar\" is given twice"),
            (&["--into", "/tmp", "--into", "/proc/self/root/tmp/."], "is given twice (as \"/tmp\" too)"),
            (&["--into", ""], "hint: \".\" is the current directory"),
            (&["--into", "/mnt", "--write-log", "log"], "records one simulated drive, and 0 are given"),
        ] {
            let problem = asked(arguments).expect_err(words);
            assert!(problem.to_string().contains(words), "{problem}");
            assert_eq!(problem.status(), Status::Usage, "{problem}");
        }
    }
}
