//! The results document: one run, whole. Rewritten after every round, so an interrupted run keeps what it has.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    Baseline, CacheVerdict, Labels, Note, PerOperation, PlantedFault, Plausibility, PowerCuts, Promise,
    PublishedSet, Pulled, Recoveries, Sample, Server, Stack, SyncVerdict, WalPlace,
};
use crate::stats::{Percentiles, Summary, Verdict};

/// The schema that this program writes.
pub const SCHEMA: &str = "fsynclab.results/1";

/// One run of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// `fsynclab.results/N`; a changed meaning is a new number.
    pub schema: String,
    /// What was run.
    pub kind: Kind,
    /// The program that wrote this.
    pub tool: Tool,
    /// UTC, RFC 3339.
    pub started_at: String,
    /// The command line, passwords redacted.
    pub argv: Vec<String>,
    /// Every random choice follows from it.
    pub seed: u64,
    /// False while the run goes on and after an interrupted one.
    pub complete: bool,
    /// True where any place is a simulated drive.
    pub simulated: bool,
    /// The machine.
    pub host: Host,
    /// How often and in what order, as asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Planned>,
    /// Where work happened, `p1` first.
    pub places: Vec<Place>,
    /// What was copied or loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Input>,
    /// What was compared.
    pub arms: Vec<Arm>,
    /// Each further value of a label against the first.
    pub comparisons: Vec<Comparison>,
    /// What others did to the disks before the first trial, while this run was still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Baseline>,
    /// What a probe proves; where states of the write cache were compared, the first of them that is a no, else the
    /// first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<SyncVerdict>,
    /// What it proves for each state of the write cache, where they were compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<CacheVerdict>,
    /// The runs of pg_test_fsync that were read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<PublishedSet>,
    /// The checker of power cuts found what was planted, and nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub injector_valid: Option<bool>,
    /// What was planted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planted: Vec<PlantedFault>,
    /// Real power cuts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pulled: Option<Pulled>,
    /// The servers measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<Server>,
    /// Of pgbench: where their WAL lies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wal_places: Vec<WalPlace>,
    /// What a reader must know.
    pub notes: Vec<Note>,
}

impl Document {
    /// Nothing known yet but what is run.
    pub fn new(kind: Kind) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            kind,
            tool: Tool {
                name: env!("CARGO_PKG_NAME").to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            started_at: String::new(),
            argv: Vec::new(),
            seed: 0,
            complete: false,
            simulated: false,
            host: Host::default(),
            plan: None,
            places: Vec::new(),
            input: None,
            arms: Vec::new(),
            comparisons: Vec::new(),
            baseline: None,
            verdict: None,
            verdicts: Vec::new(),
            sets: Vec::new(),
            injector_valid: None,
            planted: Vec::new(),
            pulled: None,
            servers: Vec::new(),
            wal_places: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// What was run; the command's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A template copied under policies.
    Copy,
    /// Syncs timed and judged.
    Probe,
    /// Somebody's pg_test_fsync output read and judged.
    Published,
    /// What lies under a path.
    Drive,
    /// A recorded workload priced on simulated drives.
    Price,
    /// CREATE DATABASE on real servers.
    Createdb,
    /// Power cuts under a copy.
    Plug,
    /// Dumps loaded into real servers.
    Restore,
    /// pgbench on real servers.
    Pgbench,
}

/// Name and version of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// `fsynclab`.
    pub name: String,
    /// As in Cargo.toml.
    pub version: String,
}

/// The machine on which a run took place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Kernel release.
    pub kernel: String,
    /// Processors online.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Load average over one minute when the run began.
    pub load_1m: f64,
}

/// How often and in what order the arms were to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// Rounds that count.
    pub rounds: u32,
    /// Rounds before them that do not.
    pub warmup: u32,
    /// `shuffled`, `abba` or `in-turn`.
    pub order: String,
    /// No trial began after this, in nanoseconds since the first could.
    pub time_limit_ns: Option<u64>,
}

/// A place, with what lies under it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// `p1`, `p2`, … in the order given.
    pub id: String,
    /// The directory, escaped where it is not text.
    pub path: String,
    /// A simulated drive.
    pub simulated: bool,
    /// The model of a simulated drive.
    pub model: Option<String>,
    /// What lies under it.
    pub stack: Stack,
}

/// What was copied or loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// Built-in name or path.
    pub template: String,
    /// Regular files.
    pub files: u64,
    /// Directories, the top one included.
    pub directories: u64,
    /// Sum of apparent sizes.
    pub bytes: u64,
    /// Sum of allocated sizes, where a real tree was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_bytes: Option<u64>,
}

/// One thing compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// The labels that differ between arms, joined by ` / `.
    pub name: String,
    /// The words for its line in a table, where its name is a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// All labels.
    pub labels: Labels,
    /// What a finished policy claims here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<Promise>,
    /// Why this arm could not be here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refused>,
    /// Why this arm ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Failed>,
    /// Its trials did not do the same work as others: it is compared with nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_comparable: bool,
    /// Every trial, warm-ups included.
    pub samples: Vec<Sample>,
    /// Over the trials that are not ignored; null without any.
    pub summary: Option<Summary>,
    /// Its times are lower bounds: what was recorded lacks the flushes that this drive would be sent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub too_low: bool,
    /// What the disk did for one operation, over the trials that are not ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<PerOperation>,
    /// Latency of each kind of sync over all trials that are not ignored.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub latency: BTreeMap<String, Percentiles>,
    /// What somebody else felt who synced beside the trials that are not ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bystander: Option<Bystander>,
    /// Of pgbench: whether commits can be so fast.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plausibility: Option<Plausibility>,
    /// What came of power cuts.
    #[serde(flatten)]
    pub power_cuts: Option<PowerCuts>,
    /// How a server recovered from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recoveries: Option<Recoveries>,
}

/// Syncs of somebody else on the same file system; latencies from the moment each was due, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bystander {
    /// Due in a second.
    pub per_second: u32,
    /// Syncs counted.
    pub n: u64,
    /// The median, however few there are.
    pub p50_ns: u64,
    /// All but one of a hundred took at most this; absent below 1000 syncs.
    pub p99_ns: Option<u64>,
    /// The slowest; an observation, not a bound.
    pub max_ns: u64,
}

/// Why an arm could not be at its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// kebab-case.
    pub code: String,
    /// The sentence for the reader.
    pub text: String,
}

/// Why an arm's rounds ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The message, as PostgreSQL words it.
    pub text: String,
    /// The error number, where a call failed.
    pub errno: Option<i32>,
    /// The call, as strace names it.
    pub call: Option<String>,
    /// The path, escaped where it is not text.
    pub path: Option<String>,
}

/// Two arms that differ in one label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Name of the arm compared with.
    pub baseline: String,
    /// Name of the arm.
    pub arm: String,
    /// Above 1: the arm is better. Absent where no round has both.
    pub ratio: Option<f64>,
    /// Exact 95 % interval of the ratio; absent below six rounds.
    pub ratio_ci95: Option<[f64; 2]>,
    /// The smallest and the largest ratio of a round: what was seen, no bound.
    pub ratio_seen: Option<[f64; 2]>,
    /// Rounds that have both arms.
    pub rounds: usize,
    /// Rounds in which the arm was strictly better.
    pub wins: usize,
    /// In words.
    pub verdict: Verdict,
}
