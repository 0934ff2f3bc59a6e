//! What a stack says about the syncs of a place, in the terms in which they are judged.

use crate::probe::verdict::{Attachment, DriveView, Facts, KernelView, LeftOutBy, Rates};
use crate::results::{Disk, Stack};
use crate::storage;

/// Makers whose SCSI disks are drives; what else answers as SCSI may be a controller's logical disk.
const DRIVE_MAKERS: [&str; 9] =
    ["SEAGATE", "HITACHI", "HGST", "WDC", "WD", "TOSHIBA", "FUJITSU", "SAMSUNG", "MICRON"];
/// File systems whose bytes lie on another machine.
const NETWORK: [&str; 10] =
    ["nfs", "nfs4", "cifs", "smb3", "ceph", "afs", "lustre", "beegfs", "glusterfs", "fuse.sshfs"];

/// The facts of a stack; what was measured there is still empty. `preloaded`: a library swallows this program's syncs.
pub(super) fn of_stack(stack: &Stack, preloaded: bool) -> Facts {
    let attachment = attachment(stack);
    let direct = !matches!(attachment, Attachment::Loop | Attachment::Virtual | Attachment::Network);
    Facts {
        left_out_by: left_out_by(stack, preloaded),
        kernel_view: kernel_view(stack),
        drive_view: drive_view(stack).filter(|view| match attachment {
            // Under a loop device lies a page cache, whatever the drive below it says.
            Attachment::Loop => false,
            // A host may say that it caches; that it does not is no word of a drive.
            Attachment::Virtual | Attachment::Network => *view == DriveView::On,
            _ => true,
        }),
        rotational: same(stack.disks.iter().map(|disk| disk.rotational)),
        attachment,
        claimed_rpm: same(stack.disks.iter().map(|disk| disk.claimed_rpm))
            .flatten()
            .filter(|&rpm| rpm > 0 && direct),
        flushes_per_op: None,
        fua: attachment != Attachment::Loop && stack.disks.iter().any(|disk| disk.fua),
        overwrite_ops_per_sec: None,
        plateau_ops_per_sec: None,
        rates: Rates::default(),
    }
}

fn left_out_by(stack: &Stack, preloaded: bool) -> Vec<LeftOutBy> {
    let known = [
        (storage::in_memory(stack), LeftOutBy::MemoryFileSystem),
        (storage::overlay_volatile(stack), LeftOutBy::VolatileOverlay),
        (stack.barriers == Some(false), LeftOutBy::BarriersOff),
        (preloaded, LeftOutBy::PreloadShim),
    ];
    known.into_iter().filter(|(is, _)| *is).map(|(_, by)| by).collect()
}

/// The kernel flushes a stack only where every device of it is flushed.
fn kernel_view(stack: &Stack) -> Option<KernelView> {
    if storage::flushes_end_at(stack).is_some() {
        return Some(KernelView::WriteThroughForced);
    }
    let through = |disk: &Disk| Some(disk.write_cache.kernel.as_deref()? == "write through");
    match any(stack.disks.iter().map(through))? {
        true if hidden(&stack.disks) => Some(KernelView::WriteThroughForced),
        true => Some(KernelView::WriteThrough),
        false => Some(KernelView::WriteBack),
    }
}

/// A disk that says that it caches, and that the kernel does not flush.
fn hidden(disks: &[Disk]) -> bool {
    disks.iter().any(|disk| {
        let view = &disk.write_cache;
        (view.kernel.as_deref(), view.drive.as_deref()) == (Some("write through"), Some("on"))
    })
}

/// On where one drive caches, whatever the others do.
fn drive_view(stack: &Stack) -> Option<DriveView> {
    let views = || stack.disks.iter().map(|disk| disk.write_cache.drive.as_deref());
    if views().any(|view| view == Some("on")) {
        return Some(DriveView::On);
    }
    match same(views())?? {
        "off" => Some(DriveView::Off),
        "none" => Some(DriveView::Absent),
        _ => None,
    }
}

