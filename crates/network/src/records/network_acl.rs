//! Network ACLs: numbered entries per direction, and which subnets use them.
//!
//! The final deny (32767) is an entry like the others, made with the list. Each subnet has exactly one association.

use aws_types::AccountId;
use aws_types::ids::{NetworkAclAssociationId, NetworkAclId, SubnetId, VpcId};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
use state::{Index, Record, RecordKey};

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AclAction {
    /// Lets the packet pass.
    Allow,
    /// Drops it.
    Deny,
}

/// One entry. Those of the default list are for every protocol and every port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AclEntry {
    /// 1 to 32767; the lowest that matches decides.
    pub number: u32,
    /// For packets leaving a subnet, else for those entering it.
    pub egress: bool,
    /// IP protocol number, −1 for all.
    pub protocol: i16,
    /// The other side.
    pub block: Ipv4Net,
    /// What to do.
    pub action: AclAction,
}

/// A network ACL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkAcl {
    /// Owner.
    pub account: AccountId,
    /// Id.
    pub id: NetworkAclId,
    /// Its VPC.
    pub vpc: VpcId,
    /// The VPC's default list.
    pub is_default: bool,
    /// Entries of both directions, by direction and number.
    pub entries: Vec<AclEntry>,
}

/// That a subnet uses a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkAclAssociation {
    /// Owner.
    pub account: AccountId,
    /// Id.
    pub id: NetworkAclAssociationId,
    /// The list.
    pub acl: NetworkAclId,
    /// The VPC.
    pub vpc: VpcId,
    /// The subnet.
    pub subnet: SubnetId,
}

impl Record for NetworkAcl {
    const TABLE: &'static str = "network-acls";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, &self.id)
    }

    fn indexes(&self) -> Vec<Index> {
        vec![Index::new("vpc", [self.vpc.as_str()])]
    }

    fn uniques(&self) -> Vec<Index> {
        if self.is_default {
            vec![Index::new("default", [self.vpc.as_str()])]
        } else {
            Vec::new()
        }
    }
}

impl Record for NetworkAclAssociation {
    const TABLE: &'static str = "network-acl-associations";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, &self.id)
    }

    fn indexes(&self) -> Vec<Index> {
        vec![Index::new("vpc", [self.vpc.as_str()])]
    }

    fn uniques(&self) -> Vec<Index> {
        vec![Index::new("subnet", [self.subnet.as_str()])]
    }
}
