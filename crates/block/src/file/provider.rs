//! The contract on a `file` pool: each call takes the turns of the ids that it touches and hands the work to a blocking thread;
//! reads of the catalog are answered at once.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use super::backing::allocated_bytes;
use super::device::FileDevice;
use super::keeper::{FilePool, Inner, ObjectKey};
use super::layout::snapshot_data;
use super::open::{host_file, open_published};
use crate::device::BlockDevice;
use crate::id::{NodeId, SnapshotHandle, SnapshotId, VolumeHandle, VolumeId};
use crate::provider::catalog::VolumeRecord;
use crate::provider::{
    Capabilities, CapacityRange, CreateSnapshot, CreateVolume, Deletion, ImportSnapshot, ObjectName,
    OpenVolume, Page, ProviderError, Publication, PublishVolume, SnapshotRef, SnapshotStat, SnapshotView,
    Unpublication, VolumeProvider, VolumeRef, VolumeSource, VolumeStat, VolumeView,
};

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
