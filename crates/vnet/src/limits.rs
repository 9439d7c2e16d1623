//! The named bounds of this crate: nothing that a program or a guest can grow is without one.
//!
//! Bounds on programs are checked by `check` before anything is touched. Used by every module.

use std::time::Duration;

/// Longest identity (network, port, group, subnet), bytes.
pub const IDENTITY_BYTES_MAX: usize = 128;
/// Longest cloud tag, bytes: `spx-<tag>` is an interface name of at most 15 bytes.
pub const CLOUD_TAG_BYTES_MAX: usize = 10;
/// Ports of one network on one machine.
pub const PORTS_MAX: usize = 4_096;
/// Groups in one program.
pub const GROUPS_MAX: usize = 10_000;
/// Rules of one group and direction.
pub const GROUP_RULES_MAX: usize = 1_000;
/// Groups of one port.
pub const PORT_GROUPS_MAX: usize = 16;
/// Address blocks of one network.
pub const BLOCKS_MAX: usize = 50;
/// Subnets of one network.
pub const SUBNETS_MAX: usize = 1_000;
/// Highest number of a route table. They are selected by a flat list of policy rules, which is walked linearly.
pub const TABLE_NUMBER_MAX: u32 = 256;
/// Routes of one table.
pub const TABLE_ROUTES_MAX: usize = 1_000;
/// Pools of the edge.
pub const POOLS_MAX: usize = 64;
/// Networks of one cloud on one machine.
pub const NETWORKS_MAX: u32 = 10_000;
/// Longest host or domain name in DHCP, bytes.
pub const DHCP_NAME_BYTES_MAX: usize = 253;
/// Addresses in one DHCP option.
pub const DHCP_ADDRESSES_MAX: usize = 4;
/// Length of a DHCP lease.
pub const DHCP_LEASE: Duration = Duration::from_secs(3_600);
/// Largest DHCP message that is read, bytes; longer ones are cut and do not parse.
pub const DHCP_MESSAGE_BYTES_MAX: usize = 1_500;
/// Metadata connections that are accepted and wait for the server, over all networks.
pub const METADATA_WAITING_MAX: usize = 256;
/// Smallest and largest MTU.
pub const MTU_RANGE: std::ops::RangeInclusive<u32> = 1_280..=9_198;
/// Size of the buffer that one netlink datagram must fit, bytes.
pub const NETLINK_DATAGRAM_BYTES_MAX: usize = 256 * 1024;
/// How long a netlink answer may take.
pub const NETLINK_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a netlink dump that was interrupted by a change is started again.
pub const NETLINK_DUMP_TRIES_MAX: usize = 16;
/// How long pause after an accept failed for want of descriptors.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Queries of one network's resolver in flight; more are dropped.
pub const DNS_QUERIES_MAX: usize = 512;
/// Connections of one network's resolver; more are closed.
pub const DNS_CONNECTIONS_MAX: usize = 64;
/// How long a resolver's connection may be idle.
pub const DNS_CONNECTION_IDLE: Duration = Duration::from_secs(10);
/// Largest DNS datagram, bytes.
pub const DNS_MESSAGE_BYTES_MAX: usize = 4_096;
/// Upstream resolvers that are asked.
pub const DNS_UPSTREAMS_MAX: usize = 4;
/// How long one may take.
pub const DNS_UPSTREAM_TIMEOUT: Duration = Duration::from_secs(2);
/// How long one that did not answer is left alone.
pub const DNS_UPSTREAM_PAUSE: Duration = Duration::from_secs(10);
/// How long the host's list of resolvers is used before it is read again.
pub const DNS_UPSTREAM_REREAD: Duration = Duration::from_secs(5);
/// How long a listener waits for its predecessor in this process to close.
pub const LISTEN_PATIENCE: Duration = Duration::from_secs(2);
/// Pause between tries meanwhile.
pub const LISTEN_PAUSE: Duration = Duration::from_millis(10);
