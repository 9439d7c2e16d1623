//! The agent's side of exports: start, find again, stop. Keeps no list of its own: the directories and the processes are
//! the truth, so that an agent that was killed at any point goes on where the last one stopped.
//!
//! Nothing here decides that data is safe to give away: a stopped export is sealed only if the provider's unpublish says so.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use tokio::process::Command;
use tokio::time::{Instant, timeout};

use super::config::{
    ExportConfig, ExportPool, ExportState, ExportStatus, FILE_VERSION, config_file, control_socket,
    exit_code, export_directory, log_file, status_file,
};
use super::control::{ControlError, Question, ask};
use super::process::{HeldProcess, hold};
use crate::durable::{Found, read_json, replace_json};
use crate::id::{Generation, VolumeHandle};
use crate::limits;
use crate::provider::Publication;
use crate::sys::own_session;

/// What a manager needs.
#[derive(Debug, Clone)]
pub struct ExportManagerConfig {
    /// The directory of exports; made (0700) if missing. The pool's publications must name sockets below the same one.
    pub exports: PathBuf,
    /// Program and arguments of an export process, to which the path of its configuration is appended, such as
    /// `["/usr/bin/spx", "volume", "serve", "--config"]`.
    pub launcher: Vec<OsString>,
    /// The pool that the exports open.
    pub pool: ExportPool,
}

/// Why an export is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The launcher has no program.
    #[error("the launcher of exports names no program")]
    EmptyLauncher,
    /// Files or processes could not be handled.
    #[error("export of {handle}: {attempted} failed")]
    Io {
        /// The volume's incarnation.
        handle: VolumeHandle,
        /// What was attempted.
        attempted: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The directory of exports cannot be used.
    #[error("the directory of exports {path} cannot be used")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The publication names another directory of exports than this manager's.
    #[error("the publication's socket {socket} is not in this manager's directory")]
    ForeignSocket {
        /// The socket.
        socket: PathBuf,
    },
    /// The process lives and does not answer. It may still write; nothing may be concluded.
    #[error("the export of {handle} lives and does not answer")]
    Unresponsive {
        /// The volume's incarnation.
        handle: VolumeHandle,
        /// What was met.
        source: ControlError,
    },
    /// An export of a higher generation runs.
    #[error("generation {wanted} of {handle} is over, {current} is served")]
    Fenced {
        /// The volume's incarnation.
        handle: VolumeHandle,
        /// The generation asked for.
        wanted: Generation,
        /// The generation that is served.
        current: Generation,
    },
    /// The process ended before it served.
    #[error("the export of {handle} ended with {ending} before it served; its log ends: {log}")]
    Ended {
        /// The volume's incarnation.
        handle: VolumeHandle,
        /// Exit code or signal.
        ending: String,
        /// Its exit code, see [`exit_code`].
        code: Option<i32>,
        /// The last lines of its log.
        log: String,
    },
    /// The process did not serve in time and was ended.
    #[error("the export of {handle} did not serve within {waited:?}")]
    NotReady {
        /// The volume's incarnation.
        handle: VolumeHandle,
        /// How long was waited.
        waited: Duration,
    },
    /// The export has a process; stop it first.
    #[error("the export of {handle} still runs")]
    StillRunning {
        /// The volume's incarnation.
        handle: VolumeHandle,
    },
    /// A killed process is still in the kernel. It may still write.
    #[error("the export of {handle} was killed and is stuck in the kernel")]
    StuckInKernel {
        /// The volume's incarnation.
        handle: VolumeHandle,
    },
}

/// An export that serves.
#[derive(Debug)]
pub struct RunningExport {
    /// Its own answer.
    pub status: ExportStatus,
    process: HeldProcess,
}

impl RunningExport {
    /// Returns when the process is over. Look at [`ExportManager::find`] for why.
    pub async fn exited(&self) -> io::Result<()> {
        self.process.exited().await
    }
}

/// What was found of an export.
#[derive(Debug)]
pub enum Observed {
    /// It definitely has no process, and left no status.
    Absent,
    /// It definitely has no process; this is its last status.
    Ended(ExportStatus),
    /// It serves (or drains) and answers.
    Running(RunningExport),
    /// Its process lives and does not answer (yet).
    Unresponsive {
        /// Its status file.
        status: ExportStatus,
        /// Why there is no answer.
        why: ControlError,
    },
    /// What is there cannot be read. It may be serving.
    Unreadable(io::Error),
}

