//! Real kernels, emulated disks: the write cache of an IDE, a SCSI, an NVMe and a virtio disk switched and restored, and
//! device mapper, LVM and md followed to their disks. One machine is booted for all; `tests/qemu/init` runs inside it,
//! and tools of each disk's own kind tell there what the drive thinks.

mod common;

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Instant;

use common::{root_or_skip, run, scratch, text};

/// An emulated disk: its name in the machine, and its arguments for QEMU.
const DISKS: [(&str, &str); 6] = [
    ("ide", "ide-hd,serial=IDE01"),
    ("scsi", "scsi-hd,serial=SCSI01"),
    ("nvme", "nvme,serial=NVME01"),
    ("virtio", "virtio-blk-pci,serial=VIRT01"),
    ("second", "virtio-blk-pci,serial=VIRT02"),
    ("third", "virtio-blk-pci,serial=VIRT03"),
];

/// A kind of disk: what its own tool says of a cache that is on and off, and whether the kernel's view follows.
struct Kind {
    name: &'static str,
    on: &'static str,
    off: &'static str,
    kernel_follows: bool,
}

const KINDS: [Kind; 4] = [
    Kind { name: "ide", on: "write-caching = 1 (on)", off: "write-caching = 0 (off)", kernel_follows: true },
    Kind { name: "scsi", on: "WCE 1", off: "WCE 0", kernel_follows: true },
    Kind { name: "nvme", on: "value:0x00000001", off: "value:00000000", kernel_follows: false },
    Kind { name: "virtio", on: "write back", off: "write through", kernel_follows: true },
];

/// What the machine printed.
struct Machine {
    lines: Vec<(String, String)>,
    all: String,
}

impl Machine {
    fn said(&self, name: &str) -> Vec<&str> {
        self.lines.iter().filter(|(said, _)| said == name).map(|(_, line)| line.as_str()).collect()
    }

    fn has(&self, name: &str, part: &str) {
        assert!(
            self.said(name).iter().any(|line| line.contains(part)),
            "{name}: no {part:?} in\n{}",
            self.all
        );
    }

    /// Both views as this program tells them, and the drive's own as its tool tells it.
    fn views(&self, kind: &Kind, when: &str, on: bool) {
        let ours = match (on, kind.kernel_follows) {
            (true, _) => "write cache: drive ON, kernel \"write back\" (agree)",
            (false, true) => "write cache: drive OFF, kernel \"write through\" (agree)",
            (false, false) => "write cache: drive OFF, kernel \"write back\" (DISAGREE)",
        };
        let theirs = if on { kind.on } else { kind.off };
        let name = format!("{} {when}", kind.name);
        assert_eq!(self.said(&name), [ours, theirs], "{name}\n{}", self.all);
    }

    /// Flushes counted on each disk while ten new files were synced one by one.
    fn flushes(&self, name: &str) -> Vec<u64> {
        let name = format!("{name} flushes");
        let said = self.said(&name);
        let [line] = said[..] else { panic!("{name}: {said:?}\n{}", self.all) };
        let (before, after) = line.split_once("->").expect("two readings");
        let numbers = |text: &str| -> Vec<u64> {
            text.split_whitespace().map(|number| number.parse().expect("a number")).collect()
        };
        numbers(after).iter().zip(numbers(before)).map(|(after, before)| after - before).collect()
    }
}

/// The machine's output, booted once for all tests; none where that cannot be.
fn machine(test: &str) -> Option<&'static Machine> {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    root_or_skip(test).then(|| MACHINE.get_or_init(boot))
}

fn boot() -> Machine {
    let started = Instant::now();
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("qemu");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/qemu/build");
    let kept_text = kept.display().to_string();
    run(&script.display().to_string(), &[kept_text.as_str(), env!("CARGO_BIN_EXE_fsynclab")]);
    let (built, booted) = (started.elapsed(), Instant::now());
    let images = scratch("qemu");
    let machine = "600 qemu-system-x86_64 -accel tcg -m 512 -nographic -nodefaults -no-reboot -serial stdio \
                   -append console=ttyS0\u{a0}panic=-1\u{a0}quiet -device virtio-scsi-pci";
    let mut arguments = format!("{machine} -kernel {kept_text}/vmlinuz -initrd {kept_text}/initramfs");
    for (name, device) in DISKS {
        let image = images.path().join(name);
        fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("an image");
        let file = image.display();
        let drive = format!(" -drive if=none,id={name},format=raw,cache=writeback,file={file}");
        arguments = arguments + &drive + &format!(" -device {device},drive={name}");
    }
    let arguments: Vec<String> = arguments
        .split(' ')
        .filter(|part| !part.is_empty())
        .map(|part| part.replace('\u{a0}', " "))
        .collect();
    let output = Command::new("timeout").args(arguments).output().expect("timeout(1) and QEMU");
    assert!(output.status.success(), "{}", text(&output));
    // Past the capture of the tests' output: how long this takes is to be seen.
    writeln!(io::stderr(), "emulated machine: built in {built:.1?}, ran {:.1?}", booted.elapsed())
        .expect("stderr");
    let all = String::from_utf8_lossy(&output.stdout).into_owned();
    let pairs = all.lines().filter_map(|line| line.trim_end().split_once(": "));
    let lines = pairs.map(|(name, line)| (name.to_owned(), line.to_owned())).collect();
    Machine { lines, all }
}

#[test]
fn every_check_in_the_machine_came_to_its_end() {
    let Some(machine) = machine("every_check_in_the_machine_came_to_its_end") else { return };
    machine.has("all done", "yes");
    machine.has("ide show", "disk ");
    machine.has("ide show", "QEMU HARDDISK, firmware 2.5+, serial IDE01");
    machine.has("nvme show", "QEMU NVMe Ctrl");
    for kind in KINDS {
        machine.has(&format!("{} show", kind.name), "barriers on, journal yes");
    }
}

