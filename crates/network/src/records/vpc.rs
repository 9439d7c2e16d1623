//! A VPC: its blocks, its number in the cloud and its attributes.
//!
//! `number` is the VXLAN network identifier and names the namespaces on the nodes; it is unique in the cloud and never
//! reused, so that a late packet or namespace of an old VPC cannot be taken for a new one. The VPC is `available` from
//! its creating transaction on, since no node is needed before an interface runs.

use aws_types::AccountId;
use aws_types::ids::{DhcpOptionsId, VpcCidrAssociationId, VpcId};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// A block of a VPC with the id of its association; the first one is the primary block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockAssociation {
    /// The association.
    pub id: VpcCidrAssociationId,
    /// The block, canonical.
    pub block: Ipv4Net,
}

/// A VPC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vpc {
    /// Owner.
    pub account: AccountId,
    /// Id.
    pub id: VpcId,
    /// VXLAN network identifier, unique in the cloud.
    pub number: u32,
    /// Its blocks, the primary first.
    pub blocks: Vec<BlockAssociation>,
    /// The account's default VPC; at most one has it.
    pub is_default: bool,
    /// Option set that DHCP hands out.
    pub dhcp_options: DhcpOptionsId,
    /// Attribute `enableDnsSupport`.
    pub dns_support: bool,
    /// Attribute `enableDnsHostnames`.
    pub dns_hostnames: bool,
    /// Creation.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

impl Vpc {
    /// The block the VPC was created with.
    pub fn primary_block(&self) -> Option<Ipv4Net> {
        self.blocks.first().map(|first| first.block)
    }
}
