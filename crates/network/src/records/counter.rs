//! Counters from which ids and choices are made inside transactions: they only rise (state-and-operations.md R14).
//!
//! Each is one small row that the creating transactions rewrite; writers that meet there run again.

use aws_types::ids::{NodeId, SubnetId};
use serde::{Deserialize, Serialize};
use state::{Record, RecordKey};

/// The next VPC number of the cloud. One row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VpcNumbers {
    /// The number the next VPC gets.
    pub next: u32,
}

/// Where automatic address choice goes on in a subnet. Choice is next-fit, so that a freed address is reused last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubnetCursor {
    /// The subnet.
    pub subnet: SubnetId,
    /// Offset in the block that is tried next.
    pub next: u32,
}

/// The next device number of a node. Numbers name taps, sets and chains; they are never reused, so that a name on the
/// node means one interface for ever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeDevices {
    /// The node.
    pub node: NodeId,
    /// The number the next interface at home there gets.
    pub next: u32,
}

impl VpcNumbers {
    /// Id of the one row.
    pub const ID: &'static str = "next";
}

impl Record for VpcNumbers {
    const TABLE: &'static str = "vpc-numbers";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::global(VpcNumbers::ID)
    }
}

impl Record for SubnetCursor {
    const TABLE: &'static str = "subnet-cursors";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::global(&self.subnet)
    }
}

impl Record for NodeDevices {
    const TABLE: &'static str = "node-devices";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::global(&self.node)
    }
}
