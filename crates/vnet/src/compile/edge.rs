//! The edge namespace and the host's side of it: where public addresses live.
//!
//! The edge routes each public address to the network that has it and lets a network send only from its own public
//! addresses, so no private address ever gets here and equal blocks never meet. The host routes the pools to the
//! edge and, if asked, translates what leaves by an uplink. On the host only our device, our table, and routes with
//! our protocol number on our device are ours.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::{
    HOSTLINK, INNER, INNER_MAC, OUTER, OUTER_MAC, TABLE, everything, loopback, router_settings, single,
};
use crate::converge::{Desired, DesiredAction, DesiredLink, DesiredRoute, Origin};
use crate::kernel::routes::TABLE_MAIN;
use crate::program::EdgeProgram;
use crate::ruleset::{Chain, Hook, Ruleset, Set, TableKey};

/// The source of the edge's own errors: the dummy address of RFC 7600.
const EDGE_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);

/// A network's transit in the edge.
pub(crate) fn transit_name(number: u32) -> String {
    format!("n{number}")
}

/// The host's device towards the edge.
fn host_device(tag: &str) -> String {
    format!("spx-{tag}")
}

fn elsewhere(name: &str, alias: &str, mtu: u32) -> DesiredLink {
    DesiredLink {
        name: name.to_owned(),
        alias: alias.to_owned(),
        mac: super::OUTER_MAC,
        mtu,
        origin: Origin::Elsewhere,
        settings: Vec::new(),
    }
}

/// What the edge namespace is to be: `networks` are the transits that may be there, `public` who has which address.
pub(crate) fn edge(
    program: Option<&EdgeProgram>,
    networks: &BTreeMap<u32, String>,
    public: &BTreeMap<Ipv4Addr, u32>,
    mtu: u32,
) -> Desired {
    let mut desired = Desired {
        settings: router_settings(),
        ..Desired::default()
    };
    desired.addresses.insert(loopback());
    desired.addresses.insert(("lo".to_owned(), single(EDGE_ADDRESS)));
    let send = |device: &str, gateway| DesiredAction::Send {
        device: device.to_owned(),
        gateway: Some(gateway),
        source: None,
    };
    if let Some(program) = program {
        desired.links.push(DesiredLink {
            mac: INNER_MAC,
            ..elsewhere(HOSTLINK, "host", mtu)
        });
        desired.neighbours.insert((HOSTLINK.to_owned(), OUTER, OUTER_MAC));
        let action = send(HOSTLINK, OUTER);
        desired.routes.insert(DesiredRoute {
            table: TABLE_MAIN,
            destination: everything(),
            action,
        });
        for pool in &program.pools {
            let action = DesiredAction::Unreachable;
            desired.routes.insert(DesiredRoute {
                table: TABLE_MAIN,
                destination: pool.trunc(),
                action,
            });
        }
        if let Some(address) = program.host_address {
            let action = send(HOSTLINK, OUTER);
            desired.routes.insert(DesiredRoute {
                table: TABLE_MAIN,
                destination: single(address),
                action,
            });
        }
    }
    for (number, network) in networks {
        let name = transit_name(*number);
        desired.links.push(elsewhere(&name, network, mtu));
        desired.neighbours.insert((name, INNER, INNER_MAC));
    }
    let mut owned = Set::of(&["ifname", "ipv4_addr"]);
    for (address, number) in public {
        let name = transit_name(*number);
        owned.insert(format!("{name} . {address}"));
        let action = send(&name, INNER);
        desired.routes.insert(DesiredRoute {
            table: TABLE_MAIN,
            destination: single(*address),
            action,
        });
    }
    desired.ruleset = ruleset(owned);
    desired
}

fn ruleset(owned: Set) -> Ruleset {
    let forward = [
        "meta nfproto != ipv4 counter drop",
        "iifname != \"host\" iifname . ip saddr != @owned counter drop",
        "oifname != \"host\" oifname . ip daddr != @owned counter drop",
        "ip saddr { 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3 } counter drop",
        "ip daddr { 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3 } counter drop",
        "accept",
    ];
    let input = [
        "icmp type { destination-unreachable, time-exceeded } accept",
        "counter drop",
    ];
    let mut ruleset = Ruleset::default();
    let table = ruleset.table("inet", TABLE);
    table.sets.insert("owned".to_owned(), owned);
    for (name, hook, rules) in [
        ("through", "forward", &forward[..]),
        ("inward", "input", &input[..]),
    ] {
        let hook = Hook {
            kind: "filter".to_owned(),
            hook: hook.to_owned(),
            priority: 0,
            drop: true,
        };
        let rules = rules.iter().map(|rule| (*rule).to_owned()).collect();
        table.chains.insert(
            name.to_owned(),
            Chain {
                hook: Some(hook),
                device: None,
                rules,
            },
        );
    }
    ruleset
}

/// What the host is to have of ours.
#[derive(Debug)]
pub(crate) struct Host {
    /// Our device, a veth into the edge.
    pub(crate) device: String,
    /// Addresses on it.
    pub(crate) addresses: BTreeSet<Ipv4Net>,
    /// The pools that are routed to it.
    pub(crate) pools: BTreeSet<Ipv4Net>,
    /// The source of the host's own packets to the pools.
    pub(crate) source: Option<Ipv4Addr>,
    /// Our table: its name, and what is in it.
    pub(crate) table: TableKey,
    /// The ruleset with our table only, or with nothing.
    pub(crate) ruleset: Ruleset,
}

/// What the host is to have for this edge program; without one, nothing.
pub(crate) fn host(program: Option<&EdgeProgram>, tag: &str) -> Host {
    let device = host_device(tag);
    let key = TableKey::new("inet", &format!("spx_{tag}"));
    let mut ruleset = Ruleset::default();
    if let Some(program) = program.filter(|program| program.masquerade && !program.pools.is_empty()) {
        let pools: Vec<String> = program
            .pools
            .iter()
            .map(|pool| pool.trunc().to_string())
            .collect();
        let rule = format!(
            "ip saddr {{ {} }} oifname != \"{device}\" counter masquerade",
            pools.join(", ")
        );
        let hook = Hook {
            kind: "nat".to_owned(),
            hook: "postrouting".to_owned(),
            priority: 100,
            drop: false,
        };
        let table = ruleset.table(&key.family, &key.name);
        table.chains.insert(
            "leave".to_owned(),
            Chain {
                hook: Some(hook),
                device: None,
                rules: vec![rule],
            },
        );
    }
    let pools = program
        .map(|program| program.pools.iter().map(Ipv4Net::trunc).collect())
        .unwrap_or_default();
    let source = program.and_then(|program| program.host_address);
    Host {
        device,
        addresses: source.into_iter().map(single).collect(),
        pools,
        source,
        table: key,
        ruleset,
    }
}
