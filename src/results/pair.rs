//! Two probes or published sets side by side; no part of a results file.

/// Two probes or published sets side by side: like with like only.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// What to call them.
    pub names: [String; 2],
    /// Lines that mean the same in both.
    pub lines: Vec<PairLine>,
    /// What is not alike, and why, in sentences.
    pub findings: Vec<String>,
}

/// A line of two sets that means the same in both.
#[derive(Clone, Debug, PartialEq)]
pub struct PairLine {
    /// Its words.
    pub title: String,
    /// Operations a second in each.
    pub ops_per_sec: [f64; 2],
    /// Device flushes for one operation in each, where they were counted.
    pub flushes_per_op: [Option<f64>; 2],
    /// Whether more than chance lies between them.
    pub differs: bool,
}
