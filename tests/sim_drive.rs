//! A simulated drive is made, used and taken apart on each file system.

mod sim;

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;

use fsynclab::simdrive::model::Operation;
use fsynclab::simdrive::mount::{Options, SimulatedDrive, leftovers};
use fsynclab::simdrive::spec::FileSystem;
use fsynclab::simdrive::writelog::{Ending, Entry, Reader};
use fsynclab::sys::clock::now_ns;
use fsynclab::sys::kernel::Kernel;
use fsynclab::sys::mounts::sync_file_system;
use fsynclab::sys::real::Real;
use fsynclab::sys::tools::Tool;
use fsynclab::sys::watch::Quiet;
use nix::fcntl::{FallocateFlags, PosixFadviseAdvice, fallocate, posix_fadvise as fadvise};

#[test]
fn set_up_takes_less_than_two_seconds_and_nothing_is_left() {
    let journal = sim::journal();
    for file_system in FileSystem::ALL {
        let start_ns = now_ns();
        let drive = sim::drive(&sim::spec(file_system), &journal);
        let set_up_ms = (now_ns() - start_ns) / 1_000_000;
        let (device, record) = (drive.device_name(), drive.record().clone());
        let file = drive.mount_point().join("file");
        std::fs::write(&file, b"contents").expect("the drive can be written");
        assert_eq!(std::fs::read(&file).expect("and read"), b"contents");
        let transport_us = drive.transport_ns() / 1000;
        let start_ns = now_ns();
        drive.close(&journal).expect("it can be taken apart");
        let close_ms = (now_ns() - start_ns) / 1_000_000;
        println!(
            "{}: set up {set_up_ms} ms, closed {close_ms} ms, transport {transport_us} us",
            file_system.name()
        );
        assert!(set_up_ms < 2000, "{}: {set_up_ms} ms", file_system.name());
        assert!(!Path::new("/sys/block").join(&device).exists(), "{device} is still there");
        assert!(!Path::new("/proc").join(record.server_pid.to_string()).exists(), "the server still runs");
        let (records, _) = leftovers();
        assert!(!records.contains(&record), "{records:?}");
    }
    assert!(journal.close().expect("the journal can be removed"), "something is left to be undone");
}

#[test]
fn what_is_discarded_reads_as_zeroes_and_gives_its_space_back() {
    let journal = sim::journal();
    let drive = sim::drive(&sim::spec(FileSystem::Ext4), &journal);
    let path = drive.mount_point().join("file");
    std::fs::write(&path, vec![7; 8 << 20]).expect("the drive can be written");
    sync_file_system(drive.mount_point()).expect("it can be synced");
    let file = OpenOptions::new().read(true).write(true).open(&path).expect("it is there");
    let flags = FallocateFlags::FALLOC_FL_ZERO_RANGE;
    fallocate(&file, flags, 1 << 20, 4 << 20).expect("ext4 zeroes a range");
    sync_file_system(drive.mount_point()).expect("it can be synced");
    fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).expect("the cache is dropped");
    let bytes = std::fs::read(&path).expect("it can be read");
    assert!(bytes[1 << 20..5 << 20].iter().all(|byte| *byte == 0) && bytes[0] == 7 && bytes[5 << 20] == 7);
    drop(file);

    let discards = || -> u64 {
        let stat = format!("/sys/block/{}/stat", drive.device_name());
        let stat = std::fs::read_to_string(stat).expect("the device has counters");
        stat.split_whitespace().nth(11).expect("discards are counted").parse().expect("a number")
    };
    let before = discards();
    std::fs::remove_file(&path).expect("it can be removed");
    sync_file_system(drive.mount_point()).expect("it can be synced");
    let trimmed = Tool::new("fstrim").arg(drive.mount_point()).run(&Quiet).expect("fstrim is there");
    trimmed.success().expect("the drive takes discards");
    assert!(discards() > before, "no discard reached the drive");
    drive.close(&journal).expect("it closes well");
    journal.close().expect("the journal can be removed");
}

#[test]
fn several_drives_live_side_by_side_with_queues_as_their_models_say() {
    let journal = sim::journal();
    let specs =
        ["sata-2009,write-cache=off", "sata-2009,write-cache=on,fs=xfs", "nvme-plp,fs=btrfs,mount=noatime"];
    let drives = specs.map(|spec| sim::drive(&spec.parse().expect("a spec"), &journal));
    let setting = |drive: &SimulatedDrive, name: &str| {
        let path = Path::new("/sys/block").join(drive.device_name()).join("queue").join(name);
        std::fs::read_to_string(path).expect("it can be read").trim().to_owned()
    };
    let seen = drives.each_ref().map(|drive| (setting(drive, "rotational"), setting(drive, "write_cache")));
    let wanted = [("1", "write through"), ("1", "write back"), ("0", "write through")];
    assert_eq!(seen, wanted.map(|(rotational, cache)| (rotational.to_owned(), cache.to_owned())));
    for drive in drives {
        std::fs::write(drive.mount_point().join("file"), "x").expect("the drive can be written");
        drive.close(&journal).expect("it closes well");
    }
    journal.close().expect("the journal can be removed");
}

#[test]
fn the_write_log_holds_every_request_with_its_data_between_marks() {
    let journal = sim::journal();
    let path = sim::directory().join(format!("log-{}", std::process::id()));
    let options = Options { write_log: Some(path.clone()), ..sim::options(&journal) };
    let drive = SimulatedDrive::create(&sim::spec(FileSystem::Xfs), options).expect("root may");
    let pattern = vec![0xa5; 300_000];
    let mut file = File::create(drive.mount_point().join("file")).expect("the drive can be written");
    file.write_all(&pattern).expect("it takes it");
    Real.fsync(file.as_fd()).expect("it can be synced");
    drive.mark("synced").expect("the server takes a mark");
    drop(file);
    drive.close(&journal).expect("it closes well");

    let mut reader = Reader::new(File::open(&path).expect("the log is there")).expect("it is a log");
    assert_eq!(reader.header().drive, "zero,fs=xfs");
    let (mut open, mut written, mut marks) = (HashSet::new(), 0, Vec::new());
    while let Some(entry) = reader.next().expect("the log is whole") {
        match entry {
            Entry::Issued { request, data, .. } => {
                assert!(open.insert(request.id), "request {} was issued twice", request.id);
                if request.operation == Operation::Write {
                    let data = data.expect("a write has its data");
                    assert_eq!(data.len() as u64, request.length_bytes);
                    written += data.split(|byte| *byte != 0xa5).map(<[u8]>::len).sum::<usize>();
                }
            }
            Entry::Completed { id, .. } => assert!(open.remove(&id), "request {id} was never issued"),
            Entry::Mark { text, .. } => marks.push((text.to_owned(), written)),
        }
    }
    assert_eq!(reader.ending(), Ending::Closed);
    assert!(open.is_empty(), "{open:?} never completed");
    assert_eq!(marks[0].0, "made");
    assert_eq!(marks[1].0, "synced");
    assert!(marks[1].1 - marks[0].1 >= pattern.len(), "{marks:?}");
    std::fs::remove_file(&path).expect("the log can be removed");
    journal.close().expect("the journal can be removed");
}
