//! PostgreSQL clusters: directories that are theirs and must not be touched, and running ones that would feel a
//! neighbour.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::results::Stack;
use crate::sys::error::shown;

use super::error::Error;
use super::mounts;
use super::root::Root;
use super::stack::{stack_among, top_device};

/// What of a cluster a directory lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The data directory: `PG_VERSION` beside `global/pg_control`.
    Data,
    /// A tablespace: a directory `PG_15_202209061` in it.
    Tablespace,
    /// A WAL directory that lies apart from its cluster.
    Wal,
}

/// A directory that belongs to a cluster, running or not: nothing is written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The topmost directory of that part.
    pub directory: PathBuf,
    /// Which part it is.
    pub part: Part,
}

impl Claimed {
    /// The nearest directory outside of the claimed one on the same file system, stepping over directories named for a
    /// version; none where the claimed one is itself a mount point.
    pub fn beside(&self) -> Option<PathBuf> {
        let device = |path: &Path| fs::metadata(path).ok().map(|found| found.dev());
        let here = device(&self.directory)?;
        let is_version = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            !name.is_empty() && name.chars().all(|c| c.is_ascii_digit() || c == '.')
        };
        let outside = self
            .directory
            .ancestors()
            .skip(1)
            .take_while(|path| device(path) == Some(here))
            .collect::<Vec<_>>();
        let named = outside.iter().find(|path| !is_version(path));
        named.or(outside.first()).map(|path| path.to_path_buf())
    }
}

impl fmt::Display for Claimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.part {
            Part::Data => "the data directory of a cluster",
            Part::Tablespace => "a tablespace of a cluster",
            Part::Wal => "the WAL directory of a cluster",
        };
        write!(f, "\"{}\" is {what}", shown(&self.directory))
    }
}

/// Whether a path lies in a data directory, a tablespace or a WAL directory; looked for from the path upwards, links
/// resolved, so that `…/pg_wal` is found wherever it leads.
pub fn claimed(path: &Path) -> Result<Option<Claimed>, Error> {
    let resolved = Root::live().resolve(path)?;
    let mut found = None;
    for directory in resolved.ancestors() {
        if let Some(part) = part(directory) {
            found = Some(Claimed { directory: directory.to_owned(), part });
        }
    }
    Ok(found)
}

fn part(directory: &Path) -> Option<Part> {
    if directory.join("PG_VERSION").exists() && directory.join("global/pg_control").exists() {
        return Some(Part::Data);
    }
    let names = || fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
    if names().any(|name| is_tablespace_version(&name.to_string_lossy())) {
        return Some(Part::Tablespace);
    }
    let is_segment = |name: &str| name.len() == 24 && name.bytes().all(|b| b.is_ascii_hexdigit());
    let is_wal =
        directory.join("archive_status").is_dir() && names().any(|name| is_segment(&name.to_string_lossy()));
    is_wal.then_some(Part::Wal)
}

/// `PG_9.6_201608131`: server version and catalog version.
fn is_tablespace_version(name: &str) -> bool {
    let Some((version, catalog)) = name.strip_prefix("PG_").and_then(|rest| rest.split_once('_')) else {
        return false;
    };
    let numeric = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    numeric(version) && catalog.len() == 9 && catalog.bytes().all(|b| b.is_ascii_digit())
}

/// A running cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Its data directory, as its own processes name it.
    pub data_directory: PathBuf,
    /// Its postmaster.
    pub pid: u32,
    /// The data directory, the WAL directory where that is a link, and the tablespaces.
    directories: Vec<PathBuf>,
}

/// What a place and a running cluster have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sharing {
    /// A disk.
    Disk,
    /// The file system, and with it its journal.
    FileSystem,
}

/// The running clusters, found by their processes: the working directory of a server process is its data directory.
/// Processes of others do not tell it without privilege; then `-D` on the postmaster's command line is believed.
pub fn running(root: &Root) -> Vec<Cluster> {
    let mut found: Vec<Cluster> = Vec::new();
    for name in root.names("proc") {
        let Ok(pid) = name.parse::<u32>() else { continue };
        let is_server = root
            .text(format!("proc/{pid}/comm"))
            .is_some_and(|comm| matches!(comm.as_str(), "postgres" | "postmaster"));
        let Some(data_directory) = is_server.then(|| data_directory(root, pid)).flatten() else { continue };
        let inside = inside(root, pid, &data_directory);
        let postmaster = fs::read_to_string(inside.join("postmaster.pid")).ok();
        let postmaster = postmaster.and_then(|text| text.lines().next()?.trim().parse().ok()).unwrap_or(pid);
        if found.iter().any(|c| c.data_directory == data_directory && (c.pid == postmaster || c.pid == pid)) {
            continue;
        }
        let mut directories = vec![data_directory.clone()];
        let spaces = fs::read_dir(inside.join("pg_tblspc")).into_iter().flatten().flatten();
        let links = spaces.map(|entry| entry.path()).chain([inside.join("pg_wal"), inside.join("pg_xlog")]);
        directories.extend(links.filter_map(|link| fs::read_link(link).ok()).filter(|to| to.is_absolute()));
        found.push(Cluster { data_directory, pid: postmaster, directories });
    }
    found
}

