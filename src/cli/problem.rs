//! Why a command ends other than well: an exit status, a message in PostgreSQL's manner, a hint where there is one.

use std::fmt;
use std::process::ExitCode;

use crate::probe::verdict::Code;
use crate::sys::SysError;
use crate::sys::watch::Stop;

/// Exit statuses beside 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// 1: an arm or the run failed, or not everything could be undone.
    Failed,
    /// 2: wrong usage: an unknown policy, model or axis included.
    Usage,
    /// 3: nothing could be measured here, or it was refused for safety.
    Refused,
    /// 4: done, and the answer is no.
    No,
    /// 128 and its number: ended by a signal.
    Signal(i32),
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(match status {
            Status::Failed => 1,
            Status::Usage => 2,
            Status::Refused => 3,
            Status::No => 4,
            Status::Signal(signal) => 128_u8.saturating_add(u8::try_from(signal).unwrap_or(0)),
        })
    }
}

/// How a sync's verdict ends a command: 4 where the answer is no.
pub fn exit_of(verdict: &str) -> ExitCode {
    let no = [Code::NotAsked, Code::AnsweredFromMemory].iter().any(|no| no.name() == verdict);
    if no { Status::No.into() } else { ExitCode::SUCCESS }
}

/// A message and the status it ends with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    status: Status,
    message: String,
    hint: Option<String>,
}

impl Problem {
    /// Wrong usage.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { status: Status::Usage, message: message.into(), hint: None }
    }

    /// Nothing can be done here, or it is not safe.
    pub fn refused(message: impl Into<String>) -> Self {
        Self { status: Status::Refused, message: message.into(), hint: None }
    }

    /// Something failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { status: Status::Failed, message: message.into(), hint: None }
    }

    /// Ended by a signal before anything was measured.
    pub fn stopped(signal: i32) -> Self {
        let message = format!("{} before the first trial; nothing was measured", Stop::Signal(signal));
        Self { status: Status::Signal(signal), message, hint: None }
    }

    /// The same with what the user can do about it.
    #[must_use]
    pub fn hint(mut self, hint: Option<impl Into<String>>) -> Self {
        self.hint = hint.map(Into::into);
        self
    }

    /// The exit status.
    pub fn status(&self) -> Status {
        self.status
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.status == Status::Refused { "refused" } else { "error" };
        write!(f, "{kind}: {}", self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}

impl std::error::Error for Problem {}

/// Any error as a problem: what is none is a failure, unless nothing can be begun without a journal. The wings' messages
/// name their causes themselves.
pub fn of(error: &anyhow::Error) -> Problem {
    if let Some(problem) = error.downcast_ref::<Problem>() {
        return problem.clone();
    }
    match error.downcast_ref::<SysError>() {
        Some(error @ (SysError::StateDirectory(_) | SysError::NoHome)) => {
            Problem::refused(error.to_string()).hint(error.hint())
        }
        Some(SysError::Unread { stop: Some(Stop::Signal(signal)), .. }) => {
            Problem { status: Status::Signal(*signal), ..Problem::failed(error.to_string()) }
        }
        Some(error) => Problem::failed(error.to_string()).hint(error.hint()),
        None => Problem::failed(error.to_string()),
    }
}
