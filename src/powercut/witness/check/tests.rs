use super::*;
use crate::powercut::witness::event::Event;

const SESSION: u64 = 77;
const ONE: Number = 1;
const OTHER: Number = 2;
const NEXT: Number = 3;

fn create(file: Number, name: &str) -> Event {
    Event::Create { file, method: "fsync".to_owned(), directory: 0, name: name.to_owned() }
}

fn write(file: Number, generation: u32, first: u32, sectors: u32) -> Event {
    Event::Write { file, generation, first, sectors }
}

fn bytes(file: Number, writings: &[(u32, u32, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (generation, first, sectors) in writings {
        bytes.resize(bytes.len().max((first + sectors) as usize * SECTOR_BYTES), 0);
        for place in *first..first + sectors {
            let sector = Sector { session: SESSION, file, generation: *generation, place, seq: 9 };
            let start = place as usize * SECTOR_BYTES;
            sector.write(&mut bytes[start..start + SECTOR_BYTES]);
        }
    }
    bytes
}

/// Two files, durable: `one` has 8 sectors of generation 1, of which 4 were then written over; `other` has 8.
fn told() -> Vec<Event> {
    vec![
        create(ONE, "one"),
        write(ONE, 1, 0, 8),
        Event::Data { file: ONE },
        Event::Entries { directory: 0 },
        write(ONE, 2, 2, 4),
        Event::Data { file: ONE },
        create(OTHER, "other"),
        write(OTHER, 1, 0, 8),
        Event::Data { file: OTHER },
        Event::Entries { directory: 0 },
    ]
}

fn right(root: &Path) {
    std::fs::create_dir_all(root.join("w-0")).expect("made");
    std::fs::write(root.join("w-0/one"), bytes(ONE, &[(1, 0, 8), (2, 2, 4)])).expect("written");
    std::fs::write(root.join("w-0/other"), bytes(OTHER, &[(1, 0, 8)])).expect("written");
}

/// What is found when this was told beside, and this is done to what is right.
fn found(more: &[Event], spoil: impl FnOnce(&Path)) -> Vec<(Verdict, String, bool)> {
    let directory = tempfile::tempdir().expect("a directory");
    right(directory.path());
    let mut history = History::default();
    for event in told().into_iter().chain(more.iter().cloned()) {
        history.add(event);
    }
    spoil(&directory.path().join("w-0"));
    let checked = check(directory.path(), SESSION, &BTreeMap::from([(0, history)]));
    checked
        .findings
        .into_iter()
        .map(|(_, finding)| {
            (finding.verdict, format!("{}: {}", finding.path.display(), finding.detail), finding.promised)
        })
        .collect()
}

fn one(verdict: Verdict, words: &str) -> Vec<(Verdict, String, bool)> {
    vec![(verdict, format!("w-0/one: {words}"), true)]
}

fn put(at: usize, new: &[u8]) -> impl FnOnce(&Path) + use<> {
    let new = new.to_vec();
    move |root| {
        let mut bytes = std::fs::read(root.join("one")).expect("there");
        bytes.resize(bytes.len().max(at + new.len()), 0);
        bytes[at..at + new.len()].copy_from_slice(&new);
        std::fs::write(root.join("one"), bytes).expect("written");
    }
}

#[test]
fn what_is_as_it_was_told_is_kept() {
    assert_eq!(found(&[], |_| {}), []);
    let mut history = History::default();
    for event in told() {
        history.add(event);
    }
    let directory = tempfile::tempdir().expect("a directory");
    right(directory.path());
    let checked = check(directory.path(), SESSION, &BTreeMap::from([(0, history)]));
    assert_eq!(checked.acknowledged, BTreeMap::from([("fsync".to_owned(), 4)]), "two names, two files");
    assert_eq!(checked.judgement().verdict, "kept");
}

#[test]
fn what_was_never_synced_counts_as_lost_only_once_it_was_surely_written() {
    let directory = tempfile::tempdir().expect("a directory");
    right(directory.path());
    std::fs::write(directory.path().join("w-0/next"), bytes(NEXT, &[(1, 0, 4)])).expect("written");
    let name = "next".to_owned();
    let never = Event::Create { file: NEXT, method: "no-sync".to_owned(), directory: 0, name };
    let mut history = History::default();
    let mut unsynced = |events: Vec<Event>| {
        for event in events {
            history.add(event);
        }
        check(directory.path(), SESSION, &BTreeMap::from([(0, history.clone())])).unsynced
    };
    let made = [never, write(NEXT, 1, 0, 4), Event::Data { file: NEXT }, Event::Entries { directory: 0 }];
    let announced = [write(NEXT, 2, 0, 4), write(NEXT, 3, 1, 2)];
    let found = unsynced([&told()[..], &made, &announced].concat());
    assert_eq!((found.written, found.found), (0, 0), "its writer died before it wrote");
    let found = unsynced(vec![Event::Remove { directory: 0, name: "other".to_owned() }]);
    assert_eq!((found.written, found.found), (4, 0));
}

#[test]
fn every_sabotage_gives_its_own_verdict() {
    let flip = put(3 * SECTOR_BYTES + 300, &[0xff, 0, 0xff]);
    assert_eq!(found(&[], flip), one(Verdict::Torn, "part of a sector at byte 1536"));
    let swap = |root: &Path| {
        std::fs::copy(root.join("other"), root.join("one")).expect("copied");
    };
    assert_eq!(found(&[], swap), one(Verdict::Misplaced, "bytes of another file at byte 0"));
    let old = put(0, &bytes(ONE, &[(1, 0, 8)]));
    assert_eq!(found(&[], old), one(Verdict::Stale, "an older generation at byte 1024"));
    let remove = |root: &Path| std::fs::remove_file(root.join("one")).expect("there");
    assert_eq!(found(&[], remove), one(Verdict::NameLost, "not there"));
    let half = put(2 * SECTOR_BYTES, &bytes(ONE, &[(1, 0, 8)])[2 * SECTOR_BYTES..4 * SECTOR_BYTES]);
    assert_eq!(found(&[], half), one(Verdict::Torn, "part of a writing at byte 1024"));
    let zeros = put(2 * SECTOR_BYTES, &[0; 4 * SECTOR_BYTES]);
    assert_eq!(found(&[], zeros), one(Verdict::Lost, "zeros at byte 1024"));
    let foreign = put(2 * SECTOR_BYTES, &[7; 4 * SECTOR_BYTES]);
    assert_eq!(found(&[], foreign), one(Verdict::Lost, "bytes nobody wrote at byte 1024"));
    let moved = put(2 * SECTOR_BYTES, &bytes(ONE, &[(2, 2, 4)])[3 * SECTOR_BYTES..6 * SECTOR_BYTES]);
    assert_eq!(found(&[], moved), one(Verdict::Misplaced, "bytes of another place at byte 1024"));
    let empty = |root: &Path| std::fs::write(root.join("one"), "").expect("written");
    assert_eq!(found(&[], empty), one(Verdict::Lost, "size 0"));
    let never = put(0, &bytes(ONE, &[(9, 0, 1)]));
    assert_eq!(found(&[], never), one(Verdict::Misplaced, "a generation that was never announced at byte 0"));
    let all = |root: &Path| std::fs::remove_dir_all(root).expect("there");
    assert_eq!(found(&[], all), [(Verdict::NameLost, "w-0: not there".to_owned(), true)]);
}

#[test]
fn between_acknowledged_and_announced_everything_is_right_and_before_it_nothing() {
    let more = [write(ONE, 3, 0, 2), write(ONE, 4, 1, 9)];
    for now in [
        &[(1, 0, 8), (2, 2, 4)][..],
        &[(1, 0, 8), (2, 2, 4), (3, 0, 1)],
        &[(1, 0, 8), (2, 2, 4), (4, 1, 9)],
        &[(1, 0, 8), (2, 2, 4), (3, 0, 2), (4, 8, 1)],
    ] {
        assert_eq!(found(&more, put(0, &bytes(ONE, now))), [], "{now:?}");
    }
    let stale = put(0, &bytes(ONE, &[(1, 0, 8), (3, 0, 1)]));
    assert_eq!(found(&more, stale), one(Verdict::Stale, "an older generation at byte 1024"));
    let garbage = put(8 * SECTOR_BYTES, &[7; SECTOR_BYTES]);
    let unpromised = ("w-0/one: bytes nobody wrote at byte 4096".to_owned(), false);
    assert_eq!(found(&more, garbage), [(Verdict::Lost, unpromised.0, unpromised.1)]);
}

#[test]
fn names_are_judged_by_their_directory_and_data_by_their_file() {
    let removed = [Event::Remove { directory: 0, name: "one".to_owned() }];
    let remove = |root: &Path| std::fs::remove_file(root.join("one")).expect("there");
    assert_eq!((found(&removed, remove), found(&removed, |_| {})), (vec![], vec![]), "under way");
    let durably = [&removed[..], &[Event::Entries { directory: 0 }]].concat();
    assert_eq!(found(&durably, remove), []);
    assert_eq!(found(&durably, |_| {}), one(Verdict::Resurrected, "removed and synced, and there again"));

    let new = [create(NEXT, "new"), write(NEXT, 1, 0, 2), Event::Data { file: NEXT }];
    let put_new = |name: &'static str| {
        move |root: &Path| std::fs::write(root.join(name), bytes(NEXT, &[(1, 0, 2)])).expect("written")
    };
    assert_eq!((found(&new, |_| {}), found(&new, put_new("new"))), (vec![], vec![]), "no name is promised");
    let short = |root: &Path| std::fs::write(root.join("new"), bytes(NEXT, &[(1, 0, 1)])).expect("written");
    let torn = (Verdict::Torn, "w-0/new: part of a writing at byte 512".to_owned(), true);
    assert_eq!(found(&new, short), [torn], "what is found must be whole");

    let to = |name: &str| Event::Rename { file: NEXT, from: (0, "new".to_owned()), to: (0, name.to_owned()) };
    let replaced = [&new[..], &[to("one")]].concat();
    assert_eq!((found(&replaced, put_new("new")), found(&replaced, put_new("one"))), (vec![], vec![]));
    let durably = [&replaced[..], &[Event::Entries { directory: 0 }]].concat();
    assert_eq!(found(&durably, put_new("one")), []);
    let older = one(Verdict::Stale, "the file that had this name before at byte 0");
    assert_eq!(found(&durably, |_| {}), older, "the rename was lost");

    let named = [&new[..], &[Event::Entries { directory: 0 }, to("moved")]].concat();
    assert_eq!((found(&named, put_new("new")), found(&named, put_new("moved"))), (vec![], vec![]));
    let neither = "w-0/new: there neither as this nor under its new name".to_owned();
    assert_eq!(found(&named, |_| {}), [(Verdict::NameLost, neither, true)]);
}
