//! What belongs to others stays as it is, and what stands in the way ends a run at once: results files, pipes, journals,
//! limits, streams that were never there.

mod common;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use common::{fsynclab, root_or_skip, scratch, text, told};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use tempfile::TempDir;

/// A scratch directory with a place, a template and room for a state directory.
fn bed(name: &str) -> TempDir {
    let work = scratch(name);
    fs::create_dir(work.path().join("here")).expect("a place");
    fs::write(work.path().join("a.shape"), "fsynclab shape 1\n3 4096 PG_VERSION\n400000 8192 2619\nend 2\n")
        .expect("a shape");
    work
}

/// A small copy in the bed's place.
fn copy(work: &Path) -> Command {
    let mut command = fsynclab(&work.join("state"));
    command.arg("copy").arg(work.join("a.shape")).args(["--rounds", "1", "--warmup", "0"]);
    command.current_dir(work.join("here"));
    command
}

/// The same command line in a shell, after some words of the shell's.
fn in_shell(before: &str, command: &Command, after: &str) -> Output {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{before} \"$0\" \"$@\" {after}"));
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    shell.current_dir(command.get_current_dir().expect("a directory")).output().expect("a shell")
}

#[track_caller]
fn ends(output: &Output, status: i32, words: &str) {
    assert_eq!(output.status.code(), Some(status), "{}", text(output));
    assert!(told(output).contains(words), "{}", text(output));
}

#[track_caller]
fn is_empty(directory: &Path) {
    let left: Vec<_> = fs::read_dir(directory).into_iter().flatten().collect();
    assert!(left.is_empty(), "{}: {left:?}", directory.display());
}

#[test]
fn a_file_that_holds_no_results_is_never_replaced() {
    let work = bed("spared");
    let file = work.path().join("r.json");
    let link = work.path().join("link.json");
    symlink(&file, &link).expect("a link");
    fs::write(work.path().join("log"), "x").expect("a log");
    for content in ["16\n", "{\"schema\": \"other/1\"}", "\u{ff}"] {
        fs::write(&file, content).expect("a file");
        for json in [&file, &link] {
            for command in [&["copy"][..], &["drive"], &["probe"], &["sim", "price", "../log", "sata-2009"]] {
                let mut program = fsynclab(&work.path().join("state"));
                program.args(command).arg("--json").arg(json).current_dir(work.path().join("here"));
                let output = program.output().expect("the program");
                ends(&output, 3, "exists and is no results file hint: name another file");
                assert_eq!(fs::read_to_string(&file).expect("the file"), content);
            }
        }
    }
    is_empty(&work.path().join("state"));
}

#[test]
fn no_results_file_is_made_among_the_files_of_a_cluster() {
    let work = bed("pgdata");
    let data = work.path().join("data");
    fs::create_dir_all(data.join("global")).expect("a data directory");
    fs::write(data.join("PG_VERSION"), "16\n").expect("a version");
    fs::write(data.join("global/pg_control"), "x").expect("a control file");
    fs::write(data.join("global/1260"), "").expect("an empty relation");
    let link = work.path().join("link");
    symlink("data/global/new", &link).expect("a link");
    let within = ["r.json", "global/r.json", "PG_VERSION", "global/1260"].map(|name| data.join(name));
    for json in within.iter().chain([&link]) {
        let output = copy(work.path()).arg("--json").arg(json).output().expect("the program");
        ends(&output, 3, "is the data directory of a cluster");
    }
    assert_eq!(fs::read_dir(&data).expect("the data directory").count(), 2);
}

#[test]
fn a_replaced_results_file_keeps_its_owner() {
    if !root_or_skip("a_replaced_results_file_keeps_its_owner") {
        return;
    }
    let work = bed("owner");
    let file = work.path().join("r.json");
    fs::write(&file, "").expect("a file");
    chown(&file, Some(1), Some(2)).expect("an owner");
    let output = copy(work.path()).arg("--json").arg(&file).output().expect("the program");
    assert!(output.status.success(), "{}", text(&output));
    let found = fs::metadata(&file).expect("the file");
    assert_eq!((found.uid(), found.gid()), (1, 2));
    assert!(found.len() > 100);
}

#[test]
fn a_pipe_without_a_reader_is_waited_for_until_a_signal() {
    let work = bed("pipe");
    let pipe = work.path().join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).expect("a pipe");
    let mut program = fsynclab(&work.path().join("state"));
    program.args(["probe", "--time", "1s", "--only", "one8", "--json"]).arg(&pipe);
    program.arg(work.path().join("here")).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = program.spawn().expect("the program");
    // It has undone all and waits when its journal is gone again.
    let state = work.path().join("state");
    let journals = || fs::read_dir(&state).map_or(0, Iterator::count);
    while journals() == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    while journals() > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(Pid::from_raw(i32::try_from(child.id()).expect("a pid")), Signal::SIGTERM).expect("a living run");
    let output = child.wait_with_output().expect("the program");
    ends(&output, 143, "nobody reads it; SIGTERM");
}

