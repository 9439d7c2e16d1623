//! One network's namespace: devices, addresses, routes and the ruleset that judges every packet.
//!
//! A packet's way from port to port:
//! 1. `guard` (netdev ingress, one chain a port): Ethernet, ARP and IPv4 source must be the port's own; no VLANs, no
//!    IPv6, no multicast, no DHCP server, no redirects. Behind it a source address proves the port.
//! 2. `steer`: the port's route table as mark. The network's own addresses are in the main table, which is asked
//!    before the marked ones and ends with "unreachable" for every block, so they never leave by a wider route.
//! 3. `arrive` (nat): a packet from the edge for a public address goes to the private one.
//! 4. `transit` (forward): what is never forwarded is dropped; from the edge, the translation must be today's.
//! 5. `live`: an accepted flow carries the digest of the policy it was accepted under as its mark. While that is
//!    the policy of today, packets pass here, at a cost that does not grow with rules. The mark is the whole policy:
//!    any change of rules, members or ports makes every flow be judged once more, and that is what cuts revoked
//!    ones at once (accepting "established" alone would keep them).
//! 6. `judge`: the sender's chain (its groups' egress), then the receiver's; who is sender follows from the flow's
//!    first direction. A group chain that matches sets the packet mark and returns; each port's chain ends by
//!    dropping what no group allowed. Jumps that return keep the kernel's loop check linear in the number of ports.
//! 7. `depart` (nat) and `border`: towards the edge the public address replaces the private one; whatever has none,
//!    or has one that is no longer its own, is dropped.
//!
//! `services` (input) admits DHCP, DNS and metadata from ports and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use sha2::{Digest, Sha256};

use super::groups::{self, Direction};
use super::{
    INNER_MAC, METADATA, OUTER, OUTER_MAC, RESOLVER, TABLE, UPLINK, loopback, router_settings, single,
};
use crate::converge::{Desired, DesiredAction, DesiredLink, DesiredRoute, Origin};
use crate::kernel::routes::{MarkRule, TABLE_MAIN};
use crate::kernel::sysctl::setting;
use crate::program::{
    MacAddress, NetworkProgram, Peer, Port, PortKind, PortNumber, RouteTarget, Subnet, SubnetId, TableNumber,
};
use crate::ruleset::{Chain, Hook, Ruleset, Set, Table};

/// Policy rules come after the main table's (32766).
const RULE_PRIORITY: u32 = 33_000;
/// Marked tables are numbered from here.
const TABLE_BASE: u32 = 1_000;
/// Packet marks of the judgement; above every route table's number.
const EGRESS_ALLOWED: &str = "0x00010000";
const INGRESS_ALLOWED: &str = "0x00020000";
/// What is never forwarded, as source or destination.
const NEVER_SOURCE: &str = "{ 0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3 }";
const NEVER_DESTINATION: &str = "{ 0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3 }";

/// The device of a port.
pub(crate) fn device_name(number: PortNumber) -> String {
    format!("p{}", number.0)
}

/// The far end of a veth port until it is handed over.
pub(crate) fn far_name(number: PortNumber) -> String {
    format!("x{}", number.0)
}

/// The third address of the first block, where the network's resolver answers.
pub(crate) fn resolver_in(blocks: &[Ipv4Net]) -> Option<Ipv4Addr> {
    blocks
        .first()
        .map(|block| Ipv4Addr::from(u32::from(block.network()).saturating_add(2)))
}

/// Everywhere that the network's resolver answers.
pub(crate) fn resolvers(program: &NetworkProgram) -> BTreeSet<Ipv4Addr> {
    resolver_in(&program.blocks)
        .into_iter()
        .chain([RESOLVER])
        .collect()
}

/// The router's Ethernet address in a subnet: the same on every node and for ever.
fn router_mac(program: &NetworkProgram, subnet: &SubnetId) -> MacAddress {
    let digest = Sha256::digest(format!("{}/{}", program.network, subnet).as_bytes());
    MacAddress([0x02, digest[0], digest[1], digest[2], digest[3], digest[4]])
}

