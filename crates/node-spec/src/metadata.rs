//! What the instance metadata service answers for one guest.
//!
//! The node serves it on 169.254.169.254 inside the VPC; which guest asks is known from (VPC, interface), never from
//! anything the guest says.

use aws_types::AccountId;
use aws_types::ids::{ImageId, InstanceId, NetworkInterfaceId, NodeId, ReservationId, SubnetId, VpcId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use time::OffsetDateTime;

/// `MetadataOptions` of the instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataOptions {
    /// The endpoint answers at all.
    pub endpoint_enabled: bool,
    /// Only version 2 (session tokens) is answered.
    pub tokens_required: bool,
    /// IP TTL of answers, 1 to 64.
    pub hop_limit: u8,
    /// Instance tags are shown.
    pub tags_enabled: bool,
}

/// An interface as metadata shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataInterface {
    /// The interface.
    pub interface: NetworkInterfaceId,
    /// Device index; 0 is primary.
    pub device_index: u32,
    /// `02:xx:xx:xx:xx:xx`.
    pub mac: String,
    /// The VPC.
    pub vpc: VpcId,
    /// VPC block, as text.
    pub vpc_cidr: String,
    /// The subnet.
    pub subnet: SubnetId,
    /// Subnet block, as text.
    pub subnet_cidr: String,
    /// Private address.
    pub address: Ipv4Addr,
    /// Public address.
    pub public_address: Option<Ipv4Addr>,
    /// Private DNS name.
    pub private_dns_name: String,
    /// Public DNS name.
    pub public_dns_name: Option<String>,
    /// Names of its groups.
    pub group_names: Vec<String>,
    /// Ids of its groups.
    pub group_ids: Vec<String>,
}

/// Everything the metadata service knows of one guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestMetadata {
    /// The node this is for.
    pub node: NodeId,
    /// The guest.
    pub instance: InstanceId,
    /// Owner.
    pub account: AccountId,
    /// Image it was launched from.
    pub image: ImageId,
    /// Type name.
    pub instance_type: String,
    /// Reservation.
    pub reservation: ReservationId,
    /// Index in the launch.
    pub launch_index: u32,
    /// Time of the pending state.
    pub pending_time: OffsetDateTime,
    /// Region.
    pub region: String,
    /// Zone.
    pub zone: String,
    /// Zone id.
    pub zone_id: String,
    /// `x86_64`.
    pub architecture: String,
    /// Public keys: name and OpenSSH line.
    pub public_keys: Vec<(String, String)>,
    /// User data as given, base64.
    pub user_data: Option<String>,
    /// Tags, shown if the options say so.
    pub tags: BTreeMap<String, String>,
    /// Options.
    pub options: MetadataOptions,
    /// Interfaces by device index.
    pub interfaces: Vec<MetadataInterface>,
}
