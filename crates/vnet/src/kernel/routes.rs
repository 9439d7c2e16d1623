//! IPv4 addresses, routes, neighbours and policy rules of a namespace, as sets of values that compare.
//!
//! Reading leaves out what the kernel makes by itself (its local table, default rules, non-permanent neighbours),
//! so that a namespace that was made from a set reads back as that set. Devices are named by index here: a device
//! that was replaced has none of the old one's entries. Called by `converge`.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::netlink::{F_CREATE, F_EXCL, F_REPLACE, Netlink, Request, number};
use crate::error::VnetError;
use crate::program::MacAddress;

const NEWADDR: u16 = 20;
const DELADDR: u16 = 21;
const GETADDR: u16 = 22;
const NEWROUTE: u16 = 24;
const DELROUTE: u16 = 25;
const GETROUTE: u16 = 26;
const NEWNEIGH: u16 = 28;
const DELNEIGH: u16 = 29;
const GETNEIGH: u16 = 30;
const NEWRULE: u16 = 32;
const DELRULE: u16 = 33;
const GETRULE: u16 = 34;

const INET: u8 = libc::AF_INET as u8;
const ADDRESS_LOCAL: u16 = 2;
const ADDRESS_ADDRESS: u16 = 1;
const ROUTE_DESTINATION: u16 = 1;
const ROUTE_OUT: u16 = 4;
const ROUTE_GATEWAY: u16 = 5;
const ROUTE_SOURCE: u16 = 7;
const ROUTE_TABLE: u16 = 15;
const NEIGHBOUR_ADDRESS: u16 = 1;
const NEIGHBOUR_MAC: u16 = 2;
const NEIGHBOUR_PERMANENT: u16 = 0x80;
const NEIGHBOUR_NOARP: u16 = 0x40;
const RULE_PRIORITY: u16 = 6;
const RULE_MARK: u16 = 10;
const RULE_TABLE: u16 = 15;
const RULE_MASK: u16 = 16;
const RULE_TO_TABLE: u8 = 1;
const SCOPE_LINK: u8 = 253;
const ONLINK: u32 = 4;

/// The main table, where the network's own addresses are.
pub(crate) const TABLE_MAIN: u32 = 254;
const TABLE_DEFAULT: u32 = 253;
const TABLE_LOCAL: u32 = 255;
const PRIORITY_MAIN: u32 = 32_766;
const PRIORITY_DEFAULT: u32 = 32_767;

/// The number by which routes say that we made them (unassigned in `rtnetlink.h`).
pub(crate) const PROTOCOL: u8 = 83;

/// An address on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address {
    pub(crate) device: u32,
    pub(crate) address: Ipv4Net,
}

/// What a route does with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    /// To a device, to the destination itself or to a gateway that is taken to be on it.
    Send {
        device: u32,
        gateway: Option<Ipv4Addr>,
        source: Option<Ipv4Addr>,
    },
    /// Answer that there is no way.
    Unreachable,
    /// Drop.
    Blackhole,
    /// Made by somebody for something that we never make (number of its type).
    Foreign(u8),
}

/// A route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RouteEntry {
    pub(crate) table: u32,
    pub(crate) destination: Ipv4Net,
    pub(crate) action: Action,
}

/// A permanent neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Neighbour {
    pub(crate) device: u32,
    pub(crate) address: Ipv4Addr,
    pub(crate) mac: MacAddress,
}

/// A policy rule: packets with this mark use this table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MarkRule {
    pub(crate) priority: u32,
    pub(crate) mark: u32,
    pub(crate) table: u32,
}

fn address(value: &[u8]) -> Option<Ipv4Addr> {
    let bytes: [u8; 4] = value.try_into().ok()?;
    Some(Ipv4Addr::from(bytes))
}

fn net(address: Ipv4Addr, length: u8) -> Option<Ipv4Net> {
    Ipv4Net::new(address, length).ok()
}

/// The addresses of all devices.
pub(crate) fn list_addresses(netlink: &mut Netlink) -> Result<BTreeSet<Address>, VnetError> {
    let messages = netlink.dump("list addresses", || {
        Request::new(GETADDR, 0, &[INET, 0, 0, 0, 0, 0, 0, 0])
    })?;
    Ok(messages
        .iter()
        .filter_map(|message| {
            let [family, length, _, _, a, b, c, d] = message.header();
            let local = message.attributes(8).find(|(kind, _)| *kind == ADDRESS_LOCAL)?.1;
            let device = u32::from_ne_bytes([a, b, c, d]);
            (family == INET).then_some(Address {
                device,
                address: net(address(local)?, length)?,
            })
        })
        .collect())
}

