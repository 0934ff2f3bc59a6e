//! A stack in words: its weakest link, and the notes its reader needs.

use std::path::Path;

use crate::results::{Disk, Layer, Note, NoteCode, Stack};

use super::root::Root;

/// File systems that keep everything in memory.
const IN_MEMORY: [&str; 5] = ["tmpfs", "ramfs", "rootfs", "devtmpfs", "hugetlbfs"];
/// Block devices that keep everything in memory.
const MEMORY_DISKS: [&str; 2] = ["zram", "ram"];
/// Layers between a file system and its disks: where one drops flushes, somebody set it so.
const DEVICES: [&str; 6] = ["loop", "md", "lvm", "crypt", "dm", "multipath"];
/// Parts of the names of libraries known to swallow syncs when preloaded.
const SHIMS: [&str; 4] = ["eatmydata", "nosync", "fsyncbypass", "libfakesync"];

/// Whether what is written under this stack is gone with the power, however it is synced.
pub fn in_memory(stack: &Stack) -> bool {
    stack.layers.iter().any(|layer| IN_MEMORY.contains(&layer.kind.as_str()))
        || stack.disks.iter().any(|disk| MEMORY_DISKS.contains(&disk.kind.as_str()))
}

/// Whether an overlay of this stack omits every sync.
pub fn overlay_volatile(stack: &Stack) -> bool {
    stack.layers.iter().any(|layer| layer.kind == "overlay" && layer.passes_flush == Some(false))
}

/// The device between file system and disks at which every flush ends, though what lies below may cache.
pub fn flushes_end_at(stack: &Stack) -> Option<&Layer> {
    let devices = stack.layers.iter().filter(|layer| DEVICES.contains(&layer.kind.as_str()));
    devices.into_iter().find(|layer| layer.passes_flush == Some(false))
}

/// The weakest link between an fsync and the medium, as one sentence without a full stop. The worst comes first: what
/// certainly loses data, then what nobody here can see, then what must be trusted.
pub fn weakest(stack: &Stack) -> String {
    let layer = stack
        .layers
        .iter()
        .find(|layer| layer.passes_flush == Some(false))
        .or_else(|| stack.layers.iter().find(|layer| layer.passes_flush.is_none()));
    let disk = stack.disks.iter().rev().max_by_key(|disk| distrust(disk));
    match (layer, disk) {
        (Some(layer), _) if layer.passes_flush == Some(false) => {
            format!("{} on {}: {}", layer.kind, layer.name, layer.flush)
        }
        (_, Some(disk)) if distrust(disk) >= Distrust::Hidden => of_disk(disk),
        (Some(layer), _) => format!("{} on {}: {}", layer.kind, layer.name, layer.flush),
        (None, Some(disk)) => of_disk(disk),
        (None, None) => "no disk was found below: nothing can be said".to_owned(),
    }
}

/// How far a disk must be trusted, least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Distrust {
    /// The drive itself says that it caches nothing, or that its cache is off.
    Uncached,
    /// The kernel sends no flush, for the drive told it that it needs none.
    SaysUncached,
    /// It caches and is flushed.
    Caches,
    /// The kernel flushes; whether it caches is not known.
    Unasked,
    /// A hypervisor or a program behind it decides.
    Virtual,
    /// The kernel itself does not know.
    Unknown,
    /// It caches and the kernel never flushes it.
    Hidden,
    /// It is memory.
    Memory,
}

fn distrust(disk: &Disk) -> Distrust {
    if MEMORY_DISKS.contains(&disk.kind.as_str()) {
        return Distrust::Memory;
    }
    let (kernel, drive) = (disk.write_cache.kernel.as_deref(), disk.write_cache.drive.as_deref());
    match (kernel, drive) {
        (Some("write through"), Some("on")) => Distrust::Hidden,
        _ if disk.r#virtual => Distrust::Virtual,
        (_, Some("off" | "none")) => Distrust::Uncached,
        (_, Some(_)) => Distrust::Caches,
        (Some("write through"), None) => Distrust::SaysUncached,
        (Some(_), None) => Distrust::Unasked,
        (None, None) => Distrust::Unknown,
    }
}

