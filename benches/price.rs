//! What `sim price` itself costs: each ready log on every model, and a log of ten million entries on one, within 256 MiB
//! of address space. `FSYNCLAB_BENCH_ENTRIES` (10,000,000).
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::process::{Command, Stdio};

use fsynclab::simdrive::model::{Operation, Request};
use fsynclab::simdrive::writelog::{Entry, Header, Writer};
use fsynclab::sys::clock::now_ns;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const MEMORY_BYTES: u64 = 256 << 20;
const SIZE_BYTES: u64 = 4 << 30;
/// Requests under way together.
const TOGETHER: u64 = 16;

/// Writes at scattered places, sixteen under way, every thousandth request a flush.
fn long_log(path: &Path, entries: u64) -> Outcome<()> {
    let header = Header {
        size_bytes: SIZE_BYTES,
        block_bytes: 512,
        atomic_unit_bytes: 512,
        write_back: true,
        drive: "sata-2009".to_owned(),
    };
    let mut log = Writer::new(BufWriter::new(File::create(path)?), &header)?;
    for id in 0..entries / 2 {
        let at_ns = id * 1000;
        let flush = id % 1000 == 999;
        let operation = if flush { Operation::Flush } else { Operation::Write };
        let (offset_bytes, length_bytes) =
            if flush { (0, 0) } else { (id * 7_919_000_064 % SIZE_BYTES / 4096 * 4096, 4096) };
        let request = Request { id, operation, offset_bytes, length_bytes };
        log.write(&Entry::Issued { at_ns, request, data: None })?;
        if let Some(id) = id.checked_sub(TOGETHER) {
            log.write(&Entry::Completed { at_ns, id })?;
        }
    }
    for id in (entries / 2).saturating_sub(TOGETHER)..entries / 2 {
        log.write(&Entry::Completed { at_ns: entries * 1000, id })?;
    }
    log.finish()?.into_inner()?;
    Ok(())
}

/// Milliseconds until the program has priced a log.
fn priced_ms(log: &Path, drives: &[&str]) -> Outcome<f64> {
    let mut program = Command::new("prlimit");
    program.arg(format!("--as={MEMORY_BYTES}")).arg(env!("CARGO_BIN_EXE_fsynclab"));
    program.args(["sim", "price"]).arg(log).args(drives).stdout(Stdio::null());
    let start_ns = now_ns();
    let status = program.status()?;
    let took_ms = (now_ns() - start_ns) as f64 / 1e6;
    if status.success() { Ok(took_ms) } else { Err(format!("sim price {}: {status}", log.display()).into()) }
}

fn main() -> Outcome<()> {
    let ready = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/writelogs");
    for name in ["pg15-ext4", "pg15-xfs", "pg15-btrfs"] {
        let took_ms = priced_ms(&ready.join(format!("{name}.log")), &[])?;
        println!("{name}: every model in {took_ms:.0} ms (bound: 100)");
    }
    let entries = std::env::var("FSYNCLAB_BENCH_ENTRIES").map_or(Ok(10_000_000), |text| text.parse())?;
    let directory = tempfile::tempdir_in("/var/tmp")?;
    let log = directory.path().join("log");
    long_log(&log, entries)?;
    for drive in ["sata-2009", "sata-2009,write-cache=off", "nvme-consumer", "cloud-3000"] {
        let took_ms = priced_ms(&log, &[drive])?;
        println!("{entries} entries on {drive}: {:.1} s within 256 MiB (bound: 10)", took_ms / 1e3);
    }
    Ok(())
}
