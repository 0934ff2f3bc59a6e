//! Moments of a run that strace can strike: every call that the program makes, with its number among those of its kind,
//! the phase that was told last, and whether it stands inside a trial's clock.
#![expect(dead_code, reason = "every test binary includes this and uses its part")]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::text;

/// A call of a run.
#[derive(Clone, Debug)]
pub struct Moment {
    pub call: String,
    /// Counts from 1 among the calls of that name.
    pub n: u64,
    /// As `--verbose` names it; empty before the first.
    pub phase: String,
    /// The trial in whose clock it stands, from 1.
    pub trial: Option<usize>,
    /// As strace prints it.
    pub line: String,
}

/// A run of the program that can be repeated under other conditions.
pub struct Repeatable<'a> {
    pub command: &'a dyn Fn() -> Command,
    pub work: &'a Path,
}

impl Repeatable<'_> {
    fn log(&self) -> PathBuf {
        self.work.join("moments")
    }

    /// Runs it undisturbed; every call it makes.
    pub fn moments(&self) -> Vec<Moment> {
        let output = self.strace(&["-y", "-s", "24", "-a", "1", "-o"], &self.log());
        assert!(output.status.success(), "{}", text(&output));
        moments(&fs::read_to_string(self.log()).expect("the trace"))
    }

    /// Runs it again; `tamper` is what strace does to its calls. The output and the lines of those calls.
    pub fn with(&self, call: &str, tamper: &str) -> (Output, Vec<String>) {
        let (trace, inject) = (format!("--trace={call}"), format!("--inject={call}:{tamper}"));
        let output = self.strace(&["-y", "-a", "1", &trace, &inject, "-o"], &self.log());
        let lines = fs::read_to_string(self.log()).expect("the trace");
        (output, lines.lines().map(str::to_owned).collect())
    }

    fn strace(&self, arguments: &[&str], log: &Path) -> Output {
        let program = (self.command)();
        let mut strace = Command::new("strace");
        strace.args(arguments).arg(log).arg(program.get_program()).args(program.get_args());
        strace.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        strace.output().expect("strace")
    }
}

fn moments(trace: &str) -> Vec<Moment> {
    let mut numbers: HashMap<&str, u64> = HashMap::new();
    let (mut phase, mut trials, mut inside) = (String::new(), 0, false);
    let mut found = Vec::new();
    for line in trace.lines() {
        let Some((call, _)) = line.split_once('(') else { continue };
        let n = numbers.entry(call).or_default();
        *n += 1;
        if let Some(told) = line.split_once("\"phase: ").filter(|_| line.starts_with("write(2<")) {
            told.1.split(['"', '\\']).next().unwrap_or_default().clone_into(&mut phase);
        }
        if line.starts_with("mkdir(") && line.contains("/copy\"") {
            trials += 1;
            inside = true;
        }
        inside &= !line.contains("\"/sys/") && matches!(phase.as_str(), "copying" | "hinting" | "syncing");
        let trial = (inside && !line.starts_with("write(2<")).then_some(trials);
        found.push(Moment {
            call: call.to_owned(),
            n: *n,
            phase: phase.clone(),
            trial,
            line: line.to_owned(),
        });
    }
    found
}
