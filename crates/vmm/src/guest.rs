//! One guest: starting it, finding it again, steering it. `node` has one owner task per guest that holds the
//! [`Guest`] and asks [`Guest::next_event`] in its loop.
//!
//! The order of a start, and who does it:
//!
//! ```text
//! caller: journal "about to start" ── spawn ──> process locked, executed, CPUs stopped, monitor answers
//! caller: record Guest::identity   ── resume ─> the first instruction
//! ```
//!
//! The lock file is taken before the fork and inherited, so it is held exactly as long as any process of this guest
//! can exist. Hence after a crash between the two lines [`find_unrecorded`] knows for certain whether there is one,
//! and a second QEMU on one directory is impossible. Dropping a [`Guest`] leaves the process alone.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::accelerator::Accelerator;
use crate::command::arguments;
use crate::console::find_tail;
use crate::devices::{disk_parts, iothread_id};
use crate::error::{AdoptError, ProcessError, QmpError, SpawnError};
use crate::event::{GuestEvent, Pending, RunState};
use crate::hypervisor::Hypervisor;
use crate::limits::{
    EXIT_AFTER_BROKEN_STREAM_MAX, PROCESS_LOG_QUOTED_BYTES, QMP_CONNECT_MAX, QMP_RECONNECT_FIRST,
};
use crate::plan::{Disk, GuestFiles, GuestPlan};
use crate::process::{ExitStatus, Process, ProcessIdentity, ended_within};
use crate::qmp::Qmp;
use crate::sys;

/// A guest that we can steer.
#[derive(Debug)]
pub struct Guest {
    process: Process,
    qmp: Qmp,
    events: Arc<Pending>,
}

/// Starts QEMU with its CPUs stopped and waits until its monitor answers. The caller records
/// [`Guest::identity`] and then calls [`Guest::resume`].
///
/// # Errors
/// See [`SpawnError`]; no process is left behind.
pub async fn spawn(
    hypervisor: &Hypervisor,
    accelerator: Accelerator,
    plan: &GuestPlan,
    descriptors: Vec<OwnedFd>,
) -> Result<Guest, SpawnError> {
    let id = &plan.id;
    plan.validate(descriptors.len())
        .map_err(|source| SpawnError::Plan {
            id: id.clone(),
            source,
        })?;
    let lock = take_lock(plan)?;
    prepare_files(&plan.files)?;
    let log = open_log(&plan.files.process_log)?;

    let numbers: Vec<i32> = descriptors.iter().map(|fd| fd.as_raw_fd()).collect();
    let mut kept = numbers.clone();
    kept.push(lock.as_raw_fd());
    let mut command = Command::new(&hypervisor.program);
    command
        .args(arguments(plan, accelerator, &numbers))
        .current_dir("/")
        .env_clear()
        .stdin(Stdio::null());
    let failed = |source| SpawnError::Files {
        path: plan.files.process_log.clone(),
        source,
    };
    command.stdout(log.try_clone().map_err(failed)?).stderr(log);
    sys::detach(&mut command, kept);
    let child = command.spawn().map_err(|source| SpawnError::Execute {
        program: hypervisor.program.clone(),
        source,
    })?;
    // From here the child holds the lock; ours goes with `lock`. The handle is only a number: the pidfd reaps.
    drop((lock, descriptors));

    let broken = |source| SpawnError::Process {
        id: id.clone(),
        source,
    };
    let pid = i32::try_from(child.id()).expect("the kernel's pids fit pid_t");
    // Our own unreaped child keeps its pid, so it cannot be gone or another.
    let process = Process::open(pid)
        .map_err(broken)?
        .expect("an unreaped child exists");
    match finish_start(&process, plan).await {
        Ok((qmp, events)) => Ok(Guest { process, qmp, events }),
        Err(error) => {
            process.kill().await.map_err(broken)?;
            Err(error)
        }
    }
}

