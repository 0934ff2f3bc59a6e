//! The witness: it takes connections, lets in who knows the token, and keeps what writers tell before it says so. What a
//! stranger sends is dropped and told in one line.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{Scope, scope, sleep};
use std::time::Duration;

use super::book::{Book, Shelf, lock};
use super::error::WitnessError;
use super::event::{Record, Reply, Request};
use super::token::Token;
use super::wire::{Channel, WireError};
use crate::sys::clock::utc_now;
use crate::sys::watch::{Event, Watch};

/// A writer that says nothing for so long has lost its power; one that has not comes again.
const SILENCE: Duration = Duration::from_mins(5);
/// More connections than any writer needs.
const MOST_CONNECTIONS: usize = 128;
/// How often it is looked whether somebody comes.
const TICK: Duration = Duration::from_millis(10);
/// Of a ledger in one answer; with what JSON adds it fits into a frame.
const PART_BYTES: usize = 256 << 10;

/// A witness that listens.
#[derive(Debug)]
pub struct Witness {
    shelf: Shelf,
    token: Token,
    listener: TcpListener,
    connections: AtomicUsize,
}

/// Which writer's connection it is.
struct Joined {
    book: Arc<Mutex<Book>>,
    writer: (u32, u32),
}

impl Witness {
    /// Listens.
    pub fn new(shelf: Shelf, token: Token, address: SocketAddr) -> Result<Witness, WitnessError> {
        let listening = |source| WitnessError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(listening)?;
        listener.set_nonblocking(true).map_err(listening)?;
        Ok(Witness { shelf, token, listener, connections: AtomicUsize::new(0) })
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Serves until the watch says stop; every line that the user should see is an event.
    pub fn serve(&self, watch: &dyn Watch) {
        scope(|scope| {
            while watch.stop().is_none() {
                match self.listener.accept() {
                    Ok((stream, peer)) => self.admit(scope, stream, peer, watch),
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                        sleep(TICK);
                    }
                    Err(error) => {
                        watch.event(Event::Note(&format!("could not take a connection: {error}")));
                        sleep(Duration::from_secs(1));
                    }
                }
            }
        });
    }

    fn admit<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        stream: TcpStream,
        peer: SocketAddr,
        watch: &'scope dyn Watch,
    ) {
        if self.connections.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
            self.connections.fetch_sub(1, Ordering::Relaxed);
            watch.event(Event::Note(&format!("dropped {peer}: too many connections")));
            return;
        }
        scope.spawn(move || {
            self.attend(stream, peer, watch);
            self.connections.fetch_sub(1, Ordering::Relaxed);
        });
    }

    fn attend(&self, stream: TcpStream, peer: SocketAddr, watch: &dyn Watch) {
        let go_on = || watch.stop().is_none();
        match Channel::welcome(stream, &self.token, &go_on) {
            Ok(channel) => match self.converse(channel, peer, watch) {
                Ok(()) | Err(WireError::Stopped) => {}
                Err(error) => watch.event(Event::Note(&format!("{peer} is gone: {error}"))),
            },
            Err(WireError::Stopped) => {}
            Err(error) => watch.event(Event::Note(&format!("dropped {peer}: {error}"))),
        }
    }

    fn converse(&self, channel: Channel, peer: SocketAddr, watch: &dyn Watch) -> Result<(), WireError> {
        let mut channel = channel;
        let go_on = || watch.stop().is_none();
        let mut joined = None;
        while let Some(request) = channel.receive(SILENCE, &go_on)? {
            let reply = self.answer(request, &mut joined, peer, watch).unwrap_or_else(|error| {
                let why = error.to_string();
                watch.event(Event::Note(&format!("refused {peer}: {why}")));
                Some(Reply::Refused { why })
            });
            // One that left something out begins again from what is kept.
            let Some(reply) = reply else { return Err(WireError::Meaningless) };
            channel.send(&reply)?;
        }
        Ok(())
    }

    /// What is answered; nothing to what cannot be.
    fn answer(
        &self,
        request: Request,
        joined: &mut Option<Joined>,
        peer: SocketAddr,
        watch: &dyn Watch,
    ) -> Result<Option<Reply>, WitnessError> {
        Ok(Some(match request {
            Request::Begin { run, session } => {
                let book = match run {
                    Some(run) => self.known(&run)?,
                    None => self.shelf.begin()?,
                };
                let mut book = lock(&book);
                let into = session.into.clone();
                let (cut, run) = (book.begin(session)?, book.run().to_owned());
                watch.event(Event::Note(&format!("run {run}, cut {cut}: {peer} writes in \"{into}\"")));
                Reply::Begun { run, cut }
            }
            Request::Join { run, cut, writer } => {
                let book = self.known(&run)?;
                let Some(seq) = lock(&book).last(cut, writer) else {
                    return Err(WitnessError::Refused { why: format!("run {run} has no cut {cut}") });
                };
                *joined = Some(Joined { book, writer: (cut, writer) });
                Reply::Kept { seq }
            }
            Request::Tell { first, events } => {
                let Some(Joined { book, writer }) = joined else { return Ok(None) };
                match lock(book).tell(*writer, first, events)? {
                    Some(seq) => Reply::Kept { seq },
                    None => return Ok(None),
                }
            }
            Request::Leave { run, cut } => {
                lock(&*self.known(&run)?).append(&[Record::Left { cut, at: utc_now() }])?;
                watch.event(Event::Note(&format!("run {run}: the writer ended by itself, no cut {cut}")));
                Reply::Done
            }
            Request::Find { run: Some(run), .. } => Reply::Found { run: self.shelf.book(&run)?.map(|_| run) },
            Request::Find { run: None, into } => Reply::Found { run: self.shelf.find(&into)? },
            Request::Read { run, from } => {
                Reply::Part { text: lock(&*self.known(&run)?).part(from, PART_BYTES)? }
            }
            Request::Judged { run, cut, judgement } => {
                let words = format!("run {run}, cut {cut} verified by {peer}: {}", judgement.verdict);
                lock(&*self.known(&run)?).append(&[Record::Judged { cut, at: utc_now(), judgement }])?;
                watch.event(Event::Note(&words));
                Reply::Done
            }
        }))
    }

    fn known(&self, run: &str) -> Result<Arc<Mutex<Book>>, WitnessError> {
        let unknown =
            || WitnessError::Refused { why: format!("there is no run \"{}\"", run.escape_default()) };
        self.shelf.book(run)?.ok_or_else(unknown)
    }
}
