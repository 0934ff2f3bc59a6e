//! What several tests need: the program itself with a state directory of its own, real file systems in image files,
//! and the rule about skipping.
#![expect(dead_code, reason = "every test binary includes this and uses its part")]
#![expect(clippy::print_stdout, reason = "the output of a test is its reader's")]

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// True as root. Otherwise the skipped test is written where `tests/run` reads it.
pub fn root_or_skip(test: &str) -> bool {
    if nix::unistd::geteuid().is_root() {
        return true;
    }
    skip(test, "needs root");
    false
}

fn skip(test: &str, reason: &str) {
    println!("skipped: {test}: {reason}");
    if let Some(list) = std::env::var_os("FSYNCLAB_SKIPS") {
        let mut file =
            fs::OpenOptions::new().append(true).create(true).open(list).expect("the list of skipped tests");
        writeln!(file, "{test}: {reason}").expect("the list of skipped tests");
    }
}

/// A directory on the disk under /var/tmp (never a memory file system), removed at the end of the test.
pub fn scratch(name: &str) -> TempDir {
    tempfile::Builder::new()
        .prefix(&format!("fsynclab-test-{name}-"))
        .tempdir_in("/var/tmp")
        .expect("a directory in /var/tmp")
}

/// The program, with its journals in `state`.
pub fn fsynclab(state: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsynclab"));
    command.env("FSYNCLAB_STATE_DIR", state).env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR");
    command
}

/// PostgreSQL's own program, of the newest server that is installed.
pub fn pg_test_fsync() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed");
    let programs = versions.flatten().map(|version| version.path().join("bin/pg_test_fsync"));
    programs.filter(|program| program.exists()).max().expect("PostgreSQL is installed with its programs")
}

/// Runs a tool to its end and returns what it printed; its failure is the test's.
pub fn run<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> String {
    let output =
        Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} failed: {}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Both streams of a finished program, for messages.
pub fn text(output: &Output) -> String {
    format!(
        "{}\nstdout:\n{}\nstderr:\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        told(output)
    )
}

/// What a program said on stderr, in one line: where its lines are broken is of no concern to most tests.
pub fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).replace('\n', " ")
}

/// A file system that an image file can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    Ext4,
    Ext4NoJournal,
    Xfs,
    Btrfs,
}

impl FileSystem {
    pub const ALL: [Self; 4] = [Self::Ext4, Self::Ext4NoJournal, Self::Xfs, Self::Btrfs];

    fn mkfs(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Ext4 => ("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"]),
            Self::Ext4NoJournal => {
                ("mkfs.ext4", &["-q", "-F", "-O", "^has_journal", "-E", "lazy_itable_init=0"])
            }
            Self::Xfs => ("mkfs.xfs", &["-q", "-f"]),
            Self::Btrfs => ("mkfs.btrfs", &["-q", "-f"]),
        }
    }
}

/// A real file system in an image file on a loop device; unmounted and detached at the end of the test.
pub struct Image {
    directory: TempDir,
    device: String,
    old_write_cache: String,
}

impl Image {
    /// A mounted file system of `size` (as truncate(1) takes it; XFS needs 300M) with mount options (may be empty).
    pub fn new(file_system: FileSystem, size: &str, options: &str) -> Self {
        Self::with_sectors(file_system, size, options, 512)
    }

    /// The same on a device with logical sectors of so many bytes; ext4 on 4096 needs a size from which it takes
    /// blocks of 4096: 600M.
    pub fn with_sectors(file_system: FileSystem, size: &str, options: &str, sector_bytes: u32) -> Self {
        let directory = scratch("image");
        let image = directory.path().join("image");
        run("truncate", &[OsStr::new("-s"), OsStr::new(size), image.as_os_str()]);
        let (mkfs, arguments) = file_system.mkfs();
        let mut arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        arguments.push(image.as_os_str());
        run(mkfs, &arguments);
        let sectors = format!("--sector-size={sector_bytes}");
        let arguments = ["--find", "--show", &sectors].map(OsStr::new);
        let arguments: Vec<&OsStr> = arguments.into_iter().chain([image.as_os_str()]).collect();
        let device = run("losetup", &arguments).trim().to_owned();
        let mut mounted = Self { directory, device, old_write_cache: String::new() };
        // A loop number keeps what its last user made of its queue.
        mounted.old_write_cache = mounted.write_cache();
        mounted.set_write_cache("write back");
        fs::create_dir(mounted.path()).expect("mount point");
        let point = mounted.path();
        let mut mount = vec![OsStr::new(&mounted.device), point.as_os_str()];
        if !options.is_empty() {
            mount.extend([OsStr::new("-o"), OsStr::new(options)]);
        }
        run("mount", &mount);
        mounted
    }

    /// The mount point.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("mnt")
    }

    /// `loopN`.
    pub fn device_name(&self) -> &str {
        self.device.trim_start_matches("/dev/")
    }

    fn queue(&self) -> PathBuf {
        Path::new("/sys/block").join(self.device_name()).join("queue/write_cache")
    }

    /// The kernel's view of the write cache.
    pub fn write_cache(&self) -> String {
        fs::read_to_string(self.queue()).expect("write_cache").trim().to_owned()
    }

    /// Forces the kernel's view: `write back` or `write through`.
    pub fn set_write_cache(&self, view: &str) {
        fs::write(self.queue(), view).expect("write_cache");
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let point = self.path();
        let umount = Command::new("umount").arg(&point).status();
        let restored = fs::write(self.queue(), &self.old_write_cache);
        let detach = Command::new("losetup").arg("--detach").arg(&self.device).status();
        if umount.is_err() || detach.is_err() || restored.is_err() {
            println!("left behind: {} on {}", point.display(), self.device);
        }
    }
}

/// The same program as user nobody, which may read the build and write only where it is let.
pub fn as_nobody(command: &Command) -> Command {
    let mut nobody = Command::new("setpriv");
    nobody
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nobody.env(name, value),
            None => nobody.env_remove(name),
        };
    }
    nobody
}