fn address_request(kind: u16, flags: u16, entry: Address) -> Request {
    let mut header = [INET, entry.address.prefix_len(), 0, 0, 0, 0, 0, 0];
    header[4..8].copy_from_slice(&entry.device.to_ne_bytes());
    let mut request = Request::new(kind, flags, &header);
    request.attribute(ADDRESS_LOCAL, &entry.address.addr().octets());
    request.attribute(ADDRESS_ADDRESS, &entry.address.addr().octets());
    request
}

/// Adds an address.
pub(crate) fn add_address(netlink: &mut Netlink, entry: Address) -> Result<(), VnetError> {
    netlink.change(
        "add an address",
        entry.address,
        address_request(NEWADDR, F_CREATE | F_REPLACE, entry),
    )
}

/// Deletes an address.
pub(crate) fn delete_address(netlink: &mut Netlink, entry: Address) -> Result<(), VnetError> {
    netlink.change(
        "delete an address",
        entry.address,
        address_request(DELADDR, 0, entry),
    )
}

/// The routes of all tables but the kernel's local one, with the protocol that made each.
pub(crate) fn list_routes(netlink: &mut Netlink) -> Result<Vec<(RouteEntry, u8)>, VnetError> {
    let mut header = [0; 12];
    header[0] = INET;
    let messages = netlink.dump("list routes", || Request::new(GETROUTE, 0, &header))?;
    Ok(messages.iter().filter_map(read_route).collect())
}

fn read_route(message: &super::netlink::Message) -> Option<(RouteEntry, u8)> {
    let [family, length, _, _, short_table, protocol, _, kind, ..]: [u8; 12] = message.header();
    let mut table = u32::from(short_table);
    let mut destination = Ipv4Addr::UNSPECIFIED;
    let (mut device, mut gateway, mut source) = (0, None, None);
    for (kind, value) in message.attributes(12) {
        match kind {
            ROUTE_DESTINATION => destination = address(value)?,
            ROUTE_OUT => device = number(value)?,
            ROUTE_GATEWAY => gateway = address(value),
            ROUTE_SOURCE => source = address(value),
            ROUTE_TABLE => table = number(value)?,
            _ => {}
        }
    }
    if family != INET || table == TABLE_LOCAL {
        return None;
    }
    let action = match kind {
        1 => Action::Send {
            device,
            gateway,
            source,
        },
        6 => Action::Blackhole,
        7 => Action::Unreachable,
        other => Action::Foreign(other),
    };
    Some((
        RouteEntry {
            table,
            destination: net(destination, length)?,
            action,
        },
        protocol,
    ))
}

fn route_request(kind: u16, flags: u16, entry: RouteEntry, protocol: u8) -> Request {
    let (number, scope, flag) = match entry.action {
        Action::Send { gateway: None, .. } => (1, SCOPE_LINK, 0),
        Action::Send { gateway: Some(_), .. } => (1, 0, ONLINK),
        Action::Blackhole => (6, 0, 0),
        Action::Unreachable => (7, 0, 0),
        Action::Foreign(number) => (number, 0, 0),
    };
    let short_table = u8::try_from(entry.table).unwrap_or(0);
    let mut header = [
        INET,
        entry.destination.prefix_len(),
        0,
        0,
        short_table,
        protocol,
        scope,
        number,
        0,
        0,
        0,
        0,
    ];
    header[8..12].copy_from_slice(&u32::to_ne_bytes(flag));
    let mut request = Request::new(kind, flags, &header);
    request.attribute(ROUTE_DESTINATION, &entry.destination.network().octets());
    request.attribute(ROUTE_TABLE, &entry.table.to_ne_bytes());
    if let Action::Send {
        device,
        gateway,
        source,
    } = entry.action
    {
        request.attribute(ROUTE_OUT, &device.to_ne_bytes());
        if let Some(gateway) = gateway {
            request.attribute(ROUTE_GATEWAY, &gateway.octets());
        }
        if let Some(source) = source {
            request.attribute(ROUTE_SOURCE, &source.octets());
        }
    }
    request
}

/// Adds a route, in place of one to the same destination in the same table.
pub(crate) fn replace_route(netlink: &mut Netlink, entry: RouteEntry) -> Result<(), VnetError> {
    let request = route_request(NEWROUTE, F_CREATE | F_REPLACE, entry, PROTOCOL);
    netlink.change("set a route", format_args!("{entry:?}"), request)
}

/// Adds a route; fails if there is one to the same destination in the same table.
pub(crate) fn add_route(netlink: &mut Netlink, entry: RouteEntry) -> Result<(), VnetError> {
    let request = route_request(NEWROUTE, F_CREATE | F_EXCL, entry, PROTOCOL);
    netlink.change("add a route", format_args!("{entry:?}"), request)
}

/// Deletes a route.
pub(crate) fn delete_route(netlink: &mut Netlink, entry: RouteEntry, protocol: u8) -> Result<(), VnetError> {
    let request = route_request(DELROUTE, 0, entry, protocol);
    netlink.change("delete a route", format_args!("{entry:?}"), request)
}

