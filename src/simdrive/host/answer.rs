//! Answers that are ready and wait for their time.

use fuser::{Errno as FuseErrno, ReplyData, ReplyEmpty, ReplyWrite};
use nix::errno::Errno;

use super::pool::Loan;

/// What goes back to the kernel for one request.
#[derive(Debug)]
pub enum Answer {
    /// A write of so many bytes is done.
    Written(ReplyWrite, u32),
    /// The bytes read.
    Read(ReplyData, Loan, usize),
    /// A flush or a discard is done.
    Done(ReplyEmpty),
}

impl Answer {
    /// Sends it.
    pub fn send(self) {
        match self {
            Answer::Written(reply, length) => reply.written(length),
            Answer::Read(reply, bytes, length) => reply.data(&bytes[..length]),
            Answer::Done(reply) => reply.ok(),
        }
    }

    /// Sends an error in its place.
    pub fn refuse(self, errno: Errno) {
        let errno = FuseErrno::from_i32(errno as i32);
        match self {
            Answer::Written(reply, _) => reply.error(errno),
            Answer::Read(reply, ..) => reply.error(errno),
            Answer::Done(reply) => reply.error(errno),
        }
    }
}
