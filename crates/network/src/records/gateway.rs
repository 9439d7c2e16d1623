//! An internet gateway and its attachment. A VPC has at most one, a gateway is attached to at most one: the first is a
//! unique key on the VPC, the second is that the record has room for one.

use aws_types::AccountId;
use aws_types::ids::{InternetGatewayId, VpcId};
use serde::{Deserialize, Serialize};
use state::{Index, Record, RecordKey};

/// An attachment. While it exists it is `available`: opening the path is the planner's work and closes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayAttachment {
    /// The VPC.
    pub vpc: VpcId,
}

/// An internet gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InternetGateway {
    /// Owner.
    pub account: AccountId,
    /// Id.
    pub id: InternetGatewayId,
    /// Where it is attached.
    pub attachment: Option<GatewayAttachment>,
}

impl Record for InternetGateway {
    const TABLE: &'static str = "internet-gateways";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, &self.id)
    }

    fn uniques(&self) -> Vec<Index> {
        self.attachment
            .iter()
            .map(|attachment| Index::new("vpc", [attachment.vpc.as_str()]))
            .collect()
    }
}
