//! A witness and its writers over loopback: what a bystander does is of no matter, either of them may be killed, a full
//! disk is told, and every sabotage of what was written is found.

mod common;
mod witness_common;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread::sleep;
use std::time::Duration;

use fsynclab::powercut::WitnessError;
use fsynclab::powercut::witness::book;
use fsynclab::powercut::witness::event::{Event, Record, Reply, Request, Session};
use fsynclab::powercut::witness::link::{Address, Link};
use fsynclab::powercut::witness::method::METHODS;
use fsynclab::powercut::witness::token::Token;
use fsynclab::powercut::witness::write::{Task, Writer, directory_name};
use fsynclab::sys::failing::{Effect, Failing, Planned};
use fsynclab::sys::kernel::Call;
use fsynclab::sys::real::Real;
use nix::errno::Errno;
use nix::sys::signal::Signal;
use witness_common::{Scene, Started};

const A_WHILE: Duration = Duration::from_millis(600);

struct Place {
    directory: tempfile::TempDir,
    into: PathBuf,
}

fn place(name: &str) -> Place {
    let directory = common::scratch(name);
    let into = directory.path().join("into");
    std::fs::create_dir(&into).expect("made");
    Place { directory, into }
}

impl Place {
    fn scene(&self) -> (Scene, Started) {
        Scene::start(self.directory.path(), &self.directory.path().join("ledgers"))
    }

    /// What the writer left.
    fn left(&self) -> PathBuf {
        let entries: Vec<PathBuf> = std::fs::read_dir(&self.into)
            .expect("there")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        let [left] = &entries[..] else { panic!("{entries:?}") };
        left.clone()
    }
}

fn files(below: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = walkdir::WalkDir::new(below).into_iter().filter_map(Result::ok);
    let files = entries
        .filter(|entry| entry.file_type().is_file() && !entry.file_name().to_string_lossy().starts_with('.'));
    files.filter_map(|entry| Some((entry.path().to_owned(), std::fs::read(entry.path()).ok()?))).collect()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn kept(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", common::text(output));
    let said = said(output);
    assert!(said.contains("none lost") && said.contains("at 95 % confidence"), "{said}");
}

#[test]
fn a_writer_that_is_killed_leaves_all_it_acknowledged_and_several_cuts_are_one_campaign() {
    let place = place("witness-kill");
    let (scene, _witness) = place.scene();
    let (mut writer, run) = scene.write(&place.into, &["--seed", "7"]);
    sleep(A_WHILE);
    writer.kill();
    let mut command = scene.command("verify", &place.into);
    let refused = command.output().expect("started");
    assert_eq!(refused.status.code(), Some(3), "{}", common::text(&refused));
    assert!(
        common::told(&refused).contains("was not started again since cut 1"),
        "{}",
        common::text(&refused)
    );
    let output = scene.verify(&place.into, &[]);
    kept(&output);
    assert!(said(&output).contains("1 cut verified, no loss seen"), "{}", said(&output));
    assert!(said(&output).contains("perhaps no power was cut"), "only a process died: {}", said(&output));
    assert_eq!(std::fs::read_dir(&place.into).expect("there").count(), 0, "what is kept is removed");
    let again = scene.verify(&place.into, &[]);
    assert_eq!(again.status.code(), Some(3), "{}", common::text(&again));
    assert!(common::told(&again).contains("cut 1 was verified already: kept"), "{}", common::text(&again));
    for cut in 2..=3 {
        let (mut writer, again) = scene.write(&place.into, &["--run", &run, "--writers", "2"]);
        assert_eq!(again, run);
        sleep(A_WHILE / 2);
        writer.kill();
        let output = scene.verify(&place.into, &[]);
        kept(&output);
        assert!(said(&output).contains(&format!("{cut} cuts verified, no loss seen")), "{}", said(&output));
    }
}

#[test]
fn a_writer_that_is_asked_to_end_leaves_nothing_and_was_no_cut() {
    let place = place("witness-end");
    let (scene, witness) = place.scene();
    let (mut writer, _) = scene.write(&place.into, &[]);
    sleep(A_WHILE / 2);
    writer.signal(Signal::SIGINT);
    let (code, told) = writer.ended();
    assert_eq!(code, Some(130), "{told}");
    assert!(told.contains("there was no cut; nothing is left"), "{told}");
    assert_eq!(std::fs::read_dir(&place.into).expect("there").count(), 0);
    witness.error("ended by itself");
    let output = scene.verify(&place.into, &[]);
    assert_eq!(output.status.code(), Some(3), "{}", common::text(&output));
    let (mut limited, _) = scene.write(&place.into, &["--time-limit", "300ms"]);
    assert_eq!(limited.ended().0, Some(0));
}

#[test]
fn a_cut_command_that_cuts_nothing_is_told_and_one_that_fails_too() {
    let place = place("witness-command");
    let (scene, _witness) = place.scene();
    let (mut writer, _) = scene.write(&place.into, &["--cut-command", "false", "--cut-after", "50ms..100ms"]);
    let (code, told) = writer.ended();
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("\"false\" exited with exit code 1"), "{told}");
    kept(&scene.verify(&place.into, &[]));

    let cut = ["--cut-command", "sh -c 'kill -9 $PPID'", "--cut-after", "500ms..600ms"];
    let (mut writer, run) = scene.write(&place.into, &cut);
    assert_eq!(writer.ended().0, None, "it was killed");
    kept(&scene.verify(&place.into, &[]));
    let ledger = std::fs::read_to_string(scene.ledgers.join(run).join("ledger")).expect("a ledger");
    assert!(ledger.contains("\"cut_by\":\"sh\"") && !ledger.contains("PPID"), "no arguments are kept");
}