/// What the namespace of a network is to be. `far_transit` is the name of the transit's end in the edge.
pub(crate) fn network(program: &NetworkProgram, mtu: u32, far_transit: &str) -> Desired {
    let mut desired = Desired {
        settings: router_settings(),
        ..Desired::default()
    };
    desired
        .late_settings
        .push(setting("netfilter/nf_conntrack_tcp_loose", "0"));
    let subnets: BTreeMap<&SubnetId, &Subnet> = program.subnets.iter().map(|one| (&one.id, one)).collect();

    desired.addresses.insert(loopback());
    desired.addresses.insert(("lo".to_owned(), single(METADATA)));
    let routers = program.subnets.iter().map(Subnet::router);
    for address in routers.chain(resolvers(program)) {
        desired.addresses.insert(("lo".to_owned(), single(address)));
    }
    for block in &program.blocks {
        desired.routes.insert(DesiredRoute {
            table: TABLE_MAIN,
            destination: block.trunc(),
            action: DesiredAction::Unreachable,
        });
    }
    desired.links.push(DesiredLink {
        name: UPLINK.to_owned(),
        alias: "edge".to_owned(),
        mac: INNER_MAC,
        mtu,
        origin: Origin::Transit {
            far_name: far_transit.to_owned(),
            far_mac: OUTER_MAC,
        },
        settings: Vec::new(),
    });
    desired.neighbours.insert((UPLINK.to_owned(), OUTER, OUTER_MAC));
    for table in &program.tables {
        let number = TABLE_BASE + table.number.0;
        let rule = MarkRule {
            priority: RULE_PRIORITY + table.number.0,
            mark: table.number.0,
            table: number,
        };
        desired.rules.insert(rule);
        for route in &table.routes {
            let action = match route.target {
                RouteTarget::Blackhole => DesiredAction::Blackhole,
                RouteTarget::Internet => DesiredAction::Send {
                    device: UPLINK.to_owned(),
                    gateway: Some(OUTER),
                    source: None,
                },
            };
            let destination = route.destination.trunc();
            desired.routes.insert(DesiredRoute {
                table: number,
                destination,
                action,
            });
        }
    }
    for port in &program.ports {
        if let Some(subnet) = subnets.get(&port.subnet) {
            add_port(&mut desired, program, port, subnet, mtu);
        }
    }
    desired.ruleset = ruleset(program, &subnets);
    desired
}

fn add_port(desired: &mut Desired, program: &NetworkProgram, port: &Port, subnet: &Subnet, mtu: u32) {
    let name = device_name(port.number);
    let origin = match port.kind {
        PortKind::Tap => Origin::Tap,
        PortKind::Veth => Origin::PortVeth {
            far_name: far_name(port.number),
            far_mac: port.mac,
        },
    };
    desired.links.push(DesiredLink {
        name: name.clone(),
        alias: port.id.to_string(),
        mac: router_mac(program, &subnet.id),
        mtu,
        origin,
        settings: vec![
            setting(format!("ipv4/conf/{name}/proxy_arp"), "1"),
            setting(format!("ipv4/neigh/{name}/proxy_delay"), "0"),
        ],
    });
    desired.neighbours.insert((name.clone(), port.address, port.mac));
    desired.routes.insert(DesiredRoute {
        table: TABLE_MAIN,
        destination: single(port.address),
        action: DesiredAction::Send {
            device: name,
            gateway: None,
            source: Some(subnet.router()),
        },
    });
}

fn hooked(kind: &str, hook: &str, priority: i64, drop: bool, rules: Vec<String>) -> Chain {
    let hook = Hook {
        kind: kind.to_owned(),
        hook: hook.to_owned(),
        priority,
        drop,
    };
    Chain {
        hook: Some(hook),
        device: None,
        rules,
    }
}

fn chain(rules: Vec<String>) -> Chain {
    Chain {
        rules,
        ..Chain::default()
    }
}

fn lines(rules: &[&str]) -> Vec<String> {
    rules.iter().map(|rule| (*rule).to_owned()).collect()
}

/// The digest of everything that decides whether a flow is allowed; never zero.
fn policy_mark(program: &NetworkProgram) -> u32 {
    let mut text = format!("{:?}{:?}", program.groups, program.blocks);
    for port in &program.ports {
        text.push_str(&format!(
            "{:?}{:?}{:?}{:?}{:?}",
            port.id, port.number, port.address, port.public, port.groups
        ));
    }
    let digest = Sha256::digest(text.as_bytes());
    u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]).max(1)
}

