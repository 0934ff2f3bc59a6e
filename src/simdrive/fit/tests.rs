//! What pg_test_fsync would print on a model is fitted by one that prints the same.

use super::*;
use crate::simdrive::imply::imply;
use crate::simdrive::model::Options;

fn line(block: &str, method: &str, ops_per_s: f64) -> Line {
    Line { block: block.to_owned(), method: method.to_owned(), ops_per_s }
}

/// What pg_test_fsync of today would print on a built-in model.
fn printed(name: &str, write_cache: bool) -> Vec<Line> {
    let model = built_in(name).expect("listed");
    let options = Options { write_cache, ..model.options(DEFAULT_SIZE_BYTES, 1) };
    let lines = imply(&model, &options).lines.into_iter().filter(|line| line.block != "sizes-dsync");
    lines.map(|known| line(known.block, known.method, known.ops_per_s)).collect()
}

fn reasons(fit: &Fit) -> Vec<(String, LeftOut)> {
    fit.left_out.iter().map(|(line, reason)| (line.to_string(), *reason)).collect()
}

#[test]
fn what_a_model_implies_is_fitted_by_a_model_that_implies_the_same() {
    for (name, write_cache) in [
        ("laptop-5400", false),
        ("sata-2009", false),
        ("sata-2009", true),
        ("sas-10k", false),
        ("sas-15k", false),
        ("ssd-sata-2014", true),
        ("nvme-consumer", true),
        ("nvme-plp", false),
        ("raid-bbu", true),
    ] {
        let printed = printed(name, write_cache);
        let fit = fit(&printed, false).expect(name);
        assert_eq!(reasons(&fit), [], "{name}");
        assert_eq!(fit.lines.len(), printed.len(), "{name}");
        for (line, fitted) in &fit.lines {
            let off = fitted / line.ops_per_s - 1.0;
            assert!(off.abs() <= 0.2, "{name}: {line}: {fitted:.1} for {:.1}", line.ops_per_s);
        }
    }
}

#[test]
fn the_kind_is_told_by_the_numbers() {
    let kind = |name, write_cache| fit(&printed(name, write_cache), false).expect(name).kind;
    assert!(matches!(kind("laptop-5400", false), Kind::Disk { rpm: 5400, .. }));
    assert!(matches!(kind("sata-2009", true), Kind::Disk { rpm: 7200, .. }));
    assert!(matches!(kind("sas-15k", false), Kind::Disk { rpm: 15_000, .. }));
    assert!(matches!(kind("ssd-sata-2014", true), Kind::Flash { .. }));
    assert!(matches!(kind("nvme-plp", false), Kind::Cached { .. }));
    assert!(matches!(kind("raid-bbu", true), Kind::Cached { .. }));
    let slow = [("one8", "fdatasync", 12.0), ("one8", "fsync", 11.0), ("two8", "fdatasync", 11.0)];
    let mut slow: Vec<Line> = slow.map(|(block, method, rate)| line(block, method, rate)).to_vec();
    slow.push(line("two8", "fsync", 10.0));
    assert!(matches!(fit(&slow, false).expect("four lines").kind, Kind::Volume { .. }));
}

#[test]
fn lines_that_no_drive_decides_are_named_with_their_reason() {
    let lines = [
        line("one8", "open_datasync", 250.0),
        line("one8", "fdatasync", 608.0),
        line("one8", "fsync", 560.0),
        line("one8", "open_sync", 185.0),
        line("sizes", "1x16kB", 185.0),
        line("nosync", "write", 1e6),
        line("one8", "fsync_writethrough", 500.0),
    ];
    let named = |lines: &[Line], old| reasons(&fit(lines, old).expect("enough lines"));
    let fua =
        ["one8 open_datasync", "one8 open_sync", "sizes 1x16kB"].map(|line| (line.to_owned(), LeftOut::Fua));
    let mut wanted = fua.to_vec();
    wanted.push(("nosync write".to_owned(), LeftOut::Memory));
    wanted.push(("one8 fsync_writethrough".to_owned(), LeftOut::Unknown));
    assert_eq!(named(&lines, false), wanted);
    let old = ["one8 open_sync", "sizes 1x16kB"].map(|line| (line.to_owned(), LeftOut::OldOSync));
    assert_eq!(named(&lines[1..5], true), old);
    let ext3 = [("fdatasync", 159.7), ("fsync", 161.2), ("open_sync", 162.8)];
    let mut ext3: Vec<Line> = ext3.map(|(method, rate)| line("one8", method, rate)).to_vec();
    ext3.push(line("two8", "open_sync", 81.1));
    assert_eq!(named(&ext3, true)[0], ("one8 fsync".to_owned(), LeftOut::NoCommit));
}

#[test]
fn too_little_is_refused() {
    let few = [line("one8", "fdatasync", 100.0), line("one8", "fsync", 30.0), line("nosync", "write", 1e6)];
    assert_eq!(fit(&few, false), Err(Unfit::TooFew(2)));
    assert_eq!(fit(&few[1..], false), Err(Unfit::NoFdatasync));
}

#[test]
fn the_text_is_a_model_and_says_where_each_number_is_from() {
    let fit = fit(&printed("sata-2009", false), false).expect("a disk");
    let text = fit.to_toml("hdd.txt");
    assert_eq!(crate::simdrive::models::parse("sata-2009", &text).expect("a model"), fit.model);
    assert!(text.contains(" # fitted from hdd.txt: one8 fdatasync"), "{text}");
    for line in text.lines().filter(|line| line.contains(" = ") && !line.starts_with("summary")) {
        assert!(line.contains(" # "), "{line}");
    }
}
