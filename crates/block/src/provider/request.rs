//! Requests and views of the provider contract: plain data, no behaviour beyond small constructors.
//!
//! Requests of creating calls are kept with the object and compared on a retry, so they are serialisable; their stored form
//! is versioned by the providers' records, not here. `None` means omitted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::id::{Generation, NodeId, SnapshotHandle, SnapshotId, VolumeHandle, VolumeId};

/// What a provider process can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// A random name of this provider process: the key under which an answer may be cached.
    pub incarnation: String,
    /// Volumes grow while published.
    pub online_expansion: bool,
    /// Block status tells holes.
    pub sparse_extent_reporting: bool,
    /// Snapshots can be cut while published.
    pub crash_consistent_snapshot: bool,
    /// Volumes can be created with first content.
    pub volume_seeding: bool,
    /// Volumes can be published read-only.
    pub read_only_publish: bool,
    /// Volumes can be listed.
    pub volume_enumeration: bool,
    /// Snapshots can be listed.
    pub snapshot_enumeration: bool,
    /// Calls for a published volume must go to its node.
    pub owner_routing: bool,
    /// How far one writer is enforced.
    pub exclusion: Exclusion,
    /// Largest volume in bytes.
    pub volume_bytes_max: u64,
}

/// How far "one writer" is enforced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exclusion {
    /// Where.
    pub scope: ExclusionScope,
    /// Seconds after which a claim that nobody renewed is lost; 0 if claims have no deadline.
    pub claim_ttl_seconds: u32,
    /// A lost claim's writes are refused.
    pub fences_lost_claim: bool,
}

/// Where "one writer" is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExclusionScope {
    /// On the machine that holds the data; no other can reach it.
    Node,
    /// Across the cluster.
    Cluster,
}

/// The capacity asked for: exactly `required_bytes`, which must not be above `limit_bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityRange {
    /// Bytes, a positive multiple of 4,096.
    pub required_bytes: u64,
    /// The most the caller would accept.
    pub limit_bytes: Option<u64>,
}

impl CapacityRange {
    /// Exactly `bytes`, without a limit.
    pub fn exactly(bytes: u64) -> Self {
        Self {
            required_bytes: bytes,
            limit_bytes: None,
        }
    }
}

/// Where a volume's first bytes come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum VolumeSource {
    /// Zeros.
    Blank,
    /// These bytes, then zeros; at most [`crate::limits::SEED_BYTES_MAX`].
    Seed {
        /// The bytes.
        bytes: Bytes,
    },
    /// A completed snapshot, then zeros.
    Snapshot {
        /// The snapshot.
        snapshot: SnapshotId,
        /// The volume it was cut from, as its record says.
        source_volume: VolumeId,
    },
}

/// CreateVolume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateVolume {
    /// The id to create.
    pub volume: VolumeId,
    /// Its capacity.
    pub capacity: CapacityRange,
    /// Opaque to the provider, returned with the view.
    pub zone: Option<String>,
    /// First content.
    pub source: VolumeSource,
    /// Opaque to the contract; compared byte for byte on a retry.
    pub parameters: BTreeMap<String, String>,
}

impl CreateVolume {
    /// A volume of zeros.
    pub fn blank(volume: VolumeId, capacity_bytes: u64) -> Self {
        Self {
            volume,
            capacity: CapacityRange::exactly(capacity_bytes),
            zone: None,
            source: VolumeSource::Blank,
            parameters: BTreeMap::new(),
        }
    }

    /// A clone of a snapshot, at least as large as it.
    pub fn from_snapshot(volume: VolumeId, capacity_bytes: u64, snapshot: &SnapshotView) -> Self {
        Self {
            source: VolumeSource::Snapshot {
                snapshot: snapshot.snapshot.clone(),
                source_volume: snapshot.source_volume.clone(),
            },
            ..Self::blank(volume, capacity_bytes)
        }
    }
}

/// Whether a volume is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VolumeState {
    /// Not published.
    Available,
    /// Published.
    InUse,
}

/// What callers see of a volume. Source, parameters and the original request are never returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeView {
    /// Its id.
    pub volume: VolumeId,
    /// Its incarnation.
    pub handle: VolumeHandle,
    /// Its capacity in bytes.
    pub capacity_bytes: u64,
    /// Whether it is published.
    pub state: VolumeState,
    /// As given at creation.
    pub zone: Option<String>,
}

/// A volume in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeRef {
    /// Its id.
    pub volume: VolumeId,
    /// Its incarnation.
    pub handle: VolumeHandle,
}

/// Space of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeStat {
    /// Capacity in bytes.
    pub capacity_bytes: u64,
    /// Bytes that storage is allocated for; shared ones count.
    pub allocated_bytes: u64,
}

/// Space of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotStat {
    /// Size in bytes.
    pub size_bytes: u64,
    /// Bytes that storage is allocated for; shared ones count.
    pub allocated_bytes: u64,
}

