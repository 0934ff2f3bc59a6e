//! Power cuts of copies on simulated drives: what is promised is kept, what is broken is found, and the checker that is
//! blind says so. Needs root.

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
            println!("    {promised} {verdict}: {:?}", example);
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
