//! Plans of the calls on snapshots: create, import, copy, delete. Pure; the table of requirements/ebs.md §3.5 row by row.
//! Providers call these, do what they say, and change the catalog last.

use super::{
    Catalog, DeletePlan, SnapshotPlan, SnapshotRecord, check_capacity, check_completed, check_source_volume,
    invalid,
};
use crate::id::{SnapshotHandle, SnapshotId, VolumeId};
use crate::limits;
use crate::provider::{
    Argument, Capabilities, CapacityRange, CreateSnapshot, Deletion, ImportSnapshot, ProviderError,
    SnapshotOrigin, SnapshotState, SnapshotView,
};

impl Catalog {
    /// Plans CreateSnapshot.
    pub fn plan_create_snapshot(
        &self,
        request: &CreateSnapshot,
        capabilities: &Capabilities,
        now_unix_ms: u64,
    ) -> Result<SnapshotPlan, ProviderError> {
        if let Some(existing) = self.find_snapshot(&request.snapshot)? {
            let same = existing.view.source_volume == request.volume
                && matches!(&existing.origin, SnapshotOrigin::Cut { source_handle }
                    if request.volume_handle.is_none_or(|handle| handle == *source_handle));
            return existing_or_conflict(existing, same);
        }
        let source = self.volume(&request.volume, request.volume_handle)?;
        if source.ownership.publication.is_some() && !capabilities.crash_consistent_snapshot {
            return Err(ProviderError::VolumeInUse(request.volume.clone()));
        }
        Ok(SnapshotPlan::New(SnapshotRecord {
            view: SnapshotView {
                snapshot: request.snapshot.clone(),
                handle: SnapshotHandle::mint(),
                size_bytes: source.capacity_bytes,
                created_at_unix_ms: now_unix_ms,
                state: SnapshotState::Completed,
                source_volume: request.volume.clone(),
            },
            origin: SnapshotOrigin::Cut {
                source_handle: source.handle,
            },
        }))
    }

    /// The snapshot that the same import made before. It needs no file any more.
    pub fn find_import(&self, request: &ImportSnapshot) -> Result<Option<SnapshotView>, ProviderError> {
        let Some(existing) = self.find_snapshot(&request.snapshot)? else {
            return Ok(None);
        };
        let same = matches!(&existing.origin, SnapshotOrigin::Import { digest } if *digest == request.digest)
            && existing.view.source_volume == request.source_volume;
        if same {
            Ok(Some(existing.view.clone()))
        } else {
            Err(conflict(existing))
        }
    }

    /// The record of a new import of a file of `file_bytes`; [`Self::find_import`] found none.
    pub fn plan_import_snapshot(
        &self,
        request: &ImportSnapshot,
        file_bytes: u64,
        capabilities: &Capabilities,
        now_unix_ms: u64,
    ) -> Result<SnapshotRecord, ProviderError> {
        const OPERATION: &str = "import snapshot";
        if file_bytes == 0 {
            return Err(invalid(OPERATION, Argument::ImportFile));
        }
        let size_bytes = file_bytes.next_multiple_of(limits::BLOCK_BYTES);
        check_capacity(
            OPERATION,
            CapacityRange::exactly(size_bytes),
            capabilities.volume_bytes_max,
        )?;
        Ok(SnapshotRecord {
            view: SnapshotView {
                snapshot: request.snapshot.clone(),
                handle: SnapshotHandle::mint(),
                size_bytes,
                created_at_unix_ms: now_unix_ms,
                state: SnapshotState::Completed,
                source_volume: request.source_volume.clone(),
            },
            origin: SnapshotOrigin::Import {
                digest: request.digest.clone(),
            },
        })
    }

    /// Plans CopySnapshot.
    pub fn plan_copy_snapshot(
        &self,
        source: &SnapshotId,
        destination: &SnapshotId,
        source_volume: &VolumeId,
        now_unix_ms: u64,
    ) -> Result<(SnapshotPlan, Option<SnapshotHandle>), ProviderError> {
        const OPERATION: &str = "copy snapshot";
        if source == destination {
            return Err(invalid(OPERATION, Argument::CopyOntoItself(source.clone())));
        }
        let origin = SnapshotOrigin::Copy { of: source.clone() };
        if let Some(existing) = self.find_snapshot(destination)? {
            let same = existing.origin == origin && existing.view.source_volume == *source_volume;
            return Ok((existing_or_conflict(existing, same)?, None));
        }
        let record = self.snapshot(source, None)?;
        check_source_volume(OPERATION, &record.view, source_volume)?;
        check_completed(OPERATION, &record.view)?;
        let view = SnapshotView {
            snapshot: destination.clone(),
            handle: SnapshotHandle::mint(),
            created_at_unix_ms: now_unix_ms,
            ..record.view.clone()
        };
        Ok((
            SnapshotPlan::New(SnapshotRecord { view, origin }),
            Some(record.view.handle),
        ))
    }

    /// Plans DeleteSnapshot.
    pub fn plan_delete_snapshot(
        &self,
        snapshot: &SnapshotId,
        handle: Option<SnapshotHandle>,
    ) -> Result<DeletePlan<SnapshotRecord>, ProviderError> {
        let Some(record) = self.find_snapshot(snapshot)? else {
            return Ok(DeletePlan::Nothing(Deletion::AlreadyGone));
        };
        if handle.is_some_and(|handle| handle != record.view.handle) {
            return Ok(DeletePlan::Nothing(Deletion::OtherIncarnation));
        }
        Ok(DeletePlan::Remove(record.clone()))
    }
}

fn existing_or_conflict(existing: &SnapshotRecord, same: bool) -> Result<SnapshotPlan, ProviderError> {
    if same {
        Ok(SnapshotPlan::Existing(existing.view.clone()))
    } else {
        Err(conflict(existing))
    }
}

fn conflict(existing: &SnapshotRecord) -> ProviderError {
    ProviderError::AlreadyExists((&existing.view.snapshot).into())
}
