//! How entries become bytes and bytes entries. Both halves keep the same state, so that an entry needs to say only what
//! has changed: mostly six to twelve bytes with its checksum.

use super::{Entry, Header};
use crate::simdrive::Error;
use crate::simdrive::model::{Operation, Request};

/// The first bytes of every write log.
pub(super) const MAGIC: [u8; 8] = *b"fsynclog";

/// The format that is written, and the only one that is read.
pub(super) const FORMAT: u32 = 1;

/// The most data an entry takes.
pub const MOST_DATA_BYTES: u64 = 16 << 20;

/// The most an entry's body takes: its fields and its data.
pub(super) const MOST_BODY_BYTES: u64 = MOST_DATA_BYTES + 64;

/// Bytes of a checksum.
pub(super) const CHECKSUM_BYTES: usize = 4;

const HEADER: u8 = 0;
const READ: u8 = 1;
const WRITE: u8 = 2;
const WRITE_WITH_DATA: u8 = 3;
const FLUSH: u8 = 4;
const DISCARD: u8 = 5;
const COMPLETED: u8 = 6;
const MARK: u8 = 7;
const END: u8 = 8;

/// What the next entry is told relative to.
#[derive(Debug, Default, Clone, Copy)]
struct State {
    at_ns: u64,
    /// Id of the last request issued.
    id: u64,
    /// The byte behind the last request.
    end_bytes: u64,
}

/// Turns entries into bytes, appending to a buffer of the caller's: for those who write where no allocation and no
/// page cache is allowed. The others use [`super::Writer`].
///
/// Bytes 0 after the last entry are no entry: the tail of a block may be padded with them, and overwritten later.
#[derive(Debug, Default)]
pub struct Encoder {
    state: State,
    entries: u64,
    body: Vec<u8>,
}

impl Encoder {
    /// Appends what stands before the first entry.
    pub fn header(&mut self, header: &Header, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        out.extend(FORMAT.to_le_bytes());
        self.body.clear();
        self.body.push(HEADER);
        put(&mut self.body, header.size_bytes);
        put(&mut self.body, u64::from(header.block_bytes));
        put(&mut self.body, u64::from(header.atomic_unit_bytes));
        put(&mut self.body, u64::from(header.write_back));
        self.body.extend(header.drive.as_bytes());
        frame(&self.body, &[], out);
    }

    /// Appends an entry. A time before the last entry's becomes that.
    pub fn entry(&mut self, entry: &Entry, out: &mut Vec<u8>) -> Result<(), Error> {
        let (kind, data): (u8, &[u8]) = match entry {
            Entry::Issued { request, data, .. } => match (request.operation, data) {
                (Operation::Read, _) => (READ, &[]),
                (Operation::Write, None) => (WRITE, &[]),
                (Operation::Write, Some(data)) => (WRITE_WITH_DATA, data),
                (Operation::Flush, _) => (FLUSH, &[]),
                (Operation::Discard, _) => (DISCARD, &[]),
            },
            Entry::Completed { .. } => (COMPLETED, &[]),
            Entry::Mark { text, .. } => (MARK, text.as_bytes()),
        };
        let length_bytes = data.len() as u64;
        if length_bytes > MOST_DATA_BYTES {
            return Err(Error::LogEntry { length_bytes, most_bytes: MOST_DATA_BYTES });
        }
        self.entries += 1;
        let State { at_ns, id, end_bytes } = self.state;
        self.state.at_ns = entry.at_ns().max(at_ns);
        self.body.clear();
        self.body.push(kind);
        put(&mut self.body, self.state.at_ns - at_ns);
        match entry {
            Entry::Issued { request, .. } => {
                put_difference(&mut self.body, request.id, id.wrapping_add(1));
                self.state.id = request.id;
                if request.operation != Operation::Flush {
                    put_difference(&mut self.body, request.offset_bytes, end_bytes);
                    put(&mut self.body, request.length_bytes);
                    self.state.end_bytes = request.offset_bytes.wrapping_add(request.length_bytes);
                }
            }
            Entry::Completed { id: completed, .. } => put_difference(&mut self.body, *completed, id),
            Entry::Mark { .. } => (),
        }
        frame(&self.body, data, out);
        Ok(())
    }

