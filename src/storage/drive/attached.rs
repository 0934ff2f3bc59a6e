//! The disks of this machine.

use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::results::Disk;
use crate::sys::drive_ioctl::{self, NvmeCommand, NvmeQueue, ScsiEnd, Transfer};
use crate::sys::kernel::Kernel;
use crate::sys::real::Real;

use super::ata::{self, Ata};
use super::scsi::{self, Form};
use super::{Cache, Commands, DriveError, Told, nvme};

/// Talks to the disks attached to this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attached;

/// The command set a disk answered in.
enum Dialect {
    Ata { extended_flush: bool, short: bool },
    Scsi { form: Form, page: Vec<u8> },
    Nvme,
    Virtio,
}

/// One way to ask a disk.
type Attempt = fn(&Open) -> Result<(Dialect, Told), DriveError>;

/// An open disk.
struct Open {
    node: PathBuf,
    file: File,
}

impl Open {
    fn new(disk: &Disk) -> Result<Self, DriveError> {
        let node = node(disk);
        // Read-only: a node closed after writing makes udev look at the disk anew.
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&node);
        let file = opened.map_err(|source| DriveError::Open { node: node.clone(), source: source.into() })?;
        Ok(Self { node, file })
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn not_sent(&self, command: &'static str) -> impl FnOnce(Errno) -> DriveError {
        let node = self.node.clone();
        move |errno| DriveError::NotSent { command, node, errno }
    }

    fn unreadable(&self, command: &'static str) -> DriveError {
        DriveError::Unreadable { command, node: self.node.clone() }
    }

    fn scsi(&self, command: &'static str, bytes: &[u8], transfer: Transfer<'_>) -> Result<(), DriveError> {
        let ScsiEnd { status, transport, sense, .. } =
            drive_ioctl::scsi(self.fd(), bytes, transfer).map_err(self.not_sent(command))?;
        if status == 0 && transport == 0 {
            return Ok(());
        }
        let node = self.node.clone();
        Err(match scsi::sense_codes(&sense) {
            Some((key, code, qualifier)) => DriveError::Rejected { command, node, key, code, qualifier },
            None => DriveError::Status { command, node, status: u32::from(status) | transport << 8 },
        })
    }

    fn ata(&self, name: &'static str, command: Ata, short: bool, data: &mut [u8]) -> Result<(), DriveError> {
        let transfer = if data.is_empty() { Transfer::None } else { Transfer::In(data) };
        if short {
            self.scsi(name, &command.through_12(), transfer)
        } else {
            self.scsi(name, &command.through_16(), transfer)
        }
    }

    fn nvme(
        &self,
        name: &'static str,
        queue: NvmeQueue,
        command: NvmeCommand,
        data: &mut [u8],
    ) -> Result<u32, DriveError> {
        let end = drive_ioctl::nvme(self.fd(), queue, command, data).map_err(self.not_sent(name))?;
        match end.status {
            0 => Ok(end.result),
            status => Err(DriveError::Status { command: name, node: self.node.clone(), status }),
        }
    }

    fn identify_ata(&self, short: bool) -> Result<(Dialect, Told), DriveError> {
        let mut identity = [0u8; 512];
        self.ata("IDENTIFY DEVICE", Ata::IDENTIFY, short, &mut identity)?;
        let told = ata::told(&identity).ok_or_else(|| self.unreadable("IDENTIFY DEVICE"))?;
        Ok((Dialect::Ata { extended_flush: ata::flushes_extended(&identity), short }, told))
    }

    fn mode_sense(&self, form: Form) -> Result<(Dialect, Told), DriveError> {
        let mut answer = [0u8; scsi::ROOM];
        self.scsi("MODE SENSE", &form.sense(), Transfer::In(&mut answer))?;
        let page = form.page(&answer).ok_or_else(|| self.unreadable("MODE SENSE"))?;
        let told = Told { cache: scsi::cache(page), ..Told::default() };
        Ok((Dialect::Scsi { form, page: page.to_vec() }, told))
    }

    fn identify_nvme(&self) -> Result<(Dialect, Told), DriveError> {
        let mut identity = vec![0u8; nvme::IDENTIFY_BYTES];
        self.nvme("Identify Controller", NvmeQueue::Admin, nvme::IDENTIFY, &mut identity)?;
        let has_cache = nvme::has_cache(&identity).ok_or_else(|| self.unreadable("Identify Controller"))?;
        let cache = if has_cache {
            let result = self.nvme("Get Features", NvmeQueue::Admin, nvme::GET, &mut [])?;
            Some(nvme::cache(result))
        } else {
            None
        };
        Ok((Dialect::Nvme, nvme::told(&identity, cache)))
    }
}

