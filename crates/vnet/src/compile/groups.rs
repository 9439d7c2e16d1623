//! Group rules as nft text.
//!
//! Every rule looks at the flow's **first** direction (`ct original`), not at the packet in hand: so the same chain
//! judges a new flow, and judges it again from whichever packet comes next after the rules changed. For ICMP the
//! conntrack tuple holds type and code where TCP has the destination port.

use crate::program::{Group, GroupId, Peer, PortRange, Protocol, Rule};

use super::short_digest;

/// Which side of a flow a rule is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// The receiver's.
    Ingress,
    /// The sender's.
    Egress,
}

/// The chain of a group and direction.
pub(super) fn chain_name(group: &GroupId, direction: Direction) -> String {
    let letter = match direction {
        Direction::Ingress => 'i',
        Direction::Egress => 'e',
    };
    format!("g{letter}_{}", short_digest(&[group.as_str()]))
}

/// The set of a group's member addresses.
pub(super) fn members_name(group: &GroupId) -> String {
    format!("m_{}", short_digest(&[group.as_str()]))
}

/// The rules of one direction: a match says so in the mark and returns.
pub(super) fn rules(group: &Group, direction: Direction, allowed: &str) -> Vec<String> {
    let rules = match direction {
        Direction::Ingress => &group.ingress,
        Direction::Egress => &group.egress,
    };
    rules
        .iter()
        .map(|rule| format!("{} meta mark set {allowed} return", matcher(rule, direction)))
        .collect()
}

fn matcher(rule: &Rule, direction: Direction) -> String {
    let mut text = String::from("meta nfproto ipv4");
    let side = match direction {
        Direction::Ingress => "saddr",
        Direction::Egress => "daddr",
    };
    match &rule.peer {
        Peer::Block(block) if block.prefix_len() == 0 => {}
        Peer::Block(block) => text.push_str(&format!(" ct original ip {side} {}", block.trunc())),
        Peer::Group(group) => text.push_str(&format!(" ct original ip {side} @{}", members_name(group))),
    }
    text.push_str(&protocol(rule.protocol));
    text
}

fn protocol(protocol: Protocol) -> String {
    match protocol {
        Protocol::All => String::new(),
        Protocol::Tcp(ports) => format!(" ct original protocol tcp{}", port_range(ports)),
        Protocol::Udp(ports) => format!(" ct original protocol udp{}", port_range(ports)),
        Protocol::Icmp { kind, code } => {
            let range = match (kind, code) {
                (None, _) => PortRange::ALL,
                (Some(kind), None) => PortRange {
                    from: u16::from_be_bytes([kind, 0]),
                    to: u16::from_be_bytes([kind, u8::MAX]),
                },
                (Some(kind), Some(code)) => PortRange::one(u16::from_be_bytes([kind, code])),
            };
            format!(" ct original protocol icmp{}", port_range(range))
        }
        Protocol::Number(number) => format!(" ct original protocol {number}"),
    }
}

fn port_range(ports: PortRange) -> String {
    match ports {
        PortRange::ALL => String::new(),
        PortRange { from, to } if from == to => format!(" ct original proto-dst {from}"),
        PortRange { from, to } => format!(" ct original proto-dst {from}-{to}"),
    }
}
