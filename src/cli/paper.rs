//! Where the results of a run go: the report on stdout, the document in a file or in place of the report.

use std::path::Path;

use anstream::ColorChoice;

use super::output;
use super::problem::Problem;
use crate::report;
use crate::results::{Document, text};
use crate::sys::SysError;
use crate::sys::files::{OutputFile, TemporaryFile, directory_of};
use crate::sys::kernel::{Call, Fault};

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
                Json::File(OutputFile::new(path)?)
            }
        };
        Ok(Self { color, json })
    }

    /// What to journal before the first results are kept.
    pub fn temporary(&self) -> Option<TemporaryFile> {
        match &self.json {
            Json::File(file) => file.temporary(),
            Json::None | Json::Stdout => None,
        }
    }

    /// What is copied where: before the run, for whoever waits for it.
    pub fn head(&self, document: &Document) -> Result<(), Problem> {
        self.report(&report::header(document))
    }

    /// The results so far.
    pub fn keep(&self, document: &Document) -> Result<(), SysError> {
        match &self.json {
            Json::File(file) => file.keep(text::write(document).as_bytes()),
            Json::None | Json::Stdout => Ok(()),
        }
    }

    /// The results, for good.
    pub fn finish(self, document: &Document) -> anyhow::Result<()> {
        let report = format!("\n{}", report::results(document));
        self.finish_as(document, &report)
    }

    /// The results, for good, with a report of another form.
    pub fn finish_as(self, document: &Document, report: &str) -> anyhow::Result<()> {
        self.report(report)?;
        match self.json {
            Json::None => {}
            Json::Stdout => output::print(&text::write(document), ColorChoice::Never)?,
            Json::File(file) => file.finish(text::write(document).as_bytes())?,
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