#[test]
fn clean_takes_no_pipe_for_a_journal() {
    let work = bed("fifo");
    mkfifo(&work.path().join("x.journal"), Mode::S_IRWXU).expect("a pipe");
    let output = fsynclab(work.path()).args(["clean", "--yes"]).output().expect("the program");
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn a_directory_that_cannot_be_made_leaves_nothing_to_undo() {
    if !root_or_skip("a_directory_that_cannot_be_made_leaves_nothing_to_undo") {
        return;
    }
    let work = bed("unmade");
    let (place, through) = (work.path().join("here"), work.path().join("through"));
    fs::create_dir(&through).expect("a directory");
    let program = work.path().join("fsynclab");
    fs::copy(env!("CARGO_BIN_EXE_fsynclab"), &program).expect("a program others may run");
    let mode =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    mode(work.path(), 0o777);
    mode(&place, 0o711);
    mode(&through, 0o733);
    let as_nobody = |place: &Path| {
        let mut command = Command::new(&program);
        command.env("FSYNCLAB_STATE_DIR", work.path().join("state")).uid(65534).gid(65534);
        command.arg("copy").arg(work.path().join("a.shape")).args(["--rounds", "1", "--policy", "never"]);
        command.arg("--into").arg(place).current_dir("/").output().expect("the program")
    };
    let output = as_nobody(&place);
    ends(&output, 3, "Permission denied hint: name a directory that can be written");
    assert!(!told(&output).contains("could not undo"), "{}", text(&output));
    // It is made there, and the engine cannot list it: the arm fails, and nothing stays.
    let output = as_nobody(&through);
    ends(&output, 1, "");
    assert!(!told(&output).contains("could not undo"), "{}", text(&output));
    for directory in [place, through, work.path().join("state")] {
        is_empty(&directory);
    }
}

#[test]
fn a_read_only_results_directory_is_told_before_anything_runs() {
    if !root_or_skip("a_read_only_results_directory_is_told_before_anything_runs") {
        return;
    }
    let work = bed("readonly");
    fs::create_dir(work.path().join("ro")).expect("a directory");
    let mut command = copy(work.path());
    command.args(["--json", "../ro/r.json"]);
    let mounted = r#"exec unshare -m sh -c 'mount -t tmpfs -o ro none ../ro && exec "$0" "$@"'"#;
    let output = in_shell(mounted, &command, "");
    ends(&output, 1, "could not open file \"../ro/r.json\": Read-only file system");
    assert!(output.stdout.is_empty(), "{}", text(&output));
    is_empty(&work.path().join("state"));
}

#[test]
fn a_damaged_journal_stays_and_is_told() {
    let work = bed("damaged");
    let path = work.path().join("a.journal");
    let torn = "{\"n\":1,\"kind\":\"temporary-file\",\"data\":{\"path\":\"/no/such";
    for (content, words) in
        [(torn, "its last line is cut off"), ("garbage\n", "line 1: "), ("", "was emptied")]
    {
        fs::write(&path, "x").expect("a journal");
        std::thread::sleep(Duration::from_millis(20));
        fs::write(&path, content).expect("a journal");
        for arguments in [&["clean"][..], &["clean", "--yes"]] {
            let output = fsynclab(work.path()).args(arguments).output().expect("the program");
            ends(&output, 1, words);
            assert!(told(&output).contains("remove the journal by hand"), "{}", text(&output));
            assert!(!told(&output).contains("tries it again"), "{}", text(&output));
            assert_eq!(fs::read_to_string(&path).expect("the journal"), content);
        }
    }
}

#[test]
fn a_journal_that_never_had_an_entry_goes_when_it_is_asked_for() {
    let work = bed("unused");
    let path = work.path().join("state/a.journal");
    fs::create_dir(work.path().join("state")).expect("a state directory");
    fs::File::create(&path).expect("a journal");
    assert!(copy(work.path()).output().expect("the program").status.success());
    for (arguments, stays) in [(&["clean"][..], true), (&["clean", "--yes"], false)] {
        let output = fsynclab(&work.path().join("state")).args(arguments).output().expect("the program");
        assert!(output.status.success(), "{}", text(&output));
        assert_eq!(path.exists(), stays);
    }
}

#[test]
fn a_limit_on_file_sizes_is_an_error_of_the_arm() {
    let work = bed("limit");
    let tree = work.path().join("tree");
    fs::create_dir(&tree).expect("a tree");
    fs::write(tree.join("2619"), "x".repeat(400_000)).expect("a large file");
    let mut command = fsynclab(&work.path().join("state"));
    command.arg("copy").arg(tree).args(["--rounds", "1"]).current_dir(work.path().join("here"));
    let output = in_shell("ulimit -f 100; exec", &command, "");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("File too large"), "{}", text(&output));
    is_empty(&work.path().join("here"));
    is_empty(&work.path().join("state"));
}

#[test]
fn results_that_no_stdout_takes_are_a_failure() {
    let work = bed("shut");
    let mut help = fsynclab(work.path());
    help.arg("--help").current_dir(work.path());
    for command in [copy(work.path()), help] {
        for closed in [">&-", "1</dev/null"] {
            let output = in_shell("", &command, closed);
            ends(&output, 1, "could not write to standard output: Bad file descriptor");
        }
        assert!(in_shell("", &command, ">/dev/null").status.success());
    }
    is_empty(&work.path().join("state"));
}

#[test]
fn a_name_is_escaped_once() {
    let work = bed("escaped");
    let odd = work.path().join(std::ffi::OsStr::from_bytes(b"n\nl\"q\xff"));
    fs::create_dir(&odd).expect("a place");
    let output = copy(work.path()).arg("--into").arg(&odd).output().expect("the program");
    ends(&output, 0, r#"n\nl\"q\xff/.fsynclab-"#);
}
