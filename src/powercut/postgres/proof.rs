//! The checker proves itself on every cluster: what is right must pass, what is wrong must be caught.

use std::path::Path;

use super::check::{Checked, tear};
use super::images::done;
use super::judging::Bench;
use super::ledger::{Promised, Scene};
use super::tally::{Finding, Tally};
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
    /// As the first, and the ledger claims one thing more, which is told of under this name.
    Claimed(&'static str),
}

const fn caught(name: &'static str, injection: Injection) -> Planted {
    Planted { name, injection, wanted: Wanted::Caught }
}

/// All of them.
pub const PLANTED: [Planted; 6] = [
    Planted {
        name: "a killed server, which is right",
        injection: Injection::Nothing,
        wanted: Wanted::Passes,
    },
    caught("a drive that ignores flushes", Injection::FlushIgnored),
    caught("half a page of a table torn", Injection::PageTorn),
    caught("a commit that was never made", Injection::Claimed("connection 0")),
    caught("a database that was never created", Injection::Claimed("database never_created")),
    caught("a restore that never came", Injection::Claimed("restore 0")),
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
        self.planted.wanted.is_met(self.tally.broken())
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
    let bare = Image { cut, missing: Cuts::new(section, certain, drive).volatile(cut), ..whole.clone() };
    let (untouched, torn) = (|_: &Path| Ok(()), |root: &Path| tear(root, scene));
    let promised = |image: &Image| Promised::by(section, image.cut);
    let right = bench.examine(&whole, &promised(&whole), &untouched)?;
    let ignored = bench.examine(&bare, &promised(&bare), &untouched)?;
    let torn = bench.examine(&whole, &promised(&whole), &torn)?;
    let claimed = bench.examine(&whole, &claiming(promised(&whole)), &untouched)?;
    let proof = |planted: Planted| {
        let (image, checked) = match planted.injection {
            Injection::Nothing => (&whole, right.clone()),
            Injection::FlushIgnored => (&bare, ignored.clone()),
            Injection::PageTorn => (&whole, torn.clone()),
            Injection::Claimed(what) => {
                let about = |finding: &Finding| finding.what == what;
                let findings = claimed.findings.iter().filter(|finding| about(finding)).cloned().collect();
                (&whole, Checked { findings, ..claimed.clone() })
            }
        };
        Proof { planted, tally: Tally::of(vec![(image.clone(), checked)]) }
    };
    Ok(PLANTED.map(proof).to_vec())
}

/// The ledger with one thing more of each kind.
fn claiming(promised: Promised) -> Promised {
    let mut promised = promised;
    promised.commits.entry(0).or_default().synchronous += 1;
    promised.databases.push("never_created".to_owned());
    promised.restores.push(0);
    promised
}
