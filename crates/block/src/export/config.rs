//! What crosses the border between the agent and an export process: configuration, status, exit codes, file names.
//!
//! Both sides use these types. A file with another version is refused, never guessed at.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::process::ProcessIdentity;
use crate::id::{Generation, VolumeHandle, VolumeId};

/// Version of the configuration and status files.
pub const FILE_VERSION: u32 = 1;

/// Where the volume is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum ExportPool {
    /// A pool of the `file` provider.
    File {
        /// Its directory.
        root: PathBuf,
        /// Bytes that stay free: new blocks are refused before less is left.
        reserve_bytes: u64,
    },
}

/// Everything an export process needs to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportConfig {
    /// [`FILE_VERSION`].
    pub version: u32,
    /// The volume.
    pub volume: VolumeId,
    /// Its incarnation.
    pub handle: VolumeHandle,
    /// The generation under which it is opened.
    pub generation: Generation,
    /// Where it is.
    pub pool: ExportPool,
    /// The export's directory.
    pub directory: PathBuf,
}

/// Where an export is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExportState {
    /// The process runs and is taking the volume's lock.
    Opening,
    /// Clients are served.
    Serving,
    /// No new request is admitted, the admitted ones are finished and synced.
    Draining,
    /// The receipt is durable. Final.
    Sealed,
    /// A higher generation owns the volume. Final.
    Fenced,
    /// The volume could not be opened or sealed. Final.
    Failed,
}

impl ExportState {
    /// Whether the process may go from this state to `next`.
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Opening => matches!(next, Self::Serving | Self::Fenced | Self::Failed),
            Self::Serving => matches!(next, Self::Draining | Self::Fenced),
            Self::Draining => matches!(next, Self::Sealed | Self::Fenced | Self::Failed),
            Self::Sealed | Self::Fenced | Self::Failed => false,
        }
    }
}

/// What an export says of itself, in its status file and on its control socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportStatus {
    /// [`FILE_VERSION`].
    pub version: u32,
    /// The process.
    pub process: ProcessIdentity,
    /// The volume.
    pub volume: VolumeId,
    /// Its incarnation.
    pub handle: VolumeHandle,
    /// The generation under which it is served.
    pub generation: Generation,
    /// Writes are refused.
    pub read_only: bool,
    /// Bytes served.
    pub size_bytes: u64,
    /// Where it is in its life.
    pub state: ExportState,
    /// Its NBD socket.
    pub socket: PathBuf,
    /// Why it failed or was fenced.
    pub detail: Option<String>,
}

/// Exit codes of an export process.
pub mod exit_code {
    /// Drained and sealed.
    pub const SEALED: u8 = 0;
    /// Anything not named below.
    pub const FAILED: u8 = 1;
    /// The configuration is unusable.
    pub const CONFIG: u8 = 2;
    /// A higher generation owns the volume.
    pub const FENCED: u8 = 3;
    /// Another process has the volume open.
    pub const BUSY: u8 = 4;
    /// Drained, but the seal could not be made: the volume stays unsealed.
    pub const UNSEALED: u8 = 5;
}

/// The export directory of an incarnation under the agent's directory of exports.
pub fn export_directory(exports: &Path, handle: VolumeHandle) -> PathBuf {
    exports.join(handle.to_string())
}

/// The NBD socket in an export directory.
pub fn nbd_socket(directory: &Path) -> PathBuf {
    directory.join("nbd.sock")
}

/// The control socket in an export directory.
pub fn control_socket(directory: &Path) -> PathBuf {
    directory.join("control.sock")
}

/// The configuration in an export directory.
pub fn config_file(directory: &Path) -> PathBuf {
    directory.join("config.json")
}

/// The status in an export directory.
pub fn status_file(directory: &Path) -> PathBuf {
    directory.join("status.json")
}

/// The log in an export directory.
pub fn log_file(directory: &Path) -> PathBuf {
    directory.join("log")
}

#[cfg(test)]
mod tests {
    use super::ExportState;

    #[test]
    fn the_legal_moves_are_these() {
        use ExportState::{Draining, Failed, Fenced, Opening, Sealed, Serving};
        let all = [Opening, Serving, Draining, Sealed, Fenced, Failed];
        let legal: Vec<_> = all
            .iter()
            .flat_map(|a| all.iter().filter(|b| a.may_become(**b)).map(move |b| (*a, *b)))
            .collect();
        let drawn = [
            (Opening, Serving),
            (Opening, Fenced),
            (Opening, Failed),
            (Serving, Draining),
            (Serving, Fenced),
            (Draining, Sealed),
            (Draining, Fenced),
            (Draining, Failed),
        ];
        assert_eq!(legal, drawn);
    }
}
