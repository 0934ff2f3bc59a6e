//! Taking a drive apart, from wherever that is asked: its program, another one, `clean`.
//!
//! Reads only sysfs and /proc: stat, statfs and the loop ioctls hang on a server that hangs. Everything of a drive
//! carries its tag (the FSName of the FUSE mount, the name of the loop device's file) or hangs on what does, and what
//! carries no tag is not touched.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use nix::mount::MntFlags;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::queue;
use crate::simdrive::error::{Attempt, Error};
use crate::sys::clock::now_ns;
use crate::sys::fork::started_at;
use crate::sys::mounts::{self, Mount, Unmounted};
use crate::sys::undo::{Undo, Undone};

/// How every tag begins.
pub const TAG: &str = "fsynclab-sim-";
/// For an unmount that writes back at full speed.
const UNMOUNT_LIMIT: Duration = Duration::from_mins(1);
/// For an unmount that has nothing to write back.
const PROMPT_LIMIT: Duration = Duration::from_secs(1);
/// For each step after the connection was aborted, and for each that waits for nothing.
const STEP_LIMIT: Duration = Duration::from_secs(10);
/// How long files may still be open after the program said it is done.
const BUSY_LIMIT_NS: u64 = 3_000_000_000;

/// All that is needed to take a drive apart later: what the journal keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The drive's tag.
    pub tag: String,
    /// Its loop number.
    pub loop_number: u32,
    /// The serving process.
    pub server_pid: i32,
    /// When that started, in ticks since boot.
    pub server_started: u64,
}

impl Record {
    /// FSName of the FUSE mount: it tells the whole record.
    pub fn source(&self) -> String {
        format!("{}:{}:{}:{}", self.tag, self.loop_number, self.server_pid, self.server_started)
    }

    fn from_source(source: &str) -> Option<Record> {
        let mut parts = source.split(':');
        let tag = parts.next().filter(|tag| tag.starts_with(TAG))?.to_owned();
        let mut number = || parts.next()?.parse::<u64>().ok();
        Some(Record {
            tag,
            loop_number: u32::try_from(number()?).ok()?,
            server_pid: i32::try_from(number()?).ok()?,
            server_started: number()?,
        })
    }

    fn device(&self) -> String {
        queue::node(self.loop_number).display().to_string()
    }

    fn server_runs(&self) -> bool {
        started_at(self.server_pid) == Some(self.server_started)
    }

    /// Name of the file that is attached to the loop device: with the number of the FUSE connection, for sysfs shows it
    /// even when no process is left that sees the mount.
    pub fn file_name(&self, connection: u32) -> String {
        format!("{}:{connection}", self.source())
    }

    /// The record and the connection of the drive that a loop device is attached to.
    fn attached_to(loop_number: u32) -> Option<(Record, u32)> {
        let file = queue::backing_file(loop_number)?;
        let (source, connection) = file.file_name()?.to_str()?.rsplit_once(':')?;
        Some((Record::from_source(source)?, connection.parse().ok()?))
    }

    /// Where the drive is mounted for the caller, while its serving process lives: nothing a killed run left behind, but
    /// what `sim mount` is for.
    pub fn stands_at(&self) -> Option<PathBuf> {
        let (device, mounts) = (self.device(), mounts::seen_here().ok()?);
        let mount = mounts.into_iter().find(|mount| mount.source == device)?;
        (self.server_runs() && self.attached().is_some()).then_some(mount.target)
    }

    /// The connection's number, if the loop device is attached to this drive.
    fn attached(&self) -> Option<u32> {
        Record::attached_to(self.loop_number)
            .filter(|(record, _)| record == self)
            .map(|(_, connection)| connection)
    }
}

impl Undo for Record {
    const KIND: &'static str = "simulated-drive";
    type Error = Error;

    fn describe(&self) -> String {
        format!("simulated drive \"{}\" on loop{}", self.tag, self.loop_number)
    }

    fn undo(&self) -> Result<Undone, Error> {
        undo(self)
    }
}

