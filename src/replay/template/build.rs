//! Makes the files of a shape. Contents are a ChaCha8 stream of the seed and the file's name: nothing compresses them,
//! and the same seed gives the same bytes at every place.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::replay::shape::{FileShape, Shape};
use crate::sys::kernel::{Call, Fault, Kernel, RangeFlags};
use crate::sys::watch::{Event, Phase, Stop, Unit, Watch};

const BUFFER_BYTES: usize = 256 << 10;

/// How what was made is put on disk, outside any clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildSync {
    /// One syncfs.
    FileSystem,
    /// Every file and directory alone, for a file system that others work on.
    EachFile,
}

/// Why the files are not there; what was made of them is left for the caller to remove.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A call failed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// Asked to stop, between two files.
    #[error("stopped: {0}")]
    Stopped(Stop),
}

/// Makes the directory `top`, which must not exist, and the shape's files in it, and syncs them.
pub fn build<K: Kernel>(
    kernel: &K,
    shape: &Shape,
    top: &Path,
    seed: u64,
    sync: BuildSync,
    watch: &dyn Watch,
) -> Result<(), BuildError> {
    watch.event(Event::Phase(Phase::Making));
    make_directory(top)?;
    for directory in &shape.directories {
        make_directory(&top.join(directory))?;
    }
    let (mut done, total) = (0, shape.bytes());
    let mut buffer = vec![0; BUFFER_BYTES];
    for file in &shape.files {
        go_on(watch)?;
        make_file(kernel, &top.join(&file.path), file, seed, &mut buffer)?;
        done += file.size_bytes;
        watch.event(Event::Progress { done, total, unit: Unit::Bytes });
    }
    match sync {
        BuildSync::FileSystem => {
            let directory = open(top)?;
            Ok(kernel.syncfs(directory.as_fd()).map_err(Fault::of(Call::Syncfs, top))?)
        }
        BuildSync::EachFile => sync_each(kernel, shape, top, watch),
    }
}

fn go_on(watch: &dyn Watch) -> Result<(), BuildError> {
    watch.stop().map_or(Ok(()), |stop| Err(BuildError::Stopped(stop)))
}

fn make_directory(path: &Path) -> Result<(), Fault> {
    DirBuilder::new().mode(0o700).create(path).map_err(Fault::of_io(Call::Mkdir, path))
}

fn open(path: &Path) -> Result<File, Fault> {
    File::open(path).map_err(Fault::of_io(Call::Openat, path))
}

fn make_file<K: Kernel>(
    kernel: &K,
    path: &Path,
    file: &FileShape,
    seed: u64,
    buffer: &mut [u8],
) -> Result<(), Fault> {
    let options = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut made = options.map_err(Fault::of_io(Call::Openat, path))?;
    let mut contents = contents(seed, &file.path);
    // Where the holes of a sparse file lie is not known: its data come first.
    let data_bytes =
        if file.is_sparse() { file.allocated_bytes.min(file.size_bytes) } else { file.size_bytes };
    let mut left = data_bytes;
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(BUFFER_BYTES).min(BUFFER_BYTES);
        contents.fill_bytes(&mut buffer[..length]);
        made.write_all(&buffer[..length]).map_err(Fault::of_io(Call::Write, path))?;
        left -= length as u64;
    }
    if data_bytes < file.size_bytes {
        made.set_len(file.size_bytes).map_err(Fault::of_io(Call::Ftruncate, path))?;
    }
    // Only a hint, so that the syncs that follow find little left: a place without it is as good.
    kernel.sync_file_range(made.as_fd(), 0, 0, RangeFlags::Write).unwrap_or_default();
    Ok(())
}

/// The byte stream of one file. The stream number is FNV-1a of the name, so files do not depend on each other.
fn contents(seed: u64, name: &Path) -> ChaCha8Rng {
    let hash = name.as_os_str().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut stream = ChaCha8Rng::seed_from_u64(seed);
    stream.set_stream(hash);
    stream
}

fn sync_each<K: Kernel>(kernel: &K, shape: &Shape, top: &Path, watch: &dyn Watch) -> Result<(), BuildError> {
    let files = shape.files.iter().map(|file| top.join(&file.path));
    let directories = shape.directories.iter().rev().map(|directory| top.join(directory));
    for path in files.chain(directories).chain([top.to_path_buf()]) {
        go_on(watch)?;
        let file = open(&path)?;
        kernel.fsync(file.as_fd()).map_err(Fault::of(Call::Fsync, &path))?;
    }
    Ok(())
}
