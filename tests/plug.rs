//! Power cuts of copies on simulated drives: what is promised is kept, what is broken is found, and the checker that is
//! blind says so. Needs root.

#![expect(clippy::print_stdout, reason = "the output of a test is its reader's")]

mod sim;

use std::path::{Path, PathBuf};

use fsynclab::powercut::judge::Verdict;
use fsynclab::powercut::trial::Tally;
use fsynclab::powercut::{Campaign, Error, Plan};
use fsynclab::replay::policy::Policy;
use fsynclab::replay::shape::{FileShape, Shape};
use fsynclab::simdrive::spec::Spec;
use fsynclab::sys::clock::now_ns;
use fsynclab::sys::watch::Quiet;

const PLAN: Plan = Plan { cuts: 20, aimed: 100, seed: 7, emptied: false };

/// A few files of every kind.
fn shape() -> Shape {
    let sizes = [8192, 0, 16_384, 100, 24_576, 0, 8192];
    let file = |(number, size): (usize, u64)| FileShape::dense(PathBuf::from(number.to_string()), size);
    Shape { directories: Vec::new(), files: sizes.into_iter().enumerate().map(file).collect() }
}

/// A directory of a test's own, gone afterwards.
fn scratch() -> tempfile::TempDir {
    std::fs::create_dir_all(sim::directory()).expect("root can make it");
    tempfile::TempDir::new_in(sim::directory()).expect("a directory")
}

struct Outcome {
    tallies: Vec<(String, Tally)>,
    proofs: Vec<(String, u64, Tally)>,
    ended: Result<(), Error>,
}

fn run(spec: &str, policies: &[&str], plan: Plan, directory: &Path) -> Outcome {
    let (spec, shape): (Spec, Shape) = (spec.parse().expect("a spec"), shape());
    let policies: Vec<Policy> = policies.iter().map(|policy| policy.parse().expect("a policy")).collect();
    let campaign = Campaign { spec: &spec, shape: &shape, policies: &policies, plan, directory };
    let journal = sim::journal();
    let start_ns = now_ns();
    let recorded = campaign.record(&journal, &Quiet).expect("root can record");
    let recorded_ns = now_ns();
    assert!(journal.close().expect("it closes"), "something is left to be undone");
    let (mut tallies, mut proofs) = (Vec::new(), Vec::new());
    let ended = campaign.judge(
        &recorded.log,
        &Quiet,
        &mut |all| {
            proofs.extend(
                all.iter().map(|one| (one.planted.name.to_owned(), one.tally.broken(), one.tally.clone())),
            );
        },
        &mut |name, tally| tallies.push((name.to_owned(), tally)),
    );
    let images: u64 = tallies.iter().map(|(_, tally)| tally.images()).sum::<u64>()
        + proofs.iter().map(|(_, _, tally)| tally.images()).sum::<u64>();
    let (record_ms, judge_ms) = ((recorded_ns - start_ns) / 1_000_000, (now_ns() - recorded_ns) / 1_000_000);
    println!("{spec}: recorded in {record_ms} ms; {images} images in {judge_ms} ms");
    for (name, broken, tally) in &proofs {
        println!("  {name}: {broken} of {} broken: {:?}", tally.images(), tally.verdicts);
    }
    for (name, tally) in &tallies {
        println!("  {name}: {:?}; in fact {:?}", tally.verdicts, tally.in_fact);
        for ((promised, verdict), example) in &tally.examples {
            println!("    {promised} {verdict}: {example:?}");
        }
    }
    Outcome { tallies, proofs, ended }
}

fn kept(tally: &Tally) -> bool {
    tally.broken() == 0 && tally.complete && tally.verdicts.contains_key(&Verdict::Kept)
}

#[test]
fn honest_drives_keep_what_is_promised_on_ext4_and_every_planted_fault_is_found() {
    for spec in ["nvme-consumer,size=512MiB", "nvme-consumer,write-cache=off,size=512MiB"] {
        let directory = scratch();
        let outcome = run(spec, &["immediate", "deferred", "never"], PLAN, directory.path());
        outcome.ended.expect("the checker is valid");
        assert_eq!(outcome.tallies.len(), 3);
        assert!(outcome.tallies.iter().all(|(_, tally)| kept(tally)));
        let never = &outcome.tallies[2].1;
        assert!(never.in_fact.keys().any(|verdict| *verdict != Verdict::Kept), "{never:?}");
        for (fault, verdict) in
            [("a flushed write dropped", Verdict::Stale), ("a write misdirected", Verdict::Misplaced)]
        {
            let (_, _, tally) =
                outcome.proofs.iter().find(|(name, ..)| name == fault).expect("it is planted");
            assert!(tally.verdicts.contains_key(&verdict), "{fault}: {tally:?}");
        }
        directory.close().expect("nothing is left in it");
    }
}

