//! Switching against disks that obey, lie, refuse, or are not believed by the kernel.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::sync::Mutex;

use nix::errno::Errno;
use tempfile::TempDir;

use super::super::drive::Told;
use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nature {
    Obeys,
    /// Says yes and changes nothing.
    Lies,
    /// Cannot be told anything.
    Refuses,
    /// Switches, but not back.
    Sticks,
}

struct Faked {
    cache: Option<Cache>,
    kernel: &'static str,
    nature: Nature,
    /// The kernel takes over what the drive says when it looks again; the NVMe driver does not.
    kernel_follows: bool,
}

struct Fake {
    disks: Mutex<BTreeMap<String, Faked>>,
    log: Mutex<Vec<String>>,
    nodes: TempDir,
}

impl Fake {
    fn new(disks: &[(&str, Nature, Option<Cache>)]) -> Self {
        let faked = disks.iter().map(|(name, nature, cache)| {
            let kernel = cache.unwrap_or(Cache::Off).kernel_words();
            ((*name).to_owned(), Faked { cache: *cache, kernel, nature: *nature, kernel_follows: true })
        });
        let nodes = tempfile::tempdir().expect("a temporary directory");
        Self { disks: Mutex::new(faked.collect()), log: Mutex::default(), nodes }
    }

    fn with<T>(&self, disk: &Disk, deed: &str, act: impl FnOnce(&mut Faked) -> T) -> T {
        self.log.lock().expect("the log").push(format!("{deed} {}", disk.name));
        act(self.disks.lock().expect("the disks").get_mut(&disk.name).expect("a known disk"))
    }

    fn cache(&self, name: &str) -> Option<Cache> {
        self.disks.lock().expect("the disks")[name].cache
    }

    fn deeds(&self) -> Vec<String> {
        let log = self.log.lock().expect("the log");
        log.iter().filter(|line| !line.starts_with("ask")).cloned().collect()
    }

    fn node(&self, disk: &Disk) -> PathBuf {
        self.nodes.path().join(&disk.name)
    }
}

impl Commands for Fake {
    fn ask(&self, disk: &Disk) -> Result<Told, DriveError> {
        Ok(self.with(disk, "ask", |faked| Told { cache: faked.cache, ..Told::default() }))
    }

    fn recall(&self, _: &Disk) -> Option<Told> {
        None
    }

    fn set(&self, disk: &Disk, to: Cache) -> Result<(), DriveError> {
        let node = self.node(disk);
        self.with(disk, &format!("set {to}"), |faked| {
            match faked.nature {
                Nature::Refuses => {
                    return Err(DriveError::NotSent { command: "SET FEATURES", node, errno: Errno::EPERM });
                }
                Nature::Lies => {}
                Nature::Sticks if to == Cache::On => {}
                Nature::Obeys | Nature::Sticks => faked.cache = Some(to),
            }
            Ok(())
        })
    }

    fn flush(&self, disk: &Disk) -> Result<(), DriveError> {
        self.with(disk, "flush", |_| Ok(()))
    }

    fn rescan(&self, disk: &Disk) -> Result<(), DriveError> {
        self.with(disk, "rescan", |faked| {
            if faked.kernel_follows {
                faked.kernel = faked.cache.unwrap_or(Cache::Off).kernel_words();
            }
            Ok(())
        })
    }

    fn kernel_view(&self, disk: &Disk) -> Option<String> {
        Some(self.disks.lock().expect("the disks")[&disk.name].kernel.to_owned())
    }

    fn lock(&self, disk: &Disk) -> Result<File, DriveError> {
        let node = self.node(disk);
        let file = File::create(&node).expect("a node");
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(DriveError::Locked { node }),
            Err(TryLockError::Error(source)) => Err(DriveError::Open { node, source: source.into() }),
        }
    }
}

fn disk(name: &str) -> Disk {
    Disk { name: name.to_owned(), serial: Some(format!("S-{name}")), ..Disk::default() }
}

fn stack(names: &[&str]) -> Stack {
    let disks = names.iter().map(|name| disk(name)).collect();
    Stack { file_system: "ext4".to_owned(), disks, ..Stack::default() }
}

fn journal() -> (TempDir, Journal) {
    let state = tempfile::tempdir().expect("a temporary directory");
    let journal = Journal::create(state.path()).expect("a journal");
    (state, journal)
}

fn switch(fake: &Fake, names: &[&str], to: Cache, journal: &Journal) -> Result<Switch, SwitchError> {
    write_cache(&stack(names), to, Care::Heed(Vec::new()), journal, fake)
}

