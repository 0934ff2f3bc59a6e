//! Each thing that can be missing or go wrong has its own error, and leaves nothing behind.

mod sim;

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsynclab::simdrive::Error;
use fsynclab::simdrive::mount::{Record, SimulatedDrive, leftovers, mount, umount};
use fsynclab::simdrive::spec::FileSystem;
use fsynclab::sys::journal::Journal;
use fsynclab::sys::{fork, namespace};
use nix::errno::Errno;
use nix::mount::{MsFlags, umount2};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;

fn gone(record: &Record) {
    let loop_device = PathBuf::from(format!("/sys/block/loop{}", record.loop_number));
    assert!(!loop_device.exists(), "{} is still there", loop_device.display());
    assert_eq!(fork::started_at(record.server_pid), None, "the serving process still runs");
    assert!(!leftovers().0.contains(record));
}

/// Runs `body` in a process of its own, whose mounts and rights are its own; it must return `true`.
fn apart(body: impl FnOnce() -> bool) {
    let process = fork::helper(|| i32::from(!body())).expect("it can be forked");
    let ended = process.wait(Duration::from_secs(30)).expect("it can be waited for");
    assert!(matches!(ended, Some(WaitStatus::Exited(_, 0))), "{ended:?}");
}

fn hide(directory: &Path) {
    namespace::make_mounts_private().expect("root may");
    nix::mount::mount(Some("hidden"), directory, Some("tmpfs"), MsFlags::empty(), None::<&str>)
        .expect("root may");
}

fn refusal(file_system: FileSystem, journal: &Journal) -> Option<Error> {
    SimulatedDrive::create(&sim::spec(file_system), sim::options(journal)).err()
}

#[test]
fn without_root_it_says_so() {
    let journal = sim::journal();
    apart(|| {
        nix::unistd::setuid(nix::unistd::Uid::from_raw(65534)).expect("root may become nobody");
        let error = refusal(FileSystem::Ext4, &journal);
        error.is_some_and(|error| matches!(error, Error::NeedsRoot) && error.is_unavailable())
    });
}

#[test]
fn without_fuse_it_says_so() {
    let journal = sim::journal();
    apart(|| {
        hide(Path::new("/dev"));
        let error = refusal(FileSystem::Ext4, &journal);
        error.is_some_and(|error| {
            error.is_unavailable()
                && error.hint().is_some()
                && error.to_string() == "could not open \"/dev/fuse\": No such file or directory"
        })
    });
}

#[test]
fn without_the_program_for_a_file_system_it_names_the_package() {
    let journal = sim::journal();
    apart(|| {
        let path = std::env::var_os("PATH").expect("there is a PATH");
        std::env::split_paths(&path).filter(|one| one.join("mkfs.xfs").exists()).for_each(|one| hide(&one));
        let error = refusal(FileSystem::Xfs, &journal);
        error.is_some_and(|error| {
            error.is_unavailable()
                && error.hint().is_some_and(|hint| hint == "install the package \"xfsprogs\"")
        })
    });
}

#[test]
fn a_mount_option_that_the_file_system_does_not_know_is_told() {
    let mut wrong = sim::spec(FileSystem::Xfs);
    wrong.mount_options = Some("no_such_option,noatime".to_owned());
    let journal = sim::journal();
    let error = SimulatedDrive::create(&wrong, sim::options(&journal)).expect_err("no such option");
    assert!(matches!(error, Error::Mount { errno: Errno::EINVAL, .. }), "{error:?}");
    assert!(journal.close().expect("the journal can be removed"), "something is left to be undone");
}

#[test]
fn a_full_drive_is_the_writers_error_and_closes_well() {
    let mut small = sim::spec(FileSystem::Ext4);
    small.size_bytes = 32 << 20;
    let journal = sim::journal();
    let drive = sim::drive(&small, &journal);
    let record = drive.record().clone();
    let mut file = std::fs::File::create(drive.mount_point().join("file")).expect("there is room for a name");
    let chunk = vec![1; 1 << 20];
    let error = (0..64).find_map(|_| file.write_all(&chunk).err()).expect("32 MiB cannot take 64");
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    drop(file);
    drive.close(&journal).expect("a full drive closes");
    gone(&record);
}

