//! A recorded workload priced on several drives, as a document: one arm a drive and a part of the work.

use crate::results::{
    Arm, DeviceCounters, Document, Kind, Labels, Note, NoteCode, Place, Sample, Stack, labels,
};
use crate::simdrive::mount::{MADE, REST};
use crate::simdrive::price::{Priced, Span};
use crate::simdrive::writelog::{Ending, Header};
use crate::stats;
use crate::sys::clock;

/// The drive of the arms that say what was recorded.
pub const RECORDED: &str = "recorded";
/// The work where the log marks no parts.
const ALL: &str = "all";

/// A drive, and what the log costs there.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Its spec.
    pub drive: String,
    /// What it costs.
    pub priced: Priced,
}

/// The document of a log that was recorded in `log`.
pub fn document(log: &str, header: &Header, offers: &[Offer], argv: Vec<String>) -> Document {
    let recorded = offers.first().map(|offer| arms(RECORDED, &offer.priced, false, |span| span.recorded_ns));
    let priced = offers
        .iter()
        .map(|Offer { drive, priced }| arms(drive, priced, priced.flushes_missing, |span| span.elapsed_ns));
    let mut arms: Vec<Arm> = recorded.into_iter().chain(priced).flatten().collect();
    let names = labels::names(&arms.iter().map(|arm| &arm.labels).collect::<Vec<_>>());
    for (arm, name) in arms.iter_mut().zip(names) {
        arm.name = name;
    }
    Document {
        started_at: clock::utc_now(),
        argv,
        complete: true,
        simulated: true,
        places: vec![Place {
            id: "p1".to_owned(),
            path: log.to_owned(),
            simulated: true,
            model: Some(header.drive.clone()),
            stack: Stack::default(),
        }],
        arms,
        notes: notes(offers),
        ..Document::new(Kind::Price)
    }
}

/// One arm a part of the work, a sample each time it was done.
fn arms(drive: &str, priced: &Priced, too_low: bool, elapsed_ns: impl Fn(&Span) -> u64) -> Vec<Arm> {
    works(&priced.spans)
        .into_iter()
        .map(|(work, spans)| {
            let samples: Vec<Sample> =
                (1..).zip(&spans).map(|(round, span)| sample(round, span, elapsed_ns(span))).collect();
            let times: Vec<u64> = samples.iter().map(|sample| sample.elapsed_ns).collect();
            Arm {
                labels: Labels::new().with("drive", drive).with("work", work),
                summary: stats::summary(&times),
                samples,
                too_low,
                ..Arm::default()
            }
        })
        .collect()
}

fn sample(round: u32, span: &Span, elapsed_ns: u64) -> Sample {
    let device =
        DeviceCounters { writes: span.writes, bytes_written: span.bytes_written, flushes: span.flushes };
    Sample { round, position: 1, elapsed_ns, device: Some(device), ..Sample::default() }
}

/// The parts of the work in the order in which they were first done. Where no trial is marked, all that came after the
/// file system was made is one.
fn works(spans: &[Span]) -> Vec<(String, Vec<Span>)> {
    let mut works: Vec<(String, Vec<Span>)> = Vec::new();
    for span in spans.iter().filter(|span| !["", MADE, REST].contains(&span.mark.as_str())) {
        match works.iter_mut().find(|(work, _)| *work == span.mark) {
            Some((_, done)) => done.push(span.clone()),
            None => works.push((span.mark.clone(), vec![span.clone()])),
        }
    }
    if works.is_empty() {
        let made = spans.iter().position(|span| span.mark == MADE).unwrap_or(0);
        works.push((ALL.to_owned(), vec![sum(&spans[made..])]));
    }
    works
}

fn sum(spans: &[Span]) -> Span {
    spans.iter().fold(Span::default(), |sum, span| Span {
        mark: String::new(),
        elapsed_ns: sum.elapsed_ns + span.elapsed_ns,
        recorded_ns: sum.recorded_ns + span.recorded_ns,
        writes: sum.writes + span.writes,
        bytes_written: sum.bytes_written + span.bytes_written,
        reads: sum.reads + span.reads,
        bytes_read: sum.bytes_read + span.bytes_read,
        flushes: sum.flushes + span.flushes,
        discards: sum.discards + span.discards,
    })
}

fn notes(offers: &[Offer]) -> Vec<Note> {
    let mut notes = Vec::new();
    if let Some(Offer { priced: Priced { ending: Ending::Torn { at_byte }, .. }, .. }) = offers.first() {
        let text = format!("the write log breaks off at byte {at_byte}: priced up to there");
        notes.push(Note::warning(NoteCode::LogTorn, text));
    }
    let missing = offers.iter().filter(|offer| offer.priced.flushes_missing);
    let missing: Vec<&str> = missing.map(|offer| offer.drive.as_str()).collect();
    if !missing.is_empty() {
        let text = format!(
            "recorded on a drive that is sent no flushes: too low (>) for {}, whose flushes are missing",
            missing.join(", ")
        );
        notes.push(Note::warning(NoteCode::FlushesMissing, text));
    }
    notes
}
