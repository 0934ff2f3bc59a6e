//! A writer's line to its witness: it comes again when the line breaks and says again what is not known to be kept.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::thread::sleep;
use std::time::Duration;

use super::error::WitnessError;
use super::event::{Event, Reply, Request};
use super::token::Token;
use super::wire::{Channel, PORT, WireError};
use crate::sys::watch::{Deadline, Stop};

/// For one attempt to connect, and for one answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Between attempts to connect.
const PAUSE: Duration = Duration::from_millis(200);

/// Whether to stop waiting, and why.
pub type Stopping<'a> = &'a (dyn Fn() -> Option<Stop> + Sync);

/// Where the witness is, and what it takes to be let in.
#[derive(Clone, Debug)]
pub struct Address {
    host: String,
    addresses: Vec<SocketAddr>,
    token: Token,
    /// How long it may be away.
    patience: Duration,
}

impl Address {
    /// `HOST[:PORT]`, an IPv6 address with a port in brackets.
    pub fn find(host: &str, token: Token, patience: Duration) -> Result<Address, WitnessError> {
        let found =
            host.to_socket_addrs().or_else(|_| (host.trim_matches(['[', ']']), PORT).to_socket_addrs());
        let found = found.map(Iterator::collect::<Vec<SocketAddr>>);
        match found {
            Ok(addresses) => Ok(Address { host: host.to_owned(), addresses, token, patience }),
            Err(source) => Err(WitnessError::NoSuchHost { host: host.to_owned(), source }),
        }
    }

    /// Connects, again and again while the witness is away, as long as there is patience.
    fn connect(&self, patience: Duration, stopping: Stopping<'_>) -> Result<Channel, WitnessError> {
        let deadline = Deadline::after(patience);
        loop {
            let error = match self.connect_once(stopping) {
                Ok(channel) => return Ok(channel),
                Err(error) => error,
            };
            if let Some(stop) = stopping() {
                return Err(WitnessError::Stopped(stop));
            }
            if !error.is_broken() || deadline.reached() {
                return Err(self.problem(error));
            }
            sleep(PAUSE.min(deadline.left()));
        }
    }

    fn connect_once(&self, stopping: Stopping<'_>) -> Result<Channel, WireError> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in &self.addresses {
            match TcpStream::connect_timeout(address, ANSWER_LIMIT) {
                Ok(stream) => return Channel::introduce(stream, &self.token, &|| stopping().is_none()),
                Err(error) => last = error,
            }
        }
        Err(last.into())
    }

    fn problem(&self, error: WireError) -> WitnessError {
        let address = self.host.clone();
        match error {
            WireError::Token => WitnessError::Token { address },
            WireError::Io(source) => WitnessError::Unreachable { address, source },
            WireError::Torn => {
                WitnessError::Unreachable { address, source: io::ErrorKind::UnexpectedEof.into() }
            }
            WireError::Late(_) => {
                WitnessError::Unreachable { address, source: nix::errno::Errno::ETIMEDOUT.into() }
            }
            WireError::TooLong
            | WireError::Seal
            | WireError::Meaningless
            | WireError::Version
            | WireError::Stopped => WitnessError::Protocol { address },
        }
    }

    /// Asks one thing that may be asked twice.
    pub fn ask(&self, request: &Request, stopping: Stopping<'_>) -> Result<Reply, WitnessError> {
        // Whoever asks so has just begun: one who is not there now is told at once.
        let mut channel = self.connect(Duration::ZERO, stopping)?;
        exchange(&mut channel, request, stopping).map_err(|error| self.problem(error))?.refused()
    }

    /// A run's whole ledger, as it lies with the witness.
    pub fn ledger(&self, run: &str, stopping: Stopping<'_>) -> Result<String, WitnessError> {
        let mut channel = self.connect(Duration::ZERO, stopping)?;
        let mut text = String::new();
        loop {
            let request = Request::Read { run: run.to_owned(), from: text.len() as u64 };
            let reply = exchange(&mut channel, &request, stopping);
            match reply.map_err(|error| self.problem(error))?.refused()? {
                Reply::Part { text: part } if part.is_empty() => return Ok(text),
                Reply::Part { text: part } => text += &part,
                _ => return Err(self.problem(WireError::Meaningless)),
            }
        }
    }
}

/// Asks and waits for the answer.
fn exchange(channel: &mut Channel, request: &Request, stopping: Stopping<'_>) -> Result<Reply, WireError> {
    channel.send(request)?;
    channel.receive(ANSWER_LIMIT, &|| stopping().is_none())?.ok_or(WireError::Torn)
}

