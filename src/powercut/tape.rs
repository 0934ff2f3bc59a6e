//! A write log as power cuts need it: what is on the drive when a section begins, then each request and acknowledgement
//! of the section by its position. One section is held at a time.

use std::collections::HashMap;
use std::io::Read;

use super::blocks::Blocks;
use super::error::Error;
use super::ledger::{Ack, NoAck};
use crate::simdrive::model::{Operation, Request};
use crate::simdrive::writelog::{Entry, Header, Reader};

/// Heads the mark that begins a section; its name follows.
pub const BEGIN: &str = "begin ";
/// The mark that ends one.
pub const END: &str = "end";

/// A request of a section.
#[derive(Clone, Debug)]
pub struct Logged {
    /// As it arrived.
    pub request: Request,
    /// What a write writes.
    pub data: Option<Vec<u8>>,
    /// Position of its arrival.
    pub arrived: usize,
    /// When it arrived, in nanoseconds since the drive was made.
    pub arrived_ns: u64,
    /// Position of its completion, if it completed in the section.
    pub completed: Option<usize>,
}

impl Logged {
    /// Does it change what is on the drive?
    pub fn changes(&self) -> bool {
        matches!(self.request.operation, Operation::Write | Operation::Discard)
    }

    /// Where on the drive, as offset and end.
    pub fn range(&self) -> (u64, u64) {
        (self.request.offset_bytes, self.request.offset_bytes + self.request.length_bytes)
    }
}

/// One thing whose cuts are judged: a copy, or a planted fault.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// In order of arrival.
    pub requests: Vec<Logged>,
    /// Acknowledgements with their positions.
    pub acks: Vec<(usize, Ack)>,
    /// Other marks with their positions.
    pub marks: Vec<(usize, String)>,
    /// How many positions it has.
    pub length: usize,
    /// Time of each position, in nanoseconds since the drive was made.
    pub times_ns: Vec<u64>,
}

impl Section {
    /// Position at which the copy was finished.
    pub fn done(&self) -> Option<usize> {
        self.acks.iter().find(|(_, ack)| *ack == Ack::Done).map(|(position, _)| *position)
    }

    /// The same cut without the marks that directly follow: what was acknowledged before the next request arrived counts.
    pub fn settled(&self, cut: usize) -> usize {
        let marks = self.acks.iter().map(|(position, _)| *position).filter(|position| *position >= cut);
        marks.fold(cut, |cut, position| if position == cut { cut + 1 } else { cut })
    }
}

/// Reads a log section by section.
#[derive(Debug)]
pub struct Tape<R> {
    reader: Reader<R>,
    base: Blocks,
}

impl<R: Read> Tape<R> {
    /// Begins to read.
    pub fn new(input: R) -> Result<Tape<R>, Error> {
        Ok(Tape { reader: Reader::new(input)?, base: Blocks::default() })
    }

    /// What the log says about its drive.
    pub fn header(&self) -> &Header {
        self.reader.header()
    }

    /// The next section and what is on the drive when it begins: everything that arrived before, for the file system was
    /// synced then. `None` at the end.
    pub fn next_section(&mut self) -> Result<Option<(Section, Blocks)>, Error> {
        loop {
            match self.reader.next()? {
                None => return Ok(None),
                Some(Entry::Mark { text, .. }) => {
                    if let Some(name) = text.strip_prefix(BEGIN) {
                        let section = Section { name: name.to_owned(), ..Section::default() };
                        return self.section(section).map(Some);
                    }
                }
                Some(Entry::Issued { request, data, .. }) => apply(&mut self.base, &request, data),
                Some(Entry::Completed { .. }) => {}
            }
        }
    }

    fn section(&mut self, section: Section) -> Result<(Section, Blocks), Error> {
        let mut section = section;
        let before = self.base.clone();
        let mut open: HashMap<u64, usize> = HashMap::new();
        while let Some(entry) = self.reader.next()? {
            let position = section.length;
            section.times_ns.push(entry.at_ns());
            section.length += 1;
            match entry {
                Entry::Mark { text, .. } if text == END => {
                    section.length = position;
                    break;
                }
                Entry::Mark { text, .. } => match text.parse() {
                    Ok(ack) => section.acks.push((position, ack)),
                    Err(NoAck) => section.marks.push((position, text.to_owned())),
                },
                Entry::Issued { at_ns, request, data } => {
                    apply(&mut self.base, &request, data);
                    open.insert(request.id, section.requests.len());
                    let data = data.map(<[u8]>::to_vec);
                    let (arrived, arrived_ns) = (position, at_ns);
                    section.requests.push(Logged { request, data, arrived, arrived_ns, completed: None });
                }
                Entry::Completed { id, .. } => {
                    if let Some(number) = open.remove(&id) {
                        section.requests[number].completed = Some(position);
                    }
                }
            }
        }
        Ok((section, before))
    }
}

fn apply(blocks: &mut Blocks, request: &Request, data: Option<&[u8]>) {
    if matches!(request.operation, Operation::Write | Operation::Discard) {
        blocks.write(None, request.offset_bytes, request.length_bytes, data);
    }
}
