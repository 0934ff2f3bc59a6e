//! `sim show`: what the numbers of a model imply.

use super::super::places::drive_problem;
use crate::report;
use crate::simdrive::imply::{Implied, imply};
use crate::simdrive::model::{Flush, Model};
use crate::simdrive::models::{self, BUILT_IN};
use crate::simdrive::mount::model_of;
use crate::simdrive::spec::Spec;

/// Print what the numbers of a model imply, on ext4, the host's own time not counted
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A model, as sim list prints it or a .toml file, or a SPEC
    #[arg(value_name = "MODEL")]
    spec: String,
    /// Print the model itself, each number with its source: a .toml file to start from
    #[arg(long)]
    toml: bool,
}

/// Characters of a column at the least.
const NARROWEST: usize = 11;

/// A way to set the drive up: a column.
struct Column {
    title: String,
    implied: Implied,
}

/// The text to print.
pub fn show(args: &Args) -> anyhow::Result<String> {
    let spec: Spec = args.spec.parse().map_err(|error| drive_problem(&error))?;
    let model = model_of(&spec).map_err(|error| drive_problem(&error))?;
    if args.toml {
        let built_in = BUILT_IN.iter().find(|(name, _)| *name == spec.model);
        return Ok(built_in.map_or_else(|| models::to_toml(&model), |(_, text)| (*text).to_owned()));
    }
    let columns = columns(&spec, &model)?;
    let title = format!("{}: {}", spec.model, model.summary);
    let mut text = report::wrapped(&title, 2) + "\n";
    let titles: Vec<String> = columns.iter().map(|column| column.title.clone()).collect();
    let widths: Vec<usize> = titles.iter().map(|title| title.len().max(NARROWEST)).collect();
    text += &line("computed, not measured", &titles, &widths);
    for (words, value) in rows(&columns[0].implied) {
        let values: Vec<String> = columns.iter().map(|column| value(&column.implied)).collect();
        text += &line(&words, &values, &widths);
    }
    if model.write_cache.is_some_and(|cache| !cache.volatile) {
        text += &report::wrapped("Its cache survives a power cut, so it is sent no flushes.", 0);
    }
    Ok(text + "sources: --toml\n")
}

/// The drive as asked for, or with its cache off and on where that is left open.
fn columns(spec: &Spec, model: &Model) -> anyhow::Result<Vec<Column>> {
    let caches = match (spec.write_cache, model.write_cache) {
        (None, Some(_)) => vec![Some(false), Some(true)],
        (asked, _) => vec![asked],
    };
    let columns = caches.into_iter().map(|write_cache| {
        let spec = Spec { write_cache, ..spec.clone() };
        let options = spec.options(model, 1).map_err(|error| drive_problem(&error))?;
        let ignored = options.write_cache && options.flush == Flush::Ignored;
        let title = match (model.write_cache, options.write_cache) {
            (None, _) => "no cache",
            (Some(_), false) => "cache off",
            (Some(_), true) if ignored => "cache on, flush ignored",
            (Some(_), true) => "cache on",
        };
        Ok(Column { title: title.to_owned(), implied: imply(model, &options) })
    });
    columns.collect()
}

type Value = Box<dyn Fn(&Implied) -> String>;

/// Words of each row, and its cell in any column.
fn rows(implied: &Implied) -> Vec<(String, Value)> {
    let mut rows: Vec<(String, Value)> = vec![
        ("synced overwrites of 8 kB a second".to_owned(), Box::new(|it| rate(it.synced_overwrites_per_s))),
        ("a GiB written in a row".to_owned(), Box::new(|it| report::duration(it.write_gib_ns))),
        ("a GiB read in a row".to_owned(), Box::new(|it| report::duration(it.read_gib_ns))),
    ];
    for (at, line) in implied.lines.iter().enumerate() {
        let words = format!("pg_test_fsync {}: {}", line.block, line.method);
        rows.push((words, Box::new(move |it| rate(it.lines[at].ops_per_s))));
    }
    for (at, copy) in implied.create_database.iter().enumerate() {
        let barriers = if copy.barriers { "" } else { ", nobarrier" };
        let words = format!("CREATE DATABASE, {}{barriers}", copy.policy);
        rows.push((words, Box::new(move |it| report::duration(it.create_database[at].elapsed_ns))));
    }
    rows
}

fn rate(per_s: f64) -> String {
    if per_s < 1000.0 { format!("{per_s:.1}") } else { format!("{per_s:.0}") }
}

fn line(words: &str, cells: &[String], widths: &[usize]) -> String {
    let cells = cells.iter().zip(widths);
    cells.fold(format!("{words:<42}"), |line, (cell, width)| line + &format!(" {cell:>width$}")) + "\n"
}
