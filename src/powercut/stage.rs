//! Images are put on a device, mounted as after a reboot, judged, and replaced by the next. Only blocks that differ from
//! the next image are written: those of the image itself, and whatever recovery and unmounting have changed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;

use super::blocks::{BLOCK_BYTES, Blocks, View};
use super::error::Error;
use super::judge::{Finding, Scene, Verdict, judge};
use super::ledger::Promised;
use crate::simdrive::mount::ImageDevice;
use crate::simdrive::spec::FileSystem;
use crate::sys::error::reason;
use crate::sys::tools::Tool;
use crate::sys::watch::Quiet;

/// Bytes read of the device at a time: they stay in a core's own cache until they are compared.
const CHUNK_BYTES: usize = 128 << 10;
/// Longest time for a repair.
const REPAIR_LIMIT: Duration = Duration::from_mins(1);

/// The device and what is known of it.
#[derive(Debug)]
pub struct Stage {
    device: ImageDevice,
    file_system: FileSystem,
    chunk: Vec<u8>,
}

/// What came of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Everything that is not as the finished copy is.
    pub findings: Vec<Finding>,
    /// The file system was repaired before it could be mounted.
    pub repaired: bool,
}

impl Stage {
    /// A stage for images of one drive.
    pub fn new(device: ImageDevice, file_system: FileSystem) -> Stage {
        Stage { device, file_system, chunk: vec![0; CHUNK_BYTES] }
    }

    /// Shows an image, judges it, and takes it down.
    pub fn judge(&mut self, view: View<'_>, scene: &Scene<'_>, promised: &Promised) -> Result<Judged, Error> {
        let (seen, repaired) = self.visit(view, |root| judge(root, scene, promised))?;
        Ok(Judged { findings: seen.unwrap_or_else(|errno| vec![unmountable(errno)]), repaired })
    }

    /// Shows an image, looks at it mounted and takes it down. `true`: it had to be repaired first; the error number is of
    /// one that does not mount even so.
    pub fn visit<T>(
        &mut self,
        view: View<'_>,
        look: impl FnOnce(&Path) -> T,
    ) -> Result<(Result<T, Errno>, bool), Error> {
        self.show(view)?;
        let mut repaired = false;
        if self.device.mount().is_err() {
            repaired = true;
            self.repair()?;
            if let Err(errno) = self.device.mount() {
                return Ok((Err(errno), repaired));
            }
        }
        let seen = look(self.device.mount_point());
        self.device.unmount()?;
        Ok((Ok(seen), repaired))
    }

    /// Takes the device apart.
    pub fn close(self) -> Result<(), Error> {
        Ok(self.device.close()?)
    }

    /// Makes the device say what the view says: everything that may not be zero is read and compared, for nobody knows what
    /// recovery and unmounting have written.
    fn show(&mut self, view: View<'_>) -> Result<(), Error> {
        let unit = BLOCK_BYTES as u64;
        let mut wanted = view.numbers().peekable();
        let mut different: Vec<u64> = Vec::new();
        for (start, end) in self.device.extents()? {
            let mut at = start / unit * unit;
            // What lies in a hole of the device's file is zero there.
            different.extend(std::iter::from_fn(|| wanted.next_if(|block| block * unit < at)));
            while at < end {
                let length = CHUNK_BYTES.min(usize::try_from(end - at).unwrap_or(CHUNK_BYTES));
                self.device.read(&mut self.chunk[..length], at)?;
                for (block, found) in (at / unit..).zip(self.chunk[..length].chunks(BLOCK_BYTES)) {
                    wanted.next_if_eq(&block);
                    if *found != view.block(block)[..found.len()] {
                        different.push(block);
                    }
                }
                at += length as u64;
            }
        }
        different.extend(wanted);
        self.write(&different, view)
    }

    /// Writes blocks, neighbours together.
    fn write(&mut self, blocks: &[u64], view: View<'_>) -> Result<(), Error> {
        for run in blocks.chunk_by(|one, next| one + 1 == *next) {
            for part in run.chunks(CHUNK_BYTES / BLOCK_BYTES) {
                let length = part.len() * BLOCK_BYTES;
                for (room, block) in self.chunk[..length].chunks_mut(BLOCK_BYTES).zip(part) {
                    room.copy_from_slice(view.block(*block));
                }
                self.device.write(&self.chunk[..length], part[0] * BLOCK_BYTES as u64)?;
            }
        }
        Ok(())
    }

    /// What an administrator would do with a file system that does not mount; whether it helped is seen at the next mount.
    fn repair(&self) -> Result<(), Error> {
        let node = self.device.node();
        let (program, arguments): (_, &[&str]) = match self.file_system {
            FileSystem::Ext4 => ("e2fsck", &["-f", "-y"]),
            FileSystem::Xfs => ("xfs_repair", &["-L"]),
            FileSystem::Btrfs => ("btrfs", &["rescue", "zero-log"]),
        };
        Tool::new(program).args(arguments).arg(node).limit(REPAIR_LIMIT).run(&Quiet)?;
        Ok(())
    }
}

fn unmountable(errno: Errno) -> Finding {
    Finding { verdict: Verdict::DoesNotMount, detail: reason(errno), path: PathBuf::new(), promised: true }
}

/// Puts requests on top of a base: those of `numbers` that the image has.
pub fn lay(
    changed: &mut Blocks,
    base: &Blocks,
    section: &super::tape::Section,
    image: &super::cuts::Image,
    from: usize,
) {
    let requests = section.requests.iter().enumerate().skip(from);
    for (number, logged) in requests.take_while(|(_, logged)| logged.arrived < image.cut) {
        if !logged.changes() || image.missing.binary_search(&number).is_ok() {
            continue;
        }
        let (start, end) = logged.range();
        match &image.torn {
            Some(torn) if torn.request == number => {
                let (from, to) = (torn.start_bytes, torn.end_bytes.min(end - start));
                let bytes = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
                let data = logged.data.as_deref().map(|data| &data[bytes(from)..bytes(to)]);
                changed.write(Some(base), start + from, to - from, data);
            }
            _ => changed.write(Some(base), start, end - start, logged.data.as_deref()),
        }
    }
}
