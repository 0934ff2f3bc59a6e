//! Published rates, or those of a probe, as a drive: what the text tells of its machine decides whether they can be fitted.

use super::probe_pairs::Side;
use crate::probe::published::{Block, Medium, Method, Platform, Set, judge};
use crate::probe::verdict::{Code, SyncMethod};
use crate::results::{DriveFit, FitLine};
use crate::simdrive::fit::{self, Line, Unfit};

/// Why there is no fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoFit {
    /// Its syncs mean something else.
    #[error(
        "it is from {0}, where a sync is another thing than on Linux: a simulated drive carries a file system of Linux"
    )]
    Platform(&'static str),
    /// The lines show no drive.
    #[error("its syncs show no drive: {}", .0.join("; "))]
    NoDrive(Vec<String>),
    /// Its first blocks do not write 8 kB.
    #[error("it wrote {0} kB where pg_test_fsync writes 8 kB")]
    OtherSize(u32),
    /// The lines do not decide it.
    #[error(transparent)]
    Unfit(#[from] Unfit),
}

/// A fitted drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// How well it reproduces the lines.
    pub fit: DriveFit,
    /// Its numbers, as the text of a model.
    pub toml: String,
}

/// Fits a drive to one run of pg_test_fsync or one probe. `name` is what the model calls it.
pub fn drive(side: &Side, name: Option<&str>) -> Result<Fitted, NoFit> {
    let set = side.set();
    refuse(set)?;
    let mut fitted = fit::fit(&lines(set), old_o_sync(set))?;
    if let Some(name) = name {
        fitted.model.summary = format!("{name}: {}", fitted.model.summary);
    }
    let mut left_out: Vec<(Vec<String>, String)> = Vec::new();
    for (line, reason) in &fitted.left_out {
        let (line, reason) = (line.to_string(), reason.to_string());
        match left_out.iter_mut().find(|(_, known)| *known == reason) {
            Some((lines, _)) => lines.push(line),
            None => left_out.push((vec![line], reason)),
        }
    }
    let held = fitted.lines.iter().map(|(line, fitted)| FitLine {
        title: line.to_string(),
        published: line.ops_per_s,
        fitted: *fitted,
    });
    let fit = DriveFit {
        source: set.source.clone(),
        kind: fitted.kind.to_string(),
        lines: held.collect(),
        left_out,
    };
    Ok(Fitted { fit, toml: fitted.to_toml(&set.source) })
}

fn refuse(set: &Set) -> Result<(), NoFit> {
    match (set.origin.platform, set.origin.write_kb) {
        (Platform::MacOs, _) => return Err(NoFit::Platform("macOS")),
        (Platform::Windows, _) => return Err(NoFit::Platform("Windows")),
        (_, Some(kb)) if kb != 8 => return Err(NoFit::OtherSize(kb)),
        _ => {}
    }
    // What is missing altogether is told by the fit itself.
    let verdict = judge(set, Medium::Unknown);
    let shows_nothing = matches!(verdict.code, Code::NotAsked | Code::NotNeeded | Code::CannotTell);
    if shows_nothing && set.one(SyncMethod::Fdatasync).is_some() {
        return Err(NoFit::NoDrive(verdict.reasons.iter().map(ToString::to_string).collect()));
    }
    Ok(())
}

fn lines(set: &Set) -> Vec<Line> {
    let line = |row: &crate::probe::published::Row| {
        let ops_per_s = set.rate(row.block, row.method)?;
        Some(Line { block: row.block.key().to_owned(), method: row.method.to_string(), ops_per_s })
    };
    set.rows.iter().filter_map(line).collect()
}

/// `open_datasync` is left out where its flag is that of `open_sync`: so it was before Linux 2.6.33 and its headers.
fn old_o_sync(set: &Set) -> bool {
    let row = |method| set.row(Block::One8, Method::Sync(method));
    let missing =
        row(SyncMethod::OpenDatasync).is_some_and(|row| row.ops_per_sec.is_none() && !row.direct_io_refused);
    missing && set.one(SyncMethod::OpenSync).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::published::read;

    fn of(name: &str) -> Result<Fitted, NoFit> {
        let path = format!("{}/fixtures/pg_test_fsync/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        let reading = read(&std::fs::read(path).expect(name));
        drive(&Side::of_set(reading.sets[0].clone().named(name)), Some("mine"))
    }

    #[test]
    fn the_machines_of_2014_are_reproduced() {
        for (name, kind, lines) in [
            ("hdd-7200-sata-ext4-pg9.3-2014", "a disk that turns", 6),
            ("ssd-owc-ext4-pg9.3-2014", "flash", 6),
        ] {
            let Fitted { fit, toml } = of(name).expect(name);
            assert!(fit.kind.starts_with(kind), "{name}: {}", fit.kind);
            assert_eq!(fit.lines.len(), lines, "{name}: {:?}", fit.lines);
            for line in &fit.lines {
                assert!(line.error_percent().abs() < 10.0, "{name}: {line:?}");
            }
            let [(old, why), (memory, _)] = &fit.left_out[..] else { panic!("{name}: {:?}", fit.left_out) };
            assert_eq!((old.len(), memory.len()), (7, 1), "{name}");
            assert!(why.starts_with("an old O_SYNC decides"), "{name}: {why}");
            let model = crate::simdrive::models::parse(name, &toml).expect("a model");
            assert!(model.summary.starts_with("mine: "), "{}", model.summary);
        }
    }

    #[test]
    fn what_is_no_drive_of_linux_is_refused_with_its_reason() {
        for (name, why) in [
            ("macos-10.9-intel520-hfs-pg9.3-2014", "it is from macOS"),
            ("imac-sata-ssd-macos-pg11", "it is from macOS"),
            ("tmpfs-pg16-cut-short", "its syncs show no drive: "),
            ("mdadm-raid1-sata-pg9.1", "only 2 lines have a rate"),
            ("zfs-freebsd-12disks-pg9.3", "there is no rate of fdatasync"),
        ] {
            let refused = of(name).expect_err(name).to_string();
            assert!(refused.starts_with(why), "{name}: {refused}");
        }
    }

    #[test]
    fn lines_that_fua_decides_are_left_out() {
        let fit = of("nvme-990pro-xfs-pg16").expect("a drive").fit;
        let (fua, why) = &fit.left_out[0];
        assert_eq!(fua[..], ["one8 open_datasync", "one8 open_sync"]);
        assert!(why.starts_with("FUA decides"), "{why}");
    }
}
