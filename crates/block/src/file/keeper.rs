//! The keeper of a `file` pool: everything that creates, publishes, grows or removes. One process at a time, under the pool's lock.
//!
//! What exists is read once, at open; from then on the catalog in memory and the directories change together. Each call takes
//! the turn of the ids it changes, plans with the catalog, does the work on a blocking thread that finishes even if the caller is
//! gone, and updates the catalog last. Here are opening, turns, and making and removing directories; the calls are in `volumes`
//! and `snapshots`, the trait in `provider`.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use tokio::sync::OwnedMutexGuard;

use super::backing::free_bytes;
use super::layout::{Layout, MoveError, move_directory};
use super::load::{empty_directory, load};
use super::open::default_reserve_bytes;
use super::sparse::{Content, copy, data_bytes, reflink};
use crate::durable::sync_directory;
use crate::export::{export_directory, nbd_socket};
use crate::id::{SnapshotId, VolumeHandle, VolumeId};
use crate::limits;
use crate::provider::catalog::{Catalog, Entry};
use crate::provider::token::TokenKey;
use crate::provider::{Capabilities, Exclusion, ExclusionScope, ExportAddress, ProviderError};

/// What a pool needs.
#[derive(Debug, Clone)]
pub struct FilePoolConfig {
    /// Its directory; made if missing.
    pub root: PathBuf,
    /// The directory of exports, the same as the export manager's.
    pub exports: PathBuf,
    /// Bytes that stay free on the file system; `None` for [`default_reserve_bytes`].
    pub reserve_bytes: Option<u64>,
}

/// Why a pool cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// Another process keeps it.
    #[error("the pool {0} is kept by another process")]
    Kept(PathBuf),
    /// It cannot be read or made.
    #[error("the pool {path} cannot be opened")]
    Io {
        /// Its directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Sockets below the directory of exports would have names too long for the system.
    #[error("the directory of exports {0} is too long a path for sockets")]
    ExportsTooLong(PathBuf),
}

/// See the module.
#[derive(Debug)]
pub struct FilePool {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) layout: Layout,
    exports: PathBuf,
    pub(super) reserve_bytes: u64,
    pub(super) capabilities: Capabilities,
    pub(super) token_key: TokenKey,
    catalog: Mutex<Catalog>,
    turns: Mutex<HashMap<ObjectKey, Arc<tokio::sync::Mutex<()>>>>,
    _keeper_lock: File,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ObjectKey {
    Volume(VolumeId),
    Snapshot(SnapshotId),
}

type Turn = OwnedMutexGuard<()>;

impl FilePool {
    /// Opens the pool as its keeper; makes it if the directory is empty or missing. What a crash left half-made or
    /// half-removed is removed. Blocks: call it before or outside the runtime's work.
    pub fn open(config: FilePoolConfig) -> Result<Self, PoolError> {
        let failed = |source| PoolError::Io {
            path: config.root.clone(),
            source,
        };
        let longest = nbd_socket(&export_directory(&config.exports, VolumeHandle::mint()));
        // The control socket's name and the one it is bound under are longer.
        if longest.as_os_str().len() + 16 > limits::SOCKET_PATH_MAX {
            return Err(PoolError::ExportsTooLong(config.exports));
        }
        let layout = Layout::new(&config.root);
        let format = layout.ensure().map_err(failed)?;
        let Some(keeper_lock) = layout.lock_keeper().map_err(failed)? else {
            return Err(PoolError::Kept(config.root));
        };
        let mut key = [0; 16];
        hex::decode_to_slice(&format.token_key, &mut key)
            .map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error)))?;
        empty_directory(&layout.temporary()).map_err(failed)?;
        let catalog = load(&layout).map_err(failed)?;
        let reserve_bytes = match config.reserve_bytes {
            Some(bytes) => bytes,
            None => default_reserve_bytes(&config.root).map_err(failed)?,
        };
        let inner = Inner {
            layout,
            exports: config.exports,
            reserve_bytes,
            capabilities: capabilities(),
            token_key: TokenKey::new(key),
            catalog: Mutex::new(catalog),
            turns: Mutex::default(),
            _keeper_lock: keeper_lock,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The pool's directory.
    pub fn root(&self) -> &Path {
        self.inner.layout.root()
    }

    /// Bytes that stay free.
    pub fn reserve_bytes(&self) -> u64 {
        self.inner.reserve_bytes
    }

    /// Does `work` with the turns of `keys`, to its end even if the caller is gone.
    pub(super) async fn work<T: Send + 'static>(
        &self,
        operation: &'static str,
        keys: &[ObjectKey],
        work: impl FnOnce(&Inner) -> Result<T, ProviderError> + Send + 'static,
    ) -> Result<T, ProviderError> {
        // In one order, each once, so that two calls never wait for each other.
        let mut keys = keys.to_vec();
        keys.sort();
        keys.dedup();
        let mut turns: Vec<Turn> = Vec::with_capacity(keys.len());
        for key in keys {
            turns.push(self.inner.turn(key).lock_owned().await);
        }
        let inner = Arc::clone(&self.inner);
        let done = tokio::task::spawn_blocking(move || {
            let result = work(&inner);
            drop(turns);
            result
        });
        done.await.unwrap_or_else(|error| {
            Err(ProviderError::Internal {
                operation,
                step: "running the call",
                source: io::Error::other(error),
            })
        })
    }
}

