//! Route tables, their routes and their associations.
//!
//! The routes are in the table's record, at most one per destination. The `local` routes are there too, one per block
//! of the VPC. Associations are rows of their own with unique keys: one main table per VPC, one explicit table per
//! subnet; a subnet without one uses the main table. Whether a route is a blackhole is computed when it is read.

use aws_types::AccountId;
use aws_types::ids::{
    InternetGatewayId, NetworkInterfaceId, RouteTableAssociationId, RouteTableId, SubnetId, VpcId,
};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
use state::{Index, Record, RecordKey};

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum RouteTarget {
    /// Inside the VPC.
    Local,
    /// An internet gateway.
    InternetGateway {
        /// The gateway.
        id: InternetGatewayId,
    },
    /// A network interface.
    Interface {
        /// The interface.
        id: NetworkInterfaceId,
    },
}

/// What made a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouteOrigin {
    /// Came with the table.
    CreateRouteTable,
    /// Added later.
    CreateRoute,
}

/// One route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The block it is for, canonical.
    pub destination: Ipv4Net,
    /// Where to.
    pub target: RouteTarget,
    /// What made it.
    pub origin: RouteOrigin,
}

/// A route table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteTable {
    /// Owner.
    pub account: AccountId,
    /// Id.
    pub id: RouteTableId,
    /// Its VPC.
    pub vpc: VpcId,
    /// At most one per destination.
    pub routes: Vec<Route>,
}

/// That a table is a subnet's, or its VPC's main one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteTableAssociation {
    /// Owner.
    pub account: AccountId,
    /// Id.
    pub id: RouteTableAssociationId,
    /// The table.
    pub table: RouteTableId,
    /// The VPC.
    pub vpc: VpcId,
    /// The subnet; absent for the association as main table.
    pub subnet: Option<SubnetId>,
}

impl RouteTableAssociation {
    /// It makes its table the main one.
    pub fn is_main(&self) -> bool {
        self.subnet.is_none()
    }
}

impl Record for RouteTable {
    const TABLE: &'static str = "route-tables";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, &self.id)
    }

    fn indexes(&self) -> Vec<Index> {
        vec![Index::new("vpc", [self.vpc.as_str()])]
    }
}

impl Record for RouteTableAssociation {
    const TABLE: &'static str = "route-table-associations";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, &self.id)
    }

    fn indexes(&self) -> Vec<Index> {
        vec![Index::new("vpc", [self.vpc.as_str()])]
    }

    fn uniques(&self) -> Vec<Index> {
        match &self.subnet {
            Some(subnet) => vec![Index::new("subnet", [subnet.as_str()])],
            None => vec![Index::new("main", [self.vpc.as_str()])],
        }
    }
}