#[test]
fn a_cache_is_switched_off_and_on_and_the_drive_itself_says_so() {
    let Some(machine) = machine("a_cache_is_switched_off_and_on_and_the_drive_itself_says_so") else {
        return;
    };
    for kind in KINDS {
        machine.views(&kind, "first", true);
        machine.views(&kind, "off", false);
        machine.has(&format!("{} refused on", kind.name), "was found off");
        machine.has(&format!("{} refused on", kind.name), "--force");
        machine.views(&kind, "on", true);
    }
}

#[test]
fn what_was_switched_twice_is_restored_to_what_it_was_at_first() {
    let Some(machine) = machine("what_was_switched_twice_is_restored_to_what_it_was_at_first") else {
        return;
    };
    for kind in KINDS {
        let restored = machine.said(&format!("{} restore", kind.name)).join("\n");
        let word = if restored.contains("undone: ") { "undone: " } else { "restored: " };
        assert_eq!(restored.matches(&format!("{word}write cache of")).count(), 2, "{restored}");
        machine.views(&kind, "after restore", true);
    }
}

#[test]
fn a_cache_is_restored_when_the_command_ends_by_itself_or_by_sigterm() {
    let Some(machine) = machine("a_cache_is_restored_when_the_command_ends_by_itself_or_by_sigterm") else {
        return;
    };
    for kind in KINDS {
        machine.has(&format!("{} command", kind.name), "exit 7");
        machine.views(&kind, "after command", true);
        machine.views(&kind, "during", false);
        machine.has(&format!("{} second run", kind.name), "another run is at work");
        machine.has(&format!("{} SIGTERM", kind.name), "exit 143");
        machine.views(&kind, "after SIGTERM", true);
    }
}

#[test]
fn a_cache_is_restored_by_clean_after_sigkill() {
    let Some(machine) = machine("a_cache_is_restored_by_clean_after_sigkill") else { return };
    for kind in KINDS {
        machine.views(&kind, "after SIGKILL", false);
        machine.has(&format!("{} clean", kind.name), "undone: write cache of");
        machine.views(&kind, "after clean", true);
        machine.has(&format!("{} clean again", kind.name), "nothing was left behind");
    }
}

#[test]
fn device_mapper_lvm_and_md_are_followed_to_their_disks_and_pass_every_flush() {
    let Some(machine) = machine("device_mapper_lvm_and_md_are_followed_to_their_disks_and_pass_every_flush")
    else {
        return;
    };
    for (name, layer, disks) in [
        ("linear", "dm-0 (plain)", &["VIRT02"][..]),
        ("lvm", "dm-0 (vg-pg)", &["VIRT02", "VIRT03"]),
        ("md", "md7 (raid1)", &["VIRT02", "VIRT03"]),
    ] {
        machine.has(name, layer);
        let found = machine.said(name).iter().filter(|line| line.contains("serial VIRT")).count();
        assert_eq!(found, disks.len(), "{name}\n{}", machine.all);
        for disk in disks {
            machine.has(name, disk);
        }
        let flushes = machine.flushes(name);
        assert!(flushes.len() == disks.len() && flushes.iter().all(|n| *n >= 10), "{name}: {flushes:?}");
    }
}

#[test]
fn every_member_of_a_volume_is_switched_and_restored() {
    let Some(machine) = machine("every_member_of_a_volume_is_switched_and_restored") else { return };
    let said = machine.said("lvm off");
    assert_eq!(
        said.iter().filter(|line| line.contains("drive OFF, kernel \"write through\"")).count(),
        2,
        "{said:?}"
    );
    let after = machine.said("lvm after");
    assert_eq!(
        after.iter().filter(|line| line.contains("drive ON, kernel \"write back\"")).count(),
        2,
        "{after:?}"
    );
}

#[test]
fn one_copy_command_compares_the_cache_on_and_off_and_brings_it_back() {
    let Some(machine) = machine("one_copy_command_compares_the_cache_on_and_off_and_brings_it_back") else {
        return;
    };
    let said = machine.said("copy json");
    let off = said.iter().position(|line| line.contains("\"off\"")).expect("an arm with the cache off");
    assert_eq!(said[0], "\"write_cache\": \"on\"", "{}", machine.all);
    let flushes = |lines: &[&str]| -> Vec<u64> {
        let counts = lines.iter().filter_map(|line| line.strip_prefix("\"flushes\": "));
        counts.map(|count| count.parse().expect("a number")).collect()
    };
    let (cached, uncached) = (flushes(&said[..off]), flushes(&said[off..]));
    assert!(cached.len() == 2 && cached.iter().all(|count| *count >= 8), "{cached:?}");
    assert_eq!(uncached, [0, 0], "a disk that caches nothing is sent no flush");
    machine.views(&KINDS[0], "after copy", true);
    let shown = machine.said("copy");
    assert!(
        shown.iter().any(|line| line.starts_with("policy    promise") && line.contains("cache on")),
        "{shown:#?}"
    );
    assert!(shown.iter().any(|line| line.contains("With the cache on:")), "{shown:#?}");
}

#[test]
fn one_probe_judges_the_disk_with_its_cache_on_and_off_and_brings_it_back() {
    let Some(machine) = machine("one_probe_judges_the_disk_with_its_cache_on_and_off_and_brings_it_back")
    else {
        return;
    };
    for part in [
        "write cache ON",
        "write cache OFF",
        "PLAUSIBLE with the write cache on:",
        "NOT NEEDED with the write cache off:",
    ] {
        machine.has("probe", part);
    }
    machine.views(&KINDS[0], "after probe", true);
}
