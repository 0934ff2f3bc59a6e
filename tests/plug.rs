//! Power cuts of copies on simulated drives: what is promised is kept, what is broken is found, and the checker that is
//! blind says so. Needs root.

#![expect(clippy::print_stdout, reason = "the output of a test is its reader's")]

mod sim;

use std::path::{Path, PathBuf};

use fsynclab::powercut::blocks::Blocks;
use fsynclab::powercut::cuts::{Certain, Cuts, EXHAUSTIVE_WRITES, Image};
use fsynclab::powercut::judge::Verdict;
use fsynclab::powercut::planted::scene;
use fsynclab::powercut::planted::{PLANTED, Wanted};
use fsynclab::powercut::stage::Stage;
use fsynclab::powercut::tape::{Section, Tape};
use fsynclab::powercut::tree::Tree;
use fsynclab::powercut::trial::{Tally, Trial};
use fsynclab::powercut::{Campaign, Error, Plan};
use fsynclab::replay::policy::Policy;
use fsynclab::replay::shape::{FileShape, Shape};
use fsynclab::results::Promise;
use fsynclab::simdrive::mount::ImageDevice;
use fsynclab::simdrive::spec::Spec;
use fsynclab::sys::clock::now_ns;
use fsynclab::sys::watch::Quiet;

const PLAN: Plan = Plan { cuts: 20, aimed: 100, seed: 7, emptied: false, jobs: 0 };

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
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let pace = images * 1000 / judge_ms.max(1) / cores;
    println!(
        "{spec}: recorded in {record_ms} ms; {images} images in {judge_ms} ms: {pace} a second and core"
    );
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
        for (name, broken, tally) in &outcome.proofs {
            let wanted = PLANTED.iter().find(|planted| planted.name == name).expect("a row").wanted;
            match wanted {
                Wanted::Caught => {
                    assert!(*broken > 0, "written without sync and not lost: {name}: {tally:?}")
                }
                Wanted::Passes => assert!(kept(tally), "synced and not kept: {name}: {tally:?}"),
                Wanted::Either => {}
            }
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

/// A policy's section of a log, and what was on the drive before it.
fn section(log: &Path, policy: &str) -> (Section, Blocks) {
    let mut tape = Tape::new(std::fs::File::open(log).expect("a log")).expect("a log");
    let name = format!("policy {policy}");
    loop {
        let next = tape.next_section().expect("it can be read").expect("it is in the log");
        if next.0.name == name {
            return next;
        }
    }
}

#[test]
fn every_image_of_a_small_log_is_judged_and_keeps_the_promise() {
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
    let judge = |jobs| {
        let mut tallies = Vec::new();
        Campaign { plan: Plan { jobs, ..plan }, ..campaign }
            .judge(&log, &Quiet, &mut |_| {}, &mut |_, tally| tallies.push(tally))
            .expect("the checker is valid");
        tallies
    };
    let first = judge(1);
    let (section, _) = section(&log, "immediate");
    let model = fsynclab::simdrive::mount::model_of(&spec).expect("a model");
    let options = spec.options(&model, plan.seed).expect("a drive");
    let cuts = Cuts::new(&section, Certain::Flushed, (&model, &options));
    let epochs: Vec<usize> = cuts.boundaries().iter().map(|cut| cuts.volatile(*cut).len()).collect();
    let small = epochs.iter().filter(|epoch| **epoch <= EXHAUSTIVE_WRITES);
    let combinations: u64 = small.map(|epoch| 1 << epoch).sum();
    println!("epochs of {epochs:?} writes: {} images, {:?}", first[0].images(), first[0].verdicts);
    assert!(kept(&first[0]), "{first:?}");
    assert!(epochs.iter().all(|epoch| *epoch <= EXHAUSTIVE_WRITES), "{epochs:?}");
    assert!(first[0].aimed >= combinations && combinations > 30, "{combinations}: {first:?}");
    assert_eq!(judge(3), first, "same log, same seed, same verdicts, whoever does the work");
    journal.close().expect("nothing is left to be undone");
}

#[test]
fn what_does_not_mount_and_what_is_repaired_first_is_part_of_the_result() {
    let directory = scratch();
    let (spec, policies): (Spec, _) =
        ("nvme-consumer,size=512MiB".parse().expect("a spec"), ["immediate".parse().expect("a policy")]);
    let shape = shape();
    let campaign =
        Campaign { spec: &spec, shape: &shape, policies: &policies, plan: PLAN, directory: directory.path() };
    let journal = sim::journal();
    let log = campaign.record(&journal, &Quiet).expect("root can record").log;
    let (section, base) = section(&log, "immediate");
    let model = fsynclab::simdrive::mount::model_of(&spec).expect("a model");
    let options = spec.options(&model, PLAN.seed).expect("a drive");
    let device = ImageDevice::create(&spec, model.block_bytes, directory.path()).expect("root can make it");
    let mut stage = Stage::new(device, spec.file_system);
    let tree = Tree::new(&shape, 2).expect("a small tree");
    let mut last = |base: Blocks, section: &Section| {
        let cuts = Cuts::new(section, Certain::Flushed, (&model, &options));
        let trial = Trial::new(section, base, &cuts, scene(&tree), Promise::Tree);
        let image = Image { cut: section.length, missing: Vec::new(), torn: None, random: false };
        trial.judge(&image, &mut stage).expect("it can be judged")
    };
    let whole = last(base.clone(), &section);
    assert_eq!((whole.findings.len(), whole.repaired), (0, false), "{whole:?}");
    let none = last(Blocks::default(), &Section { requests: Vec::new(), ..section.clone() });
    assert_eq!(none.findings[0].verdict, Verdict::DoesNotMount, "{none:?}");
    assert!(none.findings[0].promised && none.findings.len() == 1, "{none:?}");
    // Without the first superblock, as a drive that has forgotten it; e2fsck finds another.
    let mut forgotten = section.clone();
    forgotten.requests.retain(|logged| logged.range().0 >= 4096);
    let mut changed = base.clone();
    changed.write(None, 1024, 1024, None);
    let repaired = last(changed, &forgotten);
    assert!(repaired.repaired && repaired.findings.is_empty(), "{repaired:?}");
    stage.close().expect("nothing is mounted");
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
    let pasted = shell_words::split(&example.command).expect("a shell can read it");
    let again = std::process::Command::new(env!("CARGO_BIN_EXE_fsynclab"))
        .env("FSYNCLAB_STATE_DIR", directory.path().join("state"))
        .current_dir(directory.path())
        .args(&pasted[1..])
        .output()
        .expect("it can be started");
    let shown = String::from_utf8_lossy(&again.stdout).into_owned();
    assert_eq!(again.status.code(), Some(4), "{pasted:?}: {shown}");
    assert!(shown.contains(&format!("{}: {}", example.verdict, example.path)), "{shown}");
    assert!(shown.contains(&example.detail), "{} in {shown}", example.detail);
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
