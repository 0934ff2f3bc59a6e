//! The numbers of a drive from the rates that `pg_test_fsync` found on it. Pure: rates in, a model out.
//!
//! Each kind of drive starts from a built-in model and gets those numbers that the lines decide; the others stay as they
//! are and say so. Which kind it is, the lines tell: see [`Kind`]. What the model then implies is held against every line
//! that a drive decides; the lines that kernel or file system decide are left out, each with its reason ([`LeftOut`]).

use std::fmt;

use super::imply;
use super::model::{Mechanism, Model, Network, Rotating, WriteCache};
use super::models::{built_in, to_toml};
use super::spec::DEFAULT_SIZE_BYTES;

/// So many lines with a rate are needed: fewer decide a number and check none.
pub const FEWEST_LINES: usize = 4;
/// Rates that differ by less are alike.
const NEAR: f64 = 0.15;
/// A disk's share of its turns: a sync that comes too late waits for the next one.
const SHARE_OF_TURNS: std::ops::RangeInclusive<f64> = 0.80..=1.02;
/// Two synced writes of a disk take two turns.
const HALF: std::ops::RangeInclusive<f64> = 0.42..=0.60;
/// A sync that commits the journal too takes at least so much longer on a disk.
const COMMITS: f64 = 0.8;
/// Flash takes longer to program and to find again than this (100 us and more: data sheets); what syncs faster does not wait
/// for it.
const FLASH_SYNC_US: f64 = 125.0;
/// Of these the overhead of a command is a small part: 25 us as `ssd-sata-2014`, or a tenth of a fast sync.
const OVERHEAD_PART: f64 = 0.1;
/// Transfer rates that a drive can have, in MB/s.
const TRANSFERS: [f64; 2] = [20.0, 10_000.0];
/// How finely the seek to the journal is searched.
const STEPS: u32 = 50;
const WRITE_BYTES: f64 = 8192.0;

/// A line of `pg_test_fsync`, its keys as in results (`one8`, `fdatasync`).
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The block.
    pub block: String,
    /// What is timed in it.
    pub method: String,
    /// Operations a second.
    pub ops_per_s: f64,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.block, self.method)
    }
}

/// A drive that was fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// Its numbers; its name is that of the built-in model they start from.
    pub model: Model,
    /// What the lines tell of it.
    pub kind: Kind,
    /// Each line that was fitted, and what the model implies for it.
    pub lines: Vec<(Line, f64)>,
    /// The others.
    pub left_out: Vec<(Line, LeftOut)>,
    sources: Vec<(&'static str, Source)>,
}

/// Where a number is from.
#[derive(Debug, Clone, PartialEq)]
enum Source {
    /// These lines.
    Lines(&'static str),
    /// No line: why it is what it is.
    Assumed(&'static str),
}

/// What the lines tell of a drive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A synced overwrite takes a turn, two take two.
    Disk {
        /// The speed at which such disks are sold.
        rpm: u32,
        /// Synced overwrites a second.
        syncs_per_s: f64,
    },
    /// Faster than a disk turns, slower than a cache answers.
    Flash {
        /// A sync, in microseconds.
        sync_us: f64,
    },
    /// As fast as only a cache answers.
    Cached {
        /// A sync, in microseconds.
        sync_us: f64,
    },
    /// As slow as a disk or slower, but not in turns.
    Volume {
        /// A sync, in microseconds.
        sync_us: f64,
    },
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Disk { rpm, syncs_per_s } => write!(
                f,
                "a disk that turns: {syncs_per_s:.1} synced overwrites a second are one a turn at {rpm} turns a minute. \
                 Its write cache is off, or on with every flush honoured: these lines are the same in both"
            ),
            Kind::Flash { sync_us } => write!(
                f,
                "flash: no disk turns as fast as a sync of {sync_us:.0} us, and what only has to reach a cache takes less. \
                 Its cache is volatile, and flushes write it out"
            ),
            Kind::Cached { sync_us } => write!(
                f,
                "a cache: {sync_us:.0} us are less than flash takes to be written. Its cache survives a power cut, or it \
                 lies: only a power cut can tell"
            ),
            Kind::Volume { sync_us } => write!(
                f,
                "neither a disk that turns nor a drive with a cache: a sync takes {:.1} ms, and not in turns. Taken for a \
                 volume behind a network",
                sync_us / 1e3
            ),
        }
    }
}

