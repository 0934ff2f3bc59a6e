//! Stacks of real file systems in image files, on this machine.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use common::{FileSystem, Image, root_or_skip, run, scratch};
use fsynclab::results::{Disk, NoteCode, Stack};
use fsynclab::storage::{self, Root};
use fsynclab::sys::kernel::Kernel;
use fsynclab::sys::real::Real;

fn stack(path: &Path) -> Stack {
    storage::stack(path, &Root::live()).expect("a stack")
}

fn codes(stack: &Stack) -> Vec<NoteCode> {
    storage::notes(stack).into_iter().map(|note| note.code).collect()
}

fn kinds(stack: &Stack) -> Vec<&str> {
    stack.layers.iter().map(|layer| layer.kind.as_str()).collect()
}

/// Flushes counted below `path` while one new file is written and synced.
fn flushes_of_one_sync(path: &Path) -> u64 {
    let counted = stack(path).counted;
    let flushes = || -> u64 {
        let read = |name| storage::disk_counters(name, &Root::live()).expect("counters").flushes;
        counted.iter().map(|name| read(name)).sum()
    };
    let file = path.join("synced");
    fs::write(&file, [7; 8192]).expect("write");
    let opened = fs::File::open(&file).expect("open");
    let before = flushes();
    Real.fsync(std::os::fd::AsFd::as_fd(&opened)).expect("fsync");
    flushes() - before
}

/// A mount of a test, taken away at its end.
struct Mounted(PathBuf);

impl Mounted {
    fn new(point: PathBuf, arguments: &[&str]) -> Self {
        fs::create_dir_all(&point).expect("mount point");
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).chain([point.as_os_str()]).collect();
        run("mount", &arguments);
        Self(point)
    }
}

#[expect(clippy::print_stdout, reason = "whoever reads a failed test must know")]
impl Drop for Mounted {
    fn drop(&mut self) {
        if !std::process::Command::new("umount").arg(&self.0).status().is_ok_and(|status| status.success()) {
            println!("left behind: {}", self.0.display());
        }
    }
}

/// A loop device of a test, with its queue as it was found.
struct Loop {
    node: String,
    old_write_cache: String,
}

impl Loop {
    fn new(file: &Path, size: &str) -> Self {
        run("truncate", &[OsStr::new("-s"), OsStr::new(size), file.as_os_str()]);
        let arguments = [OsStr::new("--find"), OsStr::new("--show"), file.as_os_str()];
        let node = run("losetup", &arguments).trim().to_owned();
        let mut made = Self { node, old_write_cache: String::new() };
        made.old_write_cache = fs::read_to_string(made.queue()).expect("write_cache");
        fs::write(made.queue(), "write back").expect("write_cache");
        made
    }

    fn queue(&self) -> PathBuf {
        Path::new("/sys/block").join(self.name()).join("queue/write_cache")
    }

    fn name(&self) -> &str {
        self.node.trim_start_matches("/dev/")
    }
}

#[expect(clippy::print_stdout, reason = "whoever reads a failed test must know")]
impl Drop for Loop {
    fn drop(&mut self) {
        let restored = fs::write(self.queue(), self.old_write_cache.trim());
        let detached = std::process::Command::new("losetup").arg("--detach").arg(&self.node).status();
        if restored.is_err() || detached.is_err() {
            println!("left behind: {}", self.node);
        }
    }
}

#[test]
fn file_systems_in_images_are_followed_to_the_disk_below() {
    if !root_or_skip("file_systems_in_images_are_followed_to_the_disk_below") {
        return;
    }
    let below = stack(Path::new("/var/tmp"));
    for (file_system, name, journal) in [
        (FileSystem::Ext4, "ext4", Some(true)),
        (FileSystem::Ext4NoJournal, "ext4", Some(false)),
        (FileSystem::Xfs, "xfs", Some(true)),
        (FileSystem::Btrfs, "btrfs", None),
    ] {
        let image = Image::new(file_system, "400M", "");
        let found = stack(&image.path());
        assert_eq!((found.file_system.as_str(), found.journal), (name, journal), "{file_system:?}");
        assert_eq!(kinds(&found)[..3], [name, "loop", below.layers[0].kind.as_str()], "{file_system:?}");
        // In a chroot on an overlay nothing is known below: then the loop device stands for the disk.
        let device = vec![image.device_name().to_owned()];
        let names = |disks: &[Disk]| disks.iter().map(|disk| disk.name.clone()).collect::<Vec<String>>();
        let expected = if below.disks.is_empty() { device.clone() } else { names(&below.disks) };
        assert_eq!(names(&found.disks), expected, "{file_system:?}");
        assert_eq!(found.counted, device, "{file_system:?}");
        assert_eq!(found.barriers, Some(true), "{file_system:?}");
        assert!(flushes_of_one_sync(&image.path()) >= 1, "{file_system:?}");
    }
}

