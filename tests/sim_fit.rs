//! `sim fit`: a drive out of a text, measured with PostgreSQL's own pg_test_fsync. A loaded machine only adds time, so the
//! fastest of a few trials is held against the publication.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{fsynclab, pg_test_fsync, root_or_skip, scratch, text};
use fsynclab::lab::fit::drive;
use fsynclab::lab::probe_pairs::Side;
use fsynclab::probe::published::read;

const TRIALS: u32 = 10;

fn publication(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/pg_test_fsync/{name}.txt"))
}

/// What pg_test_fsync finds on a drive, the fastest of a few trials by line.
fn measured(
    state: &Path,
    model: &Path,
    far_off: impl Fn(&BTreeMap<String, f64>) -> bool,
) -> BTreeMap<String, f64> {
    let mut fastest = BTreeMap::new();
    for _ in 0..TRIALS {
        let program = fsynclab(state);
        // Before all others, the process that serves the drive too, as a device would be.
        let output = Command::new("chrt")
            .args(["--fifo", "50"])
            .arg(program.get_program())
            .envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .args(["sim", "run"])
            .arg(model)
            .args(["--", "sh", "-c"])
            .arg(format!("exec {} -s 1 -f $FSYNCLAB_MOUNT/file", pg_test_fsync().display()))
            .output()
            .expect("chrt and the program");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        for row in &read(&output.stdout).sets[0].rows {
            let known = fastest.entry(format!("{} {}", row.block, row.method)).or_insert(0.0);
            *known = row.rate().unwrap_or(0.0).max(*known);
        }
        if !far_off(&fastest) {
            break;
        }
    }
    fastest
}

fn check(name: &str) {
    let work = scratch("fit");
    let (state, model) = (work.path().join("state"), work.path().join("drive.toml"));
    let output = fsynclab(&state)
        .args(["sim", "fit"])
        .arg(publication(name))
        .arg("-o")
        .arg(&model)
        .output()
        .expect("it");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let set = read(&std::fs::read(publication(name)).expect(name)).sets[0].clone();
    let lines = drive(&Side::of_set(set), None).expect(name).fit.lines;
    let off = |found: &BTreeMap<String, f64>| {
        let off = lines.iter().map(|line| (line, found[&line.title] / line.published - 1.0));
        off.filter(|(_, off)| off.abs() > 0.2)
            .map(|(line, off)| format!("{}: {off:+.2}", line.title))
            .collect::<Vec<_>>()
    };
    let found = measured(&state, &model, |found| !off(found).is_empty());
    assert!(off(&found).is_empty(), "{name}: {:?} of {found:?}", off(&found));
}

#[test]
fn pg_test_fsync_finds_the_disk_of_2014_on_the_fitted_drive() {
    if root_or_skip("pg_test_fsync_finds_the_disk_of_2014_on_the_fitted_drive") {
        check("hdd-7200-sata-ext4-pg9.3-2014");
    }
}

#[test]
fn pg_test_fsync_finds_the_ssd_of_2014_on_the_fitted_drive() {
    if root_or_skip("pg_test_fsync_finds_the_ssd_of_2014_on_the_fitted_drive") {
        check("ssd-owc-ext4-pg9.3-2014");
    }
}

#[test]
fn what_cannot_be_fitted_is_refused_and_writes_nothing() {
    let work = scratch("no-fit");
    let model = work.path().join("drive.toml");
    let output = fsynclab(&work.path().join("state"))
        .args(["sim", "fit"])
        .arg(publication("macos-10.9-intel520-hfs-pg9.3-2014"))
        .arg("-o")
        .arg(&model)
        .output()
        .expect("the program");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(common::told(&output).contains("cannot be fitted: it is from macOS"), "{}", text(&output));
    assert!(!model.exists());
}

#[test]
fn what_is_printed_is_a_model_that_carries_its_errors() {
    let work = scratch("fit-printed");
    let (state, model) = (work.path().join("state"), work.path().join("printed.toml"));
    let mut fit = fsynclab(&state);
    fit.args(["sim", "fit", "--name", "my old disk"]).arg(publication("hdd-7200-sata-ext4-pg9.3-2014"));
    let output = fit.output().expect("the program");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed.lines().any(|line| line.starts_with("# one8 fdatasync ")), "{printed}");
    assert!(printed.contains("# not fitted: one8 open_sync"), "{printed}");
    std::fs::write(&model, &printed).expect("a file");
    let shown = fsynclab(&state).args(["sim", "show"]).arg(&model).output().expect("the program");
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown));
    assert!(String::from_utf8_lossy(&shown.stdout).contains("my old disk: a disk of"), "{}", text(&shown));
}
