//! What the models imply is what was published.

use super::*;
use crate::simdrive::model::{Flush, Mechanism, Rotating};
use crate::simdrive::models::{BUILT_IN, built_in};
use crate::simdrive::spec::DEFAULT_SIZE_BYTES;

fn implied(name: &str, change: impl Fn(&mut Options)) -> Implied {
    let model = built_in(name).expect("listed");
    let mut options = model.options(DEFAULT_SIZE_BYTES, 1);
    change(&mut options);
    imply(&model, &options)
}

fn line(implied: &Implied, block: &str, method: &str) -> f64 {
    let found = implied.lines.iter().find(|line| line.block == block && line.method == method);
    found.expect("a line of pg_test_fsync").ops_per_s
}

fn assert_near(what: &str, implied: f64, published: f64, tolerance: f64) {
    let off = implied / published - 1.0;
    assert!(off.abs() <= tolerance, "{what}: {implied:.1} implied, {published} published, off by {off:.2}");
}

#[test]
fn the_shape_is_that_of_the_template() {
    assert_eq!(PG15_SIZES.iter().map(|(_, files)| files).sum::<usize>(), 298);
    assert_eq!(PG15_SIZES.iter().map(|&(bytes, files)| bytes * files as u64).sum::<u64>(), 7_471_619);
}

#[test]
fn sata_2009_with_its_cache_off_implies_the_published_lines() {
    let implied = implied("sata-2009", |options| options.write_cache = false);
    assert_near("fdatasync", line(&implied, "one8", "fdatasync"), 105.8, 0.15);
    assert_near("fsync", line(&implied, "one8", "fsync"), 27.7, 0.15);
    assert_near("two open_sync", line(&implied, "two8", "open_datasync"), 55.8, 0.15);
    for (method, published) in
        [("1x16kB", 103.6), ("2x8kB", 55.2), ("4x4kB", 28.3), ("8x2kB", 14.6), ("16x1kB", 7.4)]
    {
        assert_near(method, line(&implied, "sizes-dsync", method), published, 0.2);
    }
}

#[test]
fn sata_2009_implies_the_published_create_database() {
    let off = implied("sata-2009", |options| options.write_cache = false);
    let ms = |copy: &Copy| copy.elapsed_ns as f64 / 1e6;
    assert_near("each file synced, cache off", ms(&off.create_database[0]), 6964.0, 0.25);
    assert_near("synced afterwards, cache off", ms(&off.create_database[1]), 2183.0, 0.25);
    let on = implied("sata-2009", |_| ());
    let apart_ms = ms(&on.create_database[2]) - ms(&on.create_database[3]);
    assert!(
        ms(&on.create_database[2]) < 1000.0 && apart_ms > 150.0,
        "{apart_ms} ms apart, the host's time apart"
    );
}

#[test]
fn a_disk_that_answers_from_its_cache_is_too_fast_for_its_revolution() {
    let lying = implied("sata-2009", |options| options.flush = Flush::Ignored);
    assert!(lying.synced_overwrites_per_s > 3000.0);
    let honest = implied("sata-2009", |_| ());
    assert_near("one a revolution", honest.synced_overwrites_per_s, 120.0, 0.02);
}

#[test]
fn ssd_sata_2014_implies_the_published_lines() {
    let implied = implied("ssd-sata-2014", |_| ());
    for (block, method, published) in [
        ("one8", "fdatasync", 2259.7),
        ("one8", "fsync", 1949.7),
        ("one8", "open_datasync", 2245.2),
        ("two8", "fdatasync", 2161.9),
        ("two8", "fsync", 1891.9),
        ("two8", "open_datasync", 1118.8),
        ("sizes-dsync", "1x16kB", 2171.6),
        ("sizes-dsync", "4x4kB", 569.6),
        ("sizes-dsync", "16x1kB", 142.5),
        ("fd", "write_fsync_close", 1947.6),
    ] {
        assert_near(method, line(&implied, block, method), published, 0.1);
    }
}

#[test]
fn other_models_imply_their_published_rates() {
    for (name, published) in [("sas-10k", 159.7), ("nvme-consumer", 608.6), ("raid-bbu", 23_000.0)] {
        assert_near(name, implied(name, |_| ()).synced_overwrites_per_s, published, 0.1);
    }
}