fn of_disk(disk: &Disk) -> String {
    let name = &disk.name;
    match distrust(disk) {
        Distrust::Memory => format!("{name} is memory: nothing is durable"),
        Distrust::Hidden => {
            format!("{name} caches writes and the kernel sends it no flush: what is synced may be lost")
        }
        Distrust::Unknown => format!("{name}: nothing is known of its write cache"),
        Distrust::Virtual => format!("{name} is virtual: what lies behind it decides what a flush does"),
        Distrust::Unasked => {
            format!("{name} is sent flushes; whether it caches writes, it was not asked")
        }
        Distrust::Caches => format!("{name} caches writes: all rests on its honouring the flush"),
        Distrust::SaysUncached => {
            format!("{name} told the kernel that it caches nothing: it is sent no flush")
        }
        Distrust::Uncached => format!("none seen: {name} says that it caches no writes"),
    }
}

/// What a reader must know of a stack beside any numbers.
pub fn notes(stack: &Stack) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut warn = |code, text: String| notes.push(Note::warning(code, text));
    if in_memory(stack) {
        warn(NoteCode::MemoryFileSystem, weakest(stack));
    }
    if overlay_volatile(stack) {
        warn(NoteCode::OverlayVolatile, "the overlay is mounted volatile: it omits every sync".to_owned());
    }
    if stack.barriers == Some(false) {
        let text = "a file system below is mounted without barriers: it never sends a flush".to_owned();
        warn(NoteCode::BarriersOff, text);
    }
    if let Some(Layer { kind, name, flush, .. }) = flushes_end_at(stack) {
        warn(NoteCode::BarriersOff, format!("no flush comes further than {kind} {name}: {flush}"));
    }
    if stack.disks.is_empty() && !in_memory(stack) {
        let text = format!("no disk is known below {}: nothing is counted there", stack.file_system);
        warn(NoteCode::DeviceUnknown, text);
    }
    for disk in &stack.disks {
        if let Some(text) = disagreement(disk) {
            warn(NoteCode::ViewsDisagree, text);
        }
        if disk.r#virtual {
            let text =
                format!("{} is virtual: nothing follows from its claimed rotation or cache", disk.name);
            warn(NoteCode::VirtualDisk, text);
        } else if disk.write_cache.drive.is_none() {
            let why = disk.write_cache.remark.as_deref().unwrap_or("it was not asked");
            warn(
                NoteCode::WriteCacheUnknown,
                format!("whether {} caches writes is not known: {why}", disk.name),
            );
        }
    }
    notes
}

/// Kernel and drive saying different things of the write cache.
fn disagreement(disk: &Disk) -> Option<String> {
    let view = &disk.write_cache;
    match (view.kernel.as_deref()?, view.drive.as_deref()?) {
        ("write through", "on") => Some(format!(
            "the write cache of {} is on, but the kernel takes it for write through and sends no flush",
            disk.name
        )),
        ("write back", drive @ ("off" | "none")) => Some(format!(
            "the write cache of {} is {drive}, but the kernel takes it for write back: its flushes do nothing",
            disk.name
        )),
        _ => None,
    }
}

/// A note where a library preloaded into this process is known to swallow syncs.
pub fn preloaded() -> Option<Note> {
    let preload = std::env::var("LD_PRELOAD").ok();
    let system_wide = Root::live().text("etc/ld.so.preload");
    preload_note(preload.as_deref(), system_wide.as_deref())
}

