//! The eighteen lines that `pg_test_fsync` prints, and how a label is known whatever surrounds it.
//!
//! Method names and the labels of the descriptor test are translated by no version; the labels of the
//! size table are (10 to 19), so those are known by their numbers.

use std::fmt;

use crate::probe::verdict::SyncMethod;

/// A block of the output. The same method stands in two of them, so the block is part of a row's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Block {
    /// One 8 kB write, then the sync.
    One8,
    /// Two 8 kB writes, then the sync; the `open_*` methods sync each of the two.
    Two8,
    /// 16 kB in 1 to 16 writes with `O_SYNC`.
    Sizes,
    /// Sync on the descriptor that wrote, and on another.
    Fd,
    /// Writes without any sync.
    Nosync,
}

impl Block {
    /// The key in results and tables.
    pub fn key(self) -> &'static str {
        match self {
            Self::One8 => "one8",
            Self::Two8 => "two8",
            Self::Sizes => "sizes",
            Self::Fd => "fd",
            Self::Nosync => "nosync",
        }
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

/// What a line times within its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// A `wal_sync_method`.
    Sync(SyncMethod),
    /// 16 kB in so many writes: 1, 2, 4, 8 or 16.
    Writes(u32),
    /// Write, fsync, close.
    WriteFsyncClose,
    /// Write, close, then fsync on a new descriptor.
    WriteCloseFsync,
    /// Write alone.
    Write,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sync(method) => method.fmt(f),
            Self::Writes(count) => write!(f, "{count}x{}kB", SIZES_TOTAL_KB / count.max(&1)),
            Self::WriteFsyncClose => f.write_str("write_fsync_close"),
            Self::WriteCloseFsync => f.write_str("write_close_fsync"),
            Self::Write => f.write_str("write"),
        }
    }
}

/// What every line of the size table writes in all, kB, whatever the WAL block size.
const SIZES_TOTAL_KB: u32 = 16;

/// How many lines a whole output has, those with `n/a` included.
pub(super) const LINES: usize = 18;

/// The method a line is about, and what stands after its label.
pub(super) fn label(text: &str) -> Option<(Method, &str)> {
    let text = text.trim_start();
    if let Some(found) = counted_size(text) {
        return Some(found);
    }
    let (first, rest) = word(text);
    if let Some(method) = SyncMethod::from_name(first) {
        return Some((Method::Sync(method), rest));
    }
    if first == "write" {
        return Some((Method::Write, rest));
    }
    if first == "write," {
        let (second, after) = word(rest.trim_start());
        let (third, after) = word(after.trim_start());
        return match (second, third) {
            ("fsync,", "close") => Some((Method::WriteFsyncClose, after)),
            ("close,", "fsync") => Some((Method::WriteCloseFsync, after)),
            _ => None,
        };
    }
    let size_kb: u32 = first.strip_suffix("kB")?.parse().ok()?;
    let follows = rest.trim_start().strip_prefix("open_sync")?;
    writes(SIZES_TOTAL_KB.checked_div(size_kb)?, size_kb).map(|method| (method, follows))
}

/// Whether the labels of this size line name the count of writes (9.2 and later).
pub(super) fn counts_writes(text: &str) -> bool {
    counted_size(text).is_some()
}

fn word(text: &str) -> (&str, &str) {
    text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()))
}

/// `4 *  4kB open_sync writes`, in whatever language and word order; all keep the name of the method.
fn counted_size(text: &str) -> Option<(Method, &str)> {
    if !text.contains("open_sync") {
        return None;
    }
    let (before, after) = text.split_once('*')?;
    let before = before.trim_end();
    let count = &before[before.trim_end_matches(|c: char| c.is_ascii_digit()).len()..];
    let after = after.trim_start_matches(|c: char| !c.is_ascii_digit());
    let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
    let size_kb = &after[..after.len() - rest.len()];
    let method = writes(count.parse().ok()?, size_kb.parse().ok()?)?;
    Some((method, rest))
}

