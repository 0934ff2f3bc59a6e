//! Entries of a directory, in an order of their own.

use std::ffi::CStr;

use super::listing::Kind;
use super::path::Names;
use crate::replay::policy::Order;

/// What files are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) inode: u64,
    /// Zero where nobody asked.
    pub(super) size_bytes: u64,
}

/// Entries in the order in which they were read, and the order in which they are wanted.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    names: Names,
    entries: Vec<(Kind, Key)>,
}

impl Sorted {
    pub(super) fn push(&mut self, name: &CStr, kind: Kind, key: Key) {
        self.names.push(name);
        self.entries.push((kind, key));
    }

    pub(super) fn name(&self, position: usize) -> &CStr {
        self.names.get(position)
    }

    pub(super) fn kind(&self, position: usize) -> Kind {
        self.entries[position].0
    }

    pub(super) fn size_bytes(&self, position: usize) -> u64 {
        self.entries[position].1.size_bytes
    }

    pub(super) fn clear(&mut self) {
        self.names.clear();
        self.entries.clear();
    }

    /// Positions; equal keys stay as they were read.
    pub(super) fn order(&self, order: Order) -> Vec<usize> {
        let mut positions: Vec<usize> = (0..self.entries.len()).collect();
        let key = |position: usize| self.entries[position].1;
        match order {
            Order::Readdir => {}
            Order::Reverse => positions.reverse(),
            Order::Inode => positions.sort_by_key(|position| key(*position).inode),
            Order::Size => positions.sort_by_key(|position| key(*position).size_bytes),
        }
        positions
    }
}
