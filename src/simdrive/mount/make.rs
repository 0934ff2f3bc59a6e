//! The file system: made, mounted, aged.

use std::path::Path;
use std::time::Duration;

use nix::mount::mount;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::plan::{Plan, tool};
use super::queue;
use crate::simdrive::error::{Attempt, Error};
use crate::simdrive::spec::FileSystem;
use crate::sys::mounts;
use crate::sys::tools::Tool;
use crate::sys::watch::Quiet;

/// Longest time for mkfs, at zero latency.
const MKFS_LIMIT: Duration = Duration::from_mins(1);
/// Trees that age a file system, and the files of each.
const TREES: u32 = 4;
const FILES: u32 = 60;
const LARGEST_FILE_BYTES: usize = 24 << 10;

/// Is the program there that makes this file system?
pub fn find_tool(file_system: FileSystem) -> Result<(), Error> {
    let tool = tool(file_system);
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|directory| directory.join(tool.program).is_file()) {
        return Ok(());
    }
    Err(Error::NoTool { tool: tool.program, package: tool.package })
}

/// mkfs on loop device `number`.
pub fn make_file_system(file_system: FileSystem, number: u32) -> Result<(), Error> {
    let tool = tool(file_system);
    let command = Tool::new(tool.program).args(tool.arguments).arg(queue::node(number)).limit(MKFS_LIMIT);
    command.run(&Quiet)?.success()?;
    Ok(())
}

/// Mounts it with the options of the plan.
pub fn mount_file_system(plan: &Plan<'_>, number: u32, target: &Path) -> Result<(), Error> {
    let (flags, rest) = plan.mount_options();
    let file_system = plan.spec.file_system.name();
    let mounted = mount(Some(&queue::node(number)), target, Some(file_system), flags, Some(rest.as_str()));
    mounted.map_err(|errno| {
        let options = plan.spec.mount_options.clone().unwrap_or_default();
        Error::Mount { file_system, options, target: target.to_owned(), errno }
    })
}

/// Lets the file system lose its first habits: a few trees are written and synced, each in place of the last (a fresh
/// btrfs takes full commits, which hides both cost and faults).
pub fn age(target: &Path, seed: u64) -> Result<(), Error> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut contents = vec![0; LARGEST_FILE_BYTES];
    random.fill(&mut contents[..]);
    let mut last = None;
    for tree in 0..TREES {
        let directory = target.join(format!("fsynclab-age-{tree}"));
        std::fs::create_dir(&directory).attempt("create directory", &directory)?;
        for file in 0..FILES {
            let path = directory.join(file.to_string());
            let length = random.random_range(0..=LARGEST_FILE_BYTES);
            std::fs::write(&path, &contents[..length]).attempt("write file", &path)?;
        }
        mounts::sync_file_system(target).attempt("synchronize file system of", target)?;
        if let Some(last) = last.replace(directory) {
            std::fs::remove_dir_all(&last).attempt("remove directory", &last)?;
        }
    }
    if let Some(last) = last {
        std::fs::remove_dir_all(&last).attempt("remove directory", &last)?;
    }
    mounts::sync_file_system(target).attempt("synchronize file system of", target)
}