/// How an export ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopOutcome {
    /// There was none.
    AlreadyGone,
    /// It drained and wrote its seal receipt.
    Sealed,
    /// It ended without a receipt; unpublish decides what that means.
    Unsealed,
}

/// Starts, finds and stops exports.
#[derive(Debug)]
pub struct ExportManager {
    config: ExportManagerConfig,
    turns: Mutex<HashMap<VolumeHandle, Arc<tokio::sync::Mutex<()>>>>,
}

impl ExportManager {
    /// A manager of the exports in `config.exports`. Starts and changes nothing but making that directory.
    pub fn open(config: ExportManagerConfig) -> Result<Self, ExportError> {
        if config.launcher.is_empty() {
            return Err(ExportError::EmptyLauncher);
        }
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&config.exports)
            .map_err(|source| ExportError::Directory {
                path: config.exports.clone(),
                source,
            })?;
        Ok(Self {
            config,
            turns: Mutex::default(),
        })
    }

    /// One change of one export at a time within this agent.
    async fn turn(&self, handle: VolumeHandle) -> tokio::sync::OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(handle).or_default())
        };
        turn.lock_owned().await
    }

    /// Makes sure that the publication is served: adopts the process that does, else starts one and waits until it serves.
    /// An export of a lower generation is ended first.
    pub async fn ensure(&self, publication: &Publication) -> Result<RunningExport, ExportError> {
        let handle = publication.handle;
        let directory = export_directory(&self.config.exports, handle);
        if publication.export.socket() != super::config::nbd_socket(&directory) {
            return Err(ExportError::ForeignSocket {
                socket: publication.export.socket().to_owned(),
            });
        }
        let _turn = self.turn(handle).await;
        match self.find(handle).await {
            Observed::Absent | Observed::Ended(_) => {}
            Observed::Unreadable(source) => {
                return Err(ExportError::Io {
                    handle,
                    attempted: "reading its status",
                    source,
                });
            }
            Observed::Unresponsive { status, why } => match status.state {
                // A predecessor of this agent may have started it a moment ago.
                ExportState::Opening if status.generation == publication.generation => {
                    return self.await_ready(handle, None, Instant::now()).await;
                }
                _ => return Err(ExportError::Unresponsive { handle, source: why }),
            },
            Observed::Running(running) => {
                let current = running.status.generation;
                if current == publication.generation && running.status.state == ExportState::Serving {
                    return Ok(running);
                }
                if current > publication.generation {
                    return Err(ExportError::Fenced {
                        handle,
                        wanted: publication.generation,
                        current,
                    });
                }
                self.end(handle, &running.process, limits::KILL_WAIT).await?;
            }
        }
        self.spawn(publication, &directory).await
    }

    async fn spawn(&self, publication: &Publication, directory: &Path) -> Result<RunningExport, ExportError> {
        let handle = publication.handle;
        let failed = |attempted| {
            move |source| ExportError::Io {
                handle,
                attempted,
                source,
            }
        };
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(failed("making its directory"))?;
        let config = ExportConfig {
            version: FILE_VERSION,
            volume: publication.volume.clone(),
            handle,
            generation: publication.generation,
            pool: self.config.pool.clone(),
            directory: directory.to_owned(),
        };
        let config_path = config_file(directory);
        replace_json(&config_path, &config, false).map_err(failed("writing its configuration"))?;
        let log = open_log(&log_file(directory)).map_err(failed("opening its log"))?;
        let log_again = log.try_clone().map_err(failed("opening its log"))?;
        let (program, arguments) = self
            .config
            .launcher
            .split_first()
            .ok_or(ExportError::EmptyLauncher)?;
        let mut command = std::process::Command::new(program);
        command
            .args(arguments)
            .arg(&config_path)
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| name == "PATH" || name == "RUST_LOG"))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(log_again);
        own_session(&mut command);
        let started = Instant::now();
        let child = Command::from(command)
            .spawn()
            .map_err(failed("starting its process"))?;
        self.await_ready(handle, Some(child), started).await
    }

    /// Waits until the export serves. With `child` its end is noticed and it is reaped whenever it ends.
    async fn await_ready(
        &self,
        handle: VolumeHandle,
        child: Option<tokio::process::Child>,
        started: Instant,
    ) -> Result<RunningExport, ExportError> {
        let child_pid = child
            .as_ref()
            .and_then(tokio::process::Child::id)
            .and_then(|pid| i32::try_from(pid).ok());
        let (report, mut ended) = tokio::sync::oneshot::channel();
        let watched = child.is_some();
        if let Some(mut child) = child {
            tokio::spawn(async move {
                let status = child.wait().await;
                let _ = report.send(status);
            });
        }
        loop {
            if watched && let Ok(status) = ended.try_recv() {
                // Another process may have been faster: one that this agent's predecessor started.
                if let Observed::Running(running) = self.find(handle).await {
                    return Ok(running);
                }
                let code = status.as_ref().ok().and_then(std::process::ExitStatus::code);
                let ending = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                let log = log_tail(&log_file(&export_directory(&self.config.exports, handle)));
                return Err(ExportError::Ended {
                    handle,
                    ending,
                    code,
                    log,
                });
            }
            match self.find(handle).await {
                Observed::Running(running)
                    if running.status.state == ExportState::Serving
                        && child_pid.is_none_or(|pid| pid == running.status.process.pid) =>
                {
                    return Ok(running);
                }
                Observed::Ended(status) if !watched => {
                    let log = log_tail(&log_file(&export_directory(&self.config.exports, handle)));
                    return Err(ExportError::Ended {
                        handle,
                        ending: format!("{:?}", status.state),
                        code: None,
                        log,
                    });
                }
                _ => {}
            }
            let waited = started.elapsed();
            if waited > limits::EXPORT_READY_WAIT {
                // It keeps its chance: the next ensure adopts it once it serves, or reports it as unresponsive.
                return Err(ExportError::NotReady { handle, waited });
            }
            tokio::time::sleep(limits::EXPORT_READY_POLL).await;
        }
    }

    /// Looks at one export.
    pub async fn find(&self, handle: VolumeHandle) -> Observed {
        let directory = export_directory(&self.config.exports, handle);
        let status: ExportStatus = match read_json(&status_file(&directory), limits::EXPORT_FILE_BYTES_MAX) {
            Found::Present(status) => status,
            Found::Absent => return Observed::Absent,
            Found::Unreadable(error) => return Observed::Unreadable(error),
        };
        if status.version != FILE_VERSION || status.handle != handle {
            let text = format!(
                "{} is of another version or volume",
                status_file(&directory).display()
            );
            return Observed::Unreadable(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let process = match hold(&status.process) {
            Ok(Some(process)) => process,
            Ok(None) => return Observed::Ended(status),
            Err(error) => return Observed::Unreadable(error),
        };
        match ask(&control_socket(&directory), &status.process, Question::Status).await {
            Ok(answer) if answer.process == status.process && answer.handle == handle => {
                Observed::Running(RunningExport {
                    status: answer,
                    process,
                })
            }
            Ok(answer) => {
                let why = ControlError::ForeignPeer(Some(answer.process.pid));
                Observed::Unresponsive { status, why }
            }
            // It may have ended between the two looks.
            Err(_) if process.has_exited().unwrap_or(false) => {
                match read_json(&status_file(&directory), limits::EXPORT_FILE_BYTES_MAX) {
                    Found::Present(last) => Observed::Ended(last),
                    Found::Absent | Found::Unreadable(_) => Observed::Ended(status),
                }
            }
            Err(why) => Observed::Unresponsive { status, why },
        }
    }

    /// Looks at every export directory, also those that no record asks for.
    pub async fn list(&self) -> Result<Vec<(VolumeHandle, Observed)>, ExportError> {
        let path = &self.config.exports;
        let unusable = |source| ExportError::Directory {
            path: path.clone(),
            source,
        };
        let mut found = Vec::new();
        for entry in std::fs::read_dir(path).map_err(unusable)? {
            let name = entry.map_err(unusable)?.file_name();
            let Some(handle) = name.to_str().and_then(|name| name.parse::<VolumeHandle>().ok()) else {
                continue;
            };
            found.push((handle, self.find(handle).await));
        }
        found.sort_by_key(|(handle, _)| *handle);
        Ok(found)
    }

    /// Tells the export that its volume was grown; answers the size it serves now.
    pub async fn refresh_size(&self, running: &RunningExport) -> Result<u64, ExportError> {
        let handle = running.status.handle;
        let socket = control_socket(&export_directory(&self.config.exports, handle));
        ask(&socket, &running.status.process, Question::RefreshSize)
            .await
            .map(|status| status.size_bytes)
            .map_err(|source| ExportError::Unresponsive { handle, source })
    }

    /// Ends the export: SIGTERM, `drain` to finish and seal, then SIGKILL. Already gone is success.
    pub async fn stop(&self, handle: VolumeHandle, drain: Duration) -> Result<StopOutcome, ExportError> {
        let _turn = self.turn(handle).await;
        let identity = match self.find(handle).await {
            Observed::Absent => return Ok(StopOutcome::AlreadyGone),
            Observed::Ended(status) => return Ok(self.outcome(&status)),
            Observed::Unreadable(source) => {
                return Err(ExportError::Io {
                    handle,
                    attempted: "reading its status",
                    source,
                });
            }
            Observed::Running(running) => running.status.process,
            Observed::Unresponsive { status, .. } => status.process,
        };
        let failed = |source| ExportError::Io {
            handle,
            attempted: "holding its process",
            source,
        };
        if let Some(process) = hold(&identity).map_err(failed)? {
            self.end(handle, &process, drain).await?;
        }
        match self.find(handle).await {
            Observed::Ended(status) => Ok(self.outcome(&status)),
            _ => Ok(StopOutcome::Unsealed),
        }
    }

    fn outcome(&self, status: &ExportStatus) -> StopOutcome {
        if status.state == ExportState::Sealed {
            StopOutcome::Sealed
        } else {
            StopOutcome::Unsealed
        }
    }

    async fn end(
        &self,
        handle: VolumeHandle,
        process: &HeldProcess,
        drain: Duration,
    ) -> Result<(), ExportError> {
        let failed = |attempted| {
            move |source| ExportError::Io {
                handle,
                attempted,
                source,
            }
        };
        for (signal, wait) in [(Signal::TERM, drain), (Signal::KILL, limits::KILL_WAIT)] {
            if !process.signal(signal).map_err(failed("signalling its process"))? {
                return Ok(());
            }
            match timeout(wait, process.exited()).await {
                Ok(exited) => return exited.map_err(failed("waiting for its process")),
                Err(_) => tracing::warn!(%handle, ?signal, ?wait, "the export did not end"),
            }
        }
        Err(ExportError::StuckInKernel { handle })
    }

    /// Removes the directory of an export that has no process. Call it after unpublish. Already gone is success.
    pub async fn remove(&self, handle: VolumeHandle) -> Result<(), ExportError> {
        let _turn = self.turn(handle).await;
        match self.find(handle).await {
            Observed::Absent | Observed::Ended(_) => {}
            Observed::Unreadable(source) => {
                return Err(ExportError::Io {
                    handle,
                    attempted: "reading its status",
                    source,
                });
            }
            Observed::Unresponsive { why: source, .. } => {
                return Err(ExportError::Unresponsive { handle, source });
            }
            Observed::Running(_) => return Err(ExportError::StillRunning { handle }),
        }
        match std::fs::remove_dir_all(export_directory(&self.config.exports, handle)) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(ExportError::Io {
                handle,
                attempted: "removing its directory",
                source,
            }),
            _ => Ok(()),
        }
    }
}

impl ExportError {
    /// The process refused because a higher generation owns the volume.
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Fenced { .. })
            || matches!(self, Self::Ended { code: Some(code), .. } if *code == i32::from(exit_code::FENCED))
    }
}

fn open_log(path: &Path) -> io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let log = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)?;
    if log.metadata()?.len() > limits::EXPORT_LOG_BYTES_MAX {
        log.set_len(0)?;
    }
    Ok(log)
}

fn log_tail(path: &Path) -> String {
    let content = std::fs::read(path).unwrap_or_default();
    let start = content.len().saturating_sub(limits::LOG_TAIL_BYTES);
    String::from_utf8_lossy(&content[start..]).trim_end().to_owned()
}
