//! The servers that tests/servers installs, and a journal for what a test makes.

use std::path::{Path, PathBuf};

use fsynclab::server::cluster::{Binaries, Cluster, user_at};
use fsynclab::server::settings::Setting;
use fsynclab::sys::journal::Journal;
use fsynclab::sys::watch::Quiet;
use tempfile::TempDir;

/// The programs of a version.
pub fn directory(major: u32) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target"),
        |target| Path::new(env!("CARGO_MANIFEST_DIR")).join(target),
    );
    let directory = target.join("servers").join(major.to_string()).join("bin");
    assert!(directory.join("postgres").exists(), "no PostgreSQL {major}: run tests/servers");
    directory
}

/// A place for clusters, with its journal.
pub struct Bench {
    pub place: TempDir,
    pub state: TempDir,
    pub journal: Journal,
}

impl Bench {
    pub fn new(name: &str) -> Self {
        let place = super::common::scratch(name);
        // The cluster's user must get through.
        std::fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("mode");
        let state = super::common::scratch(name);
        let journal = Journal::create(state.path()).expect("journal");
        Self { place, state, journal }
    }

    pub fn binaries(&self, argument: &str) -> Binaries {
        let user = user_at(self.place.path()).expect("a user");
        Binaries::find(argument, user.as_ref(), &Quiet).expect("binaries")
    }

    /// A running cluster of a version.
    pub fn cluster(&self, major: u32, settings: &[&str]) -> Cluster {
        let settings: Vec<Setting> =
            settings.iter().map(|text| Setting::parse(text).expect("setting")).collect();
        let binaries = self.binaries(&directory(major).to_string_lossy());
        Cluster::make(self.place.path(), &binaries, &settings, &self.journal, &Quiet)
            .unwrap_or_else(|error| panic!("cluster of {major}: {error}: {:?}", error.hint()))
    }

    /// Ends a cluster; nothing may be left of it.
    pub fn close(self, clusters: impl IntoIterator<Item = Cluster>) {
        for cluster in clusters {
            cluster.close(&self.journal).expect("close");
        }
        assert_eq!(std::fs::read_dir(self.place.path()).expect("the place").count(), 0);
        assert!(self.journal.close().expect("journal"));
        assert_eq!(std::fs::read_dir(self.state.path()).expect("state").count(), 0);
    }
}
