//! Judging a program before anything is touched: bounds, references, and that no two things collide.
//!
//! Pure. Called first by every apply; what passes here compiles without error.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use crate::compile;
use crate::error::ProgramError;
use crate::limits;
use crate::program::{
    EdgeProgram, Group, MacAddress, NetworkProgram, Peer, Port, Protocol, Rule, Subnet, SubnetId, TableNumber,
};

/// Highest port number: `p` and its digits must fit a device name.
const PORT_NUMBER_MAX: u32 = 999_999_999;

fn bounded(what: &'static str, count: usize, max: usize) -> Result<(), ProgramError> {
    if count > max {
        Err(ProgramError::TooMany { what, max })
    } else {
        Ok(())
    }
}

fn identity(id: &str) -> Result<(), ProgramError> {
    let fits = !id.is_empty() && id.len() <= limits::IDENTITY_BYTES_MAX;
    if fits && id.chars().all(|c| c.is_ascii_graphic()) {
        Ok(())
    } else {
        Err(ProgramError::Identity(id.to_owned()))
    }
}

fn once<T: Ord + Display + Clone>(
    seen: &mut BTreeSet<T>,
    what: &'static str,
    value: &T,
) -> Result<(), ProgramError> {
    if seen.insert(value.clone()) {
        Ok(())
    } else {
        Err(ProgramError::Twice {
            what,
            value: value.to_string(),
        })
    }
}

/// Judges a network program.
pub(crate) fn network(program: &NetworkProgram) -> Result<(), ProgramError> {
    identity(program.network.as_str())?;
    bounded("address blocks", program.blocks.len(), limits::BLOCKS_MAX)?;
    bounded("subnets", program.subnets.len(), limits::SUBNETS_MAX)?;
    bounded("ports", program.ports.len(), limits::PORTS_MAX)?;
    bounded("groups", program.groups.len(), limits::GROUPS_MAX)?;
    let tables = tables(program)?;
    let subnets = subnets(program, &tables)?;
    let mut groups = BTreeSet::new();
    for group in &program.groups {
        identity(group.id.as_str())?;
        once(&mut groups, "group", &group.id)?;
    }
    for group in &program.groups {
        rules(group, |id| groups.contains(id))?;
    }
    let mut seen = Seen::default();
    for port in &program.ports {
        let subnet = subnets
            .get(&port.subnet)
            .ok_or_else(|| ProgramError::SubnetUnknown {
                port: port.id.clone(),
                subnet: port.subnet.clone(),
            })?;
        self::port(port, subnet, &mut seen)?;
        if compile::resolvers(program).contains(&port.address) {
            return Err(ProgramError::Address {
                port: port.id.clone(),
                address: port.address,
            });
        }
        if let Some(unknown) = port.groups.iter().find(|id| !groups.contains(id)) {
            return Err(ProgramError::GroupUnknown(unknown.clone()));
        }
    }
    Ok(())
}

fn tables(program: &NetworkProgram) -> Result<BTreeSet<TableNumber>, ProgramError> {
    let mut numbers = BTreeSet::new();
    for table in &program.tables {
        let number = table.number;
        if number.0 == 0 || number.0 > limits::TABLE_NUMBER_MAX {
            return Err(ProgramError::TableUnknown(number));
        }
        if !numbers.insert(number) {
            return Err(ProgramError::Twice {
                what: "route table",
                value: number.0.to_string(),
            });
        }
        bounded("routes", table.routes.len(), limits::TABLE_ROUTES_MAX)?;
        let mut destinations = BTreeSet::new();
        for route in &table.routes {
            once(&mut destinations, "destination", &route.destination.trunc())?;
        }
    }
    Ok(numbers)
}

fn subnets<'a>(
    program: &'a NetworkProgram,
    tables: &BTreeSet<TableNumber>,
) -> Result<BTreeMap<&'a SubnetId, &'a Subnet>, ProgramError> {
    let mut subnets = BTreeMap::new();
    for subnet in &program.subnets {
        identity(subnet.id.as_str())?;
        if !tables.contains(&subnet.table) {
            return Err(ProgramError::TableUnknown(subnet.table));
        }
        let inside = program.blocks.iter().any(|block| block.contains(&subnet.block));
        let overlaps = subnets.values().any(|other: &&Subnet| {
            other.block.contains(&subnet.block.network()) || subnet.block.contains(&other.block.network())
        });
        if !inside || overlaps || subnet.block.prefix_len() > 30 {
            return Err(ProgramError::SubnetBlock(subnet.block));
        }
        if subnets.insert(&subnet.id, subnet).is_some() {
            return Err(ProgramError::Twice {
                what: "subnet",
                value: subnet.id.to_string(),
            });
        }
    }
    Ok(subnets)
}

