//! Standard output as it was given to the program: Rust's runtime opens /dev/null in place of one that was closed.
#![expect(unsafe_code, reason = "a function that runs before the runtime")]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;

static CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: the C library calls what this section lists before main; one system call and one atomic store need nothing
// of the runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: only asks for a descriptor's flags.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    CLOSED.store(flags < 0, Ordering::Relaxed);
}

/// Another descriptor of standard output; EBADF where it was closed.
pub fn stdout() -> io::Result<OwnedFd> {
    if CLOSED.load(Ordering::Relaxed) {
        return Err(Errno::EBADF.into());
    }
    io::stdout().as_fd().try_clone_to_owned()
}
