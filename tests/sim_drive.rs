//! A simulated drive is made, used and taken apart on each file system.

mod sim;

use std::path::Path;

use fsynclab::simdrive::mount::leftovers;
use fsynclab::simdrive::spec::FileSystem;
use fsynclab::sys::clock::now_ns;

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
