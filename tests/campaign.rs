//! A tenth of `tests/campaign`: every policy on every file system, cut many times: none breaks its printed promise on an
//! honest drive, every lying drive is found. Needs root.

#![expect(clippy::print_stdout, reason = "the pace is its reader's")]

mod sim;

use std::path::Path;

use fsynclab::powercut::trial::Tally;
use fsynclab::powercut::{Campaign, Plan};
use fsynclab::replay::policy::{Policy, list};
use fsynclab::replay::shape::Shape;
use fsynclab::replay::template::Template;
use fsynclab::simdrive::spec::Spec;
use fsynclab::sys::clock::now_ns;
use fsynclab::sys::watch::Quiet;

/// Random cuts of each policy, half of them during the copy.
const CUTS: usize = 30;
/// Policies beside the named ones that show what a file system gives.
const BESIDE: [&str; 4] =
    ["immediate+dirs=none", "o-dsync+dirs=none", "never+dirs=own+parent", "never+hint=sync-file-range"];

/// The tree of the whole campaign.
fn shape() -> Shape {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/campaign.shape");
    Template::resolve(path.as_os_str(), 1).expect("a shape").shape
}

/// Judges policies on a drive; what came of each that could be there. Half of the cuts are made during the copy.
fn judged(spec: &str, policies: &[Policy]) -> Vec<(Policy, Tally)> {
    std::fs::create_dir_all(sim::directory()).expect("root can make it");
    let directory = tempfile::TempDir::new_in(sim::directory()).expect("a directory");
    let (spec, shape): (Spec, Shape) = (spec.parse().expect("a spec"), shape());
    let plan = Plan { cuts: CUTS / 2, aimed: CUTS, seed: 1, emptied: false, jobs: 0 };
    let campaign = Campaign { spec: &spec, shape: &shape, policies, plan, directory: directory.path() };
    let journal = sim::journal();
    let log = campaign.record(&journal, &Quiet).expect("root can record").log;
    let start_ns = now_ns();
    let mut tallies = Vec::new();
    let ended = campaign.judge(&log, &Quiet, &mut |_| {}, &mut |name, tally| {
        tallies.push((name.parse().expect("a policy"), tally));
    });
    ended.unwrap_or_else(|error| panic!("{spec}: {error}"));
    let images: u64 = tallies.iter().map(|(_, tally): &(Policy, Tally)| tally.images()).sum();
    let milliseconds = (now_ns() - start_ns) / 1_000_000;
    let pace = images * 1000 / milliseconds.max(1);
    println!("{spec}: {images} images of {} policies, {pace} a second", tallies.len());
    assert!(journal.close().expect("it closes"), "something is left to be undone");
    directory.close().expect("nothing is mounted in it");
    tallies
}

fn policies() -> Vec<Policy> {
    let named = list().into_iter().map(|listed| listed.name.to_owned());
    let texts = named.chain(BESIDE.map(str::to_owned));
    texts.map(|text| text.parse().expect("a policy")).collect()
}

/// Every policy with the cache on and off.
fn no_promise_is_broken(file_system: &str, rest: &str) {
    let with =
        |cache: &str| judged(&format!("nvme-consumer,write-cache={cache},size=512MiB{rest}"), &policies());
    // Much of the time of an image is waiting: two drives at once take little longer than one.
    let (on, off) = std::thread::scope(|scope| {
        let off = scope.spawn(|| with("off"));
        (with("on"), off.join().expect("the other drive is judged"))
    });
    for (policy, tally) in on.iter().chain(&off) {
        let examples: Vec<_> = tally.examples.iter().filter(|((promised, _), _)| *promised).collect();
        assert!(tally.broken() == 0, "{policy} on {file_system}: {:?} {examples:?}", tally.verdicts);
        assert!(tally.complete, "{policy} on {file_system}");
    }
}

#[test]
fn no_policy_breaks_its_promise_on_ext4() {
    no_promise_is_broken("ext4", "");
}

#[test]
fn no_policy_breaks_its_promise_on_ext4_without_a_journal() {
    no_promise_is_broken("ext4 without journal", ",mount=noload");
}

#[test]
fn no_policy_breaks_its_promise_on_xfs() {
    no_promise_is_broken("XFS", ",fs=xfs");
}

#[test]
fn no_policy_breaks_its_promise_on_aged_btrfs() {
    no_promise_is_broken("btrfs", ",fs=btrfs");
}

#[test]
fn every_lying_drive_is_found_under_every_policy_that_promises_a_tree() {
    let policies: Vec<Policy> = ["immediate", "deferred", "syncfs", "o-dsync"]
        .iter()
        .map(|text| text.parse().expect("a policy"))
        .collect();
    for spec in
        ["liar,size=512MiB", "liar,fs=xfs,size=512MiB", "nvme-consumer,flush=ignored,fs=btrfs,size=512MiB"]
    {
        for (policy, tally) in judged(spec, &policies) {
            assert!(tally.broken() > 0, "{policy} on {spec}: {:?}", tally.verdicts);
        }
    }
}
