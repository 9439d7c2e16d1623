//! A network interface: where it is, who uses it, where it runs.
//!
//! ```text
//! available ─▶ attaching ─▶ in-use ─▶ detaching ─▶ available      attachment: attaching ─▶ attached ─▶ detaching ─▶ (gone)
//! ```
//! A launch makes the interface `in-use` at once, with its attachment `attaching` until the guest runs, as AWS shows
//! it. `home` is the node where the guest runs, or will run: the planner gives an interface to its home and to no other
//! node. A stopped instance's interface keeps attachment and addresses and has no home.

use aws_types::ids::{
    AddressAssociationId, InstanceId, NetworkInterfaceAttachmentId, NetworkInterfaceId, NodeId,
    SecurityGroupId, SubnetId, VpcId,
};
use aws_types::{AccountId, AvailabilityZone};
use serde::{Deserialize, Serialize};
use state::{Index, Record, RecordKey};
use std::net::Ipv4Addr;
use time::OffsetDateTime;

/// Status of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterfaceStatus {
    /// Belongs to no instance.
    Available,
    /// Being plugged into a running instance.
    Attaching,
    /// Belongs to an instance.
    InUse,
    /// Being unplugged.
    Detaching,
}

impl InterfaceStatus {
    /// As on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            InterfaceStatus::Available => "available",
            InterfaceStatus::Attaching => "attaching",
            InterfaceStatus::InUse => "in-use",
            InterfaceStatus::Detaching => "detaching",
        }
    }

    /// Whether the drawing above has an arrow from `self` to `next`.
    pub fn may_become(self, next: InterfaceStatus) -> bool {
        use InterfaceStatus::{Attaching, Available, Detaching, InUse};
        matches!(
            (self, next),
            (Available, Attaching)
                | (Attaching, InUse | Available)
                | (InUse, Detaching)
                | (Detaching, Available)
        )
    }
}

/// Status of an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttachmentStatus {
    /// The guest does not have it yet.
    Attaching,
    /// The guest has it.
    Attached,
    /// The guest is giving it up.
    Detaching,
}

impl AttachmentStatus {
    /// As on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            AttachmentStatus::Attaching => "attaching",
            AttachmentStatus::Attached => "attached",
            AttachmentStatus::Detaching => "detaching",
        }
    }

    /// Whether the drawing above has an arrow from `self` to `next`.
    pub fn may_become(self, next: AttachmentStatus) -> bool {
        use AttachmentStatus::{Attached, Attaching, Detaching};
        matches!(
            (self, next),
            (Attaching, Attached | Detaching) | (Attached, Detaching)
        )
    }
}

/// What ties an interface to an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Id.
    pub id: NetworkInterfaceAttachmentId,
    /// The instance.
    pub instance: InstanceId,
    /// Owner of the instance.
    pub instance_account: AccountId,
    /// Device index in the instance, 0 for the primary interface.
    pub device_index: u32,
    /// The interface goes with the instance.
    pub delete_on_termination: bool,
    /// Status.
    pub status: AttachmentStatus,
    /// When it was asked for.
    #[serde(with = "time::serde::rfc3339")]
    pub attached_at: OffsetDateTime,
    /// IP TTL of answers of the metadata service to this instance, 1 to 64.
    pub metadata_hop_limit: u8,
}

/// The node an interface runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Home {
    /// The node.
    pub node: NodeId,
    /// Number for device names, unique on that node for ever.
    pub number: u32,
}

/// The public address that is mapped 1:1 to the primary private address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicMapping {
    /// The address.
    pub address: Ipv4Addr,
    /// Identity of the mapping: equal addresses on another interface are another mapping.
    pub association: AddressAssociationId,
    /// Given at launch and taken back at stop; not an Elastic IP.
    pub automatic: bool,
}

/// The service that made an interface for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// `RequesterId` on the wire.
    pub id: String,
    /// The service manages it; tenants may not.
    pub managed: bool,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Owner.
    pub account: AccountId,
    /// Id.
    pub id: NetworkInterfaceId,
    /// Its VPC.
    pub vpc: VpcId,
    /// Its subnet.
    pub subnet: SubnetId,
    /// The subnet's zone.
    pub zone: AvailabilityZone,
    /// `02:xx:xx:xx:xx:xx`, unique in the cloud, for the interface's life.
    pub mac: String,
    /// Primary private address.
    pub address: Ipv4Addr,
    /// Text of the tenant.
    pub description: String,
    /// Its groups, in the order given.
    pub groups: Vec<SecurityGroupId>,
    /// The service that made it, if it was not the owner.
    pub requester: Option<Requester>,
    /// Packets that are neither from nor to its own addresses are dropped.
    pub source_dest_check: bool,
    /// Status.
    pub status: InterfaceStatus,
    /// The instance it belongs to.
    pub attachment: Option<Attachment>,
    /// It was launched to have an automatic public address: each start gives it one.
    pub public_wanted: bool,
    /// Its public address.
    pub public: Option<PublicMapping>,
    /// Where it runs.
    pub home: Option<Home>,
    /// Creation.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

impl Interface {
    /// The instance it belongs to.
    pub fn instance(&self) -> Option<&InstanceId> {
        self.attachment.as_ref().map(|attachment| &attachment.instance)
    }
}

impl Record for Interface {
    const TABLE: &'static str = "network-interfaces";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, &self.id)
    }

    fn indexes(&self) -> Vec<Index> {
        // `subnet` is listed by VPC alone, or by VPC and subnet.
        let mut indexes = vec![Index::new("subnet", [self.vpc.as_str(), self.subnet.as_str()])];
        if let Some(instance) = self.instance() {
            indexes.push(Index::new("instance", [instance.as_str()]));
        }
        indexes.extend(
            self.groups
                .iter()
                .map(|group| Index::new("group", [group.as_str()])),
        );
        indexes
    }

    fn uniques(&self) -> Vec<Index> {
        vec![Index::new("mac", [self.mac.as_str()])]
    }
}

#[cfg(test)]
mod tests {
    use super::{AttachmentStatus, InterfaceStatus};

    #[test]
    fn the_legal_moves_of_an_interface_are_these() {
        use InterfaceStatus::{Attaching, Available, Detaching, InUse};
        let all = [Available, Attaching, InUse, Detaching];
        let legal: Vec<_> = all
            .into_iter()
            .flat_map(|from| all.into_iter().map(move |to| (from, to)))
            .filter(|(from, to)| from.may_become(*to))
            .collect();
        assert_eq!(
            legal,
            [
                (Available, Attaching),
                (Attaching, Available),
                (Attaching, InUse),
                (InUse, Detaching),
                (Detaching, Available)
            ]
        );
    }

    #[test]
    fn the_legal_moves_of_an_attachment_are_these() {
        use AttachmentStatus::{Attached, Attaching, Detaching};
        let all = [Attaching, Attached, Detaching];
        let legal: Vec<_> = all
            .into_iter()
            .flat_map(|from| all.into_iter().map(move |to| (from, to)))
            .filter(|(from, to)| from.may_become(*to))
            .collect();
        assert_eq!(
            legal,
            [
                (Attaching, Attached),
                (Attaching, Detaching),
                (Attached, Detaching)
            ]
        );
    }
}
