//! `sim mount` and `sim umount`: a drive for everybody stands until it is taken away, whoever cleans meanwhile.

mod common;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{fsynclab, root_or_skip, scratch, text};
use fsynclab::sys::namespace;
use nix::mount::{MntFlags, MsFlags, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// A state directory and a directory to mount on.
struct Scene {
    work: TempDir,
    state: PathBuf,
    target: String,
}

impl Scene {
    fn new(name: &str) -> Self {
        let work = scratch(name);
        let (state, target) = (work.path().join("state"), work.path().join("target"));
        fs::create_dir(&target).expect("a directory");
        Self { work, state, target: target.to_str().expect("text").to_owned() }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        fsynclab(&self.state).args(arguments).current_dir(self.work.path()).output().expect("the program")
    }

    /// Both streams, of a command that ends with this status.
    fn told(&self, arguments: &[&str], status: i32) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", text(&output));
        text(&output)
    }

    fn mount(&self, spec: &str) {
        self.told(&["sim", "mount", spec, &self.target], 0);
    }

    fn is_mounted(&self) -> bool {
        let mounts = fs::read_to_string("/proc/mounts").expect("mounts");
        mounts.contains(&format!(" {} ", self.target))
    }

    /// Nothing is mounted, and of the state directory only `sim`, empty, is there.
    fn is_as_before(&self) -> bool {
        let names = |directory: &Path| fs::read_dir(directory).expect("a directory").flatten().count();
        !self.is_mounted() && names(&self.state) == 1 && names(&self.state.join("sim")) == 0
    }

    fn server(&self) -> i32 {
        let mounts = fs::read_to_string("/proc/mounts").expect("mounts");
        let sim = self.state.join("sim").display().to_string();
        let line = mounts.lines().find(|line| line.contains(&sim)).expect("the drive's own mount");
        let source = line.split(' ').next().expect("a source");
        source.split(':').nth(2).expect("a record").parse().expect("a pid")
    }
}

#[test]
fn a_drive_that_stands_is_no_leftover_until_its_serving_process_is_dead() {
    if !root_or_skip("a_drive_that_stands_is_no_leftover_until_its_serving_process_is_dead") {
        return;
    }
    let scene = Scene::new("stands");
    scene.mount("zero");
    let cleaned = scene.told(&["clean", "--yes"], 0);
    assert!(cleaned.contains(&format!("sim umount {} takes it away", scene.target)), "{cleaned}");
    assert!(cleaned.contains("nothing was left behind") && scene.is_mounted(), "{cleaned}");
    let copy = ["copy", "pg15", "--policy", "immediate", "--rounds", "1", "--into", &scene.target];
    let copied = scene.told(&copy, 0);
    assert!(!copied.contains("left something behind"), "{copied}");

    let server = scene.server();
    kill(Pid::from_raw(server), Signal::SIGKILL).expect("it runs");
    // A process that was killed is there until it has let go of its memory and its files.
    let is_there =
        || fs::read_to_string(format!("/proc/{server}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    let end = Instant::now() + Duration::from_secs(10);
    while is_there() && Instant::now() < end {
        sleep(Duration::from_millis(5));
    }
    let cleaned = scene.told(&["clean", "--yes"], 0);
    assert!(cleaned.contains("undone: simulated drive"), "{cleaned}");
    assert!(scene.is_as_before(), "{cleaned}");
}

#[test]
fn a_drive_in_use_stays_mounted_as_it_was() {
    if !root_or_skip("a_drive_in_use_stays_mounted_as_it_was") {
        return;
    }
    let scene = Scene::new("in-use");
    scene.mount("zero,fs=xfs");
    let path = Path::new(&scene.target).join("file");
    let file = File::create(&path).expect("a file on the drive");
    let told = scene.told(&["sim", "umount", &scene.target], 1);
    assert!(told.contains("files are open there hint: close them"), "{told}");
    fs::write(&path, "it can be written").expect("it is mounted");
    assert!(scene.is_mounted());
    drop(file);
    scene.told(&["sim", "umount", &scene.target], 0);
    assert!(scene.is_as_before());
}

#[test]
fn what_is_mounted_on_must_hold_no_drive_and_no_cluster() {
    if !root_or_skip("what_is_mounted_on_must_hold_no_drive_and_no_cluster") {
        return;
    }
    let scene = Scene::new("mounted-on");
    let data = scene.work.path().join("data");
    for directory in ["global", "pg_replslot"] {
        fs::create_dir_all(data.join(directory)).expect("a directory");
    }
    for file in ["PG_VERSION", "global/pg_control"] {
        fs::write(data.join(file), "15\n").expect("a file");
    }
    let told = scene.told(&["sim", "mount", "zero", "data/pg_replslot"], 3);
    assert!(told.contains("is the data directory of a cluster"), "{told}");
    assert!(told.contains("hint: same file system, outside it: fsynclab sim mount zero "), "{told}");

    // An XFS is empty when it is new; a link leads to the same.
    std::os::unix::fs::symlink(&scene.target, scene.work.path().join("link")).expect("a link");
    scene.told(&["sim", "mount", "zero,fs=xfs", "link"], 0);
    for directory in [scene.target.as_str(), "link"] {
        let told = scene.told(&["sim", "mount", "zero", directory], 1);
        assert!(told.contains("a simulated drive is mounted there hint: "), "{told}");
    }
    scene.told(&["sim", "umount", "link"], 0);
    assert!(scene.is_as_before());
    for directory in ["/proc", "/no/such/directory", &scene.target] {
        let told = scene.told(&["sim", "umount", directory], 1);
        assert!(told.contains("is no mounted simulated drive"), "{told}");
    }
}

#[test]
fn a_full_state_directory_is_named() {
    if !root_or_skip("a_full_state_directory_is_named") {
        return;
    }
    let scene = Scene::new("full");
    fs::create_dir(&scene.state).expect("a directory");
    namespace::make_mounts_private().expect("root may");
    let size = Some("size=4m");
    nix::mount::mount(Some("small"), &scene.state, Some("tmpfs"), MsFlags::empty(), size).expect("root may");
    for command in [&["sim", "mount", "zero", &scene.target][..], &["sim", "run", "zero", "--", "true"]] {
        let told = scene.told(command, 1);
        let words = format!("could not write to \"{}\"", scene.state.display());
        assert!(told.contains(&words) && told.contains("No space left on device"), "{told}");
        assert!(!told.contains("/dev/loop") && !told.contains("SIMULATED"), "{told}");
    }
    umount2(&scene.state, MntFlags::MNT_DETACH).expect("root may");
}
