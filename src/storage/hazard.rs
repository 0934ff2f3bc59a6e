//! What speaks against switching the write cache of a disk: others rely on it.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::results::Stack;
use crate::sys::error::shown;

use super::clusters;
use super::error::Error;
use super::mounts;
use super::root::Root;
use super::stack::{stack_among, top_device};

/// One thing that speaks against switching.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hazard {
    /// The root file system lies on the disk.
    Root {
        /// The disk.
        disk: String,
    },
    /// Another file system that is mounted lies on it.
    Mounted {
        /// The disk.
        disk: String,
        /// Where it is mounted.
        point: PathBuf,
    },
    /// A running cluster lies on it.
    Cluster {
        /// Its data directory.
        data_directory: PathBuf,
    },
    /// The cache was found off, and whoever switched it off had a reason.
    WasOff {
        /// The disk.
        disk: String,
    },
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root { disk } => write!(f, "{disk} carries the root file system"),
            Self::Mounted { disk, point } => {
                write!(f, "{disk} also carries the file system on \"{}\"", shown(point))
            }
            Self::Cluster { data_directory } => {
                write!(f, "the cluster in \"{}\" is running on it", shown(data_directory))
            }
            Self::WasOff { disk } => write!(f, "that of {disk} was found off"),
        }
    }
}

/// All that relies on the disks of a stack besides the file system of `path` itself.
pub fn hazards(path: &Path, stack: &Stack, root: &Root) -> Result<Vec<Hazard>, Error> {
    let resolved = root.resolve(path)?;
    let mounts = mounts::table(root, "self")?;
    let own = top_device(&mounts, &resolved);
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for mount in &mounts {
        if !seen.insert(&mount.device) {
            continue;
        }
        let Ok(theirs) = stack_among(&mount.point, &mounts, root) else { continue };
        let is_root = mount.point == Path::new("/");
        if Some(&mount.device) == own.as_ref() && !is_root {
            continue;
        }
        let shared = theirs.disks.iter().find(|theirs| stack.disks.iter().any(|own| own.name == theirs.name));
        if let Some(disk) = shared.map(|disk| disk.name.clone()) {
            found.push(if is_root {
                Hazard::Root { disk }
            } else {
                Hazard::Mounted { disk, point: mount.point.clone() }
            });
        }
    }
    for (cluster, _) in clusters::neighbours(path, stack, root)? {
        found.push(Hazard::Cluster { data_directory: cluster.data_directory });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::stack;

    fn found(tree: &str, path: &str) -> Vec<String> {
        let root = Root::captured(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/stacks").join(tree));
        let stack = stack(Path::new(path), &root).expect("a stack");
        let hazards = hazards(Path::new(path), &stack, &root).expect("hazards");
        hazards.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_root_disk_and_other_file_systems_of_a_disk_are_hazards_and_the_place_itself_is_not() {
        assert_eq!(found("sata", "/var/lib/postgresql"), ["sda carries the root file system"]);
        assert_eq!(found("md", "/srv/pg"), [""; 0]);
        assert_eq!(found("overlay", "/work"), ["vdb also carries the file system on \"/var/lib/up per\""]);
        let below = found("loop-on-btrfs", "/mnt/image");
        assert_eq!(below, ["vda carries the root file system"]);
        let beside = found("loop-on-btrfs", "/home");
        assert_eq!(
            beside,
            ["vda carries the root file system", "vda also carries the file system on \"/mnt/image\""]
        );
    }
}
