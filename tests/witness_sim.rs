//! Real writers on simulated drives that lose their power: the drive's host dies at a random moment, what was volatile in
//! its cache is gone as the model has it, and the rest is mounted as after a reboot. No false alarm on honest drives, and
//! every lie is found. Needs root.
//!
//! `FSYNCLAB_WITNESS_CUTS` says how many cuts of each kind (30), `FSYNCLAB_WITNESS_SEED` when (1).

#![expect(clippy::print_stdout, reason = "the output of a test is its reader's")]

mod common;
mod sim;
#[expect(dead_code, reason = "others use the rest of it")]
mod witness_common;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::Output;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use fsynclab::powercut::blocks::{BLOCK_BYTES, Blocks, View};
use fsynclab::powercut::cuts::{Cuts, Image};
use fsynclab::powercut::stage::lay;
use fsynclab::powercut::tape::{BEGIN, Tape};
use fsynclab::simdrive::model::{Flush, Model, Options};
use fsynclab::simdrive::mount::{self, ImageDevice, SimulatedDrive, model_of};
use fsynclab::simdrive::spec::Spec;
use fsynclab::sys::journal::Journal;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use witness_common::Scene;

/// How many cuts happen at the same time.
const AT_ONCE: usize = 2;

/// What came of one cut.
#[derive(Debug)]
enum Came {
    /// It was mounted and verified.
    Verified(Output),
    /// It could not be mounted.
    DoesNotMount(String),
}

/// What came of a cut, and how many requests were lost that the drive had said it had flushed.
type Cut = (Came, usize);

/// One cut on a drive of its own. `worst`: all that is volatile is lost; else what happens to be.
fn cut(scene: &Scene, run: Option<&str>, spec: &Spec, seed: u64, worst: bool) -> (String, Cut) {
    let directory = tempfile::TempDir::new_in(&scene.directory).expect("a directory");
    let journal = Journal::create(&directory.path().join("state")).expect("a journal");
    let log = directory.path().join("write-log");
    let options = mount::Options {
        seed,
        directory: directory.path().to_owned(),
        aged: false,
        write_log: Some(log.clone()),
        log_data: true,
        journal: &journal,
    };
    let drive = SimulatedDrive::create(spec, options).expect("root can make a simulated drive");
    drive.mark(&format!("{BEGIN}writer")).expect("the server answers");
    let seed_text = seed.to_string();
    let mut more = vec!["--seed", &seed_text];
    more.extend(run.iter().flat_map(|run| ["--run", run]));
    let (mut writer, line) = scene.write_line(drive.mount_point(), &more);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    thread::sleep(Duration::from_millis(random.random_range(300..1500)));
    drive.cut_power().expect("the server says when it has lost its power");
    writer.kill();
    // It is gone: closing only removes what is left of it.
    drive.close(&journal).expect_err("its server has ended");
    assert!(journal.close().expect("it closes"), "nothing is left to be undone");
    let (run, number) = line;
    let came = after_the_reboot(scene, (&run, number), spec, &log, worst.then_some(seed), directory.path());
    nix::mount::umount2(&directory.path().join("sim"), nix::mount::MntFlags::MNT_DETACH).ok();
    (run, came)
}

fn after_the_reboot(
    scene: &Scene,
    (run, number): (&str, u32),
    spec: &Spec,
    log: &Path,
    worst: Option<u64>,
    directory: &Path,
) -> Cut {
    let model = model_of(spec).expect("a model");
    let options = spec.options(&model, worst.unwrap_or(number.into())).expect("options");
    let (base, changed, lied) = left_over(log, (&model, &options), number, worst.is_some());
    let view = View { base: &base, changed: &changed };
    let mut device = ImageDevice::create(spec, model.block_bytes, directory).expect("root can make one");
    for block in base.numbers().chain(changed.numbers().filter(|block| base.get(*block).is_none())) {
        device.write(view.block(block), block * BLOCK_BYTES as u64).expect("written");
    }
    let came = if let Err(errno) = device.mount() {
        Came::DoesNotMount(errno.to_string())
    } else {
        let cut = number.to_string();
        let output = scene.verify(device.mount_point(), &["--run", run, "--cut", &cut]);
        device.unmount().expect("nobody uses it");
        Came::Verified(output)
    };
    device.close().expect("it can be taken apart");
    (came, lied)
}