#[test]
fn what_a_cut_left_is_known_to_clean_and_who_verifies_after_it_is_told() {
    let place = place("witness-clean");
    let (scene, _witness) = place.scene();
    let (mut writer, _) = scene.write(&place.into, &[]);
    sleep(A_WHILE / 2);
    writer.kill();
    let mut clean = common::fsynclab(&place.directory.path().join("state"));
    let output = clean.args(["clean", "--yes"]).output().expect("started");
    assert!(output.status.success() && said(&output).contains("undone: run directory"), "{output:?}");
    assert_eq!(std::fs::read_dir(&place.into).expect("there").count(), 0);
    let output = scene.verify(&place.into, &[]);
    assert_eq!(output.status.code(), Some(4), "{}", common::text(&output));
    assert!(said(&output).contains("or somebody removed it"), "{}", said(&output));
}

#[test]
fn bystanders_who_send_garbage_half_a_message_or_a_wrong_token_do_no_harm() {
    let place = place("witness-bystander");
    let (scene, witness) = place.scene();
    let (mut writer, _) = scene.write(&place.into, &[]);
    let send = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(&scene.address).expect("it listens");
        stream.write_all(bytes).expect("sent");
        stream.shutdown(std::net::Shutdown::Write).expect("ended");
        stream.read_to_end(&mut Vec::new()).ok();
    };
    send(b"GET / HTTP/1.1\r\nHost: witness\r\n\r\n");
    assert!(witness.error("dropped").contains("it sent what is no message"));
    send(&[40, 0, 0, 0, b'{', b'"']);
    assert!(witness.error("dropped").contains("its message broke off"));
    send(&[[2, 0, 0, 0].as_slice(), b"{}", &[0; 32]].concat());
    assert!(witness.error("dropped").contains("the seal of its message is wrong"));
    send(b"");
    assert!(witness.error("dropped").contains("its message broke off"));
    let wrong = place.directory.path().join("wrong");
    std::fs::write(&wrong, "not the token of this witness\n").expect("written");
    std::fs::set_permissions(&wrong, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("mode");
    let mut command = scene.command_with(&wrong, "verify", &place.into);
    let output = command.output().expect("started");
    assert_eq!(output.status.code(), Some(1), "{}", common::text(&output));
    assert!(common::told(&output).contains("has another token"), "{}", common::text(&output));
    assert!(witness.error("dropped").contains("it does not know the token"));
    assert!(writer.runs(), "the writer has noticed nothing");
    sleep(A_WHILE);
    writer.kill();
    kept(&scene.verify(&place.into, &[]));
}

#[test]
fn a_witness_may_be_killed_and_started_again_while_a_writer_writes() {
    let place = place("witness-restart");
    let (scene, mut witness) = place.scene();
    let (mut writer, run) = scene.write(&place.into, &[]);
    let ledger = scene.ledgers.join(&run).join("ledger");
    let length = || std::fs::metadata(&ledger).expect("there").len();
    for _ in 0..3 {
        sleep(A_WHILE / 2);
        witness.kill();
        let before = length();
        sleep(A_WHILE / 2);
        assert!(writer.runs() && length() == before);
        witness = scene.listen();
        witness.line("listening on");
        wait_until(|| length() > before);
    }
    writer.kill();
    kept(&scene.verify(&place.into, &[]));
    let text = std::fs::read_to_string(&ledger).expect("text");
    let (records, whole) = book::read(text.as_bytes(), "ledger").expect("whole");
    assert_eq!(whole, text.len());
    let mut last: BTreeMap<u32, u64> = BTreeMap::new();
    for record in records {
        if let Record::Told { writer, seq, .. } = record {
            assert_eq!(last.insert(writer, seq).unwrap_or(0) + 1, seq, "each once, none left out");
        }
    }
}

