//! The system calls of a backend while it does something, counted by strace. Tracing slows it down, so what is counted is
//! never timed.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::server::error::ServerError;
use crate::sys::tools::Tool;
use crate::sys::watch::{Deadline, Watch};

const LIMIT: Duration = Duration::from_secs(20);
const ASKED_EVERY: Duration = Duration::from_millis(5);

/// Does something while strace counts the calls of a process. `directory` is one that ends with the run.
pub fn counted<T>(
    pid: i32,
    directory: &Path,
    watch: &dyn Watch,
    deed: impl FnOnce() -> Result<T, ServerError>,
) -> Result<(T, BTreeMap<String, u64>), ServerError> {
    let tool = Tool::new("strace").args(["-c", "-qq", "-p", &pid.to_string(), "-o", "/dev/stdout"]);
    let mut strace = tool.directory(directory).limit(LIMIT).start()?;
    let deadline = Deadline::after(LIMIT);
    while tracer_of(pid) != Some(strace.pid()) {
        if let Some(stop) = watch.stop() {
            strace.end(Signal::SIGINT)?;
            return Err(ServerError::Stopped(stop));
        }
        if deadline.reached() || strace.ended()?.is_some() {
            strace.end(Signal::SIGINT)?.success()?;
            return Err(ServerError::NotTraced { pid });
        }
        sleep(ASKED_EVERY);
    }
    let done = deed();
    let finished = strace.end(Signal::SIGINT)?;
    Ok((done?, summary(&finished.text())))
}

/// Who traces a process, from `/proc/PID/status`.
fn tracer_of(pid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    line.trim().parse().ok().filter(|tracer| *tracer != 0)
}

/// The table of `strace -c`: the fourth column counts, the last one names; a fifth in between counts errors.
fn summary(text: &str) -> BTreeMap<String, u64> {
    let rows = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = *words.last()?;
        let is_call = words.len() >= 5 && name != "total" && words[0].parse::<f64>().is_ok();
        Some((name.to_owned(), words.get(3).filter(|_| is_call)?.parse().ok()?))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_strace_is_read_with_and_without_errors() {
        let text = "% time     seconds  usecs/call     calls    errors syscall\n\
                    ------ ----------- ----------- --------- --------- ----------------\n\
                    69.97    0.010240          34       299           fsync\n \
                    1.00    0.000100           1       601         1 newfstatat\n\
                    ------ ----------- ----------- --------- --------- ----------------\n\
                    100.00    0.014636           5      2733         1 total\n";
        let expected = BTreeMap::from([("fsync".to_owned(), 299), ("newfstatat".to_owned(), 601)]);
        assert_eq!(summary(text), expected);
    }
}