/// What is on the drive after its power went at the end of the log.
fn left_over(
    log: &Path,
    (model, options): (&Model, &Options),
    seed: u32,
    worst: bool,
) -> (Blocks, Blocks, usize) {
    let mut tape = Tape::new(BufReader::new(File::open(log).expect("a log"))).expect("a log");
    let (section, base) = tape.next_section().expect("whole up to the cut").expect("it was marked");
    let cuts = Cuts::new(&section, Cuts::certain_on(model, options), (model, options));
    let at = section.length;
    let image = if worst {
        Image { cut: at, missing: cuts.volatile(at), torn: None, random: true }
    } else {
        cuts.random(at..at, 1, seed.into()).swap_remove(0).swap_remove(0)
    };
    let mut changed = Blocks::default();
    lay(&mut changed, &base, &section, &image, 0);
    let honest = Cuts::certain_on(model, &Options { flush: Flush::Honest, ..*options });
    let may_go = Cuts::new(&section, honest, (model, options)).volatile(at);
    let lied = image.missing.iter().filter(|number| may_go.binary_search(number).is_err()).count();
    println!(
        "  {} requests, {} of them volatile at the cut, {} lost, of these {lied} flushed",
        section.requests.len(),
        cuts.volatile(at).len(),
        image.missing.len()
    );
    (base, changed, lied)
}

/// So many cuts of one run on these drives in turn.
fn campaign(specs: &[&str], worst: bool) -> (Scene, witness_common::Started, String, Vec<(String, Cut)>) {
    std::fs::create_dir_all(sim::directory()).expect("root can make it");
    let directory = tempfile::TempDir::new_in(sim::directory()).expect("a directory").keep();
    let (scene, witness) = Scene::start(&directory, &directory.join("ledgers"));
    let cuts = usize::try_from(sim::number("FSYNCLAB_WITNESS_CUTS", 30)).expect("a number");
    let seed = sim::number("FSYNCLAB_WITNESS_SEED", 1);
    let specs: Vec<Spec> = specs.iter().map(|spec| spec.parse().expect("a spec")).collect();
    let one = |number: usize, run: Option<&str>| {
        // Mounts belong to the thread.
        let spec = &specs[number % specs.len()];
        let (run, came) = cut(&scene, run, spec, seed << 16 | number as u64, worst);
        println!("{spec}: {}", words(&came.0));
        (run, (spec.to_string(), came))
    };
    let (run, first) = thread::scope(|scope| scope.spawn(|| one(0, None)).join().expect("no panic"));
    let next = Mutex::new(1);
    let all = Mutex::new(vec![first]);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let number = {
                        let mut next = next.lock().expect("no panic");
                        *next += 1;
                        *next - 1
                    };
                    if number >= cuts {
                        break;
                    }
                    let came = one(number, Some(&run)).1;
                    all.lock().expect("no panic").push(came);
                }
            });
        }
    });
    (scene, witness, run, all.into_inner().expect("no panic"))
}

fn words(came: &Came) -> String {
    match came {
        Came::Verified(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            let line = text.lines().find(|line| line.contains("(begun"));
            format!("exit {:?}: {}", output.status.code(), line.unwrap_or(&common::told(output)))
        }
        Came::DoesNotMount(why) => format!("does not mount: {why}"),
    }
}

fn end(scene: &Scene, mut witness: witness_common::Started) {
    witness.kill();
    std::fs::remove_dir_all(&scene.directory).expect("nothing is mounted in it");
}

#[test]
fn on_an_honest_drive_no_cut_shows_a_loss() {
    let specs = [
        "nvme-consumer,size=512MiB",
        "nvme-consumer,fs=xfs,size=512MiB",
        "nvme-consumer,fs=btrfs,size=512MiB",
        "nvme-consumer,write-cache=off,size=512MiB",
    ];
    let (scene, witness, run, all) = campaign(&specs, false);
    let mut cut = false;
    for (spec, (came, lied)) in &all {
        let Came::Verified(output) = came else { panic!("{spec}: {came:?}") };
        assert_eq!((output.status.code(), *lied), (Some(0), 0), "{spec}: {}", common::text(output));
        cut |= String::from_utf8_lossy(&output.stdout).contains("were lost: power was cut");
    }
    assert!(cut, "what was never synced is lost");
    let text = std::fs::read_to_string(scene.ledgers.join(&run).join("ledger")).expect("a ledger");
    let judged = text.lines().filter(|line| line.contains("{\"judged\":")).count();
    assert_eq!(judged, all.len());
    end(&scene, witness);
}

#[test]
fn on_a_drive_that_lies_every_cut_shows_it() {
    let specs = ["liar,size=512MiB", "liar,fs=xfs,size=512MiB", "liar,fs=btrfs,size=512MiB"];
    let (scene, witness, _, all) = campaign(&specs, true);
    for (spec, (came, lied)) in &all {
        assert!(*lied > 0, "{spec} had nothing flushed that could be lost");
        if let Came::Verified(output) = came {
            assert_eq!(output.status.code(), Some(4), "{spec}: {}", common::text(output));
        }
    }
    end(&scene, witness);
}