/// How the file system of a drive went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It was unmounted.
    Clean,
    /// It had been unmounted before.
    WasNotMounted,
    /// Files were open: detached, it goes with the last of them.
    InUse,
    /// It hung; its connection was aborted.
    Aborted,
}

/// The mounts of a drive in one mount namespace.
struct Seen {
    /// A process inside; `None` for the caller's own.
    inside: Option<i32>,
    file_systems: Vec<Mount>,
    connections: Vec<Mount>,
}

impl Seen {
    fn by(inside: Option<i32>, record: &Record) -> std::io::Result<Seen> {
        let mounts = inside.map_or_else(mounts::seen_here, mounts::seen_by)?;
        let (source, device) = (record.source(), record.device());
        let of = |wanted: &str| mounts.iter().filter(|one| one.source == wanted).cloned().collect();
        Ok(Seen { inside, file_systems: of(&device), connections: of(&source) })
    }

    fn is_empty(&self) -> bool {
        self.file_systems.is_empty() && self.connections.is_empty()
    }
}

/// Unmounts a drive in the caller's namespace and waits until its loop device lets go. Latency is off by then.
pub fn unmount(record: &Record, file_system: &Path) -> Result<Ending, Error> {
    let ending = match unmount_patiently(file_system, UNMOUNT_LIMIT)? {
        Unmounted::Done => Ending::Clean,
        Unmounted::NotMounted => Ending::WasNotMounted,
        Unmounted::Busy => return detach(file_system, None).map(|()| Ending::InUse),
        Unmounted::Late => {
            abort(record.attached())?;
            detach(file_system, None).map(|()| Ending::Aborted)?
        }
    };
    if queue::wait_until_detached(record.loop_number, STEP_LIMIT) {
        return Ok(ending);
    }
    abort(record.attached())?;
    queue::wait_until_detached(record.loop_number, STEP_LIMIT);
    Ok(Ending::Aborted)
}

/// `limit` is for one attempt; where files are open it is made again for a while.
fn unmount_patiently(target: &Path, limit: Duration) -> Result<Unmounted, Error> {
    let end_ns = now_ns() + BUSY_LIMIT_NS;
    loop {
        let unmounted = mounts::unmount(target, MntFlags::empty(), None, limit).attempt("unmount", target)?;
        if unmounted != Unmounted::Busy || now_ns() >= end_ns {
            return Ok(unmounted);
        }
        sleep(Duration::from_millis(50));
    }
}

fn detach(target: &Path, inside: Option<i32>) -> Result<(), Error> {
    mounts::unmount(target, MntFlags::MNT_DETACH, inside, STEP_LIMIT).attempt("unmount", target).map(drop)
}

/// Unmounts the FUSE file system in the caller's namespace, once nothing uses its file.
pub fn unmount_connection(record: &Record) -> Result<(), Error> {
    let seen = Seen::by(None, record).attempt("read file", "/proc/thread-self/mountinfo")?;
    for mount in &seen.connections {
        if mounts::unmount(&mount.target, MntFlags::empty(), None, STEP_LIMIT)
            .attempt("unmount", &mount.target)?
            != Unmounted::Done
        {
            detach(&mount.target, None)?;
        }
    }
    Ok(())
}

/// The number of the FUSE connection that is mounted at `target`.
pub fn connection_at(target: &Path) -> Result<u32, Error> {
    let mounts = mounts::seen_here().attempt("read file", "/proc/thread-self/mountinfo")?;
    let number = mounts.iter().rev().find(|mount| mount.target == target).and_then(number_of);
    number.ok_or_else(|| Error::NotADrive { target: target.to_owned() })
}

fn number_of(mount: &Mount) -> Option<u32> {
    mount.device.rsplit_once(':')?.1.parse().ok()
}

fn abort(connection: Option<u32>) -> Result<(), Error> {
    let Some(number) = connection else { return Ok(()) };
    match mounts::abort_fuse(number, STEP_LIMIT) {
        Ok(()) | Err(nix::errno::Errno::ENOENT) => Ok(()),
        Err(errno) => Err(errno).attempt("abort", format!("/sys/fs/fuse/connections/{number}")),
    }
}

