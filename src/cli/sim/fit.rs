//! `sim fit`: somebody's drive out of a text file, as a model.

use std::path::{Path, PathBuf};

use anstream::ColorChoice;

use super::super::compare::read_sides;
use super::super::output;
use super::super::problem::Problem;
use crate::lab::fit::{Fitted, drive};
use crate::report;
use crate::sys::error::shown;
use crate::sys::files::OutputFile;
use crate::sys::watch::Quiet;

/// Make a model out of a pg_test_fsync output or a probe's results file: somebody's drive in a text file
///
/// Without --output the model is printed, with the error of each line in its comments; with it, the errors alone.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Text of pg_test_fsync, or a results file of probe; from a Linux machine
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What to call the drive [default: by its kind]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Write the model to FILE, to be used wherever a MODEL is
    #[arg(short, long, value_name = "FILE.toml")]
    output: Option<PathBuf>,
}

/// Reads, fits, writes.
pub fn run(args: &Args, color: ColorChoice) -> anyhow::Result<()> {
    let Fitted { fit, toml } = fitted(args)?;
    let told = report::fit(&fit);
    let comment = anstream::adapter::strip_str(&told).to_string();
    let comment: String =
        comment.lines().map(|line| format!("# {line}").trim_end().to_owned() + "\n").collect();
    let model = comment + &toml;
    let Some(output) = &args.output else { return Ok(output::print(&model, color)?) };
    OutputFile::new(output)?.finish(model.as_bytes(), &Quiet)?;
    output::print(&told, color)?;
    let use_it = format!("next: fsynclab sim show {0}; fsynclab copy --sim {0}", as_model(output));
    Ok(output::print(&report::wrapped(&use_it, 2), color)?)
}

fn fitted(args: &Args) -> anyhow::Result<Fitted> {
    let name = shown(args.file.file_name().map_or(&args.file, Path::new));
    let sides = read_sides(&args.file, &name)?;
    let [side] = &sides[..] else {
        let message = format!("\"{name}\" holds {} runs, and a drive is fitted to one", sides.len());
        return Err(Problem::usage(message).hint(Some("leave one of them in the file")).into());
    };
    let fitted = drive(side, args.name.as_deref());
    Ok(fitted.map_err(|error| Problem::refused(format!("\"{name}\" cannot be fitted: {error}")))?)
}

/// As a MODEL is given: with a slash or `.toml` it is a file.
fn as_model(path: &Path) -> String {
    let shown = shown(path);
    if crate::simdrive::models::is_path(&shown) { shown } else { format!("./{shown}") }
}
