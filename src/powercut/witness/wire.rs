//! Frames between a writer and its witness, and how the two come to trust each other.
//!
//! ```text
//! frame = length (32 bits, lowest byte first) body seal
//! seal  = HMAC-SHA-256 of: direction (1 byte) count (64 bits) length body
//! ```
//! The body is JSON. The count is that of the frame in its direction, so that none can be left out, repeated or put in by
//! somebody else. Until both have proved that they know the token the key is a public one, and the seal a mere checksum.
//! What is said is not secret: names of scratch files and what lies under them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use ring::hmac;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::io_reason;
use super::event::FORMAT;
use super::token::Token;
use crate::sys::random::fresh_id;
use crate::sys::watch::Deadline;

/// Where a witness listens unless told otherwise.
pub const PORT: u16 = 7407;
/// The longest body of somebody known.
pub const MOST_BYTES: usize = 1 << 20;
/// The longest body of somebody unknown.
const MOST_UNKNOWN_BYTES: usize = 1 << 10;
/// How long the whole introduction may take.
const INTRODUCTION: Duration = Duration::from_secs(5);
/// How often a wait looks whether it should end.
const TICK: Duration = Duration::from_millis(100);
/// How long the other end may take no bytes.
const WRITE_LIMIT: Duration = Duration::from_secs(30);
const SEAL_BYTES: usize = 32;
const PUBLIC_KEY: &[u8] = b"fsynclab witness";

/// Why a frame did not come or go.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The connection failed.
    #[error("{}", io_reason(.0))]
    Io(#[from] io::Error),
    /// It ended within a frame.
    #[error("its message broke off")]
    Torn,
    /// Longer than any frame can be here.
    #[error("it sent what is no message")]
    TooLong,
    /// Changed under way, or not from who it should be.
    #[error("the seal of its message is wrong")]
    Seal,
    /// Whole, and yet nothing that is said here.
    #[error("its message means nothing")]
    Meaningless,
    /// Not in time.
    #[error("it was silent for {} s", .0.as_secs())]
    Late(Duration),
    /// Nobody waits any longer.
    #[error("the wait was ended")]
    Stopped,
    /// It has proved that it does not know the token.
    #[error("it does not know the token")]
    Token,
    /// Another protocol.
    #[error("it speaks another version")]
    Version,
}

impl WireError {
    /// Is the connection gone, and may another one do better?
    pub fn is_broken(&self) -> bool {
        matches!(self, Self::Io(_) | Self::Torn | Self::Late(_))
    }
}

/// What is said before anything else.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Hello {
    Witness { format: u32, nonce: String },
    Writer { nonce: String, proof: Vec<u8> },
    Proof(Vec<u8>),
    WrongToken,
}

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum End {
    Witness,
    Writer,
}

/// A connection.
#[derive(Debug)]
pub struct Channel {
    stream: TcpStream,
    key: hmac::Key,
    own: End,
    sent: u64,
    received: u64,
}

impl Channel {
    /// The witness's side: greets, and checks who has come. `go_on` ends every wait.
    pub fn welcome(stream: TcpStream, token: &Token, go_on: &dyn Fn() -> bool) -> Result<Channel, WireError> {
        let mut channel = Channel::new(stream, End::Witness)?;
        let own = fresh_id();
        channel.send(&Hello::Witness { format: FORMAT, nonce: own.clone() })?;
        let (nonce, proof) = match channel.frame(MOST_UNKNOWN_BYTES, INTRODUCTION, go_on)? {
            Some(Hello::Writer { nonce, proof }) => (nonce, proof),
            Some(_) => return Err(WireError::Meaningless),
            None => return Err(WireError::Torn),
        };
        if !token.proves("writer", [&own, &nonce], &proof) {
            channel.send(&Hello::WrongToken)?;
            return Err(WireError::Token);
        }
        channel.send(&Hello::Proof(token.proof("witness", [&own, &nonce])))?;
        channel.trust(token, [&own, &nonce]);
        Ok(channel)
    }

