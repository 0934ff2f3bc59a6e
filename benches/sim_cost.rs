//! What a simulated drive costs by itself: the model that takes no time, against the same kind of loop device on a plain
//! file, both with ext4, in turn. Needs root. `FSYNCLAB_BENCH_ROUNDS` (3), `FSYNCLAB_TEST_DIR` (/var/tmp/fsynclab-test).

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use fsynclab::simdrive::mount::{Options, SimulatedDrive};
use fsynclab::sys::clock::now_ns;
use fsynclab::sys::journal::Journal;
use fsynclab::sys::memory::LockedBuffer;
use fsynclab::sys::tools::Tool;
use fsynclab::sys::watch::Quiet;
use fsynclab::sys::{loop_device, namespace};
use nix::mount::{MsFlags, mount, umount};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const FILE_BYTES: u64 = 128 << 20;
const SYNCED_WRITES: u64 = 1000;
const IN_FLIGHT: u64 = 16;
const REQUESTS_EACH: u64 = 1500;

/// What one round measures.
struct Figures {
    synced_8k_us: f64,
    sequential_gib_per_s: f64,
    writes_per_s: f64,
    reads_per_s: f64,
}

/// ext4 on a loop device on a plain file, its queue as that of a simulated drive.
struct Plain {
    number: u32,
    directory: PathBuf,
}

impl Plain {
    fn make(below: &Path) -> Outcome<Plain> {
        namespace::make_mounts_private()?;
        let path = below.join("plain");
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        file.set_len(4 << 30)?;
        std::fs::remove_file(&path)?;
        let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
        let number = 400_000 + std::process::id() % 90_000;
        loop_device::add(&control, number)?;
        let node = PathBuf::from(format!("/dev/loop{number}"));
        let device = OpenOptions::new().read(true).write(true).open(&node)?;
        loop_device::attach(&device, file.as_fd(), 512, "plain")?;
        for (setting, value) in
            [("write_cache", "write through"), ("nr_requests", "64"), ("max_sectors_kb", "1024")]
        {
            std::fs::write(format!("/sys/block/loop{number}/queue/{setting}"), value)?;
        }
        let mkfs = Tool::new("mkfs.ext4").args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"]);
        mkfs.arg(&node).run(&Quiet)?.success()?;
        let directory = below.join("plain-mount");
        std::fs::create_dir_all(&directory)?;
        mount(Some(&node), &directory, Some("ext4"), MsFlags::empty(), None::<&str>)?;
        Ok(Plain { number, directory })
    }

    fn remove(self) -> Outcome<()> {
        umount(&self.directory)?;
        std::fs::remove_dir(&self.directory)?;
        let control = File::open("/dev/loop-control")?;
        while loop_device::remove(&control, self.number).is_err() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Ok(())
    }
}

fn open(path: &Path, flags: libc::c_int) -> io::Result<File> {
    let mut how = OpenOptions::new();
    how.read(true).write(true).create(true).truncate(false).custom_flags(libc::O_DIRECT | flags).open(path)
}

/// A file of written blocks.
fn prepare(directory: &Path) -> Outcome<PathBuf> {
    let path = directory.join("file");
    let (file, bytes) = (open(&path, 0)?, LockedBuffer::new(1 << 20)?);
    for number in 0..FILE_BYTES >> 20 {
        file.write_all_at(&bytes, number << 20)?;
    }
    Ok(path)
}

fn measure(path: &Path) -> Outcome<Figures> {
    let bytes = LockedBuffer::new(1 << 20)?;
    let synced = open(path, libc::O_DSYNC)?;
    let mut times = Vec::new();
    for number in 0..SYNCED_WRITES {
        let start_ns = now_ns();
        synced.write_all_at(&bytes[..8192], number * 7919 % (FILE_BYTES / 8192) * 8192)?;
        times.push(now_ns() - start_ns);
    }
    times.sort_unstable();
    let start_ns = now_ns();
    let file = open(path, 0)?;
    for number in 0..FILE_BYTES >> 20 {
        file.write_all_at(&bytes, number << 20)?;
    }
    let sequential_ns = now_ns() - start_ns;
    Ok(Figures {
        synced_8k_us: times[times.len() / 2] as f64 / 1000.0,
        sequential_gib_per_s: FILE_BYTES as f64 / sequential_ns as f64 * 1e9 / f64::from(1 << 30),
        writes_per_s: rate(path, |file, page, offset| file.write_all_at(page, offset))?,
        reads_per_s: rate(path, FileExt::read_exact_at)?,
    })
}

/// Requests a second of 4 KiB at scattered places, sixteen in flight.
fn rate(path: &Path, request: impl Fn(&File, &mut [u8], u64) -> io::Result<()> + Sync) -> Outcome<f64> {
    let file = open(path, 0)?;
    let failed = AtomicU64::new(0);
    let start_ns = now_ns();
    std::thread::scope(|scope| {
        for worker in 0..IN_FLIGHT {
            let (file, failed, request) = (&file, &failed, &request);
            scope.spawn(move || {
                let Ok(mut page) = LockedBuffer::new(4096) else { return };
                for number in 0..REQUESTS_EACH {
                    let place = (number * IN_FLIGHT + worker) * 7919 % (FILE_BYTES / 4096) * 4096;
                    let ended = request(file, &mut page, place);
                    failed.fetch_add(u64::from(ended.is_err()), Ordering::Relaxed);
                }
            });
        }
    });
    let elapsed_ns = now_ns() - start_ns;
    if failed.into_inner() > 0 {
        return Err("requests failed".into());
    }
    Ok((IN_FLIGHT * REQUESTS_EACH) as f64 * 1e9 / elapsed_ns as f64)
}

fn show(name: &str, figures: &Figures) -> io::Result<()> {
    writeln!(
        io::stdout(),
        "{name:>9}: {:6.1} us a synced 8 kB write, {:5.2} GiB/s sequential, {:6.0} writes/s and {:6.0} reads/s at 16",
        figures.synced_8k_us,
        figures.sequential_gib_per_s,
        figures.writes_per_s,
        figures.reads_per_s
    )
}

fn main() -> Outcome<()> {
    let below =
        std::env::var_os("FSYNCLAB_TEST_DIR").map_or_else(|| "/var/tmp/fsynclab-test".into(), PathBuf::from);
    let rounds = std::env::var("FSYNCLAB_BENCH_ROUNDS").map_or(Ok(3), |text| text.parse())?;
    let journal = Journal::create(&below.join("state"))?;
    let options = Options {
        seed: 1,
        directory: below.clone(),
        aged: false,
        write_log: None,
        log_data: true,
        journal: &journal,
    };
    let drive = SimulatedDrive::create(&"zero".parse()?, options)?;
    let plain = Plain::make(&below)?;
    let (on_drive, on_plain) = (prepare(drive.mount_point())?, prepare(&plain.directory)?);
    for _ in 0..rounds {
        show("plain", &measure(&on_plain)?)?;
        show("simulated", &measure(&on_drive)?)?;
    }
    plain.remove()?;
    drive.close(&journal)?;
    journal.close()?;
    Ok(())
}
