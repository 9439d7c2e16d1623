//! The desired state of one network on this machine, and of the edge: plain values that cross a process border.
//!
//! Invariant: a program is complete. Whatever it does not name does not exist after `apply`, so there are no
//! partial updates, no events and nothing to lose. Equal programs compile to equal kernel objects. All strings are
//! identities only: none ever reaches a rule language (names in the kernel are numbers or digests).
//! Written by the planner (`node`), read by `check`, `compile` and the servers. What the words mean to a cloud API
//! is known elsewhere: here a *port* is an interface, a *group* a set of stateful rules.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

macro_rules! identity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps an identity; its length is judged with the program.
            pub fn new(id: impl Into<String>) -> $name {
                $name(id.into())
            }

            /// The identity as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(id: &str) -> $name {
                $name(id.to_owned())
            }
        }
    };
}

identity! {
    /// A virtual network: one namespace on each node that has a port of it.
    NetworkId
}
identity! {
    /// A port (interface) of a network.
    PortId
}
identity! {
    /// A group: a named set of stateful rules and the ports that carry it.
    GroupId
}
identity! {
    /// A subnet of a network.
    SubnetId
}

/// The age of a program. An engine that applied a younger one skips an older one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u64);

/// An Ethernet address, written `02:00:5e:10:00:01`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MacAddress(pub [u8; 6]);

/// The text is not six pairs of hexadecimal digits with colons.
#[derive(Debug, thiserror::Error)]
#[error("not an Ethernet address: {0:?}")]
pub struct MacAddressError(pub String);

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for MacAddress {
    type Err = MacAddressError;

    fn from_str(text: &str) -> Result<MacAddress, MacAddressError> {
        let wrong = || MacAddressError(text.to_owned());
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2).ok_or_else(wrong)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
        }
        if parts.next().is_some() {
            Err(wrong())
        } else {
            Ok(MacAddress(bytes))
        }
    }
}

impl TryFrom<String> for MacAddress {
    type Error = MacAddressError;

    fn try_from(text: String) -> Result<MacAddress, MacAddressError> {
        text.parse()
    }
}

impl From<MacAddress> for String {
    fn from(mac: MacAddress) -> String {
        mac.to_string()
    }
}

/// Everything that one network is on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkProgram {
    /// Which network.
    pub network: NetworkId,
    /// The age of this program.
    pub generation: Generation,
    /// The address blocks of the network; addresses in them are never routed outside.
    pub blocks: Vec<Ipv4Net>,
    /// The subnets that ports of this machine are in, or that their routes need.
    pub subnets: Vec<Subnet>,
    /// The route tables that the subnets name.
    pub tables: Vec<RouteTable>,
    /// The ports that live on this machine.
    pub ports: Vec<Port>,
    /// The groups that these ports carry, and those that their rules refer to.
    pub groups: Vec<Group>,
}

/// A part of a block. Its router answers on the first address after the network address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subnet {
    /// Which subnet.
    pub id: SubnetId,
    /// Its addresses.
    pub block: Ipv4Net,
    /// The number of the route table that its ports use.
    pub table: TableNumber,
}

impl Subnet {
    /// The router's address: network address plus one.
    pub fn router(&self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.block.network()).saturating_add(1))
    }
}

/// The number of a route table within its network, 1 to [`crate::limits::TABLE_NUMBER_MAX`]. The planner keeps it
/// stable while the table lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TableNumber(pub u32);

/// Where packets to addresses outside the network's blocks go; the longest prefix wins. What no route names is
/// dropped. The network's own blocks are always local and need no row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteTable {
    /// Its number.
    pub number: TableNumber,
    /// Its rows, one a destination.
    pub routes: Vec<Route>,
}

/// One row of a route table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The destinations that it is for.
    pub destination: Ipv4Net,
    /// Where they are sent.
    pub target: RouteTarget,
}

/// Where a route leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouteTarget {
    /// Through the edge, for ports that have a public address; packets of others are dropped.
    Internet,
    /// Nowhere: packets are dropped, also where a shorter prefix would lead somewhere.
    Blackhole,
}

