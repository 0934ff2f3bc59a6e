use super::*;

/// Its undoing adds a line to a file, or fails if the file is not there.
#[derive(Serialize, Deserialize)]
struct Deed {
    log: PathBuf,
    name: String,
}

impl Undo for Deed {
    const KIND: &'static str = "deed";
    type Error = Fault;

    fn describe(&self) -> String {
        self.name.clone()
    }

    fn undo(&self) -> Result<Undone, Fault> {
        let log = OpenOptions::new().append(true).open(&self.log);
        let log = log.map_err(Fault::of_io(Call::Openat, &self.log))?;
        files::append(&log, &self.log, format!("{} ", self.name).as_bytes())?;
        Ok(Undone::Now)
    }
}

const TABLE: &UndoTable = &[UndoKind::of::<Deed>()];

fn deed(log: &Path, name: &str) -> Deed {
    Deed { log: log.to_path_buf(), name: name.to_owned() }
}

fn scene() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let directory = tempfile::tempdir().expect("directory");
    let (state, log) = (directory.path().join("a/state"), directory.path().join("log"));
    fs::write(&log, "").expect("log");
    (directory, state, log)
}

fn left(state: &Path) -> Vec<Journal> {
    let left = leftovers(state).expect("leftovers");
    assert!(left.unreadable.is_empty(), "{left:?}");
    left.journals
}

fn only(mut journals: Vec<Journal>) -> Journal {
    assert_eq!(journals.len(), 1);
    journals.remove(0)
}

#[test]
fn what_was_done_is_undone_last_made_first_and_the_empty_journal_goes() {
    let (_directory, state, log) = scene();
    let journal = Journal::create(&state).expect("create");
    journal.push(&deed(&log, "one")).expect("push");
    let two = journal.push(&deed(&log, "two")).expect("push");
    journal.push(&deed(&log, "three")).expect("push");
    journal.undo(two, &deed(&log, "two")).expect("undo");
    let outcomes = journal.undo_all(TABLE).expect("undo");
    assert!(outcomes.iter().all(|outcome| matches!(outcome.result, Ok(Undone::Now))));
    assert_eq!(fs::read_to_string(&log).expect("log"), "two three one ");
    assert!(journal.close().expect("close"));
    assert_eq!(fs::read_dir(&state).expect("state").count(), 0);
}

#[test]
fn a_dead_runs_journal_is_found_whole_and_a_living_ones_is_not() {
    let (_directory, state, log) = scene();
    assert!(left(&state).is_empty());
    let journal = Journal::create(&state).expect("create");
    let one = journal.push(&deed(&log, "one")).expect("push");
    journal.push(&deed(&log, "two")).expect("push");
    journal.done(one).expect("done");
    assert!(left(&state).is_empty());
    drop(journal);

    let found = only(left(&state));
    assert_eq!(found.entries()[0].describe(TABLE).expect("known"), "two");
    assert!(left(&state).is_empty());
    assert_eq!(found.push(&deed(&log, "three")).expect("push"), 3);
}

#[test]
fn what_fails_stays_and_does_not_hold_up_the_rest() {
    let (directory, state, log) = scene();
    let journal = Journal::create(&state).expect("create");
    journal.push(&deed(&log, "one")).expect("push");
    journal.push(&deed(&directory.path().join("gone"), "two")).expect("push");
    let outcomes = journal.undo_all(TABLE).expect("undo");
    let error = outcomes[0].result.as_ref().expect_err("gone").to_string();
    assert!(error.ends_with("gone\": No such file or directory"), "{error}");
    assert!(outcomes[1].result.is_ok());
    let unknown = journal.undo_all(&[]).expect("undo").remove(0).result.expect_err("unknown");
    assert_eq!(unknown.to_string(), "could not undo \"deed\": this version does not know it");
    assert!(!journal.close().expect("close"));
    assert_eq!(only(left(&state)).entries().len(), 1);
}

