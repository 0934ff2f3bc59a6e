//! Whether commits can be as fast as they were: against the syncs that probe measures at the place of the WAL, and against
//! the platter there. A commit that is faster than its disk names what explains it.
//!
//! Clients that commit at the same time share a sync, at most all of them one. So commits a second can be no more than
//! syncs a second times clients; where the server counts its syncs, they are held against the disk themselves.

use crate::probe::verdict::CLAIM_TOLERANCE;
use crate::results::{Arm, Benched, Document, Plausibility, WalPlace};

/// A short probe beside nothing else, a long run beside itself: more than this apart is no chance.
const TOLERANCE: f64 = 1.5;

/// The document with what can be said of each arm that has finished a round.
pub(super) fn judged(document: &Document, clients: u32) -> Document {
    let mut document = document.clone();
    for arm in &mut document.arms {
        let server = arm.labels.get("server").unwrap_or_default();
        let place = document.wal_places.iter().find(|place| place.server == server);
        arm.plausibility = Facts::of(arm, place, clients).map(|facts| facts.judged());
    }
    document
}

struct Facts<'a> {
    commits_per_sec: f64,
    interval: Option<[f64; 2]>,
    /// As the server counted them.
    commits_per_sync: Option<f64>,
    clients: f64,
    in_force: &'a Benched,
    place: Option<&'a WalPlace>,
}

impl<'a> Facts<'a> {
    fn of(arm: &'a Arm, place: Option<&'a WalPlace>, clients: u32) -> Option<Self> {
        let summary = arm.summary.as_ref()?;
        let (commits_per_sec, interval) = (summary.median_tps?, summary.median_tps_ci95);
        let counted = || arm.samples.iter().filter(|sample| !sample.ignored);
        let in_force = counted().find_map(|sample| sample.benched.as_ref())?;
        let sums = counted().try_fold((0, 0), |(commits, syncs), sample| {
            Some((commits + sample.operations?, syncs + sample.benched.as_ref()?.wal_syncs?))
        });
        let commits_per_sync =
            sums.filter(|(_, syncs)| *syncs > 0).map(|(commits, syncs)| commits as f64 / syncs as f64);
        Some(Self {
            commits_per_sec,
            interval,
            commits_per_sync,
            clients: f64::from(clients),
            in_force,
            place,
        })
    }

    fn setting(&self, name: &str) -> &str {
        self.in_force.in_force.get(name).unwrap_or_default()
    }

    /// The setting because of which a commit does not wait.
    fn not_waiting(&self) -> Option<String> {
        ["fsync", "synchronous_commit"]
            .into_iter()
            .find(|name| self.setting(name) == "off")
            .map(|name| format!("{name}=off"))
    }

    /// At least so many syncs a second there must have been.
    fn syncs_per_sec(&self) -> f64 {
        // More commits a sync than clients: some were not waited for, or the server has not counted all.
        self.commits_per_sec / self.commits_per_sync.unwrap_or(self.clients).min(self.clients)
    }