impl Reply {
    fn refused(self) -> Result<Reply, WitnessError> {
        match self {
            Reply::Refused { why } => Err(WitnessError::Refused { why }),
            reply => Ok(reply),
        }
    }
}

/// The line of one writer.
pub struct Link<'a> {
    address: Address,
    run: String,
    cut: u32,
    writer: u32,
    stopping: Stopping<'a>,
    channel: Option<Channel>,
    /// The number of the next event.
    next: u64,
    /// What is not known to be kept, with its numbers.
    open: VecDeque<(u64, Event)>,
}

impl<'a> Link<'a> {
    /// Not connected yet.
    pub fn new(address: &Address, (run, cut): (&str, u32), writer: u32, stopping: Stopping<'a>) -> Link<'a> {
        let (address, run) = (address.clone(), run.to_owned());
        Link { address, run, cut, writer, stopping, channel: None, next: 1, open: VecDeque::new() }
    }

    /// Says what is about to be done; it may be done when this returns. Its number.
    pub fn announce(&mut self, event: Event) -> Result<u64, WitnessError> {
        let seq = self.tell(event)?;
        self.settle()?;
        Ok(seq)
    }

    /// Waits until all that was said is kept.
    pub fn settle(&mut self) -> Result<(), WitnessError> {
        while !self.open.is_empty() {
            let taken = self.take();
            self.through(taken)?;
        }
        Ok(())
    }

    /// Says what is durable, and does not wait. Its number.
    pub fn tell(&mut self, event: Event) -> Result<u64, WitnessError> {
        let seq = self.next;
        self.next += 1;
        self.open.push_back((seq, event.clone()));
        match &mut self.channel {
            Some(channel) => {
                let sent = channel.send(&Request::Tell { first: seq, events: vec![event] });
                self.through(sent.map_err(Lost::Broken))?;
            }
            None => self.connect()?,
        }
        Ok(seq)
    }

    /// Takes one answer.
    fn take(&mut self) -> Result<(), Lost> {
        let Some(channel) = &mut self.channel else { return Err(Lost::Broken(WireError::Torn)) };
        let stopping = self.stopping;
        let reply: Option<Reply> = channel.receive(ANSWER_LIMIT, &|| stopping().is_none())?;
        match reply.ok_or(WireError::Torn)?.refused().map_err(Lost::Refused)? {
            Reply::Kept { seq } => {
                self.open.retain(|(open, _)| *open > seq);
                Ok(())
            }
            _ => Err(Lost::Broken(WireError::Meaningless)),
        }
    }

    /// A line that broke is made again.
    fn through(&mut self, done: Result<(), Lost>) -> Result<(), WitnessError> {
        match done {
            Ok(()) => Ok(()),
            Err(Lost::Refused(error)) => Err(error),
            Err(Lost::Broken(_)) => match (self.stopping)() {
                Some(stop) => Err(WitnessError::Stopped(stop)),
                None => self.connect(),
            },
        }
    }

    /// Joins, and says again what is not kept.
    fn connect(&mut self) -> Result<(), WitnessError> {
        let deadline = Deadline::after(self.address.patience);
        loop {
            let mut channel = self.address.connect(deadline.left(), self.stopping)?;
            match self.rejoin(&mut channel) {
                Ok(()) => {
                    self.channel = Some(channel);
                    return Ok(());
                }
                Err(Lost::Refused(error)) => return Err(error),
                Err(Lost::Broken(error)) if deadline.reached() => return Err(self.address.problem(error)),
                Err(Lost::Broken(_)) => sleep(PAUSE),
            }
        }
    }

    fn rejoin(&mut self, channel: &mut Channel) -> Result<(), Lost> {
        let request = Request::Join { run: self.run.clone(), cut: self.cut, writer: self.writer };
        let reply = exchange(channel, &request, self.stopping)?;
        let Reply::Kept { seq } = reply.refused().map_err(Lost::Refused)? else {
            return Err(Lost::Broken(WireError::Meaningless));
        };
        self.open.retain(|(open, _)| *open > seq);
        if let Some((first, _)) = self.open.front() {
            let events = self.open.iter().map(|(_, event)| event.clone()).collect();
            channel.send(&Request::Tell { first: *first, events })?;
        }
        Ok(())
    }
}

/// Why a line is of no use any more.
enum Lost {
    /// The witness will keep nothing more.
    Refused(WitnessError),
    /// Another one may do.
    Broken(WireError),
}

impl From<WireError> for Lost {
    fn from(error: WireError) -> Lost {
        Lost::Broken(error)
    }
}
