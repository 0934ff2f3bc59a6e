//! A cluster is made on a simulated drive, works there while the write log runs, and is gone.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use nix::mount::MntFlags;

use super::ledger::Scene;
use super::workload::{Hands, Workload, prepare};
use crate::powercut::error::{Attempt, Error};
use crate::powercut::ledger::{Ack, Ledger};
use crate::powercut::tape::{BEGIN, END};
use crate::server::cluster::{Binaries, Cluster, Wanted};
use crate::server::createdb::fairness::Facts;
use crate::server::features::Features;
use crate::server::settings::Setting;
use crate::simdrive::mount::{Options, SimulatedDrive};
use crate::simdrive::spec::Spec;
use crate::sys::journal::Journal;
use crate::sys::mounts::{self, sync_file_system};
use crate::sys::watch::Watch;

/// For the mount points of a drive that is gone.
const UNMOUNT_LIMIT: Duration = Duration::from_secs(10);

/// What is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Recording<'a> {
    /// The drive.
    pub spec: &'a Spec,
    /// The server.
    pub binaries: &'a Binaries,
    /// Its settings.
    pub settings: &'a [Setting],
    /// What it does.
    pub workload: Workload,
    /// Decides the drive's angle.
    pub seed: u64,
    /// Scratch space on real storage.
    pub directory: &'a Path,
}

/// What was recorded.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The server, and how it is built and set.
    pub facts: Facts,
}

impl Recording<'_> {
    /// Makes the drive, the cluster and the log, and takes all but the log apart.
    pub fn record(&self, log: &Path, journal: &Journal, watch: &dyn Watch) -> Result<Recorded, Error> {
        let options = Options {
            seed: self.seed,
            directory: self.directory.to_path_buf(),
            aged: true,
            write_log: Some(log.to_path_buf()),
            log_data: true,
            journal,
        };
        let drive = SimulatedDrive::create(self.spec, options)?;
        let recorded = self.record_on(&drive, log, journal, watch);
        let closed = drive.close(journal);
        let workshop = self.directory.join("sim");
        mounts::unmount(&workshop, MntFlags::MNT_DETACH, None, UNMOUNT_LIMIT)
            .map_err(|errno| Error::Call { operation: "unmount", path: workshop, errno })?;
        let recorded = recorded?;
        closed?;
        Ok(recorded)
    }

    fn record_on(
        &self,
        drive: &SimulatedDrive,
        log: &Path,
        journal: &Journal,
        watch: &dyn Watch,
    ) -> Result<Recorded, Error> {
        // The drive takes its time for the workload only.
        drive.latency(false)?;
        let root = drive.mount_point();
        let wanted = Wanted { settings: self.settings, initdb: &["--data-checksums"], ..Wanted::default() };
        let cluster = Cluster::make_with(root, self.binaries, wanted, journal, watch)?;
        let worked = self.work(drive, &cluster, log, watch);
        let closed = cluster.close(journal);
        let recorded = worked?;
        closed?;
        Ok(recorded)
    }

    fn work(
        &self,
        drive: &SimulatedDrive,
        cluster: &Cluster,
        log: &Path,
        watch: &dyn Watch,
    ) -> Result<Recorded, Error> {
        let root = drive.mount_point();
        let untouched = prepare(cluster, self.workload)?.into();
        let mut session = cluster.session("postgres")?;
        let features = Features::read(&mut session)?;
        let facts = Facts::read(&mut session, &self.binaries.name, &features, None)?;
        drop(session);
        let data = cluster.data_directory();
        let data = data.strip_prefix(root).unwrap_or(&data).to_path_buf();
        sync(root)?;
        drive.latency(true)?;
        drive.mark(&format!("{BEGIN}{}", Scene { data, untouched }))?;
        let ledger = Ledger::new(drive, HashMap::new());
        let hands = Hands { cluster, ledger: &ledger, log, directory: self.directory };
        let worked = hands.work(self.workload, watch);
        ledger.acknowledge(Ack::Done);
        ledger.close()?;
        worked.map_err(|error| match error {
            Error::Server(error) => Error::Server(cluster.keep_log(error)),
            error => error,
        })?;
        // What a server had written when it was killed is no loss of the drive's: all of it is there at the end.
        drive.latency(false)?;
        cluster.crash()?;
        sync(root)?;
        drive.mark(END)?;
        Ok(Recorded { facts })
    }
}

fn sync(root: &Path) -> Result<(), Error> {
    sync_file_system(root).attempt("synchronize file system of", root)
}
