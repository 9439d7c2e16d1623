//! Keys, indexes and unique names of the records of this crate.
//!
//! Instances, their attachments and boots are ordered by instance id within an account, so that a page of instances finds
//! all that hangs on it in ranges of its own. The index `attention` lists what a reconciler has to look at without
//! reading what is at rest.

use super::{
    Attachment, CapacityHold, Image, ImageState, Instance, InstanceBoot, KeyPair, Launch, NodeUsage, Phase,
    Snapshot, Volume, VolumeState,
};
use aws_types::AccountId;
use aws_types::ids::{InstanceId, VolumeId};
use state::{Index, InvalidField, Record, RecordKey};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Index of what a reconciler has to look at: the class, then a time that orders it.
pub const ATTENTION: &str = "attention";
/// Class of [`ATTENTION`]: something is to be brought about.
pub const BUSY: &str = "busy";
/// Class of [`ATTENTION`]: terminated, ordered by when.
pub const TERMINATED: &str = "terminated";

fn attention(class: &str, time: &str) -> Vec<Index> {
    vec![Index::new(ATTENTION, [class, time])]
}

/// A time as text that orders as the time does (UTC, RFC 3339 to the second).
pub fn sortable(at: OffsetDateTime) -> String {
    at.to_offset(time::UtcOffset::UTC)
        .replace_nanosecond(0)
        .ok()
        .and_then(|at| at.format(&Rfc3339).ok())
        .unwrap_or_default()
}

impl Record for Instance {
    const TABLE: &'static str = "instances";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, &self.id)
    }

    fn indexes(&self) -> Vec<Index> {
        match self.lifecycle.phase {
            phase if phase.is_transitional() => attention(BUSY, ""),
            Phase::Terminated => attention(TERMINATED, &sortable(self.lifecycle.phase_since)),
            _ => Vec::new(),
        }
    }

    fn validate(&self) -> Result<(), InvalidField> {
        if self.core_count == 0 || self.threads_per_core == 0 {
            return Err(InvalidField {
                field: "core_count",
                must: "at least one, as threads_per_core",
            });
        }
        if self.slots.len() > crate::limits::DEVICES_PER_INSTANCE_MAX {
            return Err(InvalidField {
                field: "slots",
                must: "at most 28",
            });
        }
        Ok(())
    }
}

impl Record for InstanceBoot {
    const TABLE: &'static str = "instance-boots";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, &self.instance)
    }
}

impl Record for Image {
    const TABLE: &'static str = "images";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, &self.id)
    }

    /// The id alone finds it, for launches by other accounts; the name is its owner's while the image is available.
    fn uniques(&self) -> Vec<Index> {
        let mut uniques = vec![Index::new("id", [self.id.as_str()])];
        if self.state == ImageState::Available {
            uniques.push(Index::new("name", [self.account.to_string(), self.name.clone()]));
        }
        uniques
    }
}

impl Record for Snapshot {
    const TABLE: &'static str = "snapshots";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, &self.id)
    }

    fn uniques(&self) -> Vec<Index> {
        vec![Index::new("id", [self.id.as_str()])]
    }
}

impl Record for Volume {
    const TABLE: &'static str = "volumes";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, &self.id)
    }

    fn indexes(&self) -> Vec<Index> {
        match self.state {
            VolumeState::Creating | VolumeState::Deleting => attention(BUSY, ""),
            VolumeState::Available | VolumeState::Error => Vec::new(),
        }
    }
}

impl Attachment {
    /// The row's id: the instance first, so that an instance's attachments are neighbours.
    pub fn row_id(instance: &InstanceId, volume: &VolumeId) -> String {
        format!("{instance}:{volume}")
    }
}

impl Record for Attachment {
    const TABLE: &'static str = "volume-attachments";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, Attachment::row_id(&self.instance, &self.volume))
    }

    fn indexes(&self) -> Vec<Index> {
        vec![Index::new("instance", [self.instance.as_str()])]
    }

    /// One volume, one attachment; one device name of an instance, one volume.
    fn uniques(&self) -> Vec<Index> {
        vec![
            Index::new("volume", [self.volume.to_string()]),
            Index::new("device", [self.instance.to_string(), self.device_name.clone()]),
        ]
    }
}

impl Record for Launch {
    const TABLE: &'static str = "launches";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, &self.reservation)
    }
}

impl Record for KeyPair {
    const TABLE: &'static str = "key-pairs";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, &self.id)
    }

    fn uniques(&self) -> Vec<Index> {
        vec![Index::new("name", [self.account.to_string(), self.name.clone()])]
    }
}

impl Record for CapacityHold {
    const TABLE: &'static str = "capacity-holds";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::node(&self.node, &self.holder)
    }
}

impl Record for NodeUsage {
    const TABLE: &'static str = "node-usages";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        NodeUsage::key_of(&self.node)
    }
}

impl NodeUsage {
    /// The key of a node's row.
    pub fn key_of(node: &aws_types::ids::NodeId) -> RecordKey {
        RecordKey::node(node, "usage")
    }
}

/// The scope of an account's records.
pub fn account_scope(account: AccountId) -> state::Scope {
    state::Scope::account(account)
}
