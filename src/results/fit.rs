//! A model fitted to published rates, held against them; no part of a results file.

/// How well the numbers of a drive reproduce the lines they were fitted to.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveFit {
    /// Where the lines were read.
    pub source: String,
    /// What the lines tell of the drive, in a sentence.
    pub kind: String,
    /// Lines that the drive decides.
    pub lines: Vec<FitLine>,
    /// The others, and the reason of each, those of one reason beside each other.
    pub left_out: Vec<(Vec<String>, String)>,
}

/// A line that was fitted.
#[derive(Clone, Debug, PartialEq)]
pub struct FitLine {
    /// Its block and method.
    pub title: String,
    /// Operations a second, as published.
    pub published: f64,
    /// Operations a second that the numbers imply.
    pub fitted: f64,
}

impl FitLine {
    /// How far the fitted rate is off, in percent of the published.
    pub fn error_percent(&self) -> f64 {
        100.0 * (self.fitted / self.published - 1.0)
    }
}
