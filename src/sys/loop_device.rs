//! Loop devices by their own ioctls, from `linux/loop.h`: numbers are made and removed, files attached.
#![expect(unsafe_code, reason = "the loop driver's ioctls have no safe wrapper")]

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;

const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LOOP_CTL_ADD: libc::c_ulong = 0x4C80;
const LOOP_CTL_REMOVE: libc::c_ulong = 0x4C81;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_info64`.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// Makes loop number `number`; EEXIST when it is there already. `control` is `/dev/loop-control`.
pub fn add(control: &File, number: u32) -> Result<(), Errno> {
    control_ioctl(control, LOOP_CTL_ADD, number)
}

/// Removes loop number `number`: EBUSY while it is attached or open, ENODEV when there is none.
pub fn remove(control: &File, number: u32) -> Result<(), Errno> {
    control_ioctl(control, LOOP_CTL_REMOVE, number)
}

fn control_ioctl(control: &File, request: libc::c_ulong, number: u32) -> Result<(), Errno> {
    // SAFETY: both requests take the number by value.
    Errno::result(unsafe { libc::ioctl(control.as_raw_fd(), request, libc::c_ulong::from(number)) }).map(drop)
}

/// Attaches `backing` to `device` with direct I/O; the last close of the device detaches it. `file_name` (at most 63
/// bytes are kept) shows who it belongs to. The driver falls back to buffered I/O silently: read `loop/dio` afterwards.
pub fn attach(
    device: &File,
    backing: BorrowedFd<'_>,
    block_bytes: u32,
    file_name: &str,
) -> Result<(), Errno> {
    let mut name = [0; 64];
    let kept = file_name.len().min(63);
    name[..kept].copy_from_slice(&file_name.as_bytes()[..kept]);
    let config = LoopConfig {
        fd: u32::try_from(backing.as_raw_fd()).map_err(|_| Errno::EBADF)?,
        block_size: block_bytes,
        info: LoopInfo {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            size_limit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags: LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO,
            file_name: name,
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        },
        reserved: [0; 8],
    };
    // SAFETY: the kernel reads one `struct loop_config`, laid out as in linux/loop.h, during the call.
    Errno::result(unsafe { libc::ioctl(device.as_fd().as_raw_fd(), LOOP_CONFIGURE, &raw const config) })
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_are_as_long_as_the_kernels() {
        assert_eq!(size_of::<LoopInfo>(), 232);
        assert_eq!(size_of::<LoopConfig>(), 304);
    }
}
