//! What every named policy must do with one file of each size that PostgreSQL's arithmetic tells apart. Written by hand
//! from copydir.c, file by file: the frame around the bytes by policy, the moving of the bytes by method and size.

use super::recorder::Recorder;
use super::{Bench, everywhere, parse};
use crate::replay::policy::{CopyBy, Every, Hint, Policy};

const KIB_64: usize = 65_536;
const MIB: usize = 1_048_576;
const SIZES: [usize; 5] = [0, KIB_64, MIB, MIB + 1, 7 * MIB / 2];

/// The moving of the bytes, in the order of [`SIZES`].
fn bodies(policy: &Policy) -> [&'static str; 5] {
    let axes = policy.axes();
    match (axes.copy, axes.hint, axes.every) {
        (CopyBy::CopyFileRange, ..) => [
            "range 0",
            "range 65536, range 0",
            "range 1048576, range 0",
            "range 1048576, range 1, range 0",
            "3 range 1048576, range 524288, range 0",
        ],
        (CopyBy::Direct, ..) => [
            "eof",
            "rw 65536, eof",
            "16 rw 65536, eof",
            "16 rw 65536, read 1, write 4096, truncate 1048577, eof",
            "56 rw 65536, eof",
        ],
        (CopyBy::Aio, ..) => [
            "eof",
            "allocate 0 65536, read 65536, place, eof",
            "allocate 0 1048576, read 65536, place, 15 read 65536, eof",
            "16 rw 65536, rw 1, eof, hint 1048577",
            "allocate 0 3670016, read 65536, place, 55 read 65536, eof",
        ],
        (_, Hint::SyncFileRange, Every::Bytes(0x1_0000)) => {
            ["eof", "rwh 65536, eof", "16 rwh 65536, eof", "16 rwh 65536, rwh 1, eof", "56 rwh 65536, eof"]
        }
        (_, Hint::SyncFileRange, Every::Bytes(0x10_0000)) => [
            "eof",
            "rw 65536, eof, hint 65536",
            "16 rw 65536, hint 1048576, eof",
            "16 rw 65536, hint 1048576, rw 1, eof, hint 1",
            "16 rw 65536, hint 1048576, 16 rw 65536, hint 1048576, 16 rw 65536, hint 1048576, \
             8 rw 65536, eof, hint 524288",
        ],
        (_, Hint::SyncFileRange, Every::File) => [
            "eof",
            "rw 65536, eof, hint 65536",
            "16 rw 65536, eof, hint 1048576",
            "16 rw 65536, rw 1, eof, hint 1048577",
            "56 rw 65536, eof, hint 3670016",
        ],
        (_, Hint::WriteAndWait, Every::File) => [
            "eof",
            "rw 65536, eof, hintwait 65536",
            "16 rw 65536, eof, hintwait 1048576",
            "16 rw 65536, rw 1, eof, hintwait 1048577",
            "56 rw 65536, eof, hintwait 3670016",
        ],
        _ => ["eof", "rw 65536, eof", "16 rw 65536, eof", "16 rw 65536, rw 1, eof", "56 rw 65536, eof"],
    }
}

/// The calls around the bytes, which stand at `{}`.
fn frame(policy: &str) -> &'static str {
    match policy {
        "immediate" => {
            "mkdir D 700, opendir S, dents S, rdonly S/f, rdwr+creat D/f, {}, fsync D/f, close D/f, close S/f, \
             dents S, close S, rdonly D, fsync D, close D, rdonly P, fsync P, close P"
        }
        "deferred" | "reverse" | "threads" => {
            "mkdir D 700, opendir S, dents S, rdonly S/f, rdwr+creat D/f, {}, close D/f, close S/f, dents S, \
             close S, opendir D, dents D, [file], rdonly D, fsync D, close D, rdonly P, fsync P, close P"
        }
        "uring" => {
            "mkdir D 700, opendir S, dents S, rdonly S/f, rdwr+creat D/f, {}, close D/f, close S/f, dents S, \
             close S, opendir D, 2 dents D, close D, rdwr D/f, ring, close D/f, rdonly D, fsync D, close D, \
             rdonly P, fsync P, close P"
        }
        "direct" => {
            "mkdir D 700, opendir S, dents S, rdonly S/f, rdwr+creat+direct D/f, {}, close D/f, close S/f, \
             dents S, close S, opendir D, dents D, [file], rdonly D, fsync D, close D, rdonly P, fsync P, close P"
        }
        "aio" => {
            "mkdir D 700, opendir S, dents S, lstat S/f, rdonly S/f, rdwr+creat+direct D/f, {}, close S/f, dents S, \
             close S, submit 1, await, fsync D/f, close D/f, rdonly D, fsync D, close D, rdonly P, fsync P, close P"
        }
        "pg-8.4" => {
            "mkdir D 700, opendir S, dents S, lstat S/f, rdonly S/f, rdwr+creat D/f, {}, fsync D/f, close D/f, \
             close S/f, dents S, close S"
        }
        "pg-9.0" | "pg-9.3" | "pg-9.6" => {
            "mkdir D 700, opendir S, dents S, lstat S/f, rdonly S/f, rdwr+creat D/f, {}, close D/f, close S/f, \
             dents S, close S, opendir D, dents D, lstat D/f, [file], rdonly D, fsync D, close D"
        }
        "pg-16" => {
            "mkdir D 700, opendir S, dents S, rdonly S/f, rdwr+creat D/f, {}, close D/f, close S/f, dents S, \
             close S, opendir D, dents D, [file], rdonly D, fsync D, close D"
        }
        "pg-18-clone" => {
            "mkdir D 700, opendir S, dents S, rdonly S/f, wronly+creat D/f, {}, close D/f, close S/f, dents S, \
             close S, opendir D, dents D, [file], rdonly D, fsync D, close D"
        }
        "never" => {
            "mkdir D 700, opendir S, dents S, rdonly S/f, rdwr+creat D/f, {}, close D/f, close S/f, dents S, \
             close S"
        }
        "o-dsync" => {
            "mkdir D 700, opendir S, dents S, rdonly S/f, rdwr+creat+dsync D/f, {}, close D/f, close S/f, \
             dents S, close S, rdonly D, fsync D, close D, rdonly P, fsync P, close P"
        }
        "dpkg" => {
            "mkdir D 700, opendir S, dents S, rdonly S/f, rdwr+creat D/f, {}, close D/f, close S/f, dents S, \
             close S, opendir D, dents D, rdonly D/f, wait all of D/f, close D/f, dents D, close D, \
             opendir D, dents D, [file]"
        }
        "initdb-sync" => {
            "mkdir D 700, opendir S, dents S, rdonly S/f, rdwr+creat D/f, {}, close D/f, close S/f, dents S, \
             close S, opendir D, dents D, rdonly D/f, hint all of D/f, close D/f, dents D, close D, \
             rdonly D, hint all of D, close D, opendir D, dents D, [file], rdonly D, fsync D, close D"
        }
        "git-batch" => {
            "mkdir D 700, opendir S, dents S, rdonly S/f, rdwr+creat D/f, {}, close D/f, close S/f, dents S, \
             close S, rdwr+creat D/.fsynclab-dummy, fsync D/.fsynclab-dummy, close D/.fsynclab-dummy, unlink D/.fsynclab-dummy"
        }
        "syncfs" => {
            "mkdir D 700, opendir S, dents S, rdonly S/f, rdwr+creat D/f, {}, close D/f, close S/f, dents S, \
             close S, rdonly D, syncfs D, close D"
        }
        other => panic!("no sequence was written for {other}"),
    }
}

