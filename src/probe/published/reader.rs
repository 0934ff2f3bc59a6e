//! Lines to sets: which block a line belongs to, where a run begins, what has to be told.
//!
//! Blocks are known by their English headings or, in other languages, by position: the methods come in one
//! order, so a method that is not after the one before opens the next block.

use super::figures::{Figures, Tail, Unsound, continues, figures};
use super::layout::{self, Block, Method};
use super::lines::{Line, clean, from_utf16, lines};
use super::number::Fault;
use super::{Origin, Reading, Row, Set, Unread, UnreadReason};

/// More runs than this in one text are not read.
const MOST_SETS: usize = 10_000;
/// More unread lines than this are only counted.
const MOST_UNREAD: usize = 1000;
/// So many bytes of an unread line are kept.
const KEPT_CHARS: usize = 120;
/// A line is wrapped over at most so many further lines.
const WRAPS: u8 = 3;

/// Reads the output of any number of runs out of a text, whatever else stands in it. Never fails:
/// what cannot be read is named in [`Reading::unread`]. Time grows with the input; memory does not
/// grow beyond 10,000 sets and 1,000 unread lines (UTF-16 is converted first).
pub fn read(bytes: &[u8]) -> Reading {
    let bytes = from_utf16(bytes);
    let mut reader = Reader::default();
    for line in lines(&bytes) {
        reader.take(line);
        if reader.reading.sets.len() >= MOST_SETS {
            reader.reading.stopped_at_line = Some(line.number);
            return reader.reading;
        }
    }
    reader.settle();
    reader.end_run();
    reader.reading
}

/// A labelled line that may go on in the next one.
struct Held {
    line: usize,
    text: String,
    wraps: u8,
}

#[derive(Default)]
struct Reader {
    reading: Reading,
    run: Run,
    held: Option<Held>,
}

/// The run being read.
struct Run {
    origin: Origin,
    rows: Vec<Row>,
    lines: Option<(usize, usize)>,
    block: Option<Block>,
    /// The block was opened by a heading that was understood.
    named: bool,
    /// Something like a heading stood before this line.
    heading_like: bool,
    cut: bool,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            origin: Origin::UNKNOWN,
            rows: Vec::new(),
            lines: None,
            block: None,
            named: false,
            heading_like: false,
            cut: false,
        }
    }
}

impl Run {
    fn reach(&mut self, line: usize) {
        let first = self.lines.map_or(line, |(first, _)| first);
        self.lines = Some((first, line));
    }

    /// Whether the run has this block or a later one: its heading begins another run.
    fn is_past(&self, block: Block) -> bool {
        self.rows.iter().any(|row| row.block >= block)
    }

    fn last_method_of(&self, block: Block) -> Option<Method> {
        self.rows.iter().filter(|row| row.block == block).map(|row| row.method).max()
    }
}

impl Reader {
    fn take(&mut self, line: Line<'_>) {
        let text = clean(line.bytes);
        if text.trim().is_empty() {
            self.settle();
            return;
        }
        if let Some(held) = &mut self.held {
            if held.wraps < WRAPS && continues(&text) {
                held.text.push(' ');
                held.text.push_str(text.trim());
                held.wraps += 1;
                return;
            }
            self.settle();
        }
        if line.too_long {
            if mentions_units(&text) {
                self.cannot_read(line.number, &text, UnreadReason::TooLong);
            }
        } else if !self.takes_header(line.number, &text) {
            self.take_row(line.number, text);
        }
    }

    /// First lines and headings.
    fn takes_header(&mut self, line: usize, text: &str) -> bool {
        let mut first = Origin::UNKNOWN;
        if first.observe_duration(text) {
            if !self.run.rows.is_empty() || self.run.origin.direct_io.is_some() {
                self.end_run();
            }
            self.run.origin.observe_duration(text);
        } else if first.observe_direct_io(text) {
            if !self.run.rows.is_empty() {
                self.end_run();
            }
            self.run.origin.observe_direct_io(text);
        } else if let Some(block) = layout::heading(text) {
            if self.run.is_past(block) {
                self.end_run();
            }
            self.run.block = Some(block);
            self.run.named = true;
            self.run.origin.observe(text);
            self.run.origin.write_kb = self.run.origin.write_kb.or_else(|| kilobytes(text));
        } else {
            self.run.origin.observe(text);
            return false;
        }
        self.run.reach(line);
        true
    }

    fn take_row(&mut self, line: usize, text: String) {
        if text.matches("ops/sec").count() > 1 {
            self.cannot_read(line, &text, UnreadReason::RunTogether);
            return;
        }
        if let Some((method, rest)) = labelled(&text) {
            let tail = Tail::of(rest, matches!(method, Method::Writes(_)));
            let begun = self.run.lines.is_some();
            if matches!(tail, Tail::Figures { .. } | Tail::NotAvailable) || (begun && tail == Tail::Empty) {
                self.held = Some(Held { line, text, wraps: 0 });
                return;
            }
        }
        if gave_up(&text) {
            self.run.cut = true;
            self.cannot_read(line, &text, UnreadReason::GaveUp);
        } else if mentions_units(&text) {
            self.cannot_read(line, &text, UnreadReason::UnknownLabel);
        } else if layout::may_be_heading(&text) {
            self.run.heading_like = true;
        }
    }

