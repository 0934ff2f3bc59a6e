//! Probes and published sets side by side for the terminal.

use super::layout::{Align, Row, Table, paragraph};
use super::rates;
use crate::results::{Pair, PairLine};

/// Every pair: what is not alike first, for it is why the others are not compared.
pub fn pairs(pairs: &[Pair]) -> String {
    let texts: Vec<String> = pairs.iter().map(pair).collect();
    texts.join("\n")
}

fn pair(pair: &Pair) -> String {
    let [a, b] = &pair.names;
    let mut text = paragraph(&format!("A: {a}"), 3) + &paragraph(&format!("B: {b}"), 3);
    for finding in &pair.findings {
        text += &paragraph(finding, 2);
    }
    if pair.lines.is_empty() {
        return text + "no line means the same in both\n";
    }
    let counted = pair.lines.iter().any(|line| line.flushes_per_op.iter().any(Option::is_some));
    let mut columns = vec![
        ("ops/s".to_owned(), Align::Left),
        ("A".to_owned(), Align::Right),
        ("B".to_owned(), Align::Right),
        ("B against A".to_owned(), Align::Left),
    ];
    if counted {
        columns.push(("flush/op".to_owned(), Align::Right));
    }
    let rows = pair.lines.iter().map(|line| Row::Cells(cells(line, counted))).collect();
    text + &Table { columns, rows }.render()
}

fn cells(line: &PairLine, counted: bool) -> Vec<String> {
    let [a, b] = line.ops_per_sec;
    let said = match () {
        () if !line.differs => "no difference shown".to_owned(),
        () if b >= a => format!("{} x faster", rates::times(b / a)),
        () => format!("{} x slower", rates::times(a / b)),
    };
    let mut cells = vec![line.title.clone(), rates::rate(a), rates::rate(b), said];
    if counted {
        let each =
            line.flushes_per_op.map(|each| each.map_or_else(|| "-".to_owned(), |each| format!("{each:.2}")));
        cells.push(if each[0] == each[1] { each[0].clone() } else { each.join(" / ") });
    }
    cells
}