fn rules(group: &Group, known: impl Fn(&crate::program::GroupId) -> bool) -> Result<(), ProgramError> {
    for rules in [&group.ingress, &group.egress] {
        bounded("rules", rules.len(), limits::GROUP_RULES_MAX)?;
        for Rule { protocol, peer } in rules {
            match *protocol {
                Protocol::Tcp(ports) | Protocol::Udp(ports) if ports.from > ports.to => {
                    return Err(ProgramError::PortRange {
                        from: ports.from,
                        to: ports.to,
                    });
                }
                Protocol::Icmp {
                    kind: None,
                    code: Some(_),
                } => return Err(ProgramError::IcmpCode),
                _ => {}
            }
            match peer {
                Peer::Group(id) if !known(id) => return Err(ProgramError::GroupUnknown(id.clone())),
                _ => {}
            }
        }
    }
    bounded("members", group.remote_members.len(), limits::PORTS_MAX)
}

#[derive(Default)]
struct Seen {
    ids: BTreeSet<crate::program::PortId>,
    numbers: BTreeSet<u32>,
    addresses: BTreeSet<std::net::Ipv4Addr>,
}

fn port(port: &Port, subnet: &Subnet, seen: &mut Seen) -> Result<(), ProgramError> {
    identity(port.id.as_str())?;
    once(&mut seen.ids, "port", &port.id)?;
    if port.number.0 > PORT_NUMBER_MAX {
        return Err(ProgramError::PortNumber(port.number));
    }
    once(&mut seen.numbers, "port number", &port.number.0)?;
    bounded("groups of a port", port.groups.len(), limits::PORT_GROUPS_MAX)?;
    let reserved = [subnet.block.network(), subnet.router(), subnet.block.broadcast()];
    if !subnet.block.contains(&port.address) || reserved.contains(&port.address) {
        return Err(ProgramError::Address {
            port: port.id.clone(),
            address: port.address,
        });
    }
    for address in std::iter::once(port.address).chain(port.public) {
        let special = address.is_loopback()
            || address.is_link_local()
            || address.is_multicast()
            || address.is_broadcast()
            || address.is_unspecified();
        if special {
            return Err(ProgramError::Address {
                port: port.id.clone(),
                address,
            });
        }
        once(&mut seen.addresses, "address", &address)?;
    }
    let MacAddress(bytes) = port.mac;
    if bytes[0] & 1 == 1 || bytes == [0; 6] {
        return Err(ProgramError::Mac(port.id.clone()));
    }
    if !(1..=64).contains(&port.metadata.hop_limit) {
        return Err(ProgramError::HopLimit(port.id.clone()));
    }
    let dhcp = &port.dhcp;
    let names = [&dhcp.hostname, &dhcp.domain].into_iter().flatten();
    let named = names.into_iter().all(|name| {
        let printable = name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
        !name.is_empty() && name.len() <= limits::DHCP_NAME_BYTES_MAX && printable
    });
    let few = [&dhcp.resolvers, &dhcp.time_servers]
        .iter()
        .all(|list| list.len() <= limits::DHCP_ADDRESSES_MAX);
    if named && few {
        Ok(())
    } else {
        Err(ProgramError::Dhcp(port.id.clone()))
    }
}

/// Judges an edge program.
pub(crate) fn edge(program: &EdgeProgram) -> Result<(), ProgramError> {
    bounded("pools", program.pools.len(), limits::POOLS_MAX)?;
    for (index, pool) in program.pools.iter().enumerate() {
        let overlaps = program.pools[..index]
            .iter()
            .any(|other| other.contains(&pool.network()) || pool.contains(&other.network()));
        let special = pool.network().is_multicast() || pool.network().is_loopback() || pool.prefix_len() == 0;
        if overlaps || special {
            return Err(ProgramError::Pool(*pool));
        }
    }
    match program.host_address {
        Some(address) if !program.pools.iter().any(|pool| pool.contains(&address)) => {
            Err(ProgramError::HostAddress(address))
        }
        _ => Ok(()),
    }
}

/// Judges a cloud tag: it becomes part of interface and table names.
pub(crate) fn cloud_tag(tag: &str) -> bool {
    (1..=limits::CLOUD_TAG_BYTES_MAX).contains(&tag.len())
        && tag
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}
