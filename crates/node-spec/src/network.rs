//! The virtual network of one VPC as one node must realise it, and what the node applied.
//!
//! A [`NetworkSpec`] is complete: the node makes the namespace equal to it and removes everything else. It holds
//! only the interfaces whose home is this node and the groups they need, with references already listed as groups.

use aws_types::ids::{NetworkInterfaceId, NodeId, SecurityGroupId, SubnetId, VpcId};
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;
use time::OffsetDateTime;

/// An IPv4 block in CIDR notation as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ipv4Block {
    /// First address.
    pub address: Ipv4Addr,
    /// Prefix length, 0 to 32.
    pub prefix: u8,
}

/// A subnet of the VPC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubnetPlan {
    /// The subnet.
    pub subnet: SubnetId,
    /// Its block. The router is its first host address.
    pub block: Ipv4Block,
    /// Its route table leads `0.0.0.0/0` to an attached internet gateway.
    pub internet: bool,
}

/// An interface whose home is the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfacePlan {
    /// The interface.
    pub interface: NetworkInterfaceId,
    /// Number for device names, unique on the node for the interface's life.
    pub number: u32,
    /// `02:xx:xx:xx:xx:xx`.
    pub mac: String,
    /// The subnet it is in.
    pub subnet: SubnetId,
    /// Primary private address.
    pub address: Ipv4Addr,
    /// Public address that is mapped 1:1 to it.
    pub public_address: Option<Ipv4Addr>,
    /// Security groups.
    pub groups: Vec<SecurityGroupId>,
    /// Drop packets that are neither from nor to its own address.
    pub source_dest_check: bool,
    /// Host name handed out by DHCP.
    pub hostname: String,
    /// IP TTL of answers of the metadata service, 1 to 64.
    pub metadata_hop_limit: u8,
}

/// Protocol of a rule, with ports or ICMP type and code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Traffic {
    /// Everything.
    All,
    /// TCP with destination ports, inclusive.
    Tcp {
        /// First port.
        from: u16,
        /// Last port.
        to: u16,
    },
    /// UDP with destination ports, inclusive.
    Udp {
        /// First port.
        from: u16,
        /// Last port.
        to: u16,
    },
    /// ICMP; absent means any.
    Icmp {
        /// ICMP type.
        icmp_type: Option<u8>,
        /// ICMP code.
        code: Option<u8>,
    },
    /// Any other IP protocol, whole.
    Protocol {
        /// IANA protocol number.
        number: u8,
    },
}

/// The other side of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Peer {
    /// Addresses.
    Block {
        /// The block.
        block: Ipv4Block,
    },
    /// The private addresses of a group's members.
    Group {
        /// The group.
        group: SecurityGroupId,
    },
}

/// One rule: traffic with a peer is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RulePlan {
    /// What traffic.
    pub traffic: Traffic,
    /// With whom.
    pub peer: Peer,
}

/// A security group, with the addresses of all its members in the VPC wherever they run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupPlan {
    /// The group.
    pub group: SecurityGroupId,
    /// Allowed to members.
    pub ingress: Vec<RulePlan>,
    /// Allowed from members.
    pub egress: Vec<RulePlan>,
    /// Private addresses of the members.
    pub members: Vec<Ipv4Addr>,
}

/// The complete network of one VPC on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkSpec {
    /// The node this is for.
    pub node: NodeId,
    /// The VPC.
    pub vpc: VpcId,
    /// Rises with every change of this record.
    pub generation: u64,
    /// Unique number of the VPC in the cloud (its VNI); names its namespace.
    pub number: u32,
    /// The VPC's blocks.
    pub blocks: Vec<Ipv4Block>,
    /// Its subnets.
    pub subnets: Vec<SubnetPlan>,
    /// Interfaces at home here. Empty: the node removes the namespace and keeps the spec acknowledged.
    pub interfaces: Vec<InterfacePlan>,
    /// Groups of these interfaces and the groups their rules name.
    pub groups: Vec<GroupPlan>,
}

/// What the node applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkObservation {
    /// The node that writes this.
    pub node: NodeId,
    /// The VPC.
    pub vpc: VpcId,
    /// Generation that was applied and read back.
    pub applied_generation: u64,
    /// Why a newer generation could not be applied yet.
    pub error: Option<String>,
    /// When this was written.
    pub at: OffsetDateTime,
}
