//! The keeper of a `file` pool: everything that creates, publishes, grows or removes. One process at a time, under the pool's lock.
//!
//! What exists is read once, at open; from then on the catalog in memory and the directories change together. Each call takes
//! the turn of the ids it changes, plans with the catalog, does the work on a blocking thread that finishes even if the caller is
//! gone, and updates the catalog last.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use rustix::io::Errno;
use tokio::sync::OwnedMutexGuard;

use super::backing::{allocated_bytes, free_bytes};
use super::device::FileDevice;
use super::layout::{
    Layout, MoveError, STORED_VERSION, StoredVolume, VolumeDirectory, move_directory, must,
    put_snapshot_record, snapshot_data, snapshot_record,
};
use super::open::{default_reserve_bytes, host_file, open_published};
use super::sparse::{Content, copy, data_bytes, reflink};
use crate::device::BlockDevice;
use crate::durable::{Found, now_unix_ms, sync_directory};
use crate::export::{export_directory, nbd_socket};
use crate::id::{NodeId, SnapshotHandle, SnapshotId, VolumeHandle, VolumeId};
use crate::limits;
use crate::provider::catalog::{
    Catalog, CreateVolumePlan, DeletePlan, Entry, ExpandPlan, Ownership, PublishPlan, SnapshotPlan,
    SnapshotRecord, VolumeRecord,
};
use crate::provider::token::TokenKey;
use crate::provider::{
    Argument, Capabilities, CapacityRange, CreateSnapshot, CreateVolume, Deletion, Exclusion, ExclusionScope,
    ExportAddress, ImportSnapshot, ObjectName, OpenVolume, Page, ProviderError, Publication, PublishVolume,
    SealReceipt, SealedBy, SnapshotRef, SnapshotStat, SnapshotView, Unpublication, VolumeProvider, VolumeRef,
    VolumeSource, VolumeStat, VolumeView,
};

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
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    layout: Layout,
    exports: PathBuf,
    reserve_bytes: u64,
    capabilities: Capabilities,
    token_key: TokenKey,
    catalog: Mutex<Catalog>,
    turns: Mutex<HashMap<ObjectKey, Arc<tokio::sync::Mutex<()>>>>,
    _keeper_lock: File,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum ObjectKey {
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
    async fn work<T: Send + 'static>(
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

fn empty_directory(directory: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        tracing::info!(path = %path.display(), "removing what a crash left unfinished");
        std::fs::remove_dir_all(path)?;
    }
    Ok(())
}

/// Reads every record. One that cannot be read is kept as unreadable; only the pool's own directories failing fails this.
fn load(layout: &Layout) -> io::Result<Catalog> {
    let mut catalog = Catalog::default();
    for entry in std::fs::read_dir(layout.volumes())? {
        let name = entry?.file_name();
        let Some(handle) = name.to_str().and_then(|name| name.parse::<VolumeHandle>().ok()) else {
            tracing::warn!(?name, "not a volume of ours");
            continue;
        };
        let directory = layout.volume(handle);
        match must(directory.record(), "the volume's record") {
            Ok(stored) if stored.handle == handle => {
                let id = stored.volume.clone();
                let entry = load_volume(&directory, stored).map_or_else(unreadable_entry, Entry::Readable);
                put_once(&mut catalog.volumes, id, entry);
            }
            Ok(_) | Err(_) => catalog.nameless.push(directory.0.display().to_string()),
        }
    }
    for entry in std::fs::read_dir(layout.snapshots())? {
        let name = entry?.file_name();
        let Some(handle) = name.to_str().and_then(|name| name.parse::<SnapshotHandle>().ok()) else {
            tracing::warn!(?name, "not a snapshot of ours");
            continue;
        };
        let directory = layout.snapshot(handle);
        match must(snapshot_record(&directory), "the snapshot's record") {
            Ok(record) if record.view.handle == handle => {
                let id = record.view.snapshot.clone();
                let entry = load_snapshot(&directory, record).map_or_else(unreadable_entry, Entry::Readable);
                put_once(&mut catalog.snapshots, id, entry);
            }
            Ok(_) | Err(_) => catalog.nameless.push(directory.display().to_string()),
        }
    }
    for place in &catalog.nameless {
        tracing::error!(
            place,
            "unreadable record in the pool: listings fail until it is repaired"
        );
    }
    Ok(catalog)
}

