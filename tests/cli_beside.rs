//! Beside a running cluster: gentle by itself, and never in its directories.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{fsynclab, root_or_skip, run, scratch, text};
use fsynclab::results::{NoteCode, text as form};
use tempfile::TempDir;

/// A running cluster of the newest server installed; ended with its directory.
struct Cluster {
    work: TempDir,
    bin: PathBuf,
}

impl Cluster {
    fn start() -> Self {
        let versions =
            fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL's servers: apt-get install postgresql");
        let newest = versions.flatten().map(|entry| entry.path()).max().expect("a server");
        let work = scratch("beside");
        run("chown", &[Path::new("postgres"), work.path()]);
        let cluster = Self { work, bin: newest.join("bin") };
        cluster.tool("initdb", &["-A", "trust"]);
        let options =
            format!("-c listen_addresses='' -c unix_socket_directories={}", cluster.work.path().display());
        let log = cluster.work.path().join("log");
        cluster.tool("pg_ctl", &["-w", "-l", log.to_str().expect("text"), "-o", &options, "start"]);
        cluster
    }

    fn data(&self) -> PathBuf {
        self.work.path().join("data")
    }

    fn tool(&self, tool: &str, arguments: &[&str]) {
        let (tool, data) = (self.bin.join(tool), self.data());
        let mut words =
            vec!["-u", "postgres", "--", tool.to_str().expect("text"), "-D", data.to_str().expect("text")];
        words.extend(arguments);
        run("runuser", &words);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.tool("pg_ctl", &["-w", "-m", "immediate", "stop"]);
    }
}

#[test]
fn a_run_beside_a_cluster_is_gentle_and_stays_out_of_it() {
    if !root_or_skip("a_run_beside_a_cluster_is_gentle_and_stays_out_of_it") {
        return;
    }
    let cluster = Cluster::start();
    let here = cluster.work.path().join("here");
    fs::create_dir(&here).expect("a directory");
    let state = cluster.work.path().join("state");
    let copy = |arguments: &[&str], place: &Path| {
        let mut command = fsynclab(&state);
        command.args(["copy", "--rounds", "1", "--json", "-", "--into"]).arg(place).args(arguments);
        command.output().expect("the program")
    };

    let output = copy(&["--policy", "immediate,syncfs"], &here);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let document = form::read(&output.stdout).expect("a document");
    let note = document.notes.iter().find(|note| note.code == NoteCode::BesideServer).expect("a note");
    assert!(note.text.contains(&cluster.data().display().to_string()), "{note:?}");
    let refused = document.arms[1].refused.as_ref().expect("syncfs stalls a neighbour");
    assert!(refused.code == "beside-server" && refused.text.contains("--beside-server"), "{refused:?}");
    assert!(common::told(&output).contains("gently"), "{}", text(&output));

    let output = copy(&["--policy", "immediate,syncfs", "--beside-server"], &here);
    let document = form::read(&output.stdout).expect("a document");
    assert_eq!(document.arms[1].samples.len(), 2, "{}", text(&output));

    for inside in ["", "pg_wal", "base/1"] {
        let output = copy(&[], &cluster.data().join(inside));
        assert_eq!(output.status.code(), Some(3), "{inside}: {}", text(&output));
    }
    assert_eq!(fs::read_dir(&here).expect("the place").count(), 0, "something is left");
}