fn capabilities() -> Capabilities {
    Capabilities {
        incarnation: VolumeHandle::mint().to_string(),
        online_expansion: true,
        sparse_extent_reporting: true,
        crash_consistent_snapshot: false,
        volume_seeding: true,
        read_only_publish: true,
        volume_enumeration: true,
        snapshot_enumeration: true,
        owner_routing: true,
        exclusion: Exclusion {
            scope: ExclusionScope::Node,
            claim_ttl_seconds: 0,
            fences_lost_claim: true,
        },
        volume_bytes_max: limits::VOLUME_BYTES_MAX,
    }
}
pub(super) fn internal(
    operation: &'static str,
    step: &'static str,
) -> impl FnOnce(io::Error) -> ProviderError {
    move |source| ProviderError::Internal {
        operation,
        step,
        source,
    }
}

impl Inner {
    pub(super) fn catalog(&self) -> MutexGuard<'_, Catalog> {
        // Every change of the catalog is one insert or remove; a panic elsewhere cannot leave it half changed.
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self, key: ObjectKey) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(key).or_default())
    }

    pub(super) fn export(&self, handle: VolumeHandle) -> ExportAddress {
        ExportAddress::NbdUnix {
            socket: nbd_socket(&export_directory(&self.exports, handle)),
        }
    }

    /// Refuses unless `data` bytes and an object's own files fit above the reserve.
    pub(super) fn check_space(&self, operation: &'static str, data: u64) -> Result<(), ProviderError> {
        let free = File::open(self.layout.root()).and_then(|directory| free_bytes(&directory));
        let free = free.map_err(|source| ProviderError::Unavailable { operation, source })?;
        let (available, needed) = (
            free.saturating_sub(self.reserve_bytes),
            data + limits::OBJECT_BYTES,
        );
        if available > needed {
            return Ok(());
        }
        Err(ProviderError::NoSpace {
            operation,
            needed,
            available,
        })
    }

    /// What a failed step means: a full disk is a definite refusal, since everything half-made is removed.
    pub(super) fn failed(
        &self,
        operation: &'static str,
        step: &'static str,
        needed: u64,
        source: io::Error,
    ) -> ProviderError {
        match source.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOSPC | Errno::DQUOT) => ProviderError::NoSpace {
                operation,
                needed,
                available: 0,
            },
            _ => ProviderError::Internal {
                operation,
                step,
                source,
            },
        }
    }

    /// Makes a directory under a temporary name with `fill`, then moves it to `target`. After an error nothing is left.
    pub(super) fn build(
        &self,
        operation: &'static str,
        target: &Path,
        fill: impl FnOnce(&Path) -> Result<(), (&'static str, io::Error)>,
    ) -> Result<(), BuildError> {
        let temporary = self
            .layout
            .temporary()
            .join(target.file_name().unwrap_or_default());
        let made = DirBuilder::new()
            .mode(0o700)
            .create(&temporary)
            .map_err(|error| ("making a directory", error));
        let filled = made
            .and_then(|()| fill(&temporary))
            .and_then(|()| sync_directory(&temporary).map_err(|error| ("syncing a directory", error)));
        let moved = match filled {
            Ok(()) => move_directory(&temporary, target).map_err(|MoveError { source, undone }| BuildError {
                step: "moving it into place",
                source,
                undone,
            }),
            Err((step, source)) => Err(BuildError {
                step,
                source,
                undone: true,
            }),
        };
        if moved.is_err()
            && let Err(error) = std::fs::remove_dir_all(&temporary)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(operation, %error, "a half-made object stays in tmp until the pool is opened again");
        }
        moved
    }
    /// Makes a data file of `length` bytes with the content of `source`. Refuses a copy that does not fit above the reserve.
    pub(super) fn fill(
        &self,
        path: &Path,
        source: Option<&File>,
        content: Content,
        length: u64,
    ) -> Result<File, (&'static str, io::Error)> {
        let data = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path);
        let data = data.map_err(|error| ("making the data file", error))?;
        if let Some(source) = source {
            let copied = || -> io::Result<()> {
                if reflink(source, &data)? {
                    return Ok(());
                }
                let needed = data_bytes(source)?;
                if free_bytes(&data)?.saturating_sub(self.reserve_bytes) <= needed {
                    return Err(Errno::NOSPC.into());
                }
                data.set_len(source.metadata()?.len())?;
                copy(source, &data, content)
            };
            copied().map_err(|error| ("copying the data", error))?;
        }
        data.set_len(length)
            .map_err(|error| ("setting the size", error))?;
        Ok(data)
    }
    pub(super) fn lock(
        &self,
        operation: &'static str,
        handle: VolumeHandle,
    ) -> Result<Option<File>, ProviderError> {
        let lock = self.layout.lock_volume(handle);
        lock.map_err(|source| ProviderError::Unavailable { operation, source })
    }
    /// Moves an object away, durably: it is gone when this succeeds. Its space follows, at the latest when the pool is opened.
    pub(super) fn remove(&self, directory: &Path) -> Result<(), MoveError> {
        let temporary = self
            .layout
            .temporary()
            .join(directory.file_name().unwrap_or_default());
        move_directory(directory, &temporary)?;
        if let Err(error) = std::fs::remove_dir_all(&temporary) {
            tracing::warn!(path = %temporary.display(), %error, "a removed object keeps its space for now");
        }
        Ok(())
    }
}

pub(super) struct BuildError {
    pub(super) step: &'static str,
    pub(super) source: io::Error,
    pub(super) undone: bool,
}

/// The entry of an object that may be at either of two places: unreadable until the pool is opened again.
pub(super) fn in_doubt<R>(error: &io::Error) -> Entry<R> {
    Entry::Unreadable {
        kind: error.kind(),
        text: format!("a move in the pool is in doubt: {error}"),
    }
}
