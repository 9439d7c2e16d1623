//! The contract's rules, once for all providers: which request creates, returns, refuses or removes what.
//!
//! A [`Catalog`] holds what a provider knows of its objects and *plans*: it looks at a request and answers what is to be
//! done, without doing it. The provider does the work, makes it durable, and only then puts the result into the catalog. Reads and refusals
//! change nothing. An object whose record cannot be read stays in the catalog as unreadable: it blocks its id, and listings
//! fail rather than leave it out.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::token::{ListKind, TokenKey};
use super::{
    Argument, Capabilities, Capability, CapacityRange, CreateSnapshot, CreateVolume, Deletion, ExportAddress,
    ImportSnapshot, ObjectName, Page, ProviderError, Publication, PublishVolume, SnapshotOrigin, SnapshotRef,
    SnapshotState, SnapshotView, VolumeRef, VolumeSource, VolumeState, VolumeView,
};
use crate::id::{Generation, NodeId, SnapshotHandle, SnapshotId, VolumeHandle, VolumeId};
use crate::limits;

/// A CreateVolume request as it is kept and compared; the seed by its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginalRequest {
    /// As given.
    pub capacity: CapacityRange,
    /// As given.
    pub zone: Option<String>,
    /// As given.
    pub source: OriginalSource,
    /// As given.
    pub parameters: BTreeMap<String, String>,
}

/// [`VolumeSource`] as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum OriginalSource {
    /// Zeros.
    Blank,
    /// First bytes.
    Seed {
        /// SHA-256 in hex.
        sha256: String,
    },
    /// A clone.
    Snapshot {
        /// The snapshot.
        snapshot: SnapshotId,
        /// The volume it was cut from.
        source_volume: VolumeId,
    },
}

impl From<&CreateVolume> for OriginalRequest {
    fn from(request: &CreateVolume) -> Self {
        Self {
            capacity: request.capacity,
            zone: request.zone.clone(),
            source: match &request.source {
                VolumeSource::Blank => OriginalSource::Blank,
                VolumeSource::Seed { bytes } => OriginalSource::Seed {
                    sha256: hex::encode(Sha256::digest(bytes)),
                },
                VolumeSource::Snapshot {
                    snapshot,
                    source_volume,
                } => OriginalSource::Snapshot {
                    snapshot: snapshot.clone(),
                    source_volume: source_volume.clone(),
                },
            },
            parameters: request.parameters.clone(),
        }
    }
}

/// What a provider keeps of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeRecord {
    /// Its id.
    pub volume: VolumeId,
    /// Its incarnation.
    pub handle: VolumeHandle,
    /// Its capacity now.
    pub capacity_bytes: u64,
    /// The request that made it.
    pub original: OriginalRequest,
    /// Who owns it.
    pub ownership: Ownership,
}

/// Who owns a volume.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ownership {
    /// The highest generation ever published.
    pub last_generation: Generation,
    /// The publication, if there is one; its generation is `last_generation`.
    pub publication: Option<Publication>,
}

impl VolumeRecord {
    /// What callers see.
    pub fn view(&self) -> VolumeView {
        VolumeView {
            volume: self.volume.clone(),
            handle: self.handle,
            capacity_bytes: self.capacity_bytes,
            state: if self.ownership.publication.is_some() {
                VolumeState::InUse
            } else {
                VolumeState::Available
            },
            zone: self.original.zone.clone(),
        }
    }
}

/// What a provider keeps of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotRecord {
    /// What callers see.
    pub view: SnapshotView,
    /// How it came to be.
    pub origin: SnapshotOrigin,
}

/// A record, or why it cannot be read.
#[derive(Debug, Clone)]
pub enum Entry<R> {
    /// The record.
    Readable(R),
    /// Why not.
    Unreadable {
        /// The kind of the error met.
        kind: io::ErrorKind,
        /// Its text.
        text: String,
    },
}

/// All that a provider knows.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Volumes by id.
    pub volumes: BTreeMap<VolumeId, Entry<VolumeRecord>>,
    /// Snapshots by id.
    pub snapshots: BTreeMap<SnapshotId, Entry<SnapshotRecord>>,
    /// Records that do not even tell their id, by where they are. They make every listing fail.
    pub nameless: Vec<String>,
}

/// What CreateVolume has to do.
#[derive(Debug)]
pub enum CreateVolumePlan {
    /// Nothing: it is there.
    Existing(VolumeView),
    /// Make it, from this snapshot if any.
    New {
        /// The record to publish once the bytes are durable.
        record: Box<VolumeRecord>,
        /// The snapshot to clone.
        clone_of: Option<SnapshotRecord>,
    },
}

