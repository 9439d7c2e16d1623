//! What can go wrong here, by what was attempted.

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use ipnet::Ipv4Net;

use crate::program::{GroupId, NetworkId, PortId, PortNumber, SubnetId, TableNumber};

/// A failure of this engine. The kernel keeps what it had, or a part of the new state that allows no more than both
/// programs do; applying again converges.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VnetError {
    /// The program contradicts itself or exceeds a bound; nothing was touched.
    #[error("the program cannot be applied")]
    Program(#[from] ProgramError),
    /// A namespace could not be handled.
    #[error("cannot {attempt} network namespace {name}")]
    Namespace {
        /// What was attempted.
        attempt: &'static str,
        /// Its name.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// The kernel refused a netlink request.
    #[error("cannot {attempt} {object}")]
    Netlink {
        /// What was attempted.
        attempt: &'static str,
        /// On what.
        object: String,
        /// Why.
        source: io::Error,
    },
    /// libnftables is missing or refused.
    #[error("cannot {attempt}: {message}")]
    Nftables {
        /// What was attempted.
        attempt: &'static str,
        /// The library's own text.
        message: String,
    },
    /// libnftables listed something that is not JSON.
    #[error("cannot read the ruleset's listing")]
    Listing {
        /// Why.
        source: serde_json::Error,
    },
    /// A network setting could not be read or written.
    #[error("cannot set net/{path}")]
    Setting {
        /// Path under `/proc/sys/net`.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A tap could not be made or attached to.
    #[error("cannot {attempt} {device}")]
    Tap {
        /// What was attempted.
        attempt: &'static str,
        /// The device.
        device: String,
        /// Why.
        source: io::Error,
    },
    /// The tap is attached already, by a guest that still runs.
    #[error("the tap {device} is in use")]
    TapBusy {
        /// The device.
        device: String,
    },
    /// A device that the program needs is not there.
    #[error("the device {device} does not exist")]
    DeviceMissing {
        /// The device.
        device: String,
    },
    /// The kernel does not read back as what was applied.
    #[error("the kernel differs from the program in: {}", differences.join(", "))]
    Drift {
        /// What differs.
        differences: Vec<String>,
    },
    /// A listener inside a namespace could not be opened.
    #[error("cannot listen for {service} in network namespace {namespace}")]
    Listen {
        /// Which service.
        service: &'static str,
        /// Where.
        namespace: String,
        /// Why.
        source: io::Error,
    },
    /// What is kept in the run directory could not be read or written.
    #[error("cannot keep {}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A record in the run directory does not parse.
    #[error("cannot read {}", path.display())]
    RecordFormat {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// Another engine holds the run directory.
    #[error("{} is in use by another process", path.display())]
    RunDirBusy {
        /// The run directory.
        path: PathBuf,
    },
    /// The cloud tag cannot be part of an interface name.
    #[error("the cloud tag {tag:?} is not 1 to 10 of a-z0-9")]
    CloudTag {
        /// The tag.
        tag: String,
    },
    /// No network of this identity is here.
    #[error("network {network} is not here")]
    NetworkUnknown {
        /// The network.
        network: NetworkId,
    },
    /// The network's last applied program has no such port, or one of the other kind.
    #[error("network {network} has no such port {port}")]
    PortUnknown {
        /// The network.
        network: NetworkId,
        /// The port.
        port: PortId,
    },
    /// Every number for a network is taken.
    #[error("this machine carries the most networks that it can")]
    NetworksExhausted,
    /// A worker thread ended without a result.
    #[error("a worker of the network engine panicked")]
    Worker,
}

/// What is wrong with a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// An identity is empty, too long or has control characters.
    #[error("the identity {0:?} cannot be used")]
    Identity(String),
    /// More of something than the bound of this name in `limits`.
    #[error("more {what} than {max}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The bound.
        max: usize,
    },
    /// Two things have the same identity, number or address.
    #[error("{what} {value} occurs twice")]
    Twice {
        /// What.
        what: &'static str,
        /// Which.
        value: String,
    },
    /// A port names a subnet that the program does not have.
    #[error("port {port} is in the unknown subnet {subnet}")]
    SubnetUnknown {
        /// The port.
        port: PortId,
        /// The subnet.
        subnet: SubnetId,
    },
    /// A port or rule names a group that the program does not have.
    #[error("the group {0} is named but not described")]
    GroupUnknown(GroupId),
    /// A subnet names a route table that the program does not have, or the number is out of range.
    #[error("the route table {0:?} is unknown or out of range")]
    TableUnknown(TableNumber),
    /// A subnet is outside the network's blocks, too small, or overlaps another.
    #[error("the subnet {0} is outside the network's blocks or overlaps another")]
    SubnetBlock(Ipv4Net),
    /// A port's address is outside its subnet or is one of the reserved ones.
    #[error("the address {address} cannot be that of port {port}")]
    Address {
        /// The port.
        port: PortId,
        /// The address.
        address: Ipv4Addr,
    },
    /// A number of a port that makes no device name.
    #[error("the port number {0:?} is out of range")]
    PortNumber(PortNumber),
    /// A multicast or all-zero Ethernet address.
    #[error("port {0} has an Ethernet address that is no guest's")]
    Mac(PortId),
    /// A rule or route that means nothing.
    #[error("port range {from} to {to} is empty")]
    PortRange {
        /// Lowest port.
        from: u16,
        /// Highest port.
        to: u16,
    },
    /// An ICMP code without a type.
    #[error("an ICMP code needs a type")]
    IcmpCode,
    /// A DHCP option that cannot be sent.
    #[error("port {0} has DHCP options that cannot be sent")]
    Dhcp(PortId),
    /// A hop limit outside 1 to 64.
    #[error("port {0} has a hop limit outside 1 to 64")]
    HopLimit(PortId),
    /// An MTU outside the bound.
    #[error("the MTU {0} is out of range")]
    Mtu(u32),
    /// A pool, public address or host address that cannot be used.
    #[error("the block {0} cannot be a pool")]
    Pool(Ipv4Net),
    /// The host's address is outside the pools.
    #[error("the host address {0} is in no pool")]
    HostAddress(Ipv4Addr),
}