#[test]
fn barriers_off_are_seen_and_no_flush_is_counted() {
    if !root_or_skip("barriers_off_are_seen_and_no_flush_is_counted") {
        return;
    }
    for file_system in [FileSystem::Ext4, FileSystem::Btrfs] {
        let image = Image::new(file_system, "400M", "nobarrier");
        let found = stack(&image.path());
        assert_eq!(found.barriers, Some(false), "{file_system:?}");
        assert!(codes(&found).contains(&NoteCode::BarriersOff), "{file_system:?}");
        assert!(storage::weakest(&found).contains("never sends a flush"), "{}", storage::weakest(&found));
        assert_eq!(flushes_of_one_sync(&image.path()), 0, "{file_system:?}");
    }
}

#[test]
fn a_queue_set_to_write_through_is_the_weakest_link() {
    if !root_or_skip("a_queue_set_to_write_through_is_the_weakest_link") {
        return;
    }
    let image = Image::new(FileSystem::Ext4, "64M", "");
    image.set_write_cache("write through");
    let found = stack(&image.path());
    let weakest = storage::weakest(&found);
    assert!(weakest.contains("the kernel drops flushes here"), "{weakest}");
    assert!(codes(&found).contains(&NoteCode::BarriersOff), "{:?}", codes(&found));
    assert_eq!(flushes_of_one_sync(&image.path()), 0);
}

#[test]
fn btrfs_names_all_its_devices_and_a_mount_point_may_have_spaces() {
    if !root_or_skip("btrfs_names_all_its_devices_and_a_mount_point_may_have_spaces") {
        return;
    }
    let directory = scratch("two devices");
    let loops = ["a", "b"].map(|name| Loop::new(&directory.path().join(name), "300M"));
    run("mkfs.btrfs", &["-q", "-f", "-d", "raid1", "-m", "raid1", &loops[0].node, &loops[1].node]);
    let point = directory.path().join("a mount\tpoint");
    let mounted = Mounted::new(point.clone(), &[&loops[1].node]);
    let found = stack(&point);
    assert!(found.mount_point.ends_with("/a mount\\tpoint"), "{}", found.mount_point);
    assert_eq!(found.layers[0].flush, "fsync ends in flushes of all 2 devices");
    let mut counted = found.counted.clone();
    counted.sort();
    let mut names = loops.each_ref().map(Loop::name);
    names.sort_unstable();
    assert_eq!(counted, names);
    assert!(flushes_of_one_sync(&point) >= 2, "both devices are flushed");
    drop(mounted);
}

#[test]
fn an_overlay_leads_to_its_upper_directory_unless_it_is_volatile() {
    if !root_or_skip("an_overlay_leads_to_its_upper_directory_unless_it_is_volatile") {
        return;
    }
    let image = Image::new(FileSystem::Xfs, "400M", "");
    let make = |name: &str| {
        let path = image.path().join(name);
        fs::create_dir(&path).expect("a directory of the image");
        path.display().to_string()
    };
    let (lower, upper, work) = (make("lower"), make("up per"), make("work"));
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
    let directory = scratch("overlay");
    let point = directory.path().join("merged");
    for volatile in [false, true] {
        let options = if volatile { format!("{options},volatile") } else { options.clone() };
        let mounted = Mounted::new(point.clone(), &["-t", "overlay", "overlay", "-o", &options]);
        let found = stack(&point);
        assert_eq!(kinds(&found)[..3], ["overlay", "xfs", "loop"]);
        assert_eq!(found.counted, [image.device_name()]);
        assert_eq!(storage::overlay_volatile(&found), volatile);
        assert_eq!(codes(&found).contains(&NoteCode::OverlayVolatile), volatile);
        assert_eq!(flushes_of_one_sync(&point) == 0, volatile);
        drop(mounted);
        if volatile {
            continue;
        }
        fs::remove_dir_all(&work).expect("the work directory");
        fs::create_dir(&work).expect("the work directory");
    }
}

#[test]
fn a_memory_file_system_is_named_and_the_last_mount_on_a_point_wins() {
    if !root_or_skip("a_memory_file_system_is_named_and_the_last_mount_on_a_point_wins") {
        return;
    }
    let directory = scratch("memory");
    let point = directory.path().join("m");
    let image = Image::new(FileSystem::Ext4, "64M", "");
    let source = image.path().display().to_string();
    let below = Mounted::new(point.clone(), &["--bind", &source]);
    assert_eq!(stack(&point).file_system, "ext4");
    let above = Mounted::new(point.clone(), &["-t", "tmpfs", "tmpfs"]);
    let found = stack(&point);
    assert_eq!((found.file_system.as_str(), found.disks.len()), ("tmpfs", 0));
    assert_eq!(codes(&found), [NoteCode::MemoryFileSystem]);
    drop(above);
    drop(below);
}

#[test]
fn a_block_device_is_its_own_path() {
    let vda = storage::stack(Path::new("/var/tmp"), &Root::live()).expect("a stack").disks;
    for disk in vda {
        let node = Path::new("/dev").join(&disk.name);
        let found = stack(&node);
        assert_eq!((found.file_system.as_str(), found.disks), ("", vec![disk]));
    }
}
