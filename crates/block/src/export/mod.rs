//! Exports: one process serves one published volume over NBD and outlives the agent that started it.
//!
//! ```text
//!  absent ──spawn──▶ opening ──lock taken──▶ serving ──SIGTERM──▶ draining ──receipt durable──▶ sealed (exit 0)
//!                       │                       └──higher generation seen──▶ fenced (exit 3)
//!                       └──refused──▶ failed          draining ──sync error──▶ failed (no receipt)
//! ```
//!
//! Each export owns the directory `<exports>/<volume handle>/` (mode 0700):
//!
//! | File | Content |
//! |---|---|
//! | `config.json` | [`ExportConfig`], written by the agent before the process starts |
//! | `status.json` | [`ExportStatus`], written by the process at every change of state |
//! | `nbd.sock` | the NBD server (0600) |
//! | `control.sock` | one JSON line a question, one an answer (0600): identity, size after growth |
//! | `log` | standard output and error |
//!
//! The process is told from others by pid, start time, boot id, the socket's peer and the socket's own answer, never by a
//! name. The volume's kernel lock, not a file here, says whether somebody may write; the seal receipt in the pool, not the
//! absence of anything here, says that a generation is over.
//!
//! [`ExportManager`] is the agent's side, [`run`] the body of `spx volume serve`.

mod config;
mod control;
mod manager;
mod process;
mod serve;

pub use config::{
    ExportConfig, ExportPool, ExportState, ExportStatus, exit_code, export_directory, nbd_socket,
};
pub use manager::{ExportError, ExportManager, ExportManagerConfig, Observed, RunningExport, StopOutcome};
pub use process::{ProcessIdentity, boot_id};
pub use serve::{ServeError, run, serve};
