//! `sim run`: a command with a drive mounted, its exit status, and nothing that outlives it.

mod sim;

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fsynclab::simdrive::Error;
use fsynclab::simdrive::mount::run_command;
use fsynclab::simdrive::spec::FileSystem;
use fsynclab::sys::watch::{Event, Quiet, Stop, Watch};
use nix::errno::Errno;
use nix::sys::signal::Signal;

fn run(script: &str, watch: &dyn Watch) -> Result<i32, Error> {
    let command: Vec<String> = ["sh", "-c", script].map(str::to_owned).to_vec();
    let journal = sim::journal();
    let status = run_command(sim::drive(&sim::spec(FileSystem::Ext4), &journal), &journal, &command, watch);
    assert!(journal.close().expect("the journal can be removed"), "something is left to be undone");
    status
}

/// Says stop when it is asked for the fifth time.
#[derive(Default)]
struct Impatient(AtomicU32);

impl Watch for Impatient {
    fn event(&self, _event: Event<'_>) {}

    fn stop(&self) -> Option<Stop> {
        (self.0.fetch_add(1, Ordering::SeqCst) == 4).then_some(Stop::Signal(Signal::SIGTERM as i32))
    }
}

#[test]
fn the_exit_status_is_the_commands() {
    assert_eq!(run("exit 7", &Quiet).expect("it runs"), 7);
    assert_eq!(run("exit 0", &Quiet).expect("it runs"), 0);
    assert_eq!(run("kill -KILL $$", &Quiet).expect("it runs"), 137);
}

#[test]
fn the_command_finds_the_drive_and_nobody_else_does() {
    let note = sim::directory().join(format!("note-{}", std::process::id()));
    let script = format!(
        "grep -q \" $FSYNCLAB_MOUNT ext4 \" /proc/mounts && echo x > $FSYNCLAB_MOUNT/file && \
         echo $FSYNCLAB_MOUNT > {}",
        note.display()
    );
    assert_eq!(run(&script, &Quiet).expect("it runs"), 0);
    let mount_point = std::fs::read_to_string(&note).expect("the command left a note");
    std::fs::remove_file(&note).expect("the note can be removed");
    assert!(!Path::new(mount_point.trim()).exists(), "{mount_point} is seen outside");
}

#[test]
fn what_the_command_left_running_ends_with_it() {
    let name = format!("4{}.5", std::process::id());
    assert_eq!(run(&format!("cd $FSYNCLAB_MOUNT; sleep {name} & exit 3"), &Quiet).expect("it runs"), 3);
    let processes = std::fs::read_dir("/proc").expect("/proc is there").flatten();
    let sleeping = processes
        .filter_map(|process| std::fs::read_to_string(process.path().join("cmdline")).ok())
        .any(|words| words.contains(&name));
    assert!(!sleeping, "sleep {name} still runs");
}

#[test]
fn a_command_that_is_not_there_is_told_and_no_drive_is_left() {
    let journal = sim::journal();
    let command = ["/no/such/program".to_owned()];
    let error = run_command(sim::drive(&sim::spec(FileSystem::Ext4), &journal), &journal, &command, &Quiet)
        .expect_err("no such program");
    assert!(journal.close().expect("the journal can be removed"), "something is left to be undone");
    assert!(matches!(error, Error::NoCommand { errno: Errno::ENOENT, .. }), "{error:?}");
    assert_eq!(error.to_string(), "could not run \"/no/such/program\": No such file or directory");
}

#[test]
fn a_command_that_is_to_stop_gets_the_signal() {
    let start = fsynclab::sys::clock::now_ns();
    assert_eq!(
        run("trap 'exit 5' TERM; while :; do sleep 0.01; done", &Impatient::default()).expect("it runs"),
        5
    );
    let took = Duration::from_nanos(fsynclab::sys::clock::now_ns() - start);
    assert!(took < Duration::from_secs(8), "it took {took:?}");
}
