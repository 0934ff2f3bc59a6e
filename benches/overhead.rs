//! What the engine costs beside the calls it makes: a copy of `pg15` under `pg-16`, counted and timed as in every trial,
//! against a bare loop of the same calls with nothing around them. On tmpfs, where calls cost least; pairs in
//! alternating order, the median of their ratios. Unoptimized builds only run it.
//!
//! `cargo test --release --bench overhead -- --nocapture`

use std::ffi::{CString, OsStr};
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use fsynclab::replay::engine::Engine;
use fsynclab::replay::means::Means;
use fsynclab::replay::policy::Policy;
use fsynclab::replay::template::Template;
use fsynclab::replay::template::build::{BuildSync, build};
use fsynclab::sys::clock::now_ns;
use fsynclab::sys::kernel::{Kernel, RangeFlags};
use fsynclab::sys::real::Real;
use fsynclab::sys::tallied::Tallied;
use fsynclab::sys::watch::Quiet;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

const MODE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

/// Source and copy of every file, ready for the kernel.
type Paths = Vec<(CString, CString)>;

fn list(directory: &CString, buffer: &mut [u8]) -> Result<(), Errno> {
    let open = Real.open(directory, OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty())?;
    while Real.getdents(open.as_fd(), buffer)? > 0 {}
    Real.close(open)
}

/// The same calls in the same number, from paths made beforehand.
fn bare(source: &CString, copy: &CString, files: &Paths, buffer: &mut [u8]) -> Result<(), Errno> {
    Real.mkdir(copy, Mode::S_IRWXU)?;
    list(source, buffer)?;
    for (from, to) in files {
        let from = Real.open(from, OFlag::O_RDONLY, MODE)?;
        let to = Real.open(to, OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL, MODE)?;
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
        Real.close(from)?;
    }
    list(copy, buffer)?;
    for (_, to) in files {
        let to = Real.open(to, OFlag::O_RDWR, MODE)?;
        Real.fsync(to.as_fd())?;
        Real.close(to)?;
    }
    let directory = Real.open(copy, OFlag::O_RDONLY, MODE)?;
    Real.fsync(directory.as_fd())?;
    Real.close(directory)
}

fn text(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("a path without NUL")
}

#[test]
fn the_engine_costs_at_most_five_percent_of_the_calls() {
    let pairs = if cfg!(debug_assertions) { 2 } else { 101 };
    let run = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let (source, copy) = (run.path().join("source"), run.path().join("copy"));
    let shape = Template::resolve(OsStr::new("pg15"), 1).expect("template").shape;
    build(&Real, &shape, &source, 1, BuildSync::EachFile, &Quiet).expect("source");
    let paths = |name: &Path| (text(&source.join(name)), text(&copy.join(name)));
    let files: Paths = shape.files.iter().map(|file| paths(&file.path)).collect();
    let policy: Policy = "pg-16".parse().expect("policy");
    let kernel = Tallied::new(Real);
    let mut engine = Engine::new(&kernel, &policy, Means::default()).expect("engine");
    let mut buffer = vec![0; 64 << 10];
    let mut ratios = Vec::new();
    for pair in 0..pairs {
        let mut elapsed_ns = [0, 0];
        for side in [pair % 2, 1 - pair % 2] {
            let start_ns = now_ns();
            if side == 0 {
                bare(&text(&source), &text(&copy), &files, &mut buffer).expect("bare loop");
            } else {
                engine.replay(&source, &copy, &Quiet, &()).expect("engine");
            }
            elapsed_ns[side] = now_ns() - start_ns;
            kernel.take();
            fs::remove_dir_all(&copy).expect("copy");
        }
        ratios.push(elapsed_ns[1] as f64 / elapsed_ns[0] as f64);
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    println!("engine / bare loop, median of {pairs} pairs: {median:.3}");
    assert!(cfg!(debug_assertions) || median <= 1.05, "{median:.3}");
}
