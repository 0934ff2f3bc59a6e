//! A whole disk as sysfs shows it, without privilege.

use std::path::Path;

use crate::results::{CacheView, Disk};

use super::root::Root;

/// What `/sys/block/NAME` says; `place` is its directory, links followed.
pub(super) fn disk(root: &Root, name: &str, place: &Path) -> Disk {
    let read = |part: &str| root.text(place.join(part)).filter(|text| !text.is_empty());
    let number = |part: &str| read(part)?.parse::<u32>().ok();
    let vendor = read("device/vendor").unwrap_or_default();
    let kind = kind(name, place, &vendor);
    let identity = root.bytes(place.join("device/vpd_pg89")).as_deref().and_then(ata_identity);
    let (model, firmware) = match identity {
        // sysfs cuts the model of a SATA disk to 16 characters.
        Some((model, firmware)) => (Some(model), Some(firmware)),
        None => (read("device/model"), read("device/firmware_rev").or_else(|| read("device/rev"))),
    };
    let model = match model {
        Some(model) if kind == "scsi" && !vendor.is_empty() => Some(format!("{vendor} {model}")),
        model => model,
    };
    let page_80 = || root.bytes(place.join("device/vpd_pg80")).as_deref().and_then(unit_serial);
    Disk {
        name: name.to_owned(),
        r#virtual: is_virtual(kind, place, model.as_deref()),
        model,
        firmware,
        serial: read("device/serial").or_else(|| read("serial")).or_else(page_80),
        wwn: read("wwid").or_else(|| read("device/wwid")),
        kind: kind.to_owned(),
        // sysfs counts 512-byte sectors whatever the disk's own are.
        size_bytes: read("size").and_then(|text| text.parse::<u64>().ok()?.checked_mul(512)),
        logical_block_bytes: number("queue/logical_block_size"),
        physical_block_bytes: number("queue/physical_block_size"),
        scheduler: read("queue/scheduler").map(|text| chosen(&text)),
        claimed_rpm: root.bytes(place.join("device/vpd_pgb1")).as_deref().and_then(claimed_rpm),
        paths: nvme_paths(root, name),
        rotational: read("queue/rotational").as_deref() == Some("1"),
        write_cache: CacheView { kernel: read("queue/write_cache"), ..CacheView::default() },
        fua: read("queue/fua").as_deref() == Some("1"),
    }
}

/// Every whole disk, those made of others left out.
pub(super) fn disks(root: &Root) -> Vec<Disk> {
    let names = root.names("sys/class/block");
    let places =
        names.iter().filter_map(|name| Some((name, root.follow(format!("sys/class/block/{name}"))?)));
    let whole = places.filter(|(_, place)| {
        !root.has(place.join("partition"))
            && root.text(place.join("hidden")).as_deref() != Some("1")
            && root.names(place.join("slaves")).is_empty()
    });
    whole.map(|(name, place)| disk(root, name, &place)).collect()
}

/// Revolutions a minute of VPD page B1, bytes 4 and 5 (SBC-4): 0 nothing told, 1 nothing turns, from 0401h rpm.
pub(super) fn claimed_rpm(page: &[u8]) -> Option<u32> {
    rotation(u16::from_be_bytes([*page.get(4)?, *page.get(5)?]))
}

/// The nominal rotation rate, coded alike in VPD page B1 and in word 217 of ATA IDENTIFY DEVICE.
pub(super) fn rotation(code: u16) -> Option<u32> {
    match code {
        1 => Some(0),
        0x0401..=0xFFFE => Some(u32::from(code)),
        _ => None,
    }
}

/// The text of an ATA string field: two characters a word, the first in the high byte, padded with blanks.
pub(super) fn ata_text(identity: &[u8], words: std::ops::Range<usize>) -> Option<String> {
    let bytes = identity.get(words.start * 2..words.end * 2)?;
    let swapped: Vec<u8> = bytes.chunks_exact(2).flat_map(|pair| [pair[1], pair[0]]).collect();
    let text = String::from_utf8_lossy(&swapped).trim_matches([' ', '\0']).to_owned();
    (!text.is_empty()).then_some(text)
}

/// Model and firmware of the IDENTIFY DEVICE data in VPD page 89h, from byte 60 (SAT-4).
fn ata_identity(page: &[u8]) -> Option<(String, String)> {
    let identity = page.get(60..572)?;
    Some((ata_text(identity, 27..47)?, ata_text(identity, 23..27)?))
}

/// The serial number of VPD page 80h, from byte 4.
fn unit_serial(page: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(page.get(4..)?).trim_matches([' ', '\0']).to_owned();
    (!text.is_empty()).then_some(text)
}

fn chosen(schedulers: &str) -> String {
    let inner = schedulers.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or(schedulers, |(name, _)| name).to_owned()
}

fn kind(name: &str, place: &Path, vendor: &str) -> &'static str {
    const BY_NAME: [(&str, &str); 16] = [
        ("nvme", "nvme"),
        ("vd", "virtio"),
        ("xvd", "xen"),
        ("mmcblk", "mmc"),
        ("nbd", "network"),
        ("rbd", "network"),
        ("drbd", "network"),
        ("zram", "zram"),
        ("ram", "ram"),
        ("loop", "loop"),
        ("zd", "zvol"),
        ("pmem", "pmem"),
        ("nullb", "null"),
        ("dasd", "dasd"),
        ("ublkb", "program"),
        ("sr", "optical"),
    ];
    if name.starts_with("sd") {
        return match vendor {
            _ if place.components().any(|part| part.as_os_str().to_string_lossy().starts_with("usb")) => {
                "usb"
            }
            "ATA" => "sata",
            _ => "scsi",
        };
    }
    BY_NAME.iter().find(|(prefix, _)| name.starts_with(prefix)).map_or("unknown", |(_, kind)| *kind)
}

/// Made by a hypervisor or by software: what it claims of itself proves nothing.
fn is_virtual(kind: &str, place: &Path, model: Option<&str>) -> bool {
    const KINDS: [&str; 9] = ["virtio", "xen", "network", "zram", "ram", "loop", "zvol", "null", "program"];
    const BUSES: [&str; 3] = ["virtio", "vmbus", "xen"];
    const MAKERS: [&str; 11] = [
        "qemu",
        "vbox",
        "vmware",
        "virtual",
        "msft",
        "google",
        "nvme_card-pd",
        "persistentdisk",
        "amazon elastic",
        "bhyve",
        "parallels",
    ];
    let on_bus = place.components().any(|part| {
        let part = part.as_os_str().to_string_lossy().to_lowercase();
        BUSES.iter().any(|bus| part.starts_with(bus))
    });
    let model = model.unwrap_or_default().to_lowercase();
    KINDS.contains(&kind) || on_bus || MAKERS.iter().any(|maker| model.contains(maker))
}

/// The hidden path devices `nvmeXcYnZ` of a multipath head `nvmeXnZ` (drivers/nvme/host/multipath.c).
fn nvme_paths(root: &Root, name: &str) -> Vec<String> {
    let Some((subsystem, namespace)) = name.strip_prefix("nvme").and_then(|rest| rest.split_once('n')) else {
        return Vec::new();
    };
    let (before, after) = (format!("nvme{subsystem}c"), format!("n{namespace}"));
    let is_path = |other: &String| {
        let controller = other.strip_prefix(&before).and_then(|rest| rest.strip_suffix(&after));
        controller.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    let mut paths = root.names("sys/class/block");
    paths.retain(is_path);
    paths
}
