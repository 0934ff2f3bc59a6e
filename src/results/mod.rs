//! Floor 2: the vocabulary every other wing speaks (labels, samples, stacks, notes, the document) and its text form:
//! bytes in and bytes out, no file. What each field means stands in `docs/RESULTS.md`.

pub mod benched;
pub mod databases;
pub mod document;
pub mod fit;
pub mod labels;
pub mod note;
pub mod pair;
pub mod plug;
pub mod probe;
pub mod promise;
pub mod pulled;
pub mod recoveries;
pub mod restored;
pub mod sample;
pub mod stack;
pub mod text;

pub use benched::{Benched, Plausibility, WalPlace};
pub use databases::{Databases, Server};
pub use document::{
    Arm, Bystander, Comparison, Document, Failed, Host, Input, Kind, Place, Planned, Refused, Tool,
};
pub use fit::{DriveFit, FitLine};
pub use labels::Labels;
pub use note::{Note, NoteCode, Severity};
pub use pair::{Pair, PairLine};
pub use plug::{CutExample, InFact, PlantedFault, PowerCuts};
pub use probe::{Baseline, CacheVerdict, PerOperation, PublishedRow, PublishedSet, SyncVerdict};
pub use promise::Promise;
pub use pulled::{Pulled, PulledCut};
pub use recoveries::Recoveries;
pub use restored::Restored;
pub use sample::{DeviceCounters, Phases, Sample};
pub use stack::{CacheView, Disk, Layer, Stack};