/// Waits for the end of a serving process that is not our child, and ends it when it does not end by itself.
fn see_server_off(record: &Record) {
    let end_ns = now_ns() + u64::try_from(STEP_LIMIT.as_nanos()).unwrap_or(u64::MAX);
    while record.server_runs() && now_ns() < end_ns {
        sleep(Duration::from_millis(5));
    }
    signal_server(record, Signal::SIGKILL);
}

fn signal_server(record: &Record, signal: Signal) {
    if record.server_runs() {
        // It may end between the check and the call; then there is nothing to do.
        kill(Pid::from_raw(record.server_pid), signal).unwrap_or_default();
    }
}

/// The drive that is mounted at `target`, and the path of that as the kernel names it.
pub fn drive_at(target: &Path) -> Result<Option<(PathBuf, Record)>, Error> {
    let mounts = mounts::seen_here().attempt("read file", "/proc/thread-self/mountinfo")?;
    let drive = |target: PathBuf| {
        let device = &mounts.iter().rev().find(|mount| mount.target == target)?.source;
        let mut records = mounts.iter().filter_map(|mount| Record::from_source(&mount.source));
        let ours = |record: &Record| *device == record.device() && record.attached().is_some();
        records.find(ours).map(|record| (target, record))
    };
    let as_given = drive(std::path::absolute(target).attempt("find", target)?);
    // Links are followed only where the name alone finds nothing: that may wait for a drive that hangs.
    Ok(as_given.or_else(|| drive(target.canonicalize().ok()?)))
}

/// Unmounts the drive that is mounted at `target` in the host's namespace and takes it apart. Returns what the journal
/// knows it by. Where files are open on it, it stays as it is.
pub fn umount(target: &Path) -> Result<Record, Error> {
    let Some((target, record)) = drive_at(target)? else {
        return Err(Error::NotADrive { target: target.to_owned() });
    };
    match unmount_patiently(&target, PROMPT_LIMIT)? {
        Unmounted::Busy => return Err(Error::Busy { target }),
        Unmounted::Done | Unmounted::NotMounted => {}
        // It is under way and writes back: SIGTERM is the end of the model's time, too late for anybody to miss it.
        Unmounted::Late => signal_server(&record, Signal::SIGTERM),
    }
    if !queue::wait_until_detached(record.loop_number, UNMOUNT_LIMIT) {
        abort(record.attached())?;
        detach(&target, None)?;
        queue::wait_until_detached(record.loop_number, STEP_LIMIT);
    }
    let seen = Seen::by(None, &record).attempt("read file", "/proc/thread-self/mountinfo")?;
    unmount_connection(&record)?;
    see_server_off(&record);
    if !queue::remove(&queue::control()?, record.loop_number) {
        return Err(Error::StillThere { what: format!("loop{}", record.loop_number), tag: record.tag });
    }
    remove_home(&record, &seen.connections)?;
    Ok(record)
}

/// Removes `sim/TAG` with the mount points in it, nothing of which is mounted any more.
fn remove_home(record: &Record, connections: &[Mount]) -> Result<(), Error> {
    for mount in connections {
        let home = mount.target.parent().filter(|home| home.ends_with(&record.tag));
        for directory in [Some(mount.target.as_path()), home].into_iter().flatten() {
            match std::fs::remove_dir(directory) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                removed => removed.attempt("remove directory", directory)?,
            }
        }
    }
    Ok(())
}

