//! A write log into any [`Write`].

use std::io::Write;

use super::{Encoder, Entry, Header};
use crate::simdrive::Error;

/// Buffer this much before writing.
const BUFFER_BYTES: usize = 64 << 10;

/// Writes a log; [`Writer::finish`] closes it.
#[derive(Debug)]
pub struct Writer<W> {
    encoder: Encoder,
    buffer: Vec<u8>,
    output: W,
}

impl<W: Write> Writer<W> {
    /// Begins a log.
    pub fn new(output: W, header: &Header) -> Result<Writer<W>, Error> {
        let mut writer =
            Writer { encoder: Encoder::default(), buffer: Vec::with_capacity(BUFFER_BYTES), output };
        writer.encoder.header(header, &mut writer.buffer);
        writer.write_out()?;
        Ok(writer)
    }

    /// Adds an entry. It is in the output when the buffer is full or after [`Writer::flush`].
    pub fn write(&mut self, entry: &Entry) -> Result<(), Error> {
        self.encoder.entry(entry, &mut self.buffer)?;
        if self.buffer.len() < BUFFER_BYTES {
            return Ok(());
        }
        self.write_out()
    }

    /// Hands everything written so far to the output.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.write_out()?;
        self.output.flush().map_err(|source| Error::LogWrite { source })
    }

    /// Ends the log and gives the output back; who wants it durable syncs that.
    pub fn finish(mut self) -> Result<W, Error> {
        self.encoder.end(&mut self.buffer);
        self.flush()?;
        Ok(self.output)
    }

    fn write_out(&mut self) -> Result<(), Error> {
        self.output.write_all(&self.buffer).map_err(|source| Error::LogWrite { source })?;
        self.buffer.clear();
        Ok(())
    }
}