    /// Appends what stands after the last entry of a log that was closed.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        self.body.clear();
        self.body.push(END);
        put(&mut self.body, self.entries);
        frame(&self.body, &[], out);
    }
}

/// Length, body, data, checksum of all that.
fn frame(body: &[u8], data: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    put(out, (body.len() + data.len()) as u64);
    out.extend_from_slice(body);
    out.extend_from_slice(data);
    let checksum = crc32fast::hash(&out[start..]);
    out.extend(checksum.to_le_bytes());
}

/// Seven bits a byte, the lowest first, the highest bit set on all but the last.
fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(0x80 | value.to_le_bytes()[0]);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// The difference as a signed number, small ones of either sign in few bytes.
fn put_difference(out: &mut Vec<u8>, value: u64, base: u64) {
    let difference = value.wrapping_sub(base);
    put(out, (difference << 1) ^ 0_u64.wrapping_sub(difference >> 63));
}

/// The fields of a body, one after the other. `None`: the body is shorter than its fields, or a field is no number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn difference(&mut self, base: u64) -> Option<u64> {
        let number = self.number()?;
        Some(base.wrapping_add((number >> 1) ^ 0_u64.wrapping_sub(number & 1)))
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

/// A body, read.
#[derive(Debug)]
pub(super) enum Body<'a> {
    Entry(Entry<'a>),
    End,
}

/// Turns bodies into entries.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    state: State,
    entries: u64,
}

impl Decoder {
    /// `None`: these bytes are no body that [`Encoder`] writes.
    pub(super) fn body<'a>(&mut self, body: &'a [u8]) -> Option<Body<'a>> {
        let mut fields = Fields(body);
        let kind = fields.byte()?;
        if kind == END {
            return (fields.number()? == self.entries).then_some(Body::End);
        }
        let at_ns = self.state.at_ns.checked_add(fields.number()?)?;
        let entry = match kind {
            COMPLETED => Entry::Completed { at_ns, id: fields.difference(self.state.id)? },
            MARK => Entry::Mark { at_ns, text: std::str::from_utf8(fields.rest()).ok()? },
            _ => {
                let request = self.request(kind, &mut fields)?;
                let data = (kind == WRITE_WITH_DATA).then(|| fields.rest());
                self.state.id = request.id;
                Entry::Issued { at_ns, request, data }
            }
        };
        self.state.at_ns = at_ns;
        self.entries += 1;
        fields.0.is_empty().then_some(Body::Entry(entry))
    }

    fn request(&mut self, kind: u8, fields: &mut Fields) -> Option<Request> {
        let operation = match kind {
            READ => Operation::Read,
            WRITE | WRITE_WITH_DATA => Operation::Write,
            FLUSH => Operation::Flush,
            DISCARD => Operation::Discard,
            _ => return None,
        };
        let id = fields.difference(self.state.id.wrapping_add(1))?;
        if operation == Operation::Flush {
            return Some(Request { id, operation, offset_bytes: 0, length_bytes: 0 });
        }
        let offset_bytes = fields.difference(self.state.end_bytes)?;
        let length_bytes = fields.number()?;
        self.state.end_bytes = offset_bytes.wrapping_add(length_bytes);
        Some(Request { id, operation, offset_bytes, length_bytes })
    }
}

/// `None`: these bytes are no header.
pub(super) fn header(body: &[u8]) -> Option<Header> {
    let mut fields = Fields(body);
    (fields.byte()? == HEADER).then_some(())?;
    Some(Header {
        size_bytes: fields.number()?,
        block_bytes: u32::try_from(fields.number()?).ok()?,
        atomic_unit_bytes: u32::try_from(fields.number()?).ok()?,
        write_back: fields.number()? != 0,
        drive: String::from_utf8(fields.rest().to_vec()).ok()?,
    })
}
