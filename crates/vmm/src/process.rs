//! The process behind a guest: who it is, whether it lives, how it ended, how to end it.
//!
//! Invariant: a pid alone means nothing. A [`Process`] is a pidfd opened *before* its start time and boot were
//! compared with the [`ProcessIdentity`], so every later look and signal reaches that process or nobody.
//! It works for our own children (whose exit status the kernel tells) and for adopted ones (whose it does not).

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, prlimit,
    waitid,
};
use serde::{Deserialize, Serialize};
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

use crate::error::ProcessError;
use crate::limits::{GUEST_FILE_BYTES_MAX, KILL_MAX};
use crate::sys;

/// Which process, for ever: pids are reused, the pair of boot and start time is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Process id.
    pub pid: i32,
    /// Clock ticks between boot and its start (`/proc/<pid>/stat`, field 22).
    pub start_ticks: u64,
    /// `/proc/sys/kernel/random/boot_id` of the boot it was started in.
    pub boot_id: String,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
    /// It is gone, and the kernel does not say how: it was not our child, or another handle has collected it.
    Unknown,
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Unknown => f.write_str("exit status unknown"),
        }
    }
}

/// The identity of this boot of the machine.
///
/// # Errors
/// `/proc` is not mounted.
pub fn boot_id() -> Result<String, ProcessError> {
    let path = PathBuf::from("/proc/sys/kernel/random/boot_id");
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(source) => Err(ProcessError::ReadProc { path, source }),
    }
}

/// A living (or just ended) process that we hold a pidfd of.
#[derive(Debug)]
pub(crate) struct Process {
    identity: ProcessIdentity,
    pidfd: AsyncFd<OwnedFd>,
}

impl Process {
    /// The process that has `pid` now, or `None` if there is none. Must be called in a tokio runtime.
    pub(crate) fn open(pid: i32) -> Result<Option<Self>, ProcessError> {
        let Some(raw) = Pid::from_raw(pid) else {
            return Ok(None);
        };
        let pidfd = match pidfd_open(raw, PidfdFlags::NONBLOCK) {
            Ok(fd) => fd,
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            Err(errno) => {
                return Err(ProcessError::PidFd {
                    pid,
                    source: errno.into(),
                });
            }
        };
        let Some(start_ticks) = find_start_ticks(pid)? else {
            return Ok(None);
        };
        let pidfd = sys::poll_descriptor(pidfd).map_err(|source| ProcessError::PidFd { pid, source })?;
        Ok(Some(Self {
            identity: ProcessIdentity {
                pid,
                start_ticks,
                boot_id: boot_id()?,
            },
            pidfd,
        }))
    }

    /// The process with this identity, or `None` if it is certainly gone.
    pub(crate) fn find(identity: &ProcessIdentity) -> Result<Option<Self>, ProcessError> {
        if identity.boot_id != boot_id()? {
            return Ok(None);
        }
        Ok(Self::open(identity.pid)?.filter(|process| process.identity == *identity))
    }

    pub(crate) const fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    /// Waits for its end. Cancelling is harmless; asking again answers again.
    pub(crate) async fn wait(&self) -> ExitStatus {
        // A pidfd becomes readable when the process ends and stays so; the guard is dropped without clearing.
        if let Err(error) = self.pidfd.readable().await {
            tracing::error!(pid = self.identity.pid, %error, "polling a pidfd failed; treating the process as gone");
        }
        self.reap()
    }