    /// The writer's side.
    pub fn introduce(
        stream: TcpStream,
        token: &Token,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Channel, WireError> {
        let mut channel = Channel::new(stream, End::Writer)?;
        let greeting =
            channel.frame(MOST_UNKNOWN_BYTES, INTRODUCTION, go_on).map_err(|error| match error {
                WireError::TooLong | WireError::Seal | WireError::Meaningless => WireError::Version,
                error => error,
            })?;
        let Some(Hello::Witness { format: FORMAT, nonce: theirs }) = greeting else {
            return Err(if greeting.is_none() { WireError::Torn } else { WireError::Version });
        };
        let own = fresh_id();
        let proof = token.proof("writer", [&theirs, &own]);
        channel.send(&Hello::Writer { nonce: own.clone(), proof })?;
        match channel.frame(MOST_UNKNOWN_BYTES, INTRODUCTION, go_on)? {
            Some(Hello::Proof(proof)) if token.proves("witness", [&theirs, &own], &proof) => {}
            None => return Err(WireError::Torn),
            Some(_) => return Err(WireError::Token),
        }
        channel.trust(token, [&theirs, &own]);
        Ok(channel)
    }

    fn new(stream: TcpStream, own: End) -> io::Result<Channel> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TICK))?;
        stream.set_write_timeout(Some(WRITE_LIMIT))?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, PUBLIC_KEY);
        Ok(Channel { stream, key, own, sent: 0, received: 0 })
    }

    fn trust(&mut self, token: &Token, nonces: [&str; 2]) {
        self.key = token.session(nonces);
    }

    /// Sends one frame.
    pub fn send(&mut self, message: &impl Serialize) -> Result<(), WireError> {
        let body = serde_json::to_vec(message).map_err(|_| WireError::Meaningless)?;
        let length = u32::try_from(body.len()).map_err(|_| WireError::TooLong)?.to_le_bytes();
        let seal = self.seal(self.own, self.sent, length, &body).sign();
        let frame = [&length, body.as_slice(), seal.as_ref()].concat();
        self.sent += 1;
        Ok(self.stream.write_all(&frame)?)
    }

    /// The next frame, which is whole within `limit`; nothing where the other end has hung up between two.
    pub fn receive<T: DeserializeOwned>(
        &mut self,
        limit: Duration,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Option<T>, WireError> {
        self.frame(MOST_BYTES, limit, go_on)
    }

    fn frame<T: DeserializeOwned>(
        &mut self,
        most_bytes: usize,
        limit: Duration,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Option<T>, WireError> {
        let wait = Wait { limit, deadline: Deadline::after(limit), go_on };
        let mut length = [0; 4];
        if !self.fill(&mut length, &wait, true)? {
            return Ok(None);
        }
        let bytes = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if bytes > most_bytes {
            return Err(WireError::TooLong);
        }
        let mut rest = vec![0; bytes + SEAL_BYTES];
        self.fill(&mut rest, &wait, false)?;
        let (body, seal) = rest.split_at(bytes);
        let other = if self.own == End::Witness { End::Writer } else { End::Witness };
        let mut sealed = vec![other as u8];
        sealed.extend(self.received.to_le_bytes());
        sealed.extend(length);
        sealed.extend(body);
        hmac::verify(&self.key, &sealed, seal).map_err(|_| WireError::Seal)?;
        self.received += 1;
        serde_json::from_slice(body).map(Some).map_err(|_| WireError::Meaningless)
    }

    fn seal(&self, from: End, count: u64, length: [u8; 4], body: &[u8]) -> hmac::Context {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&[from as u8]);
        context.update(&count.to_le_bytes());
        context.update(&length);
        context.update(body);
        context
    }

    /// Fills all of a buffer; false where the other end hung up before its first byte and may.
    fn fill(&mut self, bytes: &mut [u8], wait: &Wait<'_>, may_end: bool) -> Result<bool, WireError> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.stream.read(&mut bytes[filled..]) {
                Ok(0) if filled == 0 && may_end => return Ok(false),
                Ok(0) => return Err(WireError::Torn),
                Ok(count) => filled += count,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
            if filled < bytes.len() && !(wait.go_on)() {
                return Err(WireError::Stopped);
            }
            if filled < bytes.len() && wait.deadline.reached() {
                return Err(WireError::Late(wait.limit));
            }
        }
        Ok(true)
    }
}

