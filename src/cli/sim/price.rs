//! `sim price`: what a recorded workload costs on other drives, without any drive and without root.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anstream::ColorChoice;

use super::super::paper::Paper;
use super::super::places::drive_problem;
use super::super::problem::Problem;
use super::super::redact;
use crate::lab::price::{Offer, document};
use crate::simdrive::Error;
use crate::simdrive::model::{Model, Options};
use crate::simdrive::models::{BUILT_IN, built_in};
use crate::simdrive::mount::model_of;
use crate::simdrive::price::price;
use crate::simdrive::spec::Spec;
use crate::simdrive::writelog::Reader;
use crate::sys::error::shown;
use crate::sys::kernel::{Call, Fault};
use crate::sys::watch::Quiet;

/// Read at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// Compute what a recorded workload costs on other drives, in invented time; needs no root
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A write log, as --write-log records it
    #[arg(value_name = "LOG")]
    log: PathBuf,
    /// Drives, as SPECs; file system and size are the log's [default: every model, cache on and off]
    #[arg(value_name = "MODEL")]
    drives: Vec<String>,
    /// Write the results to FILE; - is standard output, and nothing else goes there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Prices and prints.
pub fn run(args: &Args, color: ColorChoice) -> anyhow::Result<()> {
    let drives = drives(&args.drives).map_err(|error| drive_problem(&error))?;
    let paper = Paper::new(args.json.as_deref(), color)?;
    let mut offers = Vec::new();
    for (spec, model) in drives {
        let mut log = open(&args.log)?;
        let size_bytes = log.header().size_bytes;
        let options = spec.options(&model, 1).map_err(|error| drive_problem(&error))?;
        let priced = price(&mut log, &model, &Options { size_bytes, ..options });
        let priced = priced.map_err(|error| log_problem(&args.log, error))?;
        offers.push(Offer { drive: spec.to_string(), priced });
    }
    let header = open(&args.log)?.header().clone();
    let document = document(&shown(&args.log), &header, &offers, redact::arguments(std::env::args_os()));
    paper.head(&document)?;
    paper.finish(&document, &Quiet)
}

fn open(path: &Path) -> anyhow::Result<Reader<BufReader<File>>> {
    let file = File::open(path).map_err(Fault::of_io(Call::Openat, path))?;
    let reader = Reader::new(BufReader::with_capacity(BUFFER_BYTES, file));
    reader.map_err(|error| log_problem(path, error).into())
}

fn log_problem(path: &Path, error: Error) -> Problem {
    match error {
        Error::LogRead { source } if source.raw_os_error().is_some() => {
            Problem::failed(Fault::of_io(Call::Read, path)(source).to_string())
        }
        error => Problem::failed(format!("could not price \"{}\": {error}", shown(path))),
    }
}

/// The drives asked for, else every model as it ships and with its cache the other way.
fn drives(given: &[String]) -> Result<Vec<(Spec, Model)>, Error> {
    let mut drives = Vec::new();
    for text in given {
        let spec: Spec = text.parse()?;
        let model = model_of(&spec)?;
        drives.push((spec, model));
    }
    if given.is_empty() {
        for (name, _) in BUILT_IN {
            let model = built_in(name)?;
            let spec: Spec = name.parse()?;
            drives.push((spec.clone(), model.clone()));
            if let Some(cache) = model.write_cache {
                drives.push((Spec { write_cache: Some(!cache.on), ..spec }, model));
            }
        }
    }
    Ok(drives)
}
