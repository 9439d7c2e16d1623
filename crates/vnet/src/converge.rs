//! Making a namespace equal to what is wanted: the only place that changes one.
//!
//! The order keeps packets closed until all that judges them is there: settings, devices (down), the ruleset in one
//! transaction, then neighbours, routes, rules, and the devices up; what is not wanted goes at each step before what
//! is new comes. Everything is compared first, so an equal namespace is not touched, and read back afterwards, so
//! success means equal. Works from any state. Called by the engine for networks and for the edge.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;

use ipnet::Ipv4Net;

use crate::error::VnetError;
use crate::kernel::links::{self, Link, LinkChange, VethEnd};
use crate::kernel::netlink::Netlink;
use crate::kernel::routes::{self, Action, Address, MarkRule, Neighbour, RouteEntry};
use crate::kernel::sysctl::{self, Setting};
use crate::kernel::{namespace, nft, tap};
use crate::program::MacAddress;
use crate::ruleset::{Observed, Ruleset};

/// Kinds of devices that the kernel puts into each namespace and that cannot be deleted.
const FALLBACK_KINDS: [&str; 9] = [
    "ipip", "sit", "gre", "gretap", "erspan", "vti", "vti6", "ip6tnl", "ip6gre",
];

/// Everything that a namespace is to be. Devices are named; indices are found while converging.
#[derive(Debug, Default)]
pub(crate) struct Desired {
    /// Set before anything else.
    pub(crate) settings: Vec<Setting>,
    /// Set after the ruleset, which loads the part of the kernel that has them.
    pub(crate) late_settings: Vec<Setting>,
    pub(crate) links: Vec<DesiredLink>,
    pub(crate) addresses: BTreeSet<(String, Ipv4Net)>,
    pub(crate) neighbours: BTreeSet<(String, Ipv4Addr, MacAddress)>,
    pub(crate) routes: BTreeSet<DesiredRoute>,
    pub(crate) rules: BTreeSet<MarkRule>,
    pub(crate) ruleset: Ruleset,
}

/// A device that is to be.
#[derive(Debug, Clone)]
pub(crate) struct DesiredLink {
    pub(crate) name: String,
    pub(crate) alias: String,
    pub(crate) mac: MacAddress,
    pub(crate) mtu: u32,
    pub(crate) origin: Origin,
    /// Settings of this device.
    pub(crate) settings: Vec<Setting>,
}

/// Where a device comes from if it is not there.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// A persistent tap.
    Tap,
    /// A veth whose far end waits in the same namespace, under this name, to be handed over.
    PortVeth { far_name: String, far_mac: MacAddress },
    /// A veth whose far end is in another namespace from the start.
    Transit { far_name: String, far_mac: MacAddress },
    /// Somebody else makes it; it is only kept if it is there.
    Elsewhere,
}

/// A route by device name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DesiredRoute {
    pub(crate) table: u32,
    pub(crate) destination: Ipv4Net,
    pub(crate) action: DesiredAction,
}

/// What a route does, by device name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DesiredAction {
    Send {
        device: String,
        gateway: Option<Ipv4Addr>,
        source: Option<Ipv4Addr>,
    },
    Unreachable,
    Blackhole,
}

/// A namespace after it was made equal.
#[derive(Debug)]
pub(crate) struct Converged {
    /// Whether anything had to be changed.
    pub(crate) changed: bool,
    /// Index of each device by name.
    pub(crate) devices: BTreeMap<String, u32>,
}

struct Work<'a> {
    desired: &'a Desired,
    netlink: Netlink,
    far_namespace: Option<BorrowedFd<'a>>,
    changed: bool,
}

