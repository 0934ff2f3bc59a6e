//! A block device whose contents the program sets at will: what a power cut may leave is put on it, mounted as after a
//! reboot, looked at, and replaced by the next.
//!
//! It lies in a tmpfs that only the calling thread and what it starts see, under a loop number with a keeper of its own:
//! whoever is killed, the kernel takes it apart. Nothing of it is ever on a disk.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{Whence, lseek};

use super::keeper::Keeper;
use super::plan::split_options;
use super::queue;
use crate::simdrive::error::{Attempt, Error};
use crate::simdrive::spec::{FileSystem, Spec};
use crate::sys::clock::now_ns;
use crate::sys::memory::LockedBuffer;
use crate::sys::{loop_device, mounts, namespace};

/// Most bytes that are written to the device at a time.
const LONGEST_WRITE_BYTES: usize = 1 << 20;

/// The device, its file, and where its file system is mounted.
#[derive(Debug)]
pub struct ImageDevice {
    file_system: FileSystem,
    flags: MsFlags,
    options: String,
    number: u32,
    device: File,
    buffer: LockedBuffer,
    file: File,
    workshop: PathBuf,
    mount_point: PathBuf,
    keeper: Keeper,
}

impl ImageDevice {
    /// An empty device as large as the drive of `spec`, with blocks of `block_bytes`. `directory` is made if it is not
    /// there; nothing is written in it.
    pub fn create(spec: &Spec, block_bytes: u32, directory: &Path) -> Result<ImageDevice, Error> {
        let workshop = directory.join("images");
        std::fs::create_dir_all(&workshop).attempt("create directory", &workshop)?;
        let workshop = workshop.canonicalize().attempt("find", &workshop)?;
        let control = queue::control()?;
        let start = queue::NUMBERS.start + u32::try_from(now_ns() % 500_000).unwrap_or(0);
        let number = queue::add(&control, start)?;
        let keeper = Keeper::start(number)?;
        namespace::make_mounts_private().attempt("make mounts private at", "/")?;
        // A server that is started on an image runs as a user of its own, who must get through.
        mount(Some("fsynclab-images"), &workshop, Some("tmpfs"), MsFlags::empty(), Some("mode=711"))
            .attempt("mount", &workshop)?;
        let mount_point = workshop.join("mnt");
        std::fs::create_dir(&mount_point).attempt("create directory", &mount_point)?;
        let path = workshop.join("image");
        let mut how = OpenOptions::new();
        let file = how.read(true).write(true).create_new(true).open(&path).attempt("create file", &path)?;
        file.set_len(spec.size_bytes).attempt("extend file", &path)?;
        let device = queue::open(number, libc::O_DIRECT)?;
        loop_device::attach(&device, file.as_fd(), block_bytes, "fsynclab-image")
            .attempt("attach a file to loop device", queue::node(number))?;
        let buffer =
            LockedBuffer::new(LONGEST_WRITE_BYTES).attempt("lock memory for", queue::node(number))?;
        let (flags, options) = image_options(spec);
        let file_system = spec.file_system;
        Ok(ImageDevice {
            file_system,
            flags,
            options,
            number,
            device,
            buffer,
            file,
            workshop,
            mount_point,
            keeper,
        })
    }

    /// `/dev/loopN`, for programs that repair.
    pub fn node(&self) -> PathBuf {
        queue::node(self.number)
    }

    /// Where [`ImageDevice::mount`] mounts.
    pub fn mount_point(&self) -> &Path {
        &self.mount_point
    }

    /// Where something other than zeros may lie, as offset and end in bytes, in ascending order.
    pub fn extents(&self) -> Result<Vec<(u64, u64)>, Error> {
        let mut extents = Vec::new();
        let mut at = 0;
        loop {
            let start = match lseek(&self.file, at, Whence::SeekData) {
                Err(Errno::ENXIO) => return Ok(extents),
                start => start.attempt("read file", self.node())?,
            };
            at = lseek(&self.file, start, Whence::SeekHole).attempt("read file", self.node())?;
            extents.push((start.unsigned_abs(), at.unsigned_abs()));
        }
    }

    /// Reads what is on the device now, past every cache; it must not be mounted.
    pub fn read(&self, bytes: &mut [u8], offset_bytes: u64) -> Result<(), Error> {
        self.file.read_exact_at(bytes, offset_bytes).attempt("read file", self.node())
    }

    /// Writes whole blocks through the device, so that nothing it has cached is older; it must not be mounted.
    pub fn write(&mut self, bytes: &[u8], offset_bytes: u64) -> Result<(), Error> {
        let mut at = offset_bytes;
        for chunk in bytes.chunks(LONGEST_WRITE_BYTES) {
            self.buffer[..chunk.len()].copy_from_slice(chunk);
            self.device
                .write_all_at(&self.buffer[..chunk.len()], at)
                .attempt("write to file", self.node())?;
            at += chunk.len() as u64;
        }
        Ok(())
    }

    /// Mounts it as after a reboot, with the drive's own options: journals are recovered. The error number is what the
    /// file system says.
    pub fn mount(&self) -> Result<(), Errno> {
        let node = self.node();
        let name = self.file_system.name();
        mount(Some(&node), &self.mount_point, Some(name), self.flags, Some(self.options.as_str()))
    }

    /// Unmounts it; what the file system still writes then is on the device.
    pub fn unmount(&self) -> Result<(), Error> {
        for _ in 0..50 {
            match umount2(&self.mount_point, MntFlags::empty()) {
                Err(Errno::EBUSY) => std::thread::sleep(std::time::Duration::from_millis(10)),
                ended => return ended.attempt("unmount", &self.mount_point),
            }
        }
        Err(Error::InUse { target: self.mount_point.clone() })
    }

    /// Takes everything apart.
    pub fn close(self) -> Result<(), Error> {
        let ImageDevice { number, device, file, workshop, keeper, .. } = self;
        drop((device, file));
        let detached =
            mounts::unmount(&workshop, MntFlags::MNT_DETACH, None, std::time::Duration::from_secs(10))
                .attempt("unmount", &workshop);
        let gone = queue::wait_until_detached(number, std::time::Duration::from_secs(10))
            && queue::remove(&queue::control()?, number);
        keeper.dismiss();
        detached?;
        std::fs::remove_dir(&workshop).attempt("remove directory", &workshop)?;
        let what = format!("loop{number}");
        if gone { Ok(()) } else { Err(Error::StillThere { tag: "fsynclab-image".to_owned(), what }) }
    }
}

/// The options of the drive; a copy of an XFS has the UUID of the original, which may still be mounted.
fn image_options(spec: &Spec) -> (MsFlags, String) {
    let (flags, mut options) = split_options(spec.mount_options.as_deref().unwrap_or_default());
    if spec.file_system == FileSystem::Xfs {
        options += if options.is_empty() { "nouuid" } else { ",nouuid" };
    }
    (flags, options)
}
