//! What can go wrong with simulated drives.

use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::wait::WaitStatus;

use crate::sys::SysError;
use crate::sys::error::{reason, shown};
use crate::sys::fork;

/// An error of the simulated drives.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No built-in model has this name.
    #[error("no simulated drive is called \"{name}\"")]
    UnknownModel {
        /// As given.
        name: String,
    },
    /// A model's text is not TOML, or has a key that is unknown, missing or of the wrong type.
    #[error("could not read model \"{model}\", line {line}{}: {}", in_quotes(key.as_deref()), source.message())]
    ModelText {
        /// The model's name or path.
        model: String,
        /// Counted from 1.
        line: usize,
        /// The key on that line, if there is one.
        key: Option<String>,
        /// What the reader of TOML says.
        source: Box<toml::de::Error>,
    },
    /// A number of a model makes no sense.
    #[error("model \"{model}\", line {line}: \"{key}\" is {value}, must be {least} to {most}")]
    ModelRange {
        /// The model's name or path.
        model: String,
        /// Counted from 1.
        line: usize,
        /// With its table, as in `rotating.rpm`.
        key: String,
        /// As read.
        value: f64,
        /// Least value allowed.
        least: f64,
        /// Greatest value allowed.
        most: f64,
    },
    /// A number of a model must be one of two.
    #[error("model \"{model}\", line {line}: \"{key}\" is {value}, must be 512 or 4096")]
    ModelBlock {
        /// The model's name or path.
        model: String,
        /// Counted from 1.
        line: usize,
        /// The key.
        key: &'static str,
        /// As read.
        value: u32,
    },
    /// A model needs one mechanism.
    #[error("model \"{model}\" must have one of the tables [rotating], [flash] and [network], has {count}")]
    ModelMechanism {
        /// The model's name or path.
        model: String,
        /// How many it has.
        count: usize,
    },
    /// Keys of a burst bucket come together.
    #[error("model \"{model}\": network.burst_iops, network.burst_requests and network.iops come together")]
    ModelBurst {
        /// The model's name or path.
        model: String,
    },
    /// A drive was given as something that is not `MODEL[,KEY=VALUE]…`.
    #[error("could not understand \"{part}\" in simulated drive \"{spec}\": expected {expected}")]
    Spec {
        /// The whole text.
        spec: String,
        /// The part that is wrong.
        part: String,
        /// What may stand there.
        expected: &'static str,
    },
    /// The write cache of a drive without one cannot be switched on.
    #[error("simulated drive \"{model}\" has no write cache to switch on")]
    NoWriteCache {
        /// The model's name or path.
        model: String,
    },
    /// The bytes do not begin as a write log does.
    #[error("this is not a write log")]
    NotALog,
    /// A write log of a later program.
    #[error("write log has format {found}, this program reads format {known}")]
    LogFormat {
        /// In the file.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// A checksum or a field in the middle of a write log is wrong.
    #[error("write log is damaged at byte {at_byte}")]
    LogDamaged {
        /// Where the damaged entry begins.
        at_byte: u64,
    },
    /// An entry's data are larger than the format takes.
    #[error(
        "a write of {length_bytes} bytes is too large for a write log, at most {most_bytes} are possible"
    )]
    LogEntry {
        /// As given.
        length_bytes: u64,
        /// The limit.
        most_bytes: u64,
    },
    /// The write log could not be read.
    #[error("could not read write log: {}", why(source))]
    LogRead {
        /// What the system says.
        source: std::io::Error,
    },
    /// The write log could not be written.
    #[error("could not write write log: {}", why(source))]
    LogWrite {
        /// What the system says.
        source: std::io::Error,
    },
    /// Mounting is for root.
    #[error("simulated drives need root")]
    NeedsRoot,
    /// The kernel has no FUSE, or a container hides it.
    #[error("could not open \"/dev/fuse\": {}", reason(*.0))]
    NoFuse(Errno),
    /// The kernel has no loop devices, or a container hides them.
    #[error("could not open \"/dev/loop-control\": {}", reason(*.0))]
    NoLoop(Errno),
    /// A program that makes file systems is not installed.
    #[error("program \"{tool}\" is not installed")]
    NoTool {
        /// Its name.
        tool: &'static str,
        /// The package that has it.
        package: &'static str,
    },
    /// The kernel did not take a setting of the loop device, so that measurements would mean something else.
    #[error("could not set \"{setting}\" of {device} to \"{wanted}\": it is \"{found}\"")]
    NotTaken {
        /// The loop device.
        device: String,
        /// The setting, as in `/sys/block/DEVICE`.
        setting: &'static str,
        /// What was wanted.
        wanted: String,
        /// What is there.
        found: String,
    },
    /// A system call failed.
    #[error("could not {operation} \"{}\": {}", shown(.path), reason(*.errno))]
    Call {
        /// What was attempted, as PostgreSQL words it: `open file`.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        errno: Errno,
    },
    /// A program that makes file systems failed, or the journal of what must be undone cannot be kept.
    #[error(transparent)]
    Sys(#[from] SysError),
    /// The kernel did not mount the file system.
    #[error("could not mount {file_system} with options \"{options}\" at \"{}\": {}", shown(.target), reason(*.errno))]
    Mount {
        /// The file system.
        file_system: &'static str,
        /// The options asked for.
        options: String,
        /// Where.
        target: PathBuf,
        /// Why not.
        errno: Errno,
    },
    /// The serving process is gone; everything on the drive fails.
    #[error("the serving process of simulated drive \"{tag}\" has ended{}", ending(.status.as_ref()))]
    ServerEnded {
        /// The drive.
        tag: String,
        /// How, where that is known.
        status: Option<WaitStatus>,
    },
    /// The disk that holds the drive's contents or its write log failed, or is full.
    #[error("simulated drive \"{tag}\" broke: could not write to \"{}\", where it is kept, or to its write log: {}", shown(.directory), reason(*.errno))]
    Broken {
        /// The drive.
        tag: String,
        /// Where its contents lie.
        directory: PathBuf,
        /// Why.
        errno: Errno,
    },
    /// Somebody else unmounted the drive while it was in use.
    #[error("simulated drive \"{tag}\" was unmounted by somebody else")]
    UnmountedByOthers {
        /// The drive.
        tag: String,
    },
    /// Files are open on the drive, so it was detached and goes when they are closed.
    #[error("could not unmount \"{}\": files are open there", shown(.target))]
    InUse {
        /// Where it is mounted.
        target: PathBuf,
    },
    /// Files are open on a drive that everybody sees, so it stays mounted.
    #[error("could not unmount \"{}\": files are open there", shown(.target))]
    Busy {
        /// Where it is mounted.
        target: PathBuf,
    },
    /// What is mounted there is no simulated drive.
    #[error("\"{}\" is no mounted simulated drive", shown(.target))]
    NotADrive {
        /// The directory.
        target: PathBuf,
    },
    /// A drive is mounted there already.
    #[error("could not mount on \"{}\": a simulated drive is mounted there", shown(.target))]
    Occupied {
        /// The directory.
        target: PathBuf,
    },
    /// A drive is mounted on an empty directory only.
    #[error("could not mount on \"{}\": the directory is not empty", shown(.target))]
    NotEmpty {
        /// The directory.
        target: PathBuf,
    },
    /// Something of a drive is still there after everything was tried.
    #[error("could not take simulated drive \"{tag}\" apart: {what} is still there")]
    StillThere {
        /// The drive.
        tag: String,
        /// What is left: `loop500001`, `process 4711`.
        what: String,
    },
    /// A command could not be started on the drive.
    #[error("could not run \"{program}\": {}", reason(*.errno))]
    NoCommand {
        /// The program.
        program: String,
        /// Why not.
        errno: Errno,
    },
}

