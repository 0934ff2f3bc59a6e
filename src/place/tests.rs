use super::*;
use crate::sys::undo::{Undo, Undone};
use crate::sys::watch::{Event, Stop, Watch};
use std::time::Duration;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A directory on a real disk: the temporary one may be memory.
fn scratch() -> std::io::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix("fsynclab-place-").tempdir_in("/var/tmp")
}

fn refusal(directory: &Path) -> String {
    let error = Place::survey("p1", directory).expect_err("this must be refused");
    let hint = error.hint("fsynclab copy --into").unwrap_or_default();
    format!("{error}|{hint}")
}

#[test]
fn a_data_directory_and_all_below_it_is_refused_with_a_way_out() -> Outcome {
    let scratch = scratch()?;
    let data = scratch.path().join("15/main");
    fs::create_dir_all(data.join("global"))?;
    fs::create_dir_all(data.join("pg_wal"))?;
    fs::write(data.join("PG_VERSION"), "15\n")?;
    fs::write(data.join("global/pg_control"), "")?;
    let beside = fs::canonicalize(scratch.path())?;
    for directory in [data.clone(), data.join("pg_wal")] {
        let refusal = refusal(&directory);
        assert!(refusal.contains("is the data directory of a cluster"), "{refusal}");
        assert!(refusal.ends_with(&format!("fsynclab copy --into {}", beside.display())), "{refusal}");
    }
    Ok(())
}

#[test]
fn what_is_no_directory_is_refused() -> Outcome {
    let scratch = scratch()?;
    let file = scratch.path().join("file");
    fs::write(&file, "")?;
    assert!(refusal(&file).contains("is not a directory"));
    assert!(refusal(&scratch.path().join("none")).contains("none\": No such file or directory"));
    let disks = fs::read_dir("/sys/block")?;
    let device =
        disks.flatten().map(|disk| Path::new("/dev").join(disk.file_name())).find(|device| device.exists());
    let device = device.ok_or("this machine shows no block device in /dev")?;
    assert!(refusal(&device).contains("is a block device"));
    Ok(())
}

#[test]
fn a_run_directory_is_journalled_and_goes_with_what_is_in_it() -> Outcome {
    let scratch = scratch()?;
    let state = scratch.path().join("state");
    let journal = Journal::create(&state)?;
    let place = Place::survey("p1", scratch.path())?;
    let (directory, number) = place.enter(&["copy"], &journal)?;
    assert_eq!(journal.entries().iter().map(|entry| entry.n).collect::<Vec<_>>(), [number]);
    fs::create_dir(directory.path().join("copy"))?;
    assert_eq!(directory.undo()?, Undone::Now);
    assert!(!directory.path().exists());
    Ok(())
}

#[test]
fn writes_show_in_the_counters_of_a_known_disk() -> Outcome {
    let scratch = scratch()?;
    let place = Place::survey("p1", scratch.path())?;
    let Some(before) = place.counters() else {
        assert!(place.stack().counted.is_empty(), "a known disk has counters");
        return Ok(());
    };
    fs::write(scratch.path().join("file"), vec![7; 1 << 20])?;
    place.sync_file_system()?;
    let done = place.counters().ok_or("the disk went away")?.since(before);
    assert!(done.bytes_written >= 1 << 20, "{done:?}");
    Ok(())
}

#[test]
fn in_memory_nothing_can_be_promised() -> Outcome {
    let place = Place::survey("p1", Path::new("/dev/shm"))?;
    assert_eq!(place.promises_at_most(), Some(Promise::Nothing));
    assert_eq!(place.wait_until_idle(Duration::from_secs(5), &Stopping), Settled::Unknown);
    Ok(())
}

struct Stopping;

impl Watch for Stopping {
    fn event(&self, _event: Event<'_>) {}

    fn stop(&self) -> Option<Stop> {
        Some(Stop::Signal(15))
    }
}

#[test]
fn waiting_has_a_limit_and_hears_a_stop() -> Outcome {
    let scratch = scratch()?;
    let place = Place::survey("p1", scratch.path())?;
    if place.counters().is_some() {
        assert_eq!(place.wait_until_idle(Duration::from_secs(5), &Stopping), Settled::Stopped);
        assert_eq!(place.wait_until_idle(Duration::ZERO, &crate::sys::watch::Quiet), Settled::StillBusy);
    }
    Ok(())
}