/// Why a line says nothing of the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// `O_SYNC` as kernels up to 2.6.32 and old headers have it.
    OldOSync,
    /// `O_DIRECT` writes with FUA in place of a flush.
    Fua,
    /// `fsync` without a journal commit.
    NoCommit,
    /// Writes without a sync.
    Memory,
    /// A line that `imply` does not know.
    Unknown,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LeftOut::OldOSync => {
                "an old O_SYNC decides: it was what O_DSYNC is today (so open_datasync is n/a), while today's commits the \
                 journal too"
            }
            LeftOut::Fua => {
                "FUA decides: the kernel sent these O_DIRECT writes with FUA in place of a flush; a simulated drive gets \
                 the flush"
            }
            LeftOut::NoCommit => {
                "the file system decides: its fsync committed nothing that fdatasync does not, as ext3 within one second; \
                 ext4 commits its journal"
            }
            LeftOut::Memory => "no sync in it: the host's memory takes these writes",
            LeftOut::Unknown => "no line of pg_test_fsync on Linux",
        })
    }
}

/// Why lines cannot be fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// What everything else is measured by is missing.
    #[error("there is no rate of fdatasync with one 8kB write")]
    NoFdatasync,
    /// Too few lines.
    #[error("only {0} lines have a rate, and {FEWEST_LINES} are needed: fewer fix a number and check none")]
    TooFew(usize),
}

/// Fits a drive to the lines that have a rate. `old_o_sync`: `open_datasync` was not available, for it is `open_sync`.
pub fn fit(published: &[Line], old_o_sync: bool) -> Result<Fit, Unfit> {
    let rates = Rates(published);
    let one = rates.of("one8", "fdatasync").ok_or(Unfit::NoFdatasync)?;
    let synced = published.iter().filter(|line| line.block != "nosync").count();
    if synced < FEWEST_LINES {
        return Err(Unfit::TooFew(synced));
    }
    let kind = kind(rates, one, old_o_sync);
    let (model, sources) = match kind {
        Kind::Disk { rpm, .. } => disk(rates, one, rpm),
        Kind::Flash { sync_us } => flash(rates, sync_us),
        Kind::Cached { sync_us } => cached(rates, sync_us),
        Kind::Volume { sync_us } => volume(sync_us),
    };
    let options = model.options(DEFAULT_SIZE_BYTES, 1);
    let (mut lines, mut left_out) = (Vec::new(), Vec::new());
    for line in published {
        let reason = left_out_for(rates, line, kind, old_o_sync);
        match (reason, imply::line(&model, &options, &line.block, &line.method)) {
            (Some(reason), _) => left_out.push((line.clone(), reason)),
            (None, None) => left_out.push((line.clone(), LeftOut::Unknown)),
            (None, Some(implied)) => lines.push((line.clone(), implied)),
        }
    }
    Ok(Fit { model, kind, lines, left_out, sources })
}

impl Fit {
    /// The model as text, each number with where it is from; `file` is where the lines were read.
    #[must_use]
    pub fn to_toml(&self, file: &str) -> String {
        let (mut text, mut table) = (String::new(), String::new());
        for line in to_toml(&self.model).lines() {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                table = format!("{name}.");
            }
            let Some((key, _)) = line.split_once(" = ").filter(|(key, _)| *key != "summary") else {
                text += &format!("{line}\n");
                continue;
            };
            let key = table.clone() + key;
            let fitted = self.sources.iter().find(|(fitted, _)| *fitted == key);
            let source = match fitted {
                Some((_, Source::Lines(lines))) => format!("fitted from {file}: {lines}"),
                Some((_, Source::Assumed(why))) => format!("assumed: {why}"),
                None => format!("assumed: as {}", self.model.name),
            };
            text += &format!("{line:<30} # {source}\n");
        }
        text
    }
}

/// The published rates by their keys.
#[derive(Clone, Copy)]
struct Rates<'a>(&'a [Line]);

