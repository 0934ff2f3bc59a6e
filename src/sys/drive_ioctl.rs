//! Commands to a drive itself, past the block layer: SG_IO, HDIO_GET_IDENTITY and the NVMe pass-through. Nothing here
//! knows what a command means; the bytes are made and read in `storage`.
#![expect(unsafe_code, reason = "ioctls that no safe wrapper makes")]

use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;

/// SG_IO of scsi/sg.h.
const SG_IO: libc::Ioctl = 0x2285;
/// HDIO_GET_IDENTITY of linux/hdreg.h.
const HDIO_GET_IDENTITY: libc::Ioctl = 0x030d;
/// NVME_IOCTL_ID of linux/nvme_ioctl.h: _IO('N', 0x40).
const NVME_IOCTL_ID: libc::Ioctl = 0x4E40;
/// NVME_IOCTL_ADMIN_CMD: _IOWR('N', 0x41, struct nvme_passthru_cmd).
const NVME_IOCTL_ADMIN_CMD: libc::Ioctl = 0xC048_4E41;
/// NVME_IOCTL_IO_CMD: _IOWR('N', 0x43, struct nvme_passthru_cmd).
const NVME_IOCTL_IO_CMD: libc::Ioctl = 0xC048_4E43;
/// A drive that does not answer within this time does not answer: spinning up takes less.
const TIMEOUT_MS: u32 = 60_000;

/// Data that go with a SCSI command.
#[derive(Debug)]
pub enum Transfer<'a> {
    /// None.
    None,
    /// From the drive.
    In(&'a mut [u8]),
    /// To the drive.
    Out(&'a [u8]),
}

/// How a SCSI command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScsiEnd {
    /// SCSI status; 0 is GOOD, 2 CHECK CONDITION.
    pub status: u8,
    /// The host adapter's and the driver's own troubles; 0 is none (the driver's low bits only say that sense is there).
    pub transport: u32,
    /// Sense data, as long as they came.
    pub sense: Vec<u8>,
    /// Bytes transferred.
    pub transferred: usize,
}

/// `struct sg_io_hdr` of scsi/sg.h.
#[repr(C)]
struct SgIoHdr {
    interface_id: i32,
    direction: i32,
    command_length: u8,
    sense_room: u8,
    iovec_count: u16,
    data_length: u32,
    data: *mut libc::c_void,
    command: *const u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack_id: i32,
    user: *mut libc::c_void,
    status: u8,
    masked_status: u8,
    message_status: u8,
    sense_written: u8,
    host_status: u16,
    driver_status: u16,
    residual: i32,
    duration_ms: u32,
    info: u32,
}

/// Sends one SCSI command to an open disk and waits for its end.
pub fn scsi(disk: BorrowedFd<'_>, command: &[u8], transfer: Transfer<'_>) -> Result<ScsiEnd, Errno> {
    let (direction, data, length): (i32, *mut libc::c_void, usize) = match transfer {
        Transfer::None => (-1, std::ptr::null_mut(), 0),
        Transfer::Out(bytes) => (-2, bytes.as_ptr().cast_mut().cast(), bytes.len()),
        Transfer::In(bytes) => (-3, bytes.as_mut_ptr().cast(), bytes.len()),
    };
    let mut sense = [0u8; 64];
    let mut header = SgIoHdr {
        interface_id: i32::from(b'S'),
        direction,
        command_length: u8::try_from(command.len()).map_err(|_| Errno::EINVAL)?,
        sense_room: 64,
        iovec_count: 0,
        data_length: u32::try_from(length).map_err(|_| Errno::EINVAL)?,
        data,
        command: command.as_ptr(),
        sense: sense.as_mut_ptr(),
        timeout_ms: TIMEOUT_MS,
        flags: 0,
        pack_id: 0,
        user: std::ptr::null_mut(),
        status: 0,
        masked_status: 0,
        message_status: 0,
        sense_written: 0,
        host_status: 0,
        driver_status: 0,
        residual: 0,
        duration_ms: 0,
        info: 0,
    };
    // SAFETY: the header lives over the call and points at buffers that do too, with their own lengths; the kernel
    // writes to the data of `In` only, which are borrowed mutably.
    let result = unsafe { libc::ioctl(disk.as_raw_fd(), SG_IO, &raw mut header) };
    if result < 0 {
        return Err(Errno::last());
    }
    // DRIVER_SENSE (8) says that sense data came, which is no trouble of the driver.
    let driver = u32::from(header.driver_status & 0x07);
    let left = usize::try_from(header.residual).unwrap_or(0);
    Ok(ScsiEnd {
        status: header.status,
        transport: u32::from(header.host_status) << 8 | driver,
        sense: sense[..usize::from(header.sense_written).min(sense.len())].to_vec(),
        transferred: length.saturating_sub(left),
    })
}

