//! What a security group rule allows, in one canonical form: equal rules are equal values and equal text.
//!
//! `request` reads the forms that requests use, `render` writes those that answers use. Nothing is ever widened: port
//! 0 is port 0, an unknown protocol is refused, another IP protocol is that protocol only (vpc.md R48). IPv6 rules are
//! stored and shown like all others; the planner leaves them out as long as interfaces have no IPv6 addresses.

pub mod render;
pub mod request;

use aws_types::AccountId;
use aws_types::ids::{SecurityGroupId, VpcId};
use ipnet::{Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

/// IANA protocol numbers that have a form of their own.
pub(crate) mod protocol {
    /// ICMP.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
}

/// The traffic of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum RuleTraffic {
    /// Everything.
    All,
    /// TCP to these destination ports, inclusive.
    Tcp {
        /// First.
        from: u16,
        /// Last.
        to: u16,
    },
    /// UDP to these destination ports, inclusive.
    Udp {
        /// First.
        from: u16,
        /// Last.
        to: u16,
    },
    /// ICMP; absent is any.
    Icmp {
        /// Type.
        icmp_type: Option<u8>,
        /// Code.
        code: Option<u8>,
    },
    /// ICMP for IPv6; absent is any.
    Icmpv6 {
        /// Type.
        icmp_type: Option<u8>,
        /// Code.
        code: Option<u8>,
    },
    /// Another IP protocol, whole.
    Protocol {
        /// IANA number.
        number: u8,
    },
}

impl RuleTraffic {
    /// The protocol as answers name it: `tcp`, `udp`, `icmp`, `icmpv6`, `-1` or a number.
    pub fn protocol_name(self) -> String {
        match self {
            RuleTraffic::All => "-1".to_owned(),
            RuleTraffic::Tcp { .. } => "tcp".to_owned(),
            RuleTraffic::Udp { .. } => "udp".to_owned(),
            RuleTraffic::Icmp { .. } => "icmp".to_owned(),
            RuleTraffic::Icmpv6 { .. } => "icmpv6".to_owned(),
            RuleTraffic::Protocol { number } => number.to_string(),
        }
    }

    /// `FromPort` and `ToPort` of a rule: ports, or ICMP type and code, or −1.
    pub fn port_pair(self) -> (i32, i32) {
        let or_any = |value: Option<u8>| value.map_or(-1, i32::from);
        match self {
            RuleTraffic::All | RuleTraffic::Protocol { .. } => (-1, -1),
            RuleTraffic::Tcp { from, to } | RuleTraffic::Udp { from, to } => (i32::from(from), i32::from(to)),
            RuleTraffic::Icmp { icmp_type, code } | RuleTraffic::Icmpv6 { icmp_type, code } => {
                (or_any(icmp_type), or_any(code))
            }
        }
    }

    /// Whether `FromPort` and `ToPort` mean something; they are left out of permissions where they do not.
    pub fn has_ports(self) -> bool {
        !matches!(self, RuleTraffic::All | RuleTraffic::Protocol { .. })
    }
}

/// The other side of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum RulePeer {
    /// IPv4 addresses.
    Ipv4 {
        /// Canonical block.
        block: Ipv4Net,
    },
    /// IPv6 addresses.
    Ipv6 {
        /// Canonical block.
        block: Ipv6Net,
    },
    /// The private addresses of a group's members.
    Group {
        /// The group.
        group: SecurityGroupId,
        /// Its owner.
        account: AccountId,
        /// Its VPC.
        vpc: VpcId,
    },
}

/// Which quota a rule counts against: each family has its own (a group reference counts against both).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// One rule without direction, id and description.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rule {
    /// What traffic.
    pub traffic: RuleTraffic,
    /// With whom.
    pub peer: RulePeer,
}

impl Rule {
    /// Text that is equal exactly for equal rules; the unique key of a rule in its group and direction.
    pub fn canonical(&self) -> String {
        let (from, to) = self.traffic.port_pair();
        let protocol = self.traffic.protocol_name();
        match &self.peer {
            RulePeer::Ipv4 { block } => format!("{protocol}:{from}:{to}:{block}"),
            RulePeer::Ipv6 { block } => format!("{protocol}:{from}:{to}:{block}"),
            RulePeer::Group { group, .. } => format!("{protocol}:{from}:{to}:{group}"),
        }
    }

    /// Whether the rule counts against the quota of this family.
    pub fn counts_for(&self, family: Family) -> bool {
        match self.peer {
            RulePeer::Ipv4 { .. } => family == Family::Ipv4,
            RulePeer::Ipv6 { .. } => family == Family::Ipv6,
            RulePeer::Group { .. } => true,
        }
    }

    /// The group it names, if it names one.
    pub fn referenced_group(&self) -> Option<&SecurityGroupId> {
        match &self.peer {
            RulePeer::Group { group, .. } => Some(group),
            RulePeer::Ipv4 { .. } | RulePeer::Ipv6 { .. } => None,
        }
    }

    /// The rule in the words of AWS's duplicate error.
    pub fn in_words(&self) -> String {
        let peer = match &self.peer {
            RulePeer::Ipv4 { block } => block.to_string(),
            RulePeer::Ipv6 { block } => block.to_string(),
            RulePeer::Group { group, .. } => group.to_string(),
        };
        let or_all = |value: Option<u8>| value.map_or("ALL".to_owned(), |v| v.to_string());
        let traffic = match self.traffic {
            RuleTraffic::All => "ALL".to_owned(),
            RuleTraffic::Tcp { from, to } => format!("TCP, from port: {from}, to port: {to}"),
            RuleTraffic::Udp { from, to } => format!("UDP, from port: {from}, to port: {to}"),
            RuleTraffic::Icmp { icmp_type, code } => {
                format!("ICMP, type: {}, code: {}", or_all(icmp_type), or_all(code))
            }
            RuleTraffic::Icmpv6 { icmp_type, code } => {
                format!("ICMPv6, type: {}, code: {}", or_all(icmp_type), or_all(code))
            }
            RuleTraffic::Protocol { number } => number.to_string(),
        };
        format!("peer: {peer}, {traffic}, ALLOW")
    }
}
