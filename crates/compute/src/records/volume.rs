//! Volumes, and what ties them to instances.
//!
//! `in-use` is nowhere stored: a volume is in use iff it has an attachment. A volume's data is removed only after its
//! state is `Deleting` on purpose; the row goes when the node has acknowledged the removal.

use aws_types::ids::{InstanceId, NodeId, SnapshotId, VolumeId};
use aws_types::{AccountId, AvailabilityZone};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// Where a volume is in its life.
///
/// ```text
/// creating ─▶ available ─▶ deleting ─▶ (row removed)
///    │  └───────────────────▲ ▲
///    └─▶ error ─────────────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeState {
    /// The node has not made it yet.
    Creating,
    /// It exists.
    Available,
    /// Its data is being removed.
    Deleting,
    /// It could not be made.
    Error,
}

impl VolumeState {
    /// True if the drawing has an arrow from `self` to `next`.
    pub fn may_become(self, next: VolumeState) -> bool {
        use VolumeState::{Available, Creating, Deleting, Error};
        matches!(
            (self, next),
            (Creating, Available | Error | Deleting) | (Available | Error, Deleting)
        )
    }
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Owner.
    pub account: AccountId,
    /// Id.
    pub id: VolumeId,
    /// Size in GiB.
    pub size_gib: u32,
    /// Volume type, such as `gp3`.
    pub volume_type: String,
    /// Provisioned operations per second, shown as asked or as the type's base.
    pub iops: Option<u32>,
    /// Provisioned throughput in MiB/s, shown as asked or as the type's base.
    pub throughput: Option<u32>,
    /// Snapshot its first contents are from.
    pub snapshot: Option<SnapshotId>,
    /// Zone.
    pub zone: AvailabilityZone,
    /// The node whose pool holds it.
    pub node: NodeId,
    /// State.
    pub state: VolumeState,
    /// Creation.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

/// That a volume is a device of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Owner of both.
    pub account: AccountId,
    /// The instance.
    pub instance: InstanceId,
    /// The volume.
    pub volume: VolumeId,
    /// Device name, such as `/dev/xvda`.
    pub device_name: String,
    /// The volume goes with the instance.
    pub delete_on_termination: bool,
    /// When it was attached.
    #[serde(with = "time::serde::rfc3339")]
    pub attached_at: OffsetDateTime,
}

#[cfg(test)]
mod tests {
    use super::VolumeState::{Available, Creating, Deleting, Error};

    #[test]
    fn a_volume_moves_only_towards_its_end() {
        let all = [Creating, Available, Deleting, Error];
        let legal = [
            (Creating, Available),
            (Creating, Error),
            (Creating, Deleting),
            (Available, Deleting),
            (Error, Deleting),
        ];
        for from in all {
            for to in all {
                assert_eq!(
                    from.may_become(to),
                    legal.contains(&(from, to)),
                    "{from:?} {to:?}"
                );
            }
        }
    }
}