    fn judged(&self) -> Plausibility {
        let interval =
            self.interval.map(|[low, high]| format!(" (95 %: {} to {})", figure(low), figure(high)));
        let (rate, shared) = (figure(self.commits_per_sec), self.shared());
        let commits = format!("{rate} commits/s{}{shared}", interval.unwrap_or_default());
        let verdict = |code: &str, explained_by: Option<String>, rest: String| Plausibility {
            code: code.to_owned(),
            explained_by,
            text: format!("{commits}{rest}"),
        };
        let disk = self.disk();
        if let Some(setting) = self.not_waiting() {
            let rest = format!(
                ": no commit waits for the disk, for {setting}{}",
                with(self.probed().as_ref(), "; ")
            );
            return verdict("not-waited-for", Some(setting), rest);
        }
        let Some(place) = self.place else {
            return verdict("cannot-tell", None, ": the disk of the WAL is not known".to_owned());
        };
        let (syncs, method) = (self.syncs_per_sec(), self.setting("wal_sync_method"));
        let measured = place.syncs_per_sec.get(method).copied();
        let turns = place.turns_per_sec;
        let outruns_platter = |rate: f64| turns.is_some_and(|turns| rate > turns * CLAIM_TOLERANCE);
        // A head that moves on with the WAL may write more than one block a turn; one block again and again it cannot.
        let how = if outruns_platter(syncs) && measured.is_some_and(outruns_platter) {
            Some("faster than the platter")
        } else if measured.is_some_and(|rate| syncs > rate * TOLERANCE) {
            Some("faster than the disk")
        } else {
            place.volatile.as_ref().map(|_| "and no sync reaches the medium")
        };
        match (how, measured) {
            (Some(how), _) => {
                let why = why(place, method);
                let rest = format!(", {how}{}: {why}", with(disk.as_ref(), ", "));
                verdict("answered-from-memory", Some(why), rest)
            }
            (None, Some(_)) => verdict("plausible", None, with(disk.as_ref(), ": the disk can do that, ")),
            (None, None) => verdict("cannot-tell", None, with(disk.as_ref(), ": ")),
        }
    }

    fn shared(&self) -> String {
        match self.commits_per_sync {
            Some(each) => format!(", {} a sync", figure(each)),
            None => format!(", at most {} a sync", figure(self.clients)),
        }
    }

    /// What the disk does, in words.
    fn probed(&self) -> Option<String> {
        let (place, method) = (self.place?, self.setting("wal_sync_method"));
        let probed =
            place.syncs_per_sec.get(method).map(|rate| format!("{} {method} a second there", figure(*rate)));
        let turns = place.turns_per_sec.map(|turns| format!("a platter of {} turns", figure(turns)));
        let all: Vec<String> = probed.into_iter().chain(turns).collect();
        (!all.is_empty()).then(|| all.join(" and "))
    }

    /// What was asked of it against that.
    fn disk(&self) -> Option<String> {
        Some(format!("{} syncs/s against {}", figure(self.syncs_per_sec()), self.probed()?))
    }
}

/// What explains a sync that is faster than the medium: that none reaches it, else that this method's do not, else a cache.
fn why(place: &WalPlace, method: &str) -> String {
    if let Some(words) = &place.volatile {
        return words.clone();
    }
    // The method that writes as much and asks for as much.
    let sibling = match method {
        "open_datasync" => "fdatasync",
        "fdatasync" => "open_datasync",
        "open_sync" => "fsync",
        _ => "open_sync",
    };
    let rate = |method: &str| place.syncs_per_sec.get(method).copied().unwrap_or(f64::INFINITY);
    let faster = rate(method) / rate(sibling);
    if faster > 2.0 {
        return format!(
            "wal_sync_method={method}, which is answered {} times as fast as {sibling} here",
            figure(faster)
        );
    }
    let unknown = "something below answers from memory, and says nothing of a cache";
    place.cache.clone().unwrap_or_else(|| unknown.to_owned())
}

fn with(words: Option<&String>, before: &str) -> String {
    words.map(|words| format!("{before}{words}")).unwrap_or_default()
}

