//! Real power cuts for the terminal: what was acknowledged and what is left of it, this cut and the run so far. Nothing is
//! ever called safe.

use super::layout::{Align, Row, Table, hanging, paragraph, together, warning};
use super::{notes, units};
use crate::results::plug::Verdicts;
use crate::results::{Arm, Document, PowerCuts, Pulled, PulledCut};

/// The arm that stands for all methods.
const ALL: &str = "all";
/// The verdict that nothing is lost.
const KEPT: &str = "kept";
/// Columns that a UTC time takes without its seconds.
const MINUTE: usize = 16;

/// Which cut, and what lay below it.
pub(super) fn header(document: &Document) -> String {
    let (Some(pulled), Some(place)) = (&document.pulled, document.places.first()) else {
        return String::new();
    };
    let disks: Vec<String> = place
        .stack
        .disks
        .iter()
        .map(|disk| {
            let model = disk.model.as_ref().map(|model| format!(", {model}")).unwrap_or_default();
            let cache = match (&disk.write_cache.drive, &disk.write_cache.kernel) {
                (Some(drive), _) => format!(", cache {drive}"),
                (None, Some(kernel)) => format!(", kernel: {kernel}"),
                (None, None) => String::new(),
            };
            format!("/dev/{}{model}{cache}", disk.name)
        })
        .collect();
    let on = if disks.is_empty() { "no known disk".to_owned() } else { disks.join("; ") };
    let (path, file_system) = (&place.path, &place.stack.file_system);
    paragraph(&format!("run {}, cut {}: {path} ({file_system} on {on})", pulled.run, pulled.cut), 2)
}

/// This cut, the run, what it means.
pub(super) fn results(document: &Document) -> String {
    let Some(pulled) = &document.pulled else { return String::new() };
    let mut text = probe(document, pulled);
    text += &table(document);
    text.push('\n');
    if let Some(cut) = pulled.cuts.iter().find(|cut| cut.cut == pulled.cut) {
        text += &this_cut(cut);
    }
    let all = document.arms.iter().find(|arm| arm.name == ALL).and_then(|arm| arm.power_cuts.as_ref());
    for example in all.into_iter().flat_map(|all| &all.examples) {
        let head = format!("  {}, {}: ", example.image, example.verdict);
        text += &hanging(&head, &format!("{} {}", example.path, example.detail));
    }
    if let Some(all) = all {
        text += &campaign(pulled, all);
    }
    for note in &document.notes {
        text += &notes::line(note);
    }
    text + &paragraph(&format!("seed {}, kernel {}.", document.seed, document.host.kernel), 0)
}

fn probe(document: &Document, pulled: &Pulled) -> String {
    let Some(verdict) = &document.verdict else { return String::new() };
    let rate = pulled.overwrites_per_sec.map(|rate| format!("{rate:.0} synced overwrites a second"));
    let flushes = pulled.flushes_per_op.map(|flushes| format!("{flushes:.2} flushes each"));
    let figures: Vec<String> = rate.into_iter().chain(flushes).collect();
    let code = verdict.code.replace('-', " ");
    paragraph(&format!("Probed before the cut: {code}: {}.", figures.join(", ")), 2)
}

/// A line a method: the cuts of the run in which something of it was acknowledged.
fn table(document: &Document) -> String {
    let columns = ["method", "cuts", "kept", "at most lost"];
    let align =
        |(at, title): (usize, &&str)| ((*title).to_owned(), if at == 0 { Align::Left } else { Align::Right });
    let row = |arm: &Arm| {
        let cuts = arm.power_cuts.as_ref()?;
        let kept = cuts.verdicts.get(KEPT).copied().unwrap_or(0);
        let bound = cuts.bound_95.map_or_else(|| counted(&cuts.verdicts), percent);
        Some(Row::Cells(vec![arm.name.clone(), cuts.cuts.to_string(), kept.to_string(), bound]))
    };
    let columns = columns.iter().enumerate().map(align).collect();
    Table { columns, rows: document.arms.iter().filter_map(row).collect() }.render()
}

fn percent(bound: f64) -> String {
    format!("{:.1} %", bound * 100.0)
}

fn counted(verdicts: &Verdicts) -> String {
    let bad = verdicts.iter().filter(|(verdict, _)| verdict.as_str() != KEPT);
    bad.map(|(verdict, count)| format!("{verdict} {count}")).collect::<Vec<_>>().join(", ")
}

fn this_cut(cut: &PulledCut) -> String {
    let begun = cut.begun_at.get(..MINUTE).unwrap_or(&cut.begun_at).replace('T', " ");
    let acknowledged = units::count(cut.acknowledged, "acknowledged thing");
    let unpromised = match cut.unpromised {
        0 => String::new(),
        count => format!(" Under way and not as last written, as it may be: {count}."),
    };
    let head = format!("Cut {} (begun {begun})", cut.cut);
    if cut.verdict.as_deref() == Some(KEPT) && cut.acknowledged == 0 {
        return paragraph(&format!("{head}: nothing was acknowledged before it: it tells nothing."), 2);
    }
    if cut.verdict.as_deref() == Some(KEPT) {
        let text = format!("{head}: kept: {acknowledged} looked for, none lost.{unpromised}");
        return paragraph(&text, 2);
    }
    if cut.broken.is_empty() {
        return warning(&format!(
            "{head}: ALL IS LOST: {}.",
            cut.verdict.as_deref().unwrap_or("not verified")
        ));
    }
    let broken = counted(&cut.broken);
    let text = format!("{head}: ACKNOWLEDGED DATA LOST: of {acknowledged}: {broken}.");
    warning(&(text + &unpromised))
}

