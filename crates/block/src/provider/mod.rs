//! The provider contract: what stores volumes and snapshots, whichever engine does it.
//!
//! Binding text: requirements/ebs.md §3.5. In short:
//! * ids are the caller's, handles the provider's; a given handle that is not the live one means "another incarnation";
//! * every call may be repeated: the same create, publish, snapshot, copy or import returns the same object, and what is
//!   already gone is a success that says so;
//! * an error for which [`ProviderError::outcome`] says `Refused` changed nothing; `Unknown` happened wholly or not at
//!   all, and repeating the same call converges;
//! * only a definite "does not exist" creates or clones; half-made objects are never visible;
//! * source, snapshots and clones can be deleted in any order;
//! * one writer: `publish` names the generation that owns a volume, `open` takes the lock under exactly that generation,
//!   and a lower one can change nothing from then on.
//!
//! The order of use is create → publish → (export process) open → seal → unpublish → delete. The rules that do not depend
//! on where bytes are kept are in [`catalog`], once, for all providers.

pub mod catalog;
mod error;
mod request;
pub mod token;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

pub use error::{Argument, Capability, ObjectName, Outcome, ProviderError};
pub use request::{
    Capabilities, CapacityRange, CreateSnapshot, CreateVolume, Deletion, Exclusion, ExclusionScope,
    ExportAddress, ImportSnapshot, OpenVolume, Page, Publication, PublishVolume, SealReceipt, SealedBy,
    SnapshotOrigin, SnapshotRef, SnapshotStat, SnapshotState, SnapshotView, Unpublication, VolumeRef,
    VolumeSource, VolumeStat, VolumeState, VolumeView,
};

use crate::device::BlockDevice;
use crate::id::{NodeId, SnapshotHandle, SnapshotId, VolumeHandle, VolumeId};

/// Stores volumes and snapshots.
#[async_trait]
pub trait VolumeProvider: Send + Sync + std::fmt::Debug {
    /// What this provider process can do; constant while it lives.
    fn capabilities(&self) -> &Capabilities;

    /// Makes a volume, blank, seeded or from a completed snapshot, or returns the one that the same request made.
    /// A clone holds the snapshot's bytes, then zeros. Errors: invalid argument, already exists (another request),
    /// snapshot not found, no space.
    async fn create_volume(&self, request: CreateVolume) -> Result<VolumeView, ProviderError>;

    /// The volume; `NotFound` if it does not exist or is another incarnation.
    async fn fetch_volume(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
    ) -> Result<VolumeView, ProviderError>;

    /// One page of all volumes in id order; `page_max` 0 or above 1,000 means 1,000. Fails if any record is unreadable.
    async fn list_volumes(
        &self,
        page_max: usize,
        token: Option<&str>,
    ) -> Result<Page<VolumeRef>, ProviderError>;

    /// Capacity and allocated bytes.
    async fn stat_volume(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
    ) -> Result<VolumeStat, ProviderError>;

    /// Grows a volume to exactly `range.required_bytes`; equal is a no-op; added bytes read as zeros.
    async fn expand_volume(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
        range: CapacityRange,
    ) -> Result<VolumeView, ProviderError>;

    /// Gives a volume to one node under a generation, durably. Repeated for the same node: the existing publication; with
    /// a higher generation the older owner is fenced.
    async fn publish_volume(&self, request: PublishVolume) -> Result<Publication, ProviderError>;

    /// The volume's publication, if it has one.
    async fn find_publication(&self, volume: &VolumeId) -> Result<Option<Publication>, ProviderError>;

    /// Seals the volume if its owner did not, then ends the publication. Unknown volume, no publication at `node` or
    /// another incarnation: success without effect. `Unavailable` while a process still holds the volume.
    async fn unpublish_volume(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
        node: &NodeId,
    ) -> Result<Unpublication, ProviderError>;

    /// Removes a volume; `VolumeInUse` while published. Gone or another incarnation: success that says so.
    async fn delete_volume(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
    ) -> Result<Deletion, ProviderError>;

    /// Cuts a snapshot: every write answered before the call, none asked after the answer.
    async fn create_snapshot(&self, request: CreateSnapshot) -> Result<SnapshotView, ProviderError>;

    /// Makes a snapshot from a raw disk file (an image). Its size is the file's, rounded up to whole blocks.
    async fn import_snapshot(
        &self,
        request: ImportSnapshot,
        file: &Path,
    ) -> Result<SnapshotView, ProviderError>;

    /// Copies a completed snapshot of `source_volume`; the copy is deleted independently.
    async fn copy_snapshot(
        &self,
        source: &SnapshotId,
        destination: &SnapshotId,
        source_volume: &VolumeId,
    ) -> Result<SnapshotView, ProviderError>;

    /// The snapshot; `NotFound` if it does not exist or is another incarnation.
    async fn fetch_snapshot(
        &self,
        snapshot: &SnapshotId,
        handle: Option<SnapshotHandle>,
    ) -> Result<SnapshotView, ProviderError>;

    /// One page of all snapshots in id order, as [`VolumeProvider::list_volumes`].
    async fn list_snapshots(
        &self,
        page_max: usize,
        token: Option<&str>,
    ) -> Result<Page<SnapshotRef>, ProviderError>;

    /// Size and allocated bytes.
    async fn stat_snapshot(
        &self,
        snapshot: &SnapshotId,
        handle: Option<SnapshotHandle>,
    ) -> Result<SnapshotStat, ProviderError>;

    /// Removes a snapshot. Volumes and copies made from it stay as they are.
    async fn delete_snapshot(
        &self,
        snapshot: &SnapshotId,
        handle: Option<SnapshotHandle>,
    ) -> Result<Deletion, ProviderError>;

    /// Opens a published volume for I/O in this process under the generation of its publication; one open at a time.
    /// Errors: not found, fenced (not the publication's generation), in use (open elsewhere).
    async fn open_volume(&self, request: OpenVolume) -> Result<Arc<dyn BlockDevice>, ProviderError>;

    /// Opens a completed snapshot for reading.
    async fn open_snapshot(
        &self,
        snapshot: &SnapshotId,
        handle: Option<SnapshotHandle>,
    ) -> Result<Arc<dyn BlockDevice>, ProviderError>;
}
