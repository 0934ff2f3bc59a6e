//! Making a drive, step by step; what was made is taken apart again when a step fails.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};

use super::keeper::Keeper;
use super::make::{age, find_tool, make_file_system, mount_file_system};
use super::plan::Plan;
use super::teardown::TAG;
use super::{MADE, Options, Record, SimulatedDrive, queue, teardown, transport};
use crate::simdrive::error::{Attempt, Error, errno_of};
use crate::simdrive::host::{Line, Message, Server, Transport};
use crate::simdrive::spec::Spec;
use crate::simdrive::writelog::Header;
use crate::sys::clock::now_ns;
use crate::sys::journal::Journal;
use crate::sys::user::is_root;
use crate::sys::{fork, mounts, namespace};

/// What the private tmpfs with the mount points is called.
const WORKSHOP: &str = "fsynclab-mounts";

/// A drive mounted for the calling thread and what it starts.
pub fn in_private(spec: &Spec, options: Options<'_>) -> Result<SimulatedDrive, Error> {
    let (aged, seed, journal) = (options.aged, options.seed, options.journal);
    let plan = Plan::new(spec, seed)?;
    let fuse = requirements(spec)?;
    let sim = make_directory(&options.directory)?;
    let server = Forked::start(&plan, options, &fuse)?;
    namespace::make_mounts_private().attempt("make mounts private at", "/")?;
    make_workshop(&sim)?;
    let home = sim.join(&server.record.tag);
    let mount_point = home.join("mnt");
    let drive = server.into_drive(home, mount_point);
    finish(drive, &plan, fuse, aged, journal)
}

/// A drive mounted on `target` in the host's namespace.
pub fn for_everybody(spec: &Spec, target: &Path, options: Options<'_>) -> Result<Record, Error> {
    if let Some((target, _)) = teardown::drive_at(target)? {
        return Err(Error::Occupied { target });
    }
    let target = target.canonicalize().attempt("find", target)?;
    let mut entries = std::fs::read_dir(&target).attempt("read directory", &target)?;
    if entries.next().is_some() {
        return Err(Error::NotEmpty { target });
    }
    let (aged, seed, journal) = (options.aged, options.seed, options.journal);
    let plan = Plan::new(spec, seed)?;
    let fuse = requirements(spec)?;
    let sim = make_directory(&options.directory)?;
    let server = Forked::start(&plan, options, &fuse)?;
    let home = sim.join(&server.record.tag);
    let drive = server.into_drive(home, target);
    let drive = finish(drive, &plan, fuse, aged, journal)?;
    drive.ask(&Message::StayBehind)?;
    let SimulatedDrive { record, keeper, .. } = drive;
    keeper.leave();
    Ok(record)
}

/// What simulated drives need, each missing thing with its own error; gives `/dev/fuse`.
fn requirements(spec: &Spec) -> Result<OwnedFd, Error> {
    if !is_root() {
        return Err(Error::NeedsRoot);
    }
    let fuse = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let fuse = fuse.map_err(|error| Error::NoFuse(errno_of(&error)))?;
    queue::control()?;
    find_tool(spec.file_system)?;
    Ok(fuse.into())
}

/// The directory for the mount points, as mountinfo shows it.
fn make_directory(directory: &Path) -> Result<PathBuf, Error> {
    let sim = directory.join("sim");
    std::fs::create_dir_all(&sim).attempt("create directory", &sim)?;
    sim.canonicalize().attempt("find", &sim)
}

/// The processes of a drive that has no mounts yet.
struct Forked {
    record: Record,
    entry: u64,
    line: Line,
    server: fork::Process,
    keeper: Keeper,
}

impl Forked {
    fn start(plan: &Plan<'_>, options: Options<'_>, fuse: &OwnedFd) -> Result<Forked, Error> {
        let directory = &options.directory;
        let backing = anonymous_file(directory, plan.spec.size_bytes)?;
        let log = options.write_log.map(|path| direct_file(&path)).transpose()?;
        let moment = now_ns();
        let tag = format!("{TAG}{:x}-{moment:x}", std::process::id());
        let control = queue::control()?;
        let (first, count) =
            (u64::from(queue::NUMBERS.start), u64::from(queue::NUMBERS.end - queue::NUMBERS.start));
        let start = u32::try_from(first + moment % count).unwrap_or(queue::NUMBERS.start);
        let loop_number = queue::add(&control, start)?;
        let keeper = Keeper::start(loop_number)?;
        let (line, theirs) = Line::pair().attempt("make a socket for", &tag)?;
        let server = fork_server(
            plan,
            &tag,
            Files { backing, log, log_data: options.log_data, fuse, line: theirs },
            &keeper,
        )?;
        let server_pid = server.pid();
        let server_started = fork::started_at(server_pid).unwrap_or(0);
        let record = Record { tag, loop_number, server_pid, server_started };
        let entry = options.journal.push(&record)?;
        Ok(Forked { record, entry, line, server, keeper })
    }