#[test]
fn switching_off_flushes_around_it_reads_back_and_can_be_undone() {
    let fake = Fake::new(&[("sda", Nature::Obeys, Some(Cache::On))]);
    let (_state, journal) = journal();
    let done = switch(&fake, &["sda"], Cache::Off, &journal).expect("switched");
    assert_eq!(fake.deeds(), ["flush sda", "set off sda", "flush sda", "rescan sda"]);
    let views = (&done.disks[0].before, &done.disks[0].after);
    assert_eq!((views.0.kernel.as_deref(), views.0.drive.as_deref()), (Some("write back"), Some("on")));
    assert_eq!((views.1.kernel.as_deref(), views.1.drive.as_deref()), (Some("write through"), Some("off")));
    assert_eq!(journal.entries().len(), 1);
    let restored = done.restore(&journal, &fake).expect("restored");
    assert_eq!(restored[0].after, restored[0].before);
    assert_eq!(fake.cache("sda"), Some(Cache::On));
    assert!(journal.entries().is_empty());
}

#[test]
fn a_drive_that_lies_is_not_honoured_and_no_other_member_stays_switched() {
    let fake = Fake::new(&[("sda", Nature::Obeys, Some(Cache::On)), ("sdb", Nature::Lies, Some(Cache::On))]);
    let (_state, journal) = journal();
    let error = switch(&fake, &["sda", "sdb"], Cache::Off, &journal).expect_err("sdb lies");
    let expected = "not honoured: sdb was told to switch its write cache off and says that it is on";
    assert_eq!(error.to_string(), expected);
    assert_eq!(fake.cache("sda"), Some(Cache::On));
    assert!(journal.entries().is_empty());
}

#[test]
fn a_missing_privilege_is_told_with_its_remedy_and_leaves_nothing() {
    let fake = Fake::new(&[("sda", Nature::Refuses, Some(Cache::On))]);
    let (_state, journal) = journal();
    let error = switch(&fake, &["sda"], Cache::Off, &journal).expect_err("refused");
    assert!(error.to_string().ends_with("Operation not permitted"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("needs root")));
    assert!(journal.entries().is_empty());
}

#[test]
fn a_kernel_that_does_not_follow_is_shown_beside_the_drive() {
    let fake = Fake::new(&[("nvme0n1", Nature::Obeys, Some(Cache::On))]);
    fake.disks.lock().expect("the disks").get_mut("nvme0n1").expect("there").kernel_follows = false;
    let (_state, journal) = journal();
    let done = switch(&fake, &["nvme0n1"], Cache::Off, &journal).expect("switched");
    let after = &done.disks[0].after;
    assert_eq!((after.kernel.as_deref(), after.drive.as_deref()), (Some("write back"), Some("off")));
}

#[test]
fn a_second_run_on_the_same_disk_is_refused_until_the_first_is_over() {
    let fake = Fake::new(&[("sda", Nature::Obeys, Some(Cache::On))]);
    let (_state, journal) = journal();
    let first = switch(&fake, &["sda"], Cache::Off, &journal).expect("switched");
    let error = switch(&fake, &["sda"], Cache::Off, &journal).expect_err("locked");
    assert!(error.to_string().contains("another run is at work"), "{error}");
    first.restore(&journal, &fake).expect("restored");
    switch(&fake, &["sda"], Cache::Off, &journal).expect("free again");
}

#[test]
fn switching_on_what_was_found_off_needs_force() {
    let fake = Fake::new(&[("sda", Nature::Obeys, Some(Cache::Off))]);
    let (_state, journal) = journal();
    let error = switch(&fake, &["sda"], Cache::On, &journal).expect_err("a hazard");
    let expected = "the write cache was not switched: that of sda was found off";
    assert_eq!(error.to_string(), expected);
    assert!(fake.deeds().is_empty());
    write_cache(&stack(&["sda"]), Cache::On, Care::Force, &journal, &fake).expect("forced");
    assert_eq!(fake.cache("sda"), Some(Cache::On));
}

#[test]
fn a_hazard_refuses_what_would_change_something_and_nothing_else() {
    let fake = Fake::new(&[("sda", Nature::Obeys, Some(Cache::On))]);
    let (_state, journal) = journal();
    let heed = || Care::Heed(vec![Hazard::Root { disk: "sda".to_owned() }]);
    let ask = |to, care| write_cache(&stack(&["sda"]), to, care, &journal, &fake).map(drop);
    assert!(matches!(ask(Cache::Off, heed()), Err(SwitchError::Hazards { .. })));
    ask(Cache::On, heed()).expect("it is on already");
    assert!(fake.deeds().is_empty());
    ask(Cache::Off, Care::Force).expect("forced");
}

