//! The only unsafe code of this crate, each operation with its argument.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Makes the command's process the leader of a session and process group of its own, so that no terminal, service manager
/// group signal or death of this process ends it.
pub fn own_session(command: &mut Command) -> &mut Command {
    let enter = || rustix::process::setsid().map(drop).map_err(io::Error::from);
    // SAFETY: the closure runs between fork and exec, where only async-signal-safe calls are permitted. It makes one system
    // call, setsid, which is; it allocates nothing and touches no lock.
    unsafe { command.pre_exec(enter) }
}

/// Watches a descriptor for becoming readable. Needs a tokio runtime.
pub fn watch_readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor must stay open and the same while it is watched. An `OwnedFd` is open until it is dropped, the
    // `AsyncFd` owns it until then, and nothing can replace the number inside it.
    let watched = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    Ok(watched?)
}