    /// The exit status as far as the kernel tells it. Leaves the zombie, so that the answer can be given again:
    /// it is collected when the handle is dropped.
    fn reap(&self) -> ExitStatus {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::PidFd(self.pidfd.get_ref().as_fd()), options) {
            Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => ExitStatus::Code(code),
                (None, Some(signal)) => ExitStatus::Signal(signal),
                (None, None) => ExitStatus::Unknown,
            },
            Ok(None) | Err(_) => ExitStatus::Unknown,
        }
    }

    /// Kills it and waits until it is gone. Already gone is success.
    pub(crate) async fn kill(&self) -> Result<ExitStatus, ProcessError> {
        let pid = self.identity.pid;
        match pidfd_send_signal(self.pidfd.get_ref(), Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(errno) => {
                return Err(ProcessError::Kill {
                    pid,
                    source: errno.into(),
                });
            }
        }
        timeout(KILL_MAX, self.wait())
            .await
            .map_err(|_| ProcessError::Unkillable {
                pid,
                waited: KILL_MAX,
            })
    }

    /// Forbids it to make any file longer than [`GUEST_FILE_BYTES_MAX`], so that a guest that floods its console
    /// cannot fill the disk while nobody trims. To be called when its memory file exists already.
    pub(crate) fn bound_files(&self) -> Result<(), ProcessError> {
        let limit = Rlimit {
            current: Some(GUEST_FILE_BYTES_MAX),
            maximum: Some(GUEST_FILE_BYTES_MAX),
        };
        match prlimit(Pid::from_raw(self.identity.pid), Resource::Fsize, limit) {
            Ok(_) => Ok(()),
            Err(errno) => Err(ProcessError::Limit {
                pid: self.identity.pid,
                source: errno.into(),
            }),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Collects the zombie of a child that has ended; does nothing for a living one or for another's child.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        // Not our child, or still alive: both mean that there is nothing to collect.
        let _nothing_to_collect = waitid(WaitId::PidFd(self.pidfd.get_ref().as_fd()), options);
    }
}

/// Start time of a process, or `None` if it is gone. A zombie still has one: it ended, but as ours.
fn find_start_ticks(pid: i32) -> Result<Option<u64>, ProcessError> {
    let path = PathBuf::from(format!("/proc/{pid}/stat"));
    let stat = match fs::read_to_string(&path) {
        Ok(stat) => stat,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        Err(source) => return Err(ProcessError::ReadProc { path, source }),
    };
    parse_start_ticks(&stat)
        .map(Some)
        .ok_or(ProcessError::ParseProc { path })
}

/// Field 22 of `/proc/<pid>/stat` (proc(5)). The second field is the command in parentheses and may hold anything,
/// so counting starts behind its last parenthesis, at field 3.
fn parse_start_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(22 - 3)?.parse().ok()
}

/// Waits for the end of a process without owning it, at most `bound`.
pub(crate) async fn ended_within(process: &Process, bound: Duration) -> Option<ExitStatus> {
    timeout(bound, process.wait()).await.ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::{ExitStatus, Process, ProcessIdentity, parse_start_ticks};

    #[test]
    fn start_time_is_found_behind_a_hostile_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2 3";
        assert_eq!(parse_start_ticks(stat), Some(987_654));
        assert_eq!(parse_start_ticks("7 (sh"), None);
        assert_eq!(parse_start_ticks("7 (sh) S 1"), None);
    }

    #[tokio::test]
    #[expect(clippy::zombie_processes, reason = "collecting the zombie is what is tested")]
    async fn a_process_is_itself_only() {
        let child = Command::new("sleep")
            .arg("60")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let process = Process::open(child.id().try_into().unwrap())
            .unwrap()
            .expect("it was just started");
        let identity = process.identity().clone();
        assert!(Process::find(&identity).unwrap().is_some());
        let later = ProcessIdentity {
            start_ticks: identity.start_ticks + 1,
            ..identity.clone()
        };
        assert!(
            Process::find(&later).unwrap().is_none(),
            "a reused pid is another process"
        );
        let before = ProcessIdentity {
            boot_id: "another boot".into(),
            ..identity.clone()
        };
        assert!(
            Process::find(&before).unwrap().is_none(),
            "an earlier boot's process is gone"
        );

        assert_eq!(process.kill().await.unwrap(), ExitStatus::Signal(9));
        assert_eq!(
            process.wait().await,
            ExitStatus::Signal(9),
            "asking again answers again"
        );
        drop(process);
        assert!(
            Process::find(&identity).unwrap().is_none(),
            "and nothing is left of it"
        );
    }
}