fn rate_text(rate: f64) -> String {
    if rate < 1000.0 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}

/// The table of docs/MODELS.md: a row a model and state of its cache.
fn implied_table() -> String {
    let mut rows = Vec::new();
    for (name, _) in BUILT_IN {
        let model = built_in(name).expect("listed");
        for write_cache in [false, true] {
            if write_cache && model.write_cache.is_none() {
                continue;
            }
            let cache =
                if model.write_cache.is_none() { "none" } else { ["off", "on"][usize::from(write_cache)] };
            let implied = implied(name, |options| options.write_cache = write_cache);
            let [write_s, read_s] = [implied.write_gib_ns, implied.read_gib_ns].map(|ns| ns as f64 / 1e9);
            let copies =
                implied.create_database.iter().map(|copy| format!("{:.0}", copy.elapsed_ns as f64 / 1e6));
            let [synced, fsync, two, small] = [
                ("one8", "fdatasync"),
                ("one8", "fsync"),
                ("two8", "open_datasync"),
                ("sizes-dsync", "16x1kB"),
            ]
            .map(|(block, method)| rate_text(line(&implied, block, method)));
            let copies: Vec<_> = copies.collect();
            rows.push(format!(
                "| {name} | {cache} | {synced} | {fsync} | {two} | {small} | {write_s:.1} | {read_s:.1} | {} |\n",
                copies.join(" | ")
            ));
        }
    }
    rows.concat()
}

/// What moves when one number of a model does.
type Change = fn(&mut Model, f64);

/// The table of docs/MODELS.md: a row a number of sata-2009, moved down and up by a tenth.
fn moved_table() -> String {
    let changes: [(&str, Change); 7] = [
        ("as it is", |_, _| ()),
        // Whole numbers only.
        ("rpm", |model, by| rotating(model).rpm = if by < 1.0 { 6480 } else { 7920 }),
        ("seek_track_to_track_ms", |model, by| rotating(model).seek_track_to_track_ms *= by),
        ("seek_average_ms", |model, by| rotating(model).seek_average_ms *= by),
        ("stroke_part", |model, by| rotating(model).stroke_part *= by),
        ("transfer_mb_per_s", |model, by| rotating(model).transfer_mb_per_s *= by),
        ("command_overhead_us", |model, by| model.command_overhead_us *= by),
    ];
    let rows = changes.map(|(number, change)| {
        let cells = |by: f64| {
            let mut model = built_in("sata-2009").expect("listed");
            change(&mut model, by);
            let off = imply(&model, &Options { write_cache: false, ..model.options(DEFAULT_SIZE_BYTES, 1) });
            let liar =
                imply(&model, &Options { flush: Flush::Ignored, ..model.options(DEFAULT_SIZE_BYTES, 1) });
            let ms = |copy: &Copy| format!("{:.0}", copy.elapsed_ns as f64 / 1e6);
            let lines = [
                ("one8", "fdatasync"),
                ("one8", "fsync"),
                ("two8", "open_datasync"),
                ("sizes-dsync", "16x1kB"),
            ];
            let mut cells = lines.map(|(block, method)| rate_text(line(&off, block, method))).to_vec();
            cells.extend(off.create_database[..2].iter().map(ms));
            cells.extend(liar.create_database[2..].iter().map(ms));
            cells.push(rate_text(liar.synced_overwrites_per_s));
            cells
        };
        let cells: Vec<_> = cells(0.9).into_iter().zip(cells(1.1)).collect();
        let cells = cells
            .iter()
            .map(|(less, more)| if less == more { less.clone() } else { format!("{less} - {more}") });
        format!("| {number} | {} |\n", cells.collect::<Vec<_>>().join(" | "))
    });
    rows.concat()
}

fn rotating(model: &mut Model) -> &mut Rotating {
    let Mechanism::Rotating(numbers) = &mut model.mechanism else { panic!("sata-2009 is a disk") };
    numbers
}

#[test]
fn the_tables_in_the_docs_are_what_the_models_imply() {
    let docs = include_str!("../../../docs/MODELS.md");
    let tables = [implied_table(), moved_table()];
    let missing: String = tables.into_iter().filter(|table| !docs.contains(table.as_str())).collect();
    assert!(missing.is_empty(), "docs/MODELS.md should have\n{missing}");
}
