//! The keeper's work on snapshots: cut, import, copy, delete. Every function blocks, runs under the turns of what it touches,
//! and leaves the catalog as the disk is.

use std::fs::{File, OpenOptions};
use std::path::Path;

use super::keeper::{BuildError, Inner, in_doubt, internal};
use super::layout::{MoveError, put_snapshot_record, snapshot_data};
use super::sparse::Content;
use crate::durable::now_unix_ms;
use crate::id::{SnapshotHandle, SnapshotId, VolumeId};
use crate::limits;
use crate::provider::catalog::{DeletePlan, Entry, SnapshotPlan, SnapshotRecord};
use crate::provider::{
    Argument, CreateSnapshot, Deletion, ImportSnapshot, ObjectName, ProviderError, SnapshotView,
};

impl Inner {
    pub(super) fn create_snapshot(&self, request: &CreateSnapshot) -> Result<SnapshotView, ProviderError> {
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

    pub(super) fn import_snapshot(
        &self,
        request: &ImportSnapshot,
        path: &Path,
    ) -> Result<SnapshotView, ProviderError> {
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

    pub(super) fn copy_snapshot(
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

    pub(super) fn delete_snapshot(
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
