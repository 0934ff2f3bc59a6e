use std::os::unix::net::UnixListener;

use nix::sys::stat::Mode;
use proptest::prelude::*;

use super::text::TextError;
use super::*;

fn name(bytes: &[u8]) -> PathBuf {
    OsStr::from_bytes(bytes).into()
}

#[test]
fn the_text_form_is_readable_and_every_byte_of_a_name_survives() {
    let odd: [&[u8]; 8] =
        [b" a b ", b"-rf", b"a\nb\t", b"q\"'\\x41", "Größe".as_bytes(), b"\xff\xfe", b"#no comment", b"a/\\"];
    let shape = Shape {
        directories: vec![name(b"a"), name(b"a/ d ")],
        files: odd.iter().map(|bytes| FileShape::dense(name(bytes), 3)).collect(),
    };
    let text = shape.to_text();
    assert_eq!(Shape::from_text(&text).as_ref(), Ok(&shape), "{text}");
    let lines: Vec<_> = text.lines().skip(2).collect();
    assert_eq!(
        lines,
        [
            "- - a/",
            "- - a/ d\\x20/",
            "3 4096 \\x20a b\\x20",
            "3 4096 -rf",
            "3 4096 a\\x0ab\\x09",
            "3 4096 q\"'\\x5cx41",
            "3 4096 Größe",
            "3 4096 \\xff\\xfe",
            "3 4096 #no comment",
            "3 4096 a/\\x5c",
            "end 10",
        ]
    );
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        names in proptest::collection::btree_set(
            proptest::collection::vec(any::<u8>().prop_filter("a name", |byte| !matches!(byte, 0 | b'/')), 1..40),
            0..20,
        ),
        size in any::<u32>(),
    ) {
        let files = names.iter().filter(|bytes| !matches!(bytes.as_slice(), b"." | b".."));
        let files = files.map(|bytes| FileShape::dense(name(bytes), u64::from(size))).collect();
        let shape = Shape { directories: Vec::new(), files };
        prop_assert_eq!(Shape::from_text(&shape.to_text()), Ok(shape));
    }

    #[test]
    fn no_text_is_too_odd_to_be_judged(text in "(fsynclab shape 1\n)?(.|\n)*") {
        if let Ok(shape) = Shape::from_text(&text) {
            prop_assert_eq!(Shape::from_text(&shape.to_text()), Ok(shape));
        }
    }
}

#[test]
fn a_text_that_is_no_shape_is_refused_with_its_line() {
    let below = |lines: &str| {
        Shape::from_text(&format!(
            "fsynclab shape 1\n# a comment\n\n{lines}\nend {}\n",
            lines.lines().count()
        ))
    };
    assert_eq!(Shape::from_text(""), Err(TextError::NotAShape));
    assert_eq!(Shape::from_text("fsynclab shape 2\n"), Err(TextError::Version(2)));
    assert_eq!(below("12 a"), Err(TextError::Line { line: 4 }));
    assert_eq!(below("12 x a"), Err(TextError::Line { line: 4 }));
    assert_eq!(below("1 1 a\n1 1 b\\n"), Err(TextError::Escape { line: 5 }));
    for odd in ["/etc/passwd", "../a", "a/../b", "a//b", "./a", "a/.", "", "a\\x00b", "a/"] {
        let shape = below(&format!("- - a/\n1 1 {odd}"));
        assert!(matches!(shape, Err(TextError::Shape(ShapeError::Name(_)))), "{odd}: {shape:?}");
    }
    assert_eq!(below("1 1 a\n- - a/"), Err(ShapeError::Twice(name(b"a")).into()));
    assert_eq!(below("1 1 a/b"), Err(ShapeError::NoDirectory(name(b"a/b")).into()));
    let huge = format!("{0} {0} a\n{0} {0} b", u64::MAX / 2);
    assert_eq!(below(&huge), Err(ShapeError::TooLarge.into()));
}

