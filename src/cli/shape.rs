//! `fsynclab shape DIR`: the names and sizes of a tree, to replay it elsewhere without its data.

use std::path::PathBuf;

use anstream::ColorChoice;

use super::{complain, output};
use crate::replay::shape::{Shape, left_out};

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
    for sentence in left_out(&scan.skipped) {
        complain(&format!("warning: {sentence}"));
    }
    Ok(output::print(&scan.shape.to_text(), color)?)
}