/// What ExpandVolume has to do.
#[derive(Debug)]
pub enum ExpandPlan {
    /// Nothing: it is that large.
    Unchanged(VolumeView),
    /// Grow it.
    Grow(VolumeRecord),
}

/// What PublishVolume has to do.
#[derive(Debug)]
pub enum PublishPlan {
    /// Nothing: it is published so.
    Existing(Publication),
    /// Store this, then fence every lower generation.
    New(Publication),
}

/// What a call that makes a snapshot has to do.
#[derive(Debug)]
pub enum SnapshotPlan {
    /// Nothing: it is there.
    Existing(SnapshotView),
    /// Make it; the record's size is the source's.
    New(SnapshotRecord),
}

/// What a delete has to do.
#[derive(Debug)]
pub enum DeletePlan<R> {
    /// Nothing.
    Nothing(Deletion),
    /// Remove this.
    Remove(R),
}

fn invalid(operation: &'static str, source: Argument) -> ProviderError {
    ProviderError::InvalidArgument { operation, source }
}

fn unreadable(object: impl Into<ObjectName>, kind: io::ErrorKind, text: &str) -> ProviderError {
    ProviderError::Unreadable {
        object: object.into(),
        source: io::Error::new(kind, text.to_owned()),
    }
}

fn check_capacity(operation: &'static str, range: CapacityRange, max: u64) -> Result<(), ProviderError> {
    let required = range.required_bytes;
    if required == 0 || !required.is_multiple_of(limits::BLOCK_BYTES) {
        return Err(invalid(operation, Argument::CapacityUnaligned { required }));
    }
    if let Some(limit) = range.limit_bytes
        && required > limit
    {
        return Err(invalid(
            operation,
            Argument::CapacityAboveLimit { required, limit },
        ));
    }
    if required > max {
        return Err(invalid(operation, Argument::CapacityAboveMax { required, max }));
    }
    Ok(())
}

impl Catalog {
    /// The volume's record, whatever its incarnation; `None` only if it definitely does not exist.
    fn find_volume(&self, volume: &VolumeId) -> Result<Option<&VolumeRecord>, ProviderError> {
        match self.volumes.get(volume) {
            None => Ok(None),
            Some(Entry::Readable(record)) => Ok(Some(record)),
            Some(Entry::Unreadable { kind, text }) => Err(unreadable(volume, *kind, text)),
        }
    }

    fn find_snapshot(&self, snapshot: &SnapshotId) -> Result<Option<&SnapshotRecord>, ProviderError> {
        match self.snapshots.get(snapshot) {
            None => Ok(None),
            Some(Entry::Readable(record)) => Ok(Some(record)),
            Some(Entry::Unreadable { kind, text }) => Err(unreadable(snapshot, *kind, text)),
        }
    }

    /// The record of this incarnation of the volume.
    pub fn volume(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
    ) -> Result<&VolumeRecord, ProviderError> {
        self.find_volume(volume)?
            .filter(|record| handle.is_none_or(|handle| handle == record.handle))
            .ok_or_else(|| ProviderError::NotFound(volume.into()))
    }

    /// The record of this incarnation of the snapshot.
    pub fn snapshot(
        &self,
        snapshot: &SnapshotId,
        handle: Option<SnapshotHandle>,
    ) -> Result<&SnapshotRecord, ProviderError> {
        self.find_snapshot(snapshot)?
            .filter(|record| handle.is_none_or(|handle| handle == record.view.handle))
            .ok_or_else(|| ProviderError::NotFound(snapshot.into()))
    }

    /// The volume's publication, if it has one; unknown volumes have none.
    pub fn find_publication(&self, volume: &VolumeId) -> Result<Option<Publication>, ProviderError> {
        Ok(self
            .find_volume(volume)?
            .and_then(|record| record.ownership.publication.clone()))
    }

