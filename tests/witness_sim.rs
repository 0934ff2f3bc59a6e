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

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use fsynclab::powercut::blocks::{BLOCK_BYTES, Blocks, View};
use fsynclab::powercut::cuts::{Cuts, Image};
use fsynclab::powercut::stage::lay;
use fsynclab::powercut::tape::{BEGIN, Tape};
use fsynclab::powercut::witness::book;
use fsynclab::powercut::witness::event::{Event, Record};
use fsynclab::simdrive::model::{Flush, Model, Options};
use fsynclab::simdrive::mount::{self, ImageDevice, SimulatedDrive, model_of};
use fsynclab::simdrive::spec::Spec;
use fsynclab::sys::journal::Journal;
use nix::errno::Errno;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use witness_common::Scene;

/// How many cuts happen at the same time.
const AT_ONCE: usize = 3;

/// What came of one cut.
#[derive(Debug)]
struct Cut {
    /// What the verifier says; an error number where nothing could be mounted.
    verified: Result<Output, Errno>,
    /// Requests that were lost though a flush after them had been answered.
    lied: usize,
    /// Where nothing is found: what an honest drive would have left otherwise, of that which was acknowledged.
    missed: Vec<PathBuf>,
}

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
    let cut = after_the_reboot(scene, (&run, number), (spec, seed), &log, worst, directory.path());
    nix::mount::umount2(&directory.path().join("sim"), nix::mount::MntFlags::MNT_DETACH).ok();
    (run, cut)
}

fn after_the_reboot(
    scene: &Scene,
    (run, number): (&str, u32),
    (spec, seed): (&Spec, u64),
    log: &Path,
    worst: bool,
    directory: &Path,
) -> Cut {
    let mut tape = Tape::new(BufReader::new(File::open(log).expect("a log"))).expect("a log");
    let (section, base) = tape.next_section().expect("whole up to the cut").expect("it was marked");
    let model = model_of(spec).expect("a model");
    let options = spec.options(&model, seed).expect("options");
    let at = section.length;
    let cuts = Cuts::new(&section, Cuts::certain_on(&model, &options), (&model, &options));
    let all_gone = |missing| Image { cut: at, missing, torn: None, random: true };
    // An honest drive may lose all that is volatile too.
    let image = if worst || seed.is_multiple_of(2) {
        all_gone(cuts.volatile(at))
    } else {
        cuts.random(at..at, 1, seed).swap_remove(0).swap_remove(0)
    };
    let honest = Cuts::certain_on(&model, &Options { flush: Flush::Honest, ..options });
    let may_go = Cuts::new(&section, honest, (&model, &options)).volatile(at);
    let lied = image.missing.iter().filter(|number| may_go.binary_search(number).is_err()).count();
    let (requests, volatile, lost) = (section.requests.len(), cuts.volatile(at).len(), image.missing.len());
    println!("  {requests} requests, {volatile} volatile at the cut, {lost} lost, of these {lied} flushed");

    let left = |image: &Image, look: &dyn Fn(&Path) -> (Option<Output>, Tree)| {
        let mut changed = Blocks::default();
        lay(&mut changed, &base, &section, image, 0);
        mounted((spec, &model), View { base: &base, changed: &changed }, directory, look)
    };
    let cut = number.to_string();
    let verify = |root: &Path| (Some(scene.verify(root, &["--run", run, "--cut", &cut])), tree(root));
    match left(&image, &verify) {
        Err(errno) => Cut { verified: Err(errno), lied, missed: Vec::new() },
        Ok((output, found)) => {
            let output = output.expect("it was verified");
            let silent = output.status.code() == Some(0) && lied > 0;
            let honest = || left(&all_gone(may_go), &|root| (None, tree(root))).map(|(_, tree)| tree);
            let mut missed = Vec::new();
            if silent {
                let honest = honest().expect("what an honest drive leaves can be mounted");
                missed.extend(honest.keys().filter(|path| found.get(*path) != honest.get(*path)).cloned());
                missed.extend(found.keys().filter(|path| !honest.contains_key(*path)).cloned());
                println!("  taken: {missed:?}");
                let ledger = scene.ledgers.join(run).join("ledger");
                let open = open(&std::fs::read_to_string(ledger).expect("a ledger"), number);
                missed.retain(|path| !path.iter().any(|name| open.contains(&*name.to_string_lossy())));
            }
            Cut { verified: Ok(output), lied, missed }
        }
    }
}

/// The most that a writer tells of one deed.
const DEED: usize = 5;

