//! The keeper's work on volumes: create and clone, grow, publish and seal, delete. Every function blocks, runs under the
//! volume's turn, and leaves the catalog as the disk is.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

use bytes::Bytes;

use super::keeper::{BuildError, Inner, in_doubt, internal};
use super::layout::{MoveError, STORED_VERSION, StoredVolume, VolumeDirectory, snapshot_data};
use super::sparse::Content;
use crate::durable::{Found, now_unix_ms};
use crate::id::{NodeId, VolumeHandle, VolumeId};
use crate::limits;
use crate::provider::catalog::{CreateVolumePlan, DeletePlan, Entry, ExpandPlan, Ownership, PublishPlan};
use crate::provider::{
    CapacityRange, CreateVolume, Deletion, ObjectName, ProviderError, Publication, PublishVolume,
    SealReceipt, SealedBy, Unpublication, VolumeSource, VolumeView,
};

impl Inner {
    pub(super) fn create_volume(&self, request: &CreateVolume) -> Result<VolumeView, ProviderError> {
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
    pub(super) fn expand(
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

    pub(super) fn publish(&self, request: &PublishVolume) -> Result<Publication, ProviderError> {
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

    pub(super) fn unpublish(
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
    pub(super) fn delete_volume(
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
}