fn wait_until(holds: impl Fn() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("not within ten seconds");
}

#[test]
fn a_sync_that_fails_ends_the_writer_and_is_acknowledged_by_nobody() {
    let place = place("witness-fault");
    let (scene, _witness) = place.scene();
    let token = Token::read_or_make(&scene.ledgers.join("token")).expect("the witness has one");
    let address = Address::find(&scene.address, token, A_WHILE).expect("an address");
    let session = Session { id: "0123456789abcdef".repeat(2), ..Session::default() };
    let begin = Request::Begin { run: None, session: Box::new(session) };
    let Reply::Begun { run, cut } = address.ask(&begin, &|| None).expect("asked") else { panic!("no run") };
    std::fs::create_dir(place.into.join(directory_name(0))).expect("made");
    let kernel = Failing::new(Real, [Planned::nth(Call::Fdatasync, 3, Effect::Errno(Errno::EIO))]);
    let link = Link::new(&address, (&run, cut), 0, &|| None);
    let (root, stop) = (place.into.clone(), || false);
    let task = Task { root, writer: 0, session: 1, seed: 5, spare_file_system: false, stop: &stop };
    let error = Writer::new(&kernel, link, task, &|| {}).run().expect_err("the third fdatasync fails");
    let WitnessError::Fault(fault) = error else { panic!("{error}") };
    assert!(fault.to_string().starts_with("could not fdatasync file"), "{fault}");
    let failed = fault.path.file_name().and_then(|name| name.to_str()).expect("a name");
    let text = address.ledger(&run, &|| None).expect("a ledger");
    let (records, _) = book::read(text.as_bytes(), "ledger").expect("whole");
    let (mut file, mut acknowledged, mut others) = (None, false, 0);
    for record in records {
        let Record::Told { event, .. } = record else { continue };
        match event {
            Event::Create { file: number, name, .. } | Event::Rename { file: number, to: (_, name), .. }
                if name == failed =>
            {
                file = Some(number);
            }
            Event::Write { file: number, .. } if Some(number) == file => acknowledged = false,
            Event::Data { file: number } if Some(number) == file => acknowledged = true,
            Event::Data { .. } => others += 1,
            _ => {}
        }
    }
    assert!(file.is_some() && !acknowledged && others > 0, "{file:?}, {others} others");
}

