//! A witness and writers as processes of their own, for the tests of real power cuts.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// For a line that must come.
const LIMIT: Duration = Duration::from_mins(1);

/// A process that ends with the test.
pub struct Started {
    child: Child,
    lines: Receiver<String>,
    errors: Receiver<String>,
}

fn lines_of(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

impl Started {
    pub fn new(mut command: Command) -> Started {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it can be started");
        let stdout: ChildStdout = child.stdout.take().expect("piped");
        let errors = lines_of(child.stderr.take().expect("piped"));
        Started { child, lines: lines_of(stdout), errors }
    }

    /// The first line of stdout that has these words.
    pub fn line(&self, words: &str) -> String {
        find(&self.lines, words).unwrap_or_else(|seen| {
            let errors: Vec<String> = self.errors.try_iter().collect();
            panic!("no line with \"{words}\"; stdout: {seen:?}, stderr: {errors:?}")
        })
    }

    /// The same of stderr.
    pub fn error(&self, words: &str) -> String {
        find(&self.errors, words).unwrap_or_else(|seen| panic!("no line with \"{words}\": {seen:?}"))
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("a child of ours");
        self.child.wait().expect("a child of ours");
    }

    /// How it ended by itself, and what it said on stderr until then.
    pub fn ended(&mut self) -> (Option<i32>, String) {
        let status = self.child.wait().expect("a child of ours");
        let errors: Vec<String> = self.errors.iter().collect();
        (status.code(), errors.join(" "))
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        nix::sys::signal::kill(pid, signal).expect("a child of ours");
    }

    pub fn runs(&mut self) -> bool {
        self.child.try_wait().expect("a child of ours").is_none()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn find(lines: &Receiver<String>, words: &str) -> Result<String, Vec<String>> {
    let mut seen = Vec::new();
    loop {
        match lines.recv_timeout(LIMIT) {
            Ok(line) if line.contains(words) => return Ok(line),
            Ok(line) => seen.push(line),
            Err(_) => return Err(seen),
        }
    }
}

/// A directory with a state directory, ledgers and a place.
pub struct Scene {
    pub directory: PathBuf,
    pub ledgers: PathBuf,
    pub address: String,
}

impl Scene {
    /// Starts a witness on a free port.
    pub fn start(directory: &Path, ledgers: &Path) -> (Scene, Started) {
        let (directory, ledgers) = (directory.to_owned(), ledgers.to_owned());
        let mut scene = Scene { directory, ledgers, address: "127.0.0.1:0".to_owned() };
        let witness = scene.listen();
        let line = witness.line("listening on");
        line.split([' ', ';']).nth(2).expect("an address").clone_into(&mut scene.address);
        (scene, witness)
    }

    /// A witness where the last one was.
    pub fn listen(&self) -> Started {
        let mut command = self.plug("listen");
        command.arg("--ledgers").arg(&self.ledgers).args(["--listen", &self.address]);
        Started::new(command)
    }

    fn plug(&self, command: &str) -> Command {
        let mut program = Command::new(env!("CARGO_BIN_EXE_fsynclab"));
        program.env("FSYNCLAB_STATE_DIR", self.directory.join("state"));
        program.env("LC_ALL", "C.UTF-8").env_remove("FSYNCLAB_WITNESS_TOKEN").args(["plug", command]);
        program
    }

    /// A command that speaks with the witness.
    pub fn command(&self, name: &str, into: &Path) -> Command {
        self.command_with(&self.ledgers.join("token"), name, into)
    }

    /// The same with another token.
    pub fn command_with(&self, token: &Path, name: &str, into: &Path) -> Command {
        let mut command = self.plug(name);
        command.args(["--witness", &self.address, "--token-file"]).arg(token);
        command.arg("--into").arg(into);
        command
    }

    /// A writer that has begun; its run.
    pub fn write(&self, into: &Path, more: &[&str]) -> (Started, String) {
        let (writer, (run, _)) = self.write_line(into, more);
        (writer, run)
    }

    /// The same with its cut.
    pub fn write_line(&self, into: &Path, more: &[&str]) -> (Started, (String, u32)) {
        let mut command = self.command("write", into);
        command.arg("--no-probe").args(more);
        let writer = Started::new(command);
        let line = writer.line("writing in");
        let words: Vec<&str> = line.split([' ', ',', ':']).filter(|word| !word.is_empty()).collect();
        let ["run", run, "cut", cut, ..] = words[..] else { panic!("{line}") };
        (writer, (run.to_owned(), cut.parse().expect("a number")))
    }

    pub fn verify(&self, into: &Path, more: &[&str]) -> Output {
        let mut command = self.command("verify", into);
        command.arg("--storage-only").args(more).output().expect("it can be started")
    }
}
