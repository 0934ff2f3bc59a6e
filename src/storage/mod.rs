//! Floor 3: What lies under a path, and the write cache of the disks there.
