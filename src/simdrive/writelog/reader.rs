//! A write log out of any [`Read`], entry by entry, in memory bounded by the largest entry.

use std::io::Read;

use super::format::{self, Body, CHECKSUM_BYTES, Decoder, Fields, MOST_BODY_BYTES};
use super::{Entry, Header};
use crate::simdrive::Error;

/// Read this much at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// How a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Closed by its writer.
    Closed,
    /// Its writer was stopped: the last whole entry ends at this byte.
    Torn {
        /// Where something else than a whole entry begins.
        at_byte: u64,
    },
}

/// Reads a log.
#[derive(Debug)]
pub struct Reader<R> {
    input: Input<R>,
    decoder: Decoder,
    header: Header,
    /// Where the last whole entry ends.
    whole_bytes: u64,
    /// Nothing more is read.
    ended: bool,
    closed: bool,
}

/// A frame, by its place in the buffer: where its body begins and how long it is.
#[derive(Debug, Clone, Copy)]
enum Frame {
    Whole {
        body: usize,
        length: usize,
    },
    /// The checksum does not fit, or the length cannot be.
    Damaged,
    /// The input ends here, or the padding begins.
    Missing,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    pub fn new(input: R) -> Result<Reader<R>, Error> {
        let mut input = Input { from: input, buffer: Vec::new(), used: 0, at_byte: 0 };
        let start = format::MAGIC.len() + 4;
        if !input.have(start)? || input.buffer[..format::MAGIC.len()] != format::MAGIC {
            return Err(Error::NotALog);
        }
        let known = format::FORMAT;
        let found = input.buffer[format::MAGIC.len()..start]
            .iter()
            .rev()
            .fold(0, |all, byte| all << 8 | u32::from(*byte));
        if found != known {
            return Err(Error::LogFormat { found, known });
        }
        input.skip(start);
        let at_byte = input.at_byte;
        let damaged = Error::LogDamaged { at_byte };
        let Frame::Whole { body, length } = input.frame()? else { return Err(damaged) };
        let header = format::header(&input.buffer[body..body + length]).ok_or(damaged)?;
        let whole_bytes = input.at_byte;
        Ok(Reader { input, decoder: Decoder::default(), header, whole_bytes, ended: false, closed: false })
    }

    /// What the log says about its drive.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How the log ends; as long as [`Reader::next`] returns entries, how it would if that was all.
    #[must_use]
    pub fn ending(&self) -> Ending {
        if self.closed { Ending::Closed } else { Ending::Torn { at_byte: self.whole_bytes } }
    }

    /// The next entry; `None` at the end. Not an iterator, for the entry lives in the reader's buffer.
    ///
    /// Damage in the last entry is taken for the end of a stopped writer, before that it is an error.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend from itself")]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, Error> {
        if self.ended {
            return Ok(None);
        }
        let at_byte = self.whole_bytes;
        let frame = self.input.frame()?;
        let Frame::Whole { body, length } = frame else {
            self.ended = true;
            let torn = matches!(frame, Frame::Missing) || self.input.rest_is_zero()?;
            return if torn { Ok(None) } else { Err(Error::LogDamaged { at_byte }) };
        };
        self.whole_bytes = self.input.at_byte;
        match self.decoder.body(&self.input.buffer[body..body + length]) {
            Some(Body::Entry(entry)) => Ok(Some(entry)),
            Some(Body::End) => {
                (self.ended, self.closed) = (true, true);
                Ok(None)
            }
            None => {
                self.ended = true;
                Err(Error::LogDamaged { at_byte })
            }
        }
    }
}

/// The input, with what was read of it and not used.
#[derive(Debug)]
struct Input<R> {
    from: R,
    buffer: Vec<u8>,
    /// So much of the buffer has been used.
    used: usize,
    /// Where in the input that is.
    at_byte: u64,
}

impl<R: Read> Input<R> {
    /// The next frame, used up if it is whole, or damaged with a length that can be.
    fn frame(&mut self) -> Result<Frame, Error> {
        let Some((length, prefix)) = self.length()? else { return Ok(Frame::Missing) };
        if length > MOST_BODY_BYTES {
            return Ok(Frame::Damaged);
        }
        let Ok(length) = usize::try_from(length) else { return Ok(Frame::Damaged) };
        let whole = prefix + length + CHECKSUM_BYTES;
        if length == 0 || !self.have(whole)? {
            return Ok(Frame::Missing);
        }
        let start = self.used;
        let (summed, checksum) = self.buffer[start..start + whole].split_at(prefix + length);
        let fits = crc32fast::hash(summed).to_le_bytes() == checksum;
        self.skip(whole);
        Ok(if fits { Frame::Whole { body: start + prefix, length } } else { Frame::Damaged })
    }

    /// The length of the next body and how many bytes tell it.
    fn length(&mut self) -> Result<Option<(u64, usize)>, Error> {
        // Most entries are shorter than this, so that this is the only look at the input.
        self.have(32)?;
        let rest = &self.buffer[self.used..];
        let mut fields = Fields(rest);
        Ok(fields.number().map(|length| (length, rest.len() - fields.0.len())))
    }

    /// Reads until so many bytes are unused in the buffer; false if the input ends before.
    fn have(&mut self, bytes: usize) -> Result<bool, Error> {
        if self.buffer.len() - self.used >= bytes {
            return Ok(true);
        }
        self.buffer.drain(..self.used);
        self.used = 0;
        while self.buffer.len() < bytes {
            let filled = self.buffer.len();
            self.buffer.resize(filled.max(bytes) + CHUNK_BYTES, 0);
            let read = self.from.read(&mut self.buffer[filled..]);
            self.buffer.truncate(filled + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Ok(false),
                Ok(_) => (),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => (),
                Err(source) => return Err(Error::LogRead { source }),
            }
        }
        Ok(true)
    }

    fn skip(&mut self, bytes: usize) {
        self.used += bytes;
        self.at_byte += bytes as u64;
    }

    /// Is everything from here on padding, or nothing?
    fn rest_is_zero(&mut self) -> Result<bool, Error> {
        loop {
            let unused = &self.buffer[self.used..];
            if unused.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            self.skip(unused.len());
            if !self.have(1)? {
                return Ok(true);
            }
        }
    }
}
