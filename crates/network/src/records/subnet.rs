//! A subnet: a block of its VPC in one zone.
//!
//! Where automatic address choice goes on is a record of its own ([`super::SubnetCursor`]), so that a launch does not
//! rewrite the subnet. Which addresses are taken is said by [`super::Address`] rows alone.

use aws_types::ids::{SubnetId, VpcId};
use aws_types::{AccountId, AvailabilityZone};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
use state::{Index, InvalidField, Record, RecordKey};
use time::OffsetDateTime;

/// A subnet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subnet {
    /// Owner.
    pub account: AccountId,
    /// Id.
    pub id: SubnetId,
    /// Its VPC.
    pub vpc: VpcId,
    /// Its block, canonical, /16 to /28.
    pub block: Ipv4Net,
    /// Its zone.
    pub zone: AvailabilityZone,
    /// The default subnet of its zone; at most one in an account and zone.
    pub default_for_zone: bool,
    /// Interfaces made by a launch get a public address unless the launch says otherwise.
    pub map_public_ip_on_launch: bool,
    /// Creation.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

impl Record for Subnet {
    const TABLE: &'static str = "subnets";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, &self.id)
    }

    fn indexes(&self) -> Vec<Index> {
        vec![Index::new("vpc", [self.vpc.as_str()])]
    }

    fn uniques(&self) -> Vec<Index> {
        if self.default_for_zone {
            vec![Index::new(
                "default",
                [self.account.to_string(), self.zone.to_string()],
            )]
        } else {
            Vec::new()
        }
    }

    fn validate(&self) -> Result<(), InvalidField> {
        if !(16..=28).contains(&self.block.prefix_len()) {
            return Err(InvalidField {
                field: "block",
                must: "a block from /16 to /28",
            });
        }
        Ok(())
    }
}
