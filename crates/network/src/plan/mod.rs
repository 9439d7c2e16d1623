//! From the records of a VPC to what each node must do: pure, total, and byte-equal for equal inputs.
//!
//! A node gets a spec iff an interface is at home there. The spec holds the interfaces of that node, their groups with
//! rules, and the groups that these rules name, with members only: a rule change in a group without members there
//! changes nothing for the node. Generations are not this file's affair; see `reconcile`.
//!
//! What the data plane does not have yet is left out, never widened: IPv6 rules (interfaces have no IPv6 address), rules
//! that name a group which is gone (they match nothing, vpc.md R53).

use crate::capability::names;
use crate::cidr;
use crate::records::{
    Direction, Interface, InternetGateway, RouteTable, RouteTableAssociation, RouteTarget, SecurityGroup,
    SecurityGroupRule, Subnet, Vpc,
};
use crate::rule::{RulePeer, RuleTraffic};
use aws_types::ids::{NodeId, SecurityGroupId, SubnetId};
use node_spec::{GroupPlan, InterfacePlan, NetworkSpec, Peer, RulePlan, SubnetPlan, Traffic};
use std::collections::{BTreeMap, BTreeSet};

#[cfg(test)]
mod tests;

/// Everything of one VPC that its program depends on, read at one revision.
#[derive(Clone, Debug)]
pub struct VpcRecords {
    /// The VPC.
    pub vpc: Vpc,
    /// Its subnets.
    pub subnets: Vec<Subnet>,
    /// Its route tables.
    pub tables: Vec<RouteTable>,
    /// Their associations.
    pub associations: Vec<RouteTableAssociation>,
    /// The internet gateway attached to it.
    pub gateway: Option<InternetGateway>,
    /// Its interfaces, wherever they run.
    pub interfaces: Vec<Interface>,
    /// Its groups.
    pub groups: Vec<SecurityGroup>,
    /// Their rules.
    pub rules: Vec<SecurityGroupRule>,
}

/// The spec of each node that has an interface of the VPC, with generation 0.
pub fn plan(records: &VpcRecords) -> BTreeMap<NodeId, NetworkSpec> {
    let mut by_node: BTreeMap<NodeId, Vec<InterfacePlan>> = BTreeMap::new();
    for interface in &records.interfaces {
        if let Some((node, planned)) = plan_interface(interface) {
            by_node.entry(node).or_default().push(planned);
        }
    }
    let members = members_by_group(&records.interfaces);
    let subnets = plan_subnets(records);
    by_node
        .into_iter()
        .map(|(node, mut interfaces)| {
            interfaces.sort_by(|a, b| a.interface.cmp(&b.interface));
            let spec = NetworkSpec {
                node: node.clone(),
                vpc: records.vpc.id.clone(),
                generation: 0,
                number: records.vpc.number,
                blocks: records
                    .vpc
                    .blocks
                    .iter()
                    .map(|block| cidr::to_spec(block.block))
                    .collect(),
                subnets: subnets.clone(),
                groups: plan_groups(records, &interfaces, &members),
                interfaces,
            };
            (node, spec)
        })
        .collect()
}

/// The route table of a subnet: its own, else the main one. There is no other way to find it (vpc.md R17).
pub fn table_of<'a>(
    subnet: &SubnetId,
    associations: &[RouteTableAssociation],
    tables: &'a [RouteTable],
) -> Option<&'a RouteTable> {
    let own = associations
        .iter()
        .find(|association| association.subnet.as_ref() == Some(subnet));
    let association = own.or_else(|| associations.iter().find(|association| association.is_main()))?;
    tables.iter().find(|table| table.id == association.table)
}

/// Whether a route's target can take packets; a route without is a blackhole (vpc.md R21).
pub fn is_active(
    target: &RouteTarget,
    vpc: &Vpc,
    gateways: &[InternetGateway],
    interfaces: &[Interface],
) -> bool {
    match target {
        RouteTarget::Local => true,
        RouteTarget::InternetGateway { id } => gateways.iter().any(|gateway| {
            gateway.id == *id
                && gateway
                    .attachment
                    .as_ref()
                    .is_some_and(|attachment| attachment.vpc == vpc.id)
        }),
        RouteTarget::Interface { id } => interfaces
            .iter()
            .any(|interface| interface.id == *id && interface.home.is_some()),
    }
}