async fn finish_start(process: &Process, plan: &GuestPlan) -> Result<(Qmp, Arc<Pending>), SpawnError> {
    let id = &plan.id;
    let events = Arc::new(Pending::default());
    let exited_early = |status| {
        let output = find_tail(&plan.files.process_log, PROCESS_LOG_QUOTED_BYTES).unwrap_or_default();
        let output = String::from_utf8_lossy(&output).trim().to_owned();
        SpawnError::ExitedEarly {
            id: id.clone(),
            status,
            output,
        }
    };
    let connected = tokio::select! {
        status = process.wait() => return Err(exited_early(status)),
        connected = connect_new(&plan.files.qmp_socket, &events) => connected,
    };
    let qmp = match connected {
        Ok((qmp, _)) => qmp,
        // A QEMU that refuses its plan has made its sockets already; the stream breaks a moment before the end.
        Err(source) => match ended_within(process, EXIT_AFTER_BROKEN_STREAM_MAX).await {
            Some(status) => return Err(exited_early(status)),
            None => {
                return Err(SpawnError::Monitor {
                    id: id.clone(),
                    source,
                });
            }
        },
    };
    process.bound_files().map_err(|source| SpawnError::Process {
        id: id.clone(),
        source,
    })?;
    Ok((qmp, events))
}

/// Connects to a monitor whose process may not have made the socket yet.
async fn connect_new(socket: &Path, events: &Arc<Pending>) -> Result<(Qmp, Option<i32>), QmpError> {
    let deadline = Instant::now() + QMP_CONNECT_MAX;
    loop {
        match Qmp::connect(socket, Arc::clone(events)).await {
            Err(QmpError::Connect { .. }) if Instant::now() < deadline => {
                sleep(QMP_RECONNECT_FIRST / 10).await
            }
            other => return other,
        }
    }
}

fn take_lock(plan: &GuestPlan) -> Result<File, SpawnError> {
    let path = &plan.files.lock;
    match try_lock(path) {
        Ok(Some(file)) => Ok(file),
        Ok(None) => Err(SpawnError::AlreadyRunning {
            id: plan.id.clone(),
            lock: path.clone(),
        }),
        Err(source) => Err(SpawnError::Files {
            path: path.clone(),
            source,
        }),
    }
}

/// The lock, or `None` while a process holds it.
fn try_lock(path: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Removes sockets of a process that is certainly gone (we hold the lock) and makes the logs with mode 0600.
fn prepare_files(files: &GuestFiles) -> Result<(), SpawnError> {
    for path in [
        &files.qmp_socket,
        &files.qmp_metrics_socket,
        &files.console.socket,
    ] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(SpawnError::Files {
                    path: path.clone(),
                    source: error,
                });
            }
            _ => {}
        }
    }
    open_log(&files.console.log).map(drop)
}

fn open_log(path: &Path) -> Result<File, SpawnError> {
    let opened = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path);
    opened.map_err(|source| SpawnError::Files {
        path: path.to_owned(),
        source,
    })
}

/// What became of a guest that an earlier agent recorded.
#[derive(Debug)]
pub enum Adoption {
    /// It runs and is ours again; read [`Guest::status`] before anything else.
    Adopted(Guest),
    /// Its process is certainly gone.
    Gone,
    /// The process is the recorded one, but its monitor answers with another identity. Nothing was touched.
    Mismatch {
        /// The UUID it told.
        uuid: String,
    },
    /// The process lives and its monitor does not answer. It is a sick guest, not a dead one.
    Silent {
        /// Why it counts as silent.
        source: QmpError,
    },
}

/// Finds a recorded guest again: by pidfd, start time and boot, then by the UUID its monitor tells. Never by name.
///
/// # Errors
/// The kernel did not answer; the guest's fate is unknown.
pub async fn adopt(
    files: &GuestFiles,
    uuid: &str,
    identity: &ProcessIdentity,
) -> Result<Adoption, AdoptError> {
    let Some(process) = Process::find(identity).map_err(AdoptError::Process)? else {
        return Ok(Adoption::Gone);
    };
    let events = Arc::new(Pending::default());
    let connected = tokio::select! {
        _ = process.wait() => return Ok(Adoption::Gone),
        connected = Qmp::connect(&files.qmp_socket, Arc::clone(&events)) => connected,
    };
    let qmp = match connected {
        Ok((qmp, _)) => qmp,
        Err(source) => return Ok(Adoption::Silent { source }),
    };
    identify(Guest { process, qmp, events }, uuid).await
}