    /// Interprets the held line, now that the next one is known not to belong to it.
    fn settle(&mut self) {
        let Some(Held { line, text, .. }) = self.held.take() else { return };
        let Some((method, rest)) = labelled(&text) else { return };
        let block = self.block_of(method);
        self.run.reach(line);
        self.run.origin.observe_columns(&text);
        let mut row = Row { block, method, ops_per_sec: None, usecs_per_op: None, direct_io_refused: false };
        let outcome = match Tail::of(rest, matches!(method, Method::Writes(_))) {
            Tail::Figures { ops, usecs, cut } => figures(ops, usecs, cut).map(Some),
            Tail::NotAvailable => Ok(None),
            Tail::Empty | Tail::Prose => Err(Unsound::Cut),
        };
        let reason = match outcome {
            _ if self.run.rows.iter().any(|row| row.block == block && row.method == method) => {
                Some(UnreadReason::Repeated)
            }
            Ok(Some(Figures { ops_per_sec, usecs_per_op, cut })) => {
                row.ops_per_sec = Some(ops_per_sec);
                row.usecs_per_op = usecs_per_op;
                self.run.rows.push(row);
                cut.then_some(UnreadReason::CutOff)
            }
            Ok(None) => {
                row.direct_io_refused = rest.trim_end().ends_with('*');
                self.run.rows.push(row);
                None
            }
            Err(unsound) => Some(unsound.into()),
        };
        if let Some(reason) = reason {
            self.run.cut |= reason == UnreadReason::CutOff;
            self.cannot_read(line, &text, reason);
        }
    }

    /// The block a line belongs to; begins a new run where the old one cannot hold it.
    fn block_of(&mut self, method: Method) -> Block {
        let heading_like = std::mem::take(&mut self.run.heading_like);
        let block = match method {
            Method::Writes(_) => Block::Sizes,
            Method::WriteFsyncClose | Method::WriteCloseFsync => Block::Fd,
            Method::Write => Block::Nosync,
            Method::Sync(_) => self.block_of_sync(method, heading_like),
        };
        if self.run.block != Some(block) {
            self.run.named = false;
        }
        self.run.block = Some(block);
        block
    }

    fn block_of_sync(&mut self, method: Method, heading_like: bool) -> Block {
        let block = match self.run.block {
            Some(block @ (Block::One8 | Block::Two8)) if self.run.named => return block,
            Some(block @ (Block::One8 | Block::Two8)) => block,
            Some(_) => {
                if !self.run.rows.is_empty() {
                    self.end_run();
                }
                return Block::One8;
            }
            None => return Block::One8,
        };
        match self.run.last_method_of(block) {
            Some(last) if heading_like || method <= last => {
                if block == Block::Two8 {
                    self.end_run();
                    return Block::One8;
                }
                Block::Two8
            }
            _ => block,
        }
    }

    fn cannot_read(&mut self, line: usize, text: &str, reason: UnreadReason) {
        if self.reading.unread.len() >= MOST_UNREAD {
            self.reading.unread_more += 1;
            return;
        }
        let text = text.trim().chars().take(KEPT_CHARS).collect();
        self.reading.unread.push(Unread { line, text, reason });
    }

    fn end_run(&mut self) {
        let mut run = std::mem::take(&mut self.run);
        let Some(lines) = run.lines else { return };
        run.origin.conclude(&run.rows);
        let complete = run.rows.len() == layout::LINES && !run.cut;
        self.reading.sets.push(Set {
            source: String::new(),
            lines,
            origin: run.origin,
            rows: run.rows,
            complete,
        });
    }
}

/// A label, also behind the mark of a list.
fn labelled(text: &str) -> Option<(Method, &str)> {
    layout::label(text).or_else(|| layout::label(text.trim_start().strip_prefix(['-', '*', '•', '#'])?))
}

fn mentions_units(text: &str) -> bool {
    text.contains("ops/sec") || text.contains("usecs/op")
}

fn gave_up(text: &str) -> bool {
    text.trim_start().starts_with("pg_test_fsync: ")
        || ["write failed", "fsync failed", "seek failed", "could not open output file"]
            .iter()
            .any(|failure| text.trim_start().starts_with(failure))
}

/// The number before `kB`.
fn kilobytes(text: &str) -> Option<u32> {
    let (before, _) = text.split_once("kB")?;
    before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

impl From<Unsound> for UnreadReason {
    fn from(unsound: Unsound) -> Self {
        match unsound {
            Unsound::Cut => Self::CutOff,
            Unsound::Number(Fault::Malformed) => Self::Malformed,
            Unsound::Number(Fault::Ambiguous) => Self::Ambiguous,
            Unsound::Number(Fault::Disagree) => Self::ColumnsDisagree,
        }
    }
}