fn campaign(pulled: &Pulled, all: &PowerCuts) -> String {
    let cuts = units::count(all.cuts, "cut");
    let open: Vec<String> =
        pulled.cuts.iter().filter(|cut| cut.verdict.is_none()).map(|cut| cut.cut.to_string()).collect();
    let open = match open.len() {
        0 => String::new(),
        _ => format!(" Not verified: cut {}.", open.join(", ")),
    };
    let text = match all.bound_95 {
        Some(bound) => format!(
            "Run {}: {cuts} verified, no loss seen; at 95 % confidence at most {} of such cuts lose something.{open}",
            pulled.run,
            percent(bound)
        ),
        None => format!(
            "Run {}: {cuts} verified: {}, kept {}.{open}",
            pulled.run,
            counted(&all.verdicts),
            all.verdicts.get(KEPT).unwrap_or(&0)
        ),
    };
    paragraph(&text.replace(" %", &together(" %")), 2) + &unsynced(pulled)
}

/// Whether anything was lost that was never synced: if not, perhaps nothing was cut.
fn unsynced(pulled: &Pulled) -> String {
    let sum = |of: fn(&PulledCut) -> u64| pulled.cuts.iter().map(of).sum::<u64>();
    let (written, found) = (sum(|cut| cut.unsynced), sum(|cut| cut.unsynced_found));
    let sectors = units::count(written, "sector");
    match written - found.min(written) {
        _ if written == 0 => String::new(),
        0 => warning(&format!(
            "WARNING: of {sectors} that were never synced none was lost: perhaps no power was cut, and then this says \
             nothing."
        )),
        lost => {
            paragraph(&format!("Of {sectors} that were never synced {lost} were lost: power was cut."), 2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Kind, Labels, Place, Stack};

    fn document(verdicts: &[(&str, u64)], bound_95: Option<f64>, broken: &[(&str, u64)]) -> Document {
        let map = |of: &[(&str, u64)]| of.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let cuts = PowerCuts {
            cuts: verdicts.iter().map(|(_, count)| count).sum(),
            verdicts: map(verdicts),
            promise_kept: bound_95.is_some(),
            bound_95,
            ..PowerCuts::default()
        };
        let arm = |name: &str| Arm {
            name: name.to_owned(),
            labels: Labels::new().with("method", name),
            power_cuts: Some(cuts.clone()),
            ..Arm::default()
        };
        let cut = PulledCut {
            cut: 3,
            begun_at: "2026-11-30T21:04:05Z".to_owned(),
            acknowledged: 1234,
            verdict: Some(broken.first().map_or(KEPT, |(verdict, _)| verdict).to_owned()),
            broken: map(broken),
            ..PulledCut::default()
        };
        let waiting = PulledCut { cut: 4, ..PulledCut::default() };
        let stack = Stack { file_system: "ext4".to_owned(), ..Stack::default() };
        Document {
            pulled: Some(Pulled {
                run: "ab12cd34".to_owned(),
                cut: 3,
                cuts: vec![cut, waiting],
                ..Pulled::default()
            }),
            arms: vec![arm("all"), arm("open_datasync")],
            places: vec![Place {
                id: "p1".to_owned(),
                path: "/mnt/hdd".to_owned(),
                simulated: false,
                model: None,
                stack,
            }],
            ..Document::new(Kind::Plug)
        }
    }

    #[test]
    fn no_loss_has_its_bound_and_is_not_called_safe() {
        let text = header(&document(&[("kept", 5)], Some(0.4507), &[]));
        assert_eq!(text, "run ab12cd34, cut 3: /mnt/hdd (ext4 on no known disk)\n");
        let text = results(&document(&[("kept", 5)], Some(0.4507), &[]));
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("5 cuts verified, no loss seen; at 95 % confidence at most 45.1 %"), "{text}");
        assert!(text.contains("1234 acknowledged things looked for, none lost"), "{text}");
        assert!(text.contains("Not verified: cut 4.") && !text.contains("safe"), "{text}");
    }

    #[test]
    fn a_loss_is_said_with_its_verdicts() {
        let text = results(&document(&[("kept", 1), ("stale", 2)], None, &[("stale", 7), ("lost", 1)]));
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            text.contains("ACKNOWLEDGED DATA LOST: of 1234 acknowledged things: lost 1, stale 7."),
            "{text}"
        );
        assert!(text.contains("Run ab12cd34: 3 cuts verified: stale 2, kept 1."), "{text}");
    }
}