/// Undoes a drive whose program was killed, hung or not: what was written to it is lost. Nothing left of it is success;
/// what does not match is not touched.
fn undo(record: &Record) -> Result<Undone, Error> {
    let free = || queue::backing_file(record.loop_number).is_none();
    let (served, attached) = (record.server_runs(), record.attached());
    // Before anybody's mounts are read: who reads those of a process that is just ending may be left to unmount them, and
    // would wait for a drive that hangs.
    abort(attached)?;
    let everywhere = everywhere(record);
    let there = served
        || attached.is_some()
        || !everywhere.is_empty()
        || (free() && queue::directory(record.loop_number).exists());
    let mounted = || everywhere.iter().flat_map(|seen| &seen.connections).find_map(number_of);
    // Once: a number that is free is given to the next connection, which may be another's.
    if attached.is_none() {
        abort(mounted())?;
    }
    signal_server(record, Signal::SIGKILL);
    for seen in &everywhere {
        let file_systems = seen.file_systems.iter().filter(|_| record.attached().is_some());
        for mount in file_systems.chain(&seen.connections) {
            detach(&mount.target, seen.inside)?;
        }
    }
    if record.attached().is_some() {
        queue::wait_until_detached(record.loop_number, STEP_LIMIT);
    }
    see_server_off(record);
    let still_there = |what: String| Err(Error::StillThere { tag: record.tag.clone(), what });
    if record.attached().is_some() {
        return still_there(format!("loop{}", record.loop_number));
    }
    if record.server_runs() {
        return still_there(format!("process {}", record.server_pid));
    }
    if free() && !queue::remove(&queue::control()?, record.loop_number) {
        return still_there(format!("loop{}", record.loop_number));
    }
    // Those of other namespaces went with these.
    for seen in everywhere.iter().filter(|seen| seen.inside.is_none()) {
        remove_home(record, &seen.connections)?;
    }
    Ok(if there { Undone::Now } else { Undone::Before })
}

/// The drive's mounts in every mount namespace that some process is in.
fn everywhere(record: &Record) -> Vec<Seen> {
    let mut seen = in_each_namespace(namespace_of("thread-self"), |pid| Seen::by(Some(pid), record).ok());
    seen.extend(Seen::by(None, record).ok());
    seen.retain(|seen| !seen.is_empty());
    seen
}

/// What there is to see in every mount namespace but this one. A process that is just ending may name its namespace and show
/// no mounts any more: then another one that is in it is asked.
fn in_each_namespace<T>(but: Option<u64>, look: impl Fn(i32) -> Option<T>) -> Vec<T> {
    let mut known: HashSet<u64> = but.into_iter().collect();
    let fresh = |pid: i32| {
        let namespace = namespace_of(&pid.to_string()).filter(|namespace| !known.contains(namespace))?;
        let found = look(pid)?;
        known.insert(namespace);
        Some(found)
    };
    processes().filter_map(fresh).collect()
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn namespace_of(process: &str) -> Option<u64> {
    std::fs::metadata(format!("/proc/{process}/ns/mnt")).ok().map(|metadata| metadata.ino())
}

/// What there is of simulated drives on this host, whoever made them: records of those that are attached or mounted in
/// some namespace, and numbers of loop devices of ours that have no file.
pub fn leftovers() -> (Vec<Record>, Vec<u32>) {
    let mounts = in_each_namespace(None, |pid| mounts::seen_by(pid).ok());
    let mut records: Vec<Record> =
        mounts.iter().flatten().filter_map(|mount| Record::from_source(&mount.source)).collect();
    let blocks = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let numbers: Vec<u32> =
        blocks.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("loop")?.parse().ok()).collect();
    records.extend(numbers.iter().filter_map(|number| Some(Record::attached_to(*number)?.0)));
    records.sort_by(|one, other| one.tag.cmp(&other.tag));
    records.dedup();
    let is_free = |number: &u32| queue::NUMBERS.contains(number) && queue::backing_file(*number).is_none();
    (records, numbers.into_iter().filter(is_free).collect())
}

/// Removes a loop number of [`leftovers`]; whether it is gone. One that somebody has opened meanwhile stays.
pub fn remove_number(number: u32) -> Result<bool, Error> {
    let control = queue::control()?;
    Ok(queue::NUMBERS.contains(&number) && crate::sys::loop_device::remove(&control, number).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_from_the_name_of_its_mount() {
        let record =
            Record { tag: format!("{TAG}1-2"), loop_number: 500_001, server_pid: 7, server_started: 99 };
        assert_eq!(Record::from_source(&record.source()), Some(record));
        assert_eq!(Record::from_source("/dev/sda1"), None);
        assert_eq!(Record::from_source("fsynclab-sim-1:x:7:9"), None);
    }
}