impl Rates<'_> {
    fn of(self, block: &str, method: &str) -> Option<f64> {
        let found = self.0.iter().find(|line| line.block == block && line.method == method)?;
        Some(found.ops_per_s).filter(|rate| *rate > 0.0)
    }

    /// What 8 kB more take than the first 8 kB, in microseconds.
    fn second_write_us(self) -> Option<f64> {
        Some(1e6 / self.of("two8", "fdatasync")? - 1e6 / self.of("one8", "fdatasync")?)
    }
}

fn near(a: f64, b: f64) -> bool {
    (a / b).max(b / a) <= 1.0 + NEAR
}

/// Disks as they are sold: turns a minute, and the built-in model that has the rest.
const DISKS: [(u32, &str); 4] =
    [(5400, "laptop-5400"), (7200, "sata-2009"), (10_000, "sas-10k"), (15_000, "sas-15k")];

fn kind(rates: Rates<'_>, one: f64, old_o_sync: bool) -> Kind {
    let sync_us = 1e6 / one;
    let method = if old_o_sync { "open_sync" } else { "open_datasync" };
    let halves = match (rates.of("one8", method), rates.of("two8", method)) {
        (Some(one), Some(two)) => HALF.contains(&(two / one)),
        _ => true,
    };
    let turning = DISKS.iter().find(|(rpm, _)| SHARE_OF_TURNS.contains(&(one * 60.0 / f64::from(*rpm))));
    match turning {
        Some(&(rpm, _)) if halves => Kind::Disk { rpm, syncs_per_s: one },
        _ if sync_us < FLASH_SYNC_US => Kind::Cached { sync_us },
        _ if one > f64::from(DISKS[3].0) / 60.0 => Kind::Flash { sync_us },
        _ => Kind::Volume { sync_us },
    }
}

