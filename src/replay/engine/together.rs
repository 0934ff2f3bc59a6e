//! Many syncs in one pass: in turn, by threads, or through a ring.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use rayon::ThreadPool;

use super::calls::{Calls, uninterrupted};
use super::path::path_of;
use super::sorted::Sorted;
use super::{EngineError, Observer};
use crate::replay::policy::SyncCall;
use crate::sys::kernel::{Call, Fault, Kernel};
use crate::sys::uring::Ring;
use crate::sys::watch::Watch;

/// Files to be synced: by name, or on descriptors kept open.
#[derive(Clone, Copy)]
pub(super) struct Work<'a> {
    pub(super) names: &'a Sorted,
    pub(super) open: Option<&'a [OwnedFd]>,
}

impl<'a> Work<'a> {
    fn path(self, position: usize) -> &'a CStr {
        self.names.name(position)
    }

    fn file(self, position: usize) -> Option<BorrowedFd<'a>> {
        self.open.map(|files| files[position].as_fd())
    }
}

fn sync_one<K: Kernel, O: Observer>(
    calls: Calls<'_, K, O>,
    work: Work<'_>,
    position: usize,
    watch: &dyn Watch,
) -> Result<(), EngineError> {
    if let Some(stop) = watch.stop() {
        return Err(EngineError::Stopped(stop));
    }
    match work.file(position) {
        Some(file) => calls.sync(file, work.path(position))?,
        None => calls.sync_by_name(work.path(position))?,
    }
    Ok(())
}

/// One after the other.
pub(super) fn in_turn<K: Kernel, O: Observer>(
    calls: Calls<'_, K, O>,
    work: Work<'_>,
    order: &[usize],
    watch: &dyn Watch,
) -> Result<(), EngineError> {
    order.iter().try_for_each(|position| sync_one(calls, work, *position, watch))
}

/// Each thread takes the next file until none is left or one failed.
pub(super) fn by_threads<K: Kernel, O: Observer>(
    calls: Calls<'_, K, O>,
    pool: &ThreadPool,
    work: Work<'_>,
    order: &[usize],
    watch: &dyn Watch,
) -> Result<(), EngineError> {
    let next = AtomicUsize::new(0);
    let results = pool.broadcast(|_| {
        while let Some(position) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = sync_one(calls, work, *position, watch) {
                next.store(order.len(), Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    });
    results.into_iter().collect()
}

/// At most `in_flight` syncs in the kernel; as one is completed the next is opened and submitted. After a fault those
/// in flight are awaited and no more are submitted.
pub(super) fn by_ring<K: Kernel, O: Observer>(
    calls: Calls<'_, K, O>,
    ring: &mut Ring,
    in_flight: usize,
    work: Work<'_>,
    order: &[usize],
    watch: &dyn Watch,
) -> Result<(), EngineError> {
    let mut flight = Flight { calls, work, slots: Vec::new(), free: Vec::new() };
    let mut waiting = order.iter();
    let mut ended: Result<(), EngineError> = Ok(());
    loop {
        while ended.is_ok() && flight.len() < in_flight {
            let Some(position) = waiting.next() else { break };
            ended = match watch.stop() {
                Some(stop) => Err(EngineError::Stopped(stop)),
                None => flight.submit(ring, *position).map_err(EngineError::from),
            };
        }
        if flight.len() == 0 {
            return ended;
        }
        let entered = uninterrupted(|| calls.kernel.enter_ring(ring));
        // What is in flight could never be awaited: the kernel holds the files, so closing them is safe.
        entered.map_err(Fault::of(Call::IoUringEnter, path_of(flight.first_path())))?;
        while let Some((slot, result)) = ring.completed() {
            let landed = flight.land(slot, result).map_err(EngineError::from);
            ended = ended.and(landed);
        }
    }
}

/// The syncs in the kernel. A slot is the token of a sync.
struct Flight<'a, K, O> {
    calls: Calls<'a, K, O>,
    work: Work<'a>,
    slots: Vec<Option<(usize, Option<OwnedFd>)>>,
    free: Vec<usize>,
}

impl<K: Kernel, O: Observer> Flight<'_, K, O> {
    fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn first_path(&self) -> &CStr {
        let position = self.slots.iter().flatten().map(|(position, _)| *position).next();
        self.work.path(position.unwrap_or_default())
    }

    fn submit(&mut self, ring: &mut Ring, position: usize) -> Result<(), Fault> {
        let path = self.work.path(position);
        let opened = match self.work.file(position) {
            Some(_) => None,
            None => Some(self.calls.open(path, OFlag::O_RDWR)?),
        };
        let file = match &opened {
            Some(file) => file.as_fd(),
            None => self.work.file(position).expect("a file without a descriptor was just opened"),
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let pushed = ring.push(file, self.calls.axes.call == SyncCall::Fdatasync, slot as u64);
        self.slots[slot] = Some((position, opened));
        if pushed {
            Ok(())
        } else {
            self.slots[slot] = None;
            self.free.push(slot);
            Err(Fault::of(Call::IoUringEnter, path_of(path))(Errno::EBUSY))
        }
    }

    fn land(&mut self, token: u64, result: Result<(), Errno>) -> Result<(), Fault> {
        let slot = usize::try_from(token).unwrap_or(usize::MAX);
        let Some((position, opened)) = self.slots.get_mut(slot).and_then(Option::take) else {
            return Ok(());
        };
        self.free.push(slot);
        let path = self.work.path(position);
        let call = match self.calls.axes.call {
            SyncCall::Fsync => Call::Fsync,
            SyncCall::Fdatasync => Call::Fdatasync,
        };
        result.map_err(Fault::of(call, path_of(path)))?;
        self.calls.observer.synced(path_of(path));
        match opened {
            Some(file) => self.calls.close(file, path),
            None => Ok(()),
        }
    }
}
