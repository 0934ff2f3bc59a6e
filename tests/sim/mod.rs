//! What the tests of simulated drives share. They need root, and the programs of all three file systems.
#![expect(dead_code, reason = "no test uses all of it")]

use std::path::PathBuf;

use fsynclab::simdrive::mount::{Options, SimulatedDrive};
use fsynclab::simdrive::spec::{FileSystem, Spec};
use fsynclab::sys::clock::now_ns;
use fsynclab::sys::journal::Journal;

/// Where the tests keep the contents of their drives.
pub fn directory() -> PathBuf {
    std::env::var_os("FSYNCLAB_TEST_DIR")
        .map_or_else(|| PathBuf::from("/var/tmp/fsynclab-test"), PathBuf::from)
}

/// A number from the environment: how long a campaign is.
pub fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// A journal of a test's own.
pub fn journal() -> Journal {
    Journal::create(&directory().join("state")).expect("root can write a journal")
}

/// Plain options.
pub fn options(journal: &Journal) -> Options<'_> {
    Options { seed: 1, directory: directory(), aged: true, write_log: None, log_data: true, journal }
}

/// A drive that takes no time.
pub fn spec(file_system: FileSystem) -> Spec {
    format!("zero,fs={}", file_system.name()).parse().expect("a spec")
}

/// A drive as the spec says.
pub fn drive(spec: &Spec, journal: &Journal) -> SimulatedDrive {
    SimulatedDrive::create(spec, options(journal)).expect("root can make a simulated drive")
}

/// Waits until something holds, ten seconds at the most.
pub fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let end_ns = now_ns() + 10_000_000_000;
    while !holds() {
        assert!(now_ns() < end_ns, "{what}: not within ten seconds");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