#[test]
fn a_full_disk_below_breaks_the_drive_and_says_so() {
    let below = sim::directory().join(format!("small-{}", std::process::id()));
    std::fs::create_dir_all(&below).expect("root may");
    namespace::make_mounts_private().expect("root may");
    let size = Some("size=24m");
    nix::mount::mount(Some("small"), &below, Some("tmpfs"), MsFlags::empty(), size).expect("root may");
    let journal = sim::journal();
    let mut options = sim::options(&journal);
    options.directory.clone_from(&below);
    let drive = SimulatedDrive::create(&sim::spec(FileSystem::Ext4), options).expect("the file system fits");
    let record = drive.record().clone();
    let file = std::fs::File::create(drive.mount_point().join("file")).expect("there is room for a name");
    let chunk = vec![1; 1 << 20];
    for number in 0..64 {
        file.write_all_at(&chunk, number << 20).expect("it goes to the page cache");
    }
    fsynclab::sys::mounts::sync_file_system(drive.mount_point()).expect_err("64 MiB do not fit into 24");
    drop(file);
    let error = drive.close(&journal).expect_err("the drive is broken");
    assert!(matches!(error, Error::Broken { errno: Errno::ENOSPC, .. }), "{error:?}");
    gone(&record);
    umount2(&below, nix::mount::MntFlags::MNT_DETACH).expect("root may");
    std::fs::remove_dir(&below).expect("it is empty");
}

#[test]
fn a_drive_that_somebody_else_unmounted_is_told_and_leaves_nothing() {
    let journal = sim::journal();
    let drive = sim::drive(&sim::spec(FileSystem::Btrfs), &journal);
    let record = drive.record().clone();
    // Another test's process may hold the root directory open for the moment of its fork.
    sim::wait_until("it is unmounted", || nix::mount::umount(drive.mount_point()).is_ok());
    let error = drive.close(&journal).expect_err("it was not there any more");
    assert!(matches!(error, Error::UnmountedByOthers { .. }), "{error:?}");
    gone(&record);
}

#[test]
fn the_end_of_the_serving_process_is_told_and_leaves_nothing() {
    for file_system in FileSystem::ALL {
        let journal = sim::journal();
        let drive = sim::drive(&sim::spec(file_system), &journal);
        let record = drive.record().clone();
        std::fs::write(drive.mount_point().join("file"), vec![1; 1 << 20]).expect("the drive can be written");
        kill(Pid::from_raw(drive.server_pid()), Signal::SIGKILL).expect("it runs");
        fsynclab::sys::mounts::sync_file_system(drive.mount_point()).expect_err("the drive is gone");
        let told = drive.tally().expect_err("nobody answers").to_string();
        assert!(told.ends_with("has ended: SIGKILL"), "{told}");
        let error = drive.close(&journal).expect_err("it is not a good end");
        assert!(matches!(error, Error::ServerEnded { .. }), "{error:?}");
        gone(&record);
    }
}

#[test]
fn open_files_are_told_and_the_drive_goes_with_them() {
    let journal = sim::journal();
    let drive = sim::drive(&sim::spec(FileSystem::Ext4), &journal);
    let record = drive.record().clone();
    let file = std::fs::File::create(drive.mount_point().join("file")).expect("the drive can be written");
    let error = drive.close(&journal).expect_err("a file is open");
    assert!(matches!(error, Error::InUse { .. }), "{error:?}");
    drop(file);
    sim::wait_until("the drive is gone", || {
        !Path::new(&format!("/sys/block/loop{}", record.loop_number)).exists()
    });
}

#[test]
fn a_drive_for_everybody_lives_until_it_is_unmounted() {
    let target = sim::directory().join(format!("everybody-{}", std::process::id()));
    std::fs::create_dir_all(&target).expect("root may");
    let journal = sim::journal();
    for file_system in FileSystem::ALL {
        let record = mount(&sim::spec(file_system), &target, sim::options(&journal)).expect("root may");
        std::fs::write(target.join("file"), "x").expect("the drive can be written");
        assert!(leftovers().0.contains(&record));
        let error =
            mount(&sim::spec(file_system), &target, sim::options(&journal)).expect_err("a drive is there");
        assert!(matches!(error, Error::Occupied { .. }), "{error:?}");
        umount(&target).expect("it is a simulated drive");
        gone(&record);
        let error = umount(&target).expect_err("nothing is mounted there");
        assert!(matches!(error, Error::NotADrive { .. }), "{error:?}");
    }
    std::fs::remove_dir(&target).expect("it is empty again");
}
