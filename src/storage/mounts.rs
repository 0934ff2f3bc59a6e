//! The mount table, and which mount a path is on. `st_dev` does not tell: btrfs and overlay files carry device numbers
//! that stand nowhere in the table.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::error::Error;
use super::root::Root;

/// One line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Its number.
    pub id: u32,
    /// The number of the mount it is mounted on.
    pub parent: u32,
    /// `MAJOR:MINOR`; major 0 is no block device.
    pub device: String,
    /// Where it is mounted.
    pub point: PathBuf,
    /// Options of the mount.
    pub options: Vec<String>,
    /// Type of the file system.
    pub file_system: String,
    /// What was mounted: a device, a dataset, a host, or just a word.
    pub source: PathBuf,
    /// Options of the file system.
    pub super_options: Vec<String>,
}

impl Mount {
    /// The value of a file-system option `name=value`, its escapes undone.
    pub fn super_value(&self, name: &str) -> Option<PathBuf> {
        let found =
            self.super_options.iter().find_map(|option| option.strip_prefix(name)?.strip_prefix('='))?;
        Some(path_of(&unescape(found.as_bytes())))
    }

    /// Whether the file system was mounted with this word.
    pub fn has_super_option(&self, word: &str) -> bool {
        self.super_options.iter().any(|option| option == word)
    }

    /// Mount and file-system options, each once, in the order of the table.
    pub fn all_options(&self) -> Vec<String> {
        let mut all = self.options.clone();
        for option in &self.super_options {
            if !all.contains(option) {
                all.push(option.clone());
            }
        }
        all
    }
}

/// Reads the mount table of a process: `self`, or a number.
pub fn table(root: &Root, process: &str) -> Result<Vec<Mount>, Error> {
    let path = root.at(format!("proc/{process}/mountinfo"));
    let bytes =
        fs::read(&path).map_err(|source| Error::Read { path: path.clone(), source: source.into() })?;
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .enumerate()
        .map(|(number, line)| {
            parse(line).ok_or_else(|| Error::Malformed { path: path.clone(), line: number + 1 })
        })
        .collect()
}

/// The mount a resolved path is on. The table is walked as the kernel walks the path: from the root mount down, always
/// through the first mount point met, the last mount on a point winning; so what a later mount hides is not found.
pub fn holding<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let is_top = |mount: &Mount| mount.parent == mount.id || !mounts.iter().any(|m| m.id == mount.parent);
    let mut here: Option<&Mount> = None;
    for _ in 0..=mounts.len() {
        let next = mounts
            .iter()
            .filter(|mount| match here {
                None => is_top(mount),
                Some(here) => mount.parent == here.id && mount.id != here.id,
            })
            .filter(|mount| path.starts_with(&mount.point))
            .enumerate()
            .min_by_key(|(order, mount)| (mount.point.as_os_str().len(), std::cmp::Reverse(*order)));
        match next {
            Some((_, mount)) => here = Some(mount),
            None => break,
        }
    }
    here
}

fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let mut next = || fields.next();
    let id = number(next()?)?;
    let parent = number(next()?)?;
    let device = text(next()?);
    let _root = next()?;
    let point = path_of(&unescape(next()?));
    let options = list(next()?);
    // Optional tags (`shared:1`, `master:2`) end at a single hyphen.
    while next()? != b"-" {}
    let file_system = text(&unescape(next()?));
    let source = path_of(&unescape(next()?));
    let super_options = list(next().unwrap_or_default());
    Some(Mount { id, parent, device, point, options, file_system, source, super_options })
}

fn number(field: &[u8]) -> Option<u32> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field).into_owned()
}

fn list(field: &[u8]) -> Vec<String> {
    text(field).split(',').filter(|option| !option.is_empty()).map(str::to_owned).collect()
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

/// Undoes the kernel's octal escapes (`\040` a space, `\011` a tab, `\012` a newline, `\134` a backslash).
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|digits| digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        match octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()) {
            Some(value) if byte == b'\\' => {
                out.push(value);
                rest = &after[3..];
            }
            _ => {
                out.push(byte);
                rest = after;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts(text: &str) -> Vec<Mount> {
        text.lines().map(|line| parse(line.as_bytes()).expect("a line of mountinfo")).collect()
    }

    fn id(mounts: &[Mount], path: &str) -> Option<u32> {
        holding(mounts, Path::new(path)).map(|mount| mount.id)
    }

    #[test]
    fn the_longest_mount_point_holds_the_path() {
        let table = mounts(
            "22 27 0:21 / /proc rw - proc proc rw\n\
             27 1 254:0 / / rw - ext4 /dev/vda rw\n\
             40 27 8:1 / /srv rw shared:7 master:2 - xfs /dev/sda1 rw\n\
             41 40 8:2 / /srv/pg rw - ext4 /dev/sda2 rw",
        );
        assert_eq!(id(&table, "/srv/pg/base"), Some(41));
        assert_eq!(id(&table, "/srv/pgx"), Some(40));
        assert_eq!(id(&table, "/proc/self"), Some(22));
        assert_eq!(id(&table, "/"), Some(27));
    }

    #[test]
    fn the_last_mount_on_a_point_wins_and_hides_what_lay_below() {
        let table = mounts(
            "27 1 254:0 / / rw - ext4 /dev/vda rw\n\
             40 27 8:1 / /a rw - xfs /dev/sda1 rw\n\
             41 40 8:2 / /a/b rw - xfs /dev/sda2 rw\n\
             42 40 8:3 / /a rw - xfs /dev/sda3 rw\n\
             50 27 8:4 / /p rw - xfs /dev/sda4 rw\n\
             51 27 8:5 / /p rw - xfs /dev/sda5 rw",
        );
        assert_eq!(id(&table, "/a/b/c"), Some(42));
        assert_eq!(id(&table, "/p/q"), Some(51));
    }

    #[test]
    fn octal_escapes_of_names_are_undone() {
        let table = mounts("27 1 8:1 / /my\\040disk\\134\\011x rw - ext4 /dev/a\\040b rw,x=1");
        assert_eq!(table[0].point, Path::new("/my disk\\\tx"));
        assert_eq!(table[0].source, Path::new("/dev/a b"));
        assert_eq!(table[0].super_value("x"), Some("1".into()));
    }

    #[test]
    fn a_path_outside_all_mounts_has_none() {
        assert_eq!(id(&mounts("40 27 8:1 / /a rw - xfs /dev/sda1 rw"), "/b"), None);
    }

    #[test]
    fn a_cut_line_is_no_mount() {
        assert_eq!(parse(b"27 1 8:1 / /a rw shared:1"), None);
    }
}
