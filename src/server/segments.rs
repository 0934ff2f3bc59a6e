//! WAL segments. Their names go up, and a server gets each higher one by making a file of zeros or by recycling an old one:
//! so the highest name before and after tells how many it got, and its log how many of them were recycled.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use postgres::error::SqlState;

use super::connect::Session;
use super::error::ServerError;
use super::features::Features;

/// Bytes of WAL that one number of the middle part of a name stands for.
const LOG_BYTES: u64 = 1 << 32;

/// The number of the highest segment there is; nothing before 10 and without the right to look (`pg_monitor`).
pub fn highest(session: &mut Session, features: &Features) -> Result<Option<u64>, ServerError> {
    if features.version_num < 100_000 {
        return Ok(None);
    }
    let sql = "SELECT max(name), pg_catalog.pg_size_bytes(pg_catalog.current_setting('wal_segment_size')) \
               FROM pg_catalog.pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$'";
    match session.rows(sql) {
        Err(error) if error.sql_state() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Ok(None),
        rows => Ok(rows?.first().and_then(|row| number(&row[0], row[1].parse().ok()?))),
    }
}

/// From a name: the timeline, then the number in two parts of eight digits.
fn number(name: &str, segment_bytes: u64) -> Option<u64> {
    let part = |from: usize| u64::from_str_radix(name.get(from..from + 8)?, 16).ok();
    Some(part(8)? * (LOG_BYTES / segment_bytes.max(1)) + part(16)?)
}

/// The length of a server's log.
pub fn log_bytes(log: &Path) -> Result<u64, ServerError> {
    Ok(log.metadata().map_err(ServerError::file("read file", log))?.len())
}

/// Segments that checkpoints have recycled since the log had this length.
pub fn recycled_since(log: &Path, start_bytes: u64) -> Result<u64, ServerError> {
    let at = ServerError::file("read file", log);
    let mut file = File::open(log).map_err(&at)?;
    file.seek(SeekFrom::Start(start_bytes)).map_err(&at)?;
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(&at)?;
    Ok(String::from_utf8_lossy(&text).lines().filter_map(recycled).sum())
}

/// From `checkpoint complete: wrote 3 buffers (0.0%); 0 WAL file(s) added, 0 removed, 1 recycled; write=…`.
fn recycled(line: &str) -> Option<u64> {
    let (_, complete) = line.split_once("checkpoint complete: ")?;
    let (before, _) = complete.split_once(" recycled")?;
    before.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_up_by_one_across_a_log() {
        let number = |name: &str| number(name, 16 << 20).expect(name);
        assert_eq!(number("000000010000000000000001"), 1);
        assert_eq!(number("0000000100000001000000FF") + 1, number("000000010000000200000000"));
        assert_eq!(number("000000020000000000000003"), 3, "of another timeline");
    }

    #[test]
    fn recycled_segments_are_read_from_the_log() {
        let line = "2026-11-30 22:10:11.123 UTC [77] LOG:  checkpoint complete: wrote 903 buffers (5.5%); 0 WAL file(s) \
                    added, 1 removed, 12 recycled; write=0.1 s, sync=0.2 s, total=0.3 s";
        assert_eq!(recycled(line), Some(12));
        assert_eq!(recycled("LOG:  checkpoint starting: immediate force wait"), None);
    }
}
