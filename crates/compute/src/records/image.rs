//! Machine images and the snapshots behind them.
//!
//! An image is a description over snapshots; deregistering it leaves snapshots and instances alone. The bytes of a
//! snapshot are the volume provider's, known here by its handle.

use super::instance::BootMode;
use aws_types::AccountId;
use aws_types::ids::{ImageId, NodeId, SnapshotId};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// `State` of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageState {
    /// Can be launched.
    Available,
    /// Deregistered: kept so that a second deregistration can be told from an unknown id.
    Deregistered,
}

impl ImageState {
    /// The API's word.
    pub fn name(self) -> &'static str {
        match self {
            ImageState::Available => "available",
            ImageState::Deregistered => "deregistered",
        }
    }
}

/// One block device of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageDevice {
    /// Device name, such as `/dev/xvda`.
    pub device_name: String,
    /// Snapshot the volume is cloned from; none for an empty one.
    pub snapshot: Option<SnapshotId>,
    /// Size in GiB.
    pub size_gib: u32,
    /// Volume type, such as `gp3`.
    pub volume_type: String,
    /// The volume goes with the instance.
    pub delete_on_termination: bool,
}

/// A machine image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Owner.
    pub account: AccountId,
    /// Id.
    pub id: ImageId,
    /// Name, unique among the available images of the owner.
    pub name: String,
    /// Description; empty if none.
    pub description: String,
    /// `x86_64`
    pub architecture: String,
    /// Boot mode, if the image names one.
    pub boot_mode: Option<BootMode>,
    /// Which of the devices is the root.
    pub root_device_name: String,
    /// Block devices, the root among them.
    pub devices: Vec<ImageDevice>,
    /// Everybody may launch it.
    pub public: bool,
    /// State.
    pub state: ImageState,
    /// Creation.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// Value of `EnaSupport`.
    pub ena_support: bool,
}

impl Image {
    /// The root's mapping.
    pub fn root(&self) -> Option<&ImageDevice> {
        self.devices
            .iter()
            .find(|device| device.device_name == self.root_device_name)
    }

    /// `account` may see and launch it.
    pub fn is_visible_to(&self, account: AccountId) -> bool {
        self.state == ImageState::Available && (self.public || self.account == account)
    }
}

/// A snapshot: a point in time of a volume's contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Owner.
    pub account: AccountId,
    /// Id.
    pub id: SnapshotId,
    /// Size in bytes of a volume made from it at least; a multiple of 1 GiB.
    pub size_bytes: u64,
    /// The provider's handle, 32 hex digits.
    pub handle: String,
    /// The node whose pool holds it; a volume from it can only be made there.
    pub node: NodeId,
    /// Description; empty if none.
    pub description: String,
    /// Creation.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

/// Bytes of a GiB.
pub const GIB: u64 = 1 << 30;

impl Snapshot {
    /// Size in GiB.
    pub fn size_gib(&self) -> u32 {
        u32::try_from(self.size_bytes.div_ceil(GIB)).unwrap_or(u32::MAX)
    }
}
