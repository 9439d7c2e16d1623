//! The contract's rules, once for all providers: which request creates, returns, refuses or removes what.
//!
//! A [`Catalog`] holds what a provider knows of its objects and *plans*: it looks at a request and answers what is to be
//! done, without doing it. The provider does the work, makes it durable, and only then puts the result into the catalog. Reads and refusals
//! change nothing. An object whose record cannot be read stays in the catalog as unreadable: it blocks its id, and listings
//! fail rather than leave it out.

mod snapshots;
mod volumes;

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::token::{ListKind, TokenKey};
use super::{
    Argument, CapacityRange, CreateVolume, Deletion, ObjectName, Page, ProviderError, Publication,
    SnapshotOrigin, SnapshotRef, SnapshotState, SnapshotView, VolumeRef, VolumeSource, VolumeState,
    VolumeView,
};
use crate::id::{Generation, SnapshotHandle, SnapshotId, VolumeHandle, VolumeId};
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