fn load_volume(directory: &VolumeDirectory, stored: StoredVolume) -> io::Result<VolumeRecord> {
    let ownership = must(directory.ownership(), "the volume's ownership")?;
    let capacity_bytes = std::fs::metadata(directory.data())?.len();
    // A crash between the two writes of put_ownership leaves an old fence.
    let mut fence = [0; 8];
    let read = directory
        .fence()
        .and_then(|file| file.read_exact_at(&mut fence, 0));
    if read.is_err() || u64::from_le_bytes(fence) != ownership.last_generation.0 {
        directory.put_fence(ownership.last_generation)?;
    }
    let StoredVolume {
        volume,
        handle,
        original,
        ..
    } = stored;
    Ok(VolumeRecord {
        volume,
        handle,
        capacity_bytes,
        original,
        ownership,
    })
}

fn load_snapshot(directory: &Path, record: SnapshotRecord) -> io::Result<SnapshotRecord> {
    let length = std::fs::metadata(snapshot_data(directory))?.len();
    if length != record.view.size_bytes {
        let text = format!(
            "the snapshot has {length} bytes, its record says {}",
            record.view.size_bytes
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(record)
}

fn unreadable_entry<R>(error: io::Error) -> Entry<R> {
    tracing::error!(%error, "unreadable object in the pool");
    Entry::Unreadable {
        kind: error.kind(),
        text: error.to_string(),
    }
}

fn put_once<K: Ord, R>(entries: &mut std::collections::BTreeMap<K, Entry<R>>, id: K, entry: Entry<R>) {
    let entry = if entries.contains_key(&id) {
        unreadable_entry(io::Error::new(
            io::ErrorKind::InvalidData,
            "two incarnations have this id",
        ))
    } else {
        entry
    };
    entries.insert(id, entry);
}

fn internal(operation: &'static str, step: &'static str) -> impl FnOnce(io::Error) -> ProviderError {
    move |source| ProviderError::Internal {
        operation,
        step,
        source,
    }
}

impl Inner {
    fn catalog(&self) -> MutexGuard<'_, Catalog> {
        // Every change of the catalog is one insert or remove; a panic elsewhere cannot leave it half changed.
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self, key: ObjectKey) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(key).or_default())
    }

    fn export(&self, handle: VolumeHandle) -> ExportAddress {
        ExportAddress::NbdUnix {
            socket: nbd_socket(&export_directory(&self.exports, handle)),
        }
    }

    /// Refuses unless `data` bytes and an object's own files fit above the reserve.
    fn check_space(&self, operation: &'static str, data: u64) -> Result<(), ProviderError> {
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
    fn failed(
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
    fn build(
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

    fn create_volume(&self, request: &CreateVolume) -> Result<VolumeView, ProviderError> {
        const OPERATION: &str = "create volume";
        let plan = self.catalog().plan_create_volume(request, &self.capabilities)?;
        let (record, clone_of) = match plan {
            CreateVolumePlan::Existing(view) => return Ok(view),
            CreateVolumePlan::New { record, clone_of } => (record, clone_of),
        };
        let source = match clone_of {
            None => None,
            Some(snapshot) => {
                let path = snapshot_data(&self.layout.snapshot(snapshot.view.handle));
                let object = ObjectName::from(&snapshot.view.snapshot);
                Some(File::open(path).map_err(|source| ProviderError::Unreadable { object, source })?)
            }
        };
        let seed = match &request.source {
            VolumeSource::Seed { bytes } => bytes.clone(),
            VolumeSource::Blank | VolumeSource::Snapshot { .. } => Bytes::new(),
        };
        self.check_space(OPERATION, seed.len() as u64)?;
        let stored = StoredVolume {
            version: STORED_VERSION,
            volume: record.volume.clone(),
            handle: record.handle,
            original: record.original.clone(),
        };
        let target = self.layout.volume(record.handle);
        let built = self.build(OPERATION, &target.0, |path| {
            let directory = VolumeDirectory(path.to_owned());
            let data = self.fill(
                &directory.data(),
                source.as_ref(),
                Content::Verbatim,
                record.capacity_bytes,
            )?;
            data.write_all_at(&seed, 0)
                .map_err(|error| ("writing the seed", error))?;
            data.sync_all().map_err(|error| ("syncing the data", error))?;
            directory
                .put_ownership(&record.ownership)
                .map_err(|error| ("writing the ownership", error))?;
            directory
                .put_record(&stored)
                .map_err(|error| ("writing the record", error))
        });
        let view = record.view();
        match built {
            Ok(()) => {
                self.catalog()
                    .volumes
                    .insert(record.volume.clone(), Entry::Readable(*record));
                Ok(view)
            }
            Err(BuildError { step, source, undone }) => {
                if !undone {
                    self.catalog().volumes.insert(record.volume, in_doubt(&source));
                }
                Err(self.failed(OPERATION, step, limits::BLOCK_BYTES, source))
            }
        }
    }

    /// Makes a data file of `length` bytes with the content of `source`. Refuses a copy that does not fit above the reserve.
    fn fill(
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

    fn expand(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
        range: CapacityRange,
    ) -> Result<VolumeView, ProviderError> {
        const OPERATION: &str = "expand volume";
        let plan = self
            .catalog()
            .plan_expand(volume, handle, range, &self.capabilities)?;
        let record = match plan {
            ExpandPlan::Unchanged(view) => return Ok(view),
            ExpandPlan::Grow(record) => record,
        };
        self.check_space(OPERATION, 0)?;
        let grow = || {
            let data = OpenOptions::new()
                .write(true)
                .open(self.layout.volume(record.handle).data())?;
            data.set_len(record.capacity_bytes)?;
            data.sync_all()
        };
        grow().map_err(|source| self.failed(OPERATION, "growing the file", limits::BLOCK_BYTES, source))?;
        let view = record.view();
        self.catalog()
            .volumes
            .insert(volume.clone(), Entry::Readable(record));
        Ok(view)
    }

    fn publish(&self, request: &PublishVolume) -> Result<Publication, ProviderError> {
        let plan = self
            .catalog()
            .plan_publish(request, &self.capabilities, |handle| self.export(handle))?;
        let publication = match plan {
            PublishPlan::Existing(publication) => return Ok(publication),
            PublishPlan::New(publication) => publication,
        };
        let ownership = Ownership {
            last_generation: publication.generation,
            publication: Some(publication.clone()),
        };
        self.put_ownership("publish volume", &publication, ownership)?;
        Ok(publication)
    }

    /// Stores who owns a volume, on disk and then in the catalog.
    fn put_ownership(
        &self,
        operation: &'static str,
        publication: &Publication,
        ownership: Ownership,
    ) -> Result<(), ProviderError> {
        let directory = self.layout.volume(publication.handle);
        directory
            .put_ownership(&ownership)
            .map_err(internal(operation, "writing the ownership"))?;
        if let Some(Entry::Readable(record)) = self.catalog().volumes.get_mut(&publication.volume) {
            record.ownership = ownership;
        }
        Ok(())
    }

    fn unpublish(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
        node: &NodeId,
    ) -> Result<Unpublication, ProviderError> {
        const OPERATION: &str = "unpublish volume";
        let Some(publication) = self.catalog().plan_unpublish(volume, handle, node)? else {
            return Ok(Unpublication::NothingPublished);
        };
        let Some(_lock) = self.lock(OPERATION, publication.handle)? else {
            let source = io::Error::new(io::ErrorKind::ResourceBusy, "a process still has the volume open");
            return Err(ProviderError::Unavailable {
                operation: OPERATION,
                source,
            });
        };
        let receipt = self
            .seal(&publication)
            .map_err(|source| ProviderError::Internal {
                operation: OPERATION,
                step: "sealing",
                source,
            })?;
        let ownership = Ownership {
            last_generation: publication.generation,
            publication: None,
        };
        self.put_ownership(OPERATION, &publication, ownership)?;
        Ok(Unpublication::Sealed(receipt))
    }

    /// The owner's receipt, or one made now in its place.
    fn seal(&self, publication: &Publication) -> io::Result<SealReceipt> {
        let directory = self.layout.volume(publication.handle);
        match directory.receipt() {
            Found::Present(receipt) if receipt.generation == publication.generation => return Ok(receipt),
            Found::Present(_) | Found::Absent => {}
            Found::Unreadable(error) => return Err(error),
        }
        let opened = directory.was_opened(publication)?;
        if opened {
            OpenOptions::new()
                .write(true)
                .open(directory.data())?
                .sync_all()?;
        }
        let receipt = SealReceipt {
            volume: publication.volume.clone(),
            handle: publication.handle,
            generation: publication.generation,
            sealed_by: if opened {
                SealedBy::Unpublish
            } else {
                SealedBy::NeverOpened
            },
            sync_failed: directory.sync_failed(publication)?,
            sealed_at_unix_ms: now_unix_ms(),
        };
        directory.put_receipt(&receipt)?;
        Ok(receipt)
    }

    fn lock(&self, operation: &'static str, handle: VolumeHandle) -> Result<Option<File>, ProviderError> {
        let lock = self.layout.lock_volume(handle);
        lock.map_err(|source| ProviderError::Unavailable { operation, source })
    }

    fn delete_volume(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
    ) -> Result<Deletion, ProviderError> {
        const OPERATION: &str = "delete volume";
        let record = match self.catalog().plan_delete_volume(volume, handle)? {
            DeletePlan::Nothing(deletion) => return Ok(deletion),
            DeletePlan::Remove(record) => record,
        };
        let Some(_lock) = self.lock(OPERATION, record.handle)? else {
            return Err(ProviderError::VolumeInUse(volume.clone()));
        };
        match self.remove(&self.layout.volume(record.handle).0) {
            Ok(()) => {
                self.catalog().volumes.remove(volume);
                self.layout.forget_lock(record.handle);
                Ok(Deletion::Deleted)
            }
            Err(MoveError { source, undone }) => {
                if !undone {
                    self.catalog().volumes.insert(volume.clone(), in_doubt(&source));
                }
                Err(ProviderError::Internal {
                    operation: OPERATION,
                    step: "moving it away",
                    source,
                })
            }
        }
    }

    /// Moves an object away, durably: it is gone when this succeeds. Its space follows, at the latest when the pool is opened.
    fn remove(&self, directory: &Path) -> Result<(), MoveError> {
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

    fn create_snapshot(&self, request: &CreateSnapshot) -> Result<SnapshotView, ProviderError> {
        const OPERATION: &str = "create snapshot";
        let (plan, source) = {
            let catalog = self.catalog();
            let plan = catalog.plan_create_snapshot(request, &self.capabilities, now_unix_ms())?;
            (
                plan,
                catalog
                    .volume(&request.volume, request.volume_handle)
                    .map(|record| record.handle),
            )
        };
        let record = match plan {
            SnapshotPlan::Existing(view) => return Ok(view),
            SnapshotPlan::New(record) => record,
        };
        let source = source?;
        let Some(_lock) = self.lock(OPERATION, source)? else {
            return Err(ProviderError::VolumeInUse(request.volume.clone()));
        };
        let data = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.layout.volume(source).data());
        let data = data.map_err(|source| ProviderError::Unreadable {
            object: ObjectName::from(&request.volume),
            source,
        })?;
        // What a killed owner left in the page cache is part of the cut.
        data.sync_all()
            .map_err(internal(OPERATION, "syncing the volume"))?;
        self.build_snapshot(OPERATION, record, &data, Content::Verbatim)
    }

    fn build_snapshot(
        &self,
        operation: &'static str,
        record: SnapshotRecord,
        source: &File,
        content: Content,
    ) -> Result<SnapshotView, ProviderError> {
        self.check_space(operation, 0)?;
        let target = self.layout.snapshot(record.view.handle);
        let built = self.build(operation, &target, |directory| {
            let data = self.fill(
                &snapshot_data(directory),
                Some(source),
                content,
                record.view.size_bytes,
            )?;
            data.sync_all().map_err(|error| ("syncing the data", error))?;
            put_snapshot_record(directory, &record).map_err(|error| ("writing the record", error))
        });
        self.finish_snapshot(operation, record, built)
    }

    fn finish_snapshot(
        &self,
        operation: &'static str,
        record: SnapshotRecord,
        built: Result<(), BuildError>,
    ) -> Result<SnapshotView, ProviderError> {
        let view = record.view.clone();
        match built {
            Ok(()) => {
                self.catalog()
                    .snapshots
                    .insert(view.snapshot.clone(), Entry::Readable(record));
                Ok(view)
            }
            Err(BuildError { step, source, undone }) => {
                if !undone {
                    self.catalog().snapshots.insert(view.snapshot, in_doubt(&source));
                }
                Err(self.failed(operation, step, limits::BLOCK_BYTES, source))
            }
        }
    }

    fn import_snapshot(&self, request: &ImportSnapshot, path: &Path) -> Result<SnapshotView, ProviderError> {
        const OPERATION: &str = "import snapshot";
        let not_a_file = || ProviderError::InvalidArgument {
            operation: OPERATION,
            source: Argument::ImportFile,
        };
        if let Some(view) = self.catalog().find_import(request)? {
            return Ok(view);
        }
        let file = File::open(path).map_err(internal(OPERATION, "opening the file"))?;
        let metadata = file
            .metadata()
            .map_err(internal(OPERATION, "looking at the file"))?;
        if !metadata.is_file() {
            return Err(not_a_file());
        }
        let record = self.catalog().plan_import_snapshot(
            request,
            metadata.len(),
            &self.capabilities,
            now_unix_ms(),
        )?;
        self.build_snapshot(OPERATION, record, &file, Content::ZerosToHoles)
    }

    fn copy_snapshot(
        &self,
        source: &SnapshotId,
        destination: &SnapshotId,
        source_volume: &VolumeId,
    ) -> Result<SnapshotView, ProviderError> {
        const OPERATION: &str = "copy snapshot";
        let planned = self
            .catalog()
            .plan_copy_snapshot(source, destination, source_volume, now_unix_ms())?;
        let (SnapshotPlan::New(record), Some(handle)) = planned else {
            let (SnapshotPlan::Existing(view) | SnapshotPlan::New(SnapshotRecord { view, .. })) = planned.0;
            return Ok(view);
        };
        self.check_space(OPERATION, 0)?;
        let from = snapshot_data(&self.layout.snapshot(handle));
        let built = self.build(
            OPERATION,
            &self.layout.snapshot(record.view.handle),
            |directory| {
                // A snapshot's bytes never change, so a second name for them is an independent copy.
                std::fs::hard_link(&from, snapshot_data(directory))
                    .map_err(|error| ("linking the data", error))?;
                put_snapshot_record(directory, &record).map_err(|error| ("writing the record", error))
            },
        );
        self.finish_snapshot(OPERATION, record, built)
    }

    fn delete_snapshot(
        &self,
        snapshot: &SnapshotId,
        handle: Option<SnapshotHandle>,
    ) -> Result<Deletion, ProviderError> {
        let record = match self.catalog().plan_delete_snapshot(snapshot, handle)? {
            DeletePlan::Nothing(deletion) => return Ok(deletion),
            DeletePlan::Remove(record) => record,
        };
        match self.remove(&self.layout.snapshot(record.view.handle)) {
            Ok(()) => {
                self.catalog().snapshots.remove(snapshot);
                Ok(Deletion::Deleted)
            }
            Err(MoveError { source, undone }) => {
                if !undone {
                    self.catalog()
                        .snapshots
                        .insert(snapshot.clone(), in_doubt(&source));
                }
                Err(ProviderError::Internal {
                    operation: "delete snapshot",
                    step: "moving it away",
                    source,
                })
            }
        }
    }
}

struct BuildError {
    step: &'static str,
    source: io::Error,
    undone: bool,
}

/// The entry of an object that may be at either of two places: unreadable until the pool is opened again.
fn in_doubt<R>(error: &io::Error) -> Entry<R> {
    Entry::Unreadable {
        kind: error.kind(),
        text: format!("a move in the pool is in doubt: {error}"),
    }
}

#[async_trait]
impl VolumeProvider for FilePool {
    fn capabilities(&self) -> &Capabilities {
        &self.inner.capabilities
    }

    async fn create_volume(&self, request: CreateVolume) -> Result<VolumeView, ProviderError> {
        let mut keys = vec![ObjectKey::Volume(request.volume.clone())];
        if let VolumeSource::Snapshot { snapshot, .. } = &request.source {
            keys.push(ObjectKey::Snapshot(snapshot.clone()));
        }
        self.work("create volume", &keys, move |inner| inner.create_volume(&request))
            .await
    }

    async fn fetch_volume(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
    ) -> Result<VolumeView, ProviderError> {
        self.inner
            .catalog()
            .volume(volume, handle)
            .map(VolumeRecord::view)
    }

    async fn list_volumes(
        &self,
        page_max: usize,
        token: Option<&str>,
    ) -> Result<Page<VolumeRef>, ProviderError> {
        self.inner
            .catalog()
            .list_volumes(&self.inner.token_key, page_max, token)
    }

    async fn stat_volume(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
    ) -> Result<VolumeStat, ProviderError> {
        let volume = volume.clone();
        self.work("stat volume", &[], move |inner| {
            let record = inner.catalog().volume(&volume, handle)?.clone();
            let file = File::open(inner.layout.volume(record.handle).data());
            let allocated_bytes = file.and_then(|file| allocated_bytes(&file)).map_err(|source| {
                ProviderError::Unavailable {
                    operation: "stat volume",
                    source,
                }
            })?;
            Ok(VolumeStat {
                capacity_bytes: record.capacity_bytes,
                allocated_bytes,
            })
        })
        .await
    }

    async fn expand_volume(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
        range: CapacityRange,
    ) -> Result<VolumeView, ProviderError> {
        let (key, volume) = (ObjectKey::Volume(volume.clone()), volume.clone());
        self.work("expand volume", &[key], move |inner| {
            inner.expand(&volume, handle, range)
        })
        .await
    }

    async fn publish_volume(&self, request: PublishVolume) -> Result<Publication, ProviderError> {
        let key = ObjectKey::Volume(request.volume.clone());
        self.work("publish volume", &[key], move |inner| inner.publish(&request))
            .await
    }

    async fn find_publication(&self, volume: &VolumeId) -> Result<Option<Publication>, ProviderError> {
        self.inner.catalog().find_publication(volume)
    }

    async fn unpublish_volume(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
        node: &NodeId,
    ) -> Result<Unpublication, ProviderError> {
        let (key, volume, node) = (ObjectKey::Volume(volume.clone()), volume.clone(), node.clone());
        self.work("unpublish volume", &[key], move |inner| {
            inner.unpublish(&volume, handle, &node)
        })
        .await
    }

    async fn delete_volume(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
    ) -> Result<Deletion, ProviderError> {
        let (key, volume) = (ObjectKey::Volume(volume.clone()), volume.clone());
        self.work("delete volume", &[key], move |inner| {
            inner.delete_volume(&volume, handle)
        })
        .await
    }

    async fn create_snapshot(&self, request: CreateSnapshot) -> Result<SnapshotView, ProviderError> {
        let keys = [
            ObjectKey::Volume(request.volume.clone()),
            ObjectKey::Snapshot(request.snapshot.clone()),
        ];
        self.work("create snapshot", &keys, move |inner| {
            inner.create_snapshot(&request)
        })
        .await
    }

    async fn import_snapshot(
        &self,
        request: ImportSnapshot,
        file: &Path,
    ) -> Result<SnapshotView, ProviderError> {
        let (key, path) = (ObjectKey::Snapshot(request.snapshot.clone()), file.to_owned());
        self.work("import snapshot", &[key], move |inner| {
            inner.import_snapshot(&request, &path)
        })
        .await
    }

    async fn copy_snapshot(
        &self,
        source: &SnapshotId,
        destination: &SnapshotId,
        source_volume: &VolumeId,
    ) -> Result<SnapshotView, ProviderError> {
        let keys = [
            ObjectKey::Snapshot(source.clone()),
            ObjectKey::Snapshot(destination.clone()),
        ];
        let (source, destination, source_volume) =
            (source.clone(), destination.clone(), source_volume.clone());
        let work = move |inner: &Inner| inner.copy_snapshot(&source, &destination, &source_volume);
        self.work("copy snapshot", &keys, work).await
    }

    async fn fetch_snapshot(
        &self,
        snapshot: &SnapshotId,
        handle: Option<SnapshotHandle>,
    ) -> Result<SnapshotView, ProviderError> {
        self.inner
            .catalog()
            .snapshot(snapshot, handle)
            .map(|record| record.view.clone())
    }

    async fn list_snapshots(
        &self,
        page_max: usize,
        token: Option<&str>,
    ) -> Result<Page<SnapshotRef>, ProviderError> {
        self.inner
            .catalog()
            .list_snapshots(&self.inner.token_key, page_max, token)
    }

    async fn stat_snapshot(
        &self,
        snapshot: &SnapshotId,
        handle: Option<SnapshotHandle>,
    ) -> Result<SnapshotStat, ProviderError> {
        let snapshot = snapshot.clone();
        self.work("stat snapshot", &[], move |inner| {
            let view = inner.catalog().snapshot(&snapshot, handle)?.view.clone();
            let file = File::open(snapshot_data(&inner.layout.snapshot(view.handle)));
            let allocated_bytes = file.and_then(|file| allocated_bytes(&file)).map_err(|source| {
                ProviderError::Unavailable {
                    operation: "stat snapshot",
                    source,
                }
            })?;
            Ok(SnapshotStat {
                size_bytes: view.size_bytes,
                allocated_bytes,
            })
        })
        .await
    }

    async fn delete_snapshot(
        &self,
        snapshot: &SnapshotId,
        handle: Option<SnapshotHandle>,
    ) -> Result<Deletion, ProviderError> {
        let (key, snapshot) = (ObjectKey::Snapshot(snapshot.clone()), snapshot.clone());
        self.work("delete snapshot", &[key], move |inner| {
            inner.delete_snapshot(&snapshot, handle)
        })
        .await
    }

    async fn open_volume(&self, request: OpenVolume) -> Result<Arc<dyn BlockDevice>, ProviderError> {
        let record = self
            .inner
            .catalog()
            .volume(&request.volume, Some(request.handle))?
            .clone();
        if record.ownership.publication.is_none() {
            return Err(ProviderError::NotPublished(request.volume));
        }
        open_published(self.inner.layout.root(), self.inner.reserve_bytes, request).await
    }

    async fn open_snapshot(
        &self,
        snapshot: &SnapshotId,
        handle: Option<SnapshotHandle>,
    ) -> Result<Arc<dyn BlockDevice>, ProviderError> {
        let snapshot = snapshot.clone();
        self.work("open snapshot", &[], move |inner| {
            let view = inner.catalog().snapshot(&snapshot, handle)?.view.clone();
            let object = ObjectName::from(&snapshot);
            let path = snapshot_data(&inner.layout.snapshot(view.handle));
            let device = host_file(&path, true)
                .and_then(|file| FileDevice::new(Box::new(file), None, true, inner.reserve_bytes))
                .map_err(|source| ProviderError::Unreadable { object, source })?;
            Ok(Arc::new(device) as Arc<dyn BlockDevice>)
        })
        .await
    }
}