/// Names of which nothing may have been acknowledged: those of each writer's last deed, and of files that are never synced.
fn open(ledger: &str, cut: u32) -> BTreeSet<String> {
    let (records, _) = book::read(ledger.as_bytes(), "ledger").expect("whole");
    let (mut names, mut open) = (BTreeMap::<u64, Vec<String>>::new(), BTreeSet::new());
    let (mut unsynced, mut last) = (BTreeSet::new(), BTreeMap::<u32, Vec<Event>>::new());
    for record in records {
        let Record::Told { cut: of, writer, event, .. } = record else { continue };
        if of != cut {
            continue;
        }
        match &event {
            Event::Create { file, method, name, .. } => {
                names.entry(*file).or_default().push(name.clone());
                unsynced.extend((method == "no-sync").then_some(*file));
            }
            Event::Rename { file, to, .. } => names.entry(*file).or_default().push(to.1.clone()),
            _ => {}
        }
        last.entry(writer).or_default().push(event);
    }
    let under_way = last.values().flat_map(|events| events.iter().rev().take(DEED));
    for event in under_way {
        match event {
            Event::Create { file, .. }
            | Event::Write { file, .. }
            | Event::Data { file }
            | Event::Rename { file, .. } => unsynced.extend([*file]),
            Event::Remove { name, .. } | Event::MakeDirectory { name, .. } => open.extend([name.clone()]),
            Event::Entries { .. } => {}
        }
    }
    open.extend(unsynced.iter().filter_map(|file| names.get(file)).flatten().cloned());
    open
}

type Tree = BTreeMap<PathBuf, Vec<u8>>;

/// Every file there, and every directory as an empty one.
fn tree(root: &Path) -> Tree {
    let entries = walkdir::WalkDir::new(root).into_iter().map(|entry| entry.expect("a readable tree"));
    let with_bytes = |path: &Path| std::fs::read(path).unwrap_or_default();
    let relative = |path: &Path| path.strip_prefix(root).expect("below it").to_owned();
    entries.map(|entry| (relative(entry.path()), with_bytes(entry.path()))).collect()
}

/// Looks at what is left of a drive, mounted as after a reboot.
fn mounted<T>(
    (spec, model): (&Spec, &Model),
    view: View<'_>,
    directory: &Path,
    look: &dyn Fn(&Path) -> T,
) -> Result<T, Errno> {
    let mut device = ImageDevice::create(spec, model.block_bytes, directory).expect("root can make one");
    let new = view.changed.numbers().filter(|block| view.base.get(*block).is_none());
    for block in view.base.numbers().chain(new) {
        device.write(view.block(block), block * BLOCK_BYTES as u64).expect("written");
    }
    let looked = device.mount().map(|()| {
        let looked = look(device.mount_point());
        device.unmount().expect("nobody uses it");
        looked
    });
    device.close().expect("it can be taken apart");
    looked
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
        println!("{spec}: {}", words(&came));
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

fn words(cut: &Cut) -> String {
    match &cut.verified {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            let line = text.lines().find(|line| line.contains("(begun"));
            format!("exit {:?}: {}", output.status.code(), line.unwrap_or(&common::told(output)))
        }
        Err(errno) => format!("does not mount: {errno}"),
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
        "sata-2009,write-cache=on,size=512MiB",
    ];
    let (scene, witness, run, all) = campaign(&specs, false);
    let mut lost = false;
    for (spec, cut) in &all {
        let Ok(output) = &cut.verified else { panic!("{spec}: {cut:?}") };
        assert_eq!((output.status.code(), cut.lied), (Some(0), 0), "{spec}: {}", common::text(output));
        lost |= String::from_utf8_lossy(&output.stdout).contains("were lost: power was cut");
    }
    assert!(lost, "of what was never synced something is lost");
    if let Some((_, Cut { verified: Ok(last), .. })) = all.last() {
        println!("{}", String::from_utf8_lossy(&last.stdout));
    }
    let text = std::fs::read_to_string(scene.ledgers.join(&run).join("ledger")).expect("a ledger");
    let judged = text.lines().filter(|line| line.contains("{\"judged\":")).count();
    assert_eq!(judged, all.len());
    end(&scene, witness);
}

#[test]
fn on_a_drive_that_lies_every_cut_that_takes_something_shows_it() {
    let specs = ["liar,size=512MiB", "liar,fs=xfs,size=512MiB", "liar,fs=btrfs,size=512MiB"];
    let (scene, witness, _, all) = campaign(&specs, true);
    let mut found = 0;
    for (spec, cut) in &all {
        let Ok(output) = &cut.verified else {
            found += 1;
            continue;
        };
        let code = output.status.code();
        found += usize::from(code == Some(4));
        // Where nothing is found, the lie took nothing that was acknowledged; and where there was none, nothing is found.
        assert!(code == Some(0) || (code == Some(4) && cut.lied > 0), "{spec}: {}", common::text(output));
        assert!(cut.missed.is_empty(), "{spec}: {:?}: {}", cut.missed, common::text(output));
    }
    if let Some((_, Cut { verified: Ok(first), .. })) = all.first() {
        println!("{}", String::from_utf8_lossy(&first.stdout));
    }
    println!("{found} of {} cuts show the lie; the others took nothing acknowledged", all.len());
    assert!(2 * found >= all.len(), "{found} of {}", all.len());
    end(&scene, witness);
}
