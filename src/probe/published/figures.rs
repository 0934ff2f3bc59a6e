//! What follows a label: a rate and a time, `n/a`, or nothing. Known by position, for units are translated.

use super::layout::not_available;
use super::number::{self, Fault, is_mark};

/// What stands after a label.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Tail<'a> {
    /// A number or two.
    Figures {
        ops: &'a str,
        usecs: Option<&'a str>,
        /// The line ends in a number, so that more may have followed.
        cut: bool,
    },
    /// `n/a`, `n/a*`, or another word in its place.
    NotAvailable,
    /// Nothing.
    Empty,
    /// Something else: this is no line of the table.
    Prose,
}

impl<'a> Tail<'a> {
    /// Reads what follows a label; `words` says that the label goes on in words (the size table).
    pub(super) fn of(rest: &'a str, words: bool) -> Self {
        let Some((before, ops, after)) = next_number(rest) else {
            return match rest.trim() {
                "" => Self::Empty,
                _ if not_available(rest) => Self::NotAvailable,
                _ if words => Self::Empty,
                _ => Self::Prose,
            };
        };
        if before.trim_end().ends_with('-') || (!words && !before.trim().is_empty()) {
            return Self::Prose;
        }
        match next_number(after) {
            Some((_, usecs, unit)) => Self::Figures { ops, usecs: Some(usecs), cut: unit.trim().is_empty() },
            None => Self::Figures { ops, usecs: None, cut: after.trim().is_empty() },
        }
    }
}

/// The figures of one line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figures {
    pub ops_per_sec: f64,
    pub usecs_per_op: Option<u64>,
    /// The second figure was cut off and is left out.
    pub cut: bool,
}

/// Why there are no figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsound {
    /// The line stops before its unit.
    Cut,
    /// The number is not sound.
    Number(Fault),
}

/// Reads the two columns, each by the light of the other.
pub(super) fn figures(ops: &str, usecs: Option<&str>, cut: bool) -> Result<Figures, Unsound> {
    let Some(usecs_text) = usecs else {
        let ops_per_sec = number::rate(ops, None);
        return if cut {
            Err(Unsound::Cut)
        } else {
            ops_per_sec.map_err(Unsound::Number).map(|ops_per_sec| Figures {
                ops_per_sec,
                usecs_per_op: None,
                cut,
            })
        };
    };
    let usecs_per_op = number::usecs(usecs_text).ok_or(Unsound::Number(Fault::Malformed))?;
    match number::rate(ops, Some(usecs_per_op)) {
        Ok(ops_per_sec) => Ok(Figures { ops_per_sec, usecs_per_op: Some(usecs_per_op), cut: false }),
        Err(Fault::Disagree) if cut => figures(ops, None, false).map(|ops| Figures { cut, ..ops }),
        Err(fault) => Err(Unsound::Number(fault)),
    }
}

/// Whether a line can only be the rest of the one before, wrapped: figures and units, no label.
pub(super) fn continues(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let piece = |word: &str| {
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        let number = digits > 0 && word.chars().all(|c| c.is_ascii_digit() || is_mark(c));
        number || (digits == 0 && word.contains('/'))
    };
    let some = words.clone().next().is_some();
    some && words.clone().count() <= 4 && words.all(piece)
}

/// What stands before the next number, the number, what stands after it.
fn next_number(text: &str) -> Option<(&str, &str, &str)> {
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let (before, from) = text.split_at(start);
    let mut end = 0;
    let mut chars = from.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next_is_digit = chars.peek().is_some_and(|(_, next)| next.is_ascii_digit());
        let goes_on = match c {
            ' ' => next_is_digit && thousand_follows(&from[..at], &from[at + 1..]),
            c if is_mark(c) => next_is_digit || matches!(c, '.' | ','),
            c => c.is_ascii_digit(),
        };
        if !goes_on {
            break;
        }
        end = at + c.len_utf8();
    }
    Some((before, &from[..end], &from[end..]))
}

/// Whether a plain blank groups thousands: whole so far, and exactly three digits follow.
fn thousand_follows(so_far: &str, after: &str) -> bool {
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    digits == 3 && !so_far.contains(['.', ','])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rest: &str) -> Result<Figures, Unsound> {
        let Tail::Figures { ops, usecs, cut } = Tail::of(rest, false) else { panic!("no figures in {rest}") };
        figures(ops, usecs, cut)
    }

    #[test]
    fn figures_are_read_by_position_in_any_language() {
        let whole = |ops_per_sec, usecs_per_op| Ok(Figures { ops_per_sec, usecs_per_op, cut: false });
        let cases = [
            ("  8800.652 ops/sec     114 usecs/op", whole(8800.652, Some(114))),
            ("  21440,871 Op./s      47 µs/Op.", whole(21440.871, Some(47))),
            ("  4410,118 оп/с        227 мкс/оп", whole(4410.118, Some(227))),
            (" 8800.652 操作/秒  114 マイクロ秒/操作", whole(8800.652, Some(114))),
            (" 8800.652 thao tác/giây  114 micro giây/thao tác", whole(8800.652, Some(114))),
            (" 8800,652 operazioni/sec 114 operazioni/sec", whole(8800.652, Some(114))),
            (" 159.689 ops/sec", whole(159.689, None)),
            (" 1 309 761,044 ops/sec 1 usecs/op", whole(1_309_761.044, Some(1))),
            (" 8800.652 ops/sec 114 usecs/op$ ls 7", whole(8800.652, Some(114))),
            (" 0.350 ops/sec  2860294 usecs/op", whole(0.350, Some(2_860_294))),
            (" 5217.622 ops/sec 19", Ok(Figures { ops_per_sec: 5217.622, usecs_per_op: None, cut: true })),
            (" 5217.62", Err(Unsound::Cut)),
            (" 1e6 ops/sec", Err(Unsound::Number(Fault::Disagree))),
            (" 8O00.652 ops/sec 125 usecs/op", Err(Unsound::Number(Fault::Disagree))),
            (" 5217.622. ops/sec 19 usecs/op", Err(Unsound::Number(Fault::Malformed))),
        ];
        for (rest, expected) in cases {
            assert_eq!(read(rest), expected, "{rest}");
        }
        assert_eq!(Tail::of(" is 3 times as fast", false), Tail::Prose);
        assert_eq!(Tail::of("  -3 ops/sec", true), Tail::Prose);
        assert_eq!(Tail::of("   ", false), Tail::Empty);
    }

    #[test]
    fn only_figures_and_units_continue_a_line() {
        for text in ["usecs/op", "475 usecs/op", "  457", "n/a", "2105.117 ops/sec 475 usecs/op", "µs/Op."] {
            assert!(continues(text), "{text}");
        }
        for text in ["", "5 seconds per test", "fsync 3 ops/sec", "^C", "1 * 16kB open_sync write 3"] {
            assert!(!continues(text), "{text}");
        }
    }
}
