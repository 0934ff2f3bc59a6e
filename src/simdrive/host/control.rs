//! What the program and the serving process say to each other, over a socket pair that keeps messages whole.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair};
use std::os::fd::AsRawFd;

use super::engine::{Tally, Transport};

/// Longest wait for the other side's answer.
const LIMIT: Duration = Duration::from_secs(10);
const WORDS: usize = 3;
const BYTES: usize = WORDS * 8;

/// What the program asks of the serving process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// The file system is mounted: serve it.
    Serve,
    /// Take the model's time from now on.
    StartLatency(Transport),
    /// Answer everything at once from now on.
    StopLatency,
    /// Put a mark into the write log.
    Mark(u64),
    /// Say what was done so far.
    Tell,
    /// Live on when the program ends: SIGTERM then stands for [`Message::StopLatency`].
    StayBehind,
}

impl Message {
    fn words(self) -> [u64; WORDS] {
        match self {
            Message::Serve => [0, 0, 0],
            Message::StartLatency(transport) => [1, transport.base_ns, transport.per_mib_ns],
            Message::StopLatency => [2, 0, 0],
            Message::Mark(mark) => [3, mark, 0],
            Message::Tell => [4, 0, 0],
            Message::StayBehind => [5, 0, 0],
        }
    }

    fn from_words(words: [u64; WORDS]) -> Option<Message> {
        Some(match words {
            [0, ..] => Message::Serve,
            [1, base_ns, per_mib_ns] => Message::StartLatency(Transport { base_ns, per_mib_ns }),
            [2, ..] => Message::StopLatency,
            [3, mark, _] => Message::Mark(mark),
            [4, ..] => Message::Tell,
            [5, ..] => Message::StayBehind,
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
    pub fn ask(&self, message: Message) -> io::Result<Status> {
        self.put(message.words())?;
        let timeout = PollTimeout::try_from(LIMIT).unwrap_or(PollTimeout::MAX);
        loop {
            match poll(&mut [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)], timeout) {
                Ok(0) => return Err(Errno::ETIMEDOUT.into()),
                Ok(_) => break,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        let [errno, answered, late] = self.take()?.ok_or(Errno::EPIPE)?;
        let broken = i32::try_from(errno).ok().filter(|number| *number != 0).map(Errno::from_raw);
        Ok(Status { broken, tally: Tally { answered, late } })
    }

    /// The server's side: the next message; `None` when the program is gone. EINTR when a signal came.
    pub fn next(&self) -> io::Result<Option<Message>> {
        let Some(words) = self.take()? else { return Ok(None) };
        Message::from_words(words).map(Some).ok_or_else(|| Errno::EBADMSG.into())
    }

    /// The server's side: answers the last message.
    pub fn answer(&self, status: Status) -> io::Result<()> {
        let errno = status.broken.map_or(0, |errno| u64::from((errno as i32).unsigned_abs()));
        self.put([errno, status.tally.answered, status.tally.late])
    }

    fn put(&self, words: [u64; WORDS]) -> io::Result<()> {
        let mut bytes = [0; BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        send(self.0.as_raw_fd(), &bytes, MsgFlags::MSG_NOSIGNAL)?;
        Ok(())
    }

    fn take(&self) -> io::Result<Option<[u64; WORDS]>> {
        let mut bytes = [0; BYTES];
        match recv(self.0.as_raw_fd(), &mut bytes, MsgFlags::empty()) {
            Ok(0) | Err(Errno::ECONNRESET) => return Ok(None),
            Ok(_) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut words = [0; WORDS];
        for (word, place) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(place.try_into().map_err(|_| Errno::EBADMSG)?);
        }
        Ok(Some(words))
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
            Message::Mark(9),
            Message::Tell,
            Message::StayBehind,
        ];
        for message in all {
            assert_eq!(Message::from_words(message.words()), Some(message));
        }
        assert_eq!(Message::from_words([99, 0, 0]), None);
    }

    #[test]
    fn the_end_of_the_program_is_seen() {
        let (ours, theirs) = Line::pair().expect("a socket pair");
        drop(ours);
        assert_eq!(theirs.next().expect("an end, not an error"), None);
    }
}
