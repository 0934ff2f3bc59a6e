//! The program under strace: what it did inside the clock of each trial, as lines that a test can write by hand.
//!
//! A line is `call path arguments`, the source's root written as `S`, the copy's as `C`, what holds the copy as `P`. The
//! clock of a trial begins with the mkdir of `C` and ends before the disk's counters are read, which is before the next
//! phase is told.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::process::Command;

use fsynclab::results::{Document, text as form};

use crate::common::{fsynclab, text};

/// Every call that the engine may make inside a clock.
const CALLS: &str = "mkdir,openat,close,getdents64,newfstatat,read,write,pread64,pwrite64,copy_file_range,ioctl,\
    sync_file_range,fadvise64,fsync,fdatasync,syncfs,ftruncate,fallocate,rename,unlink,rmdir,io_uring_enter,\
    io_submit,io_getevents";

/// What strace saw of one trial inside its clock.
#[derive(Debug, Default)]
pub struct Window {
    /// Calls in the order in which they were begun.
    pub lines: Vec<String>,
    /// By path (`S/…`, `C/…`), what readdir gave: names with inode and type, in its order, without `.` and `..`.
    pub listings: HashMap<String, Vec<Listed>>,
}

/// An entry as getdents64 gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub name: String,
    pub inode: u64,
    pub kind: String,
}

impl Window {
    /// How often each call was made, as `strace -c` would count.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for line in &self.lines {
            *counts.entry(call_of(line).to_owned()).or_default() += 1;
        }
        counts
    }

    /// How often a call was made on a path of which `on` is true.
    pub fn count(&self, call: &str, on: impl Fn(&str) -> bool) -> usize {
        let path = |line: &str| line.split(' ').nth(1).unwrap_or_default().to_owned();
        self.lines.iter().filter(|line| call_of(line) == call && on(&path(line))).count()
    }
}

/// The call of a line.
pub fn call_of(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

/// Runs `copy` under strace, every policy once in the order given; the windows in that order, and the document.
pub fn trace(work: &Path, source: &Path, into: &Path, policies: &[&str]) -> (Vec<Window>, Document) {
    let (log, json) = (work.join("trace"), work.join("results.json"));
    let mut program = fsynclab(&work.join("state"));
    program
        .arg("copy")
        .arg(source)
        .args([
            "--rounds",
            "1",
            "--warmup",
            "0",
            "--order",
            "in-turn",
            "--verify",
            "off",
            "--beside-server",
            "-v",
        ])
        .args(["--time-limit", "10min", "--policy", &policies.join(",")])
        .arg("--into")
        .arg(into)
        .arg("--json")
        .arg(&json);
    let output = Command::new("strace")
        .args(["-f", "--seccomp-bpf", "-y", "-v", "-qq", "-a", "1", "-s", "24", "-e", "signal=none"])
        .arg(format!("--trace={CALLS}"))
        .arg("-o")
        .arg(&log)
        .arg(program.get_program())
        .args(program.get_args())
        .envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .output()
        .expect("strace");
    assert!(output.status.success(), "{}", text(&output));
    let document = form::read(&fs::read(&json).expect("the results")).expect("a document");
    let calls = joined(&fs::read_to_string(&log).expect("the trace"));
    let run = calls.iter().find_map(|call| run_directory(call)).expect("a run directory");
    (windows(&calls, source, &run), document)
}

/// One call with its result, whatever other threads did in between; where it was begun.
fn joined(trace: &str) -> Vec<String> {
    let mut begun: HashMap<&str, usize> = HashMap::new();
    let mut calls: Vec<String> = Vec::new();
    for line in trace.lines() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        if let Some((call, _)) = rest.split_once(" <unfinished ...>") {
            begun.insert(thread, calls.len());
            calls.push(call.to_owned());
        } else if let Some((_, end)) = rest.split_once(" resumed>") {
            let position = begun.remove(thread).expect("a call that was begun");
            calls[position] += end;
        } else {
            calls.push(rest.to_owned());
        }
    }
    calls
}

fn run_directory(call: &str) -> Option<String> {
    let path = call.strip_prefix("mkdir(\"")?.split('"').next()?;
    path.contains("/.fsynclab-").then(|| path.strip_suffix("/copy").map(str::to_owned)).flatten()
}

