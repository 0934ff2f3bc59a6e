//! Arms that differ in the write cache of the disks below their place: any arm, run with the cache on or off.
//!
//! The disks are taken once a run; each trial turns them to its own state before anything else. Nothing is brought back
//! here: the old state stands in the run's journal and returns with it, on every way out.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::arm::{Arm, Halt, Trial};
use crate::place::Place;
use crate::results::{Bystander, CacheView, Failed, Labels, Note, Promise, Refused, Sample, Stack};
use crate::stats::Percentiles;
use crate::storage::{self, Cache, Care, Commands, Root, Switch};
use crate::sys::journal::Journal;

/// The label of an arm whose write cache is switched.
pub const WRITE_CACHE: &str = "write_cache";

/// The disks below a place, for arms that want their write cache in different states.
pub struct Caches<'a, C> {
    /// Or why the caches stay as they were found.
    switch: Result<RefCell<Switch>, String>,
    /// As the drives told it before the run; none where they do not agree or did not tell.
    found: Option<Cache>,
    /// As it was before the run, the drives asked.
    stack: Stack,
    /// Both views of each disk as last read back after turning it on, and off.
    read_back: RefCell<[Option<Vec<CacheView>>; 2]>,
    journal: &'a Journal,
    commands: &'a C,
}

impl<'a, C: Commands> Caches<'a, C> {
    /// Takes the disks below a place, unless others rely on them and it is not forced.
    pub fn below(
        place: &Place,
        states: &[Cache],
        force: bool,
        journal: &'a Journal,
        commands: &'a C,
    ) -> Self {
        let mut stack = place.stack().clone();
        storage::ask_drives(&mut stack, commands);
        let care = if force {
            Ok(Care::Force)
        } else {
            storage::hazards(place.directory(), &stack, &Root::live()).map(Care::Heed)
        };
        match care {
            Ok(care) => Self::of(&stack, states, care, journal, commands),
            Err(error) => Self::with(Err(error.to_string()), &stack, journal, commands),
        }
    }

    fn of(stack: &Stack, states: &[Cache], care: Care, journal: &'a Journal, commands: &'a C) -> Self {
        let taken = Switch::take(stack, states, care, commands);
        let switch = taken.map(RefCell::new).map_err(|error| match error.hint() {
            Some(hint) => format!("{error} ({hint})"),
            None => error.to_string(),
        });
        Self::with(switch, stack, journal, commands)
    }

    fn with(
        switch: Result<RefCell<Switch>, String>,
        stack: &Stack,
        journal: &'a Journal,
        commands: &'a C,
    ) -> Self {
        let read_back = RefCell::default();
        Self { switch, found: found(stack), stack: stack.clone(), read_back, journal, commands }
    }

    /// What lies under the place while the cache is in this state: as it was found, or both views of the disks as they
    /// were read back; none where no disk has been in it.
    pub fn stack_when(&self, state: Cache) -> Option<Stack> {
        let mut stack = self.stack.clone();
        match &self.read_back.borrow()[place_of(state)] {
            Some(views) => {
                for (disk, view) in stack.disks.iter_mut().zip(views) {
                    disk.write_cache = view.clone();
                }
            }
            None if self.found == Some(state) => {}
            None => return None,
        }
        Some(stack)
    }

    /// Why no arm can have the cache in this state; one that it was found in needs no switching.
    fn refused(&self, to: Cache) -> Option<Refused> {
        let text = self.switch.as_ref().err().filter(|_| self.found != Some(to))?;
        Some(Refused { code: "write-cache".to_owned(), text: text.clone() })
    }

    fn turn(&self, to: Cache) -> Result<(), Failed> {
        let Ok(switch) = &self.switch else { return Ok(()) };
        let mut switch = switch.borrow_mut();
        switch.turn(to, self.journal, self.commands).map_err(|error| Failed {
            text: error.to_string(),
            errno: None,
            call: None,
            path: None,
        })?;
        let views = switch.disks.iter().map(|disk| disk.after.clone()).collect();
        self.read_back.borrow_mut()[place_of(to)] = Some(views);
        Ok(())
    }
}

fn place_of(state: Cache) -> usize {
    usize::from(state == Cache::Off)
}

fn found(stack: &Stack) -> Option<Cache> {
    let all = |name: &str| stack.disks.iter().all(|disk| disk.write_cache.drive.as_deref() == Some(name));
    [Cache::On, Cache::Off].into_iter().find(|state| !stack.disks.is_empty() && all(state.name()))
}

/// An arm whose trials run with the write cache in one state.
pub struct CachedArm<'a, C> {
    arm: Box<dyn Arm + 'a>,
    to: Cache,
    caches: &'a Caches<'a, C>,
}

impl<'a, C: Commands> CachedArm<'a, C> {
    /// This arm with the cache in that state.
    pub fn new(arm: Box<dyn Arm + 'a>, to: Cache, caches: &'a Caches<'a, C>) -> Self {
        Self { arm, to, caches }
    }
}

/// This arm with the cache in that state, or as it is where none is given.
pub fn in_state<'a, C: Commands>(
    arm: Box<dyn Arm + 'a>,
    state: Option<(Cache, &'a Caches<'a, C>)>,
) -> Box<dyn Arm + 'a> {
    match state {
        Some((to, caches)) => Box::new(CachedArm::new(arm, to, caches)),
        None => arm,
    }
}