#[test]
fn every_policy_makes_its_calls_in_number_and_order() {
    for (position, size) in SIZES.into_iter().enumerate() {
        let bench = Bench::with(&[("f", size)]);
        let recorder = Recorder::new(bench.top.path());
        for name in everywhere() {
            let policy = parse(name);
            // Sorted passes read the whole directory before the first sync.
            let second_pass = match name {
                "reverse" | "threads" => "dents D, close D, rdwr D/f, fsync D/f, close D/f",
                _ => "rdwr D/f, fsync D/f, close D/f, dents D, close D",
            };
            let mut body = bodies(&policy)[position].to_owned();
            if name == "pg-9.0" {
                body = bodies(&parse("pg-9.3"))[position].to_owned();
            }
            if name == "o-dsync" && size == 0 {
                body.push_str(", fsync D/f");
            }
            let expected = frame(name).replace("{}", &body).replace("[file]", second_pass);
            let expected = match name {
                "aio" if size == 0 => expected.replace("submit 1, await, ", ""),
                "aio" if size % 4096 > 0 => expected.replace("submit 1, await, ", "").replace("+direct", ""),
                "reverse" | "threads" => expected.replace("dents D, dents D", "2 dents D"),
                _ => expected,
            };
            bench.replay(&recorder, name).expect(name);
            let mut made = recorder.take();
            if name == "pg-9.0" {
                made = as_hints(&made);
            }
            assert_eq!(made, expected, "{name}, {size} bytes");
        }
    }
}

/// fadvise of the servers up to 9.2 in place of the hints of 9.3, nothing else.
fn as_hints(made: &str) -> String {
    let calls: Vec<String> = made.split(", ").map(|call| call.replace("advise", "hint")).collect();
    super::recorder::folded(&calls)
}

#[test]
fn group_access_and_other_opens_follow_from_the_axes() {
    let bench = Bench::with(&[("f", 5)]);
    let recorder = Recorder::new(bench.top.path());
    for (policy, calls) in [
        ("never+open=o-sync", "rdwr+creat+sync D/f, rw 5, eof, close D/f"),
        ("immediate+call=fdatasync", "rw 5, eof, fdatasync D/f, close D/f"),
        ("deferred+call=fdatasync", "rdwr D/f, fdatasync D/f, close D/f"),
        ("immediate+hint=sync-file-range", "rw 5, eof, hint 5, fsync D/f, close D/f"),
        ("deferred+sync=held", "close S/f, dents S, close S, fsync D/f, close D/f, rdonly D, fsync D"),
        ("deferred+sync=held+every=pass", "close S, hint all of D/f, fsync D/f, close D/f"),
        ("dpkg+sync=held", "close S, wait all of D/f, fsync D/f, close D/f"),
        ("uring+sync=held", "close S, ring, close D/f, rdonly D"),
        ("immediate+order=size", "dents S, lstat S/f, dents S, rdonly S/f, rdwr+creat D/f, rw 5"),
        ("deferred+order=size", "opendir D, dents D, lstat D/f, dents D, close D, rdwr D/f, fsync D/f"),
        ("git-batch+call=fdatasync", "fdatasync D/.fsynclab-dummy"),
        ("pg-15+dirs=own+parent", "fsync D, close D, rdonly P, fsync P, close P"),
    ] {
        bench.replay(&recorder, policy).expect(policy);
        let made = recorder.take();
        assert!(made.contains(calls), "{policy}: {made}");
    }
}
