//! Short memory: writer and drive process in one memory cgroup that is much smaller than what is written.
//!
//! `FSYNCLAB_SIM_MB` says how much is written (400).

mod sim;

use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsynclab::simdrive::mount::SimulatedDrive;
use fsynclab::simdrive::spec::FileSystem;
use fsynclab::sys::fork::{Process, detached};
use fsynclab::sys::kernel::Kernel;
use fsynclab::sys::real::Real;
use nix::sys::wait::WaitStatus;

const LIMIT_BYTES: u64 = 160 << 20;
const TIME_LIMIT: Duration = Duration::from_mins(3);

/// A memory cgroup of the test's own: version 2 if it has the controller, else version 1.
fn make_cgroup() -> PathBuf {
    let name = format!("fsynclab-test-{}", std::process::id());
    let unified = std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    let (root, limit) = if unified.split_whitespace().any(|one| one == "memory") {
        (Path::new("/sys/fs/cgroup"), "memory.max")
    } else {
        (Path::new("/sys/fs/cgroup/memory"), "memory.limit_in_bytes")
    };
    let group = root.join(name);
    std::fs::create_dir(&group).expect("root can make a memory cgroup");
    std::fs::write(group.join(limit), LIMIT_BYTES.to_string()).expect("it takes a limit");
    group
}

fn write_in(group: &Path, file_system: FileSystem, megabytes: u64) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::write(group.join("cgroup.procs"), "0")?;
    let spec = sim::spec(file_system);
    let journal = sim::journal();
    let drive = SimulatedDrive::create(&spec, sim::options(&journal))?;
    let file = std::fs::File::create(drive.mount_point().join("file"))?;
    let chunk = vec![7; 1 << 20];
    for number in 0..megabytes {
        file.write_all_at(&chunk, number << 20)?;
    }
    Real.fsync(file.as_fd())?;
    drop(file);
    drive.close(&journal)?;
    journal.close()?;
    Ok(())
}

fn end(process: &Process) -> Option<WaitStatus> {
    let ended = process.wait(TIME_LIMIT).expect("it can be waited for");
    if ended.is_none() {
        process.end(Duration::from_secs(10)).expect("it can be killed");
    }
    ended
}

#[test]
fn buffered_writes_with_fsync_end_in_a_cgroup_much_smaller_than_they_are() {
    let megabytes = sim::number("FSYNCLAB_SIM_MB", 400);
    for file_system in FileSystem::ALL {
        let group = make_cgroup();
        let start_ns = fsynclab::sys::clock::now_ns();
        let process = detached("fsynclab-writer", &[], || match write_in(&group, file_system, megabytes) {
            Ok(()) => 0,
            Err(error) => {
                std::fs::write(sim::directory().join("complaint"), error.to_string()).map_or(2, |()| 1)
            }
        })
        .expect("it can be forked");
        let ended = end(&process);
        let took_ms = (fsynclab::sys::clock::now_ns() - start_ns) / 1_000_000;
        println!("{megabytes} MB on {}: {took_ms} ms", file_system.name());
        assert!(matches!(ended, Some(WaitStatus::Exited(_, 0))), "{}: {ended:?}", file_system.name());
        sim::wait_until("the cgroup is empty", || std::fs::remove_dir(&group).is_ok());
    }
}
