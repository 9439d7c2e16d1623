//! From programs to what the kernel is to be: pure, total on programs that `check` accepted, equal for equal input.
//!
//! The essay on the packet's way is in `network`; group rules are in `groups`; the border in `edge`. Nothing here
//! touches the kernel: `converge` does. Names in the kernel are made of numbers and digests only.

mod edge;
mod groups;
mod network;

pub(crate) use edge::{Host, edge, host, transit_name};
pub(crate) use network::{device_name, far_name, network, resolver_in, resolvers};

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use sha2::{Digest, Sha256};

use crate::kernel::sysctl::{Setting, setting};
use crate::program::MacAddress;

/// The metadata service.
pub(crate) const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
/// The resolver, in every network.
pub(crate) const RESOLVER: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 253);
/// Next hop towards the world, on every transit.
pub(crate) const OUTER: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
/// Next hop towards the guests, on every transit.
pub(crate) const INNER: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 2);
/// Ethernet address of the end of a transit that is nearer to the world.
pub(crate) const OUTER_MAC: MacAddress = MacAddress([0x02, 0x73, 0x70, 0x78, 0x00, 0x01]);
/// Ethernet address of the end of a transit that is nearer to the guests.
pub(crate) const INNER_MAC: MacAddress = MacAddress([0x02, 0x73, 0x70, 0x78, 0x00, 0x02]);
/// A network namespace's device towards the edge.
pub(crate) const UPLINK: &str = "up";
/// The edge namespace's device towards the host.
pub(crate) const HOSTLINK: &str = "host";
/// Our table in our namespaces.
pub(crate) const TABLE: &str = "vnet";

fn everything() -> Ipv4Net {
    Ipv4Net::default()
}

fn single(address: Ipv4Addr) -> Ipv4Net {
    Ipv4Net::from(address)
}

/// What the kernel puts on a loopback that goes up.
pub(crate) fn loopback() -> (String, Ipv4Net) {
    ("lo".to_owned(), Ipv4Net::new_assert(Ipv4Addr::LOCALHOST, 8))
}

/// A short name that stands for an identity.
fn short_digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part.as_bytes());
    }
    hex::encode(&hash.finalize()[..8])
}

/// What makes a namespace a router that trusts nobody: forwarding on, reverse-path filter off (our own checks are
/// stricter and some paths are asymmetric), no redirects either way, no IPv6.
fn router_settings() -> Vec<Setting> {
    let mut settings = vec![setting("ipv4/ip_forward", "1")];
    for scope in ["all", "default"] {
        for (name, value) in [
            ("rp_filter", "0"),
            ("send_redirects", "0"),
            ("accept_redirects", "0"),
        ] {
            settings.push(setting(format!("ipv4/conf/{scope}/{name}"), value));
        }
        let path = format!("ipv6/conf/{scope}/disable_ipv6");
        settings.push(Setting {
            path,
            value: "1",
            optional: true,
        });
    }
    settings
}
