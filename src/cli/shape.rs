//! `fsynclab shape DIR`: the names and sizes of a tree, to replay it elsewhere without its data.

use std::path::PathBuf;

use anstream::ColorChoice;

use super::{complain, output};
use crate::replay::shape::Shape;
use crate::sys::error::shown;

/// Print the names and sizes of a tree, to replay it elsewhere without its data
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory; no file in it is opened
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Prints the shape on stdout, what was left out on stderr.
pub fn run(args: &Args, color: ColorChoice) -> anyhow::Result<()> {
    let scan = Shape::scan(&args.directory)?;
    for skipped in &scan.skipped {
        complain(&format!("warning: left out \"{}\": a {}", shown(&skipped.path), skipped.kind));
    }
    Ok(output::print(&scan.shape.to_text(), color)?)
}