/// The same from the variable's value and from the text of `/etc/ld.so.preload`.
fn preload_note(preload: Option<&str>, system_wide: Option<&str>) -> Option<Note> {
    let both = [preload.unwrap_or_default(), system_wide.unwrap_or_default()].join(" ");
    let library = both.split([' ', ':', '\n']).find(|path| {
        let file = Path::new(path).file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        SHIMS.iter().any(|shim| file.contains(shim))
    })?;
    let text = format!("{library} is preloaded into this program: it swallows syncs");
    Some(Note::warning(NoteCode::PreloadShim, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::CacheView;

    fn on_disk(kernel: Option<&str>, drive: Option<&str>, r#virtual: bool) -> Stack {
        let write_cache =
            CacheView { kernel: kernel.map(str::to_owned), drive: drive.map(str::to_owned), remark: None };
        let disk = Disk { name: "sda".to_owned(), r#virtual, write_cache, ..Disk::default() };
        Stack { file_system: "ext4".to_owned(), disks: vec![disk], ..Stack::default() }
    }

    fn codes(stack: &Stack) -> Vec<NoteCode> {
        notes(stack).into_iter().map(|note| note.code).collect()
    }

    #[test]
    fn the_weakest_link_of_a_disk_follows_from_both_views() {
        const BACK: Option<&str> = Some("write back");
        const THROUGH: Option<&str> = Some("write through");
        for (kernel, drive, r#virtual, words) in [
            (BACK, Some("on"), false, "sda caches writes: all rests on its honouring the flush"),
            (BACK, Some("off"), false, "none seen: sda says that it caches no writes"),
            (THROUGH, Some("none"), false, "none seen: sda says that it caches no writes"),
            (THROUGH, Some("on"), false, "the kernel sends it no flush: what is synced may be lost"),
            (THROUGH, Some("on"), true, "the kernel sends it no flush: what is synced may be lost"),
            (THROUGH, None, false, "sda told the kernel that it caches nothing"),
            (BACK, None, false, "whether it caches writes, it was not asked"),
            (BACK, Some("on"), true, "sda is virtual"),
            (None, None, false, "nothing is known of its write cache"),
        ] {
            let found = weakest(&on_disk(kernel, drive, r#virtual));
            assert!(found.contains(words), "{kernel:?} {drive:?} {virtual}: {found}");
        }
    }

    #[test]
    fn a_layer_that_drops_flushes_is_weaker_than_any_disk() {
        let mut stack = on_disk(Some("write through"), Some("on"), false);
        let layer = |kind: &str, passes_flush| Layer {
            kind: kind.to_owned(),
            name: "x".to_owned(),
            flush: "does what it does".to_owned(),
            passes_flush,
        };
        stack.layers = vec![layer("fuse", None)];
        assert!(weakest(&stack).starts_with("sda caches writes"), "what is unseen may still be honest");
        stack.layers.push(layer("loop", Some(false)));
        assert_eq!(weakest(&stack), "loop on x: does what it does");
    }

    #[test]
    fn a_device_that_drops_flushes_over_a_disk_that_caches_is_warned_of() {
        let mut stack = on_disk(Some("write back"), Some("on"), false);
        let layer = |passes_flush| Layer {
            kind: "loop".to_owned(),
            name: "loop3".to_owned(),
            flush: "set to write through: the kernel drops flushes here".to_owned(),
            passes_flush,
        };
        stack.layers = vec![layer(Some(true))];
        assert!(codes(&stack).is_empty());
        stack.layers = vec![layer(Some(false))];
        let expected = Note::warning(
            NoteCode::BarriersOff,
            "no flush comes further than loop loop3: set to write through: the kernel drops flushes here"
                .to_owned(),
        );
        assert_eq!(notes(&stack), [expected]);
    }

    #[test]
    fn views_that_disagree_are_noted_each_with_its_meaning() {
        let hidden = on_disk(Some("write through"), Some("on"), false);
        assert_eq!(codes(&hidden), [NoteCode::ViewsDisagree]);
        assert!(notes(&hidden)[0].text.contains("sends no flush"));
        let idle = on_disk(Some("write back"), Some("off"), false);
        assert!(notes(&idle)[0].text.contains("its flushes do nothing"));
        assert!(codes(&on_disk(Some("write back"), Some("on"), false)).is_empty());
        assert_eq!(codes(&on_disk(Some("write back"), None, false)), [NoteCode::WriteCacheUnknown]);
        assert_eq!(codes(&on_disk(Some("write back"), None, true)), [NoteCode::VirtualDisk]);
    }

    #[test]
    fn a_preloaded_shim_is_named() {
        let note = preload_note(Some("/usr/lib/libfoo.so:/usr/lib/libeatmydata.so.1"), None);
        assert!(note.is_some_and(|note| note.text.starts_with("/usr/lib/libeatmydata.so.1 is preloaded")));
        assert!(preload_note(None, Some("/usr/lib/nosync/nosync.so\n")).is_some());
        assert!(preload_note(Some("/usr/lib/libjemalloc.so.2"), Some("")).is_none());
    }
}