/// An interface of a guest, as its network sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Which port.
    pub id: PortId,
    /// A number of its own on this machine while the port lives; the device is called after it.
    pub number: PortNumber,
    /// What is at the other end.
    #[serde(default)]
    pub kind: PortKind,
    /// The guest's Ethernet address: the only source that is let in.
    pub mac: MacAddress,
    /// The subnet of its address.
    pub subnet: SubnetId,
    /// Its primary address, the one that DHCP hands out.
    pub address: Ipv4Addr,
    /// Its public address: translated one to one at the network's border.
    #[serde(default)]
    pub public: Option<Ipv4Addr>,
    /// Its groups. None means closed.
    pub groups: Vec<GroupId>,
    /// Drop packets whose source or destination is not its own address. Without it the port may route.
    #[serde(default = "yes")]
    pub source_check: bool,
    /// What DHCP tells besides address, mask, router and MTU.
    #[serde(default)]
    pub dhcp: DhcpOptions,
    /// How its metadata service behaves.
    #[serde(default)]
    pub metadata: Metadata,
}

fn yes() -> bool {
    true
}

/// The number of a port on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PortNumber(pub u32);

/// What a port is made of. The path of a packet is the same for both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortKind {
    /// A persistent tap device for a virtual machine; see [`crate::Vnet::open_tap`].
    #[default]
    Tap,
    /// A veth pair whose far end goes into another namespace: ports of platform processes, and tests; see
    /// [`crate::Vnet::hand_over_veth`].
    Veth,
}

/// DHCP options of a port. Absent ones are not sent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DhcpOptions {
    /// Option 12.
    pub hostname: Option<String>,
    /// Option 15.
    pub domain: Option<String>,
    /// Option 6.
    pub resolvers: Vec<Ipv4Addr>,
    /// Option 42.
    pub time_servers: Vec<Ipv4Addr>,
}

/// The metadata path of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Metadata {
    /// Whether the port reaches the service at all.
    pub enabled: bool,
    /// The IP TTL of answers that must not travel further, 1 to 64; see
    /// [`crate::MetadataConnection::limit_hops`].
    pub hop_limit: u8,
}

impl Default for Metadata {
    fn default() -> Metadata {
        Metadata {
            enabled: true,
            hop_limit: 1,
        }
    }
}

/// A named set of stateful rules. A flow passes if any rule of any group of the sender lets it out and any rule of
/// any group of the receiver lets it in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Which group.
    pub id: GroupId,
    /// What its ports may receive.
    pub ingress: Vec<Rule>,
    /// What its ports may send.
    pub egress: Vec<Rule>,
    /// Addresses of its ports on other machines. Those of ports in this program are added by the compiler.
    #[serde(default)]
    pub remote_members: Vec<Ipv4Addr>,
}

/// One permission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Which packets.
    pub protocol: Protocol,
    /// From whom (ingress) or to whom (egress).
    pub peer: Peer,
}

/// The packets of a rule. Never wider than written: `Tcp` with ports 0 to 0 is port 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Every IPv4 packet.
    All,
    /// TCP to these destination ports.
    Tcp(PortRange),
    /// UDP to these destination ports.
    Udp(PortRange),
    /// ICMP of this type and code; absent means any.
    Icmp {
        /// The type.
        kind: Option<u8>,
        /// The code.
        code: Option<u8>,
    },
    /// Another protocol by its number, all of it.
    Number(u8),
}

/// Destination ports, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortRange {
    /// The lowest.
    pub from: u16,
    /// The highest.
    pub to: u16,
}

impl PortRange {
    /// All ports.
    pub const ALL: PortRange = PortRange {
        from: 0,
        to: u16::MAX,
    };

    /// One port.
    pub const fn one(port: u16) -> PortRange {
        PortRange { from: port, to: port }
    }
}

/// The other side of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// Addresses, private or public, as the flow's first packet carries them at the port.
    Block(Ipv4Net),
    /// The private addresses of the ports of a group of this network.
    Group(GroupId),
}

/// How this machine and the world outside reach the public addresses of all networks of the cloud. Which network
/// has which public address follows from the network programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeProgram {
    /// The age of this program.
    pub generation: Generation,
    /// The blocks that public addresses come from; the host routes them to the edge.
    pub pools: Vec<Ipv4Net>,
    /// The host's own address towards guests (a reserved address of a pool). Without it the kernel chooses one of
    /// the host's addresses.
    pub host_address: Option<Ipv4Addr>,
    /// Packets of public addresses that leave by one of the host's uplinks take the host's address. Turns on
    /// forwarding on our device and on the uplinks.
    pub masquerade: bool,
}
