//! From a path down to the disks: mount, file system, partitions, device mapper, md, loop devices and what they lie on.

use std::collections::BTreeSet;
use std::path::Path;

use crate::results::{Disk, Layer, Stack};
use crate::sys::error::shown;

use super::disk::disk;
use super::error::Error;
use super::file_systems::{self, Below};
use super::mounts::{self, Mount};
use super::root::Root;

/// What lies under `path`, top first. Reads `/proc` and `/sys` only: no privilege, and nothing that could hang on a
/// file system that does not answer. The drives' own view of their caches is not asked here: see
/// [`ask_drives`](super::ask_drives).
pub fn stack(path: &Path, root: &Root) -> Result<Stack, Error> {
    let resolved = root.resolve(path)?;
    stack_among(&resolved, &mounts::table(root, "self")?, root)
}

/// The same for a resolved path among given mounts.
pub(super) fn stack_among(resolved: &Path, mounts: &[Mount], root: &Root) -> Result<Stack, Error> {
    let mut walk = Walk {
        root,
        mounts,
        stack: Stack::default(),
        seen: BTreeSet::new(),
        above: Vec::new(),
        loops: 0,
        barriers: Vec::new(),
    };
    let node = resolved.strip_prefix("/dev").ok().and_then(Path::to_str).map(|node| node.replace('/', "!"));
    match node.filter(|name| root.has(format!("sys/class/block/{name}"))) {
        Some(name) => walk.device(&name),
        None => walk.directory(resolved)?,
    }
    let Walk { mut stack, barriers, .. } = walk;
    stack.barriers = match barriers {
        found if found.contains(&Some(false)) => Some(false),
        found if found.is_empty() || found.contains(&None) => None,
        _ => Some(true),
    };
    Ok(stack)
}

/// The device number of the file system that holds a resolved path: the same number, the same file system.
pub(super) fn top_device(mounts: &[Mount], resolved: &Path) -> Option<String> {
    mounts::holding(mounts, resolved).map(|mount| mount.device.clone())
}

struct Walk<'a> {
    root: &'a Root,
    mounts: &'a [Mount],
    stack: Stack,
    /// Mount numbers and device names already walked: nothing is walked twice, so the walk ends.
    seen: BTreeSet<String>,
    /// Mounts from the top down to here.
    above: Vec<u32>,
    /// Loop devices from the top down to here.
    loops: usize,
    /// Of every file system met that keeps its bytes on devices.
    barriers: Vec<Option<bool>>,
}

