//! The provider `memory`: the contract without a disk, for tests of whatever uses a provider.
//!
//! Volumes are maps of blocks; a snapshot is a copy of the map that shares the blocks. Everything is lost with the process;
//! nothing is durable, and nobody outside the process can open a volume. One lock over everything keeps each call atomic.

mod device;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::device::BlockDevice;
use crate::durable::now_unix_ms;
use crate::export::{export_directory, nbd_socket};
use crate::id::{NodeId, SnapshotHandle, SnapshotId, VolumeHandle, VolumeId};
use crate::limits;
use crate::provider::catalog::{
    Catalog, CreateVolumePlan, DeletePlan, Entry, ExpandPlan, PublishPlan, SnapshotPlan, SnapshotRecord,
    VolumeRecord,
};
use crate::provider::token::TokenKey;
use crate::provider::{
    Capabilities, CapacityRange, CreateSnapshot, CreateVolume, Deletion, Exclusion, ExclusionScope,
    ExportAddress, ImportSnapshot, OpenVolume, Page, ProviderError, Publication, PublishVolume, SealReceipt,
    SealedBy, SnapshotRef, SnapshotStat, SnapshotView, Unpublication, VolumeProvider, VolumeRef,
    VolumeSource, VolumeStat, VolumeView,
};
use device::{Content, MemoryDevice, VolumeCell};

/// See the module.
#[derive(Debug)]
pub struct MemoryPool {
    exports: PathBuf,
    capabilities: Capabilities,
    token_key: TokenKey,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    catalog: Catalog,
    volumes: HashMap<VolumeHandle, Arc<VolumeCell>>,
    snapshots: HashMap<SnapshotHandle, Arc<Content>>,
}