async fn identify(guest: Guest, uuid: &str) -> Result<Adoption, AdoptError> {
    match guest.uuid().await {
        Ok(told) if told.eq_ignore_ascii_case(uuid) => {
            guest.process.bound_files().map_err(AdoptError::Process)?;
            Ok(Adoption::Adopted(guest))
        }
        Ok(told) => Ok(Adoption::Mismatch { uuid: told }),
        Err(source) => Ok(Adoption::Silent { source }),
    }
}

/// Finds a guest whose start was journalled but whose identity was not recorded. `Gone` is certain: nobody holds
/// the lock. A guest found like this was never continued by a caller that keeps the order.
///
/// # Errors
/// The lock is held but no process can be identified behind it within the bounds; unknown, ask again.
pub async fn find_unrecorded(files: &GuestFiles, uuid: &str) -> Result<Adoption, AdoptError> {
    let held = |source| AdoptError::Lock {
        path: files.lock.clone(),
        source,
    };
    if !files.lock.exists() || try_lock(&files.lock).map_err(held)?.is_some() {
        return Ok(Adoption::Gone);
    }
    let events = Arc::new(Pending::default());
    let unidentified = |source| AdoptError::Unidentified {
        lock: files.lock.clone(),
        source,
    };
    let connected = connect_new(&files.qmp_socket, &events).await;
    let (qmp, listener) = match connected {
        Ok(connected) => connected,
        // It may have ended while we tried.
        Err(_) if try_lock(&files.lock).map_err(held)?.is_some() => return Ok(Adoption::Gone),
        Err(source) => return Err(unidentified(source)),
    };
    // The kernel told who listens; a process that ended since then cannot have been followed by another on this
    // socket, because the lock would have been free in between.
    let process = match listener {
        Some(pid) => Process::open(pid).map_err(AdoptError::Process)?,
        None => None,
    };
    match process {
        Some(process) => identify(Guest { process, qmp, events }, uuid).await,
        None => Ok(Adoption::Gone),
    }
}

/// Kills a recorded guest's process and waits for its end, whether or not its monitor answers; `None` when it
/// was gone already.
///
/// # Errors
/// The kernel did not answer or the process does not die.
pub async fn kill_recorded(identity: &ProcessIdentity) -> Result<Option<ExitStatus>, ProcessError> {
    match Process::find(identity)? {
        Some(process) => process.kill().await.map(Some),
        None => Ok(None),
    }
}

impl Guest {
    /// What to record before [`Guest::resume`].
    #[must_use]
    pub const fn identity(&self) -> &ProcessIdentity {
        self.process.identity()
    }

    /// The next thing that happens to it. Cancelling loses nothing. Once [`GuestEvent::Exited`] has come, it
    /// comes again for ever.
    pub async fn next_event(&self) -> GuestEvent {
        tokio::select! {
            biased;
            event = self.events.next() => event,
            status = self.process.wait() => GuestEvent::Exited { status },
        }
    }

    /// Lets the CPUs run (`cont`).
    ///
    /// # Errors
    /// See [`QmpError`].
    pub async fn resume(&self) -> Result<(), QmpError> {
        self.command("cont").await
    }

    /// Stops the CPUs (`stop`).
    ///
    /// # Errors
    /// See [`QmpError`].
    pub async fn pause(&self) -> Result<(), QmpError> {
        self.command("stop").await
    }

    /// Presses the power button; whether the guest reacts is its own affair.
    ///
    /// # Errors
    /// See [`QmpError`].
    pub async fn power_down(&self) -> Result<(), QmpError> {
        self.command("system_powerdown").await
    }

    /// Resets the machine in the same process. From [`RunState::Shutdown`] it must be followed by
    /// [`Guest::resume`].
    ///
    /// # Errors
    /// See [`QmpError`].
    pub async fn reset(&self) -> Result<(), QmpError> {
        self.command("system_reset").await
    }

    /// Raises a non-maskable interrupt on all CPUs.
    ///
    /// # Errors
    /// See [`QmpError`].
    pub async fn interrupt(&self) -> Result<(), QmpError> {
        self.command("inject-nmi").await
    }