fn attachment(stack: &Stack) -> Attachment {
    if stack.layers.iter().any(|layer| layer.kind == "loop") {
        return Attachment::Loop;
    }
    match stack.disks.as_slice() {
        [] if NETWORK.contains(&stack.file_system.as_str()) => Attachment::Network,
        [] => Attachment::Unknown,
        [disk] => attached(disk),
        disks if disks.iter().any(|disk| disk.r#virtual) => Attachment::Virtual,
        _ => Attachment::Raid,
    }
}

fn attached(disk: &Disk) -> Attachment {
    let model = disk.model.as_deref().unwrap_or_default().to_uppercase();
    match disk.kind.as_str() {
        "network" => Attachment::Network,
        "loop" => Attachment::Loop,
        _ if disk.r#virtual => Attachment::Virtual,
        "usb" => Attachment::UsbBridge,
        "sata" | "nvme" | "mmc" => Attachment::Direct,
        "scsi" if DRIVE_MAKERS.iter().any(|maker| model.split(' ').next() == Some(maker)) => {
            Attachment::Direct
        }
        "scsi" => Attachment::Controller,
        _ => Attachment::Unknown,
    }
}

/// The value that all have; none where they differ or there are none.
fn same<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

/// Whether one is true; none where that is not known of all, or there are none.
fn any(mut values: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let first = values.next()??;
    values.try_fold(first, |any, value| Some(any || value?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{CacheView, Layer};

    fn disk(kind: &str, model: &str, kernel: &str, drive: Option<&str>) -> Disk {
        let view =
            CacheView { kernel: Some(kernel.to_owned()), drive: drive.map(str::to_owned), remark: None };
        Disk {
            kind: kind.to_owned(),
            model: Some(model.to_owned()),
            write_cache: view,
            rotational: true,
            r#virtual: matches!(kind, "virtio" | "loop"),
            ..Disk::default()
        }
    }

    fn on(disks: Vec<Disk>) -> Stack {
        Stack { file_system: "ext4".to_owned(), disks, barriers: Some(true), ..Stack::default() }
    }

    fn over(kind: &str, passes_flush: bool, stack: Stack) -> Stack {
        let layer = Layer {
            kind: kind.to_owned(),
            name: kind.to_owned(),
            flush: String::new(),
            passes_flush: Some(passes_flush),
        };
        Stack { layers: vec![layer], ..stack }
    }

    #[test]
    fn a_controllers_disk_is_not_a_drive() {
        let kinds = [
            ("sata", "ST31000528AS", Attachment::Direct),
            ("scsi", "SEAGATE ST600MM0006", Attachment::Direct),
            ("scsi", "LSI MR9361-8i", Attachment::Controller),
            ("scsi", "HP LOGICAL VOLUME", Attachment::Controller),
            ("usb", "WD Elements", Attachment::UsbBridge),
            ("virtio", "", Attachment::Virtual),
            ("nvme", "Samsung SSD 990 PRO", Attachment::Direct),
            ("dasd", "", Attachment::Unknown),
        ];
        for (kind, model, expected) in kinds {
            let facts = of_stack(&on(vec![disk(kind, model, "write back", None)]), false);
            assert_eq!(facts.attachment, expected, "{kind} {model}");
        }
    }

    #[test]
    fn what_hides_a_cache_from_flushes_counts_as_forced() {
        let cached = || disk("sata", "ST1", "write back", Some("on"));
        let through = || disk("sata", "ST1", "write through", Some("off"));
        let told = || disk("sata", "ST1", "write through", Some("on"));
        let cases = [
            (on(vec![cached()]), KernelView::WriteBack),
            (on(vec![through()]), KernelView::WriteThrough),
            (on(vec![told()]), KernelView::WriteThroughForced),
            (on(vec![cached(), through()]), KernelView::WriteThrough),
            (over("md", false, on(vec![cached()])), KernelView::WriteThroughForced),
            (over("loop", false, on(vec![cached()])), KernelView::WriteThroughForced),
            (over("loop", true, on(vec![cached()])), KernelView::WriteBack),
        ];
        for (stack, expected) in cases {
            assert_eq!(of_stack(&stack, false).kernel_view, Some(expected), "{stack:?}");
        }
    }

    #[test]
    fn one_cache_that_is_on_is_enough_and_one_that_is_not_known_is_too_much() {
        let with = |drives: [Option<&str>; 2]| {
            let disks = drives.map(|drive| disk("sata", "ST1", "write back", drive)).to_vec();
            of_stack(&on(disks), false).drive_view
        };
        assert_eq!(with([Some("off"), Some("on")]), Some(DriveView::On));
        assert_eq!(with([Some("off"), Some("off")]), Some(DriveView::Off));
        assert_eq!(with([Some("off"), None]), None);
        let over_loop = over("loop", true, on(vec![disk("sata", "ST1", "write back", Some("off"))]));
        assert_eq!(of_stack(&over_loop, false).drive_view, None);
    }
}
