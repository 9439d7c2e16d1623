//! A VPC: its blocks, its number in the cloud and its attributes.
//!
//! `number` is the VXLAN network identifier and names the namespaces on the nodes; it is unique in the cloud and never
//! reused, so that a late packet or namespace of an old VPC cannot be taken for a new one. The VPC is `available` from
//! its creating transaction on, since no node is needed before an interface runs.

use aws_types::AccountId;
use aws_types::ids::{DhcpOptionsId, VpcCidrAssociationId, VpcId};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
use state::{Index, InvalidField, Record, RecordKey};
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

impl Record for Vpc {
    const TABLE: &'static str = "vpcs";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, &self.id)
    }

    fn uniques(&self) -> Vec<Index> {
        let mut uniques = vec![Index::new("number", [self.number.to_string()])];
        if self.is_default {
            uniques.push(Index::new("default", [self.account.to_string()]));
        }
        uniques
    }

    fn validate(&self) -> Result<(), InvalidField> {
        if self.blocks.is_empty() {
            return Err(InvalidField {
                field: "blocks",
                must: "at least one block",
            });
        }
        if self.number == 0 || self.number > crate::limits::VPC_NUMBER_MAX {
            return Err(InvalidField {
                field: "number",
                must: "from 1 to 2^24 - 1",
            });
        }
        Ok(())
    }
}

/// That the default network of an account was made. It stays when the account deletes the VPC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultNetwork {
    /// The account.
    pub account: AccountId,
    /// The VPC that was made.
    pub vpc: VpcId,
}

impl DefaultNetwork {
    /// Id of the one row of an account.
    pub const ID: &'static str = "default";
}

impl Record for DefaultNetwork {
    const TABLE: &'static str = "default-networks";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, DefaultNetwork::ID)
    }
}
