//! Telling a process from every other one, and holding on to it.
//!
//! A pid alone names nothing: it is used again. Identity is pid, start time in clock ticks and boot id. [`hold`] opens the
//! pidfd first and compares afterwards, so that a pid that changes hands in between cannot be mistaken.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use tokio::io::unix::AsyncFd;

use crate::sys::watch_readable;

/// Names one process for ever.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks since boot (`/proc/<pid>/stat`, field 22).
    pub start_ticks: u64,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
}

impl ProcessIdentity {
    /// Of this process.
    pub fn of_self() -> io::Result<Self> {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let stat = read_stat(pid)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(Self {
            pid,
            start_ticks: stat.start_ticks,
            boot_id: boot_id()?,
        })
    }
}

/// The name of the running boot.
pub fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned())
}

struct Stat {
    state: char,
    start_ticks: u64,
}

/// Parses `/proc/<pid>/stat`; `None` if there is no such process. The command name may hold anything, so fields are counted
/// from its last parenthesis.
fn read_stat(pid: i32) -> io::Result<Option<Stat>> {
    let text = match std::fs::read(format!("/proc/{pid}/stat")) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => return Ok(None),
        Err(error) => return Err(error),
    };
    parse_stat(&text)
        .map(Some)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "process stat has no start time"))
}

fn parse_stat(text: &[u8]) -> Option<Stat> {
    let after_name = text.iter().rposition(|&byte| byte == b')')? + 1;
    let mut fields = std::str::from_utf8(&text[after_name..])
        .ok()?
        .split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // The state is field 3 and the start time field 22, so 18 lie between.
    let start_ticks = fields.nth(18)?.parse().ok()?;
    Some(Stat { state, start_ticks })
}

/// A process that is held: its pidfd cannot come to mean another one.
#[derive(Debug)]
pub struct HeldProcess {
    pidfd: AsyncFd<OwnedFd>,
}

/// Holds the process with this identity; `None` if it is over. Needs a tokio runtime.
pub fn hold(identity: &ProcessIdentity) -> io::Result<Option<HeldProcess>> {
    if identity.boot_id != boot_id()? {
        return Ok(None);
    }
    let Some(pid) = Some(identity.pid).filter(|pid| *pid > 0).and_then(Pid::from_raw) else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the process id is not positive",
        ));
    };
    let pidfd = match pidfd_open(pid, PidfdFlags::NONBLOCK) {
        Ok(pidfd) => pidfd,
        Err(Errno::SRCH) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let Some(stat) = read_stat(identity.pid)? else {
        return Ok(None);
    };
    if stat.start_ticks != identity.start_ticks || matches!(stat.state, 'Z' | 'X') || has_exited(&pidfd)? {
        return Ok(None);
    }
    let pidfd = watch_readable(pidfd)?;
    Ok(Some(HeldProcess { pidfd }))
}

fn has_exited(pidfd: &OwnedFd) -> io::Result<bool> {
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    Ok(poll(
        &mut fds,
        Some(&Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        }),
    )? > 0)
}

impl HeldProcess {
    /// Whether it is over.
    pub fn has_exited(&self) -> io::Result<bool> {
        has_exited(self.pidfd.get_ref())
    }

    /// Returns when it is over.
    pub async fn exited(&self) -> io::Result<()> {
        self.pidfd.readable().await.map(|mut guard| guard.retain_ready())
    }

    /// Sends a signal; `false` if it is over.
    pub fn signal(&self, signal: Signal) -> io::Result<bool> {
        match pidfd_send_signal(self.pidfd.get_ref(), signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ProcessIdentity, hold, parse_stat};

    #[test]
    fn stat_with_hostile_name() {
        let fields: String = (4..=22).map(|n| format!(" {n}")).collect();
        let stat = parse_stat(format!("77 (a) Z (b) R{fields} 23 24\n").as_bytes()).unwrap();
        assert_eq!((stat.state, stat.start_ticks), ('R', 22));
        assert!(parse_stat(b"77 (x) R 1 2").is_none());
        assert!(parse_stat(b"").is_none());
    }

    #[tokio::test]
    async fn holds_only_the_same_process() {
        let this = ProcessIdentity::of_self().unwrap();
        assert!(!hold(&this).unwrap().unwrap().has_exited().unwrap());
        assert!(
            hold(&ProcessIdentity {
                start_ticks: this.start_ticks + 1,
                ..this.clone()
            })
            .unwrap()
            .is_none()
        );
        assert!(
            hold(&ProcessIdentity {
                boot_id: "other".to_owned(),
                ..this.clone()
            })
            .unwrap()
            .is_none()
        );
        assert!(hold(&ProcessIdentity { pid: -1, ..this }).is_err());
    }

    #[tokio::test]
    async fn sees_a_child_end() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let stat = super::read_stat(pid).unwrap().unwrap();
        let identity = ProcessIdentity {
            pid,
            start_ticks: stat.start_ticks,
            boot_id: super::boot_id().unwrap(),
        };
        let held = hold(&identity).unwrap().unwrap();
        assert!(held.signal(rustix::process::Signal::KILL).unwrap());
        held.exited().await.unwrap();
        // Over, though nobody has waited for it yet.
        assert!(hold(&identity).unwrap().is_none());
        child.wait().unwrap();
        assert!(!held.signal(rustix::process::Signal::KILL).unwrap());
    }
}