fn writes(count: u32, size_kb: u32) -> Option<Method> {
    let known = count.is_power_of_two() && count.checked_mul(size_kb) == Some(SIZES_TOTAL_KB);
    known.then_some(Method::Writes(count))
}

/// The block that an English heading opens.
pub(super) fn heading(text: &str) -> Option<Block> {
    let text = text.trim().to_lowercase();
    if text.contains("compare file sync methods using one") {
        Some(Block::One8)
    } else if text.contains("compare file sync methods using two") {
        Some(Block::Two8)
    } else if text.contains("compare open_sync with different") {
        Some(Block::Sizes)
    } else if text.contains("non-write file descriptor is") {
        Some(Block::Fd)
    } else if text.starts_with("non-sync") {
        Some(Block::Nosync)
    } else {
        None
    }
}

/// Whether a line can be a heading in another language: they end in a colon, or name the block size.
pub(super) fn may_be_heading(text: &str) -> bool {
    let text = text.trim_end();
    text.ends_with([':', '：']) || text.contains("kB")
}

/// "Not available" in the seventeen translations; most leave `n/a` as it is.
const NOT_AVAILABLE: [&str; 7] =
    ["n/a", "entf.", "н/д", "利用不可", "nd.", "ej tillämpbar", "không khả dụng"];

/// Whether what follows a label says that the method is not available.
///
/// A known word, or by position: any word at the right end of a wide gap.
pub(super) fn not_available(rest: &str) -> bool {
    let gap = rest.len() - rest.trim_start().len();
    let said = rest.trim().to_lowercase();
    let last = said.rsplit("  ").next().unwrap_or_default().trim();
    let known = NOT_AVAILABLE.iter().any(|word| last.starts_with(word));
    !said.is_empty() && (known || gap >= GAP)
}

/// Blanks that no prose has. The longest label and the longest translation leave 18 between them.
const GAP: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_label_is_known() {
        let cases = [
            ("        open_datasync   1", "open_datasync"),
            ("fsync_writethrough n/a", "fsync_writethrough"),
            (" 1 * 16kB open_sync write 3", "1x16kB"),
            ("16 *  1kB open_sync writes 3", "16x1kB"),
            ("4*4kB open_sync 3", "4x4kB"),
            ("запись с open_sync  8 *  2 КБ 3", "8x2kB"),
            (" 2 * 8 Ko, écriture avec open_sync 3", "2x8kB"),
            (" 2 *  escritas de 8kB open_sync 3", "2x8kB"),
            (" 4 *   4kB di scrittura open_sync 3", "4x4kB"),
            ("16kB open_sync write", "1x16kB"),
            (" 1kB open_sync writes", "16x1kB"),
            ("write, fsync, close 3", "write_fsync_close"),
            ("write,  close,  fsync 3", "write_close_fsync"),
            ("write 3", "write"),
        ];
        for (text, key) in cases {
            let (method, _) = label(text).unwrap_or_else(|| panic!("no label in {text}"));
            assert_eq!(method.to_string(), key, "{text}");
        }
        for text in
            ["3 * 16kB open_sync", "4 * 4 3", "0kB open_sync", "99 * 99", "writes 3", "*", "fsyncs", ""]
        {
            assert!(label(text).is_none(), "{text}");
        }
    }

    #[test]
    fn not_available_is_a_known_word_or_stands_at_the_right_end() {
        for text in [
            " n/a",
            "   n/a*",
            " entf.*",
            " н/д",
            " n/a (uygulanamaz)",
            " không khả dụng*",
            "kB open_sync skrivning   ej tillämpbar",
            "                    ej tillg.",
            "kB open_sync x  n/a*",
        ] {
            assert!(not_available(text), "{text}");
        }
        for text in ["", "   ", " works for me", " sizes.)"] {
            assert!(!not_available(text), "{text}");
        }
    }
}