    /// Ends the process in order; its disks are flushed. Wait for [`GuestEvent::Exited`]. A process that is gone before it
    /// could answer has ended as asked.
    ///
    /// # Errors
    /// See [`QmpError`].
    pub async fn quit(&self) -> Result<(), QmpError> {
        match self.command("quit").await {
            Err(QmpError::ProcessGone) => Ok(()),
            other => other,
        }
    }

    /// What the machine is doing.
    ///
    /// # Errors
    /// See [`QmpError`].
    pub async fn status(&self) -> Result<RunState, QmpError> {
        let answer = self.ask("query-status", Value::Null).await?;
        Ok(RunState::from_monitor(
            answer.get("status").and_then(Value::as_str).unwrap_or_default(),
        ))
    }

    /// The machine's UUID as the monitor tells it.
    ///
    /// # Errors
    /// See [`QmpError`].
    pub async fn uuid(&self) -> Result<String, QmpError> {
        let answer = self.ask("query-uuid", Value::Null).await?;
        Ok(answer
            .get("UUID")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned())
    }

    /// Kills the process and waits for its end. Already gone is success.
    ///
    /// # Errors
    /// The process does not die.
    pub async fn kill(&self) -> Result<ExitStatus, ProcessError> {
        self.process.kill().await
    }

    /// Waits for the end of the process.
    pub async fn exited(&self) -> ExitStatus {
        self.process.wait().await
    }

    /// Waits for the end of the process at most `bound`; `None` when it still lives.
    pub async fn exited_within(&self, bound: Duration) -> Option<ExitStatus> {
        ended_within(&self.process, bound).await
    }

    /// Plugs a disk into a running guest of `vcpus`; it is the same device as one on the command line.
    ///
    /// # Errors
    /// See [`QmpError`]. What was made before a refusal is removed again.
    pub async fn plug_disk(&self, disk: &Disk, vcpus: u32) -> Result<(), QmpError> {
        let parts = disk_parts(disk, vcpus);
        self.ask("object-add", parts.iothread).await?;
        if let Err(error) = self.ask("blockdev-add", parts.block_node).await {
            self.undo(&error, "object-del", json!({"id": iothread_id(&disk.id)}))
                .await;
            return Err(error);
        }
        if let Err(error) = self.ask("device_add", parts.device).await {
            self.undo(&error, "blockdev-del", json!({"node-name": disk.id}))
                .await;
            self.undo(&error, "object-del", json!({"id": iothread_id(&disk.id)}))
                .await;
            return Err(error);
        }
        Ok(())
    }

    /// Asks the guest to let go of a device; [`GuestEvent::DeviceRemoved`] says when it has.
    ///
    /// # Errors
    /// See [`QmpError`].
    pub async fn unplug(&self, device: &str) -> Result<(), QmpError> {
        self.qmp
            .execute("device_del", json!({"id": device}))
            .await
            .map(drop)
    }

    /// Closes the host side of a disk whose device is gone.
    ///
    /// # Errors
    /// See [`QmpError`].
    pub async fn release_disk(&self, disk: &str) -> Result<(), QmpError> {
        self.qmp
            .execute("blockdev-del", json!({"node-name": disk}))
            .await?;
        self.qmp
            .execute("object-del", json!({"id": iothread_id(disk)}))
            .await
            .map(drop)
    }

    /// Takes a part back after a definite refusal; after an unknown outcome nothing is undone.
    async fn undo(&self, cause: &QmpError, name: &'static str, arguments: Value) {
        if !cause.is_refusal() {
            return;
        }
        if let Err(error) = self.ask(name, arguments).await {
            tracing::warn!(%error, command = name, "a refused device left a part behind");
        }
    }

    async fn command(&self, name: &'static str) -> Result<(), QmpError> {
        self.ask(name, Value::Null).await.map(drop)
    }

    /// One command, given up when the process ends.
    async fn ask(&self, name: &'static str, arguments: Value) -> Result<Value, QmpError> {
        tokio::select! {
            biased;
            answer = self.qmp.execute(name, arguments) => answer,
            _ = self.process.wait() => Err(QmpError::ProcessGone),
        }
    }
}
