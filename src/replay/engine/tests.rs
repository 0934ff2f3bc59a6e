//! The whole sequence of calls, written by hand for every named policy.

use std::fs;
use std::path::Path;

use super::*;
use crate::sys::real::Real;
use crate::sys::watch::Quiet;

#[test]
fn smoke() {
    let run = tempfile::tempdir_in("/var/tmp").expect("directory");
    let source = run.path().join("source");
    fs::create_dir(&source).expect("source");
    fs::write(source.join("a"), vec![7; 3_670_016]).expect("file");
    fs::write(source.join("b"), b"").expect("file");
    fs::create_dir(source.join("sub")).expect("source");
    fs::write(source.join("sub/c"), vec![7; 65_537]).expect("file");
    for row in crate::replay::policy::table::ROWS {
        let policy: Policy = row.name.parse().expect("policy");
        let means = Means::at(&policy, run.path());
        let Ok(means) = means else {
            println!("{} {means:?}", row.name);
            continue;
        };
        let mut engine = Engine::new(&Real, &policy, means).expect("engine");
        let target = run.path().join(row.name);
        let copied = engine.replay(&source, &target, &Quiet, &()).expect(row.name);
        println!("{} {copied:?}", row.name);
        for name in ["a", "b", "sub/c"] {
            assert!(
                fs::read(source.join(name)).expect("a")
                    == fs::read(Path::new(&target).join(name)).expect("b")
            );
        }
    }
}