#[test]
fn a_text_that_was_cut_anywhere_is_refused() {
    let files = (0..12).map(|number| FileShape::dense(name(format!("f{number}").as_bytes()), 3)).collect();
    let text = Shape { directories: vec![name(b"a")], files }.to_text();
    assert!(Shape::from_text(text.trim_end()).is_ok(), "the last line end is not missed");
    for length in text.find('\n').expect("lines")..text.len() - 1 {
        assert!(Shape::from_text(&text[..length]).is_err(), "{length}: {}", &text[..length]);
    }
    assert_eq!(Shape::from_text(&text[..60]), Err(TextError::CutShort));
    let less = text.replace("3 4096 f7\n", "");
    assert_eq!(Shape::from_text(&less), Err(TextError::Count { found: 12, said: 13 }));
}

#[test]
fn only_a_directory_has_a_shape() {
    let file = tempfile::NamedTempFile::new().expect("file");
    let told = Shape::scan(file.path()).expect_err("no directory").to_string();
    assert_eq!(told, format!("\"{}\" is not a directory", file.path().display()));
    let told = Shape::scan(Path::new("/nosuch")).expect_err("nothing").to_string();
    assert!(told.ends_with("\"/nosuch\": No such file or directory"), "{told}");
}

#[test]
fn a_scan_reads_names_and_sizes_and_opens_no_fifo() {
    let top = tempfile::tempdir().expect("directory");
    let path = |name: &str| top.path().join(name);
    fs::create_dir(path("sub")).expect("directory");
    fs::write(path("sub/full"), vec![1; 10_000]).expect("file");
    let sparse = fs::File::create(path("sparse")).expect("file");
    sparse.set_len(1 << 30).expect("hole");
    nix::unistd::mkfifo(&path("fifo"), Mode::S_IRWXU).expect("FIFO");
    let _socket = UnixListener::bind(path("socket")).expect("socket");
    std::os::unix::fs::symlink("/etc/passwd", path("link")).expect("link");

    let scan = Shape::scan(top.path()).expect("scan");
    let told = left_out(&[scan.skipped.clone(), scan.skipped.clone(), scan.skipped.clone()].concat());
    assert_eq!(told.len(), 3, "one sentence a kind: {told:?}");
    assert!(told[0].starts_with("left out \"/") && told[0].ends_with("/fifo\": each a FIFO"), "{told:?}");
    let skipped: Vec<_> = scan.skipped.iter().map(|skipped| skipped.kind).collect();
    assert_eq!(skipped, [Kind::Fifo, Kind::Symlink, Kind::Socket]);
    assert_eq!(scan.shape.directories, [name(b"sub")]);
    let sizes: Vec<_> = scan.shape.files.iter().map(|file| (file.size_bytes, file.is_sparse())).collect();
    assert_eq!(sizes, [(1 << 30, true), (10_000, false)]);
    assert_eq!(scan.shape.bytes(), (1 << 30) + 10_000);
}

#[test]
fn a_tree_that_is_not_there_is_a_fault() {
    let error = Shape::scan(Path::new("/no/such/tree")).expect_err("nothing there");
    assert_eq!(error.to_string(), "could not read directory \"/no/such/tree\": No such file or directory");
}

#[test]
fn everything_that_cannot_be_read_is_named_up_to_a_hundred() {
    let unreadable = |count: usize| {
        let paths = (0..count).map(|number| PathBuf::from(format!("p\n{number}"))).collect();
        ShapeError::Unreadable(paths).to_string()
    };
    assert_eq!(unreadable(2), "could not read \"p\\n0\", \"p\\n1\": Permission denied");
    assert!(unreadable(101).ends_with("\"p\\n99\" and 1 more: Permission denied"));
}

#[test]
fn a_scaled_shape_has_so_many_times_the_files() {
    let one = Shape { directories: vec![name(b"d")], files: vec![FileShape::dense(name(b"d/a"), 5)] };
    let three = one.scaled(3).expect("shape");
    let names: Vec<_> = three.files.iter().map(|file| file.path.to_str().expect("text")).collect();
    assert_eq!(names, ["d/a", "d/a~2", "d/a~3"]);
    assert_eq!(one.scaled(1), Ok(one));
}

#[test]
fn a_file_that_comes_and_goes_while_names_are_read_is_not_called_unreadable() {
    let top = tempfile::tempdir().expect("directory");
    let fleeting = top.path().join("fleeting");
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                fs::write(&fleeting, "x").expect("file");
                fs::remove_file(&fleeting).expect("the file");
            }
        });
        let fault = (0..20_000).find_map(|_| Shape::scan(top.path()).err());
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(fault.is_none(), "{fault:?}");
    });
}
