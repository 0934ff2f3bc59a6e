//! What ext4 sends to a drive, as traced on Linux 6.18 with a 4 GiB file system, `data=ordered`:
//!
//! - fdatasync of an overwrite: the data; a flush.
//! - fsync of an overwrite whose time stamp has changed: the data; the journal's descriptor and one inode block, in one
//!   write of 8 kB; a flush; the commit block behind it, 4 kB; a flush.
//! - fsync of a new file: the data; descriptor and five blocks (inodes, directory, bitmaps), 24 kB; the rest as before.
//! - file data: up to 64 KiB go behind the last file of the directory, what is allocated beyond that behind the last
//!   large file, in the root's part (ext4's stream allocation).
//! - files created and hinted: each file's data at once, without waiting. The first fsync waits for all data, then
//!   writes the metadata of all in one commit; every further fsync only flushes.
//!
//! Each step waits for the one before. Flushes are sent only to a drive that says `write back`, unless mounted
//! `nobarrier`. A file in the root lies 3 % into the file system, the journal at 47 %, the files of a new directory at
//! 53 %. A time stamp changes with the clock tick, every 4 ms (`CONFIG_HZ=250`).

use crate::simdrive::model::{Completion, Drive, Model, Operation, Options, Request};

const BLOCK_BYTES: u64 = 4096;
const TICK_NS: u64 = 4_000_000;
/// The journal of a 4 GiB file system.
const JOURNAL_BYTES: u64 = 64 << 20;
/// The largest write the block layer sends (`max_sectors_kb`).
const WRITE_BYTES: u64 = 1280 << 10;
/// Beyond this a file counts as large (`mb_stream_req`).
const STREAM_FROM_BYTES: u64 = 64 << 10;
/// The hint of PostgreSQL 9.0 comes after so many bytes.
const HINT_BYTES: u64 = 64 << 10;
/// Requests under way when reading or writing in a row.
const STREAM_DEPTH: u64 = 4;

/// A file system over a drive, in invented time.
pub(super) struct Ext4 {
    drive: Drive,
    flushes: bool,
    now_ns: u64,
    next_id: u64,
    under_way: u64,
    completions: Vec<Completion>,
    file_bytes: u64,
    /// Where the next small file of the directory goes.
    directory_bytes: u64,
    /// Where the next part of a large file goes.
    stream_bytes: u64,
    journal_bytes: u64,
    /// How far into the journal.
    journal_used_bytes: u64,
    /// The tick of the last time stamp written.
    stamped_tick: Option<u64>,
}

impl Ext4 {
    pub(super) fn new(model: &Model, options: &Options, barriers: bool) -> Ext4 {
        let part = |percent: u64| options.size_bytes / 100 / BLOCK_BYTES * percent * BLOCK_BYTES;
        Ext4 {
            drive: Drive::new(model, options),
            flushes: barriers && model.write_back(options),
            now_ns: 0,
            next_id: 0,
            under_way: 0,
            completions: Vec::new(),
            file_bytes: part(3),
            directory_bytes: part(53),
            stream_bytes: part(4),
            journal_bytes: part(47),
            journal_used_bytes: 0,
            stamped_tick: None,
        }
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    pub(super) fn overwrite_and_fdatasync(&mut self, offset_bytes: u64, length_bytes: u64) {
        self.request(Operation::Write, self.file_bytes + offset_bytes, length_bytes);
        self.flush();
    }

    pub(super) fn overwrite_and_fsync(&mut self, offset_bytes: u64, length_bytes: u64) {
        let tick = self.now_ns / TICK_NS;
        let stamped = self.stamped_tick.replace(tick) == Some(tick);
        if stamped {
            self.overwrite_and_fdatasync(offset_bytes, length_bytes);
        } else {
            self.request(Operation::Write, self.file_bytes + offset_bytes, length_bytes);
            self.commit(1);
        }
    }

    pub(super) fn create_and_fsync(&mut self, length_bytes: u64) {
        self.create(length_bytes, WRITE_BYTES);
        self.wait();
        self.commit(5);
    }

    pub(super) fn create_all_then_fsync_each(&mut self, lengths_bytes: &[u64]) {
        for &length_bytes in lengths_bytes {
            self.create(length_bytes, HINT_BYTES);
        }
        self.wait();
        let files = lengths_bytes.len() as u64;
        // 16 inodes a block, some 200 names a block, and the bitmaps, the group and the directory's inode.
        self.commit(files.div_ceil(16) + files.div_ceil(200) + 4);
        // The other files, and the directory.
        (0..files).for_each(|_| self.flush());
    }

    /// So many bytes in a row, a few requests at a time; written ones are flushed.
    pub(super) fn stream(&mut self, operation: Operation, bytes: u64) {
        const REQUEST_BYTES: u64 = 1 << 20;
        for offset_bytes in (0..bytes).step_by(1 << 20) {
            self.submit(operation, offset_bytes, REQUEST_BYTES);
            while self.under_way >= STREAM_DEPTH {
                self.wait_for_next();
            }
        }
        self.wait();
        if operation == Operation::Write {
            self.flush();
        }
    }

    /// Sends the data of a new file, allocated and written in parts of `part_bytes`, without waiting.
    fn create(&mut self, length_bytes: u64, part_bytes: u64) {
        let blocks_bytes = length_bytes.next_multiple_of(BLOCK_BYTES);
        let mut sent_bytes = 0;
        while sent_bytes < blocks_bytes {
            let length_bytes = part_bytes.min(blocks_bytes - sent_bytes);
            sent_bytes += length_bytes;
            let place = if sent_bytes > STREAM_FROM_BYTES {
                &mut self.stream_bytes
            } else {
                &mut self.directory_bytes
            };
            let offset_bytes = *place;
            *place += length_bytes;
            self.submit(Operation::Write, offset_bytes, length_bytes);
        }
    }

    fn commit(&mut self, metadata_blocks: u64) {
        self.journal((1 + metadata_blocks) * BLOCK_BYTES);
        self.flush();
        self.journal(BLOCK_BYTES);
        self.flush();
    }

    fn journal(&mut self, length_bytes: u64) {
        if self.journal_used_bytes + length_bytes > JOURNAL_BYTES {
            self.journal_used_bytes = 0;
        }
        self.request(Operation::Write, self.journal_bytes + self.journal_used_bytes, length_bytes);
        self.journal_used_bytes += length_bytes;
    }

    fn flush(&mut self) {
        if self.flushes {
            self.request(Operation::Flush, 0, 0);
        }
    }

    fn request(&mut self, operation: Operation, offset_bytes: u64, length_bytes: u64) {
        self.submit(operation, offset_bytes, length_bytes);
        self.wait();
    }

    fn submit(&mut self, operation: Operation, offset_bytes: u64, length_bytes: u64) {
        let request = Request { id: self.next_id, operation, offset_bytes, length_bytes };
        self.next_id += 1;
        self.under_way += 1;
        self.drive.submit(request, self.now_ns);
    }

    fn wait(&mut self) {
        while self.under_way > 0 {
            self.wait_for_next();
        }
    }

    fn wait_for_next(&mut self) {
        let Some(due_ns) = self.drive.next_due_ns() else { return };
        self.now_ns = self.now_ns.max(due_ns);
        self.drive.advance(self.now_ns, &mut self.completions);
        self.under_way -= self.completions.len() as u64;
        self.completions.clear();
    }
}
