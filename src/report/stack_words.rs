//! What lies under a place, in two lines.

use crate::results::{Disk, Stack};

/// The file system, and the disks with what they claim of themselves.
pub(super) fn storage_line(stack: &Stack) -> String {
    let options: Vec<&str> = stack
        .mount_options
        .iter()
        .map(String::as_str)
        .filter(|option| matches!(*option, "nobarrier" | "barrier=0" | "volatile" | "sync" | "data=journal"))
        .collect();
    let options = if options.is_empty() { String::new() } else { format!(" ({})", options.join(",")) };
    let between = stack
        .layers
        .iter()
        .filter(|layer| matches!(layer.kind.as_str(), "loop" | "md" | "lvm" | "crypt" | "dm" | "multipath"));
    let between: Vec<String> = between.map(|layer| format!(" on {} {}", layer.kind, layer.name)).collect();
    let text = format!("{}{options}{}", stack.file_system, between.concat());
    if stack.disks.is_empty() {
        let dropped = stack.layers.iter().any(|layer| layer.passes_flush == Some(false));
        return if dropped { text } else { text + ": no disk is known below" };
    }
    let disks: Vec<String> = stack.disks.iter().map(disk_words).collect();
    format!("{text} on {}", disks.join(" and "))
}

fn disk_words(disk: &Disk) -> String {
    let mut parts = Vec::new();
    parts.extend(disk.model.clone());
    if !disk.kind.is_empty() {
        parts.push(if disk.r#virtual { format!("{}, virtual", disk.kind) } else { disk.kind.clone() });
    }
    match disk.claimed_rpm {
        Some(rpm @ 1..) if !disk.r#virtual => {
            let turn_ms = 60_000.0 / f64::from(rpm);
            parts.push(format!("claims {rpm} rpm ({turn_ms:.2} ms a turn)"));
        }
        _ if disk.r#virtual => {}
        _ => parts.push(if disk.rotational { "rotating" } else { "no platter" }.to_owned()),
    }
    format!("/dev/{}: {}", disk.name, parts.join(", "))
}

/// Both views of the write cache, and whether they agree.
pub(super) fn cache_line(stack: &Stack) -> String {
    let dropped = stack.layers.iter().find(|layer| layer.passes_flush == Some(false));
    if let Some(layer) = dropped {
        return format!("flushes end at {} {}: {}.", layer.kind, layer.name, layer.flush);
    }
    if stack.disks.is_empty() {
        return "write cache: nothing is known of it.".to_owned();
    }
    let views: Vec<String> = stack.disks.iter().map(|disk| view(disk, stack.disks.len() > 1)).collect();
    let below =
        if stack.layers.iter().any(|layer| layer.kind == "loop") { " below the loop device" } else { "" };
    format!("write cache{below}: {}.", views.join("; "))
}

fn view(disk: &Disk, named: bool) -> String {
    let name = if named { format!("{}: ", disk.name) } else { String::new() };
    let cache = &disk.write_cache;
    let kernel = cache
        .kernel
        .as_deref()
        .map_or("not known to the kernel".to_owned(), |view| format!("kernel \"{view}\""));
    let Some(drive) = cache.drive.as_deref() else {
        let why = cache.remark.as_deref().unwrap_or("it was not asked");
        return format!("{name}{kernel}; the drive's own view is not known ({why})");
    };
    let agree = match (cache.kernel.as_deref(), drive) {
        (Some("write back"), "on") | (Some("write through"), "off" | "none") => "agree",
        _ => "they DISAGREE",
    };
    format!("{name}drive {}, {kernel} ({agree})", drive.to_uppercase())
}