    /// Plans CreateVolume.
    pub fn plan_create_volume(
        &self,
        request: &CreateVolume,
        capabilities: &Capabilities,
    ) -> Result<CreateVolumePlan, ProviderError> {
        const OPERATION: &str = "create volume";
        check_capacity(OPERATION, request.capacity, capabilities.volume_bytes_max)?;
        let parameter_fits = |text: &String| text.len() <= limits::VOLUME_PARAMETER_LEN_MAX;
        if request.parameters.len() > limits::VOLUME_PARAMETERS_MAX
            || !request
                .parameters
                .iter()
                .all(|(key, value)| parameter_fits(key) && parameter_fits(value))
        {
            return Err(invalid(OPERATION, Argument::Parameters));
        }
        if let VolumeSource::Seed { bytes } = &request.source {
            if !capabilities.volume_seeding {
                return Err(ProviderError::UnsupportedCapability(Capability::VolumeSeeding));
            }
            let (seed, max) = (
                bytes.len() as u64,
                request.capacity.required_bytes.min(limits::SEED_BYTES_MAX),
            );
            if seed > max {
                return Err(invalid(OPERATION, Argument::SeedTooLarge { seed, max }));
            }
        }
        let original = OriginalRequest::from(request);
        if let Some(existing) = self.find_volume(&request.volume)? {
            return if existing.original == original {
                Ok(CreateVolumePlan::Existing(existing.view()))
            } else {
                Err(ProviderError::AlreadyExists((&request.volume).into()))
            };
        }
        let clone_of = match &request.source {
            VolumeSource::Blank | VolumeSource::Seed { .. } => None,
            VolumeSource::Snapshot {
                snapshot,
                source_volume,
            } => {
                let record = self.snapshot(snapshot, None)?;
                check_source_volume(OPERATION, &record.view, source_volume)?;
                check_completed(OPERATION, &record.view)?;
                let (required, size) = (request.capacity.required_bytes, record.view.size_bytes);
                if required < size {
                    return Err(invalid(
                        OPERATION,
                        Argument::CapacityBelowSnapshot {
                            required,
                            snapshot: size,
                        },
                    ));
                }
                Some(record.clone())
            }
        };
        Ok(CreateVolumePlan::New {
            record: Box::new(VolumeRecord {
                volume: request.volume.clone(),
                handle: VolumeHandle::mint(),
                capacity_bytes: request.capacity.required_bytes,
                original,
                ownership: Ownership::default(),
            }),
            clone_of,
        })
    }

    /// Plans ExpandVolume.
    pub fn plan_expand(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
        range: CapacityRange,
        capabilities: &Capabilities,
    ) -> Result<ExpandPlan, ProviderError> {
        const OPERATION: &str = "expand volume";
        check_capacity(OPERATION, range, capabilities.volume_bytes_max)?;
        let record = self.volume(volume, handle)?;
        let (required, current) = (range.required_bytes, record.capacity_bytes);
        if required < current {
            return Err(invalid(
                OPERATION,
                Argument::CapacityBelowCurrent { required, current },
            ));
        }
        if required == current {
            return Ok(ExpandPlan::Unchanged(record.view()));
        }
        if record.ownership.publication.is_some() && !capabilities.online_expansion {
            return Err(ProviderError::VolumeInUse(volume.clone()));
        }
        Ok(ExpandPlan::Grow(VolumeRecord {
            capacity_bytes: required,
            ..record.clone()
        }))
    }

    /// Plans PublishVolume; `export_of` names the address of an incarnation's export.
    pub fn plan_publish(
        &self,
        request: &PublishVolume,
        capabilities: &Capabilities,
        export_of: impl FnOnce(VolumeHandle) -> ExportAddress,
    ) -> Result<PublishPlan, ProviderError> {
        if request.read_only && !capabilities.read_only_publish {
            return Err(ProviderError::UnsupportedCapability(Capability::ReadOnlyPublish));
        }
        let record = self.volume(&request.volume, request.handle)?;
        let last = record.ownership.last_generation;
        let fenced = |held| ProviderError::Fenced {
            volume: request.volume.clone(),
            held,
            current: last,
        };
        let generation = match &record.ownership.publication {
            Some(live) => {
                if live.node != request.node || live.read_only != request.read_only {
                    return Err(ProviderError::VolumeInUse(request.volume.clone()));
                }
                match request.generation {
                    None => return Ok(PublishPlan::Existing(live.clone())),
                    Some(generation) if generation == live.generation => {
                        return Ok(PublishPlan::Existing(live.clone()));
                    }
                    Some(generation) if generation < live.generation => return Err(fenced(generation)),
                    Some(generation) => generation,
                }
            }
            None => match request.generation {
                None => last.next(),
                Some(generation) if generation <= last => return Err(fenced(generation)),
                Some(generation) => generation,
            },
        };
        Ok(PublishPlan::New(Publication {
            volume: request.volume.clone(),
            handle: record.handle,
            node: request.node.clone(),
            read_only: request.read_only,
            generation,
            export: export_of(record.handle),
        }))
    }

    /// The publication that UnpublishVolume has to seal and end, if any.
    pub fn plan_unpublish(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
        node: &NodeId,
    ) -> Result<Option<Publication>, ProviderError> {
        let publication = self.find_publication(volume)?;
        Ok(
            publication
                .filter(|live| live.node == *node && handle.is_none_or(|handle| handle == live.handle)),
        )
    }