impl Walk<'_> {
    fn directory(&mut self, path: &Path) -> Result<(), Error> {
        let mount =
            mounts::holding(self.mounts, path).ok_or_else(|| Error::NoMount { path: path.to_owned() })?;
        if self.above.contains(&mount.id) {
            // The path was written down in another mount namespace (a container): it does not mean anything here.
            self.push("unknown", shown(path), "lies in another mount namespace: not visible here", None);
            return Ok(());
        }
        if !self.seen.insert(format!("mount {}", mount.id)) {
            return Ok(());
        }
        self.above.push(mount.id);
        let found = file_systems::describe(self.root, mount);
        if self.stack.file_system.is_empty() {
            self.stack.file_system.clone_from(&mount.file_system);
            self.stack.mount_point = shown(&mount.point);
            self.stack.mount_options = mount.all_options();
        }
        // The file system the files lie in: the first that is no overlay.
        if self.barriers.is_empty() {
            self.stack.journal = found.journal;
        }
        self.push(&mount.file_system, shown(&mount.point), found.flush, found.passes_flush);
        match found.below {
            Below::Directory(upper) => self.directory(&upper)?,
            Below::Nothing => {}
            Below::Devices(names) => {
                self.barriers.push(found.barriers);
                for name in names {
                    self.device(&name);
                }
            }
        }
        self.above.pop();
        Ok(())
    }

    fn device(&mut self, name: &str) {
        if !self.seen.insert(format!("device {name}")) {
            return;
        }
        let Some(place) = self.root.follow(format!("sys/class/block/{name}")) else {
            self.push("unknown", name, "the kernel shows nothing of it", None);
            return;
        };
        let within = |part: &str| place.join(part);
        let slaves = self.root.names(within("slaves"));
        if self.root.has(within("partition")) {
            self.push("partition", name, "passes a flush on to its disk", Some(true));
            if let Some(whole) = place.parent().and_then(Path::file_name).and_then(|n| n.to_str()) {
                self.device(whole);
            }
        } else if let Some(file) = self.root.path(within("loop/backing_file")) {
            self.looped(name, &place, &file);
        } else if self.root.has(within("dm")) {
            let uuid = self.root.text(within("dm/uuid")).unwrap_or_default();
            let label = self.root.text(within("dm/name")).unwrap_or_default();
            if uuid.starts_with("mpath-") {
                self.multipath(name, &label, &slaves);
            } else {
                let (kind, flush) = mapped(&uuid);
                self.over(layer(kind, format!("{name} ({label})"), flush, Some(true)), &place, &slaves);
            }
        } else if self.root.has(within("md")) {
            let level = self.root.text(within("md/level")).unwrap_or_default();
            let flush = "passes a flush on to every member";
            self.over(layer("md", format!("{name} ({level})"), flush, Some(true)), &place, &slaves);
        } else if !slaves.is_empty() {
            let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
            let flush = "what it does with a flush is not known here";
            self.over(layer(kind, name, flush, None), &place, &slaves);
        } else {
            self.found(disk(self.root, name, &place));
        }
    }

    fn found(&mut self, disk: Disk) {
        if self.loops == 0 {
            let own = std::slice::from_ref(&disk.name);
            let counted = if disk.paths.is_empty() { own } else { &disk.paths };
            self.stack.counted.extend_from_slice(counted);
        }
        self.stack.disks.push(disk);
    }

    /// A device made of others. The block layer answers flushes itself where a queue says `write through`: a wrong
    /// setting of an upper device hides the caches below from every flush.
    fn over(&mut self, made: Layer, place: &Path, slaves: &[String]) {
        let (at, first) = (self.stack.layers.len(), self.stack.disks.len());
        self.stack.layers.push(made);
        for slave in slaves {
            self.device(slave);
        }
        let through = self.root.text(place.join("queue/write_cache")).as_deref() == Some("write through");
        let caches = |view: &Option<String>| view.as_deref() == Some("write back");
        if through && self.stack.disks[first..].iter().any(|disk| caches(&disk.write_cache.kernel)) {
            let layer = &mut self.stack.layers[at];
            "set to write through over disks that cache: the kernel drops flushes here"
                .clone_into(&mut layer.flush);
            layer.passes_flush = Some(false);
        }
    }

    /// dm-multipath: several devices, one disk.
    fn multipath(&mut self, name: &str, label: &str, slaves: &[String]) {
        let full = format!("{name} ({label})");
        self.push("multipath", full, "sends a flush down one path of the disk", Some(true));
        let Some(first) = slaves.first() else { return };
        if let Some(place) = self.root.follow(format!("sys/class/block/{first}")) {
            let mut found = disk(self.root, first, &place);
            found.paths = slaves.to_vec();
            self.found(found);
        }
    }

    /// A loop device turns a flush into an fsync of its file. Where no disk is found below (FUSE, memory), the loop
    /// device itself stands as the disk: its counters are the only ones.
    fn looped(&mut self, name: &str, place: &Path, file: &Path) {
        let drops = self.root.text(place.join("queue/write_cache")).as_deref() == Some("write through");
        let flush = if drops {
            "set to write through: the kernel drops flushes here".to_owned()
        } else {
            format!("makes an fsync of {} of a flush", shown(file))
        };
        self.push("loop", name, flush, Some(!drops));
        if self.loops == 0 {
            self.stack.counted.push(name.to_owned());
        }
        self.loops += 1;
        let first = self.stack.disks.len();
        if self.directory(file).is_err() {
            self.push("unknown", shown(file), "lies in another mount namespace: not visible here", None);
        }
        if self.stack.disks.len() == first {
            self.found(disk(self.root, name, place));
        }
        self.loops -= 1;
    }

    fn push(
        &mut self,
        kind: &str,
        name: impl Into<String>,
        flush: impl Into<String>,
        passes_flush: Option<bool>,
    ) {
        self.stack.layers.push(layer(kind, name, flush, passes_flush));
    }
}

fn layer(kind: &str, name: impl Into<String>, flush: impl Into<String>, passes_flush: Option<bool>) -> Layer {
    Layer { kind: kind.to_owned(), name: name.into(), flush: flush.into(), passes_flush }
}

/// Kind and words of a device-mapper device, from the prefix its maker puts into the uuid (the table itself is only
/// told to root).
fn mapped(uuid: &str) -> (&'static str, &'static str) {
    match uuid.split('-').next() {
        Some("LVM") if uuid.ends_with("-tpool") || uuid.ends_with("-pool") => {
            ("lvm", "commits its own metadata, then passes a flush on to its disks")
        }
        Some("LVM") => ("lvm", "passes a flush on to all its disks"),
        Some("CRYPT") => ("crypt", "passes a flush on"),
        Some(part) if part.starts_with("part") => ("partition", "passes a flush on to its disk"),
        _ => ("dm", "passes a flush on to all its disks"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_this_test_lies_on_something() {
        let found = stack(Path::new("."), &Root::live()).expect("the current directory can be described");
        assert!(!found.file_system.is_empty() && !found.layers.is_empty(), "{found:#?}");
        assert_eq!(found.layers[0].kind, found.file_system);
    }
}