impl MemoryPool {
    /// An empty pool whose publications name sockets below `exports`.
    pub fn new(exports: PathBuf) -> Self {
        Self {
            exports,
            capabilities: Capabilities {
                incarnation: VolumeHandle::mint().to_string(),
                online_expansion: true,
                sparse_extent_reporting: true,
                crash_consistent_snapshot: true,
                volume_seeding: true,
                read_only_publish: true,
                volume_enumeration: true,
                snapshot_enumeration: true,
                owner_routing: false,
                exclusion: Exclusion {
                    scope: ExclusionScope::Node,
                    claim_ttl_seconds: 0,
                    fences_lost_claim: true,
                },
                volume_bytes_max: limits::VOLUME_BYTES_MAX,
            },
            token_key: TokenKey::new(rand::random()),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn cell(&self, handle: VolumeHandle) -> Result<Arc<VolumeCell>, ProviderError> {
        self.volumes
            .get(&handle)
            .cloned()
            .ok_or_else(|| ProviderError::Internal {
                operation: "finding a volume",
                step: "looking up its content",
                source: io::ErrorKind::NotFound.into(),
            })
    }

    fn content(&self, handle: SnapshotHandle) -> Result<Arc<Content>, ProviderError> {
        self.snapshots
            .get(&handle)
            .cloned()
            .ok_or_else(|| ProviderError::Internal {
                operation: "finding a snapshot",
                step: "looking up its content",
                source: io::ErrorKind::NotFound.into(),
            })
    }

    fn put_snapshot(&mut self, record: SnapshotRecord, content: Arc<Content>) -> SnapshotView {
        let view = record.view.clone();
        self.snapshots.insert(view.handle, content);
        self.catalog
            .snapshots
            .insert(view.snapshot.clone(), Entry::Readable(record));
        view
    }
}

#[async_trait]
impl VolumeProvider for MemoryPool {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn create_volume(&self, request: CreateVolume) -> Result<VolumeView, ProviderError> {
        let mut state = self.state();
        let (record, clone_of) = match state.catalog.plan_create_volume(&request, &self.capabilities)? {
            CreateVolumePlan::Existing(view) => return Ok(view),
            CreateVolumePlan::New { record, clone_of } => (record, clone_of),
        };
        let mut content = match clone_of {
            Some(snapshot) => Content::clone(&*state.content(snapshot.view.handle)?),
            None => Content::default(),
        };
        if let VolumeSource::Seed { bytes } = &request.source {
            content.write(0, bytes);
        }
        content.size = record.capacity_bytes;
        let view = record.view();
        state
            .volumes
            .insert(record.handle, Arc::new(VolumeCell::new(content)));
        state
            .catalog
            .volumes
            .insert(record.volume.clone(), Entry::Readable(*record));
        Ok(view)
    }

    async fn fetch_volume(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
    ) -> Result<VolumeView, ProviderError> {
        self.state()
            .catalog
            .volume(volume, handle)
            .map(VolumeRecord::view)
    }

    async fn list_volumes(
        &self,
        page_max: usize,
        token: Option<&str>,
    ) -> Result<Page<VolumeRef>, ProviderError> {
        self.state()
            .catalog
            .list_volumes(&self.token_key, page_max, token)
    }

    async fn stat_volume(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
    ) -> Result<VolumeStat, ProviderError> {
        let state = self.state();
        let record = state.catalog.volume(volume, handle)?;
        let allocated_bytes = state.cell(record.handle)?.content().allocated_bytes();
        Ok(VolumeStat {
            capacity_bytes: record.capacity_bytes,
            allocated_bytes,
        })
    }

    async fn expand_volume(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
        range: CapacityRange,
    ) -> Result<VolumeView, ProviderError> {
        let mut state = self.state();
        let record = match state
            .catalog
            .plan_expand(volume, handle, range, &self.capabilities)?
        {
            ExpandPlan::Unchanged(view) => return Ok(view),
            ExpandPlan::Grow(record) => record,
        };
        state.cell(record.handle)?.content().size = record.capacity_bytes;
        let view = record.view();
        state
            .catalog
            .volumes
            .insert(volume.clone(), Entry::Readable(record));
        Ok(view)
    }

    async fn publish_volume(&self, request: PublishVolume) -> Result<Publication, ProviderError> {
        let mut state = self.state();
        let export_of = |handle| ExportAddress::NbdUnix {
            socket: nbd_socket(&export_directory(&self.exports, handle)),
        };
        let publication = match state
            .catalog
            .plan_publish(&request, &self.capabilities, export_of)?
        {
            PublishPlan::Existing(publication) => return Ok(publication),
            PublishPlan::New(publication) => publication,
        };
        state
            .cell(publication.handle)?
            .raise_fence(publication.generation);
        if let Some(Entry::Readable(record)) = state.catalog.volumes.get_mut(&request.volume) {
            record.ownership.last_generation = publication.generation;
            record.ownership.publication = Some(publication.clone());
        }
        Ok(publication)
    }

    async fn find_publication(&self, volume: &VolumeId) -> Result<Option<Publication>, ProviderError> {
        self.state().catalog.find_publication(volume)
    }

    async fn unpublish_volume(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
        node: &NodeId,
    ) -> Result<Unpublication, ProviderError> {
        let mut state = self.state();
        let Some(publication) = state.catalog.plan_unpublish(volume, handle, node)? else {
            return Ok(Unpublication::NothingPublished);
        };
        let cell = state.cell(publication.handle)?;
        if cell.is_open() {
            let source = io::Error::new(io::ErrorKind::ResourceBusy, "the volume is still open");
            return Err(ProviderError::Unavailable {
                operation: "unpublish volume",
                source,
            });
        }
        let receipt = SealReceipt {
            volume: volume.clone(),
            handle: publication.handle,
            generation: publication.generation,
            sealed_by: match cell.last_opened() {
                Some((generation, sealed)) if generation == publication.generation => {
                    if sealed {
                        SealedBy::Owner
                    } else {
                        SealedBy::Unpublish
                    }
                }
                _ => SealedBy::NeverOpened,
            },
            sync_failed: false,
            sealed_at_unix_ms: now_unix_ms(),
        };
        if let Some(Entry::Readable(record)) = state.catalog.volumes.get_mut(volume) {
            record.ownership.publication = None;
        }
        Ok(Unpublication::Sealed(receipt))
    }

    async fn delete_volume(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
    ) -> Result<Deletion, ProviderError> {
        let mut state = self.state();
        match state.catalog.plan_delete_volume(volume, handle)? {
            DeletePlan::Nothing(deletion) => Ok(deletion),
            DeletePlan::Remove(record) => {
                state.catalog.volumes.remove(volume);
                state.volumes.remove(&record.handle);
                Ok(Deletion::Deleted)
            }
        }
    }

    async fn create_snapshot(&self, request: CreateSnapshot) -> Result<SnapshotView, ProviderError> {
        let mut state = self.state();
        let plan = state
            .catalog
            .plan_create_snapshot(&request, &self.capabilities, now_unix_ms())?;
        let record = match plan {
            SnapshotPlan::Existing(view) => return Ok(view),
            SnapshotPlan::New(record) => record,
        };
        let source = state
            .catalog
            .volume(&request.volume, request.volume_handle)?
            .handle;
        let content = Content::clone(&state.cell(source)?.content());
        Ok(state.put_snapshot(record, Arc::new(content)))
    }

    async fn import_snapshot(
        &self,
        request: ImportSnapshot,
        file: &Path,
    ) -> Result<SnapshotView, ProviderError> {
        if let Some(view) = self.state().catalog.find_import(&request)? {
            return Ok(view);
        }
        let read = tokio::fs::read(file).await;
        let bytes = read.map_err(|source| ProviderError::Internal {
            operation: "import snapshot",
            step: "reading the file",
            source,
        })?;
        let mut state = self.state();
        // Another import may have finished while this one read.
        if let Some(view) = state.catalog.find_import(&request)? {
            return Ok(view);
        }
        let length = bytes.len() as u64;
        let record =
            state
                .catalog
                .plan_import_snapshot(&request, length, &self.capabilities, now_unix_ms())?;
        let mut content = Content::default();
        content.size = record.view.size_bytes;
        content.write_sparse(&bytes);
        Ok(state.put_snapshot(record, Arc::new(content)))
    }

    async fn copy_snapshot(
        &self,
        source: &SnapshotId,
        destination: &SnapshotId,
        source_volume: &VolumeId,
    ) -> Result<SnapshotView, ProviderError> {
        let mut state = self.state();
        match state
            .catalog
            .plan_copy_snapshot(source, destination, source_volume, now_unix_ms())?
        {
            (SnapshotPlan::New(record), Some(handle)) => {
                let content = state.content(handle)?;
                Ok(state.put_snapshot(record, content))
            }
            (SnapshotPlan::Existing(view) | SnapshotPlan::New(SnapshotRecord { view, .. }), _) => Ok(view),
        }
    }

    async fn fetch_snapshot(
        &self,
        snapshot: &SnapshotId,
        handle: Option<SnapshotHandle>,
    ) -> Result<SnapshotView, ProviderError> {
        self.state()
            .catalog
            .snapshot(snapshot, handle)
            .map(|record| record.view.clone())
    }

    async fn list_snapshots(
        &self,
        page_max: usize,
        token: Option<&str>,
    ) -> Result<Page<SnapshotRef>, ProviderError> {
        self.state()
            .catalog
            .list_snapshots(&self.token_key, page_max, token)
    }

    async fn stat_snapshot(
        &self,
        snapshot: &SnapshotId,
        handle: Option<SnapshotHandle>,
    ) -> Result<SnapshotStat, ProviderError> {
        let state = self.state();
        let view = &state.catalog.snapshot(snapshot, handle)?.view;
        let allocated_bytes = state.content(view.handle)?.allocated_bytes();
        Ok(SnapshotStat {
            size_bytes: view.size_bytes,
            allocated_bytes,
        })
    }

    async fn delete_snapshot(
        &self,
        snapshot: &SnapshotId,
        handle: Option<SnapshotHandle>,
    ) -> Result<Deletion, ProviderError> {
        let mut state = self.state();
        match state.catalog.plan_delete_snapshot(snapshot, handle)? {
            DeletePlan::Nothing(deletion) => Ok(deletion),
            DeletePlan::Remove(record) => {
                state.catalog.snapshots.remove(snapshot);
                state.snapshots.remove(&record.view.handle);
                Ok(Deletion::Deleted)
            }
        }
    }

    async fn open_volume(&self, request: OpenVolume) -> Result<Arc<dyn BlockDevice>, ProviderError> {
        let state = self.state();
        let record = state.catalog.volume(&request.volume, Some(request.handle))?;
        let Some(publication) = &record.ownership.publication else {
            return Err(ProviderError::NotPublished(request.volume));
        };
        if publication.generation != request.generation {
            return Err(ProviderError::Fenced {
                volume: request.volume,
                held: request.generation,
                current: publication.generation,
            });
        }
        let read_only = publication.read_only;
        match state.cell(request.handle)?.open(request.generation) {
            Some(tenure) => Ok(Arc::new(MemoryDevice::of_volume(tenure, read_only))),
            None => Err(ProviderError::VolumeInUse(request.volume)),
        }
    }

    async fn open_snapshot(
        &self,
        snapshot: &SnapshotId,
        handle: Option<SnapshotHandle>,
    ) -> Result<Arc<dyn BlockDevice>, ProviderError> {
        let state = self.state();
        let handle = state.catalog.snapshot(snapshot, handle)?.view.handle;
        let content = Content::clone(&*state.content(handle)?);
        Ok(Arc::new(MemoryDevice::of_snapshot(content)))
    }
}