fn data_directory(root: &Root, pid: u32) -> Option<PathBuf> {
    if let Ok(cwd) = fs::read_link(root.at(format!("proc/{pid}/cwd")))
        && inside(root, pid, &cwd).join("PG_VERSION").exists()
    {
        return Some(cwd);
    }
    let bytes = root.bytes(format!("proc/{pid}/cmdline"))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let mut arguments = text.split('\0').skip(1);
    while let Some(argument) = arguments.next() {
        match argument.strip_prefix("-D") {
            Some("") => return arguments.next().map(PathBuf::from),
            Some(path) => return Some(PathBuf::from(path)),
            None => {}
        }
    }
    None
}

/// A path of a process as we can open it: through its own root where it lives in another mount namespace.
fn inside(root: &Root, pid: u32, path: &Path) -> PathBuf {
    let relative = path.strip_prefix("/").unwrap_or(path);
    let theirs = root.at(format!("proc/{pid}/root")).join(relative);
    if theirs.exists() { theirs } else { root.at(path) }
}

/// The running clusters that share the file system or a disk with a place, each with the closest tie. `path` is the
/// place, `stack` what lies under it.
pub fn neighbours(path: &Path, stack: &Stack, root: &Root) -> Result<Vec<(Cluster, Sharing)>, Error> {
    let resolved = root.resolve(path)?;
    let own = top_device(&mounts::table(root, "self")?, &resolved);
    let mut found = Vec::new();
    for cluster in running(root) {
        let process = cluster.pid.to_string();
        let Ok(mounts) = mounts::table(root, &process).or_else(|_| mounts::table(root, "self")) else {
            continue;
        };
        let tie = cluster.directories.iter().filter_map(|directory| {
            if own.is_some() && top_device(&mounts, directory) == own {
                return Some(Sharing::FileSystem);
            }
            let theirs = stack_among(directory, &mounts, root).ok()?;
            let shared = theirs.disks.iter().any(|disk| stack.disks.iter().any(|own| own.name == disk.name));
            shared.then_some(Sharing::Disk)
        });
        if let Some(sharing) = tie.max() {
            found.push((cluster, sharing));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn make(base: &Path, files: &[&str]) {
        for file in files {
            let path = base.join(file);
            fs::create_dir_all(path.parent().expect("a file has a directory")).expect("make directory");
            fs::write(path, "").expect("write file");
        }
    }

    #[test]
    fn every_part_of_a_cluster_is_refused_and_the_directory_beside_it_is_not() {
        let temp = tempfile::tempdir().expect("temporary directory");
        let base = fs::canonicalize(temp.path()).expect("resolve");
        make(
            &base,
            &["pg/15/main/PG_VERSION", "pg/15/main/global/pg_control", "pg/15/main/base/1/PG_VERSION"],
        );
        make(
            &base,
            &["space/PG_15_202209061/5/1259", "wal/archive_status/x", "wal/000000010000000000000001"],
        );
        symlink(base.join("wal"), base.join("pg/15/main/pg_wal")).expect("link");
        let at = |path: &str| claimed(&base.join(path)).expect("resolves").map(|c| (c.part, c.directory));
        let data = Some((Part::Data, base.join("pg/15/main")));
        assert_eq!(at("pg/15/main"), data);
        assert_eq!(at("pg/15/main/base/1"), data);
        assert_eq!(at("pg/15/main/pg_wal"), Some((Part::Wal, base.join("wal"))));
        assert_eq!(at("space/PG_15_202209061/5"), Some((Part::Tablespace, base.join("space"))));
        assert_eq!(at("pg/15"), None);
        let claim = claimed(&base.join("pg/15/main/base")).expect("resolves").expect("is claimed");
        assert_eq!(claim.beside(), Some(base.join("pg")));
        assert!(claim.to_string().ends_with("/pg/15/main\" is the data directory of a cluster"), "{claim}");
    }

    #[test]
    fn a_running_cluster_is_found_with_what_it_shares() {
        let temp = tempfile::tempdir().expect("temporary directory");
        let base = temp.path();
        let mountinfo = "27 1 0:30 / / rw - tmpfs root rw\n30 27 0:31 / /pg rw - tmpfs pg rw\n";
        make(
            base,
            &["pg/data/PG_VERSION", "proc/self/mountinfo", "proc/71/comm", "proc/90/comm", "proc/72/comm"],
        );
        fs::write(base.join("proc/self/mountinfo"), mountinfo).expect("write");
        fs::write(base.join("proc/71/comm"), "postgres\n").expect("write");
        fs::write(base.join("proc/72/comm"), "postgres\n").expect("write");
        fs::write(base.join("proc/90/comm"), "postmaster\n").expect("write");
        fs::write(base.join("proc/90/cmdline"), "postmaster\0-D\0/other\0").expect("write");
        fs::write(base.join("pg/data/postmaster.pid"), "71\n/pg/data\n").expect("write");
        symlink("/pg/data", base.join("proc/71/cwd")).expect("link");
        symlink("/pg/data", base.join("proc/72/cwd")).expect("link");
        let root = Root::captured(base);
        let clusters: Vec<_> = running(&root).into_iter().map(|c| (c.pid, c.data_directory)).collect();
        assert_eq!(clusters, [(71, PathBuf::from("/pg/data")), (90, PathBuf::from("/other"))]);
        let place = Path::new("/pg/place");
        let stack = super::super::stack(place, &root).expect("a stack");
        let near = neighbours(place, &stack, &root).expect("neighbours");
        assert_eq!(near.iter().map(|(c, s)| (c.pid, *s)).collect::<Vec<_>>(), [(71, Sharing::FileSystem)]);
    }
}