impl Error {
    /// Whether simulated drives cannot be had here at all, as opposed to having failed.
    pub fn is_unavailable(&self) -> bool {
        matches!(
            self,
            Error::NeedsRoot
                | Error::NoFuse(_)
                | Error::NoLoop(_)
                | Error::NoTool { .. }
                | Error::NotTaken { .. }
        )
    }

    /// Whether what was asked for makes no sense, wherever it is asked.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Error::UnknownModel { .. }
                | Error::ModelText { .. }
                | Error::ModelRange { .. }
                | Error::ModelBlock { .. }
                | Error::ModelMechanism { .. }
                | Error::ModelBurst { .. }
                | Error::Spec { .. }
                | Error::NoWriteCache { .. }
        )
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::UnknownModel { .. } => {
                Some("\"sim list\" prints them; the name of a file has a / or ends in .toml".to_owned())
            }
            Error::NeedsRoot => {
                Some("run it with sudo, or compute the drive's times with \"sim price\"".to_owned())
            }
            Error::NoFuse(_) => Some(
                "load the kernel module \"fuse\", or give the container /dev/fuse; \"sim price\" needs neither"
                    .to_owned(),
            ),
            Error::NoLoop(_) => Some(
                "load the kernel module \"loop\", or give the container its devices; \"sim price\" needs neither"
                    .to_owned(),
            ),
            Error::NoTool { package, .. } => Some(format!("install the package \"{package}\"")),
            Error::Mount { errno: Errno::EINVAL, .. } => {
                Some("the kernel's log says which option this file system does not know".to_owned())
            }
            Error::Broken { errno: Errno::ENOSPC, .. } => {
                Some("free some space there, or set FSYNCLAB_STATE_DIR to a directory with more".to_owned())
            }
            Error::Busy { target } => {
                Some(format!("close them first; fuser -vm {} finds who has them open", shown(target)))
            }
            Error::Occupied { target } => Some(format!("fsynclab sim umount {} takes it away", shown(target))),
            Error::NotADrive { .. } => {
                Some("fsynclab clean lists what is left of drives, and undoes it".to_owned())
            }
            Error::Sys(error) => error.hint().map(str::to_owned),
            _ => None,
        }
    }
}

/// Says what was attempted on which path.
pub(crate) trait Attempt<T> {
    fn attempt(self, operation: &'static str, path: impl AsRef<Path>) -> Result<T, Error>;
}

impl<T> Attempt<T> for Result<T, Errno> {
    fn attempt(self, operation: &'static str, path: impl AsRef<Path>) -> Result<T, Error> {
        self.map_err(|errno| Error::Call { operation, path: path.as_ref().to_owned(), errno })
    }
}

impl<T> Attempt<T> for io::Result<T> {
    fn attempt(self, operation: &'static str, path: impl AsRef<Path>) -> Result<T, Error> {
        self.map_err(|error| errno_of(&error)).attempt(operation, path)
    }
}

/// The error number in an I/O error; EIO in one that has none.
pub(crate) fn errno_of(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

/// The exit status of a serving process is an errno.
fn ending(status: Option<&WaitStatus>) -> String {
    match status {
        Some(WaitStatus::Signaled(_, signal, _)) => format!(": {signal}"),
        Some(WaitStatus::Exited(_, fork::PANICKED)) => ": a fault of its own".to_owned(),
        Some(WaitStatus::Exited(_, errno @ 1..)) => format!(": {}", reason(Errno::from_raw(*errno))),
        _ => String::new(),
    }
}

/// What the system says, or where it said nothing, the reader or writer.
fn why(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), |number| reason(Errno::from_raw(number)))
}

fn in_quotes(key: Option<&str>) -> String {
    key.map_or(String::new(), |key| format!(", \"{key}\""))
}
