//! `fsynclab probe --published`: somebody's pg_test_fsync output, read and judged; nothing is measured.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstream::ColorChoice;

use super::paper::Paper;
use super::problem::{Problem, Status, exit_of};
use super::redact;
use crate::lab::published::{Text, document};
use crate::probe::published::{Medium, read};
use crate::report;
use crate::sys::error::shown;
use crate::sys::kernel::{Call, Fault};
use crate::sys::watch::Quiet;

/// No text of pg_test_fsync is longer; what is, is cut.
const LONGEST_BYTES: u64 = 1 << 28;

/// Reads, judges, prints; 4 where a set's syncs are answered from memory or not asked.
pub fn run(
    files: &[PathBuf],
    medium: Medium,
    json: Option<&Path>,
    color: ColorChoice,
) -> anyhow::Result<ExitCode> {
    let paper = Paper::new(json, color)?;
    let texts = files.iter().map(|file| text(file)).collect::<Result<Vec<_>, _>>()?;
    let document = document(&texts, medium, redact::arguments(std::env::args_os()));
    paper.finish_as(&document, &report::results(&document), &Quiet)?;
    for text in texts.iter().filter(|text| text.reading.sets.is_empty()) {
        super::complain(&format!("warning: \"{}\": no output of pg_test_fsync is in it", text.name));
    }
    if document.sets.is_empty() {
        return Ok(Status::Refused.into());
    }
    let no = document.sets.iter().map(|set| exit_of(&set.verdict.code));
    Ok(no.reduce(|all, one| if all == ExitCode::SUCCESS { one } else { all }).unwrap_or(ExitCode::SUCCESS))
}

/// A file, or standard input as `-`.
fn text(file: &Path) -> Result<Text, Problem> {
    let name = if file == Path::new("-") { "standard input".to_owned() } else { shown(file) };
    let bytes = bytes(file)?;
    Ok(Text { name, reading: read(&bytes) })
}

/// The bytes of a file, or of standard input as `-`.
pub fn bytes(file: &Path) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    let done = if file == Path::new("-") {
        io::stdin().take(LONGEST_BYTES).read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|open| open.take(LONGEST_BYTES).read_to_end(&mut bytes))
    };
    match done {
        Ok(_) => Ok(bytes),
        Err(error) => Err(Problem::failed(Fault::of_io(Call::Read, file)(error).to_string())),
    }
}

/// `flash`, `rotating`, or a rate as `7200rpm`.
pub fn medium(text: &str) -> Result<Medium, String> {
    match (text, text.strip_suffix("rpm").map(str::parse::<u32>)) {
        ("flash", _) => Ok(Medium::Flash),
        ("rotating", _) => Ok(Medium::Rotating { claimed_rpm: None }),
        (_, Some(Ok(rpm @ 1..))) => Ok(Medium::Rotating { claimed_rpm: Some(rpm) }),
        _ => Err("flash, rotating, or a rate as 7200rpm".to_owned()),
    }
}
