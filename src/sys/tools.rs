//! Child processes: no shell, no stdin, an environment that is given, output captured up to a limit, a process group of
//! its own, and an end to every wait. A terminal's Ctrl-C does not reach them: who started one decides when it ends.
#![expect(unsafe_code, reason = "a limit set between fork and exec")]

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::resource::{Resource, setrlimit};

use super::clock::now_ns;
use super::error::SysError;
pub use super::running::{End, Finished, Running, Usage};
use super::user::User;
use super::watch::Watch;

/// How much of stdout, and of the end of stderr, is kept unless told otherwise.
const KEPT_BYTES: usize = 1 << 20;
/// A program to be started.
#[derive(Debug)]
pub struct Tool {
    command: Command,
    limit: Duration,
    kept_bytes: usize,
    has_directory: bool,
}

impl Tool {
    /// A program by name, sought in PATH, or by path. Its environment is PATH and `LC_ALL=C`, its time a minute.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(program);
        command.env_clear().env("LC_ALL", "C").process_group(0);
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { command, limit: Duration::from_mins(1), kept_bytes: KEPT_BYTES, has_directory: false }
    }

    /// One argument more.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.command.args(arguments);
        self
    }

    /// One variable more.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// The whole environment of this process, where a user's own command runs.
    #[must_use]
    pub fn inherit_env(mut self) -> Self {
        self.command.envs(std::env::vars_os());
        self
    }

    /// Where it works; else where we do.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.command.current_dir(directory.into());
        self.has_directory = true;
        self
    }

    /// What it reads, in place of nothing.
    #[must_use]
    pub fn stdin(mut self, source: OwnedFd) -> Self {
        self.command.stdin(source);
        self
    }

    /// Where its stdout goes, in place of memory.
    #[must_use]
    pub fn stdout(mut self, target: OwnedFd) -> Self {
        self.command.stdout(target);
        self
    }

    /// Where its stderr goes, in place of memory.
    #[must_use]
    pub fn stderr(mut self, target: OwnedFd) -> Self {
        self.command.stderr(target);
        self
    }

    /// The time it has.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// How much of stdout, and of the end of stderr, is kept.
    #[must_use]
    pub fn kept_bytes(mut self, kept_bytes: usize) -> Self {
        self.kept_bytes = kept_bytes;
        self
    }

    /// Runs as another user, without our supplementary groups, in `/` unless a directory is given. Needs root.
    #[must_use]
    pub fn as_user(mut self, user: &User) -> Self {
        // std drops the supplementary groups of root along with the user id.
        self.command.gid(user.gid).uid(user.uid).env("HOME", &user.home).env("USER", &user.name);
        if !self.has_directory {
            self.command.current_dir("/");
        }
        self
    }

    /// How many descriptors it may have open.
    #[must_use]
    pub fn open_files(mut self, limit: u64) -> Self {
        let set = move || Ok(setrlimit(Resource::RLIMIT_NOFILE, limit, limit)?);
        // SAFETY: between fork and exec only setrlimit is called, which is async-signal-safe.
        unsafe { self.command.pre_exec(set) };
        self
    }

    /// Starts it and waits for its end.
    pub fn run(self, watch: &dyn Watch) -> Result<Finished, SysError> {
        self.start()?.wait(watch)
    }

    /// Starts it.
    pub fn start(mut self) -> Result<Running, SysError> {
        let program = PathBuf::from(self.command.get_program());
        let at = |errno| SysError::Execute { program: program.clone(), errno };
        let started_ns = now_ns();
        let child = self.command.spawn();
        // std makes up an error of its own for a zero byte in a name only.
        let child = child.map_err(|error| at(error.raw_os_error().map_or(Errno::EINVAL, Errno::from_raw)))?;
        Running::of(child, program.clone(), started_ns, self.limit, self.kept_bytes).map_err(at)
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    use super::*;
    use crate::sys::watch::{Deadline, Event, Quiet, Stop};

    struct Impatient;

    impl Watch for Impatient {
        fn event(&self, _event: Event<'_>) {}

        fn stop(&self) -> Option<Stop> {
            Some(Stop::TimeLimit)
        }
    }

    fn sh(script: &str) -> Tool {
        Tool::new("/bin/sh").args(["-c", script])
    }

    fn run(tool: Tool) -> Finished {
        tool.run(&Quiet).expect("run")
    }

    /// Whether a process is there and no zombie.
    fn lives(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|state| !state.is_empty() && !state.starts_with('Z'))
    }

    #[test]
    fn output_status_and_usage_are_captured_and_stdin_is_closed() {
        let finished =
            run(sh("cat; echo out; echo err >&2; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"));
        assert_eq!((finished.end, finished.text().as_str()), (End::Exit(0), "out"));
        assert_eq!(finished.stderr, b"err\n");
        let Usage { user_ns, sys_ns, max_rss_bytes } = finished.usage;
        assert!(user_ns + sys_ns > 0 && max_rss_bytes > 100_000, "{:?}", finished.usage);
        assert!(finished.elapsed_ns >= user_ns / 2 && !finished.stdout_cut);
    }

    #[test]
    fn a_failure_says_how_and_what_was_said_last() {
        let error = run(sh("echo one >&2; echo; exit 3")).success().expect_err("3");
        assert_eq!(error.to_string(), "\"/bin/sh\" exited with exit code 3: one");
        let error = run(sh("kill -9 $$")).success().expect_err("9");
        assert_eq!(error.to_string(), "\"/bin/sh\" was terminated by signal 9");
        let error = Tool::new("no-such-program").run(&Quiet).expect_err("missing");
        assert_eq!(error.to_string(), "could not execute \"no-such-program\": No such file or directory");
        assert!(error.hint().is_some());
    }

    #[test]
    fn the_environment_is_the_given_one_and_the_group_its_own() {
        let finished = run(Tool::new("env").env("PGPORT", "5499"));
        let text = finished.text();
        let mut names: Vec<&str> = text.lines().filter_map(|line| line.split('=').next()).collect();
        names.sort_unstable();
        assert_eq!(names, ["LC_ALL", "PATH", "PGPORT"]);
        let own = run(sh("read -r _ _ _ _ group _ </proc/$$/stat; [ $group = $$ ]"));
        assert_eq!(own.end, End::Exit(0));
    }

    #[test]
    fn too_much_output_is_cut_and_does_not_hang() {
        let much = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); echo line$i; echo line$i >&2; done";
        let finished = run(sh(much).kept_bytes(100));
        assert!(finished.stdout_cut && finished.stdout.starts_with(b"line1\n"));
        assert!(finished.stderr.ends_with(b"line30000\n"));
        assert_eq!((finished.stdout.len(), finished.stderr.len()), (100, 100));
    }

    #[test]
    fn at_its_limit_and_at_a_stop_it_is_killed_with_all_it_started() {
        let script = "sleep 60 & echo $! >&2; wait";
        let error = sh(script).limit(Duration::from_millis(300)).run(&Quiet).expect_err("overdue");
        let SysError::Overdue { stderr, .. } = &error else { panic!("{error}") };
        assert!(error.to_string().starts_with("\"/bin/sh\" did not end within 0.3 s: "), "{error}");
        let gone = Deadline::after(Duration::from_secs(5));
        while lives(stderr) && !gone.reached() {
            std::thread::yield_now();
        }
        assert!(!lives(stderr), "process {stderr} of the group is still there");
        let error = sh("sleep 60").run(&Impatient).expect_err("stopped");
        assert_eq!(error.to_string(), "\"/bin/sh\" was stopped: time limit reached");
    }

    #[test]
    fn one_that_does_not_listen_to_sigterm_ends_all_the_same() {
        let deaf = sh("trap '' TERM; echo ready; while :; do sleep 0.01; done");
        let mut running = deaf.limit(Duration::from_millis(200)).start().expect("start");
        while running.stdout().is_empty() {
            assert_eq!(running.ended().expect("look"), None);
        }
        let finished = running.end(Signal::SIGTERM).expect("ended");
        assert_eq!(finished.end, End::Signal(9));
    }

    #[test]
    fn what_a_program_leaves_in_the_background_does_not_hold_up_its_end() {
        let finished = run(sh("sleep 5 & echo $!"));
        assert!(finished.elapsed_ns < 4_000_000_000);
        let left = finished.text().parse().expect("pid");
        kill(Pid::from_raw(left), Signal::SIGKILL).expect("kill what the test started");
    }

    #[test]
    fn another_user_has_none_of_our_groups_and_a_limit_of_descriptors_holds() {
        let nobody = User::named("nobody").expect("nobody");
        let finished = run(sh("id -u; id -G; pwd; ulimit -n").as_user(&nobody).open_files(64));
        assert_eq!(finished.text(), format!("{}\n{}\n/\n64", nobody.uid, nobody.gid));
        assert!(User::named("no such user").is_err());
    }
}
