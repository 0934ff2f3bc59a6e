//! The machine, as a document records it.

use crate::results::Host;

/// Kernel, processors, memory, load; what cannot be read is left empty.
pub fn host() -> Host {
    let kernel = nix::sys::utsname::uname().map(|name| name.release().to_string_lossy().into_owned());
    let memory_bytes = procfs_number("/proc/meminfo", "MemTotal:").map_or(0, |kilobytes| kilobytes * 1024);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    Host {
        kernel: kernel.unwrap_or_default(),
        cpus: std::thread::available_parallelism().map_or(0, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX)),
        memory_bytes,
        load_1m: load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0),
    }
}

fn procfs_number(path: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