fn windows(calls: &[String], source: &Path, run: &str) -> Vec<Window> {
    let roots = [
        (format!("{run}/copy"), "C"),
        (format!("{run}/source"), "S"),
        (source.to_str().expect("a name in UTF-8").to_owned(), "S"),
        (run.to_owned(), "P"),
    ];
    let start = format!("mkdir(\"{run}/copy\"");
    let mut windows: Vec<Window> = Vec::new();
    let mut inside = false;
    for call in calls {
        if call.starts_with(&start) {
            windows.push(Window::default());
            inside = true;
        }
        inside &=
            !call.contains("\"/sys/") && !call.contains("\"phase: verif") && !call.contains("\"phase: remov");
        let told = call.starts_with("write(2<");
        if inside && !told {
            let window = windows.last_mut().expect("a window");
            let (line, listed) = line(call, &roots);
            if let Some(listed) = listed {
                let path = line.split(' ').nth(1).expect("a path").to_owned();
                window.listings.entry(path).or_default().extend(listed);
            }
            window.lines.push(line);
        }
    }
    windows
}

/// A call as a line, and what it listed.
fn line(call: &str, roots: &[(String, &str)]) -> (String, Option<Vec<Listed>>) {
    let (name, rest) = call.split_once('(').unwrap_or_else(|| panic!("no call: {call}"));
    let end = rest.rfind(") = ").unwrap_or_else(|| panic!("no result: {call}"));
    let result = rest[end + 4..].split([' ', '<']).next().unwrap_or_default();
    let arguments = arguments(&rest[..end]);
    let path = |position: usize| short(&arguments[position], roots);
    let words = |from: usize| arguments[from..].join(" ");
    let line = match name {
        "mkdir" | "unlink" => format!("{name} {} {}", path(0), words(1)).trim_end().to_owned(),
        "openat" => format!("{name} {} {}", path(1), words(2)),
        "newfstatat" => format!("{name} {} {}", path(1), arguments[3]),
        "read" => format!("{name} {} {} = {result}", path(0), arguments[2]),
        "write" => format!("{name} {} {}", path(0), arguments[2]),
        "sync_file_range" | "fadvise64" => format!("{name} {} {}", path(0), words(1)),
        "fallocate" => format!("{name} {} {}", path(0), words(2)),
        "copy_file_range" => format!("{name} {} {} {} = {result}", path(0), path(2), arguments[4]),
        "ioctl" | "ftruncate" => format!("{name} {} {}", path(0), arguments[1]),
        "io_uring_enter" | "io_submit" | "io_getevents" => format!("{name} {result}"),
        _ => format!("{name} {}", path(0)),
    };
    let listed = (name == "getdents64").then(|| listed(&arguments[1]));
    (line, listed)
}

/// Arguments as strace separates them: commas outside quotes and brackets.
fn arguments(text: &str) -> Vec<String> {
    let (mut found, mut depth, mut quoted, mut escaped) = (vec![String::new()], 0_u32, false, false);
    for letter in text.chars() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                found.push(String::new());
                continue;
            }
            _ => {}
        }
        found.last_mut().expect("an argument").push(letter);
    }
    found.into_iter().map(|argument| argument.trim().to_owned()).collect()
}

/// The path of a descriptor `5</x>` or of a string `"/x"`, from one of the roots on. It stays as strace escapes it, blanks
/// included, so that two names are equal only where their bytes are.
fn short(argument: &str, roots: &[(String, &str)]) -> String {
    let path = match argument.split_once('<') {
        Some((number, path)) if number.parse::<u32>().is_ok() => path.trim_end_matches('>'),
        _ => argument.trim_matches('"'),
    };
    for (root, letter) in roots {
        if let Some(rest) = path.strip_prefix(root.as_str())
            && (rest.is_empty() || rest.starts_with(['/', '.']))
        {
            return plain(&format!("{letter}{rest}"));
        }
    }
    panic!("{path} is neither in the source nor in the run's directory");
}

/// The escapes that strace uses in one place and not in another, undone; blanks become `\40`, to keep lines readable.
fn plain(name: &str) -> String {
    name.replace("\\\"", "\"").replace("\\74", "<").replace("\\76", ">").replace(' ', "\\40")
}

fn listed(entries: &str) -> Vec<Listed> {
    let field = |entry: &str, name: &str| {
        let rest = entry.split_once(&format!("{name}="))?.1;
        Some(rest.split([',', '}']).next()?.to_owned())
    };
    let named = |entry: &str| {
        let name = plain(entry.split_once("d_name=\"")?.1.strip_suffix("\"")?);
        let (inode, kind) = (field(entry, "d_ino")?.parse().ok()?, field(entry, "d_type")?);
        Some(Listed { name, inode, kind })
    };
    let entries = entries.trim_start_matches("[{").trim_end_matches("}]").split("}, {");
    entries.filter_map(named).filter(|listed| listed.name != "." && listed.name != "..").collect()
}
