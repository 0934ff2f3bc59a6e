use std::collections::BTreeMap;

use super::build::{BuildSync, build};
use super::*;
use crate::sys::clock::now_ns;
use crate::sys::real::Real;
use crate::sys::tallied::Tallied;
use crate::sys::watch::Quiet;

fn resolve(text: &str) -> Result<Template, TemplateError> {
    Template::resolve(OsStr::new(text), 1)
}

fn shape(text: &str) -> Shape {
    resolve(text).expect(text).shape
}

#[test]
fn pg15_is_template0_of_postgresql_15_to_the_byte() {
    let shape = shape("pg15");
    assert_eq!((shape.files.len(), shape.bytes()), (298, 7_471_619));
    let mut histogram: BTreeMap<u64, usize> = BTreeMap::new();
    for file in &shape.files {
        *histogram.entry(file.size_bytes).or_default() += 1;
    }
    let small = [(0, 51), (3, 1), (512, 1), (8192, 120), (16384, 47), (24576, 42), (32768, 5)];
    let middle = [(40960, 7), (49152, 4), (57344, 1), (65536, 2), (81920, 1), (90112, 2), (114_688, 5)];
    let large = [122_880, 155_648, 229_376, 253_952, 360_448, 458_752, 524_288, 786_432];
    let large = large.into_iter().zip([2, 1, 1, 1, 1, 1, 1, 1]);
    let known: BTreeMap<u64, usize> = small.into_iter().chain(middle).chain(large).collect();
    assert_eq!(histogram, known);
    let named = |name: &str| shape.files.iter().find(|file| file.path == Path::new(name));
    assert_eq!(named("PG_VERSION").map(|file| file.size_bytes), Some(3));
    assert_eq!(named("pg_filenode.map").map(|file| file.size_bytes), Some(512));
    assert!(named("1259_fsm").is_some() && named("1259_vm").is_some());
}

#[test]
fn built_in_shapes_are_what_the_table_says() {
    let listed: BTreeMap<_, _> =
        list_templates().into_iter().map(|row| (row.name, (row.files, row.bytes))).collect();
    for (name, files, bytes) in [
        ("pg12", 302, 7_979_523),
        ("pg13", 289, 7_905_795),
        ("pg14", 294, 8_577_539),
        ("pg16", 298, 7_479_823),
        ("pg17", 298, 7_471_631),
        ("pg18", 300, 7_643_663),
        ("pgbench-s10", 312, 164_625_767),
        ("many-small", 100_000, 819_200_000),
        ("few-large", 2, 2 * GIB),
    ] {
        assert_eq!(listed[name], (files, bytes), "{name}");
    }
    for built_in in BUILT_IN {
        let shape = shape(built_in.name);
        assert!(!shape.is_sparse() && shape.directories.is_empty(), "{}", built_in.name);
        assert_eq!(shape.clone().checked(), Ok(shape));
    }
}

#[test]
fn generated_shapes_take_a_number_and_segments_are_named_as_servers_name_them() {
    let names: Vec<_> = shape("few-large:3").files.into_iter().map(|file| file.path).collect();
    assert_eq!(names, ["16384", "16384.1", "16384.2"].map(PathBuf::from));
    assert_eq!(shape("many-small:7").files.len(), 7);
    for wrong in ["few-large:0", "many-small:", "many-small:x", "many-small:99999999"] {
        assert!(matches!(resolve(wrong), Err(TemplateError::Number { .. })), "{wrong}");
    }
}

#[test]
fn a_million_files_are_planned_in_less_than_ten_seconds() {
    let start_ns = now_ns();
    let scaled = Template::resolve(OsStr::new("many-small"), 10).expect("template");
    let elapsed_ns = now_ns() - start_ns;
    assert_eq!(scaled.shape.files.len(), 1_000_000);
    assert!(elapsed_ns < 10_000_000_000, "{elapsed_ns} ns");
}

#[test]
fn what_is_no_built_in_name_is_a_path() {
    let top = tempfile::tempdir().expect("directory");
    let path = |name: &str| top.path().join(name);
    fs::create_dir(path("pg15")).expect("directory");
    fs::write(path("pg15/a"), "abc").expect("file");
    let tree = Template::resolve(path("pg15").as_os_str(), 1).expect("template");
    assert_eq!((tree.tree, tree.shape.bytes()), (Some(path("pg15")), 3));

    fs::write(path("my.shape"), tree.shape.to_text()).expect("file");
    let from_file = Template::resolve(path("my.shape").as_os_str(), 2).expect("template");
    assert_eq!((from_file.tree, from_file.shape.bytes()), (None, 6));

    let error = Template::resolve(path("pg15").as_os_str(), 2).expect_err("a scaled tree");
    assert!(matches!(error, TemplateError::ScaledTree { .. }));
    let error = resolve("pg99").expect_err("no such template");
    assert!(error.hint().is_some_and(|hint| hint.starts_with("built-in shapes: pg15, pg10, ")));
    let error = resolve("/dev/null").expect_err("a device");
    assert_eq!(error.to_string(), "\"/dev/null\" is neither a directory nor a shape file");
    let error = resolve("/etc/hostname").expect_err("another file");
    assert!(matches!(error, TemplateError::Text { source: TextError::NotAShape, .. }), "{error}");
}

#[test]
fn made_files_have_the_shape_and_the_same_seed_gives_the_same_bytes() {
    let top = tempfile::tempdir().expect("directory");
    let mut shape = shape("pg15");
    shape.directories.push("d".into());
    shape.files.push(FileShape::dense("d/odd".into(), 300_001));
    let sparse = FileShape { path: "d/holes".into(), size_bytes: 1 << 30, allocated_bytes: 8192 };
    shape.files.push(sparse);
    let kernel = Tallied::new(Real);
    let make = |name: &str, seed, sync| {
        build(&kernel, &shape, &top.path().join(name), seed, sync, &Quiet).expect("build");
        let tally = kernel.take();
        let made = Shape::scan(&top.path().join(name)).expect("scan").shape;
        assert_eq!((made.bytes(), made.files.len()), (shape.bytes(), shape.files.len()));
        assert_eq!(made.files.iter().filter(|file| file.is_sparse()).count(), 1);
        (tally.count(Call::Fsync), tally.count(Call::Syncfs))
    };
    assert_eq!(make("one", 1, BuildSync::FileSystem), (0, 1));
    assert_eq!(make("again", 1, BuildSync::EachFile), (302, 0));
    assert_eq!(make("other", 2, BuildSync::FileSystem), (0, 1));
    let read = |tree: &str| fs::read(top.path().join(tree).join("d/odd")).expect("file");
    assert!(read("one") == read("again"));
    assert!(read("one") != read("other"));
}
