//! The checker proves itself on every cluster: what is right must pass, what is wrong must be caught.

use std::path::Path;

use super::check::tear;
use super::images::done;
use super::judging::Bench;
use super::ledger::Scene;
use super::tally::Tally;
use crate::powercut::cuts::{Certain, Cuts, Image};
use crate::powercut::error::Error;
use crate::powercut::planted::Wanted;
use crate::powercut::tape::Section;
use crate::simdrive::model::{Model, Options};

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planted {
    /// Its name in reports.
    pub name: &'static str,
    /// What is done.
    injection: Injection,
    /// What must come of it.
    pub wanted: Wanted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Injection {
    /// The server was killed, the drive was not.
    Nothing,
    /// The power was cut, and nothing that the workload wrote was certain.
    FlushIgnored,
    /// As the first, and half a page is torn afterwards.
    PageTorn,
}

/// All of them.
pub const PLANTED: [Planted; 3] = [
    Planted {
        name: "a killed server, which is right",
        injection: Injection::Nothing,
        wanted: Wanted::Passes,
    },
    Planted {
        name: "a drive that ignores flushes",
        injection: Injection::FlushIgnored,
        wanted: Wanted::Caught,
    },
    Planted { name: "half a page of a table torn", injection: Injection::PageTorn, wanted: Wanted::Caught },
];

/// A planted fault and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Which.
    pub planted: Planted,
    /// What.
    pub tally: Tally,
}

impl Proof {
    /// Did the checker do what it must?
    pub fn valid(&self) -> bool {
        match self.planted.wanted {
            Wanted::Caught => self.tally.broken() > 0,
            Wanted::Passes => self.tally.broken() == 0,
            Wanted::Either => true,
        }
    }

    /// Why it is not.
    pub fn words(&self) -> String {
        let example = self.tally.examples.values().next();
        match example {
            Some(example) if self.planted.wanted == Wanted::Passes => {
                let finding = &example.finding;
                format!(
                    "\"{}\" was taken for a fault: {}: {}",
                    self.planted.name, finding.what, finding.detail
                )
            }
            _ => format!("\"{}\" was not caught", self.planted.name),
        }
    }
}

/// Judges every planted fault. `emptied`: a checker that takes every write for certain.
pub fn prove(
    section: &Section,
    scene: &Scene,
    drive: (&Model, &Options),
    emptied: bool,
    bench: &mut Bench<'_>,
) -> Result<Vec<Proof>, Error> {
    let whole = Image { cut: section.length, missing: Vec::new(), torn: None, random: false };
    let certain = if emptied { Certain::Arrived } else { Certain::Nothing };
    let cut = done(section);
    let missing = Cuts::new(section, certain, drive).volatile(cut);
    let (whole_page, torn_page) = (|_: &Path| Ok(()), |root: &Path| tear(root, scene));
    let mut proofs = Vec::new();
    for planted in PLANTED {
        let image = match planted.injection {
            Injection::FlushIgnored => Image { cut, missing: missing.clone(), ..whole.clone() },
            Injection::Nothing | Injection::PageTorn => whole.clone(),
        };
        let tamper: &dyn Fn(&Path) -> Result<(), Error> =
            if planted.injection == Injection::PageTorn { &torn_page } else { &whole_page };
        let checked = bench.examine(&image, tamper)?;
        proofs.push(Proof { planted, tally: Tally::of(vec![(image, checked)]) });
    }
    Ok(proofs)
}
