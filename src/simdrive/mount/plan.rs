//! What a drive is to be, with everything looked up: its model, its settings, the program that makes its file system.

use nix::mount::MsFlags;

use crate::simdrive::error::{Attempt, Error};
use crate::simdrive::model::{Model, Options};
use crate::simdrive::models;
use crate::simdrive::spec::{FileSystem, Spec};

/// The model of a spec: a built-in one, or read from its file.
pub fn model_of(spec: &Spec) -> Result<Model, Error> {
    if !models::is_path(&spec.model) {
        return models::built_in(&spec.model);
    }
    let bytes = std::fs::read(&spec.model).attempt("read file", &spec.model)?;
    // What is no text is no TOML either, and its reader says where.
    let text = String::from_utf8_lossy(&bytes);
    models::parse(&spec.model, &text)
}

/// A spec, its model, and how that is set up.
#[derive(Debug)]
pub struct Plan<'a> {
    /// As it was asked for.
    pub spec: &'a Spec,
    /// Its model.
    pub model: Model,
    /// How the drive is set up.
    pub options: Options,
}

impl<'a> Plan<'a> {
    /// Looks everything up that a spec names.
    pub fn new(spec: &'a Spec, seed: u64) -> Result<Plan<'a>, Error> {
        let model = model_of(spec)?;
        let options = spec.options(&model, seed)?;
        Ok(Plan { spec, model, options })
    }

    /// Mount options as mount(2) takes them: flags, and the file system's own in the order given.
    pub fn mount_options(&self) -> (MsFlags, String) {
        split_options(self.spec.mount_options.as_deref().unwrap_or_default())
    }
}

/// How a file system is made.
#[derive(Debug)]
pub struct Tool {
    /// The program.
    pub program: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
    /// Its arguments before the device. Nothing is left for the kernel to initialise while trials run.
    pub arguments: &'static [&'static str],
}

/// The program that makes a file system.
pub const fn tool(file_system: FileSystem) -> Tool {
    match file_system {
        FileSystem::Ext4 => Tool {
            program: "mkfs.ext4",
            package: "e2fsprogs",
            arguments: &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
        },
        FileSystem::Xfs => Tool { program: "mkfs.xfs", package: "xfsprogs", arguments: &["-q", "-f"] },
        FileSystem::Btrfs => Tool { program: "mkfs.btrfs", package: "btrfs-progs", arguments: &["-q", "-f"] },
    }
}

/// Options that mount(2) takes as flags, as mount(8) spells them; all others are the file system's own.
const FLAGS: &[(&str, MsFlags)] = &[
    ("defaults", MsFlags::empty()),
    ("rw", MsFlags::empty()),
    ("ro", MsFlags::MS_RDONLY),
    ("nosuid", MsFlags::MS_NOSUID),
    ("nodev", MsFlags::MS_NODEV),
    ("noexec", MsFlags::MS_NOEXEC),
    ("sync", MsFlags::MS_SYNCHRONOUS),
    ("dirsync", MsFlags::MS_DIRSYNC),
    ("noatime", MsFlags::MS_NOATIME),
    ("nodiratime", MsFlags::MS_NODIRATIME),
    ("relatime", MsFlags::MS_RELATIME),
    ("strictatime", MsFlags::MS_STRICTATIME),
    ("lazytime", MsFlags::MS_LAZYTIME),
];

pub(super) fn split_options(options: &str) -> (MsFlags, String) {
    let mut flags = MsFlags::empty();
    let mut rest = Vec::new();
    for option in options.split(',').filter(|option| !option.is_empty()) {
        match FLAGS.iter().find(|(name, _)| *name == option) {
            Some((_, flag)) => flags |= *flag,
            None => rest.push(option),
        }
    }
    (flags, rest.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_leave_the_option_string_and_the_rest_keeps_its_order() {
        let (flags, rest) = split_options("noatime,nobarrier,rw,data=ordered,sync");
        assert_eq!(flags, MsFlags::MS_NOATIME | MsFlags::MS_SYNCHRONOUS);
        assert_eq!(rest, "nobarrier,data=ordered");
        assert_eq!(split_options(""), (MsFlags::empty(), String::new()));
    }
}
