//! Times on a simulated drive are the model's. The machine may be busy: each figure has a few attempts.

mod sim;

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fsynclab::simdrive::model::{Mechanism, Model, Network};
use fsynclab::simdrive::models;
use fsynclab::simdrive::spec::Spec;
use fsynclab::sys::clock::now_ns;
use fsynclab::sys::memory::LockedBuffer;

const BLOCK: usize = 4096;
const ATTEMPTS: u32 = 5;

/// Median time of direct writes of one block over itself, in microseconds.
fn median_write_us(directory: &Path, count: u32) -> f64 {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(libc::O_DIRECT)
        .open(directory.join("block"))
        .expect("the drive can be written");
    let block = LockedBuffer::new(BLOCK).expect("a page");
    let mut times: Vec<u64> = (0..count)
        .map(|_| {
            let start_ns = now_ns();
            file.write_all_at(&block, 0).expect("the drive takes it");
            now_ns() - start_ns
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2] as f64 / 1000.0
}

/// Measures until it is within `tolerance` of `wanted_us`; what was seen.
fn holds(spec: &Spec, wanted_us: f64, tolerance: f64, count: u32) -> Vec<String> {
    let journal = sim::journal();
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let drive = sim::drive(spec, &journal);
        let median_us = median_write_us(drive.mount_point(), count);
        let line = format!("{median_us:.1} us, wanted {wanted_us:.1}, transport {} ns", drive.transport_ns());
        seen.push(line);
        drive.close(&journal).expect("it closes");
        if (median_us / wanted_us - 1.0).abs() <= tolerance {
            journal.close().expect("the journal can be removed");
            return seen;
        }
    }
    panic!("{spec}: {seen:?}");
}

fn device_of(latency_us: f64) -> (PathBuf, Spec) {
    let Mechanism::Network(zero) = Model::zero().mechanism else { panic!("zero is a network") };
    let mechanism = Mechanism::Network(Network { latency_us, ..zero });
    let model = Model { mechanism, queue_depth: 32, ..Model::zero() };
    let path = sim::directory().join(format!("latency-{latency_us}-{}.toml", std::process::id()));
    std::fs::create_dir_all(sim::directory()).expect("root may");
    std::fs::write(&path, models::to_toml(&model)).expect("root may");
    let spec = path.display().to_string().parse().expect("a spec");
    (path, spec)
}

#[test]
fn a_device_of_100_us_is_seen_as_one() {
    let (path, spec) = device_of(100.0);
    let seen = holds(&spec, 100.0, 0.10, 2000);
    println!("{seen:?}");
    std::fs::remove_file(path).expect("the model can be removed");
}

#[test]
fn a_revolution_takes_a_revolution() {
    let spec = "sata-2009,write-cache=off".parse().expect("a spec");
    let seen = holds(&spec, 60e6 / 7200.0, 0.015, 60);
    println!("{seen:?}");
}