/// Makes the calling thread's namespace equal to what is desired. `far_namespace` takes the far ends of transits.
pub(crate) fn converge(
    desired: &Desired,
    far_namespace: Option<BorrowedFd<'_>>,
) -> Result<Converged, VnetError> {
    let mut work = Work {
        desired,
        netlink: Netlink::route()?,
        far_namespace,
        changed: false,
    };
    work.settings(&desired.settings)?;
    let devices = work.links()?;
    let ruleset = desired.ruleset.clone().bind(|name| index(&devices, name))?;
    let observed = Observed::parse(&nft::list()?);
    if let Some(script) = ruleset.plan(&observed) {
        work.changed = true;
        nft::transact(&script)?;
    }
    work.settings(&desired.late_settings)?;
    for link in &desired.links {
        if devices.contains_key(&link.name) {
            work.settings(&link.settings)?;
        }
    }
    let wanted = Wanted::new(desired, &devices)?;
    work.addresses(&wanted)?;
    work.neighbours(&wanted)?;
    work.raise()?;
    work.routes(&wanted)?;
    work.rules()?;
    if work.changed {
        work.compare(&ruleset, &wanted, &devices)?;
    }
    Ok(Converged {
        changed: work.changed,
        devices,
    })
}

fn index(devices: &BTreeMap<String, u32>, name: &str) -> Result<u32, VnetError> {
    devices
        .get(name)
        .copied()
        .ok_or_else(|| VnetError::DeviceMissing {
            device: name.to_owned(),
        })
}

/// The wanted entries with device indices.
struct Wanted {
    addresses: BTreeSet<Address>,
    neighbours: BTreeSet<Neighbour>,
    routes: BTreeSet<RouteEntry>,
}

impl Wanted {
    /// Entries on a device that somebody else makes and has not made are left out.
    fn new(desired: &Desired, devices: &BTreeMap<String, u32>) -> Result<Wanted, VnetError> {
        let absent: BTreeSet<&str> = desired
            .links
            .iter()
            .filter(|link| matches!(link.origin, Origin::Elsewhere) && !devices.contains_key(&link.name))
            .map(|link| link.name.as_str())
            .collect();
        let addresses = desired.addresses.iter().map(|(device, address)| {
            Ok(Address {
                device: index(devices, device)?,
                address: *address,
            })
        });
        let neighbours = desired
            .neighbours
            .iter()
            .filter(|(device, ..)| !absent.contains(device.as_str()));
        let neighbours = neighbours.map(|(device, address, mac)| {
            Ok(Neighbour {
                device: index(devices, device)?,
                address: *address,
                mac: *mac,
            })
        });
        let routes = desired.routes.iter().filter(|route| match &route.action {
            DesiredAction::Send { device, .. } => !absent.contains(device.as_str()),
            _ => true,
        });
        let routes = routes.map(|route| {
            let action = match &route.action {
                DesiredAction::Send {
                    device,
                    gateway,
                    source,
                } => Action::Send {
                    device: index(devices, device)?,
                    gateway: *gateway,
                    source: *source,
                },
                DesiredAction::Unreachable => Action::Unreachable,
                DesiredAction::Blackhole => Action::Blackhole,
            };
            Ok(RouteEntry {
                table: route.table,
                destination: route.destination,
                action,
            })
        });
        Ok(Wanted {
            addresses: addresses.collect::<Result<_, VnetError>>()?,
            neighbours: neighbours.collect::<Result<_, VnetError>>()?,
            routes: routes.collect::<Result<_, VnetError>>()?,
        })
    }
}