type Numbers = (Model, Vec<(&'static str, Source)>);

fn start(name: &str, summary: &str) -> Model {
    let model = built_in(name).expect("a built-in model");
    Model { summary: summary.to_owned(), ..model }
}

/// Turns that are really used, and the seek between a file and the journal that makes fsync as slow as it was.
fn disk(rates: Rates<'_>, one: f64, rpm: u32) -> Numbers {
    let (_, name) = DISKS.into_iter().find(|(sold, _)| *sold == rpm).unwrap_or(DISKS[1]);
    let mut model = start(name, &format!("a disk of {rpm} rpm, fitted to its syncs"));
    model.write_cache = model.write_cache.map(|cache| WriteCache { on: false, ..cache });
    let Mechanism::Rotating(numbers) = model.mechanism else { return (model, Vec::new()) };
    let turns = whole(one * 60.0);
    let with = |stroke_part: f64| Mechanism::Rotating(Rotating { rpm: turns, stroke_part, ..numbers });
    let mut sources = vec![
        ("rotating.rpm", Source::Lines("one8 fdatasync; turns that are met, of those that the disk makes")),
        ("write_cache.on", Source::Assumed("the lines are the same with it on and every flush honoured")),
    ];
    model.mechanism = with(numbers.stroke_part);
    if let Some(fsync) = rates.of("one8", "fsync").filter(|fsync| *fsync < one * COMMITS) {
        let parts = (1..=STEPS).map(|step| (f64::from(step) / f64::from(STEPS)).powi(2));
        let off = |stroke_part: &f64| {
            let model = Model { mechanism: with(*stroke_part), ..model.clone() };
            let options = model.options(DEFAULT_SIZE_BYTES, 1);
            imply::line(&model, &options, "one8", "fsync").map_or(f64::MAX, |rate| (rate / fsync).ln().abs())
        };
        let best = parts.map(|part| (off(&part), part)).min_by(|a, b| a.0.total_cmp(&b.0));
        model.mechanism = with(best.map_or(numbers.stroke_part, |(_, part)| part));
        sources
            .push(("rotating.stroke_part", Source::Lines("one8 fsync, which seeks to the journal and back")));
    }
    (model, sources)
}

/// A sync is two commands, the bytes twice, and what the cells take.
fn flash(rates: Rates<'_>, sync_us: f64) -> Numbers {
    let mut model = start("ssd-sata-2014", "flash with a volatile cache, fitted to its syncs");
    let Mechanism::Flash(mut numbers) = model.mechanism else { return (model, Vec::new()) };
    let mut sources = Vec::new();
    model.command_overhead_us = model.command_overhead_us.min(sync_us * OVERHEAD_PART);
    let cache_us = model.write_cache.map_or(0.0, |cache| WRITE_BYTES / cache.transfer_mb_per_s);
    if let Some(more_us) = rates.second_write_us() {
        numbers.write_mb_per_s = transfer(more_us - cache_us);
        sources.push(("flash.write_mb_per_s", Source::Lines("two8 fdatasync less one8 fdatasync")));
    }
    let bus_us = WRITE_BYTES / numbers.write_mb_per_s;
    let cells_us = (sync_us - 2.0 * model.command_overhead_us - cache_us - bus_us).max(1.0);
    let program = numbers.program_us / (numbers.program_us + numbers.commit_us);
    (numbers.program_us, numbers.commit_us) =
        (tenths(cells_us * program), tenths(cells_us * (1.0 - program)));
    let sum = Source::Lines("one8 fdatasync; only the sum of program and commit is known");
    sources.extend([("flash.program_us", sum.clone()), ("flash.commit_us", sum)]);
    model.mechanism = Mechanism::Flash(numbers);
    (model, sources)
}

/// What is written is safe, so nothing is flushed: a sync is one command and its bytes.
fn cached(rates: Rates<'_>, sync_us: f64) -> Numbers {
    let mut model = start("nvme-plp", "a drive that answers from its cache, fitted to its syncs");
    let Mechanism::Flash(mut numbers) = model.mechanism else { return (model, Vec::new()) };
    let mut sources = Vec::new();
    model.command_overhead_us = model.command_overhead_us.min(sync_us * OVERHEAD_PART);
    if let Some(more_us) = rates.second_write_us() {
        numbers.write_mb_per_s = transfer(more_us);
        sources.push(("flash.write_mb_per_s", Source::Lines("two8 fdatasync less one8 fdatasync")));
    }
    let others_us = model.command_overhead_us + WRITE_BYTES / numbers.write_mb_per_s + numbers.commit_us;
    numbers.program_us = tenths((sync_us - others_us).max(0.0));
    sources.push(("flash.program_us", Source::Lines("one8 fdatasync")));
    model.mechanism = Mechanism::Flash(numbers);
    (model, sources)
}

fn volume(sync_us: f64) -> Numbers {
    let mut model = start("cloud-3000", "a volume, fitted to its syncs");
    let latency_us = tenths(sync_us - model.command_overhead_us);
    model.mechanism = Mechanism::Network(Network {
        latency_us,
        iops: None,
        io_unit_kib: None,
        burst_iops: None,
        burst_requests: None,
        transfer_mb_per_s: None,
    });
    (model, vec![("network.latency_us", Source::Lines("one8 fdatasync"))])
}

/// The rate at which 8 kB take so many microseconds.
fn transfer(us: f64) -> f64 {
    let [least, most] = TRANSFERS;
    tenths((WRITE_BYTES / us.max(WRITE_BYTES / most)).max(least))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "turns a minute of a disk")]
fn whole(value: f64) -> u32 {
    value.round() as u32
}

/// As precise as the lines are.
fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Why a line says nothing of the drive; `None` where it does.
fn left_out_for(rates: Rates<'_>, line: &Line, kind: Kind, old_o_sync: bool) -> Option<LeftOut> {
    let one = |method: &str| rates.of("one8", method);
    let both_near = |a: &str, b: &str| match (one(a), one(b)) {
        (Some(a), Some(b)) => near(a, b),
        _ => true,
    };
    let turning = matches!(kind, Kind::Disk { .. });
    match (line.block.as_str(), line.method.as_str()) {
        ("nosync", _) => Some(LeftOut::Memory),
        ("sizes", _) | (_, "open_sync") if old_o_sync => Some(LeftOut::OldOSync),
        (_, "open_datasync") if !both_near("open_datasync", "fdatasync") => Some(LeftOut::Fua),
        ("sizes", _) | (_, "open_sync")
            if !both_near("open_sync", "fsync") || !both_near("open_datasync", "fdatasync") =>
        {
            Some(LeftOut::Fua)
        }
        ("fd", _) | (_, "fsync") if turning && one("fsync") > one("fdatasync").map(|rate| rate * COMMITS) => {
            Some(LeftOut::NoCommit)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
