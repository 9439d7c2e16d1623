//! What a node must do with one volume, and what it saw.
//!
//! Absence of a spec is not a decision to destroy: only `VolumeIntent::Deleted` removes data.

use aws_types::AccountId;
use aws_types::ids::{NodeId, SnapshotId, VolumeId};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// What should be true of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum VolumeIntent {
    /// It exists with this size and first contents.
    Present {
        /// Size in bytes, a multiple of 1 GiB.
        size_bytes: u64,
        /// Snapshot it is cloned from when it is made; none for an empty volume.
        source: Option<SnapshotSource>,
    },
    /// Its data is removed. The observation `Deleted` acknowledges it.
    Deleted,
}

/// A snapshot as the provider knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotSource {
    /// The snapshot's AWS id, for messages.
    pub snapshot: SnapshotId,
    /// The provider's handle, 32 hex digits.
    pub handle: String,
}

/// The intent for one volume on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeSpec {
    /// The node whose pool holds it.
    pub node: NodeId,
    /// The volume.
    pub volume: VolumeId,
    /// Owner.
    pub account: AccountId,
    /// Rises with every change of this record.
    pub generation: u64,
    /// What should be true.
    pub intent: VolumeIntent,
}

/// The volume as the node last saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum VolumeState {
    /// Its data exists durably.
    Ready {
        /// The provider's handle, 32 hex digits.
        handle: String,
    },
    /// Definitely not made.
    Error {
        /// Class of the failure.
        failure: VolumeFailure,
        /// Text for operators.
        message: String,
    },
    /// Definitely no longer there.
    Deleted,
}

/// Why a volume could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeFailure {
    /// The pool is full.
    NoSpace,
    /// The source snapshot is not there.
    SourceMissing,
    /// Anything else that is definite.
    Provider,
}

/// What the node saw of one volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeObservation {
    /// The node that writes this.
    pub node: NodeId,
    /// The volume.
    pub volume: VolumeId,
    /// The newest spec generation that is true.
    pub applied_generation: u64,
    /// The volume's state.
    pub state: VolumeState,
    /// When `state` was entered.
    pub since: OffsetDateTime,
}
