//! The host's own namespace: the only code that changes something there, and only what is ours.
//!
//! Ours are the device `spx-<tag>`, the table `spx_<tag>`, and routes with our protocol number on that device. The
//! one thing that is shared is forwarding on the uplinks: what it was before the first cloud is kept in a file for
//! the machine's uptime, and the last cloud that ends puts it back. Called by the engine, never in a namespace.

use std::collections::BTreeSet;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use ipnet::Ipv4Net;

use crate::compile::{HOSTLINK, Host, INNER, INNER_MAC, OUTER_MAC};
use crate::error::VnetError;
use crate::kernel::links::{self, Link, LinkChange, VethEnd};
use crate::kernel::namespace::Namespace;
use crate::kernel::netlink::Netlink;
use crate::kernel::nft;
use crate::kernel::routes::{self, Action, Address, Neighbour, RouteEntry, TABLE_MAIN};
use crate::kernel::sysctl::{self, Setting, setting};
use crate::ruleset::Observed;

/// What forwarding was on each uplink before any cloud changed it, by the host's namespace: as long-lived as the
/// setting.
const FORWARDING_BEFORE: &str = "/run/spinifex-forwarding";
/// Devices with this prefix are towards an edge of some cloud.
const DEVICE_PREFIX: &str = "spx-";

fn find(netlink: &mut Netlink, name: &str) -> Result<Option<Link>, VnetError> {
    Ok(links::list(netlink)?.into_iter().find(|link| link.name == name))
}

/// Makes the host's side equal to what is wanted; says whether something had to be changed.
pub(crate) fn ensure(host: &Host, edge: &Namespace, mtu: u32, forward: bool) -> Result<bool, VnetError> {
    let mut netlink = Netlink::route()?;
    let mut changed = ensure_device(&mut netlink, host, edge, mtu)?;
    let link = find(&mut netlink, &host.device)?.ok_or_else(|| VnetError::DeviceMissing {
        device: host.device.clone(),
    })?;
    changed |= ensure_routes(&mut netlink, host, link.index)?;
    changed |= ensure_table(host)?;
    if forward {
        changed |= sysctl::ensure(&setting(format!("ipv4/conf/{}/forwarding", host.device), "1"))?;
        for uplink in uplinks(&mut netlink)? {
            changed |= forward_on(&uplink)?;
        }
    }
    Ok(changed)
}

fn ensure_device(netlink: &mut Netlink, host: &Host, edge: &Namespace, mtu: u32) -> Result<bool, VnetError> {
    let mut changed = false;
    let inside = edge.run(|| Ok(find(&mut Netlink::route()?, HOSTLINK)?.is_some()))?;
    let mut link = find(netlink, &host.device)?;
    if let Some(stale) = link.as_ref().filter(|_| !inside) {
        links::delete(netlink, stale)?;
        link = None;
    }
    if link.is_none() {
        let near = VethEnd {
            name: &host.device,
            mac: OUTER_MAC,
            namespace: None,
        };
        let far = VethEnd {
            name: HOSTLINK,
            mac: INNER_MAC,
            namespace: Some(edge.as_fd()),
        };
        links::add_veth(netlink, &near, &far, mtu)?;
        link = find(netlink, &host.device)?;
        changed = true;
    }
    let link = link.ok_or_else(|| VnetError::DeviceMissing {
        device: host.device.clone(),
    })?;
    let path = format!("ipv6/conf/{}/disable_ipv6", host.device);
    changed |= sysctl::ensure(&Setting {
        path,
        value: "1",
        optional: true,
    })?;
    changed |= sysctl::ensure(&setting(format!("ipv4/conf/{}/rp_filter", host.device), "0"))?;
    if link.mac != Some(OUTER_MAC) || link.mtu != mtu || !link.up {
        let change = LinkChange {
            mac: Some(OUTER_MAC),
            mtu: Some(mtu),
            up: Some(true),
            ..LinkChange::default()
        };
        links::change(netlink, link.index, &change)?;
        changed = true;
    }
    Ok(changed)
}

fn ensure_routes(netlink: &mut Netlink, host: &Host, device: u32) -> Result<bool, VnetError> {
    let mut changed = false;
    let addresses: BTreeSet<Address> = host
        .addresses
        .iter()
        .map(|address| Address {
            device,
            address: *address,
        })
        .collect();
    let present: BTreeSet<Address> = routes::list_addresses(netlink)?
        .into_iter()
        .filter(|entry| entry.device == device)
        .collect();
    for entry in present.difference(&addresses) {
        routes::delete_address(netlink, *entry)?;
        changed = true;
    }
    for entry in addresses.difference(&present) {
        routes::add_address(netlink, *entry)?;
        changed = true;
    }
    let neighbour = Neighbour {
        device,
        address: INNER,
        mac: INNER_MAC,
    };
    if !routes::list_neighbours(netlink)?.contains(&neighbour) {
        routes::replace_neighbour(netlink, neighbour)?;
        changed = true;
    }
    let action = Action::Send {
        device,
        gateway: Some(INNER),
        source: host.source,
    };
    let wanted: BTreeSet<RouteEntry> = host
        .pools
        .iter()
        .map(|pool| RouteEntry {
            table: TABLE_MAIN,
            destination: *pool,
            action,
        })
        .collect();
    let ours = |entry: &RouteEntry, protocol| {
        let on_device = matches!(entry.action, Action::Send { device: on, .. } if on == device);
        protocol == routes::PROTOCOL && on_device
    };
    let mut right = BTreeSet::new();
    for (entry, protocol) in routes::list_routes(netlink)? {
        if !ours(&entry, protocol) {
            continue;
        }
        if wanted.contains(&entry) {
            right.insert(entry);
        } else {
            routes::delete_route(netlink, entry, protocol)?;
            changed = true;
        }
    }
    for entry in wanted.difference(&right) {
        routes::add_route(netlink, *entry)?;
        changed = true;
    }
    Ok(changed)
}