/// The kernel's copy of the IDENTIFY DEVICE data of an ATA disk; needs no privilege but an open disk.
pub fn ata_identity(disk: BorrowedFd<'_>) -> Result<[u8; 512], Errno> {
    let mut identity = [0u8; 512];
    // SAFETY: the kernel writes at most the 512 bytes of struct hd_driveid.
    let result = unsafe { libc::ioctl(disk.as_raw_fd(), HDIO_GET_IDENTITY, identity.as_mut_ptr()) };
    if result < 0 { Err(Errno::last()) } else { Ok(identity) }
}

/// Which of a controller's queues a command goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NvmeQueue {
    /// Commands to the controller.
    Admin,
    /// Commands to the namespace.
    Io,
}

/// An NVMe command without data, or with data from the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NvmeCommand {
    /// Opcode.
    pub opcode: u8,
    /// Namespace, or 0.
    pub namespace: u32,
    /// Command dword 10.
    pub cdw10: u32,
    /// Command dword 11.
    pub cdw11: u32,
}

/// How an NVMe command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NvmeEnd {
    /// Status code with its type; 0 is success.
    pub status: u32,
    /// Completion dword 0.
    pub result: u32,
}

/// `struct nvme_passthru_cmd` of linux/nvme_ioctl.h, 72 bytes.
#[repr(C)]
#[derive(Default)]
struct NvmePassthru {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    data: u64,
    metadata_length: u32,
    data_length: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    result: u32,
}

/// Sends one NVMe command to an open namespace and waits for its end; `data` is filled by the drive.
pub fn nvme(
    disk: BorrowedFd<'_>,
    queue: NvmeQueue,
    command: NvmeCommand,
    data: &mut [u8],
) -> Result<NvmeEnd, Errno> {
    let mut passed = NvmePassthru {
        opcode: command.opcode,
        namespace: command.namespace,
        data: if data.is_empty() { 0 } else { data.as_mut_ptr() as u64 },
        data_length: u32::try_from(data.len()).map_err(|_| Errno::EINVAL)?,
        cdw10: command.cdw10,
        cdw11: command.cdw11,
        timeout_ms: TIMEOUT_MS,
        ..NvmePassthru::default()
    };
    let request = match queue {
        NvmeQueue::Admin => NVME_IOCTL_ADMIN_CMD,
        NvmeQueue::Io => NVME_IOCTL_IO_CMD,
    };
    // SAFETY: the command lives over the call; its data are borrowed mutably and passed with their own length.
    let status = unsafe { libc::ioctl(disk.as_raw_fd(), request, &raw mut passed) };
    match u32::try_from(status) {
        Ok(status) => Ok(NvmeEnd { status, result: passed.result }),
        Err(_) => Err(Errno::last()),
    }
}

/// The number of the namespace behind an open NVMe disk.
pub fn nvme_namespace(disk: BorrowedFd<'_>) -> Result<u32, Errno> {
    // SAFETY: this ioctl takes no argument.
    let result = unsafe { libc::ioctl(disk.as_raw_fd(), NVME_IOCTL_ID) };
    u32::try_from(result).map_err(|_| Errno::last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_are_as_long_as_the_kernels() {
        assert_eq!(size_of::<NvmePassthru>(), 72);
        assert_eq!(size_of::<SgIoHdr>(), 88);
    }
}
