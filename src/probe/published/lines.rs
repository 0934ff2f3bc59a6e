//! Bytes to lines: encodings, line ends, and what mail, shells and Markdown put around them.

use std::borrow::Cow;

/// A line as it stands in the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    /// Its number, from 1.
    pub number: usize,
    /// Its bytes, without the line end; at most [`LONGEST`].
    pub bytes: &'a [u8],
    /// Whether it was longer than that.
    pub too_long: bool,
}

/// The most bytes looked at in one line; the longest line of any version has about 130.
const LONGEST: usize = 2000;

/// The text in UTF-8, if it begins with the mark of UTF-16 (what PowerShell's `>` writes).
pub(super) fn from_utf16(bytes: &[u8]) -> Cow<'_, [u8]> {
    let unit: fn([u8; 2]) -> u16 = match bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return Cow::Borrowed(bytes),
    };
    let units = bytes[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    let text: String = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    Cow::Owned(text.into_bytes())
}

/// The lines of a text; LF, CR LF and CR end a line.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = Line<'_>> {
    let mut rest = bytes;
    let mut number = 0;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.iter().position(|b| matches!(b, b'\n' | b'\r')).unwrap_or(rest.len());
        let line = &rest[..end];
        let skip = if rest[end..].starts_with(b"\r\n") { 2 } else { 1 };
        rest = rest.get(end + skip..).unwrap_or_default();
        number += 1;
        Some(Line { number, bytes: &line[..line.len().min(LONGEST)], too_long: line.len() > LONGEST })
    })
}

/// The line without quote marks, fences, table bars and escapes; its indentation stays if it is its own.
pub(super) fn clean(bytes: &[u8]) -> String {
    let text = decode(bytes);
    let mut cleaned = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => {
                chars.find(char::is_ascii_alphabetic);
            }
            '\\' | '`' | '\u{feff}' | '\u{200b}' => {}
            '*' if chars.next_if_eq(&'*').is_some() => {}
            '^' if chars.next_if_eq(&'C').is_some() => {}
            '|' | '\t' => cleaned.push(' '),
            c if c.is_control() => {}
            c => cleaned.push(c),
        }
    }
    let unquoted = cleaned.trim_start_matches(|c: char| c == '>' || c.is_whitespace());
    if cleaned.trim_start().starts_with('>') { unquoted.to_owned() } else { cleaned }
}

/// UTF-8, or else one byte a character, so that Latin-1 keeps its blank that does not break.
fn decode(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(bytes.iter().map(|&byte| char::from(byte)).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_end_ends_a_line_and_keeps_the_numbers() {
        let all: Vec<_> = lines(b"a\r\nb\rc\n\nd").map(|line| (line.number, line.bytes)).collect();
        let expected: [(usize, &[u8]); 5] = [(1, b"a"), (2, b"b"), (3, b"c"), (4, b""), (5, b"d")];
        assert_eq!(all, expected);
    }

    #[test]
    fn a_line_is_freed_of_what_others_put_around_it() {
        let cases: [(&[u8], &str); 8] = [
            (b"        fsync  1", "        fsync  1"),
            (b"> >   fsync  1", "fsync  1"),
            (b"| `fsync\\_writethrough` | n/a |", "  fsync_writethrough   n/a  "),
            (b"**fsync** 1^C", "fsync 1"),
            (b" 1 \\* 16kB", " 1 * 16kB"),
            (b"\x1b[1mfsync\x1b[0m 1", "fsync 1"),
            (b"fsync 1\xa0309", "fsync 1\u{a0}309"),
            (b"\xef\xbb\xbf5 seconds", "5 seconds"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(clean(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn utf16_is_read_in_both_byte_orders() {
        assert_eq!(from_utf16(b"\xff\xfea\0b\0").as_ref(), b"ab");
        assert_eq!(from_utf16(b"\xfe\xff\0a\0b\0").as_ref(), b"ab");
    }
}
