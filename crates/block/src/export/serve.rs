//! The export process: `spx volume serve` is [`run`].
//!
//! Takes the volume's lock under the generation of its publication, serves NBD, ignores SIGHUP, and on SIGTERM drains, syncs,
//! writes the seal receipt and ends. A higher generation ends it at once, without a seal. It asks nobody: neither the agent nor any
//! store need be there while it runs.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::signal::unix::{SignalKind, signal};

use super::config::{
    ExportConfig, ExportPool, ExportState, ExportStatus, FILE_VERSION, control_socket, exit_code, nbd_socket,
    status_file,
};
use super::control::{Answer, Question, answer_all};
use super::process::ProcessIdentity;
use crate::device::{BlockDevice, DeviceError};
use crate::durable::{Found, read_json, replace_json};
use crate::file::open_published;
use crate::limits;
use crate::nbd::{NbdServer, listen};
use crate::provider::{OpenVolume, ProviderError};

/// Why an export ended without a seal.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configuration cannot be read or is of another version.
    #[error("the export's configuration is unusable")]
    Config(#[source] io::Error),
    /// The volume could not be opened.
    #[error("the volume could not be opened")]
    Open(#[source] ProviderError),
    /// Sockets, signals or the status file.
    #[error("{attempted} failed")]
    Io {
        /// What was attempted.
        attempted: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A higher generation owns the volume.
    #[error("a higher generation owns the volume")]
    Fenced(#[source] DeviceError),
    /// What was answered may not be durable, or the receipt could not be written: the volume is unsealed.
    #[error("the volume could not be sealed")]
    Unsealed(#[source] DeviceError),
}

impl ServeError {
    /// The process's exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) => exit_code::CONFIG,
            Self::Open(ProviderError::VolumeInUse(_)) => exit_code::BUSY,
            Self::Open(ProviderError::Fenced { .. } | ProviderError::NotPublished(_)) | Self::Fenced(_) => {
                exit_code::FENCED
            }
            Self::Open(_) | Self::Io { .. } => exit_code::FAILED,
            Self::Unsealed(_) => exit_code::UNSEALED,
        }
    }
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

/// The whole process: reads the configuration, serves, says on standard error why it ended. Call it from `main` without a
/// runtime. One line on standard output says when it serves: `ready <status as JSON>`.
pub fn run(config: &Path) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(limits::EXPORT_WORKERS)
        .max_blocking_threads(limits::EXPORT_BLOCKING_THREADS_MAX)
        .enable_all()
        .build()
        .map_err(|source| ServeError::Io {
            attempted: "starting the runtime",
            source,
        });
    let served = runtime.and_then(|runtime| {
        let config = read_config(config)?;
        let served = runtime.block_on(serve(config));
        // Clients that stay connected must not keep the process.
        runtime.shutdown_background();
        served
    });
    match served {
        Ok(()) => ExitCode::from(exit_code::SEALED),
        Err(error) => {
            eprintln!("export ended: {}", chain(&error));
            ExitCode::from(error.exit_code())
        }
    }
}

fn read_config(path: &Path) -> Result<ExportConfig, ServeError> {
    let bad = |text: &str| ServeError::Config(io::Error::new(io::ErrorKind::InvalidData, text.to_owned()));
    match read_json::<ExportConfig>(path, limits::EXPORT_FILE_BYTES_MAX) {
        Found::Present(config) if config.version == FILE_VERSION => Ok(config),
        Found::Present(_) => Err(bad("the version is not known")),
        Found::Absent => Err(bad("there is no such file")),
        Found::Unreadable(error) => Err(ServeError::Config(error)),
    }
}

/// The status, and the file that shows it.
#[derive(Debug)]
struct StatusBoard {
    directory: std::path::PathBuf,
    status: Mutex<ExportStatus>,
}

impl StatusBoard {
    fn get(&self) -> ExportStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn write(&self) -> Result<(), ServeError> {
        let written = replace_json(&status_file(&self.directory), &self.get(), false);
        written.map_err(|source| ServeError::Io {
            attempted: "writing the status",
            source,
        })
    }

    /// Moves to the next state and shows it. The file is for looking at: a disk too full for it delays no drain and no seal.
    fn become_state(&self, state: ExportState, detail: Option<String>) {
        {
            let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
            assert!(
                status.state.may_become(state),
                "{:?} cannot become {state:?}",
                status.state
            );
            status.state = state;
            status.detail = detail;
        }
        if let Err(error) = self.write() {
            tracing::warn!(error = chain(&error), ?state, "the export's status is not shown");
        }
    }

    fn set_size(&self, size_bytes: u64) {
        self.status
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .size_bytes = size_bytes;
    }
}

/// Serves a volume until SIGTERM. `Ok` means sealed.
pub async fn serve(config: ExportConfig) -> Result<(), ServeError> {
    let failed = |attempted| move |source| ServeError::Io { attempted, source };
    // First, so that no signal finds the default action.
    let mut terminate = signal(SignalKind::terminate()).map_err(failed("listening for SIGTERM"))?;
    let mut hangup = signal(SignalKind::hangup()).map_err(failed("listening for SIGHUP"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed("listening for SIGINT"))?;
    let process = ProcessIdentity::of_self().map_err(failed("looking at itself"))?;
    outlive_guests();

    let request = OpenVolume {
        volume: config.volume.clone(),
        handle: config.handle,
        generation: config.generation,
    };
    // Nothing is shown before the lock is held: a status of this process must not hide that of the one that serves.
    let ExportPool::File { root, reserve_bytes } = &config.pool;
    let device = open_published(root, *reserve_bytes, request)
        .await
        .map_err(ServeError::Open)?;
    let board = Arc::new(StatusBoard {
        directory: config.directory.clone(),
        status: Mutex::new(ExportStatus {
            version: FILE_VERSION,
            process,
            volume: config.volume.clone(),
            handle: config.handle,
            generation: config.generation,
            read_only: device.is_read_only(),
            size_bytes: device.size(),
            state: ExportState::Opening,
            socket: nbd_socket(&config.directory),
            detail: None,
        }),
    });
    board.write()?;

    let control = listen(&control_socket(&config.directory)).map_err(failed("listening for questions"))?;
    let clients = listen(&nbd_socket(&config.directory)).map_err(failed("listening for clients"))?;
    board.become_state(ExportState::Serving, None);
    tokio::spawn(answer_questions(control, Arc::clone(&board), Arc::clone(&device)));
    let server = NbdServer::new(Arc::clone(&device));
    let accepting = tokio::spawn({
        let server = server.clone();
        async move { server.serve(clients).await }
    });
    println!(
        "ready {}",
        serde_json::to_string(&board.get()).unwrap_or_default()
    );

    let fenced = loop {
        tokio::select! {
            _ = terminate.recv() => break None,
            // The agent's end or a closed terminal is no reason to end.
            _ = hangup.recv() => {}
            _ = interrupt.recv() => {}
            () = tokio::time::sleep(limits::FENCE_POLL) => {
                if let Err(error) = device.check_owner().await {
                    break Some(error);
                }
            }
        }
    };
    let ended = match fenced {
        Some(error) => Err(ServeError::Fenced(error)),
        None => {
            board.become_state(ExportState::Draining, None);
            server.drain().await.map_err(|error| match error {
                DeviceError::Fenced { .. } => ServeError::Fenced(error),
                _ => ServeError::Unsealed(error),
            })
        }
    };
    accepting.abort();
    // A fenced process no longer owns its directory: its successor may be writing there. It only says so in its log.
    match &ended {
        Ok(()) => board.become_state(ExportState::Sealed, None),
        Err(ServeError::Fenced(_)) => {}
        Err(error) => board.become_state(ExportState::Failed, Some(chain(error))),
    }
    ended
}

async fn answer_questions(
    control: tokio::net::UnixListener,
    board: Arc<StatusBoard>,
    device: Arc<dyn BlockDevice>,
) {
    answer_all(control, move |question| {
        let (board, device) = (Arc::clone(&board), Arc::clone(&device));
        async move {
            if question == Question::RefreshSize {
                match device.refresh_size().await {
                    Ok(size) => board.set_size(size),
                    Err(error) => {
                        return Answer::Refused {
                            reason: chain(&error),
                        };
                    }
                }
            }
            Answer::Status(Box::new(board.get()))
        }
    })
    .await;
}

/// Asks the kernel to end guests before their disks when memory runs out. Only root may; others stay as they are.
fn outlive_guests() {
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", limits::EXPORT_OOM_SCORE_ADJUSTMENT) {
        tracing::debug!(%error, "the export's OOM score stays as it is");
    }
}
