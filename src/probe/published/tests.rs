//! Every text under `fixtures/pg_test_fsync/` gives its table; mutilated ones give no nonsense.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/pg_test_fsync")
}

fn text_of(name: &str) -> Vec<u8> {
    let path = fixtures().join(name).with_extension("txt");
    fs::read(&path).unwrap_or_else(|error| panic!("could not read file {}: {error}", path.display()))
}

fn reading(name: &str) -> Reading {
    read(&text_of(&format!("{name}.txt")))
}

/// The first set of a fixture.
pub(super) fn set(name: &str) -> Set {
    reading(name).sets.remove(0).named(name)
}

/// The first set of a text.
pub(super) fn set_of(text: &str) -> Set {
    read(text.as_bytes()).sets.remove(0)
}

fn names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(fixtures())
        .expect("the fixtures are part of the source")
        .map(|entry| entry.expect("the directory can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names
}

fn table(reading: &Reading) -> String {
    let tables = reading.sets.iter().map(|set| {
        let mut table = "block\tmethod\tops_per_sec\tusecs_per_op\n".to_owned();
        for row in &set.rows {
            let ops = row.ops_per_sec.map_or("n/a".to_owned(), |ops| format!("{ops:.3}"));
            let usecs = row.usecs_per_op.map(|usecs| usecs.to_string()).unwrap_or_default();
            writeln!(table, "{}\t{}\t{ops}\t{usecs}", row.block, row.method).expect("a string takes all");
        }
        table
    });
    tables.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_text_gives_its_table() {
    let names = names();
    assert!(names.len() >= 27, "only {} texts", names.len());
    for name in names {
        let expected =
            fs::read_to_string(fixtures().join(format!("{name}.tsv"))).expect("a table for each text");
        assert_eq!(table(&reading(&name)), expected, "{name}");
    }
}

#[test]
fn clean_texts_leave_nothing_unread_and_tell_whether_they_are_whole() {
    let cut = ["noise-prompts-crlf", "noise-unreadable"];
    for name in names() {
        let reading = reading(&name);
        if !cut.contains(&name.as_str()) {
            assert_eq!(reading.unread, [], "{name}");
        }
        let rows: usize = reading.sets.iter().map(|set| set.rows.len()).sum();
        let complete = reading.sets.iter().all(|set| set.complete);
        assert_eq!(complete, rows == 18, "{name}: {rows} rows");
    }
}

#[test]
fn lines_that_cannot_be_read_are_named_with_number_and_reason() {
    let told: Vec<_> = reading("noise-unreadable").unread.iter().map(|u| (u.line, u.reason)).collect();
    let expected = [
        (6, UnreadReason::ColumnsDisagree),
        (7, UnreadReason::ColumnsDisagree),
        (8, UnreadReason::Ambiguous),
        (10, UnreadReason::Repeated),
        (11, UnreadReason::CutOff),
        (12, UnreadReason::GaveUp),
    ];
    assert_eq!(told, expected);
    let interrupted = reading("noise-prompts-crlf");
    assert_eq!(
        interrupted.unread[0].to_string(),
        "line 11: cut off: figures or unit are missing: \"open_sync\""
    );
}

#[test]
fn what_went_wrong_beside_the_figures_is_told_in_any_language() {
    let row = "fsync 100.000 ops/sec 10000 usecs/op";
    let cases = [
        (format!("{row} {row}"), UnreadReason::RunTogether),
        (
            "pg_test_fsync: Fehler: Schreiben fehlgeschlagen: Das Argument ist ungültig".to_owned(),
            UnreadReason::GaveUp,
        ),
        ("could not open output file: Permission denied".to_owned(), UnreadReason::GaveUp),
        (format!("{row}{}", "x".repeat(3000)), UnreadReason::TooLong),
        ("my drive: 100 ops/sec".to_owned(), UnreadReason::UnknownLabel),
    ];
    for (text, reason) in cases {
        let told: Vec<_> = read(text.as_bytes()).unread.iter().map(|unread| unread.reason).collect();
        assert_eq!(told, [reason], "{text}");
    }
}

#[test]
fn a_second_run_begins_where_the_first_cannot_go_on() {
    let two = "Compare file sync methods using two 8kB writes:\nfsync 100.000 ops/sec 10000 usecs/op\n";
    let one = "Compare file sync methods using one 8kB write:\nfsync 100.000 ops/sec 10000 usecs/op\n";
    let blocks = |text: String| -> Vec<Vec<Block>> {
        read(text.as_bytes()).sets.iter().map(|set| set.rows.iter().map(|row| row.block).collect()).collect()
    };
    assert_eq!(blocks(format!("{one}{two}")), [[Block::One8, Block::Two8]]);
    assert_eq!(blocks(format!("{two}{one}")), [[Block::Two8], [Block::One8]]);
    assert_eq!(blocks(format!("{one}{one}")), [[Block::One8], [Block::One8]]);
}

#[test]
fn the_text_gives_away_version_platform_and_duration() {
    let cases = [
        ("layout-9.1", "9.1", Platform::Unix, None),
        ("layout-9.2", "9.2", Platform::Unix, Some(2)),
        ("zfs-freebsd-12disks-pg9.3", "9.3", Platform::Unix, Some(5)),
        ("unknown-virtual-pg10", "9.5 to 10", Platform::Unix, Some(5)),
        ("docker-on-macos-m1-pg13", "11 to 16", Platform::Unix, Some(5)),
        ("virtio-pg15-one-second", "11 to 16", Platform::Unix, Some(1)),
        ("layout-17-no-direct-io", "17 to 19", Platform::Unix, Some(5)),
        ("translated-german-pg17", "17 to 19", Platform::Unix, Some(2)),
        ("noise-prompts-crlf", "12", Platform::Unix, Some(2)),
        ("macos-m1-pg13-decimal-comma", "9.5 to 16", Platform::MacOs, Some(5)),
        ("macos-10.9-intel520-hfs-pg9.3-2014", "9.3 to 9.4", Platform::MacOs, Some(30)),
    ];
    for (name, versions, platform, seconds) in cases {
        let origin = set(name).origin;
        assert_eq!(origin.versions.to_string(), versions, "{name}");
        assert_eq!((origin.platform, origin.seconds_per_test), (platform, seconds), "{name}");
    }
    assert_eq!(set("layout-9.1").origin.operations_per_test, Some(2000));
    assert_eq!(set("macos-10.9-intel520-hfs-pg9.3-2014").origin.direct_io, Some(DirectIo::Unsupported));
}

#[test]
fn the_precise_column_counts() {
    let row = |ops, usecs| Row {
        block: Block::One8,
        method: Method::Write,
        ops_per_sec: Some(ops),
        usecs_per_op: usecs,
        direct_io_refused: false,
    };
    let near =
        |rate: Option<f64>, expected: f64| rate.is_some_and(|rate| (rate / expected - 1.0).abs() < 1e-5);
    assert!(near(row(0.350, Some(2_860_294)).rate(), 0.349_614));
    assert!(near(row(1_309_761.044, Some(1)).rate(), 1_309_761.044));
    assert!(near(row(25096.743, Some(40)).rate(), 25096.743));
}

#[test]
fn blocks_without_a_known_heading_are_told_by_position() {
    let row = |method: &str| format!("        {method}      100.000 ops/sec   10000 usecs/op\n");
    let keys = |text: &str| -> Vec<Vec<String>> {
        let key = |row: &Row| format!("{} {}", row.block, row.method);
        read(text.as_bytes()).sets.iter().map(|set| set.rows.iter().map(key).collect()).collect()
    };
    let (fdatasync, open_sync) = (row("fdatasync"), row("open_sync"));
    let heading = "Jämför 8kB:\n";
    let cases = [
        (format!("{fdatasync}{open_sync}"), vec![vec!["one8 fdatasync", "one8 open_sync"]]),
        (format!("{heading}{fdatasync}{heading}{open_sync}"), vec![vec!["one8 fdatasync", "two8 open_sync"]]),
        (format!("{open_sync}{fdatasync}"), vec![vec!["one8 open_sync", "two8 fdatasync"]]),
        (fdatasync.repeat(3), vec![vec!["one8 fdatasync", "two8 fdatasync"], vec!["one8 fdatasync"]]),
    ];
    for (text, expected) in cases {
        assert_eq!(keys(&text), expected, "{text}");
    }
}

#[test]
fn nothing_is_read_out_of_nothing() {
    let binary: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    for bytes in [&b""[..], b"\n\n", b"fsync", b"hello 5 worlds", &binary, &[0xff, 0xfe], &[0xff; 9000]] {
        assert_eq!(read(bytes).sets, [], "{} bytes", bytes.len());
    }
}

#[test]
fn utf16_and_a_blank_that_does_not_break_in_latin1_are_read() {
    let text = "5 seconds per test\r\n        fsync      105.783 ops/sec    9453 usecs/op\r\n";
    let utf16: Vec<u8> = [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    assert_eq!(read(&utf16).sets, read(text.as_bytes()).sets);
    let latin1 = b"fsync 1\xa0309\xa0761,044 ops/sec 1 usecs/op";
    assert_eq!(read(latin1).sets[0].rows[0].ops_per_sec, Some(1_309_761.044));
}

#[test]
fn a_huge_text_is_read_with_a_bound_on_what_is_kept() {
    let junk = "fsync 7539.149 ops/sec 999 usecs/op\n".repeat(200_000);
    let reading = read(junk.as_bytes());
    assert_eq!((reading.unread.len(), reading.unread_more), (1000, 199_000));
    let one_line = read(&vec![b'x'; 20_000_000]);
    assert_eq!((one_line.sets.len(), one_line.unread.len()), (0, 0));
    let runs = "5 seconds per test\nfsync 1.000 ops/sec 1000000 usecs/op\n".repeat(10_500);
    let reading = read(runs.as_bytes());
    assert_eq!((reading.sets.len(), reading.stopped_at_line), (10_000, Some(20_001)));
}

/// What people and machines do to a text.
#[derive(Clone, Debug)]
enum Mutation {
    Replace(prop::sample::Index, u8),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
    Truncate(prop::sample::Index),
    SwapLines(prop::sample::Index, prop::sample::Index),
}

impl Mutation {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let length = bytes.len();
        match self {
            Self::Replace(at, byte) => bytes[at.index(length)] = *byte,
            Self::Insert(at, more) => {
                let at = at.index(length);
                bytes.splice(at..at, more.iter().copied());
            }
            Self::Remove(at, count) => {
                let at = at.index(length);
                bytes.drain(at..(at + count).min(length));
            }
            Self::Truncate(at) => bytes.truncate(at.index(length)),
            Self::SwapLines(a, b) => {
                let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
                let (a, b) = (a.index(lines.len()), b.index(lines.len()));
                lines.swap(a, b);
                *bytes = lines.join(&b'\n');
            }
        }
    }
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let index = any::<prop::sample::Index>;
    let special = prop::sample::select(b"0123456789.,'* \t\r\n/-|>()kB\xa0\xc2".to_vec());
    prop_oneof![
        (index(), special.clone()).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        (index(), any::<u8>()).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        (index(), prop::collection::vec(special, 1..6)).prop_map(|(at, more)| Mutation::Insert(at, more)),
        (index(), 1..80_usize).prop_map(|(at, count)| Mutation::Remove(at, count)),
        index().prop_map(Mutation::Truncate),
        (index(), index()).prop_map(|(a, b)| Mutation::SwapLines(a, b)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_mutilated_text_gives_no_panic_and_no_nonsense(
        which in any::<prop::sample::Index>(),
        mutations in prop::collection::vec(mutation(), 1..12),
    ) {
        let names = names();
        let mut bytes = text_of(&format!("{}.txt", which.get(&names)));
        for mutation in &mutations {
            mutation.apply(&mut bytes);
        }
        let reading = read(&bytes);
        for set in &reading.sets {
            prop_assert!(set.rows.len() <= 18);
            for row in &set.rows {
                prop_assert!(row.ops_per_sec.is_none_or(|ops| ops.is_finite() && ops >= 0.0));
                if let (Some(ops), Some(usecs)) = (row.ops_per_sec, row.usecs_per_op) {
                    prop_assert!(ops * usecs as f64 <= 2e6, "{row:?}");
                }
                let alike = set.rows.iter().filter(|r| (r.block, r.method) == (row.block, row.method));
                prop_assert_eq!(alike.count(), 1);
            }
            prop_assert!(!judge(set, Medium::Unknown).reasons.is_empty());
        }
        for difference in compare(&reading.sets) {
            prop_assert!(!difference.to_string().is_empty());
        }
    }

    #[test]
    fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        read(&bytes);
    }
}