fn ensure_table(host: &Host) -> Result<bool, VnetError> {
    let listing = nft::find_table(&host.table.family, &host.table.name)?;
    let observed = listing
        .map(|listing| Observed::parse(&listing).only(&host.table))
        .unwrap_or_default();
    match host.ruleset.plan(&observed) {
        None => Ok(false),
        Some(script) => nft::transact(&script).map(|()| true),
    }
}

/// Removes everything of ours from the host.
pub(crate) fn remove(host: &Host) -> Result<(), VnetError> {
    let mut netlink = Netlink::route()?;
    if let Some(link) = find(&mut netlink, &host.device)? {
        links::delete(&mut netlink, &link)?;
    }
    if nft::find_table(&host.table.family, &host.table.name)?.is_some() {
        nft::transact(&format!(
            "delete table {} {}\n",
            host.table.family, host.table.name
        ))?;
    }
    let others = links::list(&mut netlink)?
        .iter()
        .any(|link| link.name.starts_with(DEVICE_PREFIX));
    if others { Ok(()) } else { restore_forwarding() }
}

/// The devices that default routes leave by.
fn uplinks(netlink: &mut Netlink) -> Result<BTreeSet<String>, VnetError> {
    let routes = routes::list_routes(netlink)?;
    let links = links::list(netlink)?;
    let devices = routes.iter().filter_map(|(entry, _)| match entry.action {
        Action::Send { device, .. } if entry.destination.prefix_len() == 0 => Some(device),
        _ => None,
    });
    let name = |index| {
        links
            .iter()
            .find(|link| link.index == index)
            .map(|link| link.name.clone())
    };
    Ok(devices.filter_map(name).collect())
}

fn kept(path: PathBuf) -> impl FnOnce(io::Error) -> VnetError {
    move |source| VnetError::Record { path, source }
}

fn forwarding_records() -> Result<PathBuf, VnetError> {
    let path = PathBuf::from("/proc/thread-self/ns/net");
    let inode = std::fs::metadata(&path).map_err(kept(path))?.ino();
    Ok(PathBuf::from(format!("{FORWARDING_BEFORE}-{inode}")))
}

fn forward_on(device: &str) -> Result<bool, VnetError> {
    let path = format!("ipv4/conf/{device}/forwarding");
    if sysctl::find(&path)?.as_deref() == Some("1") {
        return Ok(false);
    }
    let record = forwarding_records()?;
    std::fs::create_dir_all(&record).map_err(kept(record.clone()))?;
    let record = record.join(device);
    std::fs::write(&record, "0").map_err(kept(record))?;
    sysctl::write(&path, "1").map(|()| true)
}

fn restore_forwarding() -> Result<(), VnetError> {
    let directory = forwarding_records()?;
    let entries = match std::fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(kept(directory)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(kept(directory.clone()))?;
        let path = format!("ipv4/conf/{}/forwarding", entry.file_name().to_string_lossy());
        if sysctl::find(&path)?.is_some() {
            sysctl::write(&path, "0")?;
        }
        std::fs::remove_file(entry.path()).map_err(kept(entry.path()))?;
    }
    std::fs::remove_dir(&directory).map_err(kept(directory))
}

/// The first candidate that overlaps no address and no route of the host but the default one.
pub(crate) fn choose_pool(candidates: &[Ipv4Net]) -> Result<Option<Ipv4Net>, VnetError> {
    let mut netlink = Netlink::route()?;
    let mut taken: Vec<Ipv4Net> = routes::list_addresses(&mut netlink)?
        .into_iter()
        .map(|entry| entry.address)
        .collect();
    let routes = routes::list_routes(&mut netlink)?
        .into_iter()
        .map(|(entry, _)| entry.destination);
    taken.extend(routes.filter(|destination| destination.prefix_len() > 0));
    let free = |pool: &&Ipv4Net| {
        let overlaps = |other: &Ipv4Net| other.contains(&pool.network()) || pool.contains(&other.addr());
        !taken.iter().any(overlaps)
    };
    Ok(candidates.iter().find(free).copied())
}

/// An address of the pool for the host itself: the last before the broadcast address. Whoever gives addresses of the pool
/// to guests leaves it out.
pub fn host_address(pool: &Ipv4Net) -> Option<Ipv4Addr> {
    (pool.prefix_len() <= 30).then(|| Ipv4Addr::from(u32::from(pool.broadcast()) - 1))
}
