//! What a writer tells its witness, and what the witness keeps: the vocabulary of wire and ledger.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::powercut::judge::Verdict;
use crate::results::plug::Verdicts;
use crate::results::{Stack, SyncVerdict};

/// The number of a file or of a directory: the writer's in the upper half, counted in the lower.
pub type Number = u64;

/// One thing of one writer, in its order. What is about to be done is kept by the witness before it is done; what is
/// durable is told after its sync has returned, and holds for everything of that writer before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A new empty file is about to be made.
    Create {
        /// The file.
        file: Number,
        /// How it will be written and synced: a row of [`METHODS`](super::method::METHODS).
        method: String,
        /// Where.
        directory: Number,
        /// Its name there.
        name: String,
    },
    /// Sectors of a file are about to be written, once each: their generation is higher than any before in this file.
    Write {
        /// The file.
        file: Number,
        /// Which writing of the file.
        generation: u32,
        /// The first sector.
        first: u32,
        /// How many.
        sectors: u32,
    },
    /// A file is about to have another name, in place of what has that name now.
    Rename {
        /// The file.
        file: Number,
        /// Directory and name.
        from: (Number, String),
        /// Directory and name.
        to: (Number, String),
    },
    /// A name is about to be removed.
    Remove {
        /// Where.
        directory: Number,
        /// The name.
        name: String,
    },
    /// A directory is about to be made.
    MakeDirectory {
        /// The new one.
        made: Number,
        /// Where.
        directory: Number,
        /// Its name there.
        name: String,
    },
    /// All that was written to this file before is durable.
    Data {
        /// The file.
        file: Number,
    },
    /// All names of this directory are durable as they are.
    Entries {
        /// The directory.
        directory: Number,
    },
}

/// A writer's stay at a place: from its start to a cut.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// 32 hexadecimal digits; the first 16 stand in every sector.
    pub id: String,
    /// The place, as an absolute path.
    pub into: String,
    /// The directory there in which everything lies.
    pub directory: String,
    /// The place seen from the mount point of its file system.
    pub below_mount: String,
    /// The kernel's id of this boot.
    pub boot: String,
    /// The kernel's release.
    pub kernel: String,
    /// Decides what is written.
    pub seed: u64,
    /// How many write at once.
    pub writers: u32,
    /// What lies under the place, as `drive` tells it.
    pub stack: Stack,
    /// What a short probe found there.
    pub probe: Option<Probed>,
    /// The program that will cut the power; absent where somebody does it by hand.
    pub cut_by: Option<String>,
}

/// What a short probe found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probed {
    /// What its figures prove.
    pub verdict: SyncVerdict,
    /// Synced overwrites of one block (fdatasync) a second.
    pub overwrites_per_sec: Option<f64>,
    /// Flushes that reached the disk for each.
    pub flushes_per_op: Option<f64>,
}

/// What came of one cut.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The worst that was found of what was acknowledged; `kept` where nothing was.
    pub verdict: String,
    /// For each method what was acknowledged, and what of it was found wrong.
    pub methods: BTreeMap<String, Methodical>,
    /// Things that were under way or not promised, and are not as they were last written.
    pub unpromised: u64,
    /// What was written and never synced.
    pub unsynced: Unsynced,
    /// The first of each method and verdict.
    pub examples: Vec<Example>,
}

impl Judgement {
    /// A cut before anything was acknowledged is none that could be survived.
    pub fn tells_something(&self) -> bool {
        let acknowledged = self.methods.values().any(|method| method.acknowledged > 0);
        acknowledged || self.verdict != Verdict::Kept.name()
    }
}

/// What came of one method at one cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Methodical {
    /// Files and names that were acknowledged and looked for.
    pub acknowledged: u64,
    /// Of these, what was found wrong.
    pub broken: Verdicts,
}

/// Sectors that were written and never synced: where all of them are there, the cut was none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsynced {
    /// How many.
    pub written: u64,
    /// How many are as they were last written.
    pub found: u64,
}

/// Something that is not as it was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Example {
    /// `lost`, `torn`, …
    pub verdict: String,
    /// How it was written and synced.
    pub method: String,
    /// Below the place.
    pub path: String,
    /// What is wrong.
    pub detail: String,
}

/// A line of a ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Record {
    /// The first line.
    Run {
        /// Of the ledger: [`FORMAT`].
        format: u32,
        /// The run.
        run: String,
        /// UTC.
        at: String,
    },
    /// A writer begins. Cuts count from 1 within a run.
    Begin {
        /// Which cut this will be.
        cut: u32,
        /// UTC.
        at: String,
        /// Who, and where.
        session: Box<Session>,
    },
    /// Something a writer told.
    Told {
        /// The cut.
        cut: u32,
        /// Which of its writers.
        writer: u32,
        /// Counts from 1 within the writer.
        seq: u64,
        /// What.
        event: Event,
    },
    /// The writer ended by itself: this was no cut.
    Left {
        /// The cut it would have been.
        cut: u32,
        /// UTC.
        at: String,
    },
    /// Somebody has verified a cut. The last judgement of a cut counts.
    Judged {
        /// The cut.
        cut: u32,
        /// UTC.
        at: String,
        /// What came of it.
        judgement: Judgement,
    },
}

/// Of ledger and wire; a changed meaning is a new number.
pub const FORMAT: u32 = 1;

/// What is asked of a witness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// A writer begins, in a run that is named or in a new one. Asked twice with one session it is one beginning.
    Begin {
        /// The run.
        run: Option<String>,
        /// Who, and where.
        session: Box<Session>,
    },
    /// One of its writers is here, for the first time or again.
    Join {
        /// The run.
        run: String,
        /// The cut.
        cut: u32,
        /// Which.
        writer: u32,
    },
    /// What it has to tell, numbered from `first` on.
    Tell {
        /// The number of the first.
        first: u64,
        /// All.
        events: Vec<Event>,
    },
    /// It ends by itself.
    Leave {
        /// The run.
        run: String,
        /// The cut.
        cut: u32,
    },
    /// Which run has the newest writer in this directory.
    Find {
        /// The run, if it is known.
        run: Option<String>,
        /// The directory.
        into: String,
    },
    /// Lines of a run's ledger from this byte on.
    Read {
        /// The run.
        run: String,
        /// From where.
        from: u64,
    },
    /// A cut was verified.
    Judged {
        /// The run.
        run: String,
        /// The cut.
        cut: u32,
        /// What came of it.
        judgement: Judgement,
    },
}

/// What a witness answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// The run and the cut of a writer that began.
    Begun {
        /// The run.
        run: String,
        /// The cut.
        cut: u32,
    },
    /// All up to this number is durable in the ledger.
    Kept {
        /// The number.
        seq: u64,
    },
    /// The run, if there is one.
    Found {
        /// The run.
        run: Option<String>,
    },
    /// A part of a ledger; an empty one is the end.
    Part {
        /// As it lies in the file.
        text: String,
    },
    /// It is done and durable.
    Done,
    /// Nothing was done, and nothing will be.
    Refused {
        /// Why.
        why: String,
    },
}