#[test]
fn a_drive_that_lies_is_found() {
    let directory = scratch();
    let plan = Plan { cuts: 40, ..PLAN };
    let outcome = run("liar,size=512MiB", &["immediate", "syncfs"], plan, directory.path());
    outcome.ended.expect("the checker is valid on a lying drive too");
    for (policy, tally) in outcome.tallies {
        assert!(tally.broken() > 0, "{policy}: {tally:?}");
        let example = tally.examples.iter().find(|((promised, _), _)| *promised);
        assert!(example.is_some(), "{policy}: a broken promise has an example");
    }
}

#[test]
fn a_checker_that_takes_everything_for_certain_says_that_it_is_blind() {
    let directory = scratch();
    let plan = Plan { emptied: true, ..PLAN };
    let outcome = run("nvme-consumer,size=512MiB", &["immediate"], plan, directory.path());
    let error = outcome.ended.expect_err("a blind checker must not judge");
    let words = "injector invalid: \"a drive that ignores flushes\" was not caught";
    assert_eq!(error.to_string(), words);
    assert!(outcome.tallies.is_empty(), "no policy is judged by it");
}

#[test]
fn xfs_btrfs_and_ext4_without_a_journal_keep_what_is_promised() {
    for spec in [
        "zero,fs=xfs,size=512MiB",
        "nvme-consumer,fs=btrfs,size=512MiB",
        "nvme-consumer,size=512MiB,mount=noload",
    ] {
        let directory = scratch();
        let plan = Plan { cuts: 10, aimed: 60, ..PLAN };
        let outcome = run(spec, &["deferred", "o-dsync"], plan, directory.path());
        outcome.ended.expect("the checker is valid");
        assert!(outcome.tallies.iter().all(|(_, tally)| kept(tally)), "{spec}");
    }
}

#[test]
fn every_image_of_a_small_log_keeps_the_promise_and_a_second_judge_says_the_same() {
    let directory = scratch();
    let (spec, policies) = ("nvme-consumer,size=512MiB", ["immediate".parse().expect("a policy")]);
    let spec: Spec = spec.parse().expect("a spec");
    let file = |name: &str, size| FileShape::dense(PathBuf::from(name), size);
    let shape = Shape { directories: Vec::new(), files: vec![file("1", 8192), file("2", 0)] };
    let plan = Plan { aimed: usize::MAX, ..PLAN };
    let campaign =
        Campaign { spec: &spec, shape: &shape, policies: &policies, plan, directory: directory.path() };
    let journal = sim::journal();
    let log = campaign.record(&journal, &Quiet).expect("root can record").log;
    let judge = || {
        let mut tallies = Vec::new();
        campaign
            .judge(&log, &Quiet, &mut |_| {}, &mut |_, tally| tallies.push(tally))
            .expect("the checker is valid");
        tallies
    };
    let first = judge();
    println!("{} images, {:?}", first[0].images(), first[0].verdicts);
    assert!(kept(&first[0]), "{first:?}");
    assert!(first[0].aimed > 30, "all combinations: {first:?}");
    assert_eq!(judge(), first, "same log, same seed, same verdicts");
    journal.close().expect("nothing is left to be undone");
}

#[test]
fn the_program_says_no_with_an_example_that_can_be_seen_again_and_that_it_is_blind() {
    let directory = scratch();
    let plug = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fsynclab"));
        command.env("FSYNCLAB_STATE_DIR", directory.path().join("state")).current_dir(directory.path());
        command.args(["plug", "copy", "many-small:4", "--sim", "liar,size=512MiB", "--policy", "immediate"]);
        let output = command.args(arguments).output().expect("it can be started");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let little = ["--cuts", "10", "--aimed", "40", "--seed", "3"];
    let (code, out, err) = plug(&[&little[..], &["--write-log", "log", "--json", "out.json"]].concat());
    assert_eq!(code, Some(4), "{out}{err}");
    assert!(out.contains("PROMISE BROKEN") && !out.contains("safe"), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 79), "{out}");
    let text = std::fs::read(directory.path().join("out.json")).expect("results are written");
    let document = fsynclab::results::text::read(&text).expect("a document");
    assert_eq!((document.injector_valid, document.complete), (Some(true), true));
    let cuts = document.arms[0].power_cuts.as_ref().expect("it was cut");
    let example = cuts.examples.iter().find(|example| example.promised).expect("an example");
    let (code, out, err) = plug(&["--from-log", "log", "--image", &example.image]);
    assert_eq!(code, Some(4), "{out}{err}");
    assert!(out.contains(&format!("{}: {}", example.verdict, example.path)), "{out}");
    let (code, out, err) = plug(&[&little[..], &["--from-log", "log", "--blind"]].concat());
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(out.contains("INJECTOR INVALID"), "{out}");
    let left: Vec<_> = std::fs::read_dir(directory.path())
        .expect("it is there")
        .map(|entry| entry.expect("an entry").file_name())
        .filter(|name| name.to_string_lossy().starts_with(".fsynclab"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
