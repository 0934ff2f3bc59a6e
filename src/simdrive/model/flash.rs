//! Flash memory: a transfer takes the channel that is free first, and its share of the bus.

use super::Flash;
use super::mechanism::{Direction, Transfer};
use super::numbers::{transfer_ns, us_to_ns};

/// Channels behind one bus.
#[derive(Debug)]
pub(super) struct Channels {
    numbers: Flash,
    read_ns: u64,
    program_ns: u64,
    commit_ns: u64,
    /// When each channel is free.
    free_ns: Vec<u64>,
    bus_free_ns: u64,
}

impl Channels {
    pub(super) fn new(numbers: &Flash) -> Channels {
        Channels {
            numbers: *numbers,
            read_ns: us_to_ns(numbers.read_us),
            program_ns: us_to_ns(numbers.program_us),
            commit_ns: us_to_ns(numbers.commit_us),
            free_ns: vec![0; usize::try_from(numbers.channels.max(1)).unwrap_or(1)],
            bus_free_ns: 0,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.free_ns.len()
    }

    pub(super) fn commit_ns(&self) -> u64 {
        self.commit_ns
    }

    /// A write crosses the bus and is programmed, a read is read and crosses the bus.
    pub(super) fn serve(&mut self, transfer: &Transfer, now_ns: u64) -> u64 {
        let channel = (0..self.free_ns.len()).min_by_key(|&channel| self.free_ns[channel]).unwrap_or(0);
        let start_ns = now_ns.max(self.free_ns[channel]);
        let done_ns = match transfer.direction {
            Direction::Write => {
                let length_ns = transfer_ns(transfer.length_bytes, self.numbers.write_mb_per_s);
                self.cross_bus(start_ns, length_ns) + self.program_ns
            }
            Direction::Read => {
                let length_ns = transfer_ns(transfer.length_bytes, self.numbers.read_mb_per_s);
                self.cross_bus(start_ns + self.read_ns, length_ns)
            }
        };
        self.free_ns[channel] = done_ns;
        done_ns
    }

    fn cross_bus(&mut self, from_ns: u64, length_ns: u64) -> u64 {
        self.bus_free_ns = self.bus_free_ns.max(from_ns) + length_ns;
        self.bus_free_ns
    }
}