    fn into_drive(self, home: PathBuf, mount_point: PathBuf) -> SimulatedDrive {
        let Forked { record, entry, line, server, keeper } = self;
        SimulatedDrive {
            record,
            entry,
            home,
            mount_point,
            transport: Transport::default(),
            line,
            server,
            keeper,
        }
    }
}

/// What a serving process is given.
struct Files<'a> {
    backing: File,
    log: Option<File>,
    log_data: bool,
    fuse: &'a OwnedFd,
    line: Line,
}

fn fork_server(
    plan: &Plan<'_>,
    tag: &str,
    files: Files<'_>,
    keeper: &Keeper,
) -> Result<fork::Process, Error> {
    let header = Header {
        size_bytes: plan.spec.size_bytes,
        block_bytes: plan.model.block_bytes,
        atomic_unit_bytes: plan.model.atomic_unit_bytes,
        write_back: plan.model.write_back(&plan.options),
        drive: plan.spec.to_string(),
    };
    let server = Server {
        tag: tag.to_owned(),
        model: plan.model.clone(),
        options: plan.options,
        backing: files.backing,
        log: files.log.map(|file| (file, header)),
        log_data: files.log_data,
        fuse: files.fuse.try_clone().attempt("open file", "/dev/fuse")?,
        line: files.line,
    };
    let mut keep = vec![
        server.backing.as_raw_fd(),
        server.fuse.as_raw_fd(),
        server.line.as_fd().as_raw_fd(),
        keeper.held().as_raw_fd(),
    ];
    keep.extend(server.log.as_ref().map(|(file, _)| file.as_raw_fd()));
    fork::detached("fsynclab-drive", &keep, move || server.serve())
        .attempt("start the serving process of", tag)
}

/// A file as long as the drive that nobody else can find, and that is gone with its last user.
fn anonymous_file(directory: &Path, size_bytes: u64) -> Result<File, Error> {
    let path = directory.join(format!("drive-{:x}-{:x}", std::process::id(), now_ns()));
    let file = direct_file(&path)?;
    std::fs::remove_file(&path).attempt("remove file", &path)?;
    file.set_len(size_bytes).attempt("extend file", &path)?;
    Ok(file)
}

/// A new file, open for direct I/O.
fn direct_file(path: &Path) -> Result<File, Error> {
    let mut how = OpenOptions::new();
    how.read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_DIRECT | libc::O_CLOEXEC);
    how.open(path).attempt("create file", path)
}

/// The calling thread's tmpfs for mount points: it goes with the namespace, so that nothing is left on disk.
fn make_workshop(sim: &Path) -> Result<(), Error> {
    let seen = mounts::seen_here().attempt("read file", "/proc/thread-self/mountinfo")?;
    if seen.iter().any(|one| one.target == sim && one.source == WORKSHOP) {
        return Ok(());
    }
    mount(Some(WORKSHOP), sim, Some("tmpfs"), MsFlags::empty(), Some("mode=755")).attempt("mount", sim)
}

/// Puts the drive together on top of its processes, or takes everything apart again.
fn finish(
    drive: SimulatedDrive,
    plan: &Plan<'_>,
    fuse: OwnedFd,
    aged: bool,
    journal: &Journal,
) -> Result<SimulatedDrive, Error> {
    let mut drive = drive;
    match assemble(&mut drive, plan, fuse, aged) {
        Ok(()) => Ok(drive),
        Err(error) => {
            // What broke the drive tells more than what failed on it, and that more than what follows from it.
            let error = match drive.tally() {
                Err(broken @ Error::Broken { .. }) => broken,
                _ => error,
            };
            drive.close(journal).unwrap_or_default();
            Err(error)
        }
    }
}

fn assemble(drive: &mut SimulatedDrive, plan: &Plan<'_>, fuse: OwnedFd, aged: bool) -> Result<(), Error> {
    let connection = drive.home.join("drive");
    for directory in [&connection, &drive.mount_point] {
        std::fs::create_dir_all(directory).attempt("create directory", directory)?;
    }
    mount_connection(&drive.record, &connection, &fuse)?;
    // The serving process has the only descriptor from here on: its end is the end of the connection.
    drop(fuse);
    drive.ask(&Message::Serve)?;

    let number = drive.record.loop_number;
    let device = queue::open(number, 0)?;
    let file = connection.join(drive.record.file_name(teardown::connection_at(&connection)?));
    queue::attach(&device, number, &file, &drive.record.tag, plan)?;
    drive.transport = transport::measure(number)?;
    make_file_system(plan.spec.file_system, number)?;
    mount_file_system(plan, number, &drive.mount_point)?;
    // From here on the mount alone holds the device, and lets go of it.
    drop(device);

    let read_only = plan.mount_options().0.contains(MsFlags::MS_RDONLY);
    if aged && !read_only {
        age(&drive.mount_point, plan.options.seed)?;
    }
    drive.mark(MADE)?;
    drive.latency(true)
}

fn mount_connection(record: &Record, target: &Path, fuse: &OwnedFd) -> Result<(), Error> {
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", fuse.as_raw_fd());
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some(record.source().as_str()), target, Some("fuse"), flags, Some(options.as_str()))
        .attempt("mount", target)
}
