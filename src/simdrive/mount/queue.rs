//! The loop device: a number of its own, settings that say what the model says, read back.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;

use super::plan::Plan;
use crate::simdrive::error::{Attempt, Error};
use crate::simdrive::host::{MOST_BYTES, MOST_IN_FLIGHT};
use crate::sys::clock::now_ns;
use crate::sys::loop_device;

/// The numbers of our loop devices: far above those that the kernel gives out by itself, so that one without a file is
/// known as ours by its number.
pub const NUMBERS: std::ops::Range<u32> = 500_000..1_000_000;

/// How long a device node may take to appear.
const LIMIT_NS: u64 = 5_000_000_000;
/// How long others may look at a device that has lost its file.
const REMOVE_LIMIT_NS: u64 = 30_000_000_000;
const STEP: Duration = Duration::from_millis(2);

/// Opens `/dev/loop-control`.
pub fn control() -> Result<File, Error> {
    let opened = OpenOptions::new().read(true).write(true).open("/dev/loop-control");
    opened.map_err(|error| Error::NoLoop(crate::simdrive::error::errno_of(&error)))
}

/// Makes a loop device with a number that nobody has, beginning the search at `start`.
pub fn add(control: &File, start: u32) -> Result<u32, Error> {
    let from_start = (start..NUMBERS.end).chain(NUMBERS.start..start);
    for number in from_start {
        match loop_device::add(control, number) {
            Err(Errno::EEXIST) => {}
            added => return added.map(|()| number).attempt("make loop device", node(number)),
        }
    }
    Err(Errno::ENOSPC).attempt("make loop device", "/dev/loop-control")
}

/// `/dev/loopN`.
pub fn node(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{number}"))
}

/// `/sys/block/loopN`.
pub fn directory(number: u32) -> PathBuf {
    PathBuf::from(format!("/sys/block/loop{number}"))
}

/// The path of the file that is attached; `None` when none is, or no such device is there.
pub fn backing_file(number: u32) -> Option<PathBuf> {
    let text = std::fs::read_to_string(directory(number).join("loop/backing_file")).ok()?;
    Some(PathBuf::from(text.trim_end_matches('\n')))
}

/// Opens the device, whose node the kernel makes a moment after the number.
pub fn open(number: u32, flags: libc::c_int) -> Result<File, Error> {
    let end_ns = now_ns() + LIMIT_NS;
    loop {
        match OpenOptions::new().read(true).write(true).custom_flags(flags).open(node(number)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && now_ns() < end_ns => sleep(STEP),
            opened => return opened.attempt("open file", node(number)),
        }
    }
}

/// Attaches the drive's file and makes the queue what the model says. The device goes when the last user closes it.
pub fn attach(device: &File, number: u32, file: &Path, tag: &str, plan: &Plan<'_>) -> Result<(), Error> {
    let backing = OpenOptions::new().read(true).write(true).open(file).attempt("open file", file)?;
    loop_device::attach(device, backing.as_fd(), plan.model.block_bytes, tag)
        .attempt("attach a file to loop device", node(number))?;
    let cache = if plan.model.write_back(&plan.options) { "write back" } else { "write through" };
    let settings = [
        ("queue/scheduler", "none".to_owned()),
        ("queue/nr_requests", MOST_IN_FLIGHT.to_string()),
        ("queue/max_sectors_kb", (MOST_BYTES >> 10).to_string()),
        ("queue/rotational", u8::from(plan.model.rotational()).to_string()),
        ("queue/write_cache", cache.to_owned()),
    ];
    for (setting, value) in &settings {
        let path = directory(number).join(setting);
        std::fs::write(&path, value).attempt("write file", &path)?;
    }
    check(number, "loop/dio", "1")?;
    check(number, "queue/logical_block_size", &plan.model.block_bytes.to_string())?;
    for (setting, value) in &settings[1..] {
        check(number, setting, value)?;
    }
    Ok(())
}

fn check(number: u32, setting: &'static str, wanted: &str) -> Result<(), Error> {
    let path = directory(number).join(setting);
    let found = std::fs::read_to_string(&path).attempt("read file", &path)?;
    let found = found.trim();
    if found == wanted {
        return Ok(());
    }
    let device = format!("loop{number}");
    Err(Error::NotTaken { device, setting, wanted: wanted.to_owned(), found: found.to_owned() })
}

/// Waits until no file is attached any more, `limit` at the most; whether that is so.
pub fn wait_until_detached(number: u32, limit: Duration) -> bool {
    let attached = directory(number).join("loop");
    let end_ns = now_ns() + u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    while attached.exists() {
        if now_ns() >= end_ns {
            return false;
        }
        sleep(STEP);
    }
    true
}

/// Removes the number; whether it is gone. A device without a file may still be open for a moment (udev looks at it),
/// and the drive's keeper may be removing it at the same time.
pub fn remove(control: &File, number: u32) -> bool {
    let end_ns = now_ns() + REMOVE_LIMIT_NS;
    while directory(number).exists() {
        let removed = loop_device::remove(control, number);
        if removed.is_err() {
            sleep(STEP);
        }
        if now_ns() >= end_ns {
            return false;
        }
    }
    true
}
