//! The only unsafe code of this crate: what must happen between fork and exec of a guest's process, and the
//! registration of a pidfd with tokio. Called by [`crate::guest::spawn`] and [`crate::process`].

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use tokio::io::unix::AsyncFd;

/// Makes the process that `command` starts independent of ours and lets it inherit exactly `kept`: it leads a
/// session of its own (so no terminal or process group reaches it), ignores SIGXFSZ (a write over the file bound
/// fails instead of killing the guest), and keeps those descriptors under their present numbers.
pub(crate) fn detach(command: &mut Command, kept: Vec<RawFd>) {
    let prepare = move || {
        start_session()?;
        ignore_file_size_signal()?;
        kept.iter().try_for_each(|&fd| keep_over_exec(fd))
    };
    // SAFETY: `prepare` runs in the forked child and makes only async-signal-safe system calls; it allocates
    // nothing (the vector was made before the fork) and takes no lock.
    unsafe { command.pre_exec(prepare) };
}

fn start_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

fn ignore_file_size_signal() -> io::Result<()> {
    // SAFETY: SIG_IGN is a valid disposition for SIGXFSZ and installs no handler.
    let before = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    if before == libc::SIG_ERR {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

fn keep_over_exec(fd: RawFd) -> io::Result<()> {
    // SAFETY: F_SETFD takes an integer and touches no memory of ours; a bad descriptor is answered as EBADF.
    let result = unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Lets tokio poll a descriptor that we own.
pub(crate) fn poll_descriptor(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` answers the same open descriptor for its whole life and closes it only when dropped,
    // which is what `register` asks of its argument.
    let registered = unsafe { AsyncFd::register(fd) };
    registered.map_err(Into::into)
}
