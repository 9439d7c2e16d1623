//! A `file` pool on disk: names, stored forms, and moves that are durable or did not happen.
//!
//! ```text
//! <pool>/FORMAT                     what this directory is; made once
//!        keeper.lock                held by the one process that creates and deletes (the agent)
//!        locks/<handle>             held by whoever has the volume open; outside what a delete moves away
//!        volumes/<handle>/record.json      id and original request; never changed
//!                         ownership.json   last generation and publication; replaced whole
//!                         fence            the generation that may write, 8 bytes, read with every change
//!                         opened.json      the last generation that opened the volume
//!                         receipt.json     the last seal
//!                         sync-failed.json the last generation whose sync failed
//!                         data             the volume; its length is the capacity; holes are unallocated
//!        snapshots/<handle>/record.json, data   never changed
//!        tmp/<handle>/              being made or being removed; emptied when a keeper opens the pool
//! ```
//!
//! An object exists exactly while its directory is in `volumes` or `snapshots`; it gets there by one rename when everything in it is
//! durable, and leaves by one rename.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::durable::{Found, read_json, replace_json, sync_directory};
use crate::id::{Generation, SnapshotHandle, VolumeHandle, VolumeId};
use crate::limits;
use crate::provider::catalog::{OriginalRequest, Ownership, SnapshotRecord};
use crate::provider::{Publication, SealReceipt};

/// Version of every stored form here.
pub const STORED_VERSION: u32 = 1;
const MAGIC: &str = "spinifex file pool";

/// `FORMAT`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredFormat {
    magic: String,
    version: u32,
    /// Names the pool.
    pub pool: String,
    /// Key of the list tokens, hex.
    pub token_key: String,
}

/// `record.json` of a volume.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredVolume {
    /// [`STORED_VERSION`].
    pub version: u32,
    /// Its id.
    pub volume: VolumeId,
    /// Its incarnation, the same as the directory's name.
    pub handle: VolumeHandle,
    /// The request that made it.
    pub original: OriginalRequest,
}

/// A small versioned value: `ownership.json`, `opened.json`, `receipt.json`, `sync-failed.json`, a snapshot's `record.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored<T> {
    /// [`STORED_VERSION`].
    pub version: u32,
    /// The value.
    pub value: T,
}

impl<T> Stored<T> {
    /// In the present version.
    pub fn new(value: T) -> Self {
        Self {
            version: STORED_VERSION,
            value,
        }
    }
}

fn of_version<T>(found: Found<Stored<T>>) -> Found<T> {
    match found {
        Found::Present(stored) if stored.version == STORED_VERSION => Found::Present(stored.value),
        Found::Present(stored) => Found::Unreadable(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("stored version {} is not known", stored.version),
        )),
        Found::Absent => Found::Absent,
        Found::Unreadable(error) => Found::Unreadable(error),
    }
}

/// Absent where it must be present is damage, not absence.
pub fn must<T>(found: Found<T>, what: &str) -> io::Result<T> {
    match found {
        Found::Present(value) => Ok(value),
        Found::Absent => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{what} is missing"),
        )),
        Found::Unreadable(error) => Err(error),
    }
}

/// The names in a pool.
#[derive(Debug, Clone)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// Of the pool in `root`.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// The pool's directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// All volumes.
    pub fn volumes(&self) -> PathBuf {
        self.root.join("volumes")
    }

    /// All snapshots.
    pub fn snapshots(&self) -> PathBuf {
        self.root.join("snapshots")
    }

    /// What is being made or removed.
    pub fn temporary(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// One volume.
    pub fn volume(&self, handle: VolumeHandle) -> VolumeDirectory {
        VolumeDirectory(self.volumes().join(handle.to_string()))
    }

    /// One snapshot's directory.
    pub fn snapshot(&self, handle: SnapshotHandle) -> PathBuf {
        self.snapshots().join(handle.to_string())
    }

    /// Makes the directories of a new pool, then its `FORMAT`; or reads that of an existing one. A directory that holds anything
    /// else is refused.
    pub fn ensure(&self) -> io::Result<StoredFormat> {
        let format_path = self.root.join("FORMAT");
        let format = match read_json::<StoredFormat>(&format_path, limits::STORED_BYTES_MAX) {
            Found::Present(format) if format.magic == MAGIC && format.version == STORED_VERSION => format,
            Found::Present(format) => {
                let text = format!(
                    "{:?} version {} is not a pool of ours",
                    format.magic, format.version
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            Found::Unreadable(error) => return Err(error),
            Found::Absent => {
                make_directory(&self.root)?;
                let ours = [
                    "volumes",
                    "snapshots",
                    "tmp",
                    "locks",
                    "keeper.lock",
                    "FORMAT.new",
                ];
                for entry in std::fs::read_dir(&self.root)? {
                    let name = entry?.file_name();
                    let half_made = name.to_string_lossy().starts_with("FORMAT.");
                    if !half_made && !ours.iter().any(|ours| name == *ours) {
                        let text = format!("{} is no pool and holds {name:?}", self.root.display());
                        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
                    }
                }
                StoredFormat {
                    magic: MAGIC.to_owned(),
                    version: STORED_VERSION,
                    pool: VolumeHandle::mint().to_string(),
                    token_key: VolumeHandle::mint().to_string(),
                }
            }
        };
        for directory in [
            self.volumes(),
            self.snapshots(),
            self.temporary(),
            self.root.join("locks"),
        ] {
            make_directory(&directory)?;
        }
        if let Found::Absent = read_json::<StoredFormat>(&format_path, limits::STORED_BYTES_MAX) {
            replace_json(&format_path, &format, true)?;
        }
        sync_directory(&self.root)?;
        Ok(format)
    }

    /// Takes the keeper's lock; `None` if another process has it.
    pub fn lock_keeper(&self) -> io::Result<Option<File>> {
        lock(&self.root.join("keeper.lock"))
    }

    /// Takes a volume's lock; `None` if somebody has it open.
    pub fn lock_volume(&self, handle: VolumeHandle) -> io::Result<Option<File>> {
        lock(&self.root.join("locks").join(handle.to_string()))
    }

    /// Removes a removed volume's lock file. Handles are never used again, and whoever locks looks for the volume afterwards.
    pub fn forget_lock(&self, handle: VolumeHandle) {
        if let Err(error) = std::fs::remove_file(self.root.join("locks").join(handle.to_string()))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%handle, %error, "the lock file of a removed volume stays");
        }
    }
}

fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A volume's directory.
#[derive(Debug, Clone)]
pub struct VolumeDirectory(pub PathBuf);

impl VolumeDirectory {
    /// Its bytes.
    pub fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    /// `record.json`.
    pub fn record(&self) -> Found<StoredVolume> {
        match read_json::<StoredVolume>(&self.0.join("record.json"), limits::STORED_BYTES_MAX) {
            Found::Present(record) if record.version != STORED_VERSION => Found::Unreadable(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("stored version {} is not known", record.version),
            )),
            found => found,
        }
    }

    /// Writes `record.json`.
    pub fn put_record(&self, record: &StoredVolume) -> io::Result<()> {
        replace_json(&self.0.join("record.json"), record, true)
    }

    /// `ownership.json`.
    pub fn ownership(&self) -> Found<Ownership> {
        of_version(read_json(
            &self.0.join("ownership.json"),
            limits::STORED_BYTES_MAX,
        ))
    }

    /// Replaces `ownership.json`, durably, then the fence: from here on every lower generation is refused.
    pub fn put_ownership(&self, ownership: &Ownership) -> io::Result<()> {
        replace_json(&self.0.join("ownership.json"), &Stored::new(ownership), true)?;
        self.put_fence(ownership.last_generation)
    }

    /// Sets the fence.
    pub fn put_fence(&self, generation: Generation) -> io::Result<()> {
        let path = self.0.join("fence");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        file.write_all_at(&generation.0.to_le_bytes(), 0)?;
        file.sync_all()
    }

    /// Opens the fence for reading.
    pub fn fence(&self) -> io::Result<File> {
        File::open(self.0.join("fence"))
    }

    /// `receipt.json`.
    pub fn receipt(&self) -> Found<SealReceipt> {
        of_version(read_json(&self.0.join("receipt.json"), limits::STORED_BYTES_MAX))
    }

    /// Replaces `receipt.json`, durably.
    pub fn put_receipt(&self, receipt: &SealReceipt) -> io::Result<()> {
        replace_json(&self.0.join("receipt.json"), &Stored::new(receipt), true)
    }

    /// Whether a publication's generation was ever opened.
    pub fn was_opened(&self, publication: &Publication) -> io::Result<bool> {
        self.has_mark("opened.json", publication.generation)
    }

    /// Notes that a generation opened the volume, durably.
    pub fn mark_opened(&self, generation: Generation) -> io::Result<()> {
        replace_json(&self.0.join("opened.json"), &Stored::new(generation), true)
    }

    /// Whether a sync failed under a publication's generation.
    pub fn sync_failed(&self, publication: &Publication) -> io::Result<bool> {
        self.has_mark("sync-failed.json", publication.generation)
    }

    /// Notes that a sync failed under a generation.
    pub fn mark_sync_failed(&self, generation: Generation) -> io::Result<()> {
        replace_json(&self.0.join("sync-failed.json"), &Stored::new(generation), true)
    }

    fn has_mark(&self, name: &str, generation: Generation) -> io::Result<bool> {
        match of_version(read_json::<Stored<Generation>>(
            &self.0.join(name),
            limits::STORED_BYTES_MAX,
        )) {
            Found::Present(marked) => Ok(marked == generation),
            Found::Absent => Ok(false),
            Found::Unreadable(error) => Err(error),
        }
    }
}

/// `record.json` of the snapshot in `directory`.
pub fn snapshot_record(directory: &Path) -> Found<SnapshotRecord> {
    of_version(read_json(
        &directory.join("record.json"),
        limits::STORED_BYTES_MAX,
    ))
}

/// Writes a snapshot's `record.json`.
pub fn put_snapshot_record(directory: &Path, record: &SnapshotRecord) -> io::Result<()> {
    replace_json(&directory.join("record.json"), &Stored::new(record), true)
}

/// The bytes of the snapshot in `directory`.
pub fn snapshot_data(directory: &Path) -> PathBuf {
    directory.join("data")
}

/// A move that did not become durable.
#[derive(Debug, thiserror::Error)]
#[error("moving a directory in the pool failed")]
pub struct MoveError {
    /// Why.
    pub source: io::Error,
    /// Everything is where it was. If not, the object is at either place.
    pub undone: bool,
}

/// Renames a directory, durably, or leaves it where it was.
pub fn move_directory(from: &Path, to: &Path) -> Result<(), MoveError> {
    std::fs::rename(from, to).map_err(|source| MoveError { source, undone: true })?;
    let parents = [to.parent(), from.parent()];
    let synced = parents.into_iter().flatten().try_for_each(sync_directory);
    synced.map_err(|source| MoveError {
        source,
        undone: std::fs::rename(to, from).is_ok(),
    })
}