/// The neighbours that were set; what the kernel learnt or derived is left out.
pub(crate) fn list_neighbours(netlink: &mut Netlink) -> Result<BTreeSet<Neighbour>, VnetError> {
    let mut header = [0; 12];
    header[0] = INET;
    let messages = netlink.dump("list neighbours", || Request::new(GETNEIGH, 0, &header))?;
    Ok(messages
        .iter()
        .filter_map(|message| {
            let fixed: [u8; 12] = message.header();
            let state = u16::from_ne_bytes([fixed[8], fixed[9]]);
            let device = u32::from_ne_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
            let find = |wanted| {
                message
                    .attributes(12)
                    .find(|(kind, _)| *kind == wanted)
                    .map(|(_, value)| value)
            };
            let address = address(find(NEIGHBOUR_ADDRESS)?)?;
            let mac = MacAddress(find(NEIGHBOUR_MAC)?.try_into().ok()?);
            let set = state & NEIGHBOUR_PERMANENT != 0 && state & NEIGHBOUR_NOARP == 0;
            (fixed[0] == INET && set).then_some(Neighbour { device, address, mac })
        })
        .collect())
}

fn neighbour_request(kind: u16, flags: u16, entry: Neighbour) -> Request {
    let mut header = [0; 12];
    header[0] = INET;
    header[4..8].copy_from_slice(&entry.device.to_ne_bytes());
    header[8..10].copy_from_slice(&NEIGHBOUR_PERMANENT.to_ne_bytes());
    let mut request = Request::new(kind, flags, &header);
    request.attribute(NEIGHBOUR_ADDRESS, &entry.address.octets());
    request.attribute(NEIGHBOUR_MAC, &entry.mac.0);
    request
}

/// Sets a permanent neighbour.
pub(crate) fn replace_neighbour(netlink: &mut Netlink, entry: Neighbour) -> Result<(), VnetError> {
    netlink.change(
        "set a neighbour",
        entry.address,
        neighbour_request(NEWNEIGH, F_CREATE | F_REPLACE, entry),
    )
}

/// Deletes a neighbour.
pub(crate) fn delete_neighbour(netlink: &mut Netlink, entry: Neighbour) -> Result<(), VnetError> {
    netlink.change(
        "delete a neighbour",
        entry.address,
        neighbour_request(DELNEIGH, 0, entry),
    )
}

/// The policy rules besides the kernel's own three.
pub(crate) fn list_rules(netlink: &mut Netlink) -> Result<BTreeSet<MarkRule>, VnetError> {
    let mut header = [0; 12];
    header[0] = INET;
    let messages = netlink.dump("list policy rules", || Request::new(GETRULE, 0, &header))?;
    Ok(messages
        .iter()
        .filter_map(|message| {
            let fixed: [u8; 12] = message.header();
            let find = |wanted| {
                message
                    .attributes(12)
                    .find(|(kind, _)| *kind == wanted)
                    .map(|(_, value)| value)
            };
            let table = find(RULE_TABLE).and_then(number).unwrap_or(u32::from(fixed[4]));
            let priority = find(RULE_PRIORITY).and_then(number).unwrap_or(0);
            let mark = find(RULE_MARK).and_then(number).unwrap_or(0);
            let standard = mark == 0
                && matches!(
                    (priority, table),
                    (0, TABLE_LOCAL) | (PRIORITY_MAIN, TABLE_MAIN) | (PRIORITY_DEFAULT, TABLE_DEFAULT)
                );
            (fixed[0] == INET && !standard).then_some(MarkRule {
                priority,
                mark,
                table,
            })
        })
        .collect())
}

fn rule_request(kind: u16, flags: u16, rule: MarkRule) -> Request {
    let mut header = [0; 12];
    header[0] = INET;
    header[7] = RULE_TO_TABLE;
    let mut request = Request::new(kind, flags, &header);
    request.attribute(RULE_PRIORITY, &rule.priority.to_ne_bytes());
    request.attribute(RULE_TABLE, &rule.table.to_ne_bytes());
    if rule.mark != 0 {
        request.attribute(RULE_MARK, &rule.mark.to_ne_bytes());
        request.attribute(RULE_MASK, &u32::MAX.to_ne_bytes());
    }
    request
}

/// Adds a policy rule.
pub(crate) fn add_rule(netlink: &mut Netlink, rule: MarkRule) -> Result<(), VnetError> {
    netlink.change(
        "add a policy rule",
        rule.mark,
        rule_request(NEWRULE, F_CREATE | F_EXCL, rule),
    )
}

/// Deletes a policy rule.
pub(crate) fn delete_rule(netlink: &mut Netlink, rule: MarkRule) -> Result<(), VnetError> {
    netlink.change("delete a policy rule", rule.mark, rule_request(DELRULE, 0, rule))
}