fn ruleset(program: &NetworkProgram, subnets: &BTreeMap<&SubnetId, &Subnet>) -> Ruleset {
    let mut ruleset = Ruleset::default();
    let table = ruleset.table("inet", TABLE);
    add_sets(table, program, subnets);
    add_pipeline(table, policy_mark(program));
    for group in &program.groups {
        for (direction, allowed) in [
            (Direction::Ingress, INGRESS_ALLOWED),
            (Direction::Egress, EGRESS_ALLOWED),
        ] {
            let rules = groups::rules(group, direction, allowed);
            table
                .chains
                .insert(groups::chain_name(&group.id, direction), chain(rules));
        }
    }
    for port in &program.ports {
        for (direction, letter, allowed) in [
            (Direction::Ingress, 'i', INGRESS_ALLOWED),
            (Direction::Egress, 'e', EGRESS_ALLOWED),
        ] {
            let mut rules: Vec<String> = port
                .groups
                .iter()
                .map(|group| format!("jump {}", groups::chain_name(group, direction)))
                .collect();
            rules.push(format!("meta mark != {allowed} counter drop"));
            table
                .chains
                .insert(format!("{letter}_{}", port.number.0), chain(rules));
        }
    }
    let routers: Vec<String> = program
        .subnets
        .iter()
        .map(|subnet| subnet.router().to_string())
        .collect();
    let guard = ruleset.table("netdev", "guard");
    for port in &program.ports {
        if let Some(subnet) = subnets.get(&port.subnet) {
            let device = device_name(port.number);
            let mut chain = hooked(
                "filter",
                "ingress",
                -500,
                true,
                guard_rules(port, subnet, &routers),
            );
            chain.device = Some(device.clone());
            guard.chains.insert(device, chain);
        }
    }
    ruleset
}

fn add_sets(table: &mut Table, program: &NetworkProgram, subnets: &BTreeMap<&SubnetId, &Subnet>) {
    let mut ports = Set::of(&["ifname"]);
    let mut metadata = Set::of(&["ifname", "ipv4_addr"]);
    let mut own = Set::of(&["ifname", "ipv4_addr"]);
    let mut resolvers = Set::of(&["ipv4_addr"]);
    for address in self::resolvers(program) {
        resolvers.insert(address.to_string());
    }
    let mut pairs = Set::of(&["ipv4_addr", "ipv4_addr"]);
    let mut to_public = Set::map(&["ipv4_addr"], "ipv4_addr");
    let mut to_private = Set::map(&["ipv4_addr"], "ipv4_addr");
    let mut table_of = Set::map(&["ifname"], "mark");
    let mut egress = Set::map(&["ifname"], "verdict");
    let mut ingress = Set::map(&["ifname"], "verdict");
    for port in &program.ports {
        let device = device_name(port.number);
        ports.insert(device.clone());
        own.insert(format!("{device} . {}", port.address));
        if port.metadata.enabled {
            metadata.insert(format!("{device} . {}", port.address));
        }
        if let Some(public) = port.public {
            pairs.insert(format!("{public} . {}", port.address));
            to_public.insert_value(port.address.to_string(), public.to_string());
            to_private.insert_value(public.to_string(), port.address.to_string());
        }
        if let Some(TableNumber(number)) = subnets.get(&port.subnet).map(|subnet| subnet.table) {
            table_of.insert_value(device.clone(), number.to_string());
        }
        egress.insert_value(device.clone(), format!("jump e_{}", port.number.0));
        ingress.insert_value(device, format!("jump i_{}", port.number.0));
    }
    let named = [
        ("ports", ports),
        ("metadata", metadata),
        ("own", own),
        ("resolvers", resolvers),
        ("pairs", pairs),
        ("to_public", to_public),
        ("to_private", to_private),
        ("table_of", table_of),
        ("egress_of", egress),
        ("ingress_of", ingress),
    ];
    table
        .sets
        .extend(named.into_iter().map(|(name, set)| (name.to_owned(), set)));
    let referenced: BTreeSet<_> = program
        .groups
        .iter()
        .flat_map(|group| group.ingress.iter().chain(&group.egress))
        .filter_map(|rule| match &rule.peer {
            Peer::Group(id) => Some(id),
            Peer::Block(_) => None,
        })
        .collect();
    for group in program
        .groups
        .iter()
        .filter(|group| referenced.contains(&group.id))
    {
        let mut members = Set::of(&["ipv4_addr"]);
        let local = program
            .ports
            .iter()
            .filter(|port| port.groups.contains(&group.id))
            .map(|port| port.address);
        for address in local.chain(group.remote_members.iter().copied()) {
            members.insert(address.to_string());
        }
        table.sets.insert(groups::members_name(&group.id), members);
    }
}