    /// Plans DeleteVolume.
    pub fn plan_delete_volume(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
    ) -> Result<DeletePlan<VolumeRecord>, ProviderError> {
        let Some(record) = self.find_volume(volume)? else {
            return Ok(DeletePlan::Nothing(Deletion::AlreadyGone));
        };
        if handle.is_some_and(|handle| handle != record.handle) {
            return Ok(DeletePlan::Nothing(Deletion::OtherIncarnation));
        }
        if record.ownership.publication.is_some() {
            return Err(ProviderError::VolumeInUse(volume.clone()));
        }
        Ok(DeletePlan::Remove(record.clone()))
    }

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

    /// One page of volumes.
    pub fn list_volumes(
        &self,
        key: &TokenKey,
        page_max: usize,
        token: Option<&str>,
    ) -> Result<Page<VolumeRef>, ProviderError> {
        let after = open_token(key, ListKind::Volumes, "list volumes", token, VolumeId::new)?;
        self.list(&self.volumes, after, page_max, |record| VolumeRef {
            volume: record.volume.clone(),
            handle: record.handle,
        })
        .map(|(items, more)| Page {
            next_token: items
                .last()
                .filter(|_| more)
                .map(|last| key.issue(ListKind::Volumes, last.volume.as_str())),
            items,
        })
    }

    /// One page of snapshots.
    pub fn list_snapshots(
        &self,
        key: &TokenKey,
        page_max: usize,
        token: Option<&str>,
    ) -> Result<Page<SnapshotRef>, ProviderError> {
        let after = open_token(key, ListKind::Snapshots, "list snapshots", token, SnapshotId::new)?;
        self.list(&self.snapshots, after, page_max, |record| SnapshotRef {
            snapshot: record.view.snapshot.clone(),
            handle: record.view.handle,
            source_volume: record.view.source_volume.clone(),
        })
        .map(|(items, more)| Page {
            next_token: items
                .last()
                .filter(|_| more)
                .map(|last| key.issue(ListKind::Snapshots, last.snapshot.as_str())),
            items,
        })
    }

    /// The rows after `after`, and whether there are more. Any unreadable record of the kind fails the list.
    fn list<K: Ord + std::fmt::Display, R, T>(
        &self,
        entries: &BTreeMap<K, Entry<R>>,
        after: Option<K>,
        page_max: usize,
        row: impl Fn(&R) -> T,
    ) -> Result<(Vec<T>, bool), ProviderError> {
        if let Some(place) = self.nameless.first() {
            return Err(ProviderError::ListUnreadable {
                unreadable: place.clone(),
            });
        }
        let page = if page_max == 0 {
            limits::LIST_PAGE_MAX
        } else {
            page_max.min(limits::LIST_PAGE_MAX)
        };
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut range = entries.range((start, Bound::Unbounded));
        let mut rows = Vec::new();
        for (id, entry) in range.by_ref().take(page) {
            match entry {
                Entry::Readable(record) => rows.push(row(record)),
                Entry::Unreadable { .. } => {
                    return Err(ProviderError::ListUnreadable {
                        unreadable: id.to_string(),
                    });
                }
            }
        }
        Ok((rows, range.next().is_some()))
    }
}

fn open_token<K>(
    key: &TokenKey,
    kind: ListKind,
    operation: &'static str,
    token: Option<&str>,
    parse: impl Fn(String) -> Result<K, crate::id::ParseIdError>,
) -> Result<Option<K>, ProviderError> {
    let Some(token) = token else { return Ok(None) };
    let id = key
        .open(kind, token)
        .ok_or_else(|| invalid(operation, Argument::Token))?;
    parse(id)
        .map(Some)
        .map_err(|_| invalid(operation, Argument::Token))
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

fn check_source_volume(
    operation: &'static str,
    view: &SnapshotView,
    given: &VolumeId,
) -> Result<(), ProviderError> {
    if view.source_volume == *given {
        return Ok(());
    }
    Err(invalid(
        operation,
        Argument::SourceVolumeDiffers {
            snapshot: view.snapshot.clone(),
            actual: view.source_volume.clone(),
            given: given.clone(),
        },
    ))
}

fn check_completed(operation: &'static str, view: &SnapshotView) -> Result<(), ProviderError> {
    if view.state == SnapshotState::Completed {
        return Ok(());
    }
    Err(invalid(
        operation,
        Argument::SnapshotNotCompleted(view.snapshot.clone()),
    ))
}
