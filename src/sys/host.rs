//! Facts about the machine.

use procfs::{Current, LoadAverage, Meminfo};

/// What a reader must know of the machine on which a run took place. What cannot be read is empty or zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostFacts {
    /// Kernel release.
    pub kernel: String,
    /// Processors online.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Load average over one minute.
    pub load_1m: f64,
}

/// The facts as of now.
pub fn host_facts() -> HostFacts {
    let online = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
    HostFacts {
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        cpus: online.and_then(|cpus| u32::try_from(cpus).ok()).unwrap_or_default(),
        memory_bytes: Meminfo::current().map_or(0, |memory| memory.mem_total),
        load_1m: LoadAverage::current().map_or(0.0, |load| f64::from(load.one)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facts_are_known_here() {
        let facts = host_facts();
        assert!(facts.kernel.starts_with(|first: char| first.is_ascii_digit()), "{facts:?}");
        assert!(facts.cpus > 0 && facts.memory_bytes > 1 << 20 && facts.load_1m >= 0.0, "{facts:?}");
    }
}