impl<C: Commands> Arm for CachedArm<'_, C> {
    fn labels(&self) -> Labels {
        self.arm.labels().with(WRITE_CACHE, self.to.name())
    }

    fn title(&self) -> Option<String> {
        self.arm.title()
    }

    fn promise(&self) -> Option<Promise> {
        self.arm.promise()
    }

    fn refused(&self) -> Option<Refused> {
        self.arm.refused().or_else(|| self.caches.refused(self.to))
    }

    fn prepare(&mut self, trial: &Trial) -> Result<(), Halt> {
        self.caches.turn(self.to)?;
        self.arm.prepare(trial)
    }

    fn run(&mut self, trial: &Trial) -> Result<Sample, Halt> {
        self.arm.run(trial)
    }

    fn check(&mut self, trial: &Trial) -> Result<(), Halt> {
        self.arm.check(trial)
    }

    fn clear(&mut self, trial: &Trial) -> Result<(), Halt> {
        self.arm.clear(trial)
    }

    fn latency(&self) -> BTreeMap<String, Percentiles> {
        self.arm.latency()
    }

    fn bystander(&self) -> Option<Bystander> {
        self.arm.bystander()
    }

    fn comparable(&self) -> bool {
        self.arm.comparable()
    }

    fn notes(&self) -> Vec<Note> {
        self.arm.notes()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs::File;

    use super::*;
    use crate::lab::scripted::Scripted;
    use crate::results::Disk;
    use crate::storage::{DriveError, Hazard, Told};

    /// One disk that obeys.
    struct Obedient {
        cache: Cell<Cache>,
        switched: Cell<u32>,
    }

    impl Commands for Obedient {
        fn ask(&self, _: &Disk) -> Result<Told, DriveError> {
            Ok(Told { cache: Some(self.cache.get()), ..Told::default() })
        }

        fn recall(&self, _: &Disk) -> Option<Told> {
            None
        }

        fn set(&self, _: &Disk, to: Cache) -> Result<(), DriveError> {
            self.cache.set(to);
            self.switched.set(self.switched.get() + 1);
            Ok(())
        }

        fn flush(&self, _: &Disk) -> Result<(), DriveError> {
            Ok(())
        }

        fn rescan(&self, _: &Disk) -> Result<(), DriveError> {
            Ok(())
        }

        fn kernel_view(&self, _: &Disk) -> Option<String> {
            None
        }

        fn lock(&self, disk: &Disk) -> Result<File, DriveError> {
            File::open("/dev/null").map_err(|_| DriveError::NothingToAsk { kind: disk.kind.clone() })
        }
    }

    fn stack() -> Stack {
        let mut disk = Disk { name: "sda".to_owned(), serial: Some("S1".to_owned()), ..Disk::default() };
        disk.write_cache.drive = Some("on".to_owned());
        Stack { file_system: "ext4".to_owned(), disks: vec![disk], ..Stack::default() }
    }

    const BOTH: [Cache; 2] = [Cache::On, Cache::Off];
    const TRIAL: Trial = Trial { round: 1, position: 1, ignored: false, seed: 1 };

    #[test]
    fn each_trial_has_the_cache_in_its_own_state_and_the_journal_knows_the_old_one() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let journal = Journal::create(state.path()).expect("a journal");
        let drive = Obedient { cache: Cell::new(Cache::On), switched: Cell::new(0) };
        let caches = Caches::of(&stack(), &BOTH, Care::Heed(Vec::new()), &journal, &drive);
        let arm = |to| CachedArm::new(Box::new(Scripted::new("immediate", &[5])), to, &caches);
        let (mut on, mut off) = (arm(Cache::On), arm(Cache::Off));
        assert_eq!(off.labels().get(WRITE_CACHE), Some("off"));
        on.prepare(&TRIAL).expect("nothing to switch");
        assert_eq!((drive.switched.get(), journal.entries().len()), (0, 0));
        off.prepare(&TRIAL).expect("switched off");
        assert_eq!(drive.cache.get(), Cache::Off);
        on.prepare(&TRIAL).expect("switched on");
        assert_eq!(drive.cache.get(), Cache::On);
        off.prepare(&TRIAL).expect("switched off again");
        assert_eq!((drive.switched.get(), journal.entries().len()), (3, 1));
    }

    #[test]
    fn what_lies_below_in_a_state_is_what_was_read_back_there() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let journal = Journal::create(state.path()).expect("a journal");
        let drive = Obedient { cache: Cell::new(Cache::On), switched: Cell::new(0) };
        let caches = Caches::of(&stack(), &BOTH, Care::Heed(Vec::new()), &journal, &drive);
        let told = |state| {
            let stack = caches.stack_when(state)?;
            stack.disks[0].write_cache.drive.clone()
        };
        assert_eq!((told(Cache::On), told(Cache::Off)), (Some("on".to_owned()), None));
        caches.turn(Cache::Off).expect("switched off");
        assert_eq!((told(Cache::On), told(Cache::Off)), (Some("on".to_owned()), Some("off".to_owned())));
    }

    #[test]
    fn where_nothing_may_be_switched_the_arm_as_found_runs_and_the_other_is_refused() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let journal = Journal::create(state.path()).expect("a journal");
        let drive = Obedient { cache: Cell::new(Cache::On), switched: Cell::new(0) };
        let care = Care::Heed(vec![Hazard::Root { disk: "sda".to_owned() }]);
        let caches = Caches::of(&stack(), &BOTH, care, &journal, &drive);
        let arm = |to| CachedArm::new(Box::new(Scripted::new("immediate", &[5])), to, &caches);
        let (mut on, off) = (arm(Cache::On), arm(Cache::Off));
        assert_eq!(on.refused(), None);
        on.prepare(&TRIAL).expect("as it was found");
        let refused = off.refused().expect("refused");
        assert!(refused.text.contains("sda carries the root file system"), "{}", refused.text);
        assert_eq!(drive.switched.get(), 0);
    }
}