#[test]
fn a_disk_without_a_name_or_a_cache_is_left_alone() {
    let fake = Fake::new(&[("vda", Nature::Obeys, Some(Cache::On)), ("sdb", Nature::Obeys, None)]);
    let (_state, journal) = journal();
    let mut nameless = stack(&["vda"]);
    nameless.disks[0].serial = None;
    let error = write_cache(&nameless, Cache::Off, Care::Force, &journal, &fake).expect_err("no name");
    assert!(matches!(error, SwitchError::Unnamed { .. }));
    let error = switch(&fake, &["sdb"], Cache::On, &journal).expect_err("no cache");
    assert!(matches!(error, SwitchError::NoCache { .. }));
    switch(&fake, &["sdb"], Cache::Off, &journal).expect("nothing to switch");
    let error = switch(&fake, &[], Cache::Off, &journal).expect_err("no disk");
    assert_eq!(error.to_string(), "could not switch a write cache: no disk is known under ext4");
    assert!(fake.deeds().is_empty());
}

#[test]
fn what_cannot_be_switched_back_stays_in_the_journal() {
    let fake = Fake::new(&[("sda", Nature::Sticks, Some(Cache::On)), ("sdb", Nature::Lies, Some(Cache::On))]);
    let (_state, journal) = journal();
    let error = switch(&fake, &["sda", "sdb"], Cache::Off, &journal).expect_err("sdb lies, sda sticks");
    assert!(matches!(error, SwitchError::AndBack { .. }), "{error}");
    assert_eq!(journal.entries().len(), 1);
}

#[test]
fn after_a_kill_the_disk_is_found_by_its_serial_under_another_name() {
    let fake =
        Fake::new(&[("sdc", Nature::Obeys, Some(Cache::Off)), ("sda", Nature::Obeys, Some(Cache::Off))]);
    let journalled = SwitchedCache::of(&disk("sda"), Cache::On);
    assert_eq!(journalled.describe(), "write cache of disk with serial number S-sda: was on");
    let renamed = Disk { name: "sdc".to_owned(), ..disk("sda") };
    let other = Disk { name: "sda".to_owned(), ..disk("sdx") };
    let here = [other.clone(), renamed];
    assert_eq!(journalled.restore(&here, &fake).expect("restored"), Undone::Now);
    assert_eq!((fake.cache("sdc"), fake.cache("sda")), (Some(Cache::On), Some(Cache::Off)));
    assert_eq!(journalled.restore(&here, &fake).expect("twice"), Undone::Before);
    let error = journalled.restore(&[other], &fake).expect_err("gone");
    assert_eq!(error.to_string(), "could not find the disk with serial number S-sda: its write cache was on");
}

#[test]
fn a_serial_number_borne_by_several_disks_restores_none_of_them() {
    let fake =
        Fake::new(&[("sda", Nature::Obeys, Some(Cache::Off)), ("sdb", Nature::Obeys, Some(Cache::Off))]);
    let journalled = SwitchedCache::of(&disk("sda"), Cache::On);
    let twin = |name: &str, wwn: Option<&str>| Disk {
        name: name.to_owned(),
        wwn: wwn.map(str::to_owned),
        ..disk("sda")
    };
    let error = journalled.restore(&[twin("sda", None), twin("sdb", None)], &fake).expect_err("twins");
    assert!(matches!(error, SwitchError::Ambiguous { .. }), "{error}");
    assert!(fake.deeds().is_empty());
    let paths = [twin("sdb", Some("naa.5")), twin("sda", Some("naa.5"))];
    assert_eq!(journalled.restore(&paths, &fake).expect("two paths of one disk"), Undone::Now);
}

#[test]
fn a_run_turns_the_cache_to_and_fro_with_one_entry_in_its_journal() {
    let fake = Fake::new(&[("sda", Nature::Obeys, Some(Cache::On))]);
    let (_state, journal) = journal();
    let both = [Cache::On, Cache::Off];
    let mut taken = Switch::take(&stack(&["sda"]), &both, Care::Heed(Vec::new()), &fake).expect("taken");
    for to in [Cache::On, Cache::Off, Cache::Off, Cache::On, Cache::Off] {
        taken.turn(to, &journal, &fake).expect("turned");
        assert_eq!(fake.cache("sda"), Some(to));
    }
    assert_eq!(journal.entries().len(), 1);
    taken.restore(&journal, &fake).expect("restored");
    assert_eq!((fake.cache("sda"), journal.entries().len()), (Some(Cache::On), 0));
    let found_off = Fake::new(&[("sda", Nature::Obeys, Some(Cache::Off))]);
    let refused = Switch::take(&stack(&["sda"]), &both, Care::Heed(Vec::new()), &found_off);
    assert!(matches!(refused, Err(SwitchError::Hazards { .. })));
}