fn plan_interface(interface: &Interface) -> Option<(NodeId, InterfacePlan)> {
    let home = interface.home.as_ref()?;
    let planned = InterfacePlan {
        interface: interface.id.clone(),
        number: home.number,
        mac: interface.mac.clone(),
        subnet: interface.subnet.clone(),
        address: interface.address,
        public_address: interface.public.as_ref().map(|mapping| mapping.address),
        groups: interface.groups.clone(),
        source_dest_check: interface.source_dest_check,
        hostname: names::host_name(interface.address),
        metadata_hop_limit: interface
            .attachment
            .as_ref()
            .map_or(1, |attachment| attachment.metadata_hop_limit),
    };
    Some((home.node.clone(), planned))
}

fn plan_subnets(records: &VpcRecords) -> Vec<SubnetPlan> {
    let mut subnets: Vec<SubnetPlan> = records
        .subnets
        .iter()
        .map(|subnet| SubnetPlan {
            subnet: subnet.id.clone(),
            block: cidr::to_spec(subnet.block),
            internet: leads_to_internet(records, subnet),
        })
        .collect();
    subnets.sort_by(|a, b| a.subnet.cmp(&b.subnet));
    subnets
}

fn leads_to_internet(records: &VpcRecords, subnet: &Subnet) -> bool {
    let gateways: &[InternetGateway] = records.gateway.as_slice();
    let Some(table) = table_of(&subnet.id, &records.associations, &records.tables) else {
        return false;
    };
    table.routes.iter().any(|route| {
        route.destination == cidr::ANY_IPV4
            && matches!(route.target, RouteTarget::InternetGateway { .. })
            && is_active(&route.target, &records.vpc, gateways, &records.interfaces)
    })
}

type Members = BTreeMap<SecurityGroupId, BTreeSet<std::net::Ipv4Addr>>;

fn members_by_group(interfaces: &[Interface]) -> Members {
    let mut members = Members::new();
    for interface in interfaces {
        for group in &interface.groups {
            members
                .entry(group.clone())
                .or_default()
                .insert(interface.address);
        }
    }
    members
}

fn plan_groups(records: &VpcRecords, interfaces: &[InterfacePlan], members: &Members) -> Vec<GroupPlan> {
    let own: BTreeSet<&SecurityGroupId> = interfaces
        .iter()
        .flat_map(|interface| &interface.groups)
        .collect();
    let known: BTreeSet<&SecurityGroupId> = records.groups.iter().map(|group| &group.id).collect();
    let mut rules: BTreeMap<&SecurityGroupId, Vec<&SecurityGroupRule>> = BTreeMap::new();
    for rule in records.rules.iter().filter(|rule| own.contains(&rule.group)) {
        rules.entry(&rule.group).or_default().push(rule);
    }
    let named = rules
        .values()
        .flatten()
        .filter_map(|rule| rule.rule.referenced_group());
    let all: BTreeSet<&SecurityGroupId> = own
        .iter()
        .copied()
        .chain(named)
        .filter(|group| known.contains(group))
        .collect();
    all.into_iter()
        .map(|group| {
            let of = |direction| {
                let rules = rules.get(group).map(Vec::as_slice).unwrap_or_default();
                plan_rules(rules, direction, &known)
            };
            GroupPlan {
                group: group.clone(),
                ingress: of(Direction::Ingress),
                egress: of(Direction::Egress),
                members: members.get(group).into_iter().flatten().copied().collect(),
            }
        })
        .collect()
}

fn plan_rules(
    rules: &[&SecurityGroupRule],
    direction: Direction,
    known: &BTreeSet<&SecurityGroupId>,
) -> Vec<RulePlan> {
    let mut rules: Vec<&&SecurityGroupRule> =
        rules.iter().filter(|rule| rule.direction == direction).collect();
    rules.sort_by_cached_key(|rule| rule.rule.canonical());
    rules
        .into_iter()
        .filter_map(|rule| {
            let traffic = plan_traffic(rule.rule.traffic)?;
            let peer = match &rule.rule.peer {
                RulePeer::Ipv4 { block } => Peer::Block {
                    block: cidr::to_spec(*block),
                },
                RulePeer::Ipv6 { .. } => return None,
                RulePeer::Group { group, .. } if known.contains(group) => {
                    Peer::Group { group: group.clone() }
                }
                RulePeer::Group { .. } => return None,
            };
            Some(RulePlan { traffic, peer })
        })
        .collect()
}

fn plan_traffic(traffic: RuleTraffic) -> Option<Traffic> {
    match traffic {
        RuleTraffic::All => Some(Traffic::All),
        RuleTraffic::Tcp { from, to } => Some(Traffic::Tcp { from, to }),
        RuleTraffic::Udp { from, to } => Some(Traffic::Udp { from, to }),
        RuleTraffic::Icmp { icmp_type, code } => Some(Traffic::Icmp { icmp_type, code }),
        RuleTraffic::Icmpv6 { .. } => None,
        RuleTraffic::Protocol { number } => Some(Traffic::Protocol { number }),
    }
}
