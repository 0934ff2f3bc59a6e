//! Other people's pg_test_fsync output on the command line: read, judged, compared.

mod common;

use std::path::{Path, PathBuf};
use std::process::Output;

use common::{FileSystem, Image, fsynclab, root_or_skip, scratch, text};
use fsynclab::results::{Kind, NoteCode, text as document_text};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/pg_test_fsync").join(format!("{name}.txt"))
}

fn run(arguments: &[&str], files: &[PathBuf]) -> Output {
    let state = scratch("state");
    fsynclab(state.path()).args(arguments).args(files).output().expect("the program runs")
}

/// What was printed, as one line of words.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_lie_is_exit_status_4_and_an_honest_disk_0() {
    let honest = run(&["probe", "--published"], &[fixture("hdd-7200-sata-ext4-pg9.3-2014")]);
    assert_eq!(honest.status.code(), Some(0), "{}", text(&honest));
    assert!(said(&honest).contains("HONOURED: 106 syncs/s"), "{}", text(&honest));
    let mac = fixture("macos-m1-pg13-decimal-comma");
    let both = run(&["probe", "--published"], &[fixture("hdd-7200-sata-ext4-pg9.3-2014"), mac]);
    assert_eq!(both.status.code(), Some(4), "{}", text(&both));
    assert!(said(&both).contains("wal_sync_method here: fsync_writethrough"), "{}", text(&both));
}

#[test]
fn what_the_reader_knows_of_the_disk_changes_the_verdict() {
    let flash = fixture("ssd-owc-ext4-pg9.3-2014");
    let unknown = run(&["probe", "--published"], std::slice::from_ref(&flash));
    let as_disk = run(&["probe", "--medium", "7200rpm", "--published"], std::slice::from_ref(&flash));
    assert_eq!(unknown.status.code(), Some(0), "{}", text(&unknown));
    assert_eq!(as_disk.status.code(), Some(4), "{}", text(&as_disk));
    assert!(said(&as_disk).contains("ANSWERED FROM MEMORY"), "{}", text(&as_disk));
    let nonsense = run(&["probe", "--medium", "fast", "--published"], &[flash]);
    assert_eq!(nonsense.status.code(), Some(2), "{}", text(&nonsense));
}

#[test]
fn a_line_that_cannot_be_read_is_named_and_a_text_without_output_is_refused() {
    let directory = scratch("texts");
    let whole = std::fs::read_to_string(fixture("virtio-pg15-one-second")).expect("a fixture");
    let torn = directory.path().join("torn.txt");
    std::fs::write(&torn, whole.replacen("11744.166", "11.744.166,5.1", 1)).expect("a file");
    let output = run(&["probe", "--json", "-", "--published"], &[torn]);
    let document =
        document_text::read(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
    assert_eq!(document.kind, Kind::Published);
    assert!(document.sets[0].rows.len() >= 16, "{:?}", document.sets[0].rows);
    let noted: Vec<&str> = document
        .notes
        .iter()
        .filter(|note| note.code == NoteCode::UnreadLine)
        .map(|note| note.text.as_str())
        .collect();
    assert!(noted.len() == 1 && noted[0].contains("torn.txt: line 6:"), "{noted:?}");
    let other = directory.path().join("other.txt");
    std::fs::write(&other, "nothing of the kind\n").expect("a file");
    let output = run(&["probe", "--published"], std::slice::from_ref(&other));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let missing = run(&["probe", "--published"], &[directory.path().join("missing.txt")]);
    assert_eq!(missing.status.code(), Some(1), "{}", text(&missing));
    assert!(text(&missing).contains("could not read file"), "{}", text(&missing));
}

#[test]
fn why_a_mac_seemed_to_beat_a_server_is_explained() {
    let files = ["macos-10.9-intel520-hfs-pg9.3-2014", "ssd-owc-ext4-pg9.3-2014"].map(fixture);
    let output = run(&["compare"], &files);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let said = said(&output);
    assert!(said.contains("on macOS fsync hands the data to the drive and does not flush it"), "{said}");
    assert!(said.contains("735/s (fsync_writethrough)"), "{said}");
}

#[test]
fn a_probe_is_compared_with_itself_and_with_a_published_set() {
    if !root_or_skip("a_probe_is_compared_with_itself_and_with_a_published_set") {
        return;
    }
    // A file system of its own: beside other tests' clusters a nearly full one is refused.
    let image = Image::new(FileSystem::Ext4, "600M", "");
    let (place, state) = (scratch("place"), scratch("state"));
    let files = ["a.json", "b.json"].map(|name| place.path().join(name));
    for file in &files {
        let mut command = fsynclab(state.path());
        command
            .arg("probe")
            .arg(image.path())
            .args(["--time", "1s", "--only", "one8,wal,nosync", "--json"])
            .arg(file);
        let output = command.output().expect("the program runs");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    }
    let output = run(&["compare"], &files);
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in ["one8 fdatasync ", "nosync write ", "wal append "] {
        assert!(lines.contains(line), "{line} is missing in\n{lines}");
    }
    assert!(lines.contains("flush/op"), "{lines}");
    let [a, _] = files;
    let published = run(&["compare"], &[a, fixture("virtio-pg15-one-second")]);
    assert!(said(&published).contains("one8 fdatasync"), "{}", text(&published));
    let alone = run(&["compare"], &[fixture("virtio-pg15-one-second")]);
    assert_eq!(alone.status.code(), Some(2), "{}", text(&alone));
}
