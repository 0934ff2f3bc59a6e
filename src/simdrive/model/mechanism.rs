//! What the three mechanisms have in common: bytes are asked for at one time and done at another.

use super::flash::Channels;
use super::network::Link;
use super::rotating::Disk;
use super::{Mechanism, Model, Options};

/// Direction of a transfer between the mechanism and the rest of the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

/// Bytes to be transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transfer {
    pub direction: Direction,
    pub offset_bytes: u64,
    pub length_bytes: u64,
}

/// A mechanism at work.
#[derive(Debug)]
pub(super) enum Machine {
    Disk(Disk),
    Channels(Channels),
    Link(Link),
}

impl Machine {
    pub(super) fn new(model: &Model, options: &Options) -> Machine {
        match &model.mechanism {
            Mechanism::Rotating(numbers) => Machine::Disk(Disk::new(numbers, options)),
            Mechanism::Flash(numbers) => Machine::Channels(Channels::new(numbers)),
            Mechanism::Network(numbers) => Machine::Link(Link::new(numbers)),
        }
    }

    /// May another transfer be handed over at `now_ns`? An arm takes one at a time, so that the next is chosen when
    /// it is free; the others queue inside.
    pub(super) fn takes(&self, now_ns: u64) -> bool {
        match self {
            Machine::Disk(disk) => disk.free_ns() <= now_ns,
            Machine::Channels(_) | Machine::Link(_) => true,
        }
    }

    /// How many transfers it is worth to hand over at once in the background.
    pub(super) fn width(&self) -> usize {
        match self {
            Machine::Disk(_) => 1,
            Machine::Channels(channels) => channels.count(),
            Machine::Link(_) => 32,
        }
    }

    /// Where the next transfer would best begin: the arm's place, else anywhere.
    pub(super) fn place_bytes(&self) -> u64 {
        match self {
            Machine::Disk(disk) => disk.head_bytes(),
            Machine::Channels(_) | Machine::Link(_) => 0,
        }
    }

    /// The time to get to the first byte, for choosing the shortest.
    pub(super) fn access_ns(&self, transfer: &Transfer, now_ns: u64) -> u64 {
        match self {
            Machine::Disk(disk) => disk.access_ns(transfer, now_ns),
            Machine::Channels(_) | Machine::Link(_) => 0,
        }
    }

    /// Begins a transfer and says when it is done.
    pub(super) fn serve(&mut self, transfer: &Transfer, now_ns: u64) -> u64 {
        match self {
            Machine::Disk(disk) => disk.serve(transfer, now_ns),
            Machine::Channels(channels) => channels.serve(transfer, now_ns),
            Machine::Link(link) => link.serve(transfer, now_ns),
        }
    }

    /// What it takes, after all writes, to find them again after a power cut.
    pub(super) fn commit_ns(&self) -> u64 {
        match self {
            Machine::Channels(channels) => channels.commit_ns(),
            Machine::Disk(_) | Machine::Link(_) => 0,
        }
    }
}
