//! Text within a fixed width: paragraphs and tables.

use anstyle::{AnsiColor, Style};

use super::WIDTH;

const BOLD: Style = Style::new().bold();
const YELLOW: Style = AnsiColor::Yellow.on_default();

/// Stands for a space at which no line is broken.
const NO_BREAK: char = '\u{a0}';

/// A number and its unit, or an option and its value: never on two lines.
pub(super) fn together(words: &str) -> String {
    words.replace(' ', "\u{a0}")
}

/// Words in lines of at most [`WIDTH`] columns, further lines indented; a longer word is cut where the line ends.
pub(super) fn paragraph(text: &str, indent: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !line.trim().is_empty() && width(&line) + 1 + width(word) > WIDTH {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
        } else if !line.trim().is_empty() {
            line.push(' ');
        }
        for letter in word.chars() {
            if width(&line) == WIDTH {
                lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            }
            line.push(if letter == NO_BREAK { ' ' } else { letter });
        }
    }
    lines.push(line);
    lines.iter().fold(String::new(), |text, line| text + line + "\n")
}

/// A text beside a head that is kept as it is; further lines stand below the text.
pub(super) fn hanging(head: &str, text: &str) -> String {
    paragraph(&(together(head) + text), width(head))
}

/// A command as a shell takes it: lines end in a backslash, and a word that is longer than a line goes on at its begin.
pub(super) fn command(text: &str, indent: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut line = " ".repeat(indent);
    for (number, word) in text.split(' ').enumerate() {
        if number > 0 && width(&line) + 1 + width(word) > WIDTH - 2 {
            lines.push(line + " \\");
            line = " ".repeat(indent + 2);
        } else if number > 0 {
            line.push(' ');
        }
        for letter in word.chars() {
            if width(&line) == WIDTH - 1 {
                lines.push(std::mem::take(&mut line) + "\\");
            }
            line.push(letter);
        }
    }
    lines.push(line);
    lines.iter().fold(String::new(), |text, line| text + line + "\n")
}

/// A paragraph marked as a warning for those who see colour.
pub(super) fn warning(text: &str) -> String {
    format!("{YELLOW}{}{YELLOW:#}\n", paragraph(text, 0).trim_end())
}

/// Columns a text takes: characters, as file names are shown escaped and the rest is ours.
pub(super) fn width(text: &str) -> usize {
    text.chars().count()
}

/// To which side a column's cells are pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// One line of a table.
#[derive(Clone, Debug)]
pub(super) enum Row {
    /// A cell a column.
    Cells(Vec<String>),
    /// The first cells, then a sentence in place of the others.
    Sentence(Vec<String>, String),
}

/// A table of text; its first column holds names, which may be long.
pub(super) struct Table {
    pub(super) columns: Vec<(String, Align)>,
    pub(super) rows: Vec<Row>,
}

/// Between columns, where there is room for it; else one.
const GAP: usize = 2;

impl Table {
    /// The lines, at most [`WIDTH`] columns wide. A name too long for its column stands on a line of its own.
    pub(super) fn render(&self) -> String {
        let mut widths: Vec<usize> = (0..self.columns.len()).map(|column| self.widest(column)).collect();
        let all: usize = widths.iter().sum::<usize>() + GAP * (widths.len() - 1);
        let gap = if all > WIDTH { 1 } else { GAP };
        let others: usize = widths[1..].iter().map(|width| width + gap).sum();
        widths[0] = widths[0].min(WIDTH.saturating_sub(others).max(4));
        let header: Vec<String> = self.columns.iter().map(|(title, _)| title.clone()).collect();
        let mut text = format!("{BOLD}{}{BOLD:#}\n", self.line(&header, &widths, gap));
        for row in &self.rows {
            text += &self.row(row, &widths, gap);
        }
        text
    }

    fn widest(&self, column: usize) -> usize {
        let cell = |row: &Row| match row {
            Row::Cells(cells) | Row::Sentence(cells, _) => cells.get(column).map_or(0, |cell| width(cell)),
        };
        self.rows.iter().map(cell).chain([width(&self.columns[column].0)]).max().unwrap_or(0)
    }

    fn row(&self, row: &Row, widths: &[usize], gap: usize) -> String {
        let (Row::Cells(cells) | Row::Sentence(cells, _)) = row;
        let mut cells = cells.clone();
        let mut text = String::new();
        if width(&cells[0]) > widths[0] {
            text += &paragraph(&std::mem::take(&mut cells[0]), 0);
        }
        let start = self.line(&cells, widths, gap);
        match row {
            Row::Cells(_) => text + &start + "\n",
            Row::Sentence(cells, sentence) => {
                let indent: usize = widths.iter().take(cells.len()).map(|width| width + gap).sum();
                text + &hanging(&format!("{start:indent$}"), sentence)
            }
        }
    }

    fn line(&self, cells: &[String], widths: &[usize], gap: usize) -> String {
        let mut line = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let padding = " ".repeat(widths[column].saturating_sub(width(cell)));
            let between = " ".repeat(if column == 0 { 0 } else { gap });
            let [first, second] = match self.columns[column].1 {
                Align::Left => [cell, &padding],
                Align::Right => [&padding, cell],
            };
            line = line + &between + first + second;
        }
        line.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_keeps_to_its_width_even_where_a_word_does_not() {
        let text = paragraph(&format!("{} and {}", "x".repeat(78), "y".repeat(90)), 2);
        assert!(text.lines().all(|line| width(line) <= WIDTH), "{text}");
        assert_eq!(text.lines().count(), 4);
        assert_eq!(paragraph("a  b c", 0), "a b c\n");
        assert_eq!(paragraph("", 0), "\n");
    }

    #[test]
    fn a_command_can_be_pasted_whatever_its_length() {
        let long = format!("run --image {} --log x", "12,".repeat(60));
        let text = command(&long, 4);
        assert!(text.lines().all(|line| width(line) <= WIDTH), "{text}");
        let pasted = shell_words::split(&text).expect("a shell can read it");
        assert_eq!(pasted, shell_words::split(&long).expect("a shell can read it"));
        assert_eq!(command("run x", 4), "    run x\n");
    }

    #[test]
    fn a_long_name_has_a_line_of_its_own() {
        let table = Table {
            columns: vec![("policy".into(), Align::Left), ("median".into(), Align::Right)],
            rows: vec![
                Row::Cells(vec!["never".into(), "0.02 s".into()]),
                Row::Cells(vec!["n".repeat(75), "7.02 s".into()]),
                Row::Sentence(vec!["reflink".into()], "refused: this file system cannot share blocks".into()),
            ],
        };
        let text = anstream::adapter::strip_str(&table.render()).to_string();
        assert!(text.lines().all(|line| width(line) <= WIDTH), "{text}");
        assert!(text.contains(&format!("{}\n", "n".repeat(75))), "{text}");
    }
}