/// One page of a list. The token is present only after a full page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// In id order.
    pub items: Vec<T>,
    /// For the next call.
    pub next_token: Option<String>,
}

/// PublishVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishVolume {
    /// The volume.
    pub volume: VolumeId,
    /// Its incarnation, if the caller knows it.
    pub handle: Option<VolumeHandle>,
    /// Where it is to be used.
    pub node: NodeId,
    /// Refuse writes.
    pub read_only: bool,
    /// The claim's generation. `None`: the provider takes the next one, which is enough where it alone enforces one writer.
    pub generation: Option<Generation>,
}

/// Where a published volume is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ExportAddress {
    /// An NBD server, default export, on a unix socket.
    NbdUnix {
        /// The socket.
        socket: PathBuf,
    },
}

impl ExportAddress {
    /// The unix socket.
    pub fn socket(&self) -> &Path {
        match self {
            Self::NbdUnix { socket } => socket,
        }
    }

    /// The address as an NBD URI, as libnbd and QEMU take it.
    pub fn uri(&self) -> String {
        match self {
            Self::NbdUnix { socket } => format!("nbd+unix:///?socket={}", socket.display()),
        }
    }
}

/// A volume given to a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    /// The volume.
    pub volume: VolumeId,
    /// Its incarnation.
    pub handle: VolumeHandle,
    /// Where it is used.
    pub node: NodeId,
    /// Writes are refused.
    pub read_only: bool,
    /// Who owns it.
    pub generation: Generation,
    /// Where it is served.
    pub export: ExportAddress,
}

/// Who sealed a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SealedBy {
    /// Its owner, after draining: every answered write is durable.
    Owner,
    /// Unpublish, because the owner had died: every flushed write is durable, unflushed ones as far as the system kept them.
    Unpublish,
    /// Nobody had opened the volume under this generation.
    NeverOpened,
}

/// Durable proof that a generation is over and its writes are on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealReceipt {
    /// The volume.
    pub volume: VolumeId,
    /// Its incarnation.
    pub handle: VolumeHandle,
    /// The generation that ended.
    pub generation: Generation,
    /// Who ended it.
    pub sealed_by: SealedBy,
    /// A sync failed under this generation: writes after the last good flush may be lost.
    pub sync_failed: bool,
    /// When, in milliseconds since 1970.
    pub sealed_at_unix_ms: u64,
}

/// What UnpublishVolume did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unpublication {
    /// The publication ended, with this receipt.
    Sealed(SealReceipt),
    /// There was nothing to end.
    NothingPublished,
}

/// What a delete found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// It was there and is gone.
    Deleted,
    /// It was not there.
    AlreadyGone,
    /// Another incarnation has the id; it was left alone.
    OtherIncarnation,
}

/// CreateSnapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateSnapshot {
    /// The id to create.
    pub snapshot: SnapshotId,
    /// The volume to cut.
    pub volume: VolumeId,
    /// Its incarnation, if the caller knows it.
    pub volume_handle: Option<VolumeHandle>,
}

/// ImportSnapshot: a snapshot that was never cut from a volume here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportSnapshot {
    /// The id to create.
    pub snapshot: SnapshotId,
    /// What its record names as source volume, since a snapshot always names one.
    pub source_volume: VolumeId,
    /// Tells this import from others in a retry, such as a digest of the file. The same id with another digest is refused.
    pub digest: String,
}

/// How a snapshot came to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum SnapshotOrigin {
    /// Cut from a volume.
    Cut {
        /// The incarnation it was cut from.
        source_handle: VolumeHandle,
    },
    /// Copied from a snapshot.
    Copy {
        /// The snapshot it was copied from.
        of: SnapshotId,
    },
    /// Imported from a file.
    Import {
        /// As given by the caller.
        digest: String,
    },
}

/// Whether a snapshot can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotState {
    /// The cut is made, durability is not complete.
    Pending,
    /// Usable.
    Completed,
    /// Not usable.
    Error,
}

/// What callers see of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotView {
    /// Its id.
    pub snapshot: SnapshotId,
    /// Its incarnation.
    pub handle: SnapshotHandle,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// When it was cut, in milliseconds since 1970.
    pub created_at_unix_ms: u64,
    /// Whether it can be used.
    pub state: SnapshotState,
    /// The volume it was cut from.
    pub source_volume: VolumeId,
}

/// A snapshot in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotRef {
    /// Its id.
    pub snapshot: SnapshotId,
    /// Its incarnation.
    pub handle: SnapshotHandle,
    /// The volume it was cut from.
    pub source_volume: VolumeId,
}

/// Opens a published volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenVolume {
    /// The volume.
    pub volume: VolumeId,
    /// Its incarnation.
    pub handle: VolumeHandle,
    /// The generation of the publication under which it is opened.
    pub generation: Generation,
}