impl Attached {
    /// Finds out what a disk speaks by asking it. A missing privilege is told as such; another refusal makes way for the
    /// next dialect.
    fn talk(disk: &Disk) -> Result<(Option<Open>, Dialect, Told), DriveError> {
        if disk.kind == "virtio" {
            let file = sysfs(disk, "cache_type");
            let text = fs::read_to_string(&file)
                .map_err(|source| DriveError::Sysfs { file: file.clone(), source: source.into() })?;
            let cache = if text.trim() == "write back" { Cache::On } else { Cache::Off };
            return Ok((None, Dialect::Virtio, Told { cache: Some(cache), ..Told::default() }));
        }
        let attempts: &[Attempt] = match disk.kind.as_str() {
            "sata" => &[|open| open.identify_ata(false), |open| open.identify_ata(true)],
            "usb" => &[
                |open| open.identify_ata(false),
                |open| open.mode_sense(Form::Ten),
                |open| open.mode_sense(Form::Six),
            ],
            "scsi" => &[|open| open.mode_sense(Form::Ten), |open| open.mode_sense(Form::Six)],
            "nvme" => &[Open::identify_nvme],
            _ => &[],
        };
        let mut refused = DriveError::NothingToAsk { kind: disk.kind.clone() };
        if attempts.is_empty() {
            return Err(refused);
        }
        let open = Open::new(disk)?;
        for attempt in attempts {
            match attempt(&open) {
                Ok((dialect, told)) => return Ok((Some(open), dialect, told)),
                Err(error) if error.is_privilege() => return Err(error),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }
}

impl Commands for Attached {
    fn ask(&self, disk: &Disk) -> Result<Told, DriveError> {
        Self::talk(disk).map(|(_, _, told)| told)
    }

    fn recall(&self, disk: &Disk) -> Option<Told> {
        if disk.kind != "sata" {
            return None;
        }
        let open = Open::new(disk).ok()?;
        ata::told(&drive_ioctl::ata_identity(open.fd()).ok()?)
    }

    fn set(&self, disk: &Disk, to: Cache) -> Result<(), DriveError> {
        let (open, dialect, _) = Self::talk(disk)?;
        match (open, dialect) {
            (Some(open), Dialect::Ata { short, .. }) => {
                open.ata("SET FEATURES", Ata::set_write_cache(to), short, &mut [])
            }
            (Some(open), Dialect::Scsi { form, page }) => {
                let bytes = form.selected(&page, to);
                open.scsi("MODE SELECT", &form.select(bytes.len()), Transfer::Out(&bytes))
            }
            (Some(open), Dialect::Nvme) => {
                open.nvme("Set Features", NvmeQueue::Admin, nvme::set(to), &mut []).map(drop)
            }
            (_, _) => write_sysfs(&sysfs(disk, "cache_type"), to.kernel_words()),
        }
    }

    fn flush(&self, disk: &Disk) -> Result<(), DriveError> {
        let (open, dialect, _) = Self::talk(disk)?;
        let open = match open {
            Some(open) => open,
            None => Open::new(disk)?,
        };
        match dialect {
            Dialect::Ata { extended_flush, short } => {
                open.ata("FLUSH CACHE", Ata::flush(extended_flush), short, &mut [])
            }
            Dialect::Scsi { .. } => open.scsi("SYNCHRONIZE CACHE", &scsi::SYNCHRONIZE_CACHE, Transfer::None),
            Dialect::Nvme => {
                let namespace = drive_ioctl::nvme_namespace(open.fd()).map_err(open.not_sent("Flush"))?;
                open.nvme("Flush", NvmeQueue::Io, nvme::flush(namespace), &mut []).map(drop)
            }
            // No way past the block layer here: it flushes as long as it takes the disk for write back.
            Dialect::Virtio => Real.fsync(open.fd()).map_err(open.not_sent("a flush")),
        }
    }

    fn rescan(&self, disk: &Disk) -> Result<(), DriveError> {
        let own = std::slice::from_ref(&disk.name);
        let names = if disk.kind == "nvme" || disk.paths.is_empty() { own } else { &disk.paths };
        for name in names {
            // virtio tells the block layer itself when its cache is switched; the NVMe driver looks at the controller
            // again, but takes its view from Identify alone.
            let file = match disk.kind.as_str() {
                "sata" | "scsi" | "usb" => format!("/sys/class/block/{name}/device/rescan"),
                "nvme" => format!("/sys/class/block/{name}/device/rescan_controller"),
                _ => continue,
            };
            if Path::new(&file).exists() {
                write_sysfs(Path::new(&file), "1")?;
            }
        }
        Ok(())
    }

    fn kernel_view(&self, disk: &Disk) -> Option<String> {
        fs::read_to_string(sysfs(disk, "queue/write_cache")).ok().map(|text| text.trim().to_owned())
    }

    /// By flock(2) on the node, as udev and systemd's tools take block devices.
    fn lock(&self, disk: &Disk) -> Result<File, DriveError> {
        let Open { node, file } = Open::new(disk)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(fs::TryLockError::WouldBlock) => Err(DriveError::Locked { node }),
            Err(fs::TryLockError::Error(source)) => Err(DriveError::Open { node, source: source.into() }),
        }
    }
}

fn node(disk: &Disk) -> PathBuf {
    Path::new("/dev").join(disk.name.replace('!', "/"))
}

fn sysfs(disk: &Disk, part: &str) -> PathBuf {
    Path::new("/sys/class/block").join(&disk.name).join(part)
}

fn write_sysfs(file: &Path, value: &str) -> Result<(), DriveError> {
    fs::write(file, value)
        .map_err(|source| DriveError::Sysfs { file: file.to_owned(), source: source.into() })
}
