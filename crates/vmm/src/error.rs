//! What can go wrong with a guest, by what was attempted. A change's error says whether it was refused (nothing
//! happened) or whether its outcome is unknown; see [`QmpError::is_refusal`].

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::hypervisor::HypervisorError;
use crate::plan::PlanError;
use crate::process::ExitStatus;

/// Talking to a monitor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QmpError {
    /// The socket could not be reached.
    #[error("connecting to the monitor at {path:?}")]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The socket was reached and then failed or closed. A command under way may have been executed.
    #[error("the monitor's stream broke")]
    Stream(#[source] io::Error),
    /// No answer in time. A command may have been executed.
    #[error("the monitor did not answer {what} within {waited:?}")]
    Timeout {
        /// Greeting or command.
        what: &'static str,
        /// How long we waited.
        waited: Duration,
    },
    /// Not the protocol.
    #[error("the monitor sent something that is not QMP")]
    Protocol(#[source] ProtocolError),
    /// QEMU refused the command; nothing was changed.
    #[error("QEMU refused {command}: {class}: {description}")]
    Refused {
        /// The command.
        command: &'static str,
        /// QEMU's error class.
        class: String,
        /// QEMU's words.
        description: String,
    },
    /// Too many commands wait.
    #[error("too many commands are waiting for the monitor")]
    Busy,
    /// The guest's process has ended. A command under way may have been executed.
    #[error("the guest's process has ended")]
    ProcessGone,
    /// The client's task is gone, which happens only at the end of the program.
    #[error("the monitor's task has ended")]
    Ended,
}

impl QmpError {
    /// True when the command certainly had no effect.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Busy | Self::Connect { .. })
    }
}

/// A line that is not QMP.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// Not JSON.
    #[error("a line is not JSON")]
    Json(#[source] serde_json::Error),
    /// Over the bound.
    #[error("a line is longer than {} bytes", crate::limits::QMP_LINE_BYTES_MAX)]
    LineTooLong,
    /// JSON, but not what the protocol allows here.
    #[error("expected {expected}, got {got}")]
    Unexpected {
        /// What should have come.
        expected: &'static str,
        /// What came, shortened.
        got: String,
    },
}

/// Handling the process behind a guest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// `pidfd_open` failed for another reason than "no such process".
    #[error("opening a pidfd of process {pid}")]
    PidFd {
        /// The process.
        pid: i32,
        /// Why.
        source: io::Error,
    },
    /// `/proc` was not readable.
    #[error("reading {path:?}")]
    ReadProc {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// `/proc` had another form than the kernel documents.
    #[error("{path:?} does not have the documented form")]
    ParseProc {
        /// The file.
        path: PathBuf,
    },
    /// The signal could not be sent.
    #[error("killing process {pid}")]
    Kill {
        /// The process.
        pid: i32,
        /// Why.
        source: io::Error,
    },
    /// A killed process did not go away (uninterruptible I/O).
    #[error("process {pid} is still there {waited:?} after SIGKILL")]
    Unkillable {
        /// The process.
        pid: i32,
        /// How long we waited.
        waited: Duration,
    },
    /// The bound on its files could not be set.
    #[error("bounding the files of process {pid}")]
    Limit {
        /// The process.
        pid: i32,
        /// Why.
        source: io::Error,
    },
}

/// Starting a guest. Whatever the variant, no process is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The plan cannot be a guest.
    #[error("the plan of guest {id} is not valid")]
    Plan {
        /// The guest.
        id: String,
        /// What is wrong.
        source: PlanError,
    },
    /// A process of this guest exists; adopt it instead.
    #[error("guest {id} has a process already (lock {lock:?} is held)")]
    AlreadyRunning {
        /// The guest.
        id: String,
        /// The lock.
        lock: PathBuf,
    },
    /// A file of the guest could not be prepared.
    #[error("preparing {path:?}")]
    Files {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The program could not be executed.
    #[error("executing {program:?}")]
    Execute {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// QEMU ended before it could be spoken to; its own words say why.
    #[error("QEMU of guest {id} ended at once ({status}); it said: {output}")]
    ExitedEarly {
        /// The guest.
        id: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of its log.
        output: String,
    },
    /// The monitor did not come up.
    #[error("QEMU of guest {id} started but cannot be spoken to")]
    Monitor {
        /// The guest.
        id: String,
        /// Why.
        source: QmpError,
    },
    /// The process could not be handled.
    #[error("the new process of guest {id} cannot be handled")]
    Process {
        /// The guest.
        id: String,
        /// Why.
        source: ProcessError,
    },
}

/// Looking for a guest that an earlier agent started. Unknown is neither present nor gone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdoptError {
    /// The process could not be examined.
    #[error("examining the recorded process")]
    Process(#[source] ProcessError),
    /// The lock could not be examined.
    #[error("examining the lock {path:?}")]
    Lock {
        /// The lock.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A process exists (the lock is held) that does not answer.
    #[error("a process holds {lock:?} but cannot be spoken to")]
    Unidentified {
        /// The lock.
        lock: PathBuf,
        /// Why.
        source: QmpError,
    },
}

/// Finding out what this machine can run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// There is no usable QEMU.
    #[error(transparent)]
    Hypervisor(#[from] HypervisorError),
    /// The probe's own files could not be written.
    #[error("preparing {path:?} for the accelerator probe")]
    Files {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The boot's identity is not readable.
    #[error("identifying this boot of the machine")]
    Boot(#[source] ProcessError),
}
