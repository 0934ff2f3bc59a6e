//! Where the results of a run go: the report on stdout, the document in a file or in place of the report.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use anstream::ColorChoice;

use super::output;
use super::problem::Problem;
use crate::report;
use crate::results::document::SCHEMA;
use crate::results::{Document, text};
use crate::storage::clusters::claimed;
use crate::sys::SysError;
use crate::sys::error::shown;
use crate::sys::files::{OutputFile, directory_of};
use crate::sys::journal::Journal;
use crate::sys::kernel::{Call, Fault};
use crate::sys::watch::{Event, Phase, Watch};

/// More than a results file needs to say that it is one.
const BEGIN_BYTES: u64 = 100;

/// The report and the results file.
pub struct Paper {
    color: ColorChoice,
    json: Json,
}

enum Json {
    /// Nobody asked.
    None,
    /// On stdout, in place of the report.
    Stdout,
    /// Beside the report.
    File(OutputFile),
}

impl Paper {
    /// Looks at the path and touches nothing; `-` is stdout.
    pub fn new(json: Option<&Path>, color: ColorChoice) -> anyhow::Result<Self> {
        let json = match json {
            None => Json::None,
            Some(path) if path == Path::new("-") => Json::Stdout,
            Some(path) => {
                // Known now, not after the first round.
                let directory = directory_of(path);
                std::fs::metadata(directory).map_err(Fault::of_io(Call::Openat, path))?;
                spare(path)?;
                Json::File(OutputFile::new(path)?)
            }
        };
        Ok(Self { color, json })
    }

    /// What is copied where: before the run, for whoever waits for it.
    pub fn head(&self, document: &Document) -> Result<(), Problem> {
        self.report(&report::header(document))
    }

    /// What keeps the results so far, again and again; the file in which they are written first is journalled before.
    pub fn keeper<'a>(
        &'a self,
        journal: &Journal,
        watch: &'a dyn Watch,
    ) -> Result<impl FnMut(&Document) -> Result<(), SysError> + use<'a>, SysError> {
        let file = match &self.json {
            Json::File(file) => Some(file),
            Json::None | Json::Stdout => None,
        };
        if let Some(temporary) = file.and_then(OutputFile::temporary) {
            journal.push(&temporary)?;
        }
        Ok(move |document: &Document| {
            watch.event(Event::Phase(Phase::WritingResults));
            file.map_or(Ok(()), |file| file.keep(text::write(document).as_bytes()))
        })
    }

    /// The results, for good.
    pub fn finish(self, document: &Document, watch: &dyn Watch) -> anyhow::Result<()> {
        let report = format!("\n{}", report::results(document));
        self.finish_as(document, &report, watch)
    }

    /// The results, for good, with a report of another form.
    pub fn finish_as(self, document: &Document, report: &str, watch: &dyn Watch) -> anyhow::Result<()> {
        self.report(report)?;
        match self.json {
            Json::None => {}
            Json::Stdout => output::print(&text::write(document), ColorChoice::Never)?,
            Json::File(file) => file.finish(text::write(document).as_bytes(), watch)?,
        }
        Ok(())
    }

    fn report(&self, text: &str) -> Result<(), Problem> {
        match self.json {
            Json::Stdout => Ok(()),
            Json::None | Json::File(_) => output::print(text, self.color),
        }
    }
}

/// Refuses a file that holds anything but results of this program, one that a cluster would find among its own, and a disk.
fn spare(path: &Path) -> anyhow::Result<()> {
    let other = "name another file: --json FILE";
    let found = fs::metadata(path).ok();
    if found.as_ref().is_some_and(|found| found.file_type().is_block_device()) {
        let message = format!("\"{}\" is a block device", shown(path));
        return Err(Problem::refused(message).hint(Some(other)).into());
    }
    if found.as_ref().is_some_and(|found| !found.is_file()) {
        return Ok(());
    }
    let lies_in = if found.is_some() {
        path.to_path_buf()
    } else {
        // A link that leads nowhere yet is where its file is made.
        let made = fs::read_link(path).map_or_else(|_| path.into(), |target| directory_of(path).join(target));
        directory_of(&made).to_path_buf()
    };
    if let Some(claimed) = claimed(&lies_in)? {
        return Err(Problem::refused(claimed.to_string()).hint(Some(other)).into());
    }
    if found.is_some_and(|found| found.len() > 0) && !holds_results(path)? {
        let message = format!("\"{}\" exists and is no results file", shown(path));
        return Err(Problem::refused(message).hint(Some(other)).into());
    }
    Ok(())
}

/// Whether a file begins as [`text::write`] begins one, of whatever version.
fn holds_results(path: &Path) -> Result<bool, Fault> {
    let mut begin = Vec::new();
    let file = File::open(path).map_err(Fault::of_io(Call::Openat, path))?;
    file.take(BEGIN_BYTES).read_to_end(&mut begin).map_err(Fault::of_io(Call::Read, path))?;
    let begin: String = String::from_utf8_lossy(&begin).split_ascii_whitespace().collect();
    let name = SCHEMA.split_inclusive('/').next().unwrap_or(SCHEMA);
    Ok(begin.starts_with(&format!("{{\"schema\":\"{name}")))
}