fn add_pipeline(table: &mut Table, mark: u32) {
    let steer = ["meta mark set iifname map @table_of"];
    let arrive = ["iifname \"up\" dnat ip to ip daddr map @to_private"];
    let depart = ["oifname \"up\" snat ip to ip saddr map @to_public"];
    let transit = [
        "meta nfproto != ipv4 counter drop",
        "ct state invalid counter drop",
        &format!("ip saddr {NEVER_SOURCE} counter drop"),
        &format!("ip daddr {NEVER_DESTINATION} counter drop"),
        "iifname \"up\" ct direction original ct original ip daddr . ip daddr != @pairs counter drop",
        "iifname \"up\" ct direction reply ct reply ip daddr . ip daddr != @pairs counter drop",
        "goto live",
    ];
    let live = [&format!("ct mark 0x{mark:08x} accept"), "goto judge"];
    let judge = [
        "iifname != \"up\" iifname != @ports counter drop",
        "oifname != \"up\" oifname != @ports counter drop",
        "ct direction original iifname vmap @egress_of",
        "ct direction reply oifname vmap @egress_of",
        "ct direction original oifname vmap @ingress_of",
        "ct direction reply iifname vmap @ingress_of",
        "goto pass",
    ];
    let pass = [&format!("ct mark set 0x{mark:08x} accept")];
    let border = [
        "oifname != \"up\" accept",
        "ct direction original ip saddr . ct original ip saddr != @pairs counter drop",
        "ct direction reply ip saddr . ct reply ip saddr != @pairs counter drop",
    ];
    let services = [
        "iifname @ports udp sport 68 udp dport 67 accept",
        &format!("iifname . ip saddr @metadata ip daddr {METADATA} tcp dport 80 accept"),
        "iifname . ip saddr @own ip daddr @resolvers udp dport 53 accept",
        "iifname . ip saddr @own ip daddr @resolvers tcp dport 53 accept",
        "iifname @ports ct state related icmp type { destination-unreachable, time-exceeded } accept",
        "counter drop",
    ];
    let chains = [
        (
            "steer",
            hooked("filter", "prerouting", -150, false, lines(&steer)),
        ),
        ("arrive", hooked("nat", "prerouting", -100, false, lines(&arrive))),
        ("transit", hooked("filter", "forward", 0, true, lines(&transit))),
        ("live", chain(live.map(|rule| rule.to_string()).to_vec())),
        ("judge", chain(lines(&judge))),
        ("pass", chain(pass.map(|rule| rule.to_string()).to_vec())),
        ("depart", hooked("nat", "postrouting", 100, false, lines(&depart))),
        (
            "border",
            hooked("filter", "postrouting", 110, false, lines(&border)),
        ),
        ("services", hooked("filter", "input", 0, true, lines(&services))),
    ];
    table
        .chains
        .extend(chains.into_iter().map(|(name, chain)| (name.to_owned(), chain)));
}

/// The checks at a port's ingress.
fn guard_rules(port: &Port, subnet: &Subnet, routers: &[String]) -> Vec<String> {
    let Port { mac, address, .. } = port;
    let services = [METADATA.to_string(), RESOLVER.to_string()];
    let routers = routers.join(", ");
    let mut rules = vec![
        format!("ether saddr != {mac} counter drop"),
        format!(
            "ether type arp arp saddr ether {mac} arp saddr ip {{ 0.0.0.0, {address} }} \
             arp daddr ip {{ {}, {} }} accept",
            subnet.block.trunc(),
            services.join(", ")
        ),
        "ether type != ip counter drop".to_owned(),
        "udp sport 67 counter drop".to_owned(),
        "icmp type redirect counter drop".to_owned(),
        "ip saddr 0.0.0.0 ip daddr 255.255.255.255 udp sport 68 udp dport 67 accept".to_owned(),
        format!("ip saddr {address} ip daddr 255.255.255.255 udp sport 68 udp dport 67 accept"),
        "ip daddr { 0.0.0.0/8, 127.0.0.0/8, 224.0.0.0/3 } counter drop".to_owned(),
        format!("ip saddr {address} accept"),
    ];
    if !port.source_check {
        rules.push(format!("ip saddr {{ {routers} }} counter drop"));
        rules.push(format!("ip daddr {{ {routers} }} counter drop"));
        rules.push(
            "ip saddr != { 0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3 } ip daddr != 169.254.0.0/16 accept"
                .to_owned(),
        );
    }
    rules.push("counter drop".to_owned());
    rules
}
