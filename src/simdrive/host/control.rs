//! What the program and the serving process say to each other, over a socket pair that keeps messages whole.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair};

use super::engine::{Tally, Transport};

/// Longest wait for the other side's answer.
const LIMIT: Duration = Duration::from_secs(10);
/// A message is three numbers and perhaps a text.
const WORDS: usize = 3;
const WORDS_BYTES: usize = WORDS * 8;
/// Longest text of a mark in bytes.
const TEXT_BYTES: usize = 1000;

/// What the program asks of the serving process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The file system is mounted: serve it.
    Serve,
    /// Take the model's time from now on.
    StartLatency(Transport),
    /// Answer everything at once from now on.
    StopLatency,
    /// Put a mark into the write log.
    Mark(String),
    /// Say what was done so far.
    Tell,
    /// Live on when the program ends: SIGTERM then stands for [`Message::StopLatency`].
    StayBehind,
    /// Lose the power: nothing is answered from this moment on, what was recorded so far is in the write log, and the
    /// process kills itself once it has answered this.
    LosePower,
}

impl Message {
    fn parts(&self) -> ([u64; WORDS], &str) {
        match self {
            Message::Serve => ([0, 0, 0], ""),
            Message::StartLatency(transport) => ([1, transport.base_ns, transport.per_mib_ns], ""),
            Message::StopLatency => ([2, 0, 0], ""),
            Message::Mark(text) => ([3, 0, 0], text),
            Message::Tell => ([4, 0, 0], ""),
            Message::StayBehind => ([5, 0, 0], ""),
            Message::LosePower => ([6, 0, 0], ""),
        }
    }

    fn from_parts(words: [u64; WORDS], text: &str) -> Option<Message> {
        Some(match words {
            [0, ..] => Message::Serve,
            [1, base_ns, per_mib_ns] => Message::StartLatency(Transport { base_ns, per_mib_ns }),
            [2, ..] => Message::StopLatency,
            [3, ..] => Message::Mark(text.to_owned()),
            [4, ..] => Message::Tell,
            [5, ..] => Message::StayBehind,
            [6, ..] => Message::LosePower,
            _ => return None,
        })
    }
}

/// The answer to every message: how it went, and the counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Status {
    /// What broke the drive, if it is broken.
    pub broken: Option<Errno>,
    /// What was done so far.
    pub tally: Tally,
}

/// One end of the pair.
#[derive(Debug)]
pub struct Line(OwnedFd);

impl Line {
    /// Both ends: ours and the server's.
    pub fn pair() -> io::Result<(Line, Line)> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
        Ok((Line(ours), Line(theirs)))
    }

    /// The program's side: sends a message and waits for its answer.
    pub fn ask(&self, message: &Message) -> io::Result<Status> {
        let (words, text) = message.parts();
        self.put(words, text)?;
        let timeout = PollTimeout::try_from(LIMIT).unwrap_or(PollTimeout::MAX);
        loop {
            match poll(&mut [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)], timeout) {
                Ok(0) => return Err(Errno::ETIMEDOUT.into()),
                Ok(_) => break,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        let ([errno, answered, late], _) = self.take()?.ok_or(Errno::EPIPE)?;
        let broken = i32::try_from(errno).ok().filter(|number| *number != 0).map(Errno::from_raw);
        Ok(Status { broken, tally: Tally { answered, late } })
    }

    /// The server's side: the next message; `None` when the program is gone. EINTR when a signal came.
    pub fn next(&self) -> io::Result<Option<Message>> {
        let Some((words, text)) = self.take()? else { return Ok(None) };
        Message::from_parts(words, &text).map(Some).ok_or_else(|| Errno::EBADMSG.into())
    }

    /// The server's side: answers the last message.
    pub fn answer(&self, status: Status) -> io::Result<()> {
        let errno = status.broken.map_or(0, |errno| u64::from((errno as i32).unsigned_abs()));
        self.put([errno, status.tally.answered, status.tally.late], "")
    }

    fn put(&self, words: [u64; WORDS], text: &str) -> io::Result<()> {
        if text.len() > TEXT_BYTES {
            return Err(Errno::EMSGSIZE.into());
        }
        let mut bytes = Vec::with_capacity(WORDS_BYTES + text.len());
        for word in words {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(text.as_bytes());
        send(self.0.as_raw_fd(), &bytes, MsgFlags::MSG_NOSIGNAL)?;
        Ok(())
    }

    fn take(&self) -> io::Result<Option<([u64; WORDS], String)>> {
        let mut bytes = [0; WORDS_BYTES + TEXT_BYTES];
        let length = match recv(self.0.as_raw_fd(), &mut bytes, MsgFlags::empty()) {
            Ok(0) | Err(Errno::ECONNRESET) => return Ok(None),
            Ok(length) => length,
            Err(errno) => return Err(errno.into()),
        };
        let mut words = [0; WORDS];
        for (word, place) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(place.try_into().map_err(|_| Errno::EBADMSG)?);
        }
        let text = bytes.get(WORDS_BYTES..length).ok_or(Errno::EBADMSG)?;
        Ok(Some((words, String::from_utf8_lossy(text).into_owned())))
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_arrives_as_it_was_sent() {
        let transport = Transport { base_ns: 30_000, per_mib_ns: 7 };
        let all = [
            Message::Serve,
            Message::StartLatency(transport),
            Message::StopLatency,
            Message::Mark("copy 1".to_owned()),
            Message::Tell,
            Message::StayBehind,
            Message::LosePower,
        ];
        for message in all {
            let (words, text) = message.parts();
            assert_eq!(Message::from_parts(words, text), Some(message.clone()));
        }
        assert_eq!(Message::from_parts([99, 0, 0], ""), None);
    }

    #[test]
    fn the_end_of_the_program_is_seen() {
        let (ours, theirs) = Line::pair().expect("a socket pair");
        drop(ours);
        assert_eq!(theirs.next().expect("an end, not an error"), None);
    }
}