/// To three digits.
fn figure(value: f64) -> String {
    let decimals = match value {
        ..9.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Kind, Labels, Sample};
    use crate::stats;

    /// A platter of 120 turns whose probe says this many fdatasyncs a second.
    fn place(fdatasync: f64, cache: Option<&str>) -> WalPlace {
        WalPlace {
            server: "s".to_owned(),
            syncs_per_sec: [
                ("fdatasync", fdatasync),
                ("open_datasync", fdatasync),
                ("open_sync", 2.5 * fdatasync),
                ("fsync", fdatasync),
            ]
            .map(|(method, rate)| (method.to_owned(), rate))
            .into(),
            turns_per_sec: Some(120.0),
            cache: cache.map(str::to_owned),
            ..WalPlace::default()
        }
    }

    /// Of an arm with a sample of 1000 commits, five clients.
    fn told(tps: f64, syncs: Option<u64>, settings: [&str; 3], place: Option<WalPlace>) -> Plausibility {
        let [fsync, synchronous_commit, method] = settings;
        let in_force = Labels::new()
            .with("fsync", fsync)
            .with("synchronous_commit", synchronous_commit)
            .with("wal_sync_method", method);
        let benched = Benched { tps, wal_syncs: syncs, in_force, ..Benched::default() };
        let sample =
            Sample { operations: Some(1000), elapsed_ns: 1, benched: Some(benched), ..Sample::default() };
        let mut summary = stats::summary(&[1]).expect("a sample");
        summary.median_tps = Some(tps);
        let arm = Arm {
            labels: Labels::new().with("server", "s"),
            samples: vec![sample],
            summary: Some(summary),
            ..Arm::default()
        };
        let document = Document {
            arms: vec![arm],
            wal_places: place.into_iter().collect(),
            ..Document::new(Kind::Pgbench)
        };
        judged(&document, 5).arms.remove(0).plausibility.expect("judged")
    }

    const SAFE: [&str; 3] = ["on", "on", "fdatasync"];

    #[test]
    fn a_commit_is_held_against_the_disk_and_the_platter() {
        let of = |tps, each, place| told(tps, each, SAFE, place).code;
        assert_eq!(of(183.0, Some(625), Some(place(118.0, None))), "plausible");
        // Five clients may share every sync where nobody counted them.
        assert_eq!(of(550.0, None, Some(place(118.0, None))), "plausible");
        assert_eq!(of(6000.0, None, Some(place(118.0, None))), "answered-from-memory");
        assert_eq!(of(1400.0, Some(625), Some(place(1500.0, None))), "answered-from-memory");
        // The same speed where nothing turns.
        assert_eq!(
            of(1400.0, Some(625), Some(WalPlace { turns_per_sec: None, ..place(1500.0, None) })),
            "plausible"
        );
        // A head that moves on with the WAL.
        assert_eq!(of(330.0, Some(667), Some(place(150.0, None))), "plausible");
        assert_eq!(of(183.0, Some(625), None), "cannot-tell");
        // However slow: what is not asked of the medium is not there.
        let volatile = WalPlace { volatile: Some("no barriers".to_owned()), ..place(118.0, None) };
        assert_eq!(of(183.0, Some(625), Some(volatile)), "answered-from-memory");
    }

    #[test]
    fn a_commit_that_is_faster_than_its_disk_names_what_explains_it() {
        let slow = || Some(place(118.0, None));
        let why = |tps, each, settings, place| told(tps, each, settings, place).explained_by;
        assert_eq!(why(9000.0, Some(3), ["off", "on", "fdatasync"], slow()).as_deref(), Some("fsync=off"));
        assert_eq!(
            why(9000.0, Some(3), ["on", "off", "fdatasync"], slow()).as_deref(),
            Some("synchronous_commit=off")
        );
        let cached = Some(place(1500.0, Some("the write cache of sda is on")));
        assert_eq!(why(1400.0, Some(625), SAFE, cached).as_deref(), Some("the write cache of sda is on"));
        let method = why(1400.0, Some(625), ["on", "on", "open_sync"], Some(place(120.0, None)));
        assert_eq!(
            method.as_deref(),
            Some("wal_sync_method=open_sync, which is answered 2.5 times as fast as fsync here")
        );
        let volatile =
            WalPlace { volatile: Some("no barriers".to_owned()), ..place(1500.0, Some("a cache")) };
        assert_eq!(why(1400.0, Some(625), SAFE, Some(volatile)).as_deref(), Some("no barriers"));
        assert_eq!(why(183.0, Some(625), SAFE, slow()), None);
        let said = told(183.0, Some(625), SAFE, slow()).text;
        assert_eq!(
            said,
            "183 commits/s, 1.6 a sync: the disk can do that, 114 syncs/s against 118 fdatasync a second there and a platter of 120 turns"
        );
    }
}
