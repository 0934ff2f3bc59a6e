//! `fsynclab compare A B …`: probes and published pg_test_fsync output side by side, like with like.

use std::path::{Path, PathBuf};

use anstream::ColorChoice;

use super::output;
use super::problem::Problem;
use super::published::bytes;
use crate::lab::probe_pairs::{Side, pairs};
use crate::lab::published::Text;
use crate::probe::published::read;
use crate::report;
use crate::results::text;
use crate::sys::error::shown;

/// Results side by side: probes (as --json wrote them) and pg_test_fsync output, like with like
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Results files of probe, or text of pg_test_fsync
    #[arg(value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
}

/// Reads all, compares every two.
pub fn run(args: &Args, color: ColorChoice) -> anyhow::Result<()> {
    let mut sides = Vec::new();
    for file in &args.files {
        sides.extend(read_sides(file, &name(file, &args.files))?);
    }
    if sides.len() < 2 {
        return Err(Problem::usage("there is only one set to compare").into());
    }
    Ok(output::print(&report::pairs(&pairs(&sides)), color)?)
}

/// The last name of a file where that is enough to tell it from the others.
fn name(file: &Path, files: &[PathBuf]) -> String {
    let last = |file: &Path| file.file_name().map(|name| shown(Path::new(name)));
    let alike = files.iter().filter(|other| last(other) == last(file)).count();
    last(file).filter(|_| alike == 1).unwrap_or_else(|| shown(file))
}

/// The runs and probes in a file, none of them with figures that nobody measured.
pub(super) fn read_sides(file: &Path, name: &str) -> Result<Vec<Side>, Problem> {
    let bytes = bytes(file)?;
    let is_json = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let sides = if is_json {
        let document = text::read(&bytes)
            .map_err(|error| Problem::failed(format!("\"{name}\": {error}")).hint(error.hint()))?;
        Side::of_document(name, document)
            .ok_or_else(|| Problem::usage(format!("\"{name}\": results of this kind are not compared yet")))?
    } else {
        let text = Text { name: name.to_owned(), reading: read(&bytes) };
        text.sets().into_iter().map(Side::of_set).collect()
    };
    if sides.is_empty() {
        return Err(Problem::failed(format!(
            "\"{name}\": neither a results file nor output of pg_test_fsync"
        )));
    }
    if let Some(line) = sides.iter().find_map(Side::unusable) {
        return Err(Problem::failed(format!("\"{name}\": {line} cannot be used"))
            .hint(Some("no storage does that: the file was edited, or its numbers were misread")));
    }
    Ok(sides)
}
