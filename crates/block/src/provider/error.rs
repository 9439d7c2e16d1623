//! The contract's errors. Each says whether the call is known to have changed nothing.
//!
//! Services map these once (R6 of the requirements); this crate never names an AWS code.

use std::fmt;
use std::io;

use crate::id::{Generation, ParseIdError, SnapshotId, VolumeId};

/// A volume or a snapshot, for an error's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectName {
    /// A volume.
    Volume(VolumeId),
    /// A snapshot.
    Snapshot(SnapshotId),
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Volume(id) => write!(f, "volume {id}"),
            Self::Snapshot(id) => write!(f, "snapshot {id}"),
        }
    }
}

impl From<&VolumeId> for ObjectName {
    fn from(id: &VolumeId) -> Self {
        Self::Volume(id.clone())
    }
}

impl From<&SnapshotId> for ObjectName {
    fn from(id: &SnapshotId) -> Self {
        Self::Snapshot(id.clone())
    }
}

/// What is wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Argument {
    /// Zero, or not a multiple of the block size.
    #[error("a capacity of {required} bytes is not a positive multiple of the block size")]
    CapacityUnaligned {
        /// Bytes asked for.
        required: u64,
    },
    /// Above the request's own limit.
    #[error("the required {required} bytes are above the limit of {limit}")]
    CapacityAboveLimit {
        /// Bytes asked for.
        required: u64,
        /// The request's limit.
        limit: u64,
    },
    /// Above what this provider can hold in one volume.
    #[error("{required} bytes are above the largest volume of {max} bytes")]
    CapacityAboveMax {
        /// Bytes asked for.
        required: u64,
        /// The provider's largest volume.
        max: u64,
    },
    /// Volumes never shrink.
    #[error("{required} bytes are below the volume's {current}")]
    CapacityBelowCurrent {
        /// Bytes asked for.
        required: u64,
        /// The volume's capacity.
        current: u64,
    },
    /// A clone is never smaller than its snapshot.
    #[error("{required} bytes are below the snapshot's {snapshot}")]
    CapacityBelowSnapshot {
        /// Bytes asked for.
        required: u64,
        /// The snapshot's size.
        snapshot: u64,
    },
    /// The seed is larger than the volume or than [`crate::limits::SEED_BYTES_MAX`].
    #[error("a seed of {seed} bytes is above {max}")]
    SeedTooLarge {
        /// Bytes of the seed.
        seed: u64,
        /// The most it may have.
        max: u64,
    },
    /// Too many parameters, or one too long.
    #[error("the volume's parameters are too many or too long")]
    Parameters,
    /// The snapshot was cut from another volume than the request says.
    #[error("snapshot {snapshot} was cut from volume {actual}, not from {given}")]
    SourceVolumeDiffers {
        /// The snapshot.
        snapshot: SnapshotId,
        /// Where it was cut.
        actual: VolumeId,
        /// Where the request says it was cut.
        given: VolumeId,
    },
    /// The snapshot is not completed.
    #[error("snapshot {0} is not completed")]
    SnapshotNotCompleted(SnapshotId),
    /// A snapshot cannot be copied onto itself.
    #[error("the copy of snapshot {0} has its source's id")]
    CopyOntoItself(SnapshotId),
    /// The list token is not one of this provider's.
    #[error("the list token is not from this provider")]
    Token,
    /// The file to import is empty or no regular file.
    #[error("the file to import is empty or not a regular file")]
    ImportFile,
    /// An id is malformed.
    #[error(transparent)]
    Id(#[from] ParseIdError),
}

/// A capability that a call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Publications that refuse writes.
    ReadOnlyPublish,
    /// First content with the create call.
    VolumeSeeding,
    /// Listing volumes.
    VolumeEnumeration,
    /// Listing snapshots.
    SnapshotEnumeration,
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadOnlyPublish => "read-only publication",
            Self::VolumeSeeding => "volume seeding",
            Self::VolumeEnumeration => "listing of volumes",
            Self::SnapshotEnumeration => "listing of snapshots",
        })
    }
}

/// What an error says about the change that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing changed.
    Refused,
    /// It happened wholly or not at all; repeat the same call to learn which.
    Unknown,
}

/// Why a provider call did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// The request makes no sense.
    #[error("{operation} was refused")]
    InvalidArgument {
        /// The call.
        operation: &'static str,
        /// What is wrong with it.
        source: Argument,
    },
    /// The id is taken by an object that another request made.
    #[error("{0} exists and was made by another request")]
    AlreadyExists(ObjectName),
    /// The object does not exist, or the given handle names another incarnation. This is definite.
    #[error("{0} does not exist")]
    NotFound(ObjectName),
    /// The volume is published or open, and the call needs it not to be.
    #[error("volume {0} is in use")]
    VolumeInUse(VolumeId),
    /// The volume is not published, so nobody may open it.
    #[error("volume {0} is not published")]
    NotPublished(VolumeId),
    /// This provider cannot do that.
    #[error("this provider has no {0}")]
    UnsupportedCapability(Capability),
    /// The generation does not own the volume.
    #[error("generation {held} of volume {volume} is not the owner, {current} is")]
    Fenced {
        /// The volume.
        volume: VolumeId,
        /// The generation that asked.
        held: Generation,
        /// The generation that owns it.
        current: Generation,
    },
    /// The pool has no space for this above its reserve.
    #[error("no space: {operation} needs {needed} bytes and the pool has {available} above its reserve")]
    NoSpace {
        /// The call.
        operation: &'static str,
        /// Bytes needed.
        needed: u64,
        /// Bytes free above the reserve.
        available: u64,
    },
    /// What is stored of the object cannot be read. It is neither present nor absent; nothing is made or removed.
    #[error("what is stored of {object} is unreadable")]
    Unreadable {
        /// The object.
        object: ObjectName,
        /// Why.
        source: io::Error,
    },
    /// Some record of the listing cannot be read, so that the list would have a gap.
    #[error("the list would have a gap, {unreadable} is unreadable")]
    ListUnreadable {
        /// Where the unreadable record is.
        unreadable: String,
    },
    /// The provider cannot answer now; the same call may be repeated blindly.
    #[error("{operation} is not possible now")]
    Unavailable {
        /// The call.
        operation: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The call failed inside the provider.
    #[error("{operation} failed at {step}")]
    Internal {
        /// The call.
        operation: &'static str,
        /// What was attempted.
        step: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl ProviderError {
    /// Whether the change is known not to have happened.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::InvalidArgument { .. }
            | Self::AlreadyExists(_)
            | Self::NotFound(_)
            | Self::VolumeInUse(_)
            | Self::NotPublished(_)
            | Self::UnsupportedCapability(_)
            | Self::Fenced { .. }
            | Self::NoSpace { .. }
            | Self::Unreadable { .. }
            | Self::ListUnreadable { .. } => Outcome::Refused,
            Self::Unavailable { .. } | Self::Internal { .. } => Outcome::Unknown,
        }
    }
}