#[test]
fn what_drive_and_probe_say_is_in_the_results_and_what_does_not_mount_is_counted() {
    let place = place("witness-json");
    let (scene, _witness) = place.scene();
    let mut command = scene.command("write", &place.into);
    command.args(["--seed", "11"]);
    let mut writer = Started::new(command);
    writer.line("writing in");
    sleep(A_WHILE);
    writer.kill();
    let output = scene.verify(&place.into, &["--json", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", common::text(&output));
    let document = fsynclab::results::text::read(&output.stdout).expect("a document");
    let pulled = document.pulled.expect("cuts");
    assert_eq!((pulled.cut, pulled.cuts.len(), document.seed), (1, 1, 11));
    assert!(pulled.cuts[0].acknowledged > 10 && pulled.cuts[0].verified_at.is_some(), "{pulled:?}");
    assert!(pulled.overwrites_per_sec.is_some_and(|rate| rate > 0.0), "{pulled:?}");
    assert!(document.verdict.is_some(), "what the probe proves");
    let stack = &document.places[0].stack;
    assert!(!stack.file_system.is_empty() && stack.weakest_link.is_some(), "{stack:?}");
    let all = document.arms[0].power_cuts.as_ref().expect("cuts");
    assert_eq!((document.arms[0].name.as_str(), all.cuts, all.promise_kept), ("all", 1, true));
    assert!(all.bound_95.is_some_and(|bound| (bound - 0.95).abs() < 1e-9), "{all:?}");
    let known = |name: &str| METHODS.iter().any(|method| method.name == name);
    assert!(document.arms.len() > 4 && document.arms[1..].iter().all(|arm| known(&arm.name)));
    assert!(document.notes.iter().any(|note| note.code == fsynclab::results::NoteCode::CutReach));

    let mut command = scene.command("verify", &place.into);
    let output = command.args(["--does-not-mount", "--cut", "1"]).output().expect("started");
    assert_eq!(output.status.code(), Some(4), "{}", common::text(&output));
    assert!(said(&output).contains("ALL IS LOST: does-not-mount"), "{}", said(&output));
}

#[test]
fn a_full_disk_of_the_witness_stops_the_writer_with_the_reason_and_nothing_is_torn() {
    if !common::root_or_skip("a_full_disk_of_the_witness_stops_the_writer") {
        return;
    }
    let place = place("witness-full");
    let ledgers = place.directory.path().join("small");
    std::fs::create_dir(&ledgers).expect("made");
    let point = ledgers.to_str().expect("text");
    common::run("mount", &["-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", point]);
    let (scene, mut witness) = Scene::start(place.directory.path(), &ledgers);
    let (mut writer, run) = scene.write(&place.into, &[]);
    let (code, told) = writer.ended();
    let verified = scene.verify(&place.into, &[]);
    let alive = witness.runs();
    common::run("mount", &["-o", "remount,size=8m", point]);
    let after = scene.verify(&place.into, &["--run", &run]);
    drop(witness);
    common::run("umount", &[point]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("the witness refused: could not write to file"), "{told}");
    assert!(told.contains("No space left on device"), "{told}");
    assert!(told.contains("hint: what it has kept so far is whole"), "{told}");
    assert!(alive, "the witness lives on");
    assert_eq!(verified.status.code(), Some(0), "{}", common::text(&verified));
    assert!(said(&verified).contains("the witness could not keep this judgement"), "{}", said(&verified));
    // It was removed by the first: nothing that was acknowledged is there any more.
    assert_eq!(after.status.code(), Some(4), "{}", common::text(&after));
}

/// Kills a writer, spoils what it left, and verifies.
fn spoiled(name: &str, spoil: impl FnOnce(&Path, &BTreeMap<PathBuf, Vec<u8>>)) -> Output {
    let place = place(name);
    let (scene, _witness) = place.scene();
    let (mut writer, _) = scene.write(&place.into, &[]);
    sleep(A_WHILE);
    let earlier = files(&place.left());
    sleep(A_WHILE);
    writer.kill();
    spoil(&place.left(), &earlier);
    let output = scene.verify(&place.into, &[]);
    assert!(place.left().exists(), "what shows a loss is kept");
    output
}

#[track_caller]
fn found(output: &Output, verdict: &str) {
    assert_eq!(output.status.code(), Some(4), "{}", common::text(output));
    let said = said(output);
    assert!(said.contains("ACKNOWLEDGED DATA LOST") && said.contains(&format!("{verdict}:")), "{said}");
    assert!(!said.contains("safe"), "{said}");
}

#[test]
fn a_flipped_byte_is_torn_a_removed_file_has_lost_its_name_a_swapped_one_is_misplaced() {
    let output = spoiled("witness-flip", |left, _| {
        for (path, mut bytes) in files(left).into_iter().filter(|(_, bytes)| !bytes.is_empty()) {
            bytes[100] ^= 1;
            std::fs::write(path, bytes).expect("written");
        }
    });
    found(&output, "torn");
    let output = spoiled("witness-remove", |left, _| {
        for path in files(left).keys() {
            std::fs::remove_file(path).expect("there");
        }
    });
    found(&output, "name-lost");
    let output = spoiled("witness-swap", |left, _| {
        let all: Vec<(PathBuf, Vec<u8>)> =
            files(left).into_iter().filter(|(_, bytes)| !bytes.is_empty()).collect();
        for pair in all.chunks_exact(2) {
            std::fs::write(&pair[0].0, &pair[1].1).expect("written");
            std::fs::write(&pair[1].0, &pair[0].1).expect("written");
        }
    });
    found(&output, "misplaced");
}

#[test]
fn an_older_generation_that_was_put_back_is_stale_and_a_removed_file_is_resurrected() {
    let output = spoiled("witness-stale", |left, earlier| {
        let now = files(left);
        for (path, old) in earlier.iter().filter(|(path, _)| now.contains_key(*path)) {
            std::fs::write(path, old).expect("written");
        }
    });
    found(&output, "stale");
    let output = spoiled("witness-back", |left, earlier| {
        let now = files(left);
        for (path, old) in earlier.iter().filter(|(path, _)| !now.contains_key(*path)) {
            std::fs::write(path, old).expect("written");
        }
    });
    found(&output, "resurrected");
}