/// How long a frame is waited for.
struct Wait<'a> {
    limit: Duration,
    deadline: Deadline,
    go_on: &'a dyn Fn() -> bool,
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::super::event::{Reply, Request};
    use super::*;

    /// Both ends of a connection between these two tokens.
    fn pair(witness: &str, writer: &str) -> (Result<Channel, WireError>, Result<Channel, WireError>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let writer = Token::new(writer);
        let other = thread::spawn(move || {
            Channel::introduce(TcpStream::connect(address).expect("it listens"), &writer, &|| true)
        });
        let stream = listener.accept().expect("somebody comes").0;
        let welcomed = Channel::welcome(stream, &Token::new(witness), &|| true);
        (welcomed, other.join().expect("no panic"))
    }

    const LIMIT: Duration = Duration::from_millis(300);

    #[test]
    fn two_who_know_the_token_understand_each_other() {
        let (witness, writer) = pair("0123456789abcdef", "0123456789abcdef");
        let (mut witness, mut writer) = (witness.expect("known"), writer.expect("known"));
        for cut in 0..3 {
            let asked = Request::Leave { run: "r".to_owned(), cut };
            writer.send(&asked).expect("sent");
            assert_eq!(witness.receive(LIMIT, &|| true).expect("received"), Some(asked));
            witness.send(&Reply::Kept { seq: 7 }).expect("sent");
            assert_eq!(writer.receive(LIMIT, &|| true).expect("received"), Some(Reply::Kept { seq: 7 }));
        }
        assert!(matches!(witness.receive::<Request>(LIMIT, &|| true), Err(WireError::Late(_))));
        assert!(matches!(witness.receive::<Request>(LIMIT, &|| false), Err(WireError::Stopped)));
        drop(writer);
        assert!(matches!(witness.receive::<Request>(LIMIT, &|| true), Ok(None)));
    }

    #[test]
    fn who_has_another_token_is_told_so_and_not_let_in() {
        let (witness, writer) = pair("0123456789abcdef", "0123456789abcdeg");
        assert!(matches!((witness, writer), (Err(WireError::Token), Err(WireError::Token))));
    }

    #[test]
    fn a_frame_that_was_changed_repeated_or_is_of_the_other_end_is_refused() {
        for spoil in [
            (|frame: &mut Vec<u8>| frame[6] ^= 1) as fn(&mut Vec<u8>),
            |frame| {
                let last = frame.len() - 1;
                frame[last] ^= 1;
            },
            |frame| frame.extend(frame.clone()),
            |frame| frame.truncate(9),
            |frame| frame[..4].copy_from_slice(&u32::MAX.to_le_bytes()),
        ] {
            let (witness, writer) = pair("0123456789abcdef", "0123456789abcdef");
            let (mut witness, mut writer) = (witness.expect("known"), writer.expect("known"));
            let body = br#"{"leave":{"run":"r","cut":1}}"#;
            let length = u32::try_from(body.len()).expect("short").to_le_bytes();
            let seal = writer.seal(End::Writer, 0, length, body).sign();
            let mut frame = [&length[..], body, seal.as_ref()].concat();
            spoil(&mut frame);
            writer.stream.write_all(&frame).expect("sent");
            drop(writer);
            let first = witness.receive::<Request>(LIMIT, &|| true);
            let found = if first.is_ok() { witness.receive::<Request>(LIMIT, &|| true) } else { first };
            assert!(
                matches!(found, Err(WireError::Seal | WireError::Torn | WireError::TooLong)),
                "{found:?}"
            );
        }
    }
}