impl Work<'_> {
    fn settings(&mut self, settings: &[Setting]) -> Result<(), VnetError> {
        for setting in settings {
            self.changed |= sysctl::ensure(setting)?;
        }
        Ok(())
    }

    /// Deletes the devices that are not wanted, makes those that are missing, and returns all indices.
    fn links(&mut self) -> Result<BTreeMap<String, u32>, VnetError> {
        let present = links::list(&mut self.netlink)?;
        let wrong: Vec<&Link> = present.iter().filter(|link| !self.keeps(link)).collect();
        for link in &wrong {
            match links::delete(&mut self.netlink, link) {
                Err(VnetError::Netlink { source, .. }) if source.raw_os_error() == Some(libc::ENODEV) => {}
                other => other?,
            }
            self.changed = true;
        }
        for link in &self.desired.links {
            let there = present
                .iter()
                .any(|one| one.name == link.name && !wrong.contains(&one));
            if !there && self.make(link)? {
                self.changed = true;
            }
        }
        let present = links::list(&mut self.netlink)?;
        for link in &self.desired.links {
            let Some(found) = present.iter().find(|found| found.name == link.name) else {
                continue;
            };
            let change = LinkChange {
                mac: (found.mac != Some(link.mac)).then_some(link.mac),
                mtu: (found.mtu != link.mtu).then_some(link.mtu),
                alias: (found.alias != link.alias).then_some(&link.alias),
                ..LinkChange::default()
            };
            if change.mac.is_some() || change.mtu.is_some() || change.alias.is_some() {
                links::change(&mut self.netlink, found.index, &change)?;
                self.changed = true;
            }
        }
        Ok(present.into_iter().map(|link| (link.name, link.index)).collect())
    }

    /// Whether a device that is there may stay: it is the kernel's own, or serves whom it should.
    fn keeps(&self, link: &Link) -> bool {
        if link.loopback || FALLBACK_KINDS.contains(&link.kind.as_str()) {
            return true;
        }
        self.desired.links.iter().any(|wanted| match &wanted.origin {
            Origin::Elsewhere | Origin::Transit { .. } => wanted.name == link.name && link.kind == "veth",
            Origin::Tap => wanted.name == link.name && link.kind == "tun" && link.alias == wanted.alias,
            Origin::PortVeth { far_name, .. } => {
                let near = wanted.name == link.name && link.alias == wanted.alias;
                link.kind == "veth" && (near || *far_name == link.name)
            }
        })
    }

    fn make(&mut self, link: &DesiredLink) -> Result<bool, VnetError> {
        let near = VethEnd {
            name: &link.name,
            mac: link.mac,
            namespace: None,
        };
        let (far_name, far_mac, namespace) = match &link.origin {
            Origin::Elsewhere => return Ok(false),
            Origin::Tap => {
                tap::make(&link.name)?;
                return self.label(link).map(|()| true);
            }
            Origin::PortVeth { far_name, far_mac } => (far_name, far_mac, None),
            Origin::Transit { far_name, far_mac } => {
                self.clear_far_end(far_name)?;
                (far_name, far_mac, self.far_namespace)
            }
        };
        let far = VethEnd {
            name: far_name,
            mac: *far_mac,
            namespace,
        };
        links::add_veth(&mut self.netlink, &near, &far, link.mtu)?;
        self.label(link).map(|()| true)
    }

    /// Deletes a transit's end whose other end is in a namespace that lost its name: the name is needed again.
    fn clear_far_end(&self, name: &str) -> Result<(), VnetError> {
        let Some(namespace) = self.far_namespace else {
            return Ok(());
        };
        namespace::run_in(namespace, name, || {
            let mut netlink = Netlink::route()?;
            match links::list(&mut netlink)?.iter().find(|link| link.name == name) {
                Some(stale) => links::delete(&mut netlink, stale),
                None => Ok(()),
            }
        })
    }

    /// Writes the alias as the first thing: a device without one is not known for whom it was made.
    fn label(&mut self, link: &DesiredLink) -> Result<(), VnetError> {
        let present = links::list(&mut self.netlink)?;
        let Some(found) = present.iter().find(|found| found.name == link.name) else {
            return Ok(());
        };
        let change = LinkChange {
            alias: Some(&link.alias),
            mac: Some(link.mac),
            ..LinkChange::default()
        };
        links::change(&mut self.netlink, found.index, &change)
    }

    fn raise(&mut self) -> Result<(), VnetError> {
        for link in links::list(&mut self.netlink)? {
            let wanted = link.loopback || self.desired.links.iter().any(|wanted| wanted.name == link.name);
            if wanted && !link.up {
                let change = LinkChange {
                    up: Some(true),
                    ..LinkChange::default()
                };
                links::change(&mut self.netlink, link.index, &change)?;
                self.changed = true;
            }
        }
        Ok(())
    }

    fn addresses(&mut self, wanted: &Wanted) -> Result<(), VnetError> {
        let present = routes::list_addresses(&mut self.netlink)?;
        for entry in present.difference(&wanted.addresses) {
            routes::delete_address(&mut self.netlink, *entry)?;
            self.changed = true;
        }
        for entry in wanted.addresses.difference(&present) {
            routes::add_address(&mut self.netlink, *entry)?;
            self.changed = true;
        }
        Ok(())
    }

    fn neighbours(&mut self, wanted: &Wanted) -> Result<(), VnetError> {
        let present = routes::list_neighbours(&mut self.netlink)?;
        let kept: BTreeSet<(u32, Ipv4Addr)> = wanted
            .neighbours
            .iter()
            .map(|entry| (entry.device, entry.address))
            .collect();
        for entry in present.difference(&wanted.neighbours) {
            if !kept.contains(&(entry.device, entry.address)) {
                routes::delete_neighbour(&mut self.netlink, *entry)?;
                self.changed = true;
            }
        }
        for entry in wanted.neighbours.difference(&present) {
            routes::replace_neighbour(&mut self.netlink, *entry)?;
            self.changed = true;
        }
        Ok(())
    }

    fn routes(&mut self, wanted: &Wanted) -> Result<(), VnetError> {
        let present = routes::list_routes(&mut self.netlink)?;
        let kept: BTreeSet<(u32, Ipv4Net)> = wanted
            .routes
            .iter()
            .map(|entry| (entry.table, entry.destination))
            .collect();
        let mut right = BTreeSet::new();
        for (entry, protocol) in present {
            if protocol == routes::PROTOCOL && wanted.routes.contains(&entry) {
                right.insert(entry);
            } else if protocol != routes::PROTOCOL || !kept.contains(&(entry.table, entry.destination)) {
                routes::delete_route(&mut self.netlink, entry, protocol)?;
                self.changed = true;
            }
        }
        for entry in wanted.routes.difference(&right) {
            routes::replace_route(&mut self.netlink, *entry)?;
            self.changed = true;
        }
        Ok(())
    }

    fn rules(&mut self) -> Result<(), VnetError> {
        let present = routes::list_rules(&mut self.netlink)?;
        for rule in present.difference(&self.desired.rules) {
            routes::delete_rule(&mut self.netlink, *rule)?;
            self.changed = true;
        }
        for rule in self.desired.rules.difference(&present) {
            routes::add_rule(&mut self.netlink, *rule)?;
            self.changed = true;
        }
        Ok(())
    }

    /// Reads everything back and compares. Devices that others made meanwhile are theirs to finish.
    fn compare(
        &mut self,
        ruleset: &Ruleset,
        wanted: &Wanted,
        devices: &BTreeMap<String, u32>,
    ) -> Result<(), VnetError> {
        let mut differences = ruleset.observed().differences(&Observed::parse(&nft::list()?));
        let mut check = |same: bool, what: &str| {
            if !same {
                differences.push(what.to_owned());
            }
        };
        check(
            routes::list_addresses(&mut self.netlink)? == wanted.addresses,
            "addresses",
        );
        check(
            routes::list_neighbours(&mut self.netlink)? == wanted.neighbours,
            "neighbours",
        );
        check(
            routes::list_rules(&mut self.netlink)? == self.desired.rules,
            "policy rules",
        );
        let present = routes::list_routes(&mut self.netlink)?;
        let ours = present.iter().all(|(_, protocol)| *protocol == routes::PROTOCOL);
        let present: BTreeSet<RouteEntry> = present.into_iter().map(|(entry, _)| entry).collect();
        check(ours && present == wanted.routes, "routes");
        for link in links::list(&mut self.netlink)? {
            if devices.get(&link.name) != Some(&link.index) {
                continue;
            }
            check(self.keeps(&link), &link.name);
            let wanted = self.desired.links.iter().find(|wanted| wanted.name == link.name);
            let same = wanted.is_none_or(|wanted| {
                link.mac == Some(wanted.mac)
                    && link.mtu == wanted.mtu
                    && link.alias == wanted.alias
                    && link.up
            });
            check(same, &link.name);
        }
        if differences.is_empty() {
            Ok(())
        } else {
            Err(VnetError::Drift { differences })
        }
    }
}
