//! What the tests of runs on real servers look at from outside: what is left, what a run says of itself, when it is at work.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fsynclab::results::{Document, text};
use fsynclab::server::cluster::{Cluster, inside};

use super::common::{self, FileSystem, Image};

pub fn finished(command: &mut Command) -> Output {
    command.output().expect("the program")
}

pub fn document(path: &Path) -> Document {
    text::read(&std::fs::read(path).expect("results")).expect("a document")
}

pub fn nothing_left(place: &Path, when: &str) {
    let left: Vec<_> = std::fs::read_dir(place)
        .expect("place")
        .map(|entry| entry.expect("an entry").file_name())
        .filter(|name| name != "lost+found")
        .collect();
    assert!(left.is_empty(), "{when}: {left:?}");
    assert_eq!(inside(place).len(), 0, "{when}");
}

/// A file system of the test's own: beside other clusters a run leaves more room than a shared disk may have.
pub fn place(size: &str) -> Image {
    let image = Image::new(FileSystem::Ext4, size, "");
    std::fs::set_permissions(image.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("mode");
    image
}

pub fn databases_and_settings(cluster: &Cluster) -> Vec<Vec<String>> {
    let mut session = cluster.session("postgres").expect("session");
    let mut found = session.rows("SELECT datname FROM pg_database ORDER BY 1").expect("databases");
    found
        .extend(session.rows("SELECT name, setting FROM pg_file_settings ORDER BY seqno").expect("settings"));
    found
}

/// A run under way: its child of this name is at work.
pub fn under_way(command: &mut Command, child: &str) -> (Child, String) {
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a run");
    let end = Instant::now() + Duration::from_mins(2);
    while Instant::now() < end {
        if let Some(pid) = child_at_work(run.id(), child) {
            sleep(Duration::from_millis(300));
            return (run, pid);
        }
        sleep(Duration::from_millis(20));
    }
    run.kill().expect("killed");
    panic!("no {child} was started: {}", common::text(&run.wait_with_output().expect("its output")));
}

/// The process id of a child of this name, once it does more than tell its version.
fn child_at_work(parent: u32, child: &str) -> Option<String> {
    let children = Command::new("ps")
        .args(["--no-headers", "-o", "pid=,args=", "--ppid", &parent.to_string()])
        .output()
        .expect("ps");
    let text = String::from_utf8_lossy(&children.stdout).into_owned();
    let at_work = |line: &&str| line.contains(&format!("/{child} ")) && !line.contains("--version");
    Some(text.lines().find(at_work)?.split_whitespace().next()?.to_owned())
}
