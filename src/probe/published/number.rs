//! What a printed rate means, whatever the decimal and thousands marks, and never a thousand times too much.
//!
//! `pg_test_fsync` prints a rate with three decimals and a time in whole microseconds. One is the inverse
//! of the other, so two columns decide what one leaves open; one column alone with a comma is refused.

/// Why a figure is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// No number is written like this.
    Malformed,
    /// It can be read in two ways and there is no second column to decide.
    Ambiguous,
    /// The rate and the time are not each other's inverse.
    Disagree,
}

/// Microseconds in a second.
const MICROSECONDS: f64 = 1e6;

/// The rate that `text` stands for, ops/s.
pub(super) fn rate(text: &str, usecs_per_op: Option<u64>) -> Result<f64, Fault> {
    let Some(digits) = Digits::of(text) else { return Err(Fault::Malformed) };
    let readings = [digits.decimal(), digits.whole()];
    let mut readings = readings.into_iter().flatten();
    if let Some(usecs) = usecs_per_op {
        let any = readings.clone().next().is_some();
        return readings.find(|&ops| agree(ops, usecs)).ok_or(if any {
            Fault::Disagree
        } else {
            Fault::Malformed
        });
    }
    match (readings.next(), readings.next()) {
        (None, _) => Err(Fault::Malformed),
        (Some(_), Some(_)) if digits.marks != ['.'] => Err(Fault::Ambiguous),
        (Some(ops), _) => Ok(ops),
    }
}

/// The whole microseconds that `text` stands for.
pub(super) fn usecs(text: &str) -> Option<u64> {
    let digits = Digits::of(text)?;
    digits.whole()?;
    digits.groups.concat().parse().ok()
}

/// Whether a rate of three decimals and a time without any can be of one measurement: rounding, and 1 %.
fn agree(ops_per_sec: f64, usecs_per_op: u64) -> bool {
    let (rounding, slack) = (0.0006, 1.01);
    let least = MICROSECONDS / (ops_per_sec + rounding) / slack - 0.6;
    let most = if ops_per_sec > rounding {
        MICROSECONDS / (ops_per_sec - rounding) * slack + 0.6
    } else {
        f64::INFINITY
    };
    (least..=most).contains(&(usecs_per_op as f64))
}

/// Groups of digits and the marks between them.
struct Digits<'a> {
    groups: Vec<&'a str>,
    marks: Vec<char>,
}

/// Longer figures are nobody's rate.
const MOST_DIGITS: usize = 18;

impl<'a> Digits<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let groups: Vec<&str> = text.split(is_mark).collect();
        let digits = groups.iter().map(|group| group.len()).sum::<usize>();
        let sound = groups.iter().all(|g| !g.is_empty() && g.bytes().all(|b| b.is_ascii_digit()));
        let marks = text.chars().filter(|&c| is_mark(c)).collect();
        (sound && digits <= MOST_DIGITS).then_some(Self { groups, marks })
    }

    /// With the last mark as the decimal mark.
    fn decimal(&self) -> Option<f64> {
        let (&decimal, thousands) = self.marks.split_last()?;
        let (&fraction, whole) = self.groups.split_last()?;
        let sound =
            matches!(decimal, '.' | ',') && !thousands.contains(&decimal) && grouped(whole, thousands);
        if sound { format!("{}.{fraction}", whole.concat()).parse().ok() } else { None }
    }

    /// With all marks between thousands.
    fn whole(&self) -> Option<f64> {
        if grouped(&self.groups, &self.marks) { self.groups.concat().parse().ok() } else { None }
    }
}

fn grouped(groups: &[&str], marks: &[char]) -> bool {
    let alike = marks.windows(2).all(|pair| pair[0] == pair[1]);
    let Some((first, rest)) = groups.split_first() else { return false };
    alike && (rest.is_empty() || (first.len() <= 3 && rest.iter().all(|group| group.len() == 3)))
}

/// Marks that stand within a number somewhere: point, comma, apostrophes, blanks that do not break.
pub(super) fn is_mark(c: char) -> bool {
    matches!(c, '.' | ',' | '\'' | '’' | ' ' | '\u{a0}' | '\u{202f}' | '\u{2009}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_means_what_the_printer_meant() {
        let cases: [(&str, Option<u64>, Result<f64, Fault>); 19] = [
            ("25096,743", Some(40), Ok(25096.743)),
            ("25096,743", None, Ok(25096.743)),
            ("1.309.761,044", Some(1), Ok(1_309_761.044)),
            ("1,309,761.044", None, Ok(1_309_761.044)),
            ("1\u{a0}309\u{a0}761,044", Some(1), Ok(1_309_761.044)),
            ("1,309,761", None, Ok(1_309_761.0)),
            ("0.350", Some(2_860_294), Ok(0.350)),
            ("11.920", None, Ok(11.920)),
            ("105,783", Some(9453), Ok(105.783)),
            ("105,783", Some(9), Ok(105_783.0)),
            ("105,783", None, Err(Fault::Ambiguous)),
            ("7539.149", Some(999), Err(Fault::Disagree)),
            ("1,30,761", None, Err(Fault::Malformed)),
            ("1.309,761.044", None, Err(Fault::Malformed)),
            ("1..5", None, Err(Fault::Malformed)),
            ("", None, Err(Fault::Malformed)),
            ("99999999999999999999", None, Err(Fault::Malformed)),
            ("0.000", Some(5_000_000_000), Ok(0.0)),
            ("12318", Some(81), Ok(12318.0)),
        ];
        for (text, usecs, expected) in cases {
            assert_eq!(rate(text, usecs), expected, "{text} {usecs:?}");
        }
    }

    #[test]
    fn microseconds_are_whole_and_may_be_grouped() {
        for (text, expected) in
            [("11370", Some(11370)), ("2,860,294", Some(2_860_294)), ("9.4", None), ("", None)]
        {
            assert_eq!(usecs(text), expected, "{text}");
        }
    }
}
