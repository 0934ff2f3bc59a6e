//! The engine with its tallies against a bare loop of the same calls on a memory file system, where a call costs least
//! and the engine's own cost weighs most. Pairs in alternating order, so that drift meets both alike.

use std::ffi::{CStr, CString};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use fsynclab::replay::engine::Engine;
use fsynclab::replay::means::Means;
use fsynclab::replay::policy::Policy;
use fsynclab::replay::template::Template;
use fsynclab::replay::template::build::{BuildSync, build};
use fsynclab::sys::clock::now_ns;
use fsynclab::sys::kernel::{Call, Kernel, RangeFlags};
use fsynclab::sys::real::Real;
use fsynclab::sys::tallied::Tallied;
use fsynclab::sys::watch::Quiet;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

/// Where the pairs run.
const MEMORY: &str = "/dev/shm";
const LISTING_BYTES: usize = 32 << 10;
const BUFFER_BYTES: usize = 64 << 10;
/// Where a struct linux_dirent64 has its length and its name.
const LENGTH_AT: usize = 16;
const NAME_AT: usize = 19;

/// What was compared.
#[derive(Clone, Debug)]
pub struct Pairs {
    /// Engine through bare, of each pair.
    pub ratios: Vec<f64>,
    /// The bare loop's times, in nanoseconds.
    pub bare_ns: Vec<u64>,
    /// Calls of one copy, by the engine's tally.
    pub calls: u64,
}

impl Pairs {
    /// The middle ratio.
    pub fn median(&self) -> f64 {
        let mut ratios = self.ratios.clone();
        ratios.sort_by(f64::total_cmp);
        ratios[ratios.len() / 2]
    }
}

/// Copies `pg15` so many times in pairs, as PostgreSQL 15 does: with every kind of call that it makes. `against_itself`
/// puts a second bare loop in the engine's place: what the method finds where there is nothing.
pub fn pairs(count: usize, against_itself: bool) -> Pairs {
    let bench = tempfile::tempdir_in(MEMORY).expect("a directory in memory");
    let (source, copy) = (bench.path().join("source"), bench.path().join("copy"));
    let shape = Template::resolve("pg15".as_ref(), 1).expect("a template").shape;
    build(&Real, &shape, &source, 1, BuildSync::EachFile, &Quiet).expect("a source");
    let kernel = Tallied::new(Real);
    let policy: Policy = "pg-15".parse().expect("a policy");
    let mut engine = Engine::new(&kernel, &policy, Means::default()).expect("an engine");
    let (mut bare, mut other) = (Bare::new(), Bare::new());
    let mut by_engine = || {
        if against_itself {
            other.copy(&source, &copy).expect("a copy");
        } else {
            engine.replay(&source, &copy, &Quiet, &()).expect("a copy");
        }
    };
    let mut by_loop = || bare.copy(&source, &copy).expect("a copy");
    let mut pairs = Pairs { ratios: Vec::new(), bare_ns: Vec::new(), calls: 0 };
    for pair in 0..=count {
        let (engine_ns, bare_ns);
        if pair % 2 == 0 {
            engine_ns = timed(&copy, &mut by_engine);
            bare_ns = timed(&copy, &mut by_loop);
        } else {
            bare_ns = timed(&copy, &mut by_loop);
            engine_ns = timed(&copy, &mut by_engine);
        }
        let tally = kernel.take();
        // The first pair warms both up.
        if pair > 0 {
            pairs.ratios.push(engine_ns as f64 / bare_ns as f64);
            pairs.bare_ns.push(bare_ns);
            pairs.calls = Call::ALL.iter().map(|call| tally.count(*call)).sum();
        }
    }
    pairs
}

/// Nanoseconds of one copy; its removal is outside.
fn timed(copy: &Path, make: &mut dyn FnMut()) -> u64 {
    let start_ns = now_ns();
    make();
    let spent_ns = now_ns() - start_ns;
    std::fs::remove_dir_all(copy).expect("the copy");
    spent_ns
}

/// A copy as one would write it in C: no tally, no phases, nobody who looks on.
struct Bare {
    buffer: Vec<u8>,
    listing: Vec<u8>,
}

/// Calls `each` with every name of a directory.
fn walk(
    directory: &CStr,
    listing: &mut [u8],
    mut each: impl FnMut(&[u8]) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_DIRECTORY;
    let opened = Real.open(directory, flags, Mode::empty())?;
    loop {
        let filled = Real.getdents(opened.as_fd(), listing)?;
        if filled == 0 {
            return Real.close(opened);
        }
        let mut at = 0;
        while at < filled {
            let length =
                usize::from(u16::from_ne_bytes([listing[at + LENGTH_AT], listing[at + LENGTH_AT + 1]]));
            let name = &listing[at + NAME_AT..at + length];
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
            if !matches!(&name[..end], b"." | b"..") {
                each(&name[..end])?;
            }
            at += length;
        }
    }
}

fn joined(directory: &CStr, name: &[u8]) -> CString {
    let mut path = directory.to_bytes().to_vec();
    path.push(b'/');
    path.extend_from_slice(name);
    CString::new(path).expect("no NUL in a name")
}

impl Bare {
    fn new() -> Self {
        Self { buffer: vec![0; BUFFER_BYTES], listing: vec![0; LISTING_BYTES] }
    }

    fn copy(&mut self, source: &Path, copy: &Path) -> Result<(), Errno> {
        let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).expect("no NUL in a path");
        let (source, copy) = (text(source), text(copy));
        Real.mkdir(&copy, Mode::S_IRWXU)?;
        let Self { buffer, listing } = self;
        walk(&source, listing, |name| {
            let path = joined(&source, name);
            Real.lstat(&path)?;
            copy_file(&path, &joined(&copy, name), buffer)
        })?;
        walk(&copy, listing, |name| {
            let path = joined(&copy, name);
            Real.lstat(&path)?;
            let file = Real.open(&path, OFlag::O_RDWR, Mode::empty())?;
            Real.fsync(file.as_fd())?;
            Real.close(file)
        })?;
        let directory = Real.open(&copy, OFlag::O_RDONLY, Mode::empty())?;
        Real.fsync(directory.as_fd())?;
        Real.close(directory)
    }
}

/// No file of the template is larger than a mebibyte: one hint at the end.
fn copy_file(source: &CStr, copy: &CStr, buffer: &mut [u8]) -> Result<(), Errno> {
    let from = Real.open(source, OFlag::O_RDONLY, Mode::empty())?;
    let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL;
    let to = Real.open(copy, flags, Mode::S_IRUSR | Mode::S_IWUSR)?;
    let mut offset = 0;
    loop {
        let length = Real.read(from.as_fd(), buffer)?;
        if length == 0 {
            break;
        }
        Real.write(to.as_fd(), &buffer[..length])?;
        offset += length as u64;
    }
    if offset > 0 {
        Real.sync_file_range(to.as_fd(), 0, offset, RangeFlags::Write)?;
    }
    Real.close(to)?;
    Real.close(from)
}
