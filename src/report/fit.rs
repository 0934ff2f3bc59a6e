//! A model fitted to published rates: what the lines tell, what the numbers make of each, which lines are left out.

use super::layout::{Align, Row, Table, paragraph};
use super::rates;
use crate::results::{DriveFit, FitLine};

/// The error above which a line is called not reproduced, in percent.
const MOST_PERCENT: f64 = 20.0;

/// The whole fit.
pub fn fit(fit: &DriveFit) -> String {
    let mut text = paragraph(&format!("{} tells of {}.", fit.source, fit.kind), 2) + "\n";
    let columns = [
        ("ops/s", Align::Left),
        ("published", Align::Right),
        ("fitted", Align::Right),
        ("error", Align::Right),
    ];
    let cells = |line: &FitLine| {
        let [published, fitted] = [line.published, line.fitted].map(rates::rate);
        Row::Cells(vec![line.title.clone(), published, fitted, format!("{:+.1} %", line.error_percent())])
    };
    text += &Table {
        columns: columns.map(|(title, align)| (title.to_owned(), align)).to_vec(),
        rows: fit.lines.iter().map(cells).collect(),
    }
    .render();
    text += "\n";
    let off: Vec<&str> = fit
        .lines
        .iter()
        .filter(|line| line.error_percent().abs() > MOST_PERCENT)
        .map(|line| line.title.as_str())
        .collect();
    if !off.is_empty() {
        let said = format!(
            "not reproduced within {MOST_PERCENT:.0} %: {}; another file system than ext4, another kernel or other writers had a part in them",
            off.join(", ")
        );
        text += &paragraph(&said, 2);
    }
    for (lines, reason) in &fit.left_out {
        text += &paragraph(&format!("not fitted: {}: {reason}", lines.join(", ")), 2);
    }
    text + &paragraph("Computed for ext4 without the host's own time, which a fast drive does not hide.", 2)
}