#[test]
fn a_journal_torn_at_any_byte_is_read_as_far_as_it_goes() {
    let (_directory, state, log) = scene();
    let journal = Journal::create(&state).expect("create");
    journal.push(&deed(&log, "one")).expect("push");
    journal.push(&deed(&log, "two")).expect("push");
    journal.done(2).expect("done");
    let path = journal.path().to_path_buf();
    drop(journal);
    let whole = fs::read(&path).expect("journal");
    for length in 0..=whole.len() {
        fs::write(&path, &whole[..length]).expect("torn");
        let lines = whole[..length].split(|byte| *byte == b'\n').count() - 1;
        let found = left(&state);
        let torn = found.first().is_some_and(|journal| journal.damage().is_some());
        let whole_line = length == 0 || whole[length - 1] == b'\n';
        assert_eq!(torn, length == 0 || !whole_line, "{length} bytes");
        let entries = found.first().map_or(0, |journal| journal.entries().len());
        assert_eq!(entries, [0, 1, 2, 1][lines], "{length} bytes");
        if let Some(journal) = found.first() {
            journal.push(&deed(&log, "later")).expect("what follows a torn line is whole");
        }
        drop(found);
        let found = only(left(&state));
        assert_eq!(found.entries().len(), entries + 1, "{length} bytes");
        assert!(!found.close().expect("kept"));
        assert!(path.exists());
    }
}

#[test]
fn a_damaged_journal_is_told_by_its_line_and_hides_no_other() {
    let (_directory, state, log) = scene();
    let journal = Journal::create(&state).expect("create");
    journal.push(&deed(&log, "one")).expect("push");
    files::append(&journal.file, &journal.path, b"{\"do\n").expect("damage");
    journal.push(&deed(&log, "after")).expect("push");
    drop(journal);
    let whole = Journal::create(&state).expect("create");
    whole.push(&deed(&log, "two")).expect("push");
    drop(whole);
    let left = leftovers(&state).expect("leftovers");
    let [damaged, whole] = left.journals.as_slice() else { panic!("{left:?}") };
    assert_eq!(whole.entries()[0].describe(TABLE).expect("known"), "two");
    assert_eq!(damaged.entries().len(), 2, "what can be read is undone");
    let error = damaged.damage().expect("damage").to_string();
    assert!(error.contains(".journal\", line 2: "), "{error}");
}

#[test]
fn a_state_directory_that_cannot_be_is_told_with_what_to_do() {
    let error = Journal::create(Path::new("/proc/fsynclab")).expect_err("proc");
    assert_eq!(
        error.to_string(),
        "could not keep a journal of what must be undone: could not create directory \"/proc/fsynclab\": \
         No such file or directory"
    );
    assert!(error.hint().expect("hint").contains("FSYNCLAB_STATE_DIR"));
}

#[test]
fn the_state_directory_is_the_first_that_applies() {
    let of = |root, set: &[(&str, &str)]| {
        let found = state_directory_of(root, |name| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| PathBuf::from(value))
        });
        found.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let home = ("HOME", "/home/me");
    assert_eq!(of(true, &[("FSYNCLAB_STATE_DIR", "/x"), home]), "/x");
    assert_eq!(of(true, &[("FSYNCLAB_STATE_DIR", ""), home]), "/var/lib/fsynclab");
    assert_eq!(of(false, &[("XDG_STATE_HOME", "/s"), home]), "/s/fsynclab");
    assert_eq!(of(false, &[("XDG_STATE_HOME", "s"), home]), "/home/me/.local/state/fsynclab");
    assert_eq!(of(false, &[]), "");
}

#[test]
fn a_journal_that_never_had_an_entry_may_go_and_an_emptied_one_is_told() {
    let (_directory, state, log) = scene();
    drop(Journal::create(&state).expect("create"));
    let unused = leftovers(&state).expect("leftovers");
    assert!(unused.journals.is_empty());
    for journal in unused.idle {
        assert!(journal.close().expect("close"));
    }
    let journal = Journal::create(&state).expect("create");
    journal.push(&deed(&log, "one")).expect("push");
    fs::write(journal.path(), "").expect("emptied");
    drop(journal);
    let damage = only(left(&state)).damage().map(ToString::to_string).expect("damage");
    assert!(damage.ends_with(".journal\" was emptied"), "{damage}");
}

#[test]
fn only_regular_files_are_journals_and_a_pipe_holds_nothing_up() {
    let (directory, state, _) = scene();
    fs::create_dir_all(&state).expect("state");
    nix::unistd::mkfifo(&state.join("pipe.journal"), Mode::S_IRWXU).expect("pipe");
    std::os::unix::fs::symlink(directory.path().join("log"), state.join("link.journal")).expect("link");
    assert!(left(&state).is_empty());
    assert!(reopen(state.join("pipe.journal")).expect("opened").is_none());
}
